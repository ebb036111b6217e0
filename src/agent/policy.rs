//! The actor of the policy core: it asks decode hosts for leases and hands them back.

use std::sync::Arc;
use std::time::Duration;

use super::links::Links;
use super::owner::Effects;
use super::store::Event;
use crate::core::Now;
use crate::model::{LeaseAsk, LeaseCall, LeaseCallReply, LeaseId, LeaseRefusal, LeaseReply, NodeName};
use crate::policy::record::DecisionRecord;
use crate::policy::{Input, Output, Plan, Policy, RouteProblem, TransferProblem};

/// The policy goes on without an answer at its own deadline; this long after it a grant is still
/// heard, so that it can be given up instead of holding a session for its whole life.
const LATE_GRANT: Duration = Duration::from_secs(5);
/// A hand-back is tried this often; after that the lease's own time to live ends it.
const GIVE_BACK_TRIES: u32 = 3;
const GIVE_BACK_TIMEOUT: Duration = Duration::from_millis(500);

/// Acts on what the policy says.
pub(crate) struct PolicyEffects {
    links: Arc<Links>,
    turn_took: Duration,
}

/// An answer of the policy.
pub(crate) enum Answer {
    Route(Result<Arc<DecisionRecord>, RouteProblem>),
    Plan(Result<Plan, TransferProblem>),
    Done(bool),
}

impl PolicyEffects {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        Self { links, turn_took: Duration::ZERO }
    }
}

impl Effects for PolicyEffects {
    type Core = Policy;
    type Answer = Answer;

    fn tick() -> Input {
        Input::Tick
    }

    fn took(&mut self, elapsed: Duration) {
        self.turn_took = elapsed;
    }

    fn perform(&mut self, _: &Policy, now: Now, output: Output) -> Option<(u64, Answer)> {
        match output {
            Output::Decided(record) => {
                self.links.metrics.decision_took(self.turn_took);
                let workload = self.links.metrics.workload(&record.workload.name);
                workload.decided(record.outcome);
                for candidate in record.candidates.iter().filter(|candidate| !candidate.admissible) {
                    workload.rejected(candidate.code);
                }
                let leased = record.lease.as_ref().and(record.chosen.as_ref());
                if let Some(path) = leased.and_then(|chosen| chosen.path.as_ref()) {
                    self.links.path_used(path);
                }
                if let Some(journal) = self.links.journal.get() {
                    journal.decided(&record);
                }
                self.links.store.keep(record);
                None
            }
            Output::Answer { key, result } => Some((key, Answer::Route(result))),
            Output::Plan { key, result } => Some((key, Answer::Plan(result))),
            Output::Done { key, changed } => Some((key, Answer::Done(changed))),
            Output::Ask { node, ask, timeout_ms } => {
                tokio::spawn(ask_lease(self.links.clone(), node, ask, Duration::from_millis(timeout_ms)));
                None
            }
            Output::Renew { lease, ttl_ms } => {
                tokio::spawn(hand_back(self.links.clone(), LeaseCall::Renew { lease: lease.clone(), ttl_ms }, lease));
                None
            }
            Output::GiveBack(lease) => {
                tokio::spawn(hand_back(self.links.clone(), LeaseCall::Release(lease.clone()), lease));
                None
            }
            Output::GiveUp(lease) => {
                tokio::spawn(hand_back(self.links.clone(), LeaseCall::GiveUp(lease.clone()), lease));
                None
            }
            Output::OverrideEnded(target) => {
                tracing::info!(%target, "override ended");
                self.links.store.tell(&Event::Override { ts: now.wall_ms, target: &target, state: None, reason: None });
                None
            }
            Output::Stop { transfer, lease, cancelled } => {
                if let Some(transfers) = self.links.transfers.get() {
                    transfers.stop(transfer, lease, cancelled);
                }
                None
            }
        }
    }
}

/// Asks a decode host and tells the policy its answer.
async fn ask_lease(links: Arc<Links>, node: NodeName, ask: LeaseAsk, timeout: Duration) {
    let number = ask.ask;
    let reply = match links.mesh.get() {
        Some(mesh) => mesh.call_lease(&node, LeaseCall::Ask(ask), timeout + LATE_GRANT).await,
        None => None,
    };
    let reply = match reply {
        Some(LeaseCallReply::Lease(reply)) => reply,
        Some(LeaseCallReply::Changed(_)) | None => {
            LeaseReply::Refused { refusal: LeaseRefusal::Unreachable, quote: None }
        }
    };
    links.metrics.lease_requested(match &reply {
        LeaseReply::Granted { .. } => None,
        LeaseReply::Refused { refusal, .. } => Some(*refusal),
    });
    links.tell_policy(Input::LeaseAnswer { ask: number, reply });
}

/// Tells the host that granted a lease what its holder wants with it.
pub(crate) async fn hand_back(links: Arc<Links>, call: LeaseCall, lease: LeaseId) {
    let Some(mesh) = links.mesh.get() else { return };
    for _ in 0..GIVE_BACK_TRIES {
        if mesh.call_lease(&lease.node, call.clone(), GIVE_BACK_TIMEOUT).await.is_some() {
            return;
        }
    }
    tracing::warn!(%lease, "its host does not answer: it ends by its time to live");
}
