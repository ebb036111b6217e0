//! After a life that ended without a word: nothing is granted until what it left behind is known,
//! or over.
//!
//! What may be left behind depends on who moves the bytes. Where every write asks the ledger first,
//! the streams of the earlier life died with it and none of its writes can land any more; unknown
//! are the sessions that the engine runs, and the pages that it still reads. Where the engine moves
//! the bytes, writes under the earlier grants may still come. The engine's own report tells its
//! sessions either way. A report that names leases of an earlier life says that the engine still
//! uses their memory, whose place in the arena nobody knows any more: it counts the wait anew.

use serde::{Deserialize, Serialize};

use super::{EngineWord, Ledger, LongestLease, Output, Stage};
use crate::core::{Mono, Now};
use crate::model::LeaseId;

/// No life has fenced a lease for longer than this.
const MAX_FENCE_MS: u64 = 3_600_000;

/// What a ledger knows of the life before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recovery {
    /// When everything of that life is over by itself.
    until: Mono,
    /// How long that takes, in milliseconds.
    wait_ms: u64,
    /// When this life began to wait; a reading taken before says nothing of it.
    since_ms: u64,
}

impl Ledger {
    /// Whether nothing is granted because what an earlier life granted is not known.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Whether the next life may grant at once if this one ends now, no stream writing any more:
    /// nothing is delivered, and no write can come that this ledger did not let in.
    #[must_use]
    pub fn leaves_nothing(&self) -> bool {
        let gone = |stage| stage != Stage::Delivered && self.settings.writes_are_gated;
        self.recovery.is_none() && self.held().all(|held| gone(held.stage))
    }

    /// The fence may have been set shorter since the earlier life granted, or longer because its
    /// engine needs more: the longer one counts.
    pub(super) fn recover(&mut self, now: Now, longest: LongestLease) {
        let ttl_ms = longest.ttl_ms.min(self.settings.max_ttl_ms.next_power_of_two());
        let wait_ms = ttl_ms + longest.fence_max_ms.min(MAX_FENCE_MS).max(self.settings.fence_max_ms);
        self.recovery = Some(Recovery { until: now.mono.plus_ms(wait_ms), wait_ms, since_ms: now.wall_ms });
    }

    pub(super) fn recovered_at(&self) -> Option<Mono> {
        self.recovery.as_ref().map(|recovery| recovery.until)
    }

    pub(super) fn recovered(&mut self, now: Now) {
        self.recovery.take_if(|recovery| recovery.until <= now.mono);
    }

    /// The engine has reported; `word` was taken.
    pub(super) fn recover_by(&mut self, now: Now, word: &EngineWord) {
        let Some(recovery) = &mut self.recovery else { return };
        if word.as_of_ms.is_some_and(|as_of_ms| as_of_ms < recovery.since_ms) {
            return;
        }
        let earlier = |lease: &LeaseId| lease.node == self.node && lease.generation < self.generation;
        if self.settings.arena_bytes.is_some() && word.adopted.iter().flatten().any(earlier) {
            recovery.until = now.mono.plus_ms(recovery.wait_ms);
        } else {
            self.recovery = None;
        }
    }

    /// Has the longest lease noted before it is told: it lives for `ttl_ms`, and is fenced as it is
    /// set now. The time to live is rounded up to a power of two, so that a life notes a few times
    /// at most.
    pub(super) fn note(&mut self, ttl_ms: u64, out: &mut Vec<Output>) {
        let noted = self.noted;
        if ttl_ms > noted.ttl_ms {
            self.noted.ttl_ms = ttl_ms.next_power_of_two();
        }
        self.noted.fence_max_ms = noted.fence_max_ms.max(self.settings.fence_max_ms);
        if self.noted != noted {
            out.push(Output::Longest(self.noted));
        }
    }
}
