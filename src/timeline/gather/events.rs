//! What happened: decisions, transfers, members, and the words of operators.

use crate::model::{Generation, LeaseId, NodeName, Outcome, STRICT_FROM, Workload};
use crate::policy::overrides::{Override, OverrideTarget};
use crate::policy::record::DecisionRecord;
use crate::timeline::facts::{Decision, Ended, Facts, Leased, Move, Moved, Overridden, Transfer};

/// Characters kept of what somebody wrote.
const MAX_WORDS: usize = 200;

impl Facts {
    pub(super) fn decided(&mut self, index: usize, at: u64, record: &DecisionRecord) {
        let Some(node) = self.node(index) else { return };
        let path = record.chosen.as_ref().and_then(|chosen| chosen.path.as_ref());
        let lane = path.and_then(|path| self.lane(&node, path, index));
        if let (Some(lane), Some(lease)) = (lane, &record.lease) {
            if let Some(life) = self.lives.get_mut(index) {
                life.leased(lease.id.clone(), Leased { lane, granted: at, transfer: None });
            }
            // A further attempt begins with its decision.
            if record.attempt > 1 {
                self.transfer(index, at, &lease.id, lane);
            }
        }
        if !self.is_asked_for(at) || !self.room_for_event() {
            return;
        }
        let decision = Decision {
            at,
            strict: is_strict(&record.workload),
            outcome: record.outcome,
            class: record.workload.name.clone(),
            request: record.request_id.clone(),
        };
        match lane.and_then(|lane| self.lanes.get_mut(lane)) {
            Some(lane) => lane.decisions.push(decision),
            None if record.outcome == Outcome::NoAdmissiblePool => {
                self.refused.entry(node).or_default().push(decision);
            }
            None => self.left_out += 1,
        }
    }

    fn is_asked_for(&self, at: u64) -> bool {
        (self.asked.from..=self.asked.to).contains(&at)
    }

    pub(super) fn transfer(&mut self, index: usize, at: u64, lease: &LeaseId, lane: usize) {
        if at > self.asked.to || !self.room_for_event() {
            return;
        }
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        lane.transfers.push(Transfer { from: at, to: at, end: Ended::Unknown });
        let transfer = lane.transfers.len() - 1;
        if let Some(leased) = self.lives.get_mut(index).and_then(|life| life.lease_mut(lease)) {
            leased.transfer = Some(transfer);
        }
    }

    pub(super) fn transfer_ended(&mut self, index: usize, at: u64, lease: &LeaseId, end: Ended) {
        let Some(leased) = self.lives.get_mut(index).and_then(|life| life.end_lease(lease)) else {
            self.unknown_leases += 1;
            return;
        };
        let Some(lane) = self.lanes.get_mut(leased.lane) else { return };
        if let Some(transfer) = leased.transfer.and_then(|transfer| lane.transfers.get_mut(transfer)) {
            (transfer.to, transfer.end) = (at.max(transfer.from), end);
        } else if matches!(end, Ended::Failed(_)) && self.room_for_event() {
            let failed = Transfer { from: leased.granted, to: at.max(leased.granted), end };
            if let Some(lane) = self.lanes.get_mut(leased.lane) {
                lane.transfers.push(failed);
            }
        }
    }

    pub(super) fn member(&mut self, index: usize, at: u64, member: &NodeName, generation: Generation, here: bool) {
        let Some(observer) = self.node(index).filter(|node| node != member) else { return };
        let known = self.members.get(member).and_then(|seen| seen.seen.get(&observer)).and_then(|seen| seen.known);
        let kind = match (known, here) {
            // Word of a life that is over changes nothing, and neither does what is known already.
            (Some((later, _)), _) if later > generation => return,
            (Some((same, true)), true) if same == generation => return,
            (Some((_, false)), false) => return,
            (Some((_, true)), true) => Moved::Restarted,
            (Some((_, false)) | None, true) => Moved::Came,
            // Also of a member that came before the journal begins.
            (Some((_, true)) | None, false) => Moved::Went,
        };
        if !self.room_for_change() {
            return;
        }
        let member = self.members.entry(member.clone()).or_default();
        let seen = member.seen.entry(observer.clone()).or_default();
        (seen.known, seen.life) = (Some((generation, here)), index);
        let at = at.max(seen.changes.last().map_or(0, |(before, _)| *before));
        seen.changes.push((at, Some(here)));
        member.moves.push(Move { at, observer, kind });
    }

    pub(super) fn overridden(&mut self, index: usize, at: u64, said: Override, ttl_ms: u64) {
        let Some(node) = self.node(index) else { return };
        let key = (node, said.target);
        let (state, reason, to) = (said.state, words(&said.reason), at.saturating_add(ttl_ms));
        if let Some(last) = self.overrides.get_mut(&key).and_then(|spans| spans.last_mut())
            && last.open
            && last.life == index
        {
            if (last.state, &last.reason) == (state, &reason) {
                last.to = to;
                return;
            }
            (last.to, last.open) = (at, false);
        }
        if self.room_for_change() {
            let span = Overridden { from: at, to, state, reason, life: index, open: true };
            self.overrides.entry(key).or_default().push(span);
        }
    }

    pub(super) fn override_ended(&mut self, index: usize, at: u64, target: &OverrideTarget) {
        let Some(node) = self.node(index) else { return };
        let spans = self.overrides.get_mut(&(node, target.clone()));
        if let Some(last) = spans.and_then(|spans| spans.last_mut())
            && last.open
            && last.life == index
        {
            (last.to, last.open) = (at, false);
        }
    }
}

fn is_strict(workload: &Workload) -> bool {
    workload.effective_criticality() >= STRICT_FROM
}

pub(super) fn words(text: &str) -> String {
    text.chars().take(MAX_WORDS).collect()
}
