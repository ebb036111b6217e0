//! One handler a call: read, ask the service, answer.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::body::{at_most, json, large_json, optional_json, query, segment};
use super::problem::Refusal;
use crate::agent::service::DecisionFilter;
use crate::api::{CapacityReport, OverrideRequest, RouteRequest, SampleReport, TransferAnswer, TransferRequest};
use crate::model::{DecisionId, Outcome, WorkloadName};

type Api = State<Arc<Shared>>;
type Answer<T> = Result<Json<T>, Refusal>;

/// Decisions in one answer, unless the caller says.
const DECISIONS: usize = 100;

/// Decisions in one answer at most.
const MAX_DECISIONS: usize = 1000;

const OPENAPI: &str = include_str!("../../../docs/openapi.json");

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(api): Api) -> Result<&'static str, Refusal> {
    if api.service.ready() { Ok("ready\n") } else { Err(Refusal::not_ready()) }
}

pub(super) async fn metrics(State(api): Api) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.service.metrics_text())
}

pub(super) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

pub(super) async fn route(State(api): Api, request: Request) -> Result<Response, Refusal> {
    let traceparent = traceparent(request.headers());
    let request: RouteRequest = json(&api, request).await?;
    at_most("exclude", request.exclude.len(), api.limits.entries)?;
    Ok(raw_json(api.service.route(request, traceparent).await?))
}

/// The caller's W3C trace context. One that is malformed is left out, as that specification asks.
fn traceparent(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    (lengths == [2, 32, 16, 2] && parts.iter().all(hex)).then(|| text.into())
}

pub(super) async fn release_lease(State(api): Api, Path(id): Path<String>) -> Answer<impl Serialize> {
    Ok(Json(api.service.release_lease(segment("lease", &id)?).await?))
}

/// The body of `POST /v1/leases/{id}/renew`; may be left out.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Renewal {
    /// How much longer, counted from now; the configured time if absent.
    ttl_ms: Option<u64>,
}

pub(super) async fn renew_lease(State(api): Api, Path(id): Path<String>, request: Request) -> Answer<impl Serialize> {
    let id = segment("lease", &id)?;
    let Renewal { ttl_ms } = optional_json(&api, request).await?;
    Ok(Json(api.service.renew_lease(id, ttl_ms).await?))
}

pub(super) async fn cancel_request(State(api): Api, Path(id): Path<String>) -> Answer<impl Serialize> {
    Ok(Json(api.service.cancel_request(segment("request_id", &id)?).await?))
}

pub(super) async fn transfer(State(api): Api, request: Request) -> Result<Response, Refusal> {
    let request: TransferRequest = large_json(&api, request).await?;
    at_most("blocks", request.blocks.len(), api.limits.blocks)?;
    Ok(match api.service.transfer(request).await? {
        TransferAnswer::Ended(report) => Json(report).into_response(),
        TransferAnswer::Taken(chunk) => (StatusCode::ACCEPTED, Json(chunk)).into_response(),
    })
}

pub(super) async fn transfer_report(State(api): Api, Path(id): Path<String>) -> Answer<impl Serialize> {
    Ok(Json(api.service.transfer_report(segment("id", &id)?).await?))
}

pub(super) async fn samples(State(api): Api, request: Request) -> Answer<impl Serialize> {
    let samples: Vec<SampleReport> = large_json(&api, request).await?;
    at_most("samples", samples.len(), api.limits.samples)?;
    Ok(Json(api.service.samples(samples).await?))
}

pub(super) async fn capacity(State(api): Api, request: Request) -> Answer<impl Serialize> {
    let report: CapacityReport = json(&api, request).await?;
    at_most("adopted", report.adopted.as_ref().map_or(0, Vec::len), api.limits.samples)?;
    Ok(Json(api.service.capacity(report).await?))
}

pub(super) async fn drain(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.drain(true).await?))
}

pub(super) async fn undrain(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.drain(false).await?))
}

pub(super) async fn set_faults(State(api): Api, request: Request) -> Answer<impl Serialize> {
    let body: serde_json::Value = json(&api, request).await?;
    Ok(Json(api.service.set_faults(body).await?))
}

pub(super) async fn set_override(State(api): Api, request: Request) -> Answer<impl Serialize> {
    let request: OverrideRequest = json(&api, request).await?;
    Ok(Json(api.service.set_override(request).await?))
}

/// The query of `DELETE /v1/overrides`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideQuery {
    target: String,
}

pub(super) async fn withdraw_override(State(api): Api, uri: Uri) -> Answer<impl Serialize> {
    let OverrideQuery { target } = query(&uri)?;
    Ok(Json(api.service.withdraw_override(&target).await?))
}

pub(super) async fn overrides(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.overrides().await?))
}

pub(super) async fn status(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.status().await?))
}

pub(super) async fn members(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.members().await?))
}

pub(super) async fn paths(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.paths().await?))
}

pub(super) async fn leases(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.leases().await?))
}

pub(super) async fn records(State(api): Api) -> Answer<impl Serialize> {
    Ok(Json(api.service.records().await?))
}

/// The query of `GET /v1/decisions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionQuery {
    class: Option<WorkloadName>,
    outcome: Option<Outcome>,
    since: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn decisions(State(api): Api, uri: Uri) -> Result<Response, Refusal> {
    let DecisionQuery { class, outcome, since, limit } = query(&uri)?;
    let limit = limit.unwrap_or(DECISIONS);
    if !(1..=MAX_DECISIONS).contains(&limit) {
        return Err(Refusal::bad_input(
            Some("limit".to_owned()),
            format!("limit: found {limit}, allowed 1 to {MAX_DECISIONS}"),
        ));
    }
    let found = api.service.decisions(DecisionFilter { class, outcome, since, limit }).await?;
    let mut text = String::with_capacity(found.iter().map(|record| record.len() + 1).sum::<usize>() + 2);
    text.push('[');
    for (index, record) in found.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(record);
    }
    text.push(']');
    Ok(raw_json(text))
}

pub(super) async fn decision(State(api): Api, Path(id): Path<String>) -> Result<Response, Refusal> {
    let id: DecisionId = segment("id", &id)?;
    Ok(raw_json(api.service.decision(id.to_string()).await?))
}

/// Text that is JSON already, not copied.
fn raw_json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
}
