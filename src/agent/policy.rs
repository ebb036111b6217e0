//! The actor of the policy core: it asks decode hosts for leases and hands them back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

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
/// A host is told so often in a row what its holder wants with a lease.
const TRIES: u32 = 3;
const TRY_TIMEOUT: Duration = Duration::from_millis(500);
/// One that did not answer is told that a lease is handed back again after a pause, each twice as long as the one
/// before, for so long: if it has landed without its holder's knowledge it has no time to live.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const AGAIN_FOR: Duration = Duration::from_secs(600);
/// Hand-backs that are tried again at once; of more only the first tries are made.
const MAX_AGAIN: usize = 1_024;

/// Acts on what the policy says.
pub(crate) struct PolicyEffects {
    links: Arc<Links>,
    again: Arc<Semaphore>,
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
        Self { links, again: Arc::new(Semaphore::new(MAX_AGAIN)), turn_took: Duration::ZERO }
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
                let links = self.links.clone();
                tokio::spawn(
                    async move { tell(&links, &LeaseCall::Renew { lease: lease.clone(), ttl_ms }, &lease).await },
                );
                None
            }
            Output::GiveBack(lease) => {
                self.give_back(lease);
                None
            }
            Output::GiveUp(lease) => {
                // What has landed stays its engine's, and what has not ends by its time to live.
                let links = self.links.clone();
                tokio::spawn(async move { tell(&links, &LeaseCall::GiveUp(lease.clone()), &lease).await });
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

impl PolicyEffects {
    fn give_back(&self, lease: LeaseId) {
        let (links, again) = (self.links.clone(), self.again.clone());
        let call = LeaseCall::Release(lease.clone());
        tokio::spawn(async move {
            if tell(&links, &call, &lease).await {
                return;
            }
            let Ok(_place) = again.try_acquire() else {
                links.metrics.dropped("hand_backs");
                return;
            };
            for pause in pauses() {
                sleep(pause).await;
                if ask(&links, &call, &lease).await {
                    return;
                }
            }
            tracing::warn!(%lease, "its host never heard that it was handed back");
        });
    }
}

/// Tells the host that granted a lease what its holder wants with it. Whether it has heard.
pub(crate) async fn tell(links: &Links, call: &LeaseCall, lease: &LeaseId) -> bool {
    for _ in 0..TRIES {
        if ask(links, call, lease).await {
            return true;
        }
    }
    tracing::warn!(%lease, call = call.name(), "the lease's host does not answer");
    false
}

async fn ask(links: &Links, call: &LeaseCall, lease: &LeaseId) -> bool {
    let Some(mesh) = links.mesh.get() else { return false };
    mesh.call_lease(&lease.node, call.clone(), TRY_TIMEOUT).await.is_some()
}

/// The pauses before each try, all together [`AGAIN_FOR`].
fn pauses() -> impl Iterator<Item = Duration> {
    let longer = |pause: &Duration| Some((*pause * 2).min(LONGEST_PAUSE));
    std::iter::successors(Some(FIRST_PAUSE), longer).scan(AGAIN_FOR, |left, pause| {
        let pause = pause.min(*left);
        *left -= pause;
        (!pause.is_zero()).then_some(pause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_back_is_tried_again_after_longer_pauses_for_ten_minutes() {
        let pauses: Vec<u64> = pauses().map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pauses.iter().sum::<u64>(), 600);
        assert!(pauses.iter().all(|pause| (1..=30).contains(pause)));
    }
}
