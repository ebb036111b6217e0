//! The published headline, decided by the mesh profile on the prototype's own baseline episodes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use seam::core::Mono;
use seam::health::window::Point;
use seam::health::{MeshTrack, Settings, Thresholds};
use seam::model::{Capacity, PathState, Profile, Workload};
use seam::policy::decide::{Candidate, MAX_EXCLUDED_FRACTION, Target, Terms, decide};
use serde_json::Value;

struct Pool {
    target: Arc<Target>,
    track: MeshTrack,
    capacity: Capacity,
    samples: u64,
}

/// Of so many requests, so many.
#[derive(Default)]
struct Share {
    of: u32,
    met: u32,
}

impl Share {
    fn count(&mut self, met: bool) {
        self.of += 1;
        self.met += u32::from(met);
    }
}

#[test]
fn on_the_published_baseline_episodes_strict_work_is_on_healthy_paths_and_tolerant_work_spares_them() {
    let file =
        std::fs::File::open(format!("{}/src/eval/data/experiments.jsonl.gz", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let episodes = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let (mut strict, mut tolerant, mut headroom) = (Share::default(), Share::default(), Share::default());
    for (number, episode) in episodes.filter(|episode| episode["experiment"] == "baseline_comparison").enumerate() {
        let mut thresholds: Thresholds = serde_json::from_value(episode["thresholds"].clone()).unwrap();
        thresholds.prs_reject_threshold = Thresholds::of(Profile::Mesh).prs_reject_threshold;
        let settings = Settings { profile: Profile::Mesh, thresholds, ..Settings::default() };
        let mut pools: Vec<Pool> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut chosen: Option<usize> = None;
        for operation in episode["ops"].as_array().unwrap() {
            let name = operation[1].as_str().unwrap_or_default();
            let number_at = |index: usize| operation[index].as_f64().unwrap();
            match operation[0].as_str().unwrap() {
                "pool" => {
                    places.insert(name.to_owned(), pools.len());
                    let max_capacity = number_at(2) as u32;
                    pools.push(Pool {
                        target: Arc::new(Target { pool: name.parse().unwrap(), node: None, path: None }),
                        track: MeshTrack::default(),
                        capacity: Capacity { active_sessions: 0, max_capacity, soft_fraction: number_at(3) },
                        samples: 0,
                    });
                }
                "sample" => {
                    let pool = &mut pools[places[name]];
                    pool.samples += 1;
                    let point = Point { latency_ms: number_at(2), drop_rate: number_at(3), bytes: 0 };
                    pool.track.feed(&settings, Mono(0).plus_ms(pool.samples * 1000), point);
                }
                "active" => pools[places[name]].capacity.active_sessions = number_at(2) as u32,
                // The log names the prototype's choice; what is released is this one's.
                "release" => {
                    if let Some(index) = chosen.take() {
                        pools[index].capacity.active_sessions -= 1;
                    }
                }
                "route" => {
                    let workload: Workload = serde_json::from_value(operation[1].clone()).unwrap();
                    let candidate = |pool: &Pool| Candidate {
                        health_age_ms: Some(0),
                        ..Candidate::new(pool.target.clone(), pool.track.health(&settings.thresholds), pool.capacity)
                    };
                    let candidates: Vec<Candidate> = pools.iter().map(candidate).collect();
                    let terms = Terms {
                        max_excluded_fraction: MAX_EXCLUDED_FRACTION,
                        tie: number as u64,
                        ..Terms::new(Profile::Mesh, &settings.thresholds, &workload)
                    };
                    let decision = decide(&terms, &candidates);
                    chosen = decision.choice.chosen;
                    let on = |state| chosen.is_some_and(|index| candidates[index].health.state == state);
                    let criticality = workload.effective_criticality();
                    if criticality >= 0.7 {
                        strict.count(on(PathState::Healthy));
                    }
                    if criticality <= 0.35 {
                        tolerant.count(on(PathState::DegradedUsable));
                        let healthy = |candidate: &Candidate| candidate.health.state == PathState::Healthy;
                        let crowded = candidates.iter().any(|one| healthy(one) && one.capacity.soft_saturated());
                        let mut judged = candidates.iter().zip(&decision.assessments);
                        if crowded && judged.any(|(one, found)| !healthy(one) && found.verdict.admits()) {
                            headroom.count(!on(PathState::Healthy));
                        }
                    }
                    if let Some(index) = chosen {
                        pools[index].capacity.active_sessions += 1;
                    }
                }
                other => panic!("operation {other}"),
            }
        }
    }
    for (name, share) in [("strict", &strict), ("tolerant", &tolerant), ("headroom", &headroom)] {
        println!("{name}: {} of {} ({:.1} %)", share.met, share.of, f64::from(share.met) * 100.0 / f64::from(share.of));
    }
    assert_eq!((strict.met, strict.of), (67, 67));
    assert_eq!((tolerant.met, tolerant.of), (19, 23));
    assert_eq!((headroom.met, headroom.of), (4, 4));
}
