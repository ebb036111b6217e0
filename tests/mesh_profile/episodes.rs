//! The prototype's own baseline episodes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use seam::core::Mono;
use seam::health::window::Point;
use seam::health::{MeshTrack, Settings, Thresholds, Track};
use seam::model::{PathState, Profile};
use serde_json::Value;

struct Pool {
    reference: Track,
    mesh: MeshTrack,
    samples: u64,
}

#[test]
fn on_the_published_baseline_episodes_paths_have_the_states_that_the_reference_gives_them() {
    let file =
        std::fs::File::open(format!("{}/src/eval/data/experiments.jsonl.gz", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let episodes = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut distribution: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let (mut tolerant, mut tolerant_usable, mut strict, mut strict_has_healthy) = (0, 0, 0, 0);
    for episode in episodes.filter(|episode| episode["experiment"] == "baseline_comparison") {
        let thresholds: Thresholds = serde_json::from_value(episode["thresholds"].clone()).unwrap();
        let settings = Settings { profile: Profile::Mesh, thresholds, ..Settings::default() };
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        for operation in episode["ops"].as_array().unwrap() {
            let name = operation[1].as_str().unwrap_or_default().to_owned();
            match operation[0].as_str().unwrap() {
                "pool" => {
                    let pool = Pool { reference: Track::default(), mesh: MeshTrack::default(), samples: 0 };
                    pools.insert(name, pool);
                }
                "sample" => {
                    let pool = pools.get_mut(&name).unwrap();
                    let number = |index: usize| operation[index].as_f64().unwrap();
                    let point = Point { latency_ms: number(2), drop_rate: number(3), bytes: 0 };
                    pool.samples += 1;
                    pool.reference.feed(&settings.thresholds, point);
                    pool.mesh.feed(&settings, Mono(0).plus_ms(pool.samples * 1000), point);
                }
                "route" => {
                    let criticality = operation[1]["criticality"].as_f64().unwrap();
                    let states: Vec<(PathState, PathState)> = pools
                        .values()
                        .map(|pool| (pool.reference.state().state, pool.mesh.health(&settings.thresholds).state))
                        .collect();
                    let count = |wanted: PathState| states.iter().filter(|(_, mesh)| *mesh == wanted).count();
                    if criticality <= 0.35 {
                        tolerant += 1;
                        tolerant_usable += u32::from(count(PathState::DegradedUsable) > 0);
                    } else {
                        strict += 1;
                        strict_has_healthy += u32::from(count(PathState::Healthy) > 0);
                    }
                    for (reference, mesh) in states {
                        *distribution.entry((reference.as_str(), mesh.as_str())).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }
    println!("reference, mesh: paths {distribution:#?}");
    println!("tolerant with a degraded_usable path {tolerant_usable} of {tolerant}");
    println!("strict with a healthy path {strict_has_healthy} of {strict}");
    assert!(tolerant_usable >= 19 && tolerant == 23, "{tolerant_usable} of {tolerant}");
    assert_eq!(strict_has_healthy, strict);
    // One stage is stepped down only once it has lasted, so one path is restricted a little longer.
    let moved: Vec<_> = distribution.iter().filter(|((reference, mesh), _)| reference != mesh).collect();
    assert_eq!(moved, [(&("degraded_usable", "degraded_restricted"), &1)]);
}
