//! How one directed path misbehaves, and what one operation on it draws.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::fault::{self, FaultPattern};

/// What a path does to operations on it beside the network's own latency. Delays are in
/// milliseconds and drawn from the [`FaultPattern`] of the same name.
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
            Self::Degraded { base_ms } => FaultPattern::Degraded.draw(base_ms, rng).into(),
            Self::Jitter { base_ms } => FaultPattern::Jitter.draw(base_ms, rng).into(),
            Self::Drops { base_ms } => FaultPattern::Drops.draw(base_ms, rng).into(),
            // What is left of the bandwidth is the rails' business.
            Self::Collapse { .. } => Drawn::Delay { ms: 0.0 },
            Self::Stall { from_bytes } if bytes >= from_bytes => Drawn::Stall,
            Self::Stall { .. } => Drawn::Delay { ms: 0.0 },
            Self::Refuse => Drawn::Refuse,
        }
    }
}

impl From<fault::Drawn> for Drawn {
    fn from(drawn: fault::Drawn) -> Self {
        let ms = drawn.latency_ms;
        if drawn.dropped { Self::Lost { ms } } else { Self::Delay { ms } }
    }
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
    fn what_a_pattern_drops_is_lost_and_the_rest_is_late() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut same = rng.clone();
        for _ in 0..200 {
            let (found, drawn) =
                (Fault::Drops { base_ms: 2.0 }.draw(0, &mut rng), FaultPattern::Drops.draw(2.0, &mut same));
            let ms = drawn.latency_ms;
            assert_eq!(found, if drawn.dropped { Drawn::Lost { ms } } else { Drawn::Delay { ms } });
        }
    }
}
