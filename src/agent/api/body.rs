//! Bodies, queries and segments of paths, read with bounds and refused with the field at fault.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::Shared;
use super::problem::Refusal;
use crate::config::unknown_key;

/// A JSON body of ordinary size.
pub(super) async fn json<T: DeserializeOwned>(shared: &Shared, request: Request) -> Result<T, Refusal> {
    let bytes = read(shared, request, shared.limits.body_bytes).await?;
    parse(&bytes)
}

/// A JSON body of ordinary size, or none.
pub(super) async fn optional_json<T: DeserializeOwned + Default>(
    shared: &Shared,
    request: Request,
) -> Result<T, Refusal> {
    if !request.headers().contains_key(CONTENT_TYPE) {
        // Without a type only an empty body makes sense; one byte more is refused.
        collect(shared, request.into_body(), 0).await.map_err(|_| Refusal::wrong_type(""))?;
        return Ok(T::default());
    }
    json(shared, request).await
}

/// A large JSON body; few are in memory at once.
pub(super) async fn large_json<T: DeserializeOwned>(shared: &Arc<Shared>, request: Request) -> Result<T, Refusal> {
    let Ok(_place) = shared.large_bodies.try_acquire() else {
        shared.metrics.dropped("api_large_bodies");
        return Err(Refusal::overloaded("large bodies", shared.limits.large_bodies));
    };
    let bytes = read(shared, request, shared.limits.large_body_bytes).await?;
    parse(&bytes)
}

/// The query, every key known.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    match axum::extract::Query::<T>::try_from_uri(uri) {
        Ok(query) => Ok(query.0),
        Err(rejection) => {
            let text = rejection.body_text();
            let message = text.split_once("query string: ").map_or(text.as_str(), |(_, message)| message);
            Err(match unknown(message) {
                Some((field, detail)) => Refusal::bad_input(Some(field), detail),
                None => Refusal::bad_input(message.split_once(": ").map(|(field, _)| field.to_owned()), message),
            })
        }
    }
}

/// One segment of the path.
pub(super) fn segment<T: std::str::FromStr<Err = crate::model::InvalidName>>(
    field: &str,
    text: &str,
) -> Result<T, Refusal> {
    text.parse()
        .map_err(|error: crate::model::InvalidName| Refusal::bad_input(Some(field.to_owned()), error.to_string()))
}

/// Refuses a list that is too long.
pub(super) fn at_most(field: &str, found: usize, limit: usize) -> Result<(), Refusal> {
    if found <= limit {
        return Ok(());
    }
    Err(Refusal::bad_input(Some(field.to_owned()), format!("{field}: found {found} entries, allowed at most {limit}")))
}

async fn read(shared: &Shared, request: Request, limit: usize) -> Result<Bytes, Refusal> {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::wrong_type(kind));
    }
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > limit as u64) {
        return Err(Refusal::too_large(announced, limit));
    }
    collect(shared, request.into_body(), limit).await
}

async fn collect(shared: &Shared, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let timeout = shared.limits.body_timeout;
    match tokio::time::timeout(timeout, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large(None, limit)),
        Ok(Err(error)) => Err(Refusal::bad_input(None, format!("the body broke off: {error}"))),
        Err(_) => Err(Refusal::too_slow(timeout.as_secs())),
    }
}

/// Parses fast, and once more for the place of an error where there is one.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|first| {
        let place = format!("line {} column {}", first.line(), first.column());
        let deserializer = &mut serde_json::Deserializer::from_slice(bytes);
        let (path, message) = match serde_path_to_error::deserialize::<_, T>(deserializer) {
            Err(error) => (error.path().to_string(), error.inner().to_string()),
            Ok(_) => (".".to_owned(), first.to_string()),
        };
        let message = message.split(" at line ").next().unwrap_or(&message);
        let path = Some(path).filter(|path| path != "." && path != "?");
        if let Some((field, detail)) = unknown(message) {
            return Refusal::bad_input(Some(path.unwrap_or(field)), format!("{detail}, {place}"));
        }
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let field = match (path, missing) {
            (Some(path), Some(missing)) => Some(format!("{path}.{missing}")),
            (path, missing) => path.or_else(|| missing.map(str::to_owned)),
        };
        let named = field.as_ref().filter(|_| missing.is_none()).map(|field| format!("{field}: ")).unwrap_or_default();
        Refusal::bad_input(field, format!("{named}{message}, {place}"))
    })
}

/// The name and the words for a field that serde does not know.
fn unknown(message: &str) -> Option<(String, String)> {
    let rest = message.split_once("unknown field ")?.1;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let name = quoted.next()?.to_owned();
    let known: Vec<&str> = quoted.collect();
    let detail = unknown_key(&name, &known);
    Some((name, detail))
}
