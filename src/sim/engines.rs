//! The decode engines: a session begins when its bytes are announced, lasts for a drawn time, and
//! ends its lease.
//!
//! An engine that reports outlives the agent's process, and so do its sessions. It has copied their
//! bytes out, so it names no lease of an earlier life, but counts all that it runs. One that does
//! not report restarts with the agent, as docs/failure-model.md asks of such hosts.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::event::{Event, Heard, Own};
use super::fault::exponential;
use super::network::nanos;
use super::node::LedgerQuestion;
use super::world::World;
use crate::ledger::{EngineWord, Input};
use crate::model::LeaseId;

/// What all engines draw from.
pub(super) struct Engines(ChaCha8Rng);

impl Engines {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }
}

/// One host's engine as it truly is, whatever the agent's process knows of it.
#[derive(Default)]
pub(super) struct Engine {
    /// The sessions that came with leases.
    sessions: BTreeSet<LeaseId>,
    /// Those that no lease explains.
    others: u32,
}

impl Engine {
    /// A lease is free: its session, if it began, is over.
    pub(super) fn freed(&mut self, lease: &LeaseId) {
        self.sessions.remove(lease);
    }

    /// Whether it runs more than `fit`, with `to_come` leases under which a session may still begin.
    pub(super) fn is_over_committed(&self, fit: u32, to_come: usize) -> bool {
        let all = u32::try_from(self.sessions.len().saturating_add(to_come)).unwrap_or(u32::MAX);
        all.saturating_add(self.others) > fit
    }
}

impl World {
    pub(super) fn begin_session(&mut self, node: usize, lease: LeaseId) {
        let lasts_ns = nanos(exponential(self.settings.session_ms, &mut self.engines.0));
        if let Some(host) = self.nodes.get_mut(node) {
            host.engine.sessions.insert(lease.clone());
        }
        self.queue.push(self.now_ns + lasts_ns, Event::SessionEnds { node, lease });
    }

    /// A session ends; the agent hears of it if its process lives, or once it goes on.
    pub(super) fn session_ends(&mut self, node: usize, lease: LeaseId) {
        let Some(host) = self.nodes.get_mut(node) else { return };
        if host.engine.sessions.remove(&lease) {
            let life = host.life;
            self.happens(Event::At { node, life, heard: Heard::Own(Own::SessionEnded { lease }) });
        }
    }

    /// The agent hears that a session has ended.
    pub(super) fn session_ended(&mut self, node: usize, lease: LeaseId) {
        self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::EngineRelease { key, lease });
    }

    /// An agent's process is no more.
    pub(super) fn process_died(&mut self, node: usize) {
        let reports = self.settings.engine_word_ms.is_some();
        if let Some(host) = self.nodes.get_mut(node).filter(|_| !reports) {
            host.engine = Engine::default();
        }
    }

    /// A decode engine reports, where engines do.
    pub(super) fn engine_reads(&mut self, node: usize) {
        let Some(interval_ms) = self.settings.engine_word_ms else { return };
        let now = self.now_of(node);
        let Some(host) = self.nodes.get(node) else { return };
        let Engine { sessions, others } = &host.engine;
        let this_life = |lease: &&LeaseId| lease.generation == host.generation;
        let word = EngineWord {
            active_sessions: u32::try_from(sessions.len()).unwrap_or(u32::MAX).saturating_add(*others),
            adopted: Some(sessions.iter().filter(this_life).cloned().collect()),
            as_of_ms: Some(now.wall_ms),
            ..EngineWord::default()
        };
        self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::Engine { key, word });
        self.later(node, interval_ms, Own::EngineReads);
    }

    /// A decode engine comes to run so many sessions that no lease explains, and says so.
    pub fn engine_runs(&mut self, node: usize, others: u32) {
        if let Some(host) = self.nodes.get_mut(node) {
            host.engine.others = others;
        }
        self.engine_word(node, EngineWord { active_sessions: others, ..EngineWord::default() });
    }

    /// A decode engine says something, whether it is so or not.
    pub fn engine_word(&mut self, node: usize, word: EngineWord) {
        self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::Engine { key, word });
        self.drain(node);
    }
}
