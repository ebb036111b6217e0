//! What a rail has been seen to achieve, which is what its paths are held to. What is configured says
//! what the card could; a backend may never come near it, and that is no fault of a path.

use serde::{Deserialize, Serialize};

use crate::core::Mono;

/// What a rail achieved is remembered for one to two times this long, in milliseconds: an hour, so
/// that a rail that has become slower for good is judged by what it is now.
pub const PROVEN_FOR_MS: u64 = 3_600_000;

/// The best share of its configured bandwidth that any path of a rail has achieved lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    best: f64,
    before: f64,
    since: Mono,
}

impl Proven {
    /// A path of the rail achieves this share.
    pub(in crate::health) fn note(&mut self, now: Mono, share: f64) {
        self.pass(now);
        self.best = self.best.max(share.min(1.0));
    }

    /// The share that paths are held to at `now`; none while nothing is proven.
    pub(in crate::health) fn share(&mut self, now: Mono) -> Option<f64> {
        self.pass(now);
        let share = self.best.max(self.before);
        (share > 0.0).then_some(share)
    }

    fn pass(&mut self, now: Mono) {
        match now.ms_since(self.since) / PROVEN_FOR_MS {
            0 => {}
            1 => *self = Self { best: 0.0, before: self.best, since: now },
            _ => *self = Self { since: now, ..Self::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_share_counts_for_one_to_two_hours() {
        let at = |minutes: u64| Mono(0).plus_ms(minutes * 60_000);
        let mut proven = Proven::default();
        assert_eq!(proven.share(at(0)), None);
        proven.note(at(0), 0.3);
        proven.note(at(1), 0.2);
        assert_eq!(proven.share(at(59)), Some(0.3));
        proven.note(at(61), 0.25);
        assert_eq!(proven.share(at(119)), Some(0.3));
        assert_eq!(proven.share(at(122)), Some(0.25), "the rail is slower now");
        assert_eq!(proven.share(at(400)), None);
        proven.note(at(400), 7.0);
        assert_eq!(proven.share(at(400)), Some(1.0), "never more than what is configured");
    }
}
