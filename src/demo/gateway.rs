//! One request from its prompt to its delivery: a prefill engine fills its arena, a gateway asks
//! for a route, Seam moves the bytes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::book::Book;
use super::plan::Plan;
use super::source::{Slot, Source, key};
use super::summary::{Moved, Observation, Routed, is_degraded};
use crate::api::{Done, RouteRequest, TransferReport, TransferRequest, TransferResult};
use crate::client::{Client, ClientError, segment};
use crate::model::{Extent, Lease, ModelName, Outcome, PathId, RequestId, WorkloadName};
use crate::policy::record::DecisionRecord;

/// How often a route is asked for while the agent says that it is too busy.
const ROUTE_TRIES: u32 = 5;
/// A busy agent is asked again after this long.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const BUSY: Option<u16> = Some(503);

/// Everything that requests share.
pub(crate) struct Gateway {
    /// The API and the engine of each prefill host.
    pub(crate) prefill: Vec<(Client, Arc<Source>)>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) book: Arc<Book>,
    pub(crate) model: Option<ModelName>,
    pub(crate) seed: u64,
    pub(crate) counts: Counts,
    /// How often each path was chosen.
    pub(crate) used: Mutex<BTreeMap<PathId, u64>>,
}

/// For the progress line.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) in_flight: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) delivered: AtomicU64,
}

impl Gateway {
    /// Serves the run's n-th request, and says what was seen of it.
    pub(crate) async fn serve(&self, index: usize) -> Option<Observation> {
        let planned = self.plan.requests.get(index)?;
        let mut seen = Observation { class: planned.class, routed: None, moved: None, error: None };
        self.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.try_serve(index, &mut seen).await {
            seen.error = Some(error);
        }
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.counts.finished.fetch_add(1, Ordering::Relaxed);
        Some(seen)
    }

    async fn try_serve(&self, index: usize, seen: &mut Observation) -> Result<(), String> {
        let unplanned = || format!("request {index} is not in the plan");
        let planned = self.plan.requests.get(index).ok_or_else(unplanned)?;
        let (client, source) = self.prefill.get(planned.prefill).ok_or_else(unplanned)?;
        let request_id = self.book.request_id(index).ok_or_else(unplanned)?;
        let slot = source.slot().await.ok_or("the prefill engine is gone")?;
        let (_slot, blocks) = self.prefill(slot, index, planned.kv_bytes).await?;

        let asked = Instant::now();
        let question = RouteRequest {
            workload: WorkloadName::new(planned.class.as_str()).map_err(|error| error.to_string())?,
            kv_bytes: planned.kv_bytes,
            request_id: Some(request_id.clone()),
            model: self.model.clone(),
            source: None,
            exclude: Vec::new(),
            transfer_budget_ms: None,
            dry_run: false,
        };
        let record = route(client, &question).await.map_err(|error| error.to_string())?;
        if let Some(lease) = &record.lease {
            self.book.granted(lease);
        }
        let routed = routed(&record, self.book.now_ms());
        if let Some((path, _)) = &routed.chosen {
            *self.used.lock().unwrap_or_else(PoisonError::into_inner).entry(path.clone()).or_default() += 1;
        }
        seen.routed = Some(routed);
        let Some(lease) = record.lease else { return Ok(()) };

        let (moved, error) = self.transfer(client, &request_id, lease, blocks, asked).await;
        if moved.delivered {
            self.counts.delivered.fetch_add(1, Ordering::Relaxed);
        }
        seen.moved = Some(moved);
        error.map_or(Ok(()), Err)
    }

    /// Writes the request's bytes, as the prefill engine does; the slot stays in use.
    async fn prefill(&self, slot: Slot, index: usize, bytes: u64) -> Result<(Slot, Vec<Extent>), String> {
        let key = key(self.seed, index);
        let filled = tokio::task::spawn_blocking(move || (slot.fill(&key, bytes), slot)).await;
        let (filled, slot) = filled.map_err(|error| error.to_string())?;
        let (blocks, hash) = filled.map_err(|error| error.to_string())?;
        self.book.wrote(index, hash);
        Ok((slot, blocks))
    }

    async fn transfer(
        &self,
        client: &Client,
        request_id: &RequestId,
        lease: Lease,
        blocks: Vec<Extent>,
        asked: Instant,
    ) -> (Moved, Option<String>) {
        let begun = Instant::now();
        let request = TransferRequest { lease: lease.id.clone(), blocks, chunk: None };
        let answer: Result<TransferReport, ClientError> = client.post("/v1/transfers", &request).await;
        let elapsed_ms = asked.elapsed().as_secs_f64() * 1_000.0;
        let failed = Moved { delivered: false, verified: false, bytes: 0, elapsed_ms };
        let error = match answer {
            Ok(report) if report.result == TransferResult::Delivered => {
                let moved = Moved { delivered: true, bytes: report.bytes, ..failed };
                match report.lease {
                    Some(last) if last.id == lease.id => {}
                    Some(last) => {
                        self.book.ended_since(&lease.id, begun);
                        self.book.granted(&last);
                    }
                    None => self.book.ended_since(&lease.id, begun),
                }
                return (moved, None);
            }
            Ok(report) => describe(&report),
            Err(error) => error.to_string(),
        };
        self.book.ended_since(&lease.id, begun);
        // Whatever is left of it on either side is freed, as a gateway that gives up does.
        let path = format!("/v1/requests/{}", segment(request_id.as_str()));
        match client.delete::<Done>(&path).await {
            Ok(_) => (failed, Some(error)),
            Err(second) => (failed, Some(format!("{error}; {second}"))),
        }
    }
}

async fn route(client: &Client, question: &RouteRequest) -> Result<DecisionRecord, ClientError> {
    let mut tries_left = ROUTE_TRIES;
    loop {
        tries_left -= 1;
        match client.post("/v1/route", question).await {
            Err(error) if error.status() == BUSY && tries_left > 0 => tokio::time::sleep(RETRY_AFTER).await,
            answer => return answer,
        }
    }
}

/// What the summary needs of a decision record.
fn routed(record: &DecisionRecord, at_ms: f64) -> Routed {
    let chosen = record.candidates.iter().find(|candidate| candidate.chosen);
    Routed {
        decision: record.id.to_string(),
        at_ms,
        outcome: record.outcome,
        chosen: chosen.and_then(|candidate| Some((candidate.target.path.clone()?, candidate.path_state))),
        degraded_candidate: record.candidates.iter().any(|candidate| is_degraded(candidate.path_state)),
        source: record.id.node.to_string(),
        refusals: match record.outcome {
            Outcome::NoAdmissiblePool => record.candidates.iter().map(|candidate| candidate.code).collect(),
            _ => Vec::new(),
        },
    }
}

fn describe(report: &TransferReport) -> String {
    let last = report.attempts.last();
    let path = last.map_or_else(|| "no path".to_owned(), |attempt| attempt.path.to_string());
    let error = last.and_then(|attempt| attempt.error.as_deref()).unwrap_or("no reason given");
    format!("{}: {} attempts, the last on {path}: {error}", report.request_id, report.attempts.len())
}
