//! What is written of the scenarios: decision traces, summaries, and how placements fall over seeds.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::{Ask, Scenario, ScenarioName, Summary, published, run};
use crate::eval::artifacts::PROFILES;
use crate::model::{PathState, PoolName, Profile, WorkloadName};

/// The seeds that are counted.
pub const TALLY_SEEDS: Range<u64> = 0..200;

/// What one scenario led to over many seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    /// The scenario.
    pub scenario: ScenarioName,
    /// By which rules.
    pub profile: Profile,
    /// How many seeds.
    pub seeds: u64,
    /// Each pool.
    pub pools: Vec<PoolTally>,
    /// Each request.
    pub routes: Vec<RouteTally>,
}

/// How often the path to a pool was in which state when the requests came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolTally {
    /// The pool.
    pub pool: PoolName,
    /// How often in each state that occurred.
    pub states: BTreeMap<PathState, u64>,
}

/// Where a request went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteTally {
    /// The class that asked.
    pub workload: WorkloadName,
    /// How often it went to each pool; `none` where nothing was admissible.
    pub placed: BTreeMap<String, u64>,
    /// How often it came as published.
    pub held: u64,
}

/// Runs `scenario` once for every seed, and counts.
#[must_use]
pub fn tally(scenario: &Scenario, profile: Profile, seeds: Range<u64>) -> Tally {
    let names = || scenario.pools.iter().map(|setup| setup.pool.clone());
    let nowhere: BTreeMap<String, u64> =
        names().map(|pool| pool.to_string()).chain(["none".to_owned()]).map(|pool| (pool, 0)).collect();
    let of_route = |ask: &Ask| RouteTally { workload: ask.workload.name.clone(), placed: nowhere.clone(), held: 0 };
    let mut tally = Tally {
        scenario: scenario.name,
        profile,
        seeds: 0,
        pools: names().map(|pool| PoolTally { pool, states: BTreeMap::new() }).collect(),
        routes: scenario.asks.iter().map(of_route).collect(),
    };
    for seed in seeds {
        let summary = run(scenario, profile, seed).summary;
        tally.seeds += 1;
        for (counted, pool) in tally.pools.iter_mut().zip(summary.pools) {
            *counted.states.entry(pool.state).or_default() += 1;
        }
        for (counted, route) in tally.routes.iter_mut().zip(summary.routes) {
            let pool = route.chosen.map_or_else(|| "none".to_owned(), |pool| pool.to_string());
            *counted.placed.entry(pool).or_default() += 1;
            counted.held += u64::from(route.held);
        }
    }
    tally
}

/// The decision records of `scenario`, one a line: those of the reference profile, then those of the
/// mesh profile, each in the order of the requests.
#[must_use]
pub fn decision_trace(scenario: &Scenario, seed: u64) -> String {
    let records = PROFILES.into_iter().flat_map(|profile| run(scenario, profile, seed).records);
    // A record has no map with keys that are no text, which is all that could fail.
    records.filter_map(|record| serde_json::to_string(&record).ok()).map(|line| line + "\n").collect()
}

/// Every published scenario under both profiles with `seed`, and the tallies of [`TALLY_SEEDS`]: one
/// JSON object, indented.
#[must_use]
pub fn scenarios_json(seed: u64) -> String {
    #[derive(Serialize)]
    struct Artifact {
        seed: u64,
        scenarios: Vec<Summary>,
        tallies: Vec<Tally>,
    }
    let scenarios = published();
    let both = || scenarios.iter().flat_map(|scenario| PROFILES.map(|profile| (scenario, profile)));
    let artifact = Artifact {
        seed,
        scenarios: both().map(|(scenario, profile)| run(scenario, profile, seed).summary).collect(),
        tallies: both().map(|(scenario, profile)| tally(scenario, profile, TALLY_SEEDS)).collect(),
    };
    // The keys are all text, so that nothing can fail.
    serde_json::to_string_pretty(&artifact).unwrap_or_default() + "\n"
}
