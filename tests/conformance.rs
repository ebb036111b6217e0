//! The reference profile against the published prototype's own answers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use seam::health::window::Point;
use seam::health::{Thresholds, Track};
use seam::model::Profile;
use seam::model::{Capacity, PathState, PoolName, Workload};
use seam::policy::decide::{Candidate, Decision, Target, Terms, decide};
use seam::policy::record::CandidateRecord;
use seam::policy::round4;
use seam::whatif::decide_line;
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn whole(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn point(latency_ms: &Value, drop_rate: &Value) -> Point {
    Point { latency_ms: float(latency_ms), drop_rate: float(drop_rate), bytes: 0 }
}

fn close(found: f64, expected: &Value, what: &str) {
    let expected = float(expected);
    assert!((found - expected).abs() <= 1e-9, "{what}: found {found}, expected {expected}");
}

/// The prototype's pools: a track and its sessions each.
struct Pool {
    target: Arc<Target>,
    track: Track,
    capacity: Capacity,
}

impl Pool {
    fn new(name: &str, max_capacity: u32, soft_fraction: f64) -> Self {
        let target = Target { pool: PoolName::new(name).unwrap(), node: None, path: None };
        Self {
            target: Arc::new(target),
            track: Track::default(),
            capacity: Capacity { active_sessions: 0, max_capacity, soft_fraction },
        }
    }

    fn candidate(&self, thresholds: &Thresholds) -> Candidate {
        Candidate::new(Arc::clone(&self.target), self.track.health(thresholds), self.capacity)
    }
}

fn route(pools: &[Pool], thresholds: &Thresholds, workload: &Workload) -> (Vec<Candidate>, Decision) {
    let candidates: Vec<Candidate> = pools.iter().map(|pool| pool.candidate(thresholds)).collect();
    let decision = decide(&Terms::new(Profile::Reference, thresholds, workload), &candidates);
    (candidates, decision)
}

fn chosen_name(pools: &[Pool], decision: &Decision) -> Option<String> {
    decision.choice.chosen.map(|index| pools[index].target.pool.to_string())
}

#[test]
fn every_decision_of_the_prototype_comes_out_of_the_cores() {
    let cases = lines("tests/data/decisions.jsonl.gz");
    assert_eq!(cases.len(), 1200);
    for case in &cases {
        let number = &case["case"];
        let thresholds: Thresholds = serde_json::from_value(case["thresholds"].clone()).unwrap();
        thresholds.validate().unwrap();
        let workload: Workload = serde_json::from_value(case["workload"].clone()).unwrap();
        close(workload.effective_criticality(), &case["effective_criticality"], "effective criticality");
        let mut pools = Vec::new();
        for given in list(&case["pools"]) {
            let mut pool = Pool::new(
                text(&given["pool_id"]),
                whole(&given["max_capacity"]),
                float(&given["soft_capacity_fraction"]),
            );
            for (sample, expected) in list(&given["samples"]).iter().zip(list(&given["expect_states"])) {
                let health = pool.track.feed(&thresholds, point(&sample[0], &sample[1]));
                assert_eq!(health.state.as_str(), text(expected), "case {number}");
            }
            assert_eq!(pool.track.state().bad_windows, whole(&given["expect_bad_windows"]), "case {number}");
            assert_eq!(pool.track.state().clean_windows, whole(&given["expect_clean_windows"]), "case {number}");
            pool.capacity.active_sessions = whole(&given["active_sessions"]);
            pools.push(pool);
        }
        let (candidates, decision) = route(&pools, &thresholds, &workload);
        let expect = &case["expect"];
        assert_eq!(decision.choice.outcome.as_str(), text(&expect["outcome"]), "case {number}");
        assert_eq!(chosen_name(&pools, &decision).as_deref(), expect["chosen"].as_str(), "case {number}");
        assert_eq!(decision.ranking().first().copied(), decision.choice.chosen, "case {number}");
        assert_eq!(candidates.len(), list(&expect["candidates"]).len());
        for (index, expected) in list(&expect["candidates"]).iter().enumerate() {
            let (health, found) = (&candidates[index].health, &decision.assessments[index]);
            let what = format!("case {number}, candidate {index}");
            assert_eq!(pools[index].target.pool.as_str(), text(&expected["pool_id"]));
            assert_eq!(health.state.as_str(), text(&expected["path_state"]), "{what}");
            assert_eq!(round4(health.gfs), float(&expected["gfs"]), "{what}");
            assert_eq!(round4(found.prs), float(&expected["prs"]), "{what}");
            assert_eq!(round4(found.fae), float(&expected["fae"]), "{what}");
            close(health.p99_latency_ms, &expected["p99_latency_ms"], &what);
            close(health.jitter_ms, &expected["jitter_ms"], &what);
            close(health.mean_drop_rate, &expected["mean_drop_rate"], &what);
            assert_eq!(health.sample_count, whole(&expected["sample_count"]), "{what}");
            assert_eq!(found.alternates.available, whole(&expected["available_alternates"]), "{what}");
            assert_eq!(found.verdict.admits(), expected["admissible"], "{what}");
            assert_eq!(found.verdict.code.as_str(), text(&expected["code"]), "{what}");
            let policy = found.rank.map(|rank| rank.policy.as_str());
            assert_eq!(policy, expected["selection_policy"].as_str(), "{what}");
            let vector = found.rank.map(|rank| rank.vector.as_slice().to_vec()).unwrap_or_default();
            let numbers: Vec<f64> = list(&expected["selection_vector"]).iter().map(float).collect();
            assert_eq!(vector, numbers, "{what}");
            assert_eq!(decision.choice.chosen == Some(index), expected["chosen"], "{what}");
        }
    }
}

/// The line without what it expects.
fn question(case: &Value) -> String {
    let mut line = case.clone();
    line.as_object_mut().unwrap().retain(|name, _| !name.starts_with("expect"));
    for pool in line["pools"].as_array_mut().unwrap() {
        pool.as_object_mut().unwrap().retain(|name, _| !name.starts_with("expect"));
    }
    line.to_string()
}

#[test]
fn every_decision_of_the_prototype_comes_out_of_a_what_if_as_a_record() {
    for (number, case) in lines("tests/data/decisions.jsonl.gz").iter().enumerate() {
        let record = decide_line(&question(case), Profile::Reference, number as u64).unwrap();
        let json = serde_json::to_value(&record).unwrap();
        let expect = &case["expect"];
        assert_eq!(json["outcome"], expect["outcome"], "case {number}");
        assert_eq!(json["reason"], expect["outcome"], "case {number}");
        let chosen = record.chosen.as_ref().map(|chosen| chosen.pool.to_string());
        assert_eq!(chosen.as_deref(), expect["chosen"].as_str(), "case {number}");
        for (found, expected) in list(&json["candidates"]).iter().zip(list(&expect["candidates"])) {
            for name in ["path_state", "admissible", "code", "selection_policy", "chosen"] {
                assert_eq!(found[name], expected[name], "case {number}, {name}");
            }
            for name in ["gfs", "prs", "fae"] {
                assert_eq!(float(&found[name]), float(&expected[name]), "case {number}, {name}");
            }
            let numbers = |value: &Value| list(value).iter().map(float).collect::<Vec<_>>();
            assert_eq!(numbers(&found["selection_vector"]), numbers(&expected["selection_vector"]), "case {number}");
            for name in ["p99_latency_ms", "jitter_ms", "mean_drop_rate"] {
                close(float(&found["health"][name]), &expected[name], name);
            }
            assert_eq!(found["health"]["sample_count"], expected["sample_count"], "case {number}");
            assert_eq!(found["topology"]["available_alternates"], expected["available_alternates"], "case {number}");
            assert_eq!(found["pool"], expected["pool_id"], "case {number}");
            assert_rejections_carry_their_numbers(&record.candidates, number);
        }
    }
}

fn assert_rejections_carry_their_numbers(candidates: &[CandidateRecord], number: usize) {
    for candidate in candidates.iter().filter(|candidate| !candidate.admissible) {
        let (Some(observed), Some(limit)) = (candidate.observed, candidate.limit) else {
            panic!("case {number}: {candidate:?}");
        };
        assert!(observed >= limit, "case {number}: {} at {observed} against {limit}", candidate.code);
    }
}

/// One episode as its operation log plays it, route by route.
struct Episode {
    thresholds: Thresholds,
    pools: Vec<Pool>,
    states: Vec<PathState>,
}

impl Episode {
    fn new(line: &Value) -> Self {
        let thresholds = serde_json::from_value(line["thresholds"].clone()).unwrap();
        Self { thresholds, pools: Vec::new(), states: Vec::new() }
    }

    fn pool(&mut self, name: &Value) -> &mut Pool {
        self.pools.iter_mut().find(|pool| pool.target.pool.as_str() == text(name)).unwrap()
    }

    fn play(&mut self, operation: &Value) {
        match text(&operation[0]) {
            "pool" => {
                self.pools.push(Pool::new(text(&operation[1]), whole(&operation[2]), float(&operation[3])));
            }
            "sample" => {
                let thresholds = self.thresholds.clone();
                let health = self.pool(&operation[1]).track.feed(&thresholds, point(&operation[2], &operation[3]));
                self.states.push(health.state);
            }
            "active" => self.pool(&operation[1]).capacity.active_sessions = whole(&operation[2]),
            "release" => self.pool(&operation[1]).capacity.active_sessions -= 1,
            "route" => self.route(&operation[1], &operation[2]),
            other => panic!("operation {other}"),
        }
    }

    fn route(&mut self, workload: &Value, expect: &Value) {
        let workload: Workload = serde_json::from_value(workload.clone()).unwrap();
        let (candidates, decision) = route(&self.pools, &self.thresholds, &workload);
        assert_eq!(decision.choice.outcome.as_str(), text(&expect["outcome"]));
        assert_eq!(chosen_name(&self.pools, &decision).as_deref(), expect["chosen"].as_str());
        assert_eq!(candidates.len(), list(&expect["candidates"]).len());
        for (index, expected) in list(&expect["candidates"]).iter().enumerate() {
            let (health, found) = (&candidates[index].health, &decision.assessments[index]);
            assert_eq!(self.pools[index].target.pool.as_str(), text(&expected[0]));
            assert_eq!(health.state.as_str(), text(&expected[1]));
            assert_eq!(round4(health.gfs), float(&expected[2]));
            assert_eq!(round4(found.prs), float(&expected[3]));
            assert_eq!(round4(found.fae), float(&expected[4]));
            assert_eq!(found.verdict.admits(), expected[5]);
        }
        if let Some(index) = decision.choice.chosen {
            self.pools[index].capacity.active_sessions += 1;
        }
    }
}

#[test]
fn every_episode_of_the_experiments_plays_as_the_prototype_played_it() {
    let episodes = lines("src/eval/data/experiments.jsonl.gz");
    assert_eq!(episodes.len(), 326);
    let mut routes = 0;
    for line in &episodes {
        let mut episode = Episode::new(line);
        for operation in list(&line["ops"]) {
            episode.play(operation);
            routes += usize::from(operation[0] == "route");
        }
    }
    assert_eq!(routes, 756);
}

#[test]
fn hysteresis_avoids_the_published_oscillations() {
    let path = format!("{}/tests/data/experiments_expected.json", env!("CARGO_MANIFEST_DIR"));
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let expected = &expected["hysteresis_stability"];
    let episodes = lines("src/eval/data/experiments.jsonl.gz");
    let episodes = episodes.iter().filter(|line| line["experiment"] == "hysteresis_stability");
    let names = ["default", "no_hysteresis_baseline"];
    for (name, line) in names.into_iter().zip(episodes) {
        let mut episode = Episode::new(line);
        list(&line["ops"]).iter().for_each(|operation| episode.play(operation));
        let states = &episode.states;
        let changes = states.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes as u64, expected[name]["transition_count"].as_u64().unwrap(), "{name}");
        let mut distribution = BTreeMap::new();
        states.iter().for_each(|state| *distribution.entry(state.as_str()).or_insert(0_u64) += 1);
        assert_eq!(serde_json::to_value(distribution).unwrap(), expected[name]["state_distribution"], "{name}");
        let first: Vec<&str> = states.iter().take(24).map(|state| state.as_str()).collect();
        assert_eq!(serde_json::to_value(first).unwrap(), expected[name]["first_24_states"], "{name}");
    }
}
