//! The decode engines: a session begins when its bytes are announced, lasts for a drawn time, and
//! ends its lease.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::event::Own;
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

impl World {
    pub(super) fn begin_session(&mut self, node: usize, lease: LeaseId) {
        let lasts_ns = nanos(exponential(self.settings.session_ms, &mut self.engines.0));
        if let Some(cores) = self.cores_mut(node) {
            cores.sessions.insert(lease.clone());
        }
        self.later_ns(node, lasts_ns, Own::SessionEnds { lease });
    }

    pub(super) fn session_ends(&mut self, node: usize, lease: LeaseId) {
        if self.cores_mut(node).is_some_and(|cores| cores.sessions.remove(&lease)) {
            self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::EngineRelease { key, lease });
        }
    }

    /// A decode engine reports, where engines do.
    pub(super) fn engine_reads(&mut self, node: usize) {
        let Some(interval_ms) = self.settings.engine_word_ms else { return };
        let now = self.now_of(node);
        let Some(cores) = self.cores_mut(node) else { return };
        let adopted: Vec<LeaseId> = cores.sessions.iter().cloned().collect();
        let word = EngineWord {
            active_sessions: u32::try_from(adopted.len()).unwrap_or(u32::MAX),
            adopted: Some(adopted),
            as_of_ms: Some(now.wall_ms),
            ..EngineWord::default()
        };
        self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::Engine { key, word });
        self.later(node, interval_ms, Own::EngineReads);
    }

    /// A decode engine says something of its own: sessions that no lease explains, say.
    pub fn engine_word(&mut self, node: usize, word: EngineWord) {
        self.ask_ledger(node, LedgerQuestion::Nobody, |key| Input::Engine { key, word });
        self.drain(node);
    }
}
