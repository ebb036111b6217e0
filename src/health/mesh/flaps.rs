//! How often a path has been put aside, and what that costs it: longer holds, and more clean windows
//! before it is trusted again.

use serde::{Deserialize, Serialize};

use crate::core::Mono;
use crate::health::Thresholds;

/// A path that flaps needs at most this many times the clean windows of one that does not: the hold
/// grows on, so that more would only make its return a matter of luck.
pub const MAX_SLOWDOWN: u32 = 4;

/// The flaps of one path that are not forgotten yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaps {
    count: u32,
    /// When the path came back last, or when a flap was forgotten last.
    since: Mono,
}

impl Flaps {
    /// How many are remembered.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Forgets one flap for every `flap_forget_ms` since the path came back. Not to be called while
    /// it is held.
    pub(super) fn forget(&mut self, thresholds: &Thresholds, now: Mono) {
        let forget_ms = whole_ms(thresholds.flap_forget_ms).max(1);
        let forgotten = now.ms_since(self.since) / forget_ms;
        self.count = self.count.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
        self.since = self.since.plus_ms(forgotten.saturating_mul(forget_ms));
    }

    /// How long a path is held that is put aside now, in milliseconds: twice as long for every flap.
    #[must_use]
    pub(super) fn hold_ms(self, thresholds: &Thresholds, base_ms: f64) -> u64 {
        let doubled = base_ms * f64::from(1u32 << self.count.min(31));
        whole_ms(doubled.min(thresholds.quarantine_hold_max_ms))
    }

    /// The path is put aside.
    pub(super) fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// The path is back.
    pub(super) fn back(&mut self, now: Mono) {
        self.since = now;
    }

    /// Clean windows in a row that a path with these flaps needs where one without needs `windows`.
    #[must_use]
    pub(super) fn slowed(self, windows: u32) -> u32 {
        windows.saturating_mul(self.count.clamp(1, MAX_SLOWDOWN))
    }
}

/// Milliseconds of a threshold; its range is far within what is exact.
pub(super) fn whole_ms(ms: f64) -> u64 {
    libm::ceil(ms) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(0).plus_ms(ms)
    }

    #[test]
    fn holds_double_with_every_flap_up_to_the_maximum() {
        let thresholds = Thresholds::default();
        let mut flaps = Flaps::default();
        let mut holds = Vec::new();
        for _ in 0..40 {
            holds.push(flaps.hold_ms(&thresholds, thresholds.quarantine_hold_ms));
            flaps.add();
        }
        assert_eq!(holds[..8], [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000, 600_000]);
        assert!(holds[8..].iter().all(|&hold| hold == 600_000));
    }

    #[test]
    fn flaps_are_forgotten_one_by_one_from_the_return_on() {
        let thresholds = Thresholds { flap_forget_ms: 1000.0, ..Thresholds::default() };
        let mut flaps = Flaps::default();
        (0..3).for_each(|_| flaps.add());
        flaps.back(at(5000));
        for (ms, count) in [(5999, 3), (6000, 2), (6500, 2), (7001, 1), (20_000, 0), (30_000, 0)] {
            flaps.forget(&thresholds, at(ms));
            assert_eq!(flaps.count(), count, "at {ms}");
        }
    }

    #[test]
    fn more_clean_windows_are_asked_of_a_path_that_flaps_within_a_bound() {
        let mut flaps = Flaps::default();
        let needed: Vec<u32> = (0..7)
            .map(|_| {
                let needed = flaps.slowed(5);
                flaps.add();
                needed
            })
            .collect();
        assert_eq!(needed, [5, 5, 10, 15, 20, 20, 20]);
    }
}
