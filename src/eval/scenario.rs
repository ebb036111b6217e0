//! The published scenarios: pools whose paths misbehave in a known way, and the requests that then
//! ask for one.
//!
//! ```text
//! seed ─▶ draws of each pool's fault pattern ─▶ path health of the profile ─▶ one route per request
//! ```
//!
//! ```
//! use seam::eval::scenario::{DEFAULT_SEED, ScenarioName, named, run};
//! use seam::model::Profile;
//!
//! let gray = named(ScenarioName::E).unwrap();
//! let result = run(&gray, Profile::Mesh, DEFAULT_SEED);
//! let release = result.summary.routes.last().unwrap();
//! assert_eq!(release.chosen.as_ref().unwrap().as_str(), "clean");
//! ```

mod artifacts;
mod published;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::fault::FaultPattern;
use crate::health::window::Point;
use crate::health::{Thresholds, health_of};
use crate::model::{
    Capacity, DecisionId, NodeName, Outcome, PathState, PoolName, Profile, Reason, Workload, WorkloadName, coded,
};
use crate::policy::decide::{Candidate, MAX_EXCLUDED_FRACTION, Target, Terms, decide};
use crate::policy::record::{CandidateRecord, Context, DecisionRecord};
use crate::policy::round4;
use crate::policy::select::Skipped;
pub use artifacts::{PoolTally, RouteTally, TALLY_SEEDS, Tally, decision_trace, scenarios_json, tally};
pub use published::{named, published};

/// The seed of whoever names none: the smallest at which every fault shows in the state of its path
/// when the requests come. How often that is so over many seeds, [`tally`] counts.
pub const DEFAULT_SEED: u64 = 9;

/// A published scenario by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ScenarioName {
    /// Clean baseline.
    A,
    /// Latency.
    B,
    /// Jitter storm.
    C,
    /// Drop storm.
    D,
    /// Gray failure.
    E,
    /// Capacity pressure.
    F,
}

impl ScenarioName {
    /// Every scenario.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The letter.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
        }
    }
}

impl fmt::Display for ScenarioName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ScenarioName {
    type Err = InvalidScenario;
    fn from_str(text: &str) -> Result<Self, InvalidScenario> {
        let found = Self::ALL.into_iter().find(|name| name.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| InvalidScenario(text.chars().take(80).collect()))
    }
}

/// A scenario that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scenario {0:?}: unknown, allowed: A, B, C, D, E, F")]
pub struct InvalidScenario(String);

/// Pools and the requests that ask for one, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its letter.
    pub name: ScenarioName,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// Who decides, in the ids of decisions.
    pub node: NodeName,
    /// The pools, in the order in which they are considered.
    pub pools: Vec<PoolSetup>,
    /// The requests.
    pub asks: Vec<Ask>,
}

/// One pool and how the path to it misbehaves.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSetup {
    /// Its name.
    pub pool: PoolName,
    /// How latencies are spread.
    pub pattern: FaultPattern,
    /// Around what, in milliseconds.
    pub base_ms: f64,
    /// Samples before the first request.
    pub samples: u32,
    /// Its sessions.
    pub capacity: Capacity,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What asks.
    pub workload: Arc<Workload>,
    /// What the publication says of it.
    pub expected: Expected,
}

/// A published placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// On a pool with a path of this pattern.
    pub pattern: FaultPattern,
    /// Whether it must be there.
    pub binding: Binding,
}

coded!(
    /// How far a published placement binds.
    Binding {
        /// The request goes there.
        Must = "must",
        /// The request is admissible there, and may go elsewhere.
        May = "may",
    }
);

/// What one scenario led to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// What people read.
    #[serde(flatten)]
    pub summary: Summary,
    /// The decision of each request, as it was recorded.
    pub records: Vec<DecisionRecord>,
}

/// What one scenario led to, in short. Milliseconds are rounded to 2 decimals, scores and shares to 4;
/// the records have every number as it was computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its letter.
    pub scenario: ScenarioName,
    /// What it is about.
    pub title: &'static str,
    /// By which rules.
    pub profile: Profile,
    /// Of the draws.
    pub seed: u64,
    /// Each pool as the requests found it.
    pub pools: Vec<PoolSummary>,
    /// Each request.
    pub routes: Vec<RouteSummary>,
}

/// One pool as the requests found it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolSummary {
    /// Its name.
    pub pool: PoolName,
    /// How latencies were spread.
    pub pattern: FaultPattern,
    /// Around what, in milliseconds.
    pub base_ms: f64,
    /// Samples that were fed.
    pub samples: u32,
    /// The state of the path to it.
    pub state: PathState,
    /// Gray Failure Score in [0, 1].
    pub gfs: f64,
    /// 99th percentile of the latency over the window, in milliseconds.
    pub p99_latency_ms: f64,
    /// Standard deviation of the latency over the window, in milliseconds.
    pub jitter_ms: f64,
    /// Share dropped over the window.
    pub mean_drop_rate: f64,
    /// Sessions in use.
    pub active_sessions: u32,
    /// Sessions that fit.
    pub max_capacity: u32,
    /// Sessions from which it is soft saturated.
    pub soft_limit: u32,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteSummary {
    /// The class that asked.
    pub workload: WorkloadName,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it went.
    pub chosen: Option<PoolName>,
    /// The sessions of that pool while the request lives, itself included.
    pub active_with_it: Option<u32>,
    /// What the publication says.
    pub expected: Expected,
    /// Whether it came so.
    pub held: bool,
    /// The judgement on each pool, in their order.
    pub candidates: Vec<CandidateSummary>,
}

/// The judgement on one pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateSummary {
    /// The pool.
    pub pool: PoolName,
    /// Whether it may carry the request.
    pub admissible: bool,
    /// Why, or why not.
    pub code: Reason,
    /// What was observed, where a number was compared.
    pub observed: Option<f64>,
    /// What it was compared with.
    pub limit: Option<f64>,
    /// What it was worse in than the chosen one, where it was admissible and not chosen.
    pub skipped_reason: Option<Skipped>,
}

/// Runs `scenario` under the rules of `profile`, with their published numbers.
///
/// Each pool's samples come from a random sequence of its own, told apart by `seed`, scenario and
/// place; both profiles see the same. The mesh profile, which needs times, gets them a second apart,
/// the last one now. Then each request is routed in order. A request that is placed holds one session
/// of its pool, and gives it back before the next one asks, as in the published experiments: all
/// requests meet the same pools.
#[must_use]
pub fn run(scenario: &Scenario, profile: Profile, seed: u64) -> ScenarioResult {
    let thresholds = Thresholds::of(profile);
    let candidates: Vec<Candidate> = scenario
        .pools
        .iter()
        .zip(0..)
        .map(|(pool, place)| {
            let samples = pool.draw(&mut sequence(seed, scenario.name, place));
            pool.candidate(profile, &thresholds, &samples)
        })
        .collect();
    let mut records = Vec::with_capacity(scenario.asks.len());
    for (ask, number) in scenario.asks.iter().zip(1..) {
        let terms = Terms {
            max_excluded_fraction: MAX_EXCLUDED_FRACTION,
            tie: seed,
            ..Terms::new(profile, &thresholds, &ask.workload)
        };
        let decision = decide(&terms, &candidates);
        let id = DecisionId { node: scenario.node.clone(), generation: 0, input: number };
        let context = Context::offline(id, Arc::clone(&ask.workload), profile);
        records.push(DecisionRecord::new(context, &candidates, &decision));
    }
    let pools = scenario.pools.iter().zip(&candidates).map(|(setup, found)| PoolSummary::of(setup, found));
    let routes = scenario.asks.iter().zip(&records).map(|(ask, record)| RouteSummary::of(scenario, ask, record));
    let summary = Summary {
        scenario: scenario.name,
        title: scenario.title,
        profile,
        seed,
        pools: pools.collect(),
        routes: routes.collect(),
    };
    ScenarioResult { summary, records }
}

/// The random numbers of the pool at `place`.
fn sequence(seed: u64, name: ScenarioName, place: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(((name as u64) << 32) | place);
    rng
}

impl PoolSetup {
    fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<Point> {
        let sample = |_| {
            let drawn = self.pattern.draw(self.base_ms, rng);
            Point { latency_ms: drawn.latency_ms, drop_rate: f64::from(u8::from(drawn.dropped)), bytes: 0 }
        };
        (0..self.samples).map(sample).collect()
    }

    fn candidate(&self, profile: Profile, thresholds: &Thresholds, samples: &[Point]) -> Candidate {
        let target = Target { pool: self.pool.clone(), node: None, path: None };
        let health = health_of(profile, thresholds, samples, None);
        Candidate { health_age_ms: Some(0), ..Candidate::new(Arc::new(target), health, self.capacity) }
    }
}

impl PoolSummary {
    fn of(setup: &PoolSetup, found: &Candidate) -> Self {
        let (health, capacity) = (&found.health, &found.capacity);
        Self {
            pool: setup.pool.clone(),
            pattern: setup.pattern,
            base_ms: setup.base_ms,
            samples: setup.samples,
            state: health.state,
            gfs: round4(health.gfs),
            p99_latency_ms: round2(health.p99_latency_ms),
            jitter_ms: round2(health.jitter_ms),
            mean_drop_rate: round4(health.mean_drop_rate),
            active_sessions: capacity.active_sessions,
            max_capacity: capacity.max_capacity,
            soft_limit: capacity.soft_limit(),
        }
    }
}

impl RouteSummary {
    fn of(scenario: &Scenario, ask: &Ask, record: &DecisionRecord) -> Self {
        let judged = |(setup, found): (&PoolSetup, &CandidateRecord)| match ask.expected.binding {
            Binding::Must => setup.pattern == ask.expected.pattern && found.chosen,
            Binding::May => setup.pattern == ask.expected.pattern && found.admissible,
        };
        let chosen = record.candidates.iter().find(|candidate| candidate.chosen);
        Self {
            workload: record.workload.name.clone(),
            outcome: record.outcome,
            chosen: chosen.map(|candidate| candidate.target.pool.clone()),
            active_with_it: chosen.map(|candidate| candidate.capacity.active_sessions + 1),
            expected: ask.expected,
            held: scenario.pools.iter().zip(&record.candidates).any(judged),
            candidates: record.candidates.iter().map(CandidateSummary::of).collect(),
        }
    }
}

impl CandidateSummary {
    fn of(candidate: &CandidateRecord) -> Self {
        let rounded = |value: f64| match candidate.code {
            Reason::RejectedPrsTooHigh => round4(value),
            _ => round2(value),
        };
        Self {
            pool: candidate.target.pool.clone(),
            admissible: candidate.admissible,
            code: candidate.code,
            observed: candidate.observed.map(rounded),
            limit: candidate.limit.map(rounded),
            skipped_reason: candidate.skipped_reason,
        }
    }
}

/// `value` as its text with 2 decimals says it.
fn round2(value: f64) -> f64 {
    format!("{value:.2}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
