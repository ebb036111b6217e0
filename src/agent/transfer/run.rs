//! One transfer: attempt after attempt, wherever the policy says next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Move;
use crate::agent::links::Links;
use crate::agent::policy::Answer;
use crate::agent::probe::outcome;
use crate::agent::rails::{Rail, peer};
use crate::agent::service::ServiceError;
use crate::api::{TransferAttempt, TransferReport, TransferResult};
use crate::health::{Sample, SampleKind, SampleOutcome};
use crate::metrics::{Direction, MoveResult};
use crate::model::LeaseId;
use crate::policy::{Input, Plan, TransferProblem};
use crate::transport::{Blocks, PathError, Write, Written};

/// A shorter deadline says nothing about a path, however few bytes it was for.
const MIN_FAIR_DEADLINE: Duration = Duration::from_millis(100);
/// How often the policy is told that a transfer waits for its source: often enough that no lease ends
/// meanwhile.
const WAITS_TOLD: Duration = Duration::from_millis(500);

/// Waits until the attempt on `lease` is told to stop; says whether the request is cancelled.
async fn stopped(stop: &mut watch::Receiver<Option<(LeaseId, bool)>>, lease: &LeaseId) -> bool {
    let told = stop.wait_for(|stop| stop.as_ref().is_some_and(|(stopped, _)| stopped == lease)).await;
    let cancelled = told.map(|stop| stop.as_ref().is_some_and(|(_, cancelled)| *cancelled)).ok();
    match cancelled {
        Some(cancelled) => cancelled,
        // Nobody can stop it any more.
        None => std::future::pending().await,
    }
}

pub(super) async fn run(
    links: &Links,
    moves: Move,
    mut stop: watch::Receiver<Option<(LeaseId, bool)>>,
) -> Result<TransferReport, ServiceError> {
    let begun = Instant::now();
    let (id, lease, bytes) = (moves.lease.clone(), moves.lease.clone(), moves.bytes());
    let mut plan = ask(links, move |key| Input::TransferStart { key, lease, bytes }).await??;
    let silence_max = moves.silence_max;
    let source = Source { silence_max, blocks: moves.blocks(&plan.lease), told_ms: AtomicU64::new(0) };
    let bytes = source.blocks.bytes();
    let mut attempts = Vec::new();
    let report = |plan: &Plan, attempts: Vec<TransferAttempt>, result: TransferResult, hash: Option<[u8; 32]>| {
        let landed = matches!(result, TransferResult::Delivered);
        TransferReport {
            id: id.clone(),
            request_id: plan.request_id.clone(),
            result,
            attempts,
            lease: landed.then(|| plan.lease.clone()),
            bytes: if landed { bytes } else { 0 },
            hash: hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string()),
            elapsed_ms: millis(begun.elapsed()),
        }
    };
    loop {
        let start = Instant::now();
        let ended = attempt(links, &plan, &source, &mut stop).await;
        let lease = plan.lease.id.clone();
        let mut line = TransferAttempt {
            decision: plan.decision.to_string(),
            path: plan.path.id.clone(),
            lease: lease.clone(),
            result: TransferResult::Failed,
            error: None,
            elapsed_ms: millis(start.elapsed()),
        };
        match ended {
            Attempt::Ended(Ok(written)) => {
                links.tell_policy(Input::TransferEnded { lease, delivered: true });
                line.result = TransferResult::Delivered;
                attempts.push(line);
                return Ok(report(&plan, attempts, TransferResult::Delivered, Some(written.hash)));
            }
            Attempt::Cancelled => {
                links.tell_policy(Input::TransferEnded { lease, delivered: false });
                line.result = TransferResult::Cancelled;
                attempts.push(line);
                return Ok(report(&plan, attempts, TransferResult::Cancelled, None));
            }
            Attempt::Silent => {
                // Another path would wait for the same.
                links.tell_policy(Input::TransferEnded { lease, delivered: false });
                let silence = humantime::format_duration(source.silence_max);
                line.error = Some(format!("the next chunk did not come within transfer.lease_ttl, {silence}"));
                attempts.push(line);
                return Ok(report(&plan, attempts, TransferResult::Failed, None));
            }
            Attempt::Ended(Err(error)) => {
                let detail: Arc<str> = error.to_string().into();
                line.error = Some(detail.to_string());
                attempts.push(line);
                let next = match ask(links, move |key| Input::TransferFailed { key, lease, detail }).await {
                    Ok(next) => next,
                    // It cannot be asked: what was tried is reported all the same.
                    Err(error) => Err(TransferProblem::Exhausted(error.to_string())),
                };
                match next {
                    Ok(next) => plan = next,
                    Err(TransferProblem::Cancelled) => {
                        return Ok(report(&plan, attempts, TransferResult::Cancelled, None));
                    }
                    Err(problem) => {
                        tracing::warn!(request = %plan.request_id, %problem, "transfer failed");
                        if let Some(last) = attempts.last_mut() {
                            let error = last.error.take().unwrap_or_default();
                            last.error = Some(format!("{error}; {problem}"));
                        }
                        return Ok(report(&plan, attempts, TransferResult::Failed, None));
                    }
                }
            }
        }
    }
}

/// Where a transfer's blocks come from.
struct Source {
    blocks: Blocks,
    /// How long each may take to come.
    silence_max: Duration,
    /// Milliseconds of waiting that the policy knows of.
    told_ms: AtomicU64,
}

impl Source {
    /// Counts what is on its way on the rail, and tells the policy how long the source is waited for. Ends if
    /// that says nothing for too long.
    async fn attend(&self, links: &Links, lease: &LeaseId, rail: &Rail) {
        let Some(mut waits) = self.blocks.waits() else {
            let _on_their_way = rail.sending(self.blocks.bytes());
            return std::future::pending().await;
        };
        let (mut arrived, mut on_its_way) = (0, None);
        loop {
            let given = self.blocks.bytes_so_far();
            match self.blocks.waiting() {
                Some(waiting) if waiting >= self.silence_max => return,
                // It is waited for once all that it has given has arrived.
                Some(_) => {
                    arrived = given;
                    on_its_way = None;
                }
                None => drop(on_its_way.replace(rail.sending(given - arrived))),
            }
            // Fails only if nobody can wait any more.
            let _ = timeout(WAITS_TOLD, waits.changed()).await;
            self.tell(links, lease);
        }
    }

    /// Tells the policy what was waited for since it was last told: that is no transfer time.
    fn tell(&self, links: &Links, lease: &LeaseId) {
        let waited_ms = u64::try_from(self.blocks.waited().as_millis()).unwrap_or(u64::MAX);
        let ms = waited_ms.saturating_sub(self.told_ms.swap(waited_ms, Ordering::Relaxed));
        if ms > 0 {
            links.tell_policy(Input::TransferWaited { lease: lease.clone(), ms });
        }
    }
}

enum Attempt {
    Ended(Result<Written, PathError>),
    Cancelled,
    /// Its source has said nothing for too long.
    Silent,
}

/// One attempt; whatever it says of the path becomes a sample.
async fn attempt(
    links: &Links,
    plan: &Plan,
    source: &Source,
    stop: &mut watch::Receiver<Option<(LeaseId, bool)>>,
) -> Attempt {
    let Some(rail) = links.rails.get().and_then(|rails| rails.get(&plan.path.id.rail)) else {
        return Attempt::Ended(Err(PathError::Local(format!("rail {} is gone", plan.path.id.rail))));
    };
    let deadline = Duration::from_millis(plan.deadline_ms);
    let (blocks, bytes) = (source.blocks.clone(), source.blocks.bytes());
    let write = Write { lease: plan.lease.id.clone(), blocks, deadline };
    let shared_before = rail.in_flight_bytes();
    let (start, waited_before) = (Instant::now(), source.blocks.waited());
    let to = peer(&plan.path);
    links.path_used(&plan.path.id);
    let result = tokio::select! {
        biased;
        cancelled = stopped(stop, &plan.lease.id) => match cancelled {
            true => {
                links.metrics.transfer_ended(rail.kind, MoveResult::Cancelled, start.elapsed());
                return Attempt::Cancelled;
            }
            false => Err(PathError::PeerGone { peer: to.node.clone(), detail: "it left the mesh".to_owned() }),
        },
        () = source.attend(links, &plan.lease.id, rail) => {
            links.metrics.transfer_ended(rail.kind, MoveResult::Local, start.elapsed());
            return Attempt::Silent;
        }
        result = rail.backend.write(&to, write) => result,
    };
    source.tell(links, &plan.lease.id);
    let spent = || start.elapsed().saturating_sub(source.blocks.waited().saturating_sub(waited_before));
    let elapsed = result.as_ref().map_or_else(|_| spent(), |written| written.elapsed);
    links.metrics.transfer_ended(rail.kind, move_result(&result), elapsed);
    if result.is_ok() {
        links.metrics.moved(rail.kind, Direction::Sent, bytes);
    }
    // Whichever end was shared more set the pace. No more can have come than the rail carries.
    let carried_bytes = elapsed.as_secs_f64() * plan.path.bandwidth_gbps * 1e9 / 8.0;
    let at_far_end = result.as_ref().map_or(0, |written| written.shared_bytes.min(carried_bytes as u64));
    let shared = shared_before.max(rail.in_flight_bytes()).max(at_far_end);
    let said = outcome(&result.as_ref().map(|_| ()).map_err(Clone::clone));
    if let Some(outcome) = said.filter(|_| is_fair(deadline, bytes.saturating_add(shared), plan.path.bandwidth_gbps)) {
        links.offer_health(Sample {
            path: plan.path.id.clone(),
            kind: SampleKind::Transfer,
            outcome,
            elapsed_ms: millis(elapsed),
            // What never arrived explains no time on the wire.
            bytes: if outcome == SampleOutcome::Ok { bytes } else { 0 },
            attempted_bytes: bytes,
            inflight_bytes: shared,
            late_ms: links.lateness.since(start),
            taken: Some(links.clock.now().mono),
        });
    }
    Attempt::Ended(result)
}

/// Whether a path could have kept a deadline at all. One that is too short is its request's fault.
fn is_fair(deadline: Duration, bytes: u64, bandwidth_gbps: f64) -> bool {
    let wire = Duration::from_secs_f64(bytes as f64 * 8.0 / (bandwidth_gbps * 1e9));
    deadline >= MIN_FAIR_DEADLINE + wire * 2
}

fn move_result(result: &Result<Written, PathError>) -> MoveResult {
    match result {
        Ok(_) => MoveResult::Delivered,
        Err(PathError::TimedOut { .. }) => MoveResult::TimedOut,
        Err(PathError::PeerGone { .. }) => MoveResult::PeerGone,
        Err(PathError::Refused { .. }) => MoveResult::Refused,
        Err(PathError::Corrupt { .. }) => MoveResult::Corrupt,
        Err(PathError::Local(_)) => MoveResult::Local,
    }
}

/// Asks the policy for a plan.
async fn ask(
    links: &Links,
    question: impl FnOnce(u64) -> Input + Send + 'static,
) -> Result<Result<Plan, TransferProblem>, ServiceError> {
    let policy = links.policy.get().ok_or(ServiceError::ShuttingDown)?;
    let asked = policy.ask(question).await.map_err(|full| {
        links.metrics.dropped("policy");
        ServiceError::Overloaded { what: "policy", limit: full.limit }
    });
    match asked? {
        Some(Answer::Plan(plan)) => Ok(plan),
        Some(Answer::Route(_) | Answer::Done(_)) | None => Err(ServiceError::ShuttingDown),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_that_came_before_its_attempt_is_heard_and_one_for_another_attempt_is_not() {
        let lease = |number: u64| LeaseId { node: "d0".parse().unwrap(), generation: 1, number };
        let (control, mut stop) = watch::channel(None);
        control.send_replace(Some((lease(2), true)));
        assert!(stopped(&mut stop, &lease(2)).await);
        let other = lease(3);
        assert!(tokio::time::timeout(Duration::from_secs(1), stopped(&mut stop, &other)).await.is_err());
        control.send_replace(Some((lease(3), false)));
        assert!(!stopped(&mut stop, &lease(3)).await, "failed, not cancelled");
    }

    #[test]
    fn a_deadline_that_no_path_could_keep_is_no_sample() {
        // 8 Gb/s is a megabyte a millisecond.
        assert!(!is_fair(Duration::from_millis(1), 1, 8.0));
        assert!(!is_fair(Duration::from_millis(250), 100_000_000, 8.0));
        assert!(is_fair(Duration::from_millis(300), 100_000_000, 8.0));
    }
}
