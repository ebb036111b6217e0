//! What an all-seeing observer notes: who got what, who carried it, and what must never happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arrivals::Then;
use super::world::World;
use crate::health::{Canary, Discard};
use crate::ledger::{Held, Stage};
use crate::mesh::Refusal;
use crate::model::{
    Extent, LeaseCallReply, LeaseId, LeaseRefusal, LeaseReply, NodeName, Outcome, PathId, PathState, RequestId,
    WorkloadName,
};
use crate::policy::record::DecisionRecord;
use crate::policy::{RouteProblem, TransferProblem};

/// Entries kept of each kind.
const MAX_NOTES: usize = 1_000_000;

/// Everything that was noted since the run began, oldest first. Times are in milliseconds.
#[derive(Debug, Default)]
pub struct Audit {
    /// Every decision record.
    pub decisions: Vec<Arc<DecisionRecord>>,
    /// Every decision that was given a lease.
    pub placed: Vec<Placed>,
    /// Every change of a path's state: when, which, from, to, and whether something was truly wrong
    /// between its ends then or within the ten seconds before.
    pub transitions: Vec<(u64, PathId, PathState, PathState, bool)>,
    /// Every answer of a ledger to an ask.
    pub asked: Vec<Asked>,
    /// Every lease's stages: when, which, from, to.
    pub stages: Vec<(u64, LeaseId, Option<Stage>, Option<Stage>)>,
    /// Every transfer that was announced to a decode engine, and when.
    pub announced: Vec<(u64, LeaseId)>,
    /// Every attempt to move bytes.
    pub moved: Vec<Moved>,
    /// What became of each request.
    pub requests: BTreeMap<RequestId, Fate>,
    /// Every canary, and when it was sent.
    pub canaries: Vec<(u64, Canary)>,
    /// When which host found itself late most of the time, or no longer.
    pub frozen: Vec<(u64, usize, bool)>,
    /// Transfers that their sources saw delivered.
    pub delivered: u64,
    /// Transfers that came to nothing.
    pub failed: u64,
    /// Grants with which a decode host had more sessions and leases together than it can run.
    pub over_commits: u64,
    /// Grants of pages that another lease held.
    pub double_grants: u64,
    /// Grants of pages that somebody could still write into.
    pub late_writes: u64,
    /// Samples that health did not count, by reason.
    pub discarded: BTreeMap<Discard, u64>,
    /// What the mesh cores refused, by reason.
    pub mesh_refusals: BTreeMap<Refusal, u64>,
    /// Health settings that were refused.
    pub settings_refused: u64,
    /// Leases that could not be handed back.
    pub not_handed_back: u64,
    /// Attempts for which there was no room.
    pub writes_refused: u64,
    /// Notes for which there was no room.
    pub left_out: u64,
    failures: BTreeMap<LeaseId, String>,
    by_lease: BTreeMap<LeaseId, RequestId>,
}

/// A decision that was given a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// When.
    pub at_ms: u64,
    /// The class.
    pub class: WorkloadName,
    /// The path.
    pub path: PathId,
    /// The path's state as the decision saw it.
    pub state: PathState,
    /// Whether something was truly wrong with it.
    pub faulty: bool,
    /// Which attempt of its request, from 1.
    pub attempt: u32,
}

/// An answer of a ledger to an ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// When.
    pub at_ms: u64,
    /// Which host asked.
    pub asker: usize,
    /// Which host answered.
    pub host: usize,
    /// Why it refused, if it did.
    pub refusal: Option<LeaseRefusal>,
}

/// An attempt to move bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// When it began.
    pub at_ms: u64,
    /// The transfer: the lease that it was started with.
    pub transfer: LeaseId,
    /// The path.
    pub path: PathId,
    /// How many bytes.
    pub bytes: u64,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Fate {
    /// When it came.
    pub at_ms: u64,
    /// Where.
    pub source: NodeName,
    /// The class.
    pub class: WorkloadName,
    /// How many bytes.
    pub bytes: u64,
    /// What should follow.
    pub then: Then,
    /// When it was answered.
    pub answered_ms: Option<u64>,
    /// How the decision ended, if there was one.
    pub outcome: Option<Outcome>,
    /// The lease that it was given first.
    pub lease: Option<LeaseId>,
    /// When its bytes were delivered, as its source saw it.
    pub delivered_ms: Option<u64>,
    /// When it was clear that they never would be.
    pub failed_ms: Option<u64>,
}

impl Audit {
    pub(super) fn decided(&mut self, now_ns: u64, record: Arc<DecisionRecord>, faulty: bool) {
        let chosen = record.candidates.iter().find(|candidate| candidate.chosen).filter(|_| record.lease.is_some());
        if let Some(candidate) = chosen
            && let Some(path) = candidate.target.path.clone()
        {
            let placed = Placed {
                at_ms: now_ns / 1_000_000,
                class: record.workload.name.clone(),
                path,
                state: candidate.path_state,
                faulty,
                attempt: record.attempt,
            };
            note(&mut self.placed, placed, &mut self.left_out);
        }
        note(&mut self.decisions, record, &mut self.left_out);
    }

    pub(super) fn transition(&mut self, now_ns: u64, path: PathId, from: PathState, to: PathState, faulty: bool) {
        note(&mut self.transitions, (now_ns / 1_000_000, path, from, to, faulty), &mut self.left_out);
    }

    pub(super) fn discarded(&mut self, reason: Discard) {
        *self.discarded.entry(reason).or_default() += 1;
    }

    pub(super) fn canary(&mut self, now_ns: u64, canary: Canary) {
        note(&mut self.canaries, (now_ns / 1_000_000, canary), &mut self.left_out);
    }

    pub(super) fn frozen(&mut self, now_ns: u64, node: usize, frozen: bool) {
        note(&mut self.frozen, (now_ns / 1_000_000, node, frozen), &mut self.left_out);
    }

    pub(super) fn mesh_refused(&mut self, reason: Refusal) {
        *self.mesh_refusals.entry(reason).or_default() += 1;
    }

    pub(super) fn asked(&mut self, now_ns: u64, asker: usize, host: usize, reply: &LeaseCallReply) {
        let refusal = match reply {
            LeaseCallReply::Lease(LeaseReply::Refused { refusal, .. }) => Some(*refusal),
            LeaseCallReply::Lease(LeaseReply::Granted { .. }) | LeaseCallReply::Changed(_) => None,
        };
        note(&mut self.asked, Asked { at_ms: now_ns / 1_000_000, asker, host, refusal }, &mut self.left_out);
    }

    pub(super) fn staged(&mut self, now_ns: u64, lease: LeaseId, from: Option<Stage>, to: Option<Stage>) {
        note(&mut self.stages, (now_ns / 1_000_000, lease, from, to), &mut self.left_out);
    }

    pub(super) fn announced(&mut self, now_ns: u64, lease: &LeaseId) {
        note(&mut self.announced, (now_ns / 1_000_000, lease.clone()), &mut self.left_out);
    }

    pub(super) fn moving(&mut self, now_ns: u64, transfer: &LeaseId, path: &PathId, bytes: u64) {
        let moved = Moved { at_ms: now_ns / 1_000_000, transfer: transfer.clone(), path: path.clone(), bytes };
        note(&mut self.moved, moved, &mut self.left_out);
    }

    pub(super) fn requested(
        &mut self,
        now_ns: u64,
        request: RequestId,
        source: NodeName,
        class: WorkloadName,
        bytes: u64,
        then: Then,
    ) {
        if self.requests.len() >= MAX_NOTES {
            self.left_out += 1;
            return;
        }
        let fate = Fate {
            at_ms: now_ns / 1_000_000,
            source,
            class,
            bytes,
            then,
            answered_ms: None,
            outcome: None,
            lease: None,
            delivered_ms: None,
            failed_ms: None,
        };
        self.requests.insert(request, fate);
    }

    /// Notes an answer, and says what should follow.
    pub(super) fn routed(
        &mut self,
        now_ns: u64,
        request: &RequestId,
        result: &Result<Arc<DecisionRecord>, RouteProblem>,
    ) -> Option<Then> {
        let fate = self.requests.get_mut(request)?;
        fate.answered_ms = Some(now_ns / 1_000_000);
        if let Ok(record) = result {
            fate.outcome = Some(record.outcome);
            fate.lease = record.lease.as_ref().map(|lease| lease.id.clone());
            if let Some(lease) = &fate.lease {
                self.by_lease.insert(lease.clone(), request.clone());
            }
        }
        Some(fate.then)
    }

    pub(super) fn transfer_ended(&mut self, now_ns: u64, transfer: &LeaseId, delivered: bool) {
        if delivered {
            self.delivered += 1;
        } else {
            self.failed += 1;
        }
        if let Some(fate) = self.by_lease.get(transfer).and_then(|request| self.requests.get_mut(request)) {
            let at = if delivered { &mut fate.delivered_ms } else { &mut fate.failed_ms };
            *at = Some(now_ns / 1_000_000);
        }
    }

    pub(super) fn transfer_failed(&mut self, now_ns: u64, transfer: &LeaseId, problem: &TransferProblem) {
        self.transfer_ended(now_ns, transfer, false);
        if self.failures.len() < MAX_NOTES {
            self.failures.insert(transfer.clone(), problem.to_string());
        }
    }

    /// Why a transfer came to nothing, in words.
    #[must_use]
    pub fn failure(&self, transfer: &LeaseId) -> Option<&str> {
        self.failures.get(transfer).map(String::as_str)
    }

    /// How often paths left HEALTHY while nothing was wrong between their ends.
    #[must_use]
    pub fn false_exclusions(&self) -> usize {
        self.transitions.iter().filter(|(_, _, from, _, faulty)| *from == PathState::Healthy && !faulty).count()
    }
}

fn note<T>(notes: &mut Vec<T>, entry: T, left_out: &mut u64) {
    if notes.len() < MAX_NOTES {
        notes.push(entry);
    } else {
        *left_out += 1;
    }
}

fn overlap(one: &[Extent], other: &[Extent]) -> bool {
    let meets = |a: &Extent, b: &Extent| {
        a.offset < b.offset.saturating_add(b.bytes) && b.offset < a.offset.saturating_add(a.bytes)
    };
    one.iter().any(|a| other.iter().any(|b| meets(a, b)))
}

impl World {
    /// A lease was just granted. What the engine truly runs, and the leases that no bytes have
    /// filled yet, fit the sessions that were configured. The ledger's count and quote are not
    /// asked; a session begins with its delivery, so what is delivered and not run is over.
    pub(super) fn audit_sessions(&mut self, node: usize) {
        let Some(host) = self.nodes.get(node) else { return };
        let Some(ledger) = host.cores.as_ref().and_then(|cores| cores.ledger.as_ref()) else { return };
        let to_come = ledger.held().filter(|held| held.stage != Stage::Delivered).count();
        let over = host.engine.is_over_committed(self.settings.ledger.max_sessions, to_come);
        self.audit.over_commits += u64::from(over);
    }

    /// Pages that were just granted are nobody else's, and nobody still writes into them.
    pub(super) fn audit_pages(&mut self, node: usize, lease: &LeaseId) {
        let Some(ledger) = self.cores_of(node).and_then(|cores| cores.ledger.as_ref()) else { return };
        let Some(granted) = ledger.held().find(|held| held.lease.id == *lease) else { return };
        let extents = granted.lease.extents.clone();
        let doubled =
            ledger.held().any(|held: &Held| held.lease.id != *lease && overlap(&extents, &held.lease.extents));
        let written = self.rails.writes.values().any(|write| {
            write.destination == node && write.receiving && write.lease != *lease && overlap(&extents, &write.extents)
        });
        self.audit.double_grants += u64::from(doubled);
        self.audit.late_writes += u64::from(written);
    }
}
