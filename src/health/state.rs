//! The state of one path: fast to escalate, slow and staged to restore.
//!
//! ```text
//!            gfs > 0.18                  gfs > 0.40, persisting           gfs > 0.65, persisting
//! HEALTHY ───────────▶ DEGRADED_USABLE ───────────▶ DEGRADED_RESTRICTED ───────────▶ QUARANTINE_CANDIDATE
//!    ▲                    │ clean_to_restore            │ clean_to_restore               │ gfs < 0.15
//!    │ clean_to_healthy   ▼                             ▼                                ▼
//!    └───────────────  RESTORED ◀───────────────────────┴────────────────────────────────┘
//! ```
//!
//! Above 0.40 and 0.65 the first bad windows lead one step less far. The reference never enters
//! QUARANTINED; who is there leaves it as from QUARANTINE_CANDIDATE.

use serde::{Deserialize, Serialize};

use super::score::Thresholds;
use crate::model::PathState;

/// A window with a GFS above this is bad; at or below it, clean.
pub const BAD_ABOVE: f64 = 0.18;
/// A GFS above this restricts the path.
pub const RESTRICTED_ABOVE: f64 = 0.40;
/// A GFS above this makes the path a candidate for quarantine.
pub const QUARANTINE_ABOVE: f64 = 0.65;
/// A GFS below this leaves quarantine: lower than [`BAD_ABOVE`], so a path on the edge stays out.
pub const RELEASE_BELOW: f64 = 0.15;

/// A path's state and the windows that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTrack {
    /// The state after the last sample.
    pub state: PathState,
    /// Bad windows in a row.
    pub bad_windows: u32,
    /// Clean windows in a row.
    pub clean_windows: u32,
}

impl Default for StateTrack {
    fn default() -> Self {
        Self { state: PathState::Healthy, bad_windows: 0, clean_windows: 0 }
    }
}

impl StateTrack {
    /// Counts one window of this GFS and moves to the state that follows.
    pub fn observe(&mut self, thresholds: &Thresholds, gfs: f64) {
        let band = Band::of(gfs);
        match band {
            Band::Severe | Band::High | Band::Mild => {
                self.bad_windows = self.bad_windows.saturating_add(1);
                self.clean_windows = 0;
            }
            Band::Edge | Band::Clean => {
                self.clean_windows = self.clean_windows.saturating_add(1);
                self.bad_windows = 0;
            }
        }
        self.state = self.next(thresholds, band);
    }

    fn next(&self, thresholds: &Thresholds, band: Band) -> PathState {
        use Band::{Clean, Edge, High, Mild, Severe};
        use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};
        let persists = self.bad_windows >= thresholds.persistence_to_escalate;
        match (self.state, band) {
            (Healthy | Restored | DegradedUsable | DegradedRestricted | QuarantineCandidate | Quarantined, Severe) => {
                if persists {
                    QuarantineCandidate
                } else {
                    DegradedRestricted
                }
            }
            (Healthy | Restored | DegradedUsable | DegradedRestricted | QuarantineCandidate | Quarantined, High) => {
                if persists {
                    DegradedRestricted
                } else {
                    DegradedUsable
                }
            }
            (Healthy | Restored | DegradedUsable | DegradedRestricted | QuarantineCandidate | Quarantined, Mild) => {
                DegradedUsable
            }
            (QuarantineCandidate | Quarantined, Clean) => Restored,
            (QuarantineCandidate | Quarantined, Edge) => self.state,
            (Restored, Edge | Clean) => {
                if self.clean_windows >= thresholds.clean_to_healthy {
                    Healthy
                } else {
                    Restored
                }
            }
            (DegradedUsable | DegradedRestricted, Edge | Clean) => {
                if self.clean_windows >= thresholds.clean_to_restore { Restored } else { self.state }
            }
            (Healthy, Edge | Clean) => Healthy,
        }
    }
}

/// Where a GFS lies among the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Band {
    /// Above [`QUARANTINE_ABOVE`].
    Severe,
    /// Above [`RESTRICTED_ABOVE`].
    High,
    /// Above [`BAD_ABOVE`].
    Mild,
    /// Clean, but not below [`RELEASE_BELOW`].
    Edge,
    /// Below [`RELEASE_BELOW`].
    Clean,
}

impl Band {
    pub(super) fn of(gfs: f64) -> Self {
        if gfs > QUARANTINE_ABOVE {
            Self::Severe
        } else if gfs > RESTRICTED_ABOVE {
            Self::High
        } else if gfs > BAD_ABOVE {
            Self::Mild
        } else if gfs < RELEASE_BELOW {
            Self::Clean
        } else {
            Self::Edge
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};

    const SEVERE: f64 = 0.7;
    const HIGH: f64 = 0.5;
    const MILD: f64 = 0.3;
    const EDGE: f64 = 0.16;
    const CLEAN: f64 = 0.1;

    /// From, GFS, state after the first such window, state once such windows persist (bad: 3 in a
    /// row; clean: 5 in a row, or 8 from RESTORED).
    const TABLE: [(PathState, f64, PathState, PathState); 30] = [
        (Healthy, SEVERE, DegradedRestricted, QuarantineCandidate),
        (Healthy, HIGH, DegradedUsable, DegradedRestricted),
        (Healthy, MILD, DegradedUsable, DegradedUsable),
        (Healthy, EDGE, Healthy, Healthy),
        (Healthy, CLEAN, Healthy, Healthy),
        (Restored, SEVERE, DegradedRestricted, QuarantineCandidate),
        (Restored, HIGH, DegradedUsable, DegradedRestricted),
        (Restored, MILD, DegradedUsable, DegradedUsable),
        (Restored, EDGE, Restored, Healthy),
        (Restored, CLEAN, Restored, Healthy),
        (DegradedUsable, SEVERE, DegradedRestricted, QuarantineCandidate),
        (DegradedUsable, HIGH, DegradedUsable, DegradedRestricted),
        (DegradedUsable, MILD, DegradedUsable, DegradedUsable),
        (DegradedUsable, EDGE, DegradedUsable, Restored),
        (DegradedUsable, CLEAN, DegradedUsable, Restored),
        (DegradedRestricted, SEVERE, DegradedRestricted, QuarantineCandidate),
        (DegradedRestricted, HIGH, DegradedUsable, DegradedRestricted),
        (DegradedRestricted, MILD, DegradedUsable, DegradedUsable),
        (DegradedRestricted, EDGE, DegradedRestricted, Restored),
        (DegradedRestricted, CLEAN, DegradedRestricted, Restored),
        (QuarantineCandidate, SEVERE, DegradedRestricted, QuarantineCandidate),
        (QuarantineCandidate, HIGH, DegradedUsable, DegradedRestricted),
        (QuarantineCandidate, MILD, DegradedUsable, DegradedUsable),
        (QuarantineCandidate, EDGE, QuarantineCandidate, QuarantineCandidate),
        (QuarantineCandidate, CLEAN, Restored, Restored),
        (Quarantined, SEVERE, DegradedRestricted, QuarantineCandidate),
        (Quarantined, HIGH, DegradedUsable, DegradedRestricted),
        (Quarantined, MILD, DegradedUsable, DegradedUsable),
        (Quarantined, EDGE, Quarantined, Quarantined),
        (Quarantined, CLEAN, Restored, Restored),
    ];

    #[test]
    fn every_state_answers_every_band_as_the_table_says() {
        let thresholds = Thresholds::default();
        for (from, gfs, first, persisting) in TABLE {
            let bad = gfs > BAD_ABOVE;
            let mut track = StateTrack { state: from, bad_windows: 0, clean_windows: 0 };
            track.observe(&thresholds, gfs);
            assert_eq!(track.state, first, "{from} at {gfs}, first window");
            let enough = match (bad, from) {
                (true, _) => thresholds.persistence_to_escalate,
                (false, Restored) => thresholds.clean_to_healthy,
                (false, _) => thresholds.clean_to_restore,
            };
            let earlier = enough - 1;
            let mut track = StateTrack {
                state: from,
                bad_windows: if bad { earlier } else { 0 },
                clean_windows: if bad { 0 } else { earlier },
            };
            track.observe(&thresholds, gfs);
            assert_eq!(track.state, persisting, "{from} at {gfs}, window {enough}");
        }
    }

    #[test]
    fn the_limits_themselves_count_to_the_milder_side() {
        assert_eq!(Band::of(QUARANTINE_ABOVE), Band::High);
        assert_eq!(Band::of(RESTRICTED_ABOVE), Band::Mild);
        assert_eq!(Band::of(BAD_ABOVE), Band::Edge);
        assert_eq!(Band::of(RELEASE_BELOW), Band::Edge);
    }

    proptest! {
        #[test]
        fn no_sequence_skips_a_stage(
            scores in prop::collection::vec(0.0..=1.0f64, 1..200),
            persistence_to_escalate in 1u32..5,
            clean_to_restore in 1u32..6,
            clean_to_healthy in 1u32..9,
        ) {
            let thresholds = Thresholds {
                persistence_to_escalate, clean_to_restore, clean_to_healthy, ..Thresholds::default()
            };
            let mut track = StateTrack::default();
            for gfs in scores {
                let before = track;
                track.observe(&thresholds, gfs);
                prop_assert_ne!(track.state, Quarantined);
                prop_assert!((track.bad_windows == 0) != (track.clean_windows == 0));
                if gfs > BAD_ABOVE {
                    prop_assert!(track.state.severity() >= DegradedUsable.severity());
                }
                if track.state == QuarantineCandidate && before.state != QuarantineCandidate {
                    prop_assert!(track.bad_windows >= persistence_to_escalate);
                }
                if track.state == Healthy && before.state != Healthy {
                    prop_assert_eq!(before.state, Restored);
                    prop_assert!(track.clean_windows >= clean_to_healthy);
                }
                if track.state == Restored && before.state != Restored {
                    prop_assert!(gfs <= BAD_ABOVE);
                }
            }
        }
    }
}
