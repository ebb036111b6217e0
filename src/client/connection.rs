//! One HTTP/1.1 connection.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::endpoint::Endpoint;

/// An open connection; closes when dropped.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
}

impl Connection {
    /// Connects, or says in words why not.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot connect: {error}");
        match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(failed)?;
                // A request is one small write; waiting for more would only delay it.
                stream.set_nodelay(true).map_err(failed)?;
                Self::over(stream).await
            }
            Endpoint::Unix(path) => Self::over(UnixStream::connect(path).await.map_err(failed)?).await,
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, String> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| format!("cannot connect: {error}"))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told of the error; nobody else needs it.
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Whether the next request can be sent.
    pub(super) async fn ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        self.sender.send_request(request).await.map_err(|error| describe(&error))
    }

    /// As [`Connection::send`]; `Err(None)` when nothing of the request was sent.
    pub(super) async fn try_send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Option<String>> {
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                Some(_unsent) => Err(None),
                None => Err(Some(describe(error.error()))),
            },
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// hyper's errors keep the reason in their source.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
