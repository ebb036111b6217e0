//! What a request must pass before its handler: a token, room, and not coming from a web page.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ring::hmac;
use ring::rand::SystemRandom;

use super::problem::Refusal;
use super::{ApiError, Shared};

/// A token has at least so many bytes.
const MIN_TOKEN_BYTES: usize = 16;

/// A token file has at most so many bytes.
const MAX_TOKEN_BYTES: u64 = 4096;

/// The bearer token, kept as a tag under a random key: comparing tags takes the same time whatever
/// is presented.
pub(super) struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

impl Token {
    pub(super) fn load(path: &Path) -> Result<Self, ApiError> {
        let unusable = |detail: String| ApiError::File { key: "api.token_file", path: path.to_owned(), detail };
        let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?.len();
        if size > MAX_TOKEN_BYTES {
            return Err(unusable(format!("found {size} bytes, allowed at most {MAX_TOKEN_BYTES}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        Self::new(text.trim()).map_err(unusable)
    }

    fn new(token: &str) -> Result<Self, String> {
        if token.len() < MIN_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "found a token of {} bytes, allowed at least {MIN_TOKEN_BYTES} printable ASCII characters without space",
                token.len()
            ));
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the system gives no random numbers".to_owned())?;
        let tag = hmac::sign(&key, token.as_bytes());
        Ok(Self { key, tag })
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        presented.is_some_and(|token| hmac::verify(&self.key, token.as_bytes(), self.tag.as_ref()).is_ok())
    }
}

/// Runs around every handler but those of `/healthz` and `/readyz`.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    // Only browsers send it. The API is not for web pages, and a page that somebody happens to
    // have open must not drain a host.
    if headers.contains_key(ORIGIN) {
        return Refusal::forbidden("requests of web pages (with an Origin header) are refused").into_response();
    }
    if shared.access().token.as_ref().is_some_and(|token| !token.is_in(headers)) {
        return Refusal::unauthorized().into_response();
    }
    let Ok(_place) = shared.requests.try_acquire() else {
        shared.metrics.dropped("api_requests");
        return Refusal::overloaded("requests", shared.limits.requests).into_response();
    };
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::new("0123456789abcdef").unwrap();
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert!(token.is_in(&with("Bearer 0123456789abcdef")));
        assert!(token.is_in(&with("bearer 0123456789abcdef")));
        for value in ["Bearer 0123456789abcde", "Bearer 0123456789abcdefg", "Basic 0123456789abcdef", "Bearer", ""] {
            assert!(!token.is_in(&with(value)), "{value}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn a_short_or_unprintable_token_is_refused() {
        for token in ["", "short", "0123456789abc def"] {
            assert!(Token::new(token).is_err_and(|detail| detail.contains("at least 16")), "{token}");
        }
    }
}
