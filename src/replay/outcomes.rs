//! What came of the rivals' choices, told to them once it would have been known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Choices under way at most, all policies together. Beyond it the one that would end first is told
/// at once.
const MAX_UNDER_WAY: usize = 65_536;

/// A number of milliseconds of at least 0: the bits of such numbers are in the numbers' order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ms(u64);

impl Ms {
    pub(super) fn new(ms: f64) -> Self {
        Self(ms.to_bits())
    }

    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// One choice whose outcome is not known yet. Those that end first come first, then those that were
/// made first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnderWay {
    pub(super) ends: Ms,
    /// Counts the choices.
    pub(super) number: u64,
    /// Which of the players chose.
    pub(super) player: usize,
    /// The chosen pool's place.
    pub(super) pool: usize,
    pub(super) elapsed: Ms,
    pub(super) ideal: Ms,
    pub(super) ok: bool,
}

/// The choices under way.
#[derive(Default)]
pub(super) struct Outcomes {
    under_way: BinaryHeap<Reverse<UnderWay>>,
}

impl Outcomes {
    pub(super) fn add(&mut self, choice: UnderWay) {
        self.under_way.push(Reverse(choice));
    }

    /// The next choice that has ended by `now_ms`, or that has to be taken as ended.
    pub(super) fn next_ended(&mut self, now_ms: f64) -> Option<UnderWay> {
        let Reverse(first) = self.under_way.peek()?;
        if first.ends > Ms::new(now_ms) && self.under_way.len() <= MAX_UNDER_WAY {
            return None;
        }
        let Reverse(first) = self.under_way.pop()?;
        Some(UnderWay { ends: first.ends.min(Ms::new(now_ms)), ..first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(number: u64, ends_ms: f64) -> UnderWay {
        let ms = Ms::new(1.0);
        UnderWay { ends: Ms::new(ends_ms), number, player: 0, pool: 0, elapsed: ms, ideal: ms, ok: true }
    }

    #[test]
    fn choices_end_in_the_order_of_their_ends_and_none_before_its_time() {
        let mut outcomes = Outcomes::default();
        for (number, ends_ms) in [(0, 1e9), (1, 5.0), (2, 0.25), (3, 5.0)] {
            outcomes.add(choice(number, ends_ms));
        }
        let mut ended =
            |now_ms| std::iter::from_fn(|| outcomes.next_ended(now_ms)).map(|one| one.number).collect::<Vec<_>>();
        let expected = [vec![], vec![2], vec![1, 3], vec![0]];
        assert_eq!([ended(0.0), ended(4.999), ended(5.0), ended(2e9)], expected);
    }

    #[test]
    fn beyond_the_bound_what_would_end_first_ends_now() {
        let mut outcomes = Outcomes::default();
        for number in 0..=MAX_UNDER_WAY as u64 + 1 {
            outcomes.add(choice(number, 1e6 - number as f64));
        }
        let ended: Vec<_> = std::iter::from_fn(|| outcomes.next_ended(7.0)).collect();
        let (first, second) = (MAX_UNDER_WAY as u64 + 1, MAX_UNDER_WAY as u64);
        assert_eq!(
            ended,
            [
                UnderWay { ends: Ms::new(7.0), ..choice(first, 0.0) },
                UnderWay { ends: Ms::new(7.0), ..choice(second, 0.0) }
            ]
        );
    }
}
