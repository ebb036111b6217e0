//! Sockets to connections, connections to requests.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Shared;

/// Bytes of a request's head at most, and of hyper's read buffer.
const HEAD_BYTES: usize = 64 * 1024;

/// Bytes that were sent and not acknowledged for so long mean that nobody is there.
const DEAD_PEER: Duration = Duration::from_secs(60);

/// How a connection is served, and how many there may be.
#[derive(Clone)]
pub(super) struct Connections {
    router: Router,
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
}

impl Connections {
    pub(super) fn new(router: Router, shared: Arc<Shared>) -> Self {
        let room = Arc::new(Semaphore::new(shared.limits.connections));
        Self { router, shared, room }
    }

    /// A place for one more connection; beyond the limit it is closed at once and counted.
    fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.room).try_acquire_owned().ok();
        if place.is_none() {
            self.shared.metrics.dropped("api_connections");
        }
        place
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, _place: OwnedSemaphorePermit) {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.shared.limits.head_timeout)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router));
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            // Broken connections are the client's affair.
            _ = connection.as_mut() => return,
            () = self.shared.closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = tokio::time::timeout(self.shared.limits.grace, connection).await;
    }
}

/// Accepts until the server shuts down, then waits for the connections.
pub(super) async fn accept_tcp(listener: TcpListener, connections: Connections) {
    let mut tasks = JoinSet::new();
    while let Some(stream) = next(&connections, &mut tasks, || listener.accept()).await {
        let stream: TcpStream = stream;
        let Some(place) = connections.admit() else { continue };
        // Answers are single writes; a dead client must not hold its place.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(DEAD_PEER));
        let connections = connections.clone();
        // The certificate of now: connections that are open keep theirs.
        match connections.shared.access().tls.clone() {
            None => {
                tasks.spawn(connections.serve(stream, place));
            }
            Some(tls) => {
                let limit = connections.shared.limits.body_timeout;
                tasks.spawn(async move {
                    if let Ok(Ok(stream)) = tokio::time::timeout(limit, tls.accept(stream)).await {
                        connections.serve(stream, place).await;
                    }
                });
            }
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// As [`accept_tcp`].
pub(super) async fn accept_unix(listener: UnixListener, connections: Connections) {
    let mut tasks = JoinSet::new();
    while let Some(stream) = next(&connections, &mut tasks, || listener.accept()).await {
        let stream: UnixStream = stream;
        let Some(place) = connections.admit() else { continue };
        tasks.spawn(connections.clone().serve(stream, place));
    }
    while tasks.join_next().await.is_some() {}
}

/// The next accepted stream; `None` once the server shuts down. Reaps what has ended meanwhile.
async fn next<S, A, F>(connections: &Connections, tasks: &mut JoinSet<()>, mut accept: impl FnMut() -> F) -> Option<S>
where
    F: Future<Output = io::Result<(S, A)>>,
{
    loop {
        tokio::select! {
            () = connections.shared.closing.cancelled() => return None,
            Some(_) = tasks.join_next() => {}
            accepted = accept() => match accepted {
                Ok((stream, _)) => return Some(stream),
                Err(error) => {
                    // Most often there are no descriptors left: wait for some to be closed.
                    connections.shared.metrics.dropped("api_connections");
                    tracing::warn!(%error, "the API cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

/// Listens on a Unix socket that its owner and group may use. A leftover of an agent that is no
/// more is replaced; the socket of one that still answers is not.
pub(super) async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let left_over = || {
        std::fs::symlink_metadata(path).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt;
            found.file_type().is_socket()
        })
    };
    if left_over() {
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process answers there"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}
