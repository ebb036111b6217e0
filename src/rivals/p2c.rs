//! The power of two choices, on a peak-EWMA of what requests took.
//!
//! Two pools are drawn at random and the better one taken: nearly as even as asking all, without
//! the herd that forms when every sender goes to the one best pool (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001). How good one is says
//!
//! `cost = peak · (requests in flight + 1)`
//!
//! with the peak-EWMA that Finagle introduced (`PeakEwma`, about 2015) and Linkerd's proxy uses by
//! way of tower. A request above the estimate becomes the estimate at once; one below moves it
//! `1 − exp(−age / τ)` of the way, `age` being the time since the last one; and while no request
//! comes the estimate sinks towards its rest with the same τ, so that a pool once shunned is tried
//! again. As there, a failed request counts with the time that it took.
//!
//! Requests in flight are all of a pool's sessions, where the originals count their own requests
//! only: with one sender the same, with many a better view than theirs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::recent::{MAX_POOLS, Recent};
use super::simple::compare;
use super::{Ask, Finished, Rival, Sight};

/// τ, the time constant of the decay: Finagle's and Linkerd's default. Above 0; much shorter forgets
/// a fault between two requests, much longer shuns a pool minutes after it is well again.
const TAU_MS: f64 = 10_000.0;

/// What a pool without a request is taken to need, at its first draw: the default round trip of the
/// balancers in Linkerd's proxy (tower has none; its documentation shows one second). It is above what
/// a sound path needs, so that new pools are not flooded before they are known. Beside pools of 3 ms
/// an unseen one is drawn in vain for up to τ · ln(30 / 3), 23 s; at 1,000 ms it would be 58 s.
const UNSEEN_MS: f64 = 30.0;

/// The slowdown of an idle, sound path: where a pool without a request starts, and where an estimate
/// sinks to.
const IDEAL_SLOWDOWN: f64 = 1.0;

/// Two drawn, the smaller cost on elapsed milliseconds taken, the first drawn on a tie.
pub(super) struct P2cEwma {
    rng: ChaCha8Rng,
    elapsed_ms: Estimates,
}

impl P2cEwma {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), elapsed_ms: Estimates::new(0.0, UNSEEN_MS) }
    }
}

impl Rival for P2cEwma {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let drawn = draw(&mut self.rng, &mut (0..pools.len()).collect(), 2);
        self.elapsed_ms.cheapest(ask, pools, &drawn)
    }

    fn finished(&mut self, outcome: &Finished<'_>) {
        self.elapsed_ms.learn(outcome, outcome.elapsed_ms);
    }
}

/// The same on slowdown, elapsed over ideal time, so that large requests do not make a pool look
/// slow; and with a lease: both drawn are asked, one that is full refuses, and of those that grant
/// the smaller cost wins, by the sessions in their quotes. If both refuse, two others are drawn, so
/// one that can take the request is always found. If all refuse, the smallest cost of all is taken,
/// to wait there.
///
/// What a strong balancer without any notion of health could be: no system is known that has
/// exactly this.
pub(super) struct P2cSlowdownLease {
    rng: ChaCha8Rng,
    slowdown: Estimates,
}

impl P2cSlowdownLease {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), slowdown: Estimates::new(IDEAL_SLOWDOWN, IDEAL_SLOWDOWN) }
    }
}

impl Rival for P2cSlowdownLease {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let mut unasked: Vec<usize> = (0..pools.len()).collect();
        let mut refused = Vec::new();
        while !unasked.is_empty() {
            let drawn = draw(&mut self.rng, &mut unasked, 2);
            let full = |index: &usize| pools.get(*index).is_none_or(|sight| sight.load.hard_saturated);
            let (refusing, granting): (Vec<usize>, Vec<usize>) = drawn.into_iter().partition(full);
            if let Some(chosen) = self.slowdown.cheapest(ask, pools, &granting) {
                return Some(chosen);
            }
            refused.extend(refusing);
        }
        self.slowdown.cheapest(ask, pools, &refused)
    }

    fn finished(&mut self, outcome: &Finished<'_>) {
        self.slowdown.learn(outcome, outcome.elapsed_ms / outcome.ideal_ms);
    }
}

/// Takes up to `count` of `from` at random, in the order drawn.
pub(super) fn draw(rng: &mut ChaCha8Rng, from: &mut Vec<usize>, count: usize) -> Vec<usize> {
    let count = count.min(from.len());
    (0..count).map(|_| from.swap_remove(rng.random_range(0..from.len() as u64) as usize)).collect()
}

/// A peak-EWMA for each pool.
struct Estimates {
    /// What one sinks to.
    rest: f64,
    /// What one starts with.
    unseen: f64,
    pools: Recent<String, Peak>,
}

#[derive(Clone, Copy)]
struct Peak {
    value: f64,
    at_ms: f64,
}

impl Peak {
    /// How much of the distance to its rest is left at `at_ms`, in [0, 1].
    fn left(&self, at_ms: f64) -> f64 {
        libm::exp(-(at_ms - self.at_ms).max(0.0) / TAU_MS)
    }

    fn sunk(&self, rest: f64, at_ms: f64) -> f64 {
        rest + (self.value - rest) * self.left(at_ms)
    }
}

impl Estimates {
    fn new(rest: f64, unseen: f64) -> Self {
        Self { rest, unseen, pools: Recent::new(MAX_POOLS) }
    }

    fn of(&mut self, name: &str, at_ms: f64) -> f64 {
        let unseen = Peak { value: self.unseen, at_ms };
        self.pools.used(name, || unseen).sunk(self.rest, at_ms)
    }

    /// The one of `drawn` with the smallest cost, the first on a tie.
    fn cheapest(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>], drawn: &[usize]) -> Option<usize> {
        let sights = drawn.iter().filter_map(|index| pools.get(*index).map(|sight| (*index, sight)));
        let mut cost =
            |sight: &Sight<'_>| self.of(sight.name, ask.at_ms) * (f64::from(sight.load.active_sessions) + 1.0);
        let costs = sights.map(|(index, sight)| (index, [cost(sight)]));
        costs.min_by(|(_, left), (_, right)| compare(left, right)).map(|(index, _)| index)
    }

    /// Learns one sample; what is not a finite number of at least 0 is none.
    fn learn(&mut self, outcome: &Finished<'_>, sample: f64) {
        if !sample.is_finite() || sample < 0.0 {
            return;
        }
        let at_ms = outcome.at_ms;
        let peak = self.pools.used(outcome.name, || Peak { value: sample, at_ms });
        let left = peak.left(at_ms);
        let risen = sample > peak.sunk(self.rest, at_ms);
        let value = if risen { sample } else { peak.value * left + sample * (1.0 - left) };
        *peak = Peak { value, at_ms };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, finished, full, sight};
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
    }

    /// How many of 1,000 choices at `at_ms` named each pool.
    fn counts<const N: usize>(rival: &mut impl Rival, at_ms: f64, pools: &[Sight<'_>; N]) -> [u32; N] {
        let mut counts = [0; N];
        for _ in 0..1_000 {
            counts[rival.choose(&ask(at_ms), pools).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn an_estimate_rises_at_once_and_sinks_with_tau() {
        let mut estimates = Estimates::new(0.0, UNSEEN_MS);
        let mut learn = |at_ms: f64, sample: f64| {
            estimates.learn(&finished("a", at_ms, sample), sample);
            estimates.of("a", at_ms)
        };
        near(learn(0.0, 80.0), 80.0);
        near(learn(1.0, 900.0), 900.0);
        // One τ later 1/e of the old and the rest of the new.
        let left = 1.0 / std::f64::consts::E;
        near(learn(TAU_MS + 1.0, 90.0), 900.0 * left + 90.0 * (1.0 - left));
        let mut idle = Estimates::new(0.0, UNSEEN_MS);
        near(idle.of("new", 5.0), UNSEEN_MS);
        near(idle.of("new", 5.0 + TAU_MS), UNSEEN_MS * left);
    }

    #[test]
    fn an_unseen_pool_is_shunned_beside_fast_ones_for_a_while_and_then_tried() {
        let mut rival = P2cEwma::new(1);
        let pools = [sight("known", 1.0, 0), sight("unseen", 1.0, 0)];
        let mut unseen_at = |at_ms: f64| {
            rival.finished(&finished("known", at_ms, 3.0));
            counts(&mut rival, at_ms, &pools)[1]
        };
        // τ · ln(30 / 3) is 23.03 s.
        assert_eq!([0.0, 23_000.0, 23_100.0].map(&mut unseen_at), [0, 0, 1_000]);
    }

    #[test]
    fn a_slowdown_sinks_to_the_ideal() {
        let mut estimates = Estimates::new(IDEAL_SLOWDOWN, IDEAL_SLOWDOWN);
        near(estimates.of("a", 0.0), 1.0);
        estimates.learn(&finished("a", 0.0, 50.0), 5.0);
        near(estimates.of("a", TAU_MS), 1.0 + 4.0 / std::f64::consts::E);
        near(estimates.of("a", 100.0 * TAU_MS), 1.0);
    }

    #[test]
    fn what_is_no_number_is_no_sample() {
        let mut estimates = Estimates::new(0.0, UNSEEN_MS);
        for sample in [f64::NAN, f64::INFINITY, -1.0] {
            estimates.learn(&finished("a", 0.0, 1.0), sample);
        }
        near(estimates.of("a", 0.0), UNSEEN_MS);
    }

    #[test]
    fn of_two_the_smaller_product_of_latency_and_requests_in_flight_always_wins() {
        let mut rival = P2cEwma::new(1);
        rival.finished(&finished("a", 0.0, 100.0));
        rival.finished(&finished("b", 0.0, 60.0));
        // 100 · 3 against 60 · 6, then against 60 · 4.
        assert_eq!(counts(&mut rival, 0.0, &[sight("a", 1.0, 2), sight("b", 1.0, 5)]), [1_000, 0]);
        assert_eq!(counts(&mut rival, 0.0, &[sight("a", 1.0, 2), sight("b", 1.0, 3)]), [0, 1_000]);
    }

    #[test]
    fn the_worst_of_three_is_never_chosen_and_the_best_in_two_of_three_draws() {
        let mut rival = P2cEwma::new(7);
        let pools = [sight("a", 1.0, 0), sight("b", 1.0, 1), sight("c", 1.0, 2)];
        let [best, middle, worst] = counts(&mut rival, 0.0, &pools);
        assert_eq!(worst, 0);
        assert!((600..734).contains(&best) && best + middle == 1_000, "{best} and {middle}");
    }

    #[test]
    fn raw_time_shuns_a_pool_for_large_requests_where_slowdown_does_not() {
        let pools = [sight("a", 1.0, 0), sight("b", 1.0, 0)];
        let large = Finished { elapsed_ms: 500.0, ideal_ms: 500.0, ..finished("a", 0.0, 0.0) };
        let small = Finished { elapsed_ms: 30.0, ideal_ms: 10.0, ..finished("b", 0.0, 0.0) };
        let (mut raw, mut slowdown) = (P2cEwma::new(1), P2cSlowdownLease::new(1));
        for outcome in [large, small] {
            raw.finished(&outcome);
            slowdown.finished(&outcome);
        }
        assert_eq!(counts(&mut raw, 0.0, &pools), [0, 1_000]);
        assert_eq!(counts(&mut slowdown, 0.0, &pools), [1_000, 0]);
    }

    #[test]
    fn a_full_pool_refuses_and_others_are_drawn_until_one_grants() {
        let mut rival = P2cSlowdownLease::new(3);
        let pools = [full("a"), full("b"), sight("c", 1.0, 7), full("d"), full("e")];
        assert_eq!(counts(&mut rival, 0.0, &pools), [0, 0, 1_000, 0, 0]);
        // Without a lease it is not known that they are full.
        assert!(counts(&mut P2cEwma::new(3), 0.0, &pools)[0] > 0);
    }

    #[test]
    fn where_all_refuse_the_smallest_cost_of_all_is_taken() {
        let mut rival = P2cSlowdownLease::new(3);
        for (name, elapsed_ms) in [("a", 30.0), ("b", 10.0), ("c", 20.0)] {
            rival.finished(&finished(name, 0.0, elapsed_ms));
        }
        assert_eq!(counts(&mut rival, 0.0, &[full("a"), full("b"), full("c")]), [0, 1_000, 0]);
    }

    #[test]
    fn no_more_pools_are_remembered_than_the_bound() {
        let mut rival = P2cEwma::new(1);
        for pool in 0..MAX_POOLS + 10 {
            rival.finished(&finished(&format!("pool-{pool}"), pool as f64, 1.0));
        }
        assert_eq!(rival.elapsed_ms.pools.len(), MAX_POOLS);
    }
}
