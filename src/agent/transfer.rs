//! The transfer actor: moves a caller's blocks into its lease, and on failure wherever the policy
//! says next, until the bytes have landed or nothing is left to try.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::clock::wall_ms;
use super::links::Links;
use super::policy::Answer;
use super::probe::outcome;
use super::rails::peer;
use super::service::ServiceError;
use super::store::Event;
use super::supervisor::Starter;
use crate::api::{TransferAttempt, TransferReport, TransferRequest, TransferResult};
use crate::health::{Sample, SampleKind, SampleOutcome};
use crate::metrics::{Direction, MoveResult};
use crate::model::{Extent, LeaseId};
use crate::policy::{Input, Plan, TransferProblem};
use crate::transport::{PathError, Write, Written};

/// Transfers under way at most.
const MAX_RUNNING: usize = 256;
/// A shorter deadline says nothing about a path, however few bytes it was for.
const MIN_FAIR_DEADLINE: Duration = Duration::from_millis(100);
/// Reports of ended transfers kept; the oldest go first.
const MAX_REPORTS: usize = 10_000;

type Reply = oneshot::Sender<Result<TransferReport, ServiceError>>;

/// What the actor is sent.
pub(crate) enum Message {
    Start(TransferRequest, OwnedSemaphorePermit, Reply),
    Stop { transfer: LeaseId, lease: LeaseId, cancelled: bool },
    Find(LeaseId, oneshot::Sender<Option<TransferReport>>),
    Ended(Asked, Box<Result<TransferReport, ServiceError>>),
}

/// One caller's wish to move bytes into a lease. Several may name the same lease: the policy says
/// which of them may.
type Asked = (LeaseId, u64);

/// A handle on the actor that outlives its restarts.
#[derive(Clone)]
pub(crate) struct Transfers {
    actor: Arc<RwLock<Option<ActorRef<Message>>>>,
    /// One permit a transfer, for as long as its task runs.
    room: Arc<Semaphore>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { actor: Arc::default(), room: Arc::new(Semaphore::new(MAX_RUNNING)) }
    }
}

impl Transfers {
    /// Starts the actor, as often as it must be.
    pub(crate) fn starter(&self, links: Arc<Links>) -> Starter {
        let handle = self.clone();
        Arc::new(move |supervisor: ActorCell| {
            let (links, handle) = (links.clone(), handle.clone());
            Box::pin(async move {
                let (actor, _) = Actor::spawn_linked(None, TransferActor, (links, handle.clone()), supervisor).await?;
                *handle.actor.write().unwrap_or_else(PoisonError::into_inner) = Some(actor.clone());
                Ok(actor.get_cell())
            })
        })
    }

    /// Moves the bytes and reports; the transfer goes on if the caller goes away.
    pub(crate) async fn start(&self, request: TransferRequest) -> Result<TransferReport, ServiceError> {
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            return Err(ServiceError::Overloaded { what: "transfers", limit: MAX_RUNNING });
        };
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Start(request, permit, sender));
        receiver.await.unwrap_or(Err(ServiceError::ShuttingDown))
    }

    /// Stops the attempt of a transfer that writes, or is about to write, into `lease`.
    pub(crate) fn stop(&self, transfer: LeaseId, lease: LeaseId, cancelled: bool) {
        self.send(Message::Stop { transfer, lease, cancelled });
    }

    pub(crate) async fn find(&self, id: LeaseId) -> Option<TransferReport> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Find(id, sender));
        receiver.await.ok().flatten()
    }

    pub(crate) fn running(&self) -> usize {
        MAX_RUNNING - self.room.available_permits().min(MAX_RUNNING)
    }

    /// Whoever waits for an answer of an actor that is gone learns it from the closed channel.
    fn send(&self, message: Message) {
        let actor = self.actor.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(actor) = actor.as_ref() {
            let _ = actor.send_message(message);
        }
    }
}

struct TransferActor;

struct State {
    links: Arc<Links>,
    handle: Transfers,
    running: BTreeMap<Asked, (Control, Reply)>,
    asked: u64,
    reports: BTreeMap<LeaseId, TransferReport>,
    oldest_first: VecDeque<LeaseId>,
}

/// How a running transfer is told to stop: the lease of the attempt, and whether its request is
/// cancelled. It stays said, so that an attempt that is only about to start hears it too.
type Control = watch::Sender<Option<(LeaseId, bool)>>;

impl Actor for TransferActor {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<Links>, Transfers);

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (links, handle): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let (running, reports, oldest_first) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Ok(State { links, handle, running, asked: 0, reports, oldest_first })
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Start(request, permit, reply) => state.start(request, permit, reply),
            Message::Stop { transfer, lease, cancelled } => {
                // Those that the policy has refused, or will, do not listen.
                for (_, (control, _)) in state.running.range((transfer.clone(), 0)..=(transfer, u64::MAX)) {
                    control.send_replace(Some((lease.clone(), cancelled)));
                }
            }
            Message::Find(id, reply) => {
                // The asker may have gone away.
                let _ = reply.send(state.reports.get(&id).cloned());
            }
            Message::Ended(id, result) => state.ended(id, *result),
        }
        Ok(())
    }
}

impl State {
    fn start(&mut self, request: TransferRequest, permit: OwnedSemaphorePermit, reply: Reply) {
        self.asked += 1;
        let id = (request.lease.clone(), self.asked);
        let (control, stop) = watch::channel(None);
        self.running.insert(id.clone(), (control, reply));
        let (links, handle) = (self.links.clone(), self.handle.clone());
        tokio::spawn(async move {
            let result = run(&links, request, stop).await;
            drop(permit);
            handle.send(Message::Ended(id, Box::new(result)));
        });
    }

    fn ended(&mut self, asked: Asked, result: Result<TransferReport, ServiceError>) {
        if let Ok(report) = &result {
            self.links.store.tell(&Event::Transfer { ts: wall_ms(), report });
            if self.oldest_first.len() == MAX_REPORTS
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.reports.remove(&oldest);
            }
            self.oldest_first.push_back(asked.0.clone());
            self.reports.insert(asked.0.clone(), report.clone());
        }
        if let Some((_, reply)) = self.running.remove(&asked) {
            // The caller may have gone away.
            let _ = reply.send(result);
        }
    }
}

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

/// Blocks that a transfer can move.
pub(crate) fn check_blocks(blocks: &[Extent], arena_bytes: u64) -> Result<u64, ServiceError> {
    let bad = |detail: String| ServiceError::BadInput { field: "blocks", detail };
    if blocks.is_empty() {
        return Err(bad("found none, allowed at least 1".to_owned()));
    }
    let mut sorted: Vec<(usize, Extent)> = blocks.iter().copied().enumerate().collect();
    sorted.sort_unstable_by_key(|(_, block)| block.offset);
    let mut sum = 0u64;
    let mut before: Option<(usize, u64)> = None;
    for (index, block) in sorted {
        let within = block.end().filter(|&end| block.bytes > 0 && end <= arena_bytes);
        let Some(end) = within else {
            return Err(bad(format!(
                "block {index}: found {} bytes at offset {}, allowed 1 byte or more within the arena's {arena_bytes}",
                block.bytes, block.offset
            )));
        };
        if let Some((other, _)) = before.filter(|&(_, other_end)| other_end > block.offset) {
            return Err(bad(format!("blocks {other} and {index} overlap at offset {}", block.offset)));
        }
        before = Some((index, end));
        // Blocks do not overlap, so their sum is at most the arena's size.
        sum += block.bytes;
    }
    Ok(sum)
}

async fn run(
    links: &Links,
    request: TransferRequest,
    mut stop: watch::Receiver<Option<(LeaseId, bool)>>,
) -> Result<TransferReport, ServiceError> {
    let begun = Instant::now();
    let bytes = request.blocks.iter().map(|block| block.bytes).sum();
    let id = request.lease.clone();
    let lease = request.lease.clone();
    let mut plan = ask(links, move |key| Input::TransferStart { key, lease, bytes }).await??;
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
        let ended = attempt(links, &plan, &request.blocks, bytes, &mut stop).await;
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
            Attempt::Ended(Err(error)) => {
                let detail: Arc<str> = error.to_string().into();
                line.error = Some(detail.to_string());
                attempts.push(line);
                match ask(links, move |key| Input::TransferFailed { key, lease, detail }).await? {
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

enum Attempt {
    Ended(Result<Written, PathError>),
    Cancelled,
}

/// One attempt; whatever it says of the path becomes a sample.
async fn attempt(
    links: &Links,
    plan: &Plan,
    blocks: &[Extent],
    bytes: u64,
    stop: &mut watch::Receiver<Option<(LeaseId, bool)>>,
) -> Attempt {
    let Some(rail) = links.rails.get().and_then(|rails| rails.get(&plan.path.id.rail)) else {
        return Attempt::Ended(Err(PathError::Local(format!("rail {} is gone", plan.path.id.rail))));
    };
    let deadline = Duration::from_millis(plan.deadline_ms);
    let write = Write { lease: plan.lease.id.clone(), blocks: blocks.to_vec().into(), deadline };
    let shared_before = rail.in_flight_bytes();
    let sending = rail.sending(bytes);
    let start = Instant::now();
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
        result = rail.backend.write(&to, write) => result,
    };
    let elapsed = result.as_ref().map_or_else(|_| start.elapsed(), |written| written.elapsed);
    drop(sending);
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

impl From<TransferProblem> for ServiceError {
    fn from(problem: TransferProblem) -> Self {
        let detail = problem.to_string();
        match problem {
            TransferProblem::Unknown(_) => Self::NotFound(detail),
            TransferProblem::Ended { .. } | TransferProblem::Exhausted(_) | TransferProblem::Cancelled => {
                Self::Conflict(detail)
            }
            TransferProblem::Size { .. } => Self::BadInput { field: "blocks", detail },
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect()
    }

    #[test]
    fn blocks_must_lie_within_the_arena_and_apart() {
        assert_eq!(check_blocks(&blocks(&[(10, 5), (0, 10), (95, 5)]), 100).unwrap(), 20);
        let error = |list: &[(u64, u64)]| check_blocks(&blocks(list), 100).unwrap_err().to_string();
        assert!(error(&[]).contains("found none"));
        assert!(error(&[(0, 0)]).contains("block 0: found 0 bytes"));
        assert!(error(&[(0, 1), (96, 5)]).contains("block 1: found 5 bytes at offset 96"));
        assert!(error(&[(u64::MAX, 2)]).contains("block 0"));
        assert!(error(&[(10, 5), (0, 11)]).contains("blocks 1 and 0 overlap at offset 10"));
    }

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
