//! The fault modes, and what one operation draws from them.

use std::f64::consts::TAU;
use std::time::Duration;

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

use crate::model::{NodeName, coded};

/// No injected delay is shorter.
const MIN_DELAY_MS: f64 = 0.1;
const MAX_BASE_MS: f64 = 60_000.0;
const MAX_BANDWIDTH_GBPS: f64 = 10_000.0;
const MAX_PEERS: usize = 1_024;
/// No injected delay is longer: an operation's own deadline comes first.
const MAX_DELAY_MS: f64 = 3_600_000.0;
const DEGRADED_OUTLIERS: f64 = 0.05;
const DROPPED: f64 = 0.04;

coded!(
    /// How a path misbehaves. `b` is `base_ms`; delays are in milliseconds and at least 0.1.
    FaultMode {
        /// Delay normal (b, 0.3): a sound path.
        Clean = "clean",
        /// 5 % of delays b times 4 to 8, the others normal (1.5 b, 0.8).
        Degraded = "degraded",
        /// Delay normal (b, 1.2 b).
        Jitter = "jitter",
        /// Delay normal (2 b, 1), and 4 % are lost.
        Drops = "drops",
        /// As clean, plus the time that the bytes take at `bandwidth_gbps`.
        Collapse = "collapse",
        /// Nothing ever comes back.
        Stall = "stall",
        /// Everything is refused.
        Refuse = "refuse",
    }
);

/// The faults of one rail: the `faults` table of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// How.
    pub mode: FaultMode,
    /// The base latency in milliseconds, 0 to 60,000.
    #[serde(default = "default_base_ms")]
    pub base_ms: f64,
    /// What is left of the bandwidth, above 0 and at most 10,000 gigabits per second: required for
    /// `collapse`, allowed nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gbps: Option<f64>,
    /// Equal seeds draw equal sequences.
    #[serde(default)]
    pub seed: u64,
    /// Towards which peers, at most 1,024; empty for all.
    #[serde(default)]
    pub peers: Vec<NodeName>,
}

fn default_base_ms() -> f64 {
    2.0
}

/// Faults that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults.{field}: found {found}, allowed is {allowed}")]
pub struct InvalidFaults {
    /// Which field.
    pub field: &'static str,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: &'static str,
}

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes this much longer.
    Delay(Duration),
    /// It is lost, which a write notices after this delay.
    Lost(Duration),
    /// Nothing comes back.
    Stall,
    /// It is refused.
    Refuse,
}

impl Faults {
    /// Faults of `mode` with the default base latency, seed 0, towards all peers.
    #[must_use]
    pub fn new(mode: FaultMode) -> Self {
        Self { mode, base_ms: default_base_ms(), bandwidth_gbps: None, seed: 0, peers: Vec::new() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field at fault, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), InvalidFaults> {
        let bad = |field, found: String, allowed| Err(InvalidFaults { field, found, allowed });
        if !(0.0..=MAX_BASE_MS).contains(&self.base_ms) {
            return bad("base_ms", self.base_ms.to_string(), "0 to 60000");
        }
        match (self.mode, self.bandwidth_gbps) {
            (FaultMode::Collapse, None) => bad("bandwidth_gbps", "none".to_owned(), "a number for mode collapse"),
            (FaultMode::Collapse, Some(gbps)) if !(gbps > 0.0 && gbps <= MAX_BANDWIDTH_GBPS) => {
                bad("bandwidth_gbps", gbps.to_string(), "above 0, at most 10000")
            }
            (mode, Some(gbps)) if mode != FaultMode::Collapse => {
                bad("bandwidth_gbps", format!("{gbps} with mode {mode}"), "only with mode collapse")
            }
            _ if self.peers.len() > MAX_PEERS => bad("peers", self.peers.len().to_string(), "at most 1024"),
            _ => Ok(()),
        }
    }

    /// Whether operations with `peer` are meant.
    #[must_use]
    pub fn concerns(&self, peer: &NodeName) -> bool {
        self.peers.is_empty() || self.peers.contains(peer)
    }

    /// Draws what happens to one operation of `bytes` bytes.
    pub fn sample(&self, bytes: u64, rng: &mut impl Rng) -> Fault {
        let base = self.base_ms;
        match self.mode {
            FaultMode::Clean => Fault::Delay(delay(gauss(base, 0.3, rng))),
            FaultMode::Degraded => Fault::Delay(delay(if rng.random::<f64>() < DEGRADED_OUTLIERS {
                base * (4.0 + 4.0 * rng.random::<f64>())
            } else {
                gauss(1.5 * base, 0.8, rng)
            })),
            FaultMode::Jitter => Fault::Delay(delay(gauss(base, 1.2 * base, rng))),
            FaultMode::Drops => {
                let dropped = rng.random::<f64>() < DROPPED;
                let delay = delay(gauss(2.0 * base, 1.0, rng));
                if dropped { Fault::Lost(delay) } else { Fault::Delay(delay) }
            }
            FaultMode::Collapse => {
                // A gigabit per second is a million bits per millisecond.
                let wire_ms = self.bandwidth_gbps.map_or(0.0, |gbps| bytes as f64 * 8.0 / (gbps * 1e6));
                Fault::Delay(delay(gauss(base, 0.3, rng)) + delay(wire_ms))
            }
            FaultMode::Stall => Fault::Stall,
            FaultMode::Refuse => Fault::Refuse,
        }
    }
}

fn delay(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.clamp(MIN_DELAY_MS, MAX_DELAY_MS) / 1e3)
}

/// A normal variate, by Box and Muller.
fn gauss(mean: f64, deviation: f64, rng: &mut impl Rng) -> f64 {
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

    fn draws(faults: &Faults, bytes: u64) -> Vec<Fault> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        (0..DRAWS).map(|_| faults.sample(bytes, &mut rng)).collect()
    }

    fn delays_ms(faults: &Faults, bytes: u64) -> Vec<f64> {
        let of = |fault| match fault {
            Fault::Delay(delay) | Fault::Lost(delay) => delay.as_secs_f64() * 1e3,
            Fault::Stall | Fault::Refuse => panic!("no delay"),
        };
        draws(faults, bytes).into_iter().map(of).collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        (mean, variance.sqrt())
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
    }

    fn of(mode: FaultMode, base_ms: f64) -> Faults {
        Faults { base_ms, ..Faults::new(mode) }
    }

    #[test]
    fn clean_is_normal_around_the_base() {
        let (mean, deviation) = mean_and_deviation(&delays_ms(&of(FaultMode::Clean, 5.0), 0));
        close(mean, 5.0, 0.01);
        close(deviation, 0.3, 0.01);
    }

    #[test]
    fn degraded_has_one_outlier_in_twenty_between_four_and_eight_times_the_base() {
        // So far from the rest that the two parts separate.
        let delays = delays_ms(&of(FaultMode::Degraded, 20.0), 0);
        let (outliers, rest): (Vec<_>, Vec<_>) = delays.into_iter().partition(|delay| *delay > 50.0);
        close(outliers.len() as f64 / DRAWS as f64, 0.05, 0.005);
        assert!(outliers.iter().all(|delay| (80.0..160.0).contains(delay)));
        close(mean_and_deviation(&outliers).0, 120.0, 2.0);
        let (mean, deviation) = mean_and_deviation(&rest);
        close(mean, 30.0, 0.05);
        close(deviation, 0.8, 0.05);
    }

    #[test]
    fn jitter_is_wide_and_never_below_a_tenth_of_a_millisecond() {
        let delays = delays_ms(&of(FaultMode::Jitter, 2.0), 0);
        assert!(delays.iter().all(|delay| *delay >= 0.1 - 1e-9));
        // A normal (2, 2.4) is below 0.1 with probability 0.214, and has its median at 2.
        let floor = delays.iter().filter(|delay| **delay < 0.1001).count() as f64 / DRAWS as f64;
        close(floor, 0.214, 0.01);
        let above = delays.iter().filter(|delay| **delay > 2.0).count() as f64 / DRAWS as f64;
        close(above, 0.5, 0.01);
    }

    #[test]
    fn drops_lose_one_in_twenty_five_and_are_slower() {
        let faults = of(FaultMode::Drops, 3.0);
        let lost = draws(&faults, 0).iter().filter(|fault| matches!(fault, Fault::Lost(_))).count();
        close(lost as f64 / DRAWS as f64, 0.04, 0.005);
        let (mean, deviation) = mean_and_deviation(&delays_ms(&faults, 0));
        close(mean, 6.0, 0.02);
        close(deviation, 1.0, 0.02);
    }

    #[test]
    fn collapse_takes_the_time_of_the_bytes_at_the_bandwidth_that_is_left() {
        let faults = Faults { bandwidth_gbps: Some(2.0), ..of(FaultMode::Collapse, 2.0) };
        // 64 MB at 2 Gb/s take 256 ms.
        let (mean, _) = mean_and_deviation(&delays_ms(&faults, 64_000_000));
        close(mean, 258.0, 0.1);
        assert!(delays_ms(&faults, u64::MAX).iter().all(|delay| *delay <= 2.0 * MAX_DELAY_MS));
    }

    #[test]
    fn equal_seeds_draw_equal_sequences() {
        let faults = of(FaultMode::Degraded, 2.0);
        assert_eq!(draws(&faults, 0), draws(&faults, 0));
    }

    #[test]
    fn each_wrong_field_is_named_with_what_is_allowed() {
        let clean = Faults::new(FaultMode::Clean);
        let peer = NodeName::new("d0").unwrap();
        let cases = [
            (Faults { base_ms: -1.0, ..clean.clone() }, "base_ms"),
            (Faults { base_ms: f64::NAN, ..clean.clone() }, "base_ms"),
            (Faults { bandwidth_gbps: Some(1.0), ..clean.clone() }, "bandwidth_gbps"),
            (Faults::new(FaultMode::Collapse), "bandwidth_gbps"),
            (Faults { bandwidth_gbps: Some(0.0), ..Faults::new(FaultMode::Collapse) }, "bandwidth_gbps"),
            (Faults { bandwidth_gbps: Some(f64::NAN), ..Faults::new(FaultMode::Collapse) }, "bandwidth_gbps"),
            (Faults { peers: vec![peer; 1_025], ..clean.clone() }, "peers"),
        ];
        for (faults, field) in cases {
            assert_eq!(faults.validate().unwrap_err().field, field);
        }
        assert_eq!(clean.validate(), Ok(()));
    }

    #[test]
    fn the_configuration_table_reads_with_defaults_and_refuses_unknown_keys() {
        let faults: Faults = toml::from_str("mode = \"jitter\"\npeers = [\"d1\"]").unwrap();
        assert_eq!((faults.mode, faults.base_ms, faults.seed), (FaultMode::Jitter, 2.0, 0));
        assert!(faults.concerns(&NodeName::new("d1").unwrap()) && !faults.concerns(&NodeName::new("d2").unwrap()));
        assert!(toml::from_str::<Faults>("mode = \"jitter\"\nbase = 1").is_err());
        assert!(toml::from_str::<Faults>("mode = \"slow\"").is_err());
    }
}
