//! Refusals as RFC 9457 problem details.

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::agent::service::ServiceError;
use crate::api::Problem;

/// A request that was not carried out.
#[derive(Debug)]
pub(super) struct Refusal {
    problem: Box<Problem>,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let problem = Problem {
            kind: kind.to_owned(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
        };
        Self { problem: Box::new(problem), header: None }
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    pub(super) fn bad_input(field: Option<String>, detail: impl Into<String>) -> Self {
        let mut refusal = Self::new(StatusCode::BAD_REQUEST, "/problems/bad-input", "The input is wrong", detail);
        refusal.problem.field = field;
        refusal
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "/problems/unauthorized",
            "A token is needed",
            "found no valid bearer token; send `Authorization: Bearer TOKEN` with the token of api.token_file",
        )
        .with(WWW_AUTHENTICATE, "Bearer")
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "/problems/forbidden", "Not allowed", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "/problems/not-found", "There is no such thing", detail)
    }

    pub(super) fn wrong_method(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "/problems/wrong-method", "The method is not allowed here", detail)
    }

    pub(super) fn too_slow(limit_s: u64) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "/problems/too-slow",
            "The body came too slowly",
            format!("it was not complete within {limit_s} s"),
        )
        .with(CONNECTION, "close")
    }

    /// The connection closes: what is left of the body is not read.
    pub(super) fn too_large(found: Option<u64>, limit: usize) -> Self {
        let found = found.map(|bytes| format!("found {bytes} bytes, ")).unwrap_or_default();
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "/problems/too-large",
            "The body is too large",
            format!("{found}allowed at most {limit} bytes"),
        )
        .with(CONNECTION, "close")
    }

    pub(super) fn wrong_type(found: &str) -> Self {
        let found: String = found.chars().take(80).collect();
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "/problems/wrong-type",
            "The body's type is not understood",
            format!("content-type: found {found:?}, allowed application/json"),
        )
    }

    pub(super) fn overloaded(what: &str, limit: usize) -> Self {
        Self::unavailable("/problems/overloaded", "Too much is waiting already", format!("{what}: {limit} at once"))
    }

    pub(super) fn not_ready() -> Self {
        Self::unavailable("/problems/not-ready", "Not ready", "this agent has not joined its mesh yet".to_owned())
    }

    fn unavailable(kind: &'static str, title: &'static str, detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, title, detail).with(RETRY_AFTER, "1")
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::BadInput { field, .. } => Self::bad_input(Some(field.to_owned()), error.to_string()),
            ServiceError::NotFound(detail) => Self::not_found(detail),
            ServiceError::Conflict(detail) => {
                Self::new(StatusCode::CONFLICT, "/problems/conflict", "Not in a state for this", detail)
            }
            ServiceError::Overloaded { what, limit } => Self::overloaded(what, limit),
            ServiceError::ShuttingDown => {
                Self::unavailable("/problems/shutting-down", "Shutting down", ServiceError::ShuttingDown.to_string())
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The answer to a path that does not exist.
pub(super) async fn no_such_path(uri: axum::http::Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::not_found(format!("found {path}; GET /v1/openapi.json lists the paths"))
}

/// The answer to a method that a path does not have; axum adds which it has.
pub(super) async fn no_such_method(method: axum::http::Method, uri: axum::http::Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::wrong_method(format!("found {method} {path}; the Allow header lists what is allowed"))
}
