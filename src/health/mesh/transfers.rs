//! The state that transfers which failed lead to. Small probes succeed on a path on which transfers
//! hang, so no small probe rehabilitates it: only bytes of the size that failed do.
//!
//! ```text
//!        failed                 again, or a missed deadline         hold over: canary
//! CLEAR ────────▶ DOUBTED ────────────────────────────────▶ HELD ────────────────────▶ TRIAL
//!   ▲ │              │ worked                                ▲  ▲                        │ │
//!   │ └──────────────│───────────── missed its deadline ─────┘  └─── failed: hold × 2 ───┘ │
//!   │                ▼                                                                     │
//!   └─────────── RESTORED ◀────────────────────────────── worked ──────────────────────────┘
//!  clean_to_healthy
//! ```
//!
//! DOUBTED restricts the path, HELD and TRIAL quarantine it.
//!
//! What happened counts in the order in which it ended, however late this host hears of it: what worked
//! answers only what had failed before, and what failed was answered if its size has worked since.

use serde::{Deserialize, Serialize};

use super::flaps::Flaps;
use crate::core::Mono;
use crate::health::Settings;
use crate::model::PathState;

/// Where a path stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing failed.
    #[default]
    Clear,
    /// Something failed at once.
    Doubted,
    /// It is left alone until its hold is over.
    Held,
    /// The hold is over; one canary decides.
    Trial,
    /// It worked again.
    Restored,
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Failure {
    /// When it began and when it was known to have failed.
    pub(super) began: Mono,
    pub(super) ended: Mono,
    /// How many bytes it was to move, at least 1.
    pub(super) bytes: u64,
    /// It missed its deadline, rather than being told so.
    pub(super) lost: bool,
}

/// What failed on a path, and whether it has worked since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferTrack {
    stage: Stage,
    failed_bytes: u64,
    /// When the path was put aside last.
    held_since: Mono,
    hold_ms: u64,
    /// When the hold is over and a canary is due.
    hold_until: Mono,
    clean_windows: u32,
    flaps: Flaps,
    /// When its trial began last.
    trial_since: Mono,
    /// When the newest failure ended.
    failed_at: Mono,
    worked: Worked,
}

/// What worked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Worked {
    at: Mono,
    /// At most as many as a canary: what worked with more than that says no more.
    bytes: u64,
}

impl TransferTrack {
    /// The state that follows.
    #[must_use]
    pub fn state(&self) -> PathState {
        match self.stage {
            Stage::Clear => PathState::Healthy,
            Stage::Restored => PathState::Restored,
            Stage::Doubted => PathState::DegradedRestricted,
            Stage::Held | Stage::Trial => PathState::Quarantined,
        }
    }

    /// Bytes of the largest attempt that failed while nothing of that size has worked since; 0 if
    /// there is none.
    #[must_use]
    pub fn failed_bytes(&self) -> u64 {
        self.failed_bytes
    }

    /// When a canary is due.
    pub(super) fn due(&self) -> Option<Mono> {
        match self.stage {
            Stage::Doubted | Stage::Held | Stage::Trial => Some(self.hold_until),
            Stage::Clear | Stage::Restored => None,
        }
    }

    /// An attempt failed; says whether that counts, which it does not if its size has worked since.
    pub(super) fn failed(&mut self, settings: &Settings, failure: Failure) -> bool {
        let now = failure.ended;
        if now < self.worked.at && self.worked.bytes >= failure.bytes.min(settings.canary_bytes) {
            return false;
        }
        self.failed_at = self.failed_at.max(now);
        self.failed_bytes = self.failed_bytes.max(failure.bytes);
        self.clean_windows = 0;
        match (self.stage, failure.lost) {
            (Stage::Clear | Stage::Restored, false) => {
                self.flaps.forget(&settings.thresholds, now);
                self.stage = Stage::Doubted;
                self.hold_ms = self.flaps.hold_ms(&settings.thresholds, settings.thresholds.quarantine_hold_ms);
                self.hold_until = now.plus_ms(self.hold_ms);
            }
            // Of what hung once, the next would hang as long.
            (Stage::Clear | Stage::Restored, true) | (Stage::Doubted, true | false) => self.hold(settings, now),
            (Stage::Trial, true | false) if failure.began >= self.held_since && now >= self.trial_since => {
                self.hold(settings, now);
            }
            // It was under way before the path was put aside, or ended while it was: nothing new.
            (Stage::Held | Stage::Trial, true | false) => {}
        }
        true
    }

    /// An attempt of this many bytes worked; says whether it answers what failed.
    pub(super) fn worked(&mut self, settings: &Settings, now: Mono, bytes: u64) -> bool {
        let bytes = bytes.min(settings.canary_bytes);
        // A smaller one after it takes nothing from what a larger one showed.
        if bytes >= self.worked.bytes {
            let at = if bytes > self.worked.bytes { now } else { self.worked.at.max(now) };
            self.worked = Worked { at, bytes };
        }
        let covers = now >= self.failed_at && bytes >= self.failed_bytes.min(settings.canary_bytes);
        match self.stage {
            Stage::Doubted | Stage::Trial if covers && (self.stage == Stage::Doubted || now >= self.trial_since) => {
                if self.stage == Stage::Trial {
                    self.flaps.back(now);
                }
                self.stage = Stage::Restored;
                self.failed_bytes = 0;
                self.clean_windows = 0;
                true
            }
            // While it is held nothing counts: the canary after it does.
            Stage::Clear | Stage::Doubted | Stage::Held | Stage::Trial | Stage::Restored => false,
        }
    }

    /// A window of small samples was clean or not.
    pub(super) fn window(&mut self, settings: &Settings, now: Mono, clean: bool) {
        match self.stage {
            Stage::Restored => {
                self.clean_windows = if clean { self.clean_windows.saturating_add(1) } else { 0 };
                if self.clean_windows >= self.flaps.slowed(settings.thresholds.clean_to_healthy) {
                    self.stage = Stage::Clear;
                }
            }
            Stage::Clear => self.flaps.forget(&settings.thresholds, now),
            Stage::Doubted | Stage::Held | Stage::Trial => {}
        }
    }

    /// The hold is over: how many bytes the canary has. The next is due a hold later.
    pub(super) fn canary(&mut self, settings: &Settings, now: Mono) -> Option<u64> {
        self.stage = match self.stage {
            Stage::Clear | Stage::Restored => return None,
            Stage::Doubted => Stage::Doubted,
            Stage::Held => {
                self.trial_since = now;
                Stage::Trial
            }
            Stage::Trial => Stage::Trial,
        };
        // At least a millisecond, so that a hold of 0 does not make canaries without end.
        self.hold_until = now.plus_ms(self.hold_ms.max(1));
        Some(self.failed_bytes.min(settings.canary_bytes).max(1))
    }

    fn hold(&mut self, settings: &Settings, now: Mono) {
        if !matches!(self.stage, Stage::Held | Stage::Trial) {
            self.flaps.forget(&settings.thresholds, now);
        }
        self.stage = Stage::Held;
        self.held_since = now;
        self.hold_ms = self.flaps.hold_ms(&settings.thresholds, settings.thresholds.quarantine_hold_ms);
        self.hold_until = now.plus_ms(self.hold_ms);
        self.flaps.add();
    }
}

#[cfg(test)]
mod tests;
