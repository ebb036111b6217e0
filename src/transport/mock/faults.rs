//! The fault modes, and what one operation draws from them.

use std::time::Duration;

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::fault::{Drawn, FaultPattern, MIN_LATENCY_MS};
use crate::model::{NodeName, coded};

const MAX_BASE_MS: f64 = 60_000.0;
const MAX_BANDWIDTH_GBPS: f64 = 10_000.0;
const MAX_PEERS: usize = 1_024;
/// No injected delay is longer: an operation's own deadline comes first.
const MAX_DELAY_MS: f64 = 3_600_000.0;

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
        /// What is written arrives, and its answer does not; probes are well.
        Unanswered = "unanswered",
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
    /// A write is done, and nobody hears of it.
    Unanswered,
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
        match self.mode {
            FaultMode::Clean => FaultPattern::Clean.draw(self.base_ms, rng).into(),
            FaultMode::Degraded => FaultPattern::Degraded.draw(self.base_ms, rng).into(),
            FaultMode::Jitter => FaultPattern::Jitter.draw(self.base_ms, rng).into(),
            FaultMode::Drops => FaultPattern::Drops.draw(self.base_ms, rng).into(),
            FaultMode::Collapse => {
                // A gigabit per second is a million bits per millisecond.
                let wire_ms = self.bandwidth_gbps.map_or(0.0, |gbps| bytes as f64 * 8.0 / (gbps * 1e6));
                Fault::Delay(delay(FaultPattern::Clean.draw(self.base_ms, rng).latency_ms) + delay(wire_ms))
            }
            FaultMode::Stall => Fault::Stall,
            FaultMode::Refuse => Fault::Refuse,
            FaultMode::Unanswered => Fault::Unanswered,
        }
    }
}

impl From<Drawn> for Fault {
    fn from(drawn: Drawn) -> Self {
        let delay = delay(drawn.latency_ms);
        if drawn.dropped { Self::Lost(delay) } else { Self::Delay(delay) }
    }
}

fn delay(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.clamp(MIN_LATENCY_MS, MAX_DELAY_MS) / 1e3)
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
            Fault::Stall | Fault::Refuse | Fault::Unanswered => panic!("no delay"),
        };
        draws(faults, bytes).into_iter().map(of).collect()
    }

    fn of(mode: FaultMode, base_ms: f64) -> Faults {
        Faults { base_ms, ..Faults::new(mode) }
    }

    #[test]
    fn each_mode_of_a_pattern_draws_from_the_pattern_of_its_name() {
        for pattern in FaultPattern::ALL {
            let mode = FaultMode::ALL.iter().find(|mode| mode.as_str() == pattern.as_str()).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            for found in draws(&of(*mode, 3.0), 0).into_iter().take(200) {
                let drawn = pattern.draw(3.0, &mut rng);
                let delay = Duration::from_secs_f64(drawn.latency_ms / 1e3);
                assert_eq!(found, if drawn.dropped { Fault::Lost(delay) } else { Fault::Delay(delay) });
            }
        }
    }

    #[test]
    fn collapse_takes_the_time_of_the_bytes_at_the_bandwidth_that_is_left() {
        let faults = Faults { bandwidth_gbps: Some(2.0), ..of(FaultMode::Collapse, 2.0) };
        // 64 MB at 2 Gb/s take 256 ms.
        let delays = delays_ms(&faults, 64_000_000);
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((257.9..258.1).contains(&mean), "{mean}");
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
