//! How one directed path misbehaves, and what one operation on it draws.

use std::f64::consts::TAU;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What a path does to operations on it beside the network's own latency. Delays are in
/// milliseconds and at least 0.1, as those of the mock backend's modes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// 5 % of delays `base_ms` times 4 to 8, the others normal (1.5 `base_ms`, 0.8).
    Degraded {
        /// The base latency, above 0.
        base_ms: f64,
    },
    /// Delay normal (`base_ms`, 1.2 `base_ms`).
    Jitter {
        /// The base latency, above 0.
        base_ms: f64,
    },
    /// Delay normal (2 `base_ms`, 1), and 4 % are lost.
    Drops {
        /// The base latency, above 0.
        base_ms: f64,
    },
    /// Only this bandwidth is left.
    Collapse {
        /// In gigabits per second, above 0.
        bandwidth_gbps: f64,
    },
    /// What has at least so many bytes never completes; smaller operations work.
    Stall {
        /// From this size on; 0 for everything.
        from_bytes: u64,
    },
    /// Everything is refused.
    Refuse,
}

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Drawn {
    /// It takes this much longer.
    Delay { ms: f64 },
    /// It is lost, which a write notices after this delay.
    Lost { ms: f64 },
    /// Nothing comes back.
    Stall,
    /// It is refused.
    Refuse,
}

impl Fault {
    /// What happens to one operation of `bytes` bytes.
    pub(super) fn draw(self, bytes: u64, rng: &mut ChaCha8Rng) -> Drawn {
        match self {
            Self::Degraded { base_ms } => {
                let ms = if rng.random::<f64>() < 0.05 {
                    base_ms * (4.0 + 4.0 * rng.random::<f64>())
                } else {
                    gauss(1.5 * base_ms, 0.8, rng)
                };
                Drawn::Delay { ms: ms.max(0.1) }
            }
            Self::Jitter { base_ms } => Drawn::Delay { ms: gauss(base_ms, 1.2 * base_ms, rng).max(0.1) },
            Self::Drops { base_ms } => {
                let lost = rng.random::<f64>() < 0.04;
                let ms = gauss(2.0 * base_ms, 1.0, rng).max(0.1);
                if lost { Drawn::Lost { ms } } else { Drawn::Delay { ms } }
            }
            // What is left of the bandwidth is the rails' business.
            Self::Collapse { .. } => Drawn::Delay { ms: 0.0 },
            Self::Stall { from_bytes } if bytes >= from_bytes => Drawn::Stall,
            Self::Stall { .. } => Drawn::Delay { ms: 0.0 },
            Self::Refuse => Drawn::Refuse,
        }
    }
}

/// A normal variate, by Box and Muller.
pub(super) fn gauss(mean: f64, deviation: f64, rng: &mut ChaCha8Rng) -> f64 {
    // In (0, 1], for the logarithm.
    let radius = 1.0 - rng.random::<f64>();
    let angle = rng.random::<f64>();
    mean + deviation * libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle)
}

/// An exponential variate.
pub(super) fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    -mean * libm::log(1.0 - rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_stall_by_size_leaves_small_operations_alone() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let fault = Fault::Stall { from_bytes: 1 << 20 };
        assert_eq!(fault.draw(4096, &mut rng), Drawn::Delay { ms: 0.0 });
        assert_eq!(fault.draw(1 << 20, &mut rng), Drawn::Stall);
    }

    #[test]
    fn one_in_twenty_five_drops_and_no_delay_is_below_a_tenth_of_a_millisecond() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let draws: Vec<_> = (0..20_000).map(|_| Fault::Drops { base_ms: 2.0 }.draw(0, &mut rng)).collect();
        let lost = draws.iter().filter(|drawn| matches!(drawn, Drawn::Lost { .. })).count();
        assert!((600..1000).contains(&lost), "{lost}");
        let short = |drawn: &Drawn| matches!(drawn, Drawn::Delay { ms } | Drawn::Lost { ms } if *ms < 0.1);
        assert!(!draws.iter().any(short));
    }
}
