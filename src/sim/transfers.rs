//! A transfer: attempt after attempt at its source, and each write at its destination.

use rand::RngExt;

use super::event::{Heard, Own};
use super::fault::Drawn;
use super::network::nanos;
use super::node::{LedgerQuestion, PolicyQuestion, Transfer};
use super::rails::Write;
use super::wiring::CoreInput;
use super::world::World;
use crate::core::Mono;
use crate::health::{self, Sample, SampleKind, SampleOutcome};
use crate::ledger::{self, Arrived, OpenRefusal};
use crate::model::{Extent, LeaseId};
use crate::policy::{self, Plan, TransferProblem};

/// A shorter deadline says nothing about a path, however few bytes it was for, in milliseconds.
const MIN_FAIR_DEADLINE_MS: f64 = 100.0;
/// A receiver waits this much longer than its sender, in milliseconds.
const GRACE_MS: u64 = 500;
/// Attempts of all hosts that are remembered.
const MAX_WRITES: usize = 65_536;

/// How an attempt ended for its sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Landed,
    TimedOut,
    PeerGone,
    Refused,
}

impl World {
    /// The holder of a lease moves its bytes.
    pub(super) fn start_transfer(&mut self, node: usize, lease: LeaseId, bytes: u64) {
        let key = self.next_id();
        let Some(cores) = self.cores_mut(node) else { return };
        cores.transfers.insert(lease.clone(), Transfer { bytes, write: None });
        cores.asked_policy.insert(key, PolicyQuestion::Plan(lease.clone()));
        cores.inbox.push_back(CoreInput::Policy(policy::Input::TransferStart { key, lease, bytes }));
    }

    /// The policy says what to try next.
    pub(super) fn planned(&mut self, node: usize, transfer: LeaseId, result: Result<Plan, TransferProblem>) {
        match result {
            Ok(plan) => self.attempt(node, transfer, plan),
            Err(problem) => {
                if let Some(cores) = self.cores_mut(node) {
                    cores.transfers.remove(&transfer);
                }
                self.audit.transfer_failed(self.now_ns, &transfer, &problem);
            }
        }
    }

    fn attempt(&mut self, node: usize, transfer: LeaseId, plan: Plan) {
        let path = plan.path.id.clone();
        let bytes = self.cores_mut(node).and_then(|cores| cores.transfers.get(&transfer)).map_or(0, |t| t.bytes);
        let Some(to) = self.index_of(&path.destination).filter(|_| bytes > 0) else { return };
        if self.rails.writes.len() >= MAX_WRITES {
            self.audit.writes_refused += 1;
            return;
        }
        let lease = plan.lease.id;
        let shared_before = self.rails.in_flight(&path);
        let mut write =
            Write::new(node, to, plan.path, transfer.clone(), lease.clone(), bytes, plan.deadline_ms, self.now_ns);
        write.shared_before = shared_before;
        let drawn = self.rails.draw(&path, bytes);
        if let Drawn::Delay { ms } | Drawn::Lost { ms } = drawn {
            write.extra_ns = nanos(ms);
        }
        let id = self.next_id();
        self.rails.writes.insert(id, write);
        if let Some(transfer) = self.cores_mut(node).and_then(|cores| cores.transfers.get_mut(&transfer)) {
            transfer.write = Some(id);
        }
        self.audit.moving(self.now_ns, &transfer, &path, bytes);
        match drawn {
            Drawn::Refuse => self.answer_write(node, id, false),
            // It ends as a broken connection does.
            Drawn::Lost { ms } => self.later_ns(node, nanos(ms), Own::WriteDeadline { write: id }),
            // The bytes stay away; that it is asked to let them in is the same.
            Drawn::Delay { .. } | Drawn::Stall => self.send(node, to, Heard::WriteAsked { write: id }),
        }
        self.later(node, plan.deadline_ms, Own::WriteDeadline { write: id });
    }

    /// A write asks its destination to be let in.
    pub(super) fn write_asked(&mut self, node: usize, id: u64) {
        let Some(write) = self.rails.writes.get(&id) else { return };
        let (lease, bytes) = (write.lease.clone(), write.bytes);
        let Some(sender) = self.nodes.get(write.source).map(|source| source.name.clone()) else { return };
        let question = LedgerQuestion::Open { write: id };
        self.ask_ledger(node, question, |key| ledger::Input::Open { key, lease, sender, bytes });
    }

    /// The destination's ledger lets a write in, or does not.
    pub(super) fn opened(&mut self, node: usize, id: u64, result: Result<Vec<Extent>, OpenRefusal>) {
        let Some(write) = self.rails.writes.get(&id) else { return };
        let came = self.rails.came(write.destination, &write.path.id.rail, self.now_ns);
        let Some(write) = self.rails.writes.get_mut(&id) else { return };
        match result {
            Ok(extents) => {
                write.receiving = true;
                write.extents = extents;
                write.came_before = came;
                // Its bytes came right behind its question: from here on they land.
                write.flows = write.sending;
                let wait_ms = write.deadline_ms + GRACE_MS;
                self.later(node, wait_ms, Own::WriteGivenUp { write: id });
                self.share_rails();
            }
            Err(_) => self.answer_write(node, id, false),
        }
    }

    /// All bytes are there, and verified.
    pub(super) fn write_landed(&mut self, node: usize, id: u64) {
        let Some(write) = self.rails.writes.get(&id).filter(|write| write.receiving) else { return };
        let (lease, bytes) = (write.lease.clone(), write.bytes);
        let question = LedgerQuestion::Delivered { write: id };
        self.ask_ledger(node, question, |key| ledger::Input::Delivered { key, lease, bytes, hash: [0; 32] });
    }

    /// The ledger takes what has landed, or does not.
    pub(super) fn accepted(&mut self, node: usize, id: u64, result: Result<Arrived, OpenRefusal>) {
        let landed = result.is_ok();
        let Some(lease) = self.rails.writes.get(&id).map(|write| write.lease.clone()) else { return };
        if landed {
            self.audit.announced(self.now_ns, &lease);
            self.begin_session(node, lease);
        }
        self.answer_write(node, id, landed);
        self.write_quiet(node, id);
    }

    /// A lease ended while a write into it is under way: the write is ended, which takes a moment.
    pub(super) fn void_write(&mut self, node: usize, lease: &LeaseId) {
        let into = |write: &&mut Write| write.destination == node && write.receiving && write.lease == *lease;
        let mut ended = Vec::new();
        for (id, write) in &mut self.rails.writes {
            if into(&write) {
                write.flows = false;
                ended.push(*id);
            }
        }
        for id in ended {
            let moment_ns = self.rails.rng.random_range(50_000..1_000_000);
            self.later_ns(node, moment_ns, Own::WriteQuiet { write: id });
            self.answer_write(node, id, false);
            self.share_rails();
        }
    }

    /// The sender has ended a write, or will never be heard again.
    pub(super) fn write_closed(&mut self, node: usize, id: u64) {
        if self.rails.writes.get(&id).is_some_and(|write| write.receiving) {
            self.write_quiet(node, id);
        }
    }

    /// No byte of a write can land any more.
    pub(super) fn write_quiet(&mut self, node: usize, id: u64) {
        let Some(write) = self.rails.writes.get_mut(&id).filter(|write| write.receiving) else { return };
        write.receiving = false;
        write.flows = false;
        let lease = write.lease.clone();
        self.tell(node, CoreInput::Ledger(ledger::Input::Quiet { lease }));
        self.forget_write(id);
        self.share_rails();
    }

    fn answer_write(&mut self, node: usize, id: u64, landed: bool) {
        if let Some(source) = self.rails.writes.get(&id).map(|write| write.source) {
            self.send(node, source, Heard::WriteAnswered { write: id, landed });
        }
    }

    /// The destination's last word reaches the sender.
    pub(super) fn write_answered(&mut self, node: usize, id: u64, landed: bool) {
        self.end_write(node, id, if landed { Ended::Landed } else { Ended::Refused }, false);
    }

    /// A write's deadline, or the break of its connection.
    pub(super) fn write_timed_out(&mut self, node: usize, id: u64) {
        let Some(write) = self.rails.writes.get(&id) else { return };
        let due_ns = write.started_ns + write.deadline_ms * 1_000_000;
        let ended = if self.now_ns >= due_ns { Ended::TimedOut } else { Ended::PeerGone };
        self.end_write(node, id, ended, false);
    }

    /// The policy stops an attempt.
    pub(super) fn stop_write(&mut self, node: usize, transfer: &LeaseId, lease: &LeaseId, cancelled: bool) {
        let write = self.cores_mut(node).and_then(|cores| cores.transfers.get(transfer)).and_then(|t| t.write);
        if let Some(id) = write
            && self.rails.writes.get(&id).is_some_and(|write| write.lease == *lease)
        {
            self.end_write(node, id, Ended::PeerGone, cancelled);
        }
    }

    fn end_write(&mut self, node: usize, id: u64, ended: Ended, cancelled: bool) {
        let now_ns = self.now_ns;
        let Some(write) = self.rails.writes.get_mut(&id).filter(|write| write.sending) else { return };
        write.sending = false;
        write.flows = false;
        let (transfer, lease, to) = (write.transfer.clone(), write.lease.clone(), write.destination);
        let sample = self.sample_of(id, ended).filter(|_| !cancelled);
        if ended != Ended::Landed {
            self.send(node, to, Heard::WriteClosed { write: id });
        }
        self.forget_write(id);
        self.share_rails();
        if let Some(sample) = sample {
            self.tell(node, CoreInput::Health(health::Input::Sample(sample)));
        }
        let key = self.next_id();
        let Some(cores) = self.cores_mut(node) else { return };
        if let Some(transfer) = cores.transfers.get_mut(&transfer) {
            transfer.write = None;
        }
        let input = match ended {
            Ended::Landed => {
                cores.transfers.remove(&transfer);
                self.audit.transfer_ended(now_ns, &transfer, true);
                policy::Input::TransferEnded { lease, delivered: true }
            }
            _ if cancelled => {
                cores.transfers.remove(&transfer);
                self.audit.transfer_ended(now_ns, &transfer, false);
                policy::Input::TransferEnded { lease, delivered: false }
            }
            Ended::TimedOut | Ended::PeerGone | Ended::Refused => {
                cores.asked_policy.insert(key, PolicyQuestion::Plan(transfer));
                let detail = match ended {
                    Ended::TimedOut => "timed out",
                    Ended::Refused => "refused",
                    Ended::PeerGone | Ended::Landed => "the peer is gone",
                };
                policy::Input::TransferFailed { key, lease, detail: detail.into() }
            }
        };
        self.tell(node, CoreInput::Policy(input));
    }

    /// What an attempt says of its path; nothing where the far end gave its reasons.
    fn sample_of(&self, id: u64, ended: Ended) -> Option<Sample> {
        let write = self.rails.writes.get(&id)?;
        let outcome = match ended {
            Ended::Landed => SampleOutcome::Ok,
            Ended::TimedOut => SampleOutcome::Lost,
            Ended::PeerGone => SampleOutcome::Failed,
            Ended::Refused => return None,
        };
        let others = self.rails.in_flight(&write.path.id);
        // The receiver says what else came meanwhile; whichever end was shared more set the pace.
        let came = self.rails.came(write.destination, &write.path.id.rail, self.now_ns) - write.came_before;
        let at_far_end = if ended == Ended::Landed { (came - write.bytes as f64).max(0.0) as u64 } else { 0 };
        let inflight_bytes = write.shared_before.max(others).max(at_far_end);
        let wire_ms = (write.bytes + inflight_bytes) as f64 * 8.0 / (write.path.bandwidth_gbps * 1e6);
        if (write.deadline_ms as f64) < MIN_FAIR_DEADLINE_MS + 2.0 * wire_ms {
            return None;
        }
        let node = self.nodes.get(write.source)?;
        Some(Sample {
            path: write.path.id.clone(),
            kind: SampleKind::Transfer,
            outcome,
            elapsed_ms: self.now_ns.saturating_sub(write.started_ns) as f64 / 1e6,
            bytes: if outcome == SampleOutcome::Ok { write.bytes } else { 0 },
            attempted_bytes: write.bytes,
            taken: Some(Mono(self.now_ns)),
            inflight_bytes,
            late_ms: node.late_ms(write.started_ns, self.now_ns),
        })
    }

    fn forget_write(&mut self, id: u64) {
        if self.rails.writes.get(&id).is_some_and(|write| !write.sending && !write.receiving) {
            self.rails.count(id, self.now_ns);
            self.rails.writes.remove(&id);
        }
    }

    /// A process is no more: what it sent breaks off at the other end once that has waited long
    /// enough, what it received is gone with it.
    pub(super) fn writes_died(&mut self, node: usize) {
        let idle_ms = self.settings.idle_ms;
        let mut orphans = Vec::new();
        for (id, write) in &mut self.rails.writes {
            if write.source == node {
                write.sending = false;
                write.flows = false;
                orphans.push((*id, write.destination, write.receiving));
            }
            if write.destination == node {
                write.receiving = false;
                write.flows = false;
            }
        }
        for (id, to, receiving) in orphans {
            if receiving {
                self.later(to, idle_ms, Own::WriteGivenUp { write: id });
            }
        }
        self.rails.writes.retain(|_, write| write.sending || write.receiving);
        self.share_rails();
    }
}
