//! The state that a path's latency, jitter and losses lead to: fast to escalate, slow and staged to
//! restore, slower again for a path that flaps.
//!
//! ```text
//!            gfs > 0.18                 gfs > 0.40,             gfs > 0.65,               severe for 2 × persistence by
//!                                       persisting              persisting                more than outliers; or it refuses
//! HEALTHY ───────────▶ DEGRADED_USABLE ──────▶ DEGRADED_RESTRICTED ──────▶ QUARANTINE_CANDIDATE ──────▶ QUARANTINED
//!    ▲                    │  ▲                     │        ▲                 │        │                    │
//!    │                    │  └─ eased, persisting ─┘        └─ eased ─────────┘        │                    │ hold over,
//!    │ clean_to_healthy   │ clean_to_restore       │ clean_to_restore                  │ clean_to_restore   │ clean_to_restore
//!    └──── RESTORED ◀─────┴────────────────────────┴───────────────────────────────────┴────────────────────┘
//! ```
//!
//! Above 0.40 and 0.65 the first bad windows lead one step less far. *Eased*: windows in a row that
//! are milder than what the state stands for; as many as persist lead one stage down, never two.
//! Clean windows are multiplied by the flaps that are remembered.

use serde::{Deserialize, Serialize};

use super::flaps::Flaps;
use super::window::FreshStats;
use crate::core::Mono;
use crate::health::Thresholds;
use crate::health::score::gfs;
use crate::health::state::Band;
use crate::model::PathState;

/// The state and what led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyTrack {
    state: PathState,
    bad_windows: u32,
    /// Of windows that outliers alone do not make severe.
    severe_windows: u32,
    clean_windows: u32,
    eased_windows: u32,
    /// Samples in a row that the transport refused.
    failures: u32,
    hold_ms: u64,
    hold_until: Mono,
    flaps: Flaps,
}

impl Default for LatencyTrack {
    fn default() -> Self {
        Self::in_state(PathState::Healthy)
    }
}

/// What one turn rests on.
struct Facts {
    persists: bool,
    lasts: bool,
    eased: bool,
    restores: bool,
    heals: bool,
    held: bool,
}

impl LatencyTrack {
    /// A path of which nothing is known but its state.
    pub(super) fn in_state(state: PathState) -> Self {
        Self {
            state,
            bad_windows: 0,
            severe_windows: 0,
            clean_windows: 0,
            eased_windows: 0,
            failures: 0,
            hold_ms: 0,
            hold_until: Mono(0),
            flaps: Flaps::default(),
        }
    }

    /// The state after the last window.
    #[must_use]
    pub fn state(&self) -> PathState {
        self.state
    }

    /// Until when the path is held at least; meaningless unless it is QUARANTINED.
    #[must_use]
    pub fn hold_until(&self) -> Mono {
        self.hold_until
    }

    /// Counts one window and moves to the state that follows. `failed`: the transport refused the
    /// newest sample.
    pub(super) fn observe(&mut self, thresholds: &Thresholds, now: Mono, window: &FreshStats, failed: bool) {
        if self.state != PathState::Quarantined {
            self.flaps.forget(thresholds, now);
        }
        let band = Band::of(gfs(thresholds, &window.stats));
        self.count(band, window, failed);
        let refuses = self.failures >= thresholds.persistence_to_escalate;
        let next = if refuses { PathState::Quarantined } else { self.next(&self.facts(thresholds, now), band) };
        self.enter(thresholds, now, next, bad(band));
    }

    /// Whether the last window was clean.
    pub(super) fn is_clean(&self) -> bool {
        self.clean_windows > 0
    }

    fn count(&mut self, band: Band, window: &FreshStats, failed: bool) {
        let counted = |count: u32, goes_on: bool| if goes_on { count.saturating_add(1) } else { 0 };
        self.bad_windows = counted(self.bad_windows, bad(band));
        self.severe_windows = counted(self.severe_windows, window.severe_without_worst);
        self.clean_windows = counted(self.clean_windows, !bad(band));
        self.eased_windows = counted(self.eased_windows, milder(self.state, band));
        self.failures = counted(self.failures, failed);
    }

    fn facts(&self, thresholds: &Thresholds, now: Mono) -> Facts {
        let persistence = thresholds.persistence_to_escalate;
        Facts {
            persists: self.bad_windows >= persistence,
            lasts: self.severe_windows >= persistence.saturating_mul(2),
            eased: self.eased_windows >= persistence,
            restores: self.clean_windows >= self.flaps.slowed(thresholds.clean_to_restore),
            heals: self.clean_windows >= self.flaps.slowed(thresholds.clean_to_healthy),
            held: now < self.hold_until,
        }
    }

    fn next(&self, facts: &Facts, band: Band) -> PathState {
        use Band::{Clean, Edge, High, Mild, Severe};
        use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};
        let on = |fact: bool, then: PathState, otherwise: PathState| if fact { then } else { otherwise };
        match (self.state, band) {
            (Quarantined, Severe | High | Mild | Edge) => Quarantined,
            (Quarantined, Clean) => on(facts.restores && !facts.held, Restored, Quarantined),

            (QuarantineCandidate, Severe) => on(facts.lasts, Quarantined, QuarantineCandidate),
            (QuarantineCandidate, High | Mild) => on(facts.eased, DegradedRestricted, QuarantineCandidate),
            (QuarantineCandidate, Edge) => QuarantineCandidate,
            (QuarantineCandidate, Clean) => on(facts.restores, Restored, QuarantineCandidate),

            (Healthy | Restored | DegradedUsable | DegradedRestricted, Severe) => {
                on(facts.persists, QuarantineCandidate, DegradedRestricted)
            }
            (DegradedRestricted, High) => DegradedRestricted,
            (Healthy | Restored | DegradedUsable, High) => on(facts.persists, DegradedRestricted, DegradedUsable),
            (DegradedRestricted, Mild) => on(facts.eased, DegradedUsable, DegradedRestricted),
            (Healthy | Restored | DegradedUsable, Mild) => DegradedUsable,

            (DegradedUsable | DegradedRestricted, Edge | Clean) => on(facts.restores, Restored, self.state),
            (Restored, Edge | Clean) => on(facts.heals, Healthy, Restored),
            (Healthy, Edge | Clean) => Healthy,
        }
    }

    fn enter(&mut self, thresholds: &Thresholds, now: Mono, next: PathState, bad: bool) {
        let before = std::mem::replace(&mut self.state, next);
        if before != next {
            self.eased_windows = 0;
        }
        match (before == PathState::Quarantined, next == PathState::Quarantined) {
            (false, true) => {
                self.hold_ms = self.flaps.hold_ms(thresholds, thresholds.quarantine_hold_ms);
                self.hold_until = now.plus_ms(self.hold_ms);
                self.flaps.add();
            }
            // It never came back, so this is no flap: the same hold again.
            (true, true) if bad && now >= self.hold_until => self.hold_until = now.plus_ms(self.hold_ms),
            (true, false) => self.flaps.back(now),
            (true, true) | (false, false) => {}
        }
    }
}

fn bad(band: Band) -> bool {
    match band {
        Band::Severe | Band::High | Band::Mild => true,
        Band::Edge | Band::Clean => false,
    }
}

/// Whether a window is milder than what the state stands for.
fn milder(state: PathState, band: Band) -> bool {
    match state {
        PathState::QuarantineCandidate => band != Band::Severe,
        PathState::DegradedRestricted => !matches!(band, Band::Severe | Band::High),
        PathState::Healthy | PathState::Restored | PathState::DegradedUsable | PathState::Quarantined => false,
    }
}

#[cfg(test)]
mod tests;
