//! The policies that Seam is compared with: each a small pure module that says where it comes from.
//!
//! A rival sees what its real counterpart would see, as a slice of [`Sight`], and names one of it.
//! What came of its choices it is told with [`Rival::finished`]; time and randomness come from
//! outside, so equal calls give equal choices.

mod kv_load;
mod p2c;
mod prequal;
mod rail_monitor;
mod recent;
mod round_robin;
mod simple;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{PathState, coded};
use crate::policy::decide::{Candidate, Load, Verdict};

coded!(
    /// A policy by its name.
    Policy {
        /// Seam itself.
        Seam = "seam",
        /// The lowest p99 latency.
        LowestLatency = "lowest_latency",
        /// Healthy or not, then the lowest p99 latency.
        BinaryHealthOnly = "binary_health_only",
        /// The most free sessions.
        CapacityOnly = "capacity_only",
        /// One after another.
        RoundRobin = "round_robin",
        /// Two drawn at random, the smaller peak-EWMA of latency times requests in flight.
        P2cEwma = "p2c_ewma",
        /// The same on slowdown, with a lease and its quote.
        P2cSlowdownLease = "p2c_slowdown_lease",
        /// Hot and cold by requests in flight, then the lowest latency.
        Prequal = "prequal",
        /// A rail with too many errors pauses.
        RailMonitor = "rail_monitor",
        /// Uncached prefix blocks plus decode blocks.
        KvLoad = "kv_load",
    }
);

/// What asks.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// When, in milliseconds since the start of the history; never decreases from call to call.
    pub at_ms: f64,
    /// The ids of the prompt's prefix blocks, in order, where the history has them.
    pub prefix_blocks: Option<&'a [u64]>,
}

/// What a rival sees of one pool.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Its name, by which a rival remembers it.
    pub name: &'a str,
    /// The state that Seam's health model gives its path.
    pub state: PathState,
    /// Gray Failure Score in [0, 1].
    pub gfs: f64,
    /// The p99 latency of its path in milliseconds; of one row where a history has one row.
    pub latency_ms: f64,
    /// Its sessions.
    pub load: Load,
}

impl<'a> Sight<'a> {
    /// What is seen of `candidate`, under its pool's name.
    #[must_use]
    pub fn of(candidate: &'a Candidate) -> Self {
        Self {
            name: candidate.target.pool.as_str(),
            state: candidate.health.state,
            gfs: candidate.health.gfs,
            latency_ms: candidate.health.p99_latency_ms,
            load: Load::of(&candidate.capacity),
        }
    }
}

/// What came of a request that a rival placed.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// When, in milliseconds since the start of the history.
    pub at_ms: f64,
    /// Where it was placed.
    pub name: &'a str,
    /// How long it took, in milliseconds.
    pub elapsed_ms: f64,
    /// How long it would have taken on an idle, sound path, in milliseconds, above 0.
    pub ideal_ms: f64,
    /// Whether it succeeded.
    pub ok: bool,
}

/// A policy that Seam is compared with.
pub trait Rival {
    /// Names one of `pools`, whose names differ, by its index; none only if there are none. What it
    /// names counts as placed: a rival that learns from its placements learns it here.
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize>;

    /// Learns what came of an earlier choice. Most rivals have no memory.
    fn finished(&mut self, _outcome: &Finished<'_>) {}
}

/// Which pools a naive policy may choose from: the published evidence has both. Their names are those
/// of `--rivals-see`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choosable {
    /// Every pool that is neither quarantined nor full: the experiments' view.
    #[serde(rename = "up")]
    UpAndNotFull,
    /// Only what Seam's own rules admit: the replay's view.
    #[serde(rename = "admissible")]
    AdmissibleOnly,
}

impl Choosable {
    /// Whether a rival may choose `candidate`, of which Seam says `verdict`.
    #[must_use]
    pub fn includes(self, candidate: &Candidate, verdict: &Verdict) -> bool {
        match self {
            Self::UpAndNotFull => candidate.health.state.carries() && !candidate.capacity.hard_saturated(),
            Self::AdmissibleOnly => verdict.admits(),
        }
    }
}

impl Policy {
    /// The rival of this name, with `seed` for those that draw; none for Seam itself.
    #[must_use]
    pub fn rival(self, seed: u64) -> Option<Box<dyn Rival + Send>> {
        match self {
            Self::Seam => None,
            Self::LowestLatency => Some(Box::new(simple::LowestLatency)),
            Self::BinaryHealthOnly => Some(Box::new(simple::BinaryHealthOnly)),
            Self::CapacityOnly => Some(Box::new(simple::CapacityOnly)),
            Self::RoundRobin => Some(Box::new(round_robin::RoundRobin::default())),
            Self::P2cEwma => Some(Box::new(p2c::P2cEwma::new(seed))),
            Self::P2cSlowdownLease => Some(Box::new(p2c::P2cSlowdownLease::new(seed))),
            Self::Prequal => Some(Box::new(prequal::Prequal::new(seed))),
            Self::RailMonitor => Some(Box::new(rail_monitor::RailMonitor::new())),
            Self::KvLoad => Some(Box::new(kv_load::KvLoad::new())),
        }
    }

    /// Whether its choices depend on a seed.
    #[must_use]
    pub fn draws(self) -> bool {
        matches!(self, Self::P2cEwma | Self::P2cSlowdownLease | Self::Prequal)
    }

    /// Whether it cannot do its work on a history whose requests carry no prefix blocks.
    #[must_use]
    pub fn needs_prefix_blocks(self) -> bool {
        matches!(self, Self::KvLoad)
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.iter().copied().find(|policy| policy.as_str() == text).ok_or_else(|| UnknownPolicy::named(text))
    }
}

/// A policy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {found:?}: unknown, allowed: {allowed}{hint}")]
pub struct UnknownPolicy {
    /// What was asked for, cut to 80 characters.
    pub found: String,
    /// The policy whose name is nearest, if one is near.
    pub nearest: Option<Policy>,
    hint: String,
    allowed: String,
}

impl UnknownPolicy {
    fn named(text: &str) -> Self {
        let found: String = text.chars().take(80).collect();
        let wanted = found.to_lowercase().replace('-', "_");
        let distance = |policy: Policy| strsim::damerau_levenshtein(policy.as_str(), &wanted);
        let nearest = Policy::ALL.iter().copied().min_by_key(|policy| distance(*policy));
        let nearest = nearest.filter(|policy| distance(*policy) <= 1 + policy.as_str().len() / 4);
        let hint = nearest.map(|policy| format!("; the nearest is {policy}")).unwrap_or_default();
        let allowed: Vec<&str> = Policy::ALL.iter().map(|policy| policy.as_str()).collect();
        Self { found, nearest, hint, allowed: allowed.join(", ") }
    }
}
