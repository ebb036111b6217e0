//! Whether this host itself stalls: then what it measures says nothing about its paths. Only samples
//! that Seam took itself are asked: an engine does not say how late it was.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::core::Mono;

/// Samples that the judgement rests on at most, of all paths together.
pub const STALL_SAMPLES: usize = 20;
/// Samples below which there is none.
pub const MIN_STALL_SAMPLES: usize = 3;
/// The age from which a sample says nothing about now, in milliseconds.
pub const STALL_WINDOW_MS: u64 = 3_000;

/// Which of the newest samples were late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    newest: VecDeque<(Mono, bool)>,
    frozen: bool,
}

impl Stall {
    /// Whether most of the newest samples were late, and most have not been on time since.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    /// Notes one sample; says what changed, if anything did.
    pub(super) fn note(&mut self, now: Mono, late: bool) -> Option<bool> {
        while self.newest.len() >= STALL_SAMPLES {
            self.newest.pop_front();
        }
        self.newest.push_back((now, late));
        self.newest.retain(|(at, _)| now.ms_since(*at) < STALL_WINDOW_MS);
        let (all, late) = (self.newest.len(), self.newest.iter().filter(|(_, late)| *late).count());
        let frozen = if self.frozen { late * 2 >= all } else { all >= MIN_STALL_SAMPLES && late * 2 > all };
        (frozen != std::mem::replace(&mut self.frozen, frozen)).then_some(frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(0).plus_ms(ms)
    }

    #[test]
    fn it_freezes_when_most_are_late_and_thaws_when_most_are_on_time_again() {
        let mut stall = Stall::default();
        let mut changes = Vec::new();
        for (ms, late) in (0..60u64).map(|turn| (turn * 10, (20..45).contains(&turn))) {
            changes.extend(stall.note(at(ms), late).map(|frozen| (ms, frozen)));
        }
        assert_eq!(changes, [(300, true), (550, false)], "at the eleventh of twenty, either way");
    }

    #[test]
    fn few_or_old_late_samples_freeze_nothing() {
        let mut stall = Stall::default();
        assert_eq!(stall.note(at(0), true), None);
        assert_eq!(stall.note(at(1), true), None);
        assert_eq!(stall.note(at(3001), true), None, "the first two are too old");
        assert_eq!(stall.note(at(3002), true), None);
        assert_eq!(stall.note(at(3003), true), Some(true));
        assert_eq!(stall.note(at(9000), false), Some(false));
    }
}
