//! The state that a path's achieved bandwidth leads to. A path that fell back from RDMA to TCP
//! answers small probes as fast as ever; only large samples show it.
//!
//! ```text
//!              ratio < 0.6                  < 0.4                       < 0.15
//! HEALTHY ─────────────────▶ DEGRADED_USABLE ──▶ DEGRADED_RESTRICTED ──▶ QUARANTINE_CANDIDATE
//!    ◀── one stage at a time: hold over, and the ratio 10 % above the step ──┘
//! ```

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::flaps::Flaps;
use super::worse;
use crate::core::Mono;
use crate::health::Thresholds;
use crate::model::PathState;

/// From this time on the wire on, in milliseconds, a sample measures bandwidth: below, what a host's
/// own scheduling adds (up to 5 ms before a sample counts as late) is more than what is measured.
pub const MIN_BULK_WIRE_MS: f64 = 4.0;
/// Large samples that the ratio rests on at most: a median of five bears two that are off.
pub const BULK_SAMPLES: usize = 5;
/// Large samples below which no state follows from them.
pub const MIN_BULK_SAMPLES: usize = 2;
/// Large samples whose median proves what a rail achieves: more than half of those kept.
pub const PROOF_SAMPLES: usize = 3;
/// The age from which a large sample counts no longer, in milliseconds. They are rarer than small
/// ones, so that they must live longer.
pub const BULK_FRESH_MS: u64 = 60_000;
/// A ratio must be this many times the step before it counts as back above it: the medians of a
/// path that just about keeps a step scatter by some percent.
pub const BANDWIDTH_HYSTERESIS: f64 = 1.1;

/// The state that achieved over expected bandwidth stands for, without memory.
#[must_use]
pub fn bandwidth_state(thresholds: &Thresholds, ratio: f64) -> PathState {
    stage(thresholds, ratio, 1.0)
}

fn stage(thresholds: &Thresholds, ratio: f64, margin: f64) -> PathState {
    let below = |limit: f64| ratio < (limit * margin).min(1.0);
    if below(thresholds.bandwidth_quarantine) {
        PathState::QuarantineCandidate
    } else if below(thresholds.bandwidth_restricted) {
        PathState::DegradedRestricted
    } else if below(thresholds.bandwidth_degraded) {
        PathState::DegradedUsable
    } else {
        PathState::Healthy
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Bulk {
    taken: Mono,
    /// Achieved over configured bandwidth in [0, 1]; 0 for one that never arrived.
    share: f64,
}

/// The newest large samples and the state they lead to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandwidthTrack {
    newest: VecDeque<Bulk>,
    /// The share of the configured bandwidth that the path is held to, once its rail has proven one.
    proven: Option<f64>,
    state: PathState,
    hold_ms: u64,
    hold_until: Mono,
    flaps: Flaps,
}

impl Default for BandwidthTrack {
    fn default() -> Self {
        Self {
            newest: VecDeque::new(),
            proven: None,
            state: PathState::Healthy,
            hold_ms: 0,
            hold_until: Mono(0),
            flaps: Flaps::default(),
        }
    }
}

impl BandwidthTrack {
    /// The state after the last turn.
    #[must_use]
    pub fn state(&self) -> PathState {
        self.state
    }

    /// Achieved over expected bandwidth in [0, 1]: the median of the newest large samples over what
    /// the rail has proven. None if there are none, or nothing is proven.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        Some((self.median()? / self.proven?).min(1.0))
    }

    /// The share of its configured bandwidth that the path achieves, once that is more than chance.
    pub(super) fn achieved(&self) -> Option<f64> {
        self.median().filter(|_| self.newest.len() >= PROOF_SAMPLES)
    }

    /// Holds the path to what its rail has proven.
    pub(super) fn expect(&mut self, proven: Option<f64>) {
        self.proven = proven;
    }

    fn median(&self) -> Option<f64> {
        let mut shares: Vec<f64> = self.newest.iter().map(|bulk| bulk.share).collect();
        shares.sort_by(f64::total_cmp);
        let middle = shares.len() / 2;
        let upper = shares.get(middle).copied()?;
        let odd = shares.len() % 2 == 1;
        Some(if odd { upper } else { (shares.get(middle.checked_sub(1)?)? + upper) / 2.0 })
    }

    /// Adds a large sample among those that are there, by the time it was taken; says whether it is
    /// one of the newest.
    pub(super) fn add(&mut self, taken: Mono, share: f64) -> bool {
        let at = self.newest.partition_point(|bulk| bulk.taken <= taken);
        if at == 0 && self.newest.len() >= BULK_SAMPLES {
            return false;
        }
        self.newest.insert(at, Bulk { taken, share });
        if self.newest.len() > BULK_SAMPLES {
            self.newest.pop_front();
        }
        true
    }

    /// Drops what never arrived: something of its size has worked since.
    pub(super) fn forgive(&mut self) {
        self.newest.retain(|bulk| bulk.share > 0.0);
    }

    /// Moves to the state that follows at `now`.
    pub(super) fn settle(&mut self, thresholds: &Thresholds, now: Mono) {
        self.newest.retain(|bulk| now.ms_since(bulk.taken) < BULK_FRESH_MS);
        if self.state == PathState::Healthy {
            self.flaps.forget(thresholds, now);
        }
        let ratio = self.ratio();
        let judged = ratio.filter(|_| self.newest.len() >= MIN_BULK_SAMPLES);
        let asked = judged.map_or(PathState::Healthy, |ratio| bandwidth_state(thresholds, ratio));
        if worse(self.state, asked) != self.state {
            self.hold_ms = match self.state {
                PathState::Healthy => self.flaps.hold_ms(thresholds, thresholds.bandwidth_hold_ms),
                _ => self.hold_ms,
            };
            if self.state == PathState::Healthy {
                self.flaps.add();
            }
            self.state = asked;
            self.hold_until = now.plus_ms(self.hold_ms);
            return;
        }
        // Without large samples nothing speaks against the path any more, and without work it would
        // never get one.
        let left = ratio.map_or(PathState::Healthy, |ratio| stage(thresholds, ratio, BANDWIDTH_HYSTERESIS));
        if now >= self.hold_until && worse(self.state, left) != left {
            self.state = one_milder(self.state);
            self.hold_until = now.plus_ms(self.hold_ms);
            if self.state == PathState::Healthy {
                self.flaps.back(now);
            }
        }
    }
}

fn one_milder(state: PathState) -> PathState {
    match state {
        PathState::Quarantined | PathState::QuarantineCandidate => PathState::DegradedRestricted,
        PathState::DegradedRestricted => PathState::DegradedUsable,
        PathState::DegradedUsable | PathState::Restored | PathState::Healthy => PathState::Healthy,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate};

    fn at(s: u64) -> Mono {
        Mono(0).plus_ms(s * 1000)
    }

    /// Held to the whole of the configured bandwidth.
    fn held_to_all() -> BandwidthTrack {
        BandwidthTrack { proven: Some(1.0), ..BandwidthTrack::default() }
    }

    fn feed(track: &mut BandwidthTrack, s: u64, ratio: f64) -> PathState {
        track.add(at(s), ratio);
        track.settle(&Thresholds::default(), at(s));
        track.state()
    }

    #[test]
    fn each_step_has_its_state() {
        let thresholds = Thresholds::default();
        for (ratio, state) in [
            (1.0, Healthy),
            (0.6, Healthy),
            (0.59, DegradedUsable),
            (0.4, DegradedUsable),
            (0.39, DegradedRestricted),
            (0.15, DegradedRestricted),
            (0.14, QuarantineCandidate),
            (0.0, QuarantineCandidate),
        ] {
            assert_eq!(bandwidth_state(&thresholds, ratio), state, "{ratio}");
        }
    }

    #[test]
    fn one_slow_sample_is_no_collapse_and_two_are() {
        let mut track = held_to_all();
        assert_eq!(feed(&mut track, 0, 0.1), Healthy);
        assert_eq!(track.ratio(), Some(0.1));
        assert_eq!(feed(&mut track, 1, 0.1), QuarantineCandidate);
    }

    #[test]
    fn a_sample_that_comes_late_stands_where_it_was_taken() {
        let mut track = held_to_all();
        for s in [10, 12, 14, 16] {
            assert!(track.add(at(s), 1.0));
        }
        assert!(track.add(at(11), 0.1));
        assert!(!track.add(at(9), 0.1), "five are newer");
        let kept: Vec<_> = track.newest.iter().map(|bulk| (bulk.taken, bulk.share)).collect();
        assert_eq!(kept, [(at(10), 1.0), (at(11), 0.1), (at(12), 1.0), (at(14), 1.0), (at(16), 1.0)]);
        assert!(track.add(at(13), 0.2));
        assert_eq!(track.newest[0].taken, at(11), "the oldest left, not the first that came");
    }

    #[test]
    fn it_returns_one_stage_a_hold_and_only_well_above_the_step() {
        let mut track = held_to_all();
        feed(&mut track, 0, 0.1);
        assert_eq!(feed(&mut track, 1, 0.1), QuarantineCandidate);
        for s in 2..=6 {
            assert_eq!(feed(&mut track, s, 0.62), QuarantineCandidate, "held");
        }
        assert_eq!(feed(&mut track, 11, 0.62), DegradedRestricted);
        assert_eq!(feed(&mut track, 20, 0.62), DegradedRestricted, "held again");
        assert_eq!(feed(&mut track, 21, 0.62), DegradedUsable);
        assert_eq!(feed(&mut track, 41, 0.62), DegradedUsable, "0.62 is not 10 % above 0.6");
        for s in 42..44 {
            assert_eq!(feed(&mut track, s, 0.7), DegradedUsable, "the median follows");
        }
        assert_eq!(feed(&mut track, 44, 0.7), Healthy);
    }

    #[test]
    fn a_path_without_large_samples_is_let_go_stage_by_stage() {
        let mut track = held_to_all();
        feed(&mut track, 0, 0.3);
        assert_eq!(feed(&mut track, 1, 0.3), DegradedRestricted);
        track.settle(&Thresholds::default(), at(60));
        assert_eq!(track.state(), DegradedRestricted, "one sample is fresh still");
        track.settle(&Thresholds::default(), at(61));
        assert_eq!((track.state(), track.ratio()), (DegradedUsable, None));
        track.settle(&Thresholds::default(), at(71));
        assert_eq!(track.state(), Healthy);
    }

    #[test]
    fn a_path_whose_bandwidth_flaps_is_held_twice_as_long() {
        let mut track = held_to_all();
        let mut start = 0;
        for hold_s in [10, 20, 40, 80] {
            for s in 0..5 {
                feed(&mut track, start + s, 0.5);
            }
            assert_eq!(track.state(), DegradedUsable);
            // The second slow sample began the hold, since what came before is not fresh any more.
            let begun = start + 1;
            let mut back = None;
            for s in start + 5..start + 200 {
                if feed(&mut track, s, 1.0) == Healthy {
                    back = Some(s);
                    break;
                }
            }
            assert_eq!(back.unwrap(), begun + hold_s);
            start += 300;
        }
    }

    proptest! {
        #[test]
        fn no_sequence_skips_a_stage_on_the_way_back(
            samples in prop::collection::vec((0u64..30, 0.0..=1.0f64), 1..200)
        ) {
            let mut track = held_to_all();
            let mut now = 0;
            for (pause, ratio) in samples {
                now += pause;
                let before = track.state();
                let after = feed(&mut track, now, ratio);
                prop_assert!(after == before || worse(before, after) == after || one_milder(before) == after);
                prop_assert!(track.newest.len() <= BULK_SAMPLES);
                if let Some(ratio) = track.ratio() {
                    prop_assert!((0.0..=1.0).contains(&ratio));
                }
            }
        }
    }
}
