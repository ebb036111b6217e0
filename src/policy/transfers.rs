//! A transfer's way from its lease to its last attempt: what [`routes`](super::routes) leads to once
//! the caller wants its bytes moved.

use std::sync::Arc;

use super::Policy;
use super::messages::{Output, Plan, TransferProblem};
use super::requests::{Bar, Ended, Entry, Stage, Waiter};
use crate::core::Now;
use crate::model::{Lease, LeaseId, Mover, PathId, PathSpec, Profile, RequestId};

/// A transfer that has not reported this long after its budget is given up, in milliseconds.
const REPORT_GRACE_MS: u64 = 5_000;

/// On a path on which a transfer failed, the next has this many times its predicted time, and at
/// least so many milliseconds: enough if the path is well again, and short if it is not.
const TRIAL_DEADLINE_FACTOR: f64 = 4.0;
const TRIAL_DEADLINE_MS: u64 = 250;

/// A lease is kept for this long beyond the deadline of its transfer, in milliseconds: the receiver's
/// grace, and the way of its last word.
const RENEW_SLACK_MS: u64 = 1_000;

impl Policy {
    pub(super) fn transfer_start(&mut self, now: Now, key: u64, lease: &LeaseId, bytes: u64, out: &mut Vec<Output>) {
        let id = match self.check_start(lease, bytes) {
            Ok(id) => id,
            Err(problem) => {
                out.push(Output::Plan { key, result: Err(problem) });
                return;
            }
        };
        let Some(mut entry) = self.routes.requests.take(&id) else { return };
        match std::mem::replace(&mut entry.stage, Stage::Closed(Ended::Failed)) {
            Stage::Leased { lease, path } => {
                let budget_ms = entry.request.transfer_budget_ms.unwrap_or(self.settings.transfer_budget_ms);
                entry.budget_until = Some(now.mono.plus_ms(budget_ms));
                self.start(now, key, id, entry, lease, path, out);
            }
            // The check has seen to it that it is leased.
            stage @ (Stage::Asking(_) | Stage::Moving { .. } | Stage::Closed(_)) => {
                entry.stage = stage;
                self.routes.requests.put(&id, entry, now.mono);
            }
        }
    }

    fn check_start(&self, lease: &LeaseId, bytes: u64) -> Result<RequestId, TransferProblem> {
        let unknown = || TransferProblem::Unknown(lease.clone());
        let ended = |state: &str| TransferProblem::Ended { lease: lease.clone(), state: state.to_owned() };
        let id = self.routes.requests.of_lease(lease).ok_or_else(unknown)?;
        let entry = self.routes.requests.get(&id).ok_or_else(unknown)?;
        match &entry.stage {
            _ if self.settings.mover == Mover::Engine => {
                Err(ended("belongs to the engine, which moves its bytes itself"))
            }
            Stage::Leased { lease: held, .. } if held.id == *lease => {
                let limit = held.kv_bytes;
                match (1..=limit).contains(&bytes) {
                    true => Ok(id),
                    false => Err(TransferProblem::Size { lease: lease.clone(), found: bytes, limit }),
                }
            }
            Stage::Moving { lease: held, .. } if held.id == *lease => Err(ended("is being used by a transfer")),
            Stage::Closed(ended_as) if entry.leases.last() == Some(lease) => Err(ended(ended_as.words())),
            Stage::Asking(_) | Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_) => {
                Err(ended("was used: its transfer failed and went on with another lease"))
            }
        }
    }

    /// Starts an attempt with a lease that was just granted or held.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn start(
        &mut self,
        now: Now,
        key: u64,
        id: RequestId,
        mut entry: Entry,
        lease: Lease,
        path: PathSpec,
        out: &mut Vec<Output>,
    ) {
        let until = entry.budget_until.unwrap_or(now.mono);
        let left_ms = until.ms_since(now.mono);
        let decision = entry.last.clone();
        let (Some(decision), 1..) = (decision, left_ms) else {
            // What is left is no time to move anything in: it would only make the path look slow.
            out.push(Output::GiveUp(lease.id));
            let problem = TransferProblem::Exhausted("the transfer budget is spent".to_owned());
            out.push(Output::Plan { key, result: Err(problem) });
            self.close(now, &id, entry, Ended::Failed);
            return;
        };
        // An attempt that is not the last leaves half of the budget to those after it.
        let last = entry.attempt >= self.settings.transfer_attempts;
        let mut deadline_ms = if last { left_ms } else { left_ms.div_ceil(2) };
        if self.settings.profile == Profile::Mesh && self.view.failed_bytes(&path.id) > 0 {
            let predicted_ms = self.view.predict(&path.id, lease.kv_bytes, None).unwrap_or(0.0);
            // The conversion saturates; a deadline is at least the trial's shortest.
            deadline_ms = deadline_ms.min(((predicted_ms * TRIAL_DEADLINE_FACTOR) as u64).max(TRIAL_DEADLINE_MS));
        }
        // A lease that ends first would take the transfer with it.
        let renewed_ms = deadline_ms.saturating_add(RENEW_SLACK_MS);
        if entry.lease_until.is_none_or(|until| until < now.mono.plus_ms(renewed_ms)) {
            entry.lease_until = Some(now.mono.plus_ms(renewed_ms));
            out.push(Output::Renew { lease: lease.id.clone(), ttl_ms: renewed_ms });
        }
        let plan = Plan { request_id: id.clone(), decision, lease: lease.clone(), path: path.clone(), deadline_ms };
        out.push(Output::Plan { key, result: Ok(plan) });
        entry.stage = Stage::Moving { lease, path, stopping: false };
        self.routes.requests.put(&id, entry, until.plus_ms(REPORT_GRACE_MS));
    }

    /// The budget lasts longer by what a source was waited for, and with it the lease.
    pub(super) fn transfer_waited(&mut self, now: Now, lease: &LeaseId, ms: u64, out: &mut Vec<Output>) {
        let Some((id, mut entry, _)) = self.take_moving(lease) else { return };
        let until = entry.budget_until.unwrap_or(now.mono).plus_ms(ms);
        entry.budget_until = Some(until);
        let wanted = until.plus_ms(RENEW_SLACK_MS);
        if entry.lease_until.is_none_or(|until| until < wanted) {
            entry.lease_until = Some(wanted);
            out.push(Output::Renew { lease: lease.clone(), ttl_ms: wanted.ms_since(now.mono) });
        }
        self.routes.requests.put(&id, entry, until.plus_ms(REPORT_GRACE_MS));
    }

    pub(super) fn transfer_failed(
        &mut self,
        now: Now,
        key: u64,
        lease: &LeaseId,
        detail: &Arc<str>,
        out: &mut Vec<Output>,
    ) {
        let Some((id, mut entry, path)) = self.take_moving(lease) else {
            out.push(Output::Plan { key, result: Err(TransferProblem::Unknown(lease.clone())) });
            return;
        };
        // Its bytes may have landed after all, and only the answer was lost.
        out.push(Output::GiveUp(lease.clone()));
        entry.bars.push(Bar::failed(path, entry.attempt, self.settings.transfer_attempts, detail));
        let spent = entry.budget_until.is_none_or(|until| until <= now.mono);
        if entry.attempt >= self.settings.transfer_attempts || spent {
            let why = if spent { "the transfer budget is spent" } else { "no attempt is left" };
            let problem = TransferProblem::Exhausted(format!("{why} after attempt {}: {detail}", entry.attempt));
            out.push(Output::Plan { key, result: Err(problem) });
            self.close(now, &id, entry, Ended::Failed);
            return;
        }
        entry.attempt += 1;
        entry.rounds = 0;
        self.decide_and_ask(now, id, entry, vec![Waiter::Transfer(key)], out);
    }

    pub(super) fn transfer_ended(&mut self, now: Now, lease: &LeaseId, delivered: bool, out: &mut Vec<Output>) {
        if let Some((id, entry, _)) = self.take_moving(lease) {
            if !delivered {
                out.push(Output::GiveUp(lease.clone()));
            }
            self.close(now, &id, entry, if delivered { Ended::Delivered } else { Ended::Cancelled });
        }
    }

    fn take_moving(&mut self, lease: &LeaseId) -> Option<(RequestId, Entry, PathId)> {
        let id = self.routes.requests.of_lease(lease)?;
        match &self.routes.requests.get(&id)?.stage {
            Stage::Moving { lease: held, path, .. } if held.id == *lease => {
                let path = path.id.clone();
                let entry = self.routes.requests.take(&id)?;
                Some((id, entry, path))
            }
            Stage::Asking(_) | Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_) => None,
        }
    }
}
