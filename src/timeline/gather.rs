//! Entries to facts.

use std::collections::BTreeSet;

use super::facts::{Decision, End, Ended, Facts, Lane, Leased, Life, Move, Moved, Overridden, Transfer};
use super::time::Axis;
use crate::core::Now;
use crate::health;
use crate::journal::{Entry, Header, Input, Part, Said, Snapshot, Turn};
use crate::mesh::MemberState;
use crate::model::{Generation, LeaseId, NodeName, Outcome, PathId, PathState, Workload};
use crate::policy;
use crate::policy::overrides::{Override, OverrideTarget};
use crate::policy::record::DecisionRecord;

/// From this effective criticality on work is drawn as strict: from here on the mesh profile's own
/// rules rank it health first, unless configured otherwise.
pub(super) const STRICT_FROM: f64 = 0.70;
/// Characters kept of what somebody wrote.
const MAX_WORDS: usize = 200;

impl Facts {
    pub(super) fn life(&mut self, header: &Header) {
        let key = (header.node.clone(), header.generation);
        if let Some(life) = self.life_of.get(&key) {
            self.current = Some(*life);
            return;
        }
        if !self.room_for_change() {
            self.current = None;
            return;
        }
        let axis = Axis::of(header.opened);
        let opened = axis.at_ms(header.opened.mono);
        self.end_what_was_known(&header.node);
        self.lives.push(Life::new(header.node.clone(), header.generation, axis, opened));
        self.life_of.insert(key, self.lives.len() - 1);
        self.current = Some(self.lives.len() - 1);
    }

    /// What a node's earlier life knew ended with it.
    fn end_what_was_known(&mut self, node: &NodeName) {
        let ends: Vec<u64> = self.lives.iter().map(|life| life.last).collect();
        let end = |life: usize| ends.get(life).copied().unwrap_or_default();
        for lane in self.lanes.iter_mut().filter(|lane| lane.observer == *node && lane.state().is_some()) {
            lane.changes.push((end(lane.life), None));
        }
        for seen in self.members.values_mut().filter_map(|member| member.seen.get_mut(node)) {
            if seen.known.take().is_some() {
                seen.changes.push((end(seen.life), None));
            }
        }
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        let Some(index) = self.current else {
            self.left_out += 1;
            return;
        };
        let now = match entry {
            Entry::Snapshot(_) => None,
            Entry::Turn(turn) => Some(turn.now),
            Entry::Gap(gap) => Some(gap.until),
            Entry::Panicked(_, now) | Entry::Closed(now) => Some(*now),
        };
        let Some(at) = self.at(index, now) else { return };
        match entry {
            Entry::Snapshot(snapshot) => self.snapshot(index, at, snapshot),
            Entry::Turn(turn) => self.turn(index, at, turn),
            Entry::Gap(gap) => {
                let since = self.lives.get(index).map_or(at, |life| life.axis.at_ms(gap.since.mono)).min(at);
                let words = format!("{} turns of {} are not in the journal", gap.lost, gap.part);
                self.gap(index, since, at, words);
                if gap.part == Part::Health {
                    self.forget_paths(index, since);
                }
            }
            Entry::Panicked(input, _) => self.end(index, End::Panicked(input.part().as_str())),
            Entry::Closed(_) => self.end(index, End::Closed),
        }
    }

    pub(super) fn interrupted(&mut self) {
        let Some(index) = self.current else { return };
        let Some(life) = self.lives.get_mut(index) else { return };
        let last = life.last;
        life.interrupted.get_or_insert(last);
        self.forget_paths(index, last);
    }

    /// When an entry of a life is: never before the one that stands before it.
    fn at(&mut self, index: usize, now: Option<Now>) -> Option<u64> {
        let life = self.lives.get_mut(index)?;
        if let Some(now) = now {
            life.last = life.last.max(life.axis.at_ms(now.mono));
        }
        let at = life.last;
        let widen = |range: &mut Option<(u64, u64)>| {
            *range = Some(range.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        };
        widen(&mut self.there);
        if (self.asked.from..=self.asked.to).contains(&at) {
            widen(&mut self.within);
        }
        let life = self.lives.get_mut(index)?;
        let unread = now.and(life.interrupted.take());
        if let Some(since) = unread {
            self.gap(index, since, at, "a part of the journal is missing or cannot be read".to_owned());
        }
        Some(at)
    }

    fn gap(&mut self, index: usize, since: u64, until: u64, words: String) {
        if self.room_for_change()
            && let Some(life) = self.lives.get_mut(index)
        {
            life.gaps.push((since, until, words));
        }
    }

    fn end(&mut self, index: usize, end: End) {
        if let Some(life) = self.lives.get_mut(index) {
            life.end = end;
        }
    }

    fn node(&self, index: usize) -> Option<NodeName> {
        self.lives.get(index).map(|life| life.node.clone())
    }

    fn snapshot(&mut self, index: usize, at: u64, snapshot: &Snapshot) {
        match snapshot {
            Snapshot::Health(snapshot) => self.health(index, at, snapshot),
            Snapshot::Policy(policy) => {
                for (said, left_ms) in policy.overrides().list(policy_time(self.lives.get(index), at)) {
                    self.overridden(index, at, said, left_ms);
                }
            }
            Snapshot::Ledger(_) | Snapshot::Mesh(_) | Snapshot::MeshRunning => {}
        }
    }

    fn health(&mut self, index: usize, at: u64, snapshot: &health::Snapshot) {
        let there: BTreeSet<&PathId> = snapshot.paths.iter().map(|known| &known.path).collect();
        for known in &snapshot.paths {
            self.path_is(index, at, &known.path, known.track.state());
        }
        let gone = |lane: &&mut Lane| lane.life == index && lane.state().is_some() && !there.contains(&lane.path);
        self.lanes.iter_mut().filter(gone).for_each(|lane| lane.changes.push((at, None)));
        self.frozen(index, at, snapshot.stall.frozen());
    }

    fn turn(&mut self, index: usize, at: u64, turn: &Turn) {
        match &turn.input {
            Input::Health(health::Input::PathUp(spec)) => {
                let usable = spec.bandwidth_gbps.is_finite() && spec.bandwidth_gbps > 0.0;
                let known = self.lane_state(index, &spec.id).is_some();
                if usable && !known {
                    self.path_is(index, at, &spec.id, PathState::Healthy);
                }
            }
            Input::Policy(input) => self.policy(index, at, input),
            Input::Health(_) | Input::Ledger(_) | Input::Mesh(_) => {}
        }
        for said in &turn.said {
            match said {
                Said::Transition { path, to, .. } => self.path_is(index, at, path, *to),
                Said::Gone(path) => self.path_gone(index, at, path),
                Said::Frozen(frozen) => self.frozen(index, at, *frozen),
                Said::Decided(record) => self.decided(index, at, record),
                Said::OverrideEnded(target) => self.override_ended(index, at, target),
                Said::Member { member, state } => {
                    let here = *state != MemberState::Down;
                    self.member(index, at, &member.name, member.generation, here);
                }
                Said::NodeGone { node, generation } => self.member(index, at, node, *generation, false),
                Said::Renewed(_) => {
                    if self.room_for_change()
                        && let Some(life) = self.lives.get_mut(index)
                    {
                        life.renewed.push(at);
                    }
                }
                Said::Staged { .. } => {}
            }
        }
    }

    fn policy(&mut self, index: usize, at: u64, input: &policy::Input) {
        match input {
            policy::Input::Peer { generation, record } => self.member(index, at, &record.node, *generation, true),
            policy::Input::PeerGone { node, generation } => self.member(index, at, node, *generation, false),
            policy::Input::Override { said, ttl_ms, .. } => self.overridden(index, at, said.clone(), *ttl_ms),
            policy::Input::Withdraw { target, .. } => self.override_ended(index, at, target),
            policy::Input::TransferStart { lease, .. } => {
                let known = self.lives.get_mut(index).and_then(|life| life.lease_mut(lease)).copied();
                match known {
                    Some(Leased { lane, transfer: None, .. }) => self.transfer(index, at, lease, lane),
                    Some(_) => {}
                    None => self.unknown_leases += 1,
                }
            }
            policy::Input::TransferFailed { lease, detail, .. } => {
                self.transfer_ended(index, at, lease, Ended::Failed(words(detail)));
            }
            policy::Input::TransferEnded { lease, delivered } => {
                let end = if *delivered { Ended::Delivered } else { Ended::Cancelled };
                self.transfer_ended(index, at, lease, end);
            }
            policy::Input::Release { lease, .. } => {
                self.lives.get_mut(index).map(|life| life.end_lease(lease));
            }
            policy::Input::Load { .. }
            | policy::Input::Paths { .. }
            | policy::Input::Report(_)
            | policy::Input::Route { .. }
            | policy::Input::LeaseAnswer { .. }
            | policy::Input::Renewed { .. }
            | policy::Input::Cancel { .. }
            | policy::Input::Configure(_)
            | policy::Input::Tick => {}
        }
    }

    fn lane_state(&self, index: usize, path: &PathId) -> Option<PathState> {
        let key = (self.node(index)?, path.clone());
        self.lanes.get(*self.lane_of.get(&key)?)?.state()
    }

    fn path_is(&mut self, index: usize, at: u64, path: &PathId, state: PathState) {
        let Some(node) = self.node(index) else { return };
        let Some(lane) = self.lane(&node, path, index) else { return };
        self.change(lane, index, at, Some(state));
    }

    fn path_gone(&mut self, index: usize, at: u64, path: &PathId) {
        let Some(node) = self.node(index) else { return };
        let Some(lane) = self.lane(&node, path, index) else { return };
        self.change(lane, index, at, None);
        if let Some(lane) = self.lanes.get_mut(lane)
            && self.asked.from <= at
            && at <= self.asked.to
        {
            lane.gone.push(at);
        }
    }

    /// What a path is from now on. Of what was before the time asked for, the last word is enough.
    fn change(&mut self, lane: usize, life: usize, at: u64, state: Option<PathState>) {
        let from = self.asked.from;
        let Some(known) = self.lanes.get_mut(lane) else { return };
        known.life = life;
        if known.state() == state || at > self.asked.to {
            return;
        }
        let at = at.max(known.changes.last().map_or(0, |(before, _)| *before));
        if let Some(last) = known.changes.last_mut()
            && at <= from
        {
            *last = (at, state);
        } else if self.room_for_change()
            && let Some(known) = self.lanes.get_mut(lane)
        {
            known.changes.push((at, state));
        }
    }

    /// Nothing is known any more of the paths of a life.
    fn forget_paths(&mut self, index: usize, at: u64) {
        let of_life = |(_, lane): &(usize, &Lane)| lane.life == index && lane.state().is_some();
        let lanes: Vec<usize> = self.lanes.iter().enumerate().filter(of_life).map(|(lane, _)| lane).collect();
        lanes.into_iter().for_each(|lane| self.change(lane, index, at, None));
    }

    fn frozen(&mut self, index: usize, at: u64, frozen: bool) {
        let Some(life) = self.lives.get_mut(index) else { return };
        match (life.frozen_since, frozen) {
            (None, true) => life.frozen_since = Some(at),
            (Some(since), false) => {
                life.frozen_since = None;
                if self.room_for_change()
                    && let Some(life) = self.lives.get_mut(index)
                {
                    life.frozen.push((since, at));
                }
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    fn decided(&mut self, index: usize, at: u64, record: &DecisionRecord) {
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

    fn transfer(&mut self, index: usize, at: u64, lease: &LeaseId, lane: usize) {
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

    fn transfer_ended(&mut self, index: usize, at: u64, lease: &LeaseId, end: Ended) {
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

    fn member(&mut self, index: usize, at: u64, member: &NodeName, generation: Generation, here: bool) {
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

    fn overridden(&mut self, index: usize, at: u64, said: Override, ttl_ms: u64) {
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

    fn override_ended(&mut self, index: usize, at: u64, target: &OverrideTarget) {
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

/// A point of a life's monotonic clock that lies about at `at`.
fn policy_time(life: Option<&Life>, at: u64) -> crate::core::Mono {
    life.map_or_else(Default::default, |life| life.axis.mono(at))
}

fn is_strict(workload: &Workload) -> bool {
    workload.effective_criticality() >= STRICT_FROM
}

fn words(text: &str) -> String {
    text.chars().take(MAX_WORDS).collect()
}
