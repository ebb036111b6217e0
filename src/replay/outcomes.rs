//! What came of the rivals' choices, told to them once it would have been known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

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

/// Which of one policy's choices fail: each with the share of attempts that its row loses. Every
/// policy has draws of its own, so what comes of its choices does not depend on who else is compared.
pub(super) struct Losses(ChaCha8Rng);

impl Losses {
    /// The stream that losses are drawn from; what a policy draws itself comes from stream 0.
    const STREAM: u64 = 1;

    pub(super) fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(Self::STREAM);
        Self(rng)
    }

    /// Whether the next choice fails, on a row with this drop rate in [0, 1]. Where nothing is lost
    /// nothing is drawn.
    pub(super) fn lost(&mut self, drop_rate: f64) -> bool {
        drop_rate > 0.0 && self.0.random::<f64>() < drop_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_fail_as_are_lost_and_where_nothing_is_lost_nothing_is_drawn() {
        let run = |seed: u64, between: f64| {
            let mut losses = Losses::new(seed);
            let mut lost = || (!losses.lost(between)).then(|| losses.lost(0.04));
            (0..10_000).map_while(|_| lost()).collect::<Vec<bool>>()
        };
        let failed = run(1, 0.0).into_iter().filter(|lost| *lost).count();
        // The mean is 400, the standard deviation below 20.
        assert!((320..480).contains(&failed), "{failed}");
        assert_eq!(run(1, 0.0), run(1, 0.0));
        assert_ne!(run(1, 0.0), run(2, 0.0));
        let mut plain = Losses::new(1);
        assert_eq!(run(1, 0.0), (0..10_000).map(|_| plain.lost(0.04)).collect::<Vec<_>>());
        assert_eq!(run(1, 1.0), [] as [bool; 0], "what loses everything fails at once");
    }

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
