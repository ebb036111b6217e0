//! The published experiments: the aggregates come out of the cores.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use seam::eval::experiments;
use seam::model::Profile;
use seam::rivals::Policy;
use serde_json::Value;

/// Whether everything that is in `expected` is in `found`; what `found` has beside it does no harm.
fn contains(found: &Value, expected: &Value, at: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, value) in expected {
                contains(found.get(name).unwrap_or(&Value::Null), value, &format!("{at}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{at}");
            for (index, value) in expected.iter().enumerate() {
                contains(&found[index], value, &format!("{at}[{index}]"));
            }
        }
        (Value::Number(found), Value::Number(expected)) => {
            assert_eq!(found.as_f64(), expected.as_f64(), "{at}");
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}

#[test]
fn the_reference_profile_gives_the_published_aggregates() {
    let path = format!("{}/tests/data/experiments_expected.json", env!("CARGO_MANIFEST_DIR"));
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let found = serde_json::to_value(experiments::run(Profile::Reference).unwrap()).unwrap();
    contains(&found, &expected, "experiments");
}

#[test]
fn the_mesh_profile_keeps_every_headline_and_betters_the_strict_one() {
    let report = experiments::run(Profile::Mesh).unwrap();
    let seam = report.baseline_comparison.of(Policy::Seam).unwrap();
    assert_eq!((seam.strict_trials, seam.tolerant_trials, seam.headroom_trials), (67, 23, 4));
    assert_eq!(seam.strict_workload_success_rate_pct, 100.0);
    assert_eq!(seam.tolerant_degraded_utilization_rate_pct, 82.6, "19 of 23");
    assert_eq!(seam.healthy_headroom_preservation_rate_pct, 100.0);
    assert_eq!(report.hysteresis_stability.default.oscillation_count, 0);
    assert_eq!(report.hysteresis_stability.oscillations_avoided, 7);
    for point in &report.capacity_tradeoff.points {
        assert_eq!((point.batch_on_degraded_rate_pct, point.strict_on_healthy_rate_pct), (100.0, 100.0), "{point:?}");
    }
}

#[test]
fn the_profiles_differ_in_admissibility_only_where_a_path_has_just_been_severe() {
    let [published, mesh] = [Profile::Reference, Profile::Mesh].map(|profile| {
        let points = experiments::run(profile).unwrap().admissibility_boundary.points;
        points.into_iter().map(|point| point.admissibility_rate_pct).collect::<Vec<_>>()
    });
    assert_eq!(published[..5], mesh[..5]);
    assert_eq!((published[5]["batch"], mesh[5]["batch"]), (100.0, 94.4), "one of 18 steps down two windows later");
    assert_eq!(
        (&published[5]["interactive"], &published[5]["release"]),
        (&mesh[5]["interactive"], &mesh[5]["release"])
    );
}

#[test]
fn no_rival_matches_seam_in_all_three() {
    for profile in [Profile::Reference, Profile::Mesh] {
        let report = experiments::run(profile).unwrap();
        let seam = report.baseline_comparison.of(Policy::Seam).unwrap();
        for (policy, found) in report.baseline_comparison.standings.iter().skip(1) {
            let behind = found.strict_workload_success_rate_pct < seam.strict_workload_success_rate_pct
                || found.tolerant_degraded_utilization_rate_pct < seam.tolerant_degraded_utilization_rate_pct
                || found.healthy_headroom_preservation_rate_pct < seam.healthy_headroom_preservation_rate_pct;
            assert!(behind, "{profile}: {policy} {found:?}");
        }
    }
}
