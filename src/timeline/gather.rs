//! Entries to facts.

mod events;

use std::collections::BTreeSet;

use super::MAX_CHANGES;
use super::facts::{End, Ended, Facts, Lane, Leased, Life, room};
use super::lack::{Lack, Lacks};
use crate::core::Now;
use crate::health;
use crate::journal::{Entry, Header, Input, Part, Said, Snapshot, Turn};
use crate::mesh::MemberState;
use crate::model::{NodeName, PathId, PathState};
use crate::policy;
use events::words;

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
        self.end_what_was_known(&header.node);
        self.lives.push(Life::new(header));
        self.life_of.insert(key, self.lives.len() - 1);
        self.current = Some(self.lives.len() - 1);
    }

    /// What a node's earlier life knew ended with it.
    fn end_what_was_known(&mut self, node: &NodeName) {
        let ends: Vec<u64> = self.lives.iter().map(|life| life.last).collect();
        let end = |life: usize| ends.get(life).copied().unwrap_or_default();
        let known = |(_, lane): &(usize, &Lane)| lane.observer == *node && lane.state().is_some();
        let lanes: Vec<(usize, usize)> =
            self.lanes.iter().enumerate().filter(known).map(|(index, lane)| (index, lane.life)).collect();
        lanes.into_iter().for_each(|(lane, life)| self.change(lane, life, end(life), None));
        for seen in self.members.values_mut().filter_map(|member| member.seen.get_mut(node)) {
            if seen.known.take().is_some() && room(&mut self.changes, MAX_CHANGES, &mut self.left_out) {
                seen.changes.push((end(seen.life), None));
            }
        }
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        let Some(index) = self.current else {
            self.left_out += 1;
            return;
        };
        let Some(at) = self.at(index, entry.now()) else { return };
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

    pub(super) fn interrupted(&mut self, lack: Lack) {
        let Some(index) = self.current else { return };
        let Some(life) = self.lives.get_mut(index) else { return };
        let last = life.last;
        life.interrupted.get_or_insert((last, Lacks::default())).1.add(lack);
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
        if let Some((since, lacks)) = unread {
            self.gap(index, since, at, lacks.words());
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
        let gone =
            |(_, lane): &(usize, &Lane)| lane.life == index && lane.state().is_some() && !there.contains(&lane.path);
        let lanes: Vec<usize> = self.lanes.iter().enumerate().filter(gone).map(|(lane, _)| lane).collect();
        lanes.into_iter().for_each(|lane| self.change(lane, index, at, None));
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
            | policy::Input::TransferWaited { .. }
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
            return;
        }
        // A history with a hole would be a false one.
        if known.cut.is_some() {
            self.left_out += 1;
            return;
        }
        let room = room(&mut self.changes, MAX_CHANGES, &mut self.left_out);
        match room {
            true => known.changes.push((at, state)),
            false => {
                known.cut.get_or_insert(at);
            }
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
}

/// A point of a life's monotonic clock that lies about at `at`.
fn policy_time(life: Option<&Life>, at: u64) -> crate::core::Mono {
    life.map_or_else(Default::default, |life| life.axis.mono(at))
}
