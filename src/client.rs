//! A small client of an agent's HTTP API, for `seamctl` and the demo: JSON over HTTP/1.1 on TCP or
//! a Unix socket, connections reused, answers bounded, errors that say where and why.

mod connection;
mod endpoint;
mod events;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::Problem;
use connection::Connection;
use endpoint::Endpoint;

pub use events::{Event, Events};

/// An answer is no larger than this many bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Idle connections kept at most.
const MAX_IDLE: usize = 32;

/// A call that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not one of an agent.
    #[error("{url:?} is not the URL of an agent: {detail}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong, and what is allowed.
        detail: String,
    },
    /// The agent could not be asked, or its answer broke off. The call may have taken effect.
    #[error("{url}: {detail}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong.
        detail: String,
    },
    /// The agent refused.
    #[error("{url}: {} ({}): {}", problem.title, problem.status, problem.detail)]
    Refused {
        /// What was asked.
        url: String,
        /// Its reason.
        problem: Box<Problem>,
    },
    /// The agent answered something else than its API says.
    #[error("{url}: not the answer of an agent: {detail}")]
    Unexpected {
        /// What was asked.
        url: String,
        /// What was found.
        detail: String,
    },
}

impl ClientError {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { problem, .. } => Some(problem.status),
            _ => None,
        }
    }
}

/// A client of one agent. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client of the agent at `url`: `http://host:port` or `unix:///path/of/socket`. `token` is the
    /// bearer token, where the agent asks for one. Calls take at most 60 seconds.
    ///
    /// # Errors
    /// The URL or the token cannot be used.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        let bad = |detail: String| ClientError::BadUrl { url: url.to_owned(), detail };
        let endpoint = Endpoint::parse(url).map_err(bad)?;
        let authorization = token
            .map(|token| {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                    .map_err(|_| bad("the token has characters that no header may have".to_owned()))?;
                value.set_sensitive(true);
                Ok(value)
            })
            .transpose()?;
        let timeout = Duration::from_secs(60);
        Ok(Self { inner: Arc::new(Inner { endpoint, authorization, timeout, idle: Mutex::default() }) })
    }

    /// `GET`; the answer as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::GET, path, None).await
    }

    /// `GET`; the answer as text.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let body = self.call(Method::GET, path, None).await?;
        String::from_utf8(body.to_vec()).map_err(|_| self.unexpected(&Method::GET, path, "it is not UTF-8".to_owned()))
    }

    /// `POST` with a JSON body; the answer as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = self.encode(&Method::POST, path, body)?;
        self.json(Method::POST, path, Some(body)).await
    }

    /// `POST` without a body; the answer as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::POST, path, None).await
    }

    /// `PUT` with a JSON body; the answer as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = self.encode(&Method::PUT, path, body)?;
        self.json(Method::PUT, path, Some(body)).await
    }

    /// `DELETE`; the answer as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::DELETE, path, None).await
    }

    /// Opens a stream of server-sent events (`/v1/events`, `/v1/arrivals`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn events(&self, path: &str) -> Result<Events, ClientError> {
        let url = self.url(path);
        let mut connection = self.connect(&Method::GET, path).await?;
        let request = self.request(Method::GET, path, None, "text/event-stream")?;
        let response = tokio::time::timeout(self.inner.timeout, connection.send(request))
            .await
            .map_err(|_| self.unreachable(&Method::GET, path, "no answer in time".to_owned()))?
            .map_err(|error| self.unreachable(&Method::GET, path, error))?;
        if response.status() == StatusCode::OK {
            return Ok(Events::new(url, response.into_body(), connection));
        }
        let status = response.status();
        let body = self.collect(&Method::GET, path, response).await?;
        Err(self.refusal(&Method::GET, path, status, &body))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<T, ClientError> {
        let answer = self.call(method.clone(), path, body).await?;
        serde_json::from_slice(&answer).map_err(|error| self.unexpected(&method, path, error.to_string()))
    }

    /// One call; the bytes of an answer that is a success.
    async fn call(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, ClientError> {
        let exchange = async {
            let response = self.exchange(&method, path, body).await?;
            let status = response.0.status();
            let answer = self.collect(&method, path, response.0).await?;
            self.keep(response.1);
            if status.is_success() { Ok(answer) } else { Err(self.refusal(&method, path, status, &answer)) }
        };
        match tokio::time::timeout(self.inner.timeout, exchange).await {
            Ok(result) => result,
            Err(_) => {
                Err(self.unreachable(&method, path, format!("no answer within {} s", self.inner.timeout.as_secs())))
            }
        }
    }

    /// Sends on an idle connection, or on a new one where none is left alive. A server may close an
    /// idle connection at any moment: a request that was not sent at all is sent again.
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let idle = || self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(mut connection) = idle() {
            if !connection.ready().await {
                continue;
            }
            let request = self.request(method.clone(), path, body.clone(), "application/json")?;
            match connection.try_send(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(Some(error)) => return Err(self.unreachable(method, path, error)),
                Err(None) => {}
            }
        }
        let mut connection = self.connect(method, path).await?;
        let request = self.request(method.clone(), path, body, "application/json")?;
        let response = connection.send(request).await.map_err(|error| self.unreachable(method, path, error))?;
        Ok((response, connection))
    }

    async fn connect(&self, method: &Method, path: &str) -> Result<Connection, ClientError> {
        Connection::open(&self.inner.endpoint).await.map_err(|detail| self.unreachable(method, path, detail))
    }

    async fn collect(&self, method: &Method, path: &str, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let limited = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
        match limited.collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => Err(self.unreachable(method, path, format!("the answer broke off: {error}"))),
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE && connection.is_open() {
            idle.push(connection);
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        accept: &'static str,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(HOST, self.inner.endpoint.host())
            .header(ACCEPT, accept);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.inner.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| ClientError::BadUrl { url: self.url(path), detail: error.to_string() })
    }

    fn encode(&self, method: &Method, path: &str, body: &impl Serialize) -> Result<Bytes, ClientError> {
        match serde_json::to_vec(body) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(self.unexpected(method, path, format!("the request cannot be written: {error}"))),
        }
    }

    fn refusal(&self, method: &Method, path: &str, status: StatusCode, body: &[u8]) -> ClientError {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => ClientError::Refused { url: self.named(method, path), problem: Box::new(problem) },
            Err(_) => {
                let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
                self.unexpected(method, path, format!("{status} {text}"))
            }
        }
    }

    fn unreachable(&self, method: &Method, path: &str, detail: String) -> ClientError {
        ClientError::Unreachable { url: self.named(method, path), detail }
    }

    fn unexpected(&self, method: &Method, path: &str, detail: String) -> ClientError {
        ClientError::Unexpected { url: self.named(method, path), detail }
    }

    fn named(&self, method: &Method, path: &str) -> String {
        format!("{method} {}", self.url(path))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.inner.endpoint)
    }
}

/// One segment of a path, escaped.
#[must_use]
pub fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
