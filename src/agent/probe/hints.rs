//! What others tell the prober: which paths are in use, and which canaries health asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::health::Canary;
use crate::model::PathId;

/// A path counts as in use for so long after it was chosen or moved bytes.
const IN_USE: Duration = Duration::from_secs(60);
/// Paths in use that are remembered.
const MAX_USED: usize = 4_096;
/// Canaries that wait for the prober.
const MAX_CANARIES: usize = 1_024;

/// A board that the prober reads each round.
#[derive(Default)]
pub(crate) struct ProbeHints {
    board: Mutex<Board>,
}

#[derive(Default)]
struct Board {
    used: BTreeMap<PathId, Instant>,
    canaries: Vec<Canary>,
}

impl ProbeHints {
    /// The path was chosen or moved bytes just now. Says whether there was room to note it.
    pub(crate) fn used(&self, path: &PathId) -> bool {
        let mut board = self.board();
        let now = Instant::now();
        if let Some(at) = board.used.get_mut(path) {
            *at = now;
            return true;
        }
        if board.used.len() >= MAX_USED {
            board.used.retain(|_, at| now.saturating_duration_since(*at) < IN_USE);
        }
        let room = board.used.len() < MAX_USED;
        if room {
            board.used.insert(path.clone(), now);
        }
        room
    }

    /// The paths in use.
    pub(super) fn in_use(&self, now: Instant) -> BTreeSet<PathId> {
        let mut board = self.board();
        board.used.retain(|_, at| now.saturating_duration_since(*at) < IN_USE);
        board.used.keys().cloned().collect()
    }

    /// Health asks for a canary. Says whether there was room to note it.
    pub(crate) fn canary(&self, canary: Canary) -> bool {
        let mut board = self.board();
        let room = board.canaries.len() < MAX_CANARIES;
        if room {
            board.canaries.push(canary);
        }
        room
    }

    /// The canaries that were asked for since the last call.
    pub(super) fn take_canaries(&self) -> Vec<Canary> {
        std::mem::take(&mut self.board().canaries)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
