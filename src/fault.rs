//! The published prototype's fault modes: the latency that one operation on a path draws from each,
//! and whether it is dropped. The mock backend, simulated meshes and the scenarios draw alike.
//!
//! Equal seeds give equal draws on any machine: the functions are [`libm`]'s, and a mode always takes
//! as many random numbers in the same order.

use std::f64::consts::TAU;

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

use crate::model::coded;

/// No latency that is drawn is shorter, in milliseconds.
pub const MIN_LATENCY_MS: f64 = 0.1;
/// The standard deviation of a sound path's latency, in milliseconds.
const CLEAN_DEVIATION_MS: f64 = 0.3;
/// The share of slow operations on a degraded path.
const DEGRADED_OUTLIERS: f64 = 0.05;
/// The share of dropped operations on a lossy path.
const DROPPED: f64 = 0.04;

coded!(
    /// How a path's latency is spread around its base latency `b`, which is at least 0. Latencies are
    /// in milliseconds and at least [`MIN_LATENCY_MS`].
    FaultPattern {
        /// Normal (b, 0.3): a sound path.
        Clean = "clean",
        /// 5 % uniform between 4 b and 8 b, the others normal (1.5 b, 0.8).
        Degraded = "degraded",
        /// Normal (b, 1.2 b).
        Jitter = "jitter",
        /// Normal (2 b, 1), and 4 % are dropped.
        Drops = "drops",
    }
);

/// What one operation meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// Its latency in milliseconds, at least [`MIN_LATENCY_MS`].
    pub latency_ms: f64,
    /// It is lost, which shows after its latency.
    pub dropped: bool,
}

impl FaultPattern {
    /// What the next operation meets on a path of this base latency, in milliseconds.
    pub fn draw(self, base_ms: f64, rng: &mut impl Rng) -> Drawn {
        let mut dropped = false;
        let latency_ms = match self {
            Self::Clean => gauss(base_ms, CLEAN_DEVIATION_MS, rng),
            Self::Degraded => {
                if rng.random::<f64>() < DEGRADED_OUTLIERS {
                    base_ms * (4.0 + 4.0 * rng.random::<f64>())
                } else {
                    gauss(1.5 * base_ms, 0.8, rng)
                }
            }
            Self::Jitter => gauss(base_ms, 1.2 * base_ms, rng),
            Self::Drops => {
                dropped = rng.random::<f64>() < DROPPED;
                gauss(2.0 * base_ms, 1.0, rng)
            }
        };
        Drawn { latency_ms: latency_ms.max(MIN_LATENCY_MS), dropped }
    }
}

/// A normal variate, by the method of Box and Muller ("A Note on the Generation of Random Normal
/// Deviates", 1958).
pub fn gauss(mean: f64, deviation: f64, rng: &mut impl Rng) -> f64 {
    // In (0, 1], for the logarithm.
    let radius = 1.0 - rng.random::<f64>();
    let angle = rng.random::<f64>();
    mean + deviation * libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const DRAWS: usize = 40_000;

    fn draws(pattern: FaultPattern, base_ms: f64) -> Vec<Drawn> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        (0..DRAWS).map(|_| pattern.draw(base_ms, &mut rng)).collect()
    }

    fn latencies_ms(pattern: FaultPattern, base_ms: f64) -> Vec<f64> {
        draws(pattern, base_ms).into_iter().map(|drawn| drawn.latency_ms).collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        (mean, variance.sqrt())
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
    }

    #[test]
    fn clean_is_normal_around_the_base() {
        let (mean, deviation) = mean_and_deviation(&latencies_ms(FaultPattern::Clean, 5.0));
        close(mean, 5.0, 0.01);
        close(deviation, 0.3, 0.01);
    }

    #[test]
    fn degraded_has_one_outlier_in_twenty_between_four_and_eight_times_the_base() {
        // So far from the rest that the two parts separate.
        let latencies = latencies_ms(FaultPattern::Degraded, 20.0);
        let (outliers, rest): (Vec<_>, Vec<_>) = latencies.into_iter().partition(|latency| *latency > 50.0);
        close(outliers.len() as f64 / DRAWS as f64, 0.05, 0.005);
        assert!(outliers.iter().all(|latency| (80.0..160.0).contains(latency)));
        close(mean_and_deviation(&outliers).0, 120.0, 2.0);
        let (mean, deviation) = mean_and_deviation(&rest);
        close(mean, 30.0, 0.05);
        close(deviation, 0.8, 0.05);
    }

    #[test]
    fn jitter_is_wide_and_never_below_a_tenth_of_a_millisecond() {
        let latencies = latencies_ms(FaultPattern::Jitter, 2.0);
        assert!(latencies.iter().all(|latency| *latency >= MIN_LATENCY_MS));
        // A normal (2, 2.4) is below 0.1 with probability 0.214, and has its median at 2.
        let floor = latencies.iter().filter(|latency| **latency <= MIN_LATENCY_MS).count() as f64 / DRAWS as f64;
        close(floor, 0.214, 0.01);
        let above = latencies.iter().filter(|latency| **latency > 2.0).count() as f64 / DRAWS as f64;
        close(above, 0.5, 0.01);
    }

    #[test]
    fn drops_lose_one_in_twenty_five_and_are_slower() {
        let drawn = draws(FaultPattern::Drops, 3.0);
        let lost = drawn.iter().filter(|drawn| drawn.dropped).count();
        close(lost as f64 / DRAWS as f64, 0.04, 0.005);
        let (mean, deviation) = mean_and_deviation(&latencies_ms(FaultPattern::Drops, 3.0));
        close(mean, 6.0, 0.02);
        close(deviation, 1.0, 0.02);
        let others = [FaultPattern::Clean, FaultPattern::Degraded, FaultPattern::Jitter];
        assert!(others.iter().all(|pattern| !draws(*pattern, 3.0).iter().any(|drawn| drawn.dropped)));
    }

    #[test]
    fn the_draws_of_a_seed_are_fixed_for_good() {
        let first = |pattern: FaultPattern| latencies_ms(pattern, 6.0).into_iter().take(3).collect::<Vec<_>>();
        assert_eq!(first(FaultPattern::Clean), [6.0866405527234555, 5.931807440197336, 5.741939259438106]);
        assert_eq!(first(FaultPattern::Degraded), [8.862519887667467, 8.311838025168282, 7.974694855938501]);
        assert_eq!(first(FaultPattern::Jitter), [8.079373265362925, 4.363378564736083, MIN_LATENCY_MS]);
        assert_eq!(first(FaultPattern::Drops), [11.828149859584334, 11.139797531460353, 10.718368569923127]);
    }
}
