//! The HTTP API: one server over the use cases of [`Service`]. Everything foreign is bounded:
//! connections, requests at once, bodies, lists, streams, and how long a client may take.

mod access;
mod body;
mod guard;
mod handlers;
mod listen;
mod problem;
mod routes;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::service::Service;
use crate::config::ApiConfig;
use crate::metrics::Metrics;

pub use access::Access;
pub use routes::route_list;

/// What one server bears at most.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections.
    pub connections: usize,
    /// Requests at once; further ones are answered 503.
    pub requests: usize,
    /// Event streams at once, both kinds together.
    pub streams: usize,
    /// Large bodies (samples, transfers) that are read at once.
    pub large_bodies: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a large body.
    pub large_body_bytes: usize,
    /// Samples in one report.
    pub samples: usize,
    /// Blocks of one transfer.
    pub blocks: usize,
    /// Entries of any other list.
    pub entries: usize,
    /// How long a client may take for a request's head, and may stay idle before it.
    pub head_timeout: Duration,
    /// How long a client may take for a request's body, or for a TLS handshake.
    pub body_timeout: Duration,
    /// How long requests under way may take once the server shuts down.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests: 1024,
            streams: 64,
            large_bodies: 32,
            body_bytes: 1 << 20,
            large_body_bytes: 16 << 20,
            samples: 10_000,
            blocks: 100_000,
            entries: 1_000,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// A server that cannot start, and why.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// An address or a socket cannot be listened on.
    #[error("{key}: cannot listen on {place}: {source}")]
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// The address or the path.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("{key}: {}: {detail}", path.display())]
    File {
        /// The key of the configuration.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What was found and what is allowed.
        detail: String,
    },
}

/// What every request shares.
pub(crate) struct Shared {
    service: Service,
    metrics: Arc<Metrics>,
    limits: Limits,
    access: RwLock<Arc<Access>>,
    requests: Semaphore,
    large_bodies: Semaphore,
    streams: Arc<Semaphore>,
    closing: CancellationToken,
}

impl Shared {
    fn new(service: Service, metrics: Arc<Metrics>, limits: Limits, access: Access) -> Self {
        Self {
            requests: Semaphore::new(limits.requests),
            large_bodies: Semaphore::new(limits.large_bodies),
            streams: Arc::new(Semaphore::new(limits.streams)),
            closing: CancellationToken::new(),
            service,
            metrics,
            limits,
            access: RwLock::new(access.into()),
        }
    }

    /// How clients are let in now.
    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running server.
pub struct ApiServer {
    address: SocketAddr,
    socket: Option<PathBuf>,
    shared: Arc<Shared>,
    listeners: JoinSet<()>,
}

/// Starts to listen and to answer.
///
/// # Errors
/// An address, a socket, the token file or the certificate cannot be used.
pub async fn serve(
    config: &ApiConfig,
    service: Service,
    metrics: Arc<Metrics>,
    limits: Limits,
) -> Result<ApiServer, ApiError> {
    let access = Access::load(config)?;
    let bind = |key, place: String| move |source| ApiError::Bind { key, place, source };
    let tcp = TcpListener::bind(config.bind).await.map_err(bind("api.bind", config.bind.to_string()))?;
    let address = tcp.local_addr().map_err(bind("api.bind", config.bind.to_string()))?;
    let unix = match &config.socket {
        Some(path) => Some(listen::bind_unix(path).await.map_err(bind("api.socket", path.display().to_string()))?),
        None => None,
    };

    let shared = Arc::new(Shared::new(service, metrics, limits, access));
    let connections = listen::Connections::new(routes::router(Arc::clone(&shared)), Arc::clone(&shared));
    let mut listeners = JoinSet::new();
    listeners.spawn(listen::accept_tcp(tcp, connections.clone()));
    if let Some(unix) = unix {
        listeners.spawn(listen::accept_unix(unix, connections));
    }
    Ok(ApiServer { address, socket: config.socket.clone(), shared, listeners })
}

impl ApiServer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets clients in this way from now on; connections that are open keep their certificate.
    pub fn set_access(&self, access: Access) {
        *self.shared.access.write().unwrap_or_else(PoisonError::into_inner) = access.into();
    }

    /// Takes no new connection, ends the event streams, lets requests under way finish within
    /// [`Limits::grace`], and closes what is left.
    pub async fn shutdown(mut self) {
        self.shared.closing.cancel();
        while self.listeners.join_next().await.is_some() {}
        if let Some(path) = &self.socket {
            // A leftover is replaced at the next start.
            let _ = tokio::fs::remove_file(path).await;
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}
