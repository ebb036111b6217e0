//! What the published trace comes to, and what is counted of a request.

use super::*;

#[test]
fn the_published_trace_gives_the_published_choices_and_metrics() {
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    let (summary, choices) = run(TRACE, &reference()).unwrap();
    let name = |theirs: &str| if theirs == "seam_orchestrator" { "seam".to_owned() } else { theirs.to_owned() };

    let chosen = expected["chosen"].as_object().unwrap();
    assert_eq!((chosen.len(), choices.0.len()), (10, 10));
    for (request, policies) in chosen {
        for (policy, pool) in policies.as_object().unwrap() {
            assert_eq!(choices.0[request].0[name(policy).as_str()].as_deref(), pool.as_str(), "{request} {policy}");
        }
    }

    let found = serde_json::to_value(&summary).unwrap();
    let metrics = expected["summary"]["policy_metrics"].as_object().unwrap();
    assert_eq!(metrics.len(), 4);
    for (policy, metrics) in metrics {
        assert_eq!(found["policy_metrics"][name(policy)], *metrics, "{policy}");
    }
    for field in ["replay_requests", "strict_workloads_protected_by_seam", "headroom_preserved_by_seam"] {
        assert_eq!(found[field], expected["summary"][field], "{field}");
    }
}

#[test]
fn the_mesh_profile_serves_the_published_trace_no_worse() {
    let (summary, choices) = run(TRACE, &Settings::of(Profile::Mesh)).unwrap();
    let (_, seam) = summary.policy_metrics.iter().find(|(policy, _)| *policy == Policy::Seam).unwrap();
    // r003 has a degraded pool alone, and r004 a full one.
    assert_eq!((summary.strict_requests, seam.strict_healthy_pct), (6, Some(66.7)));
    assert_eq!((summary.tolerant_requests, seam.tolerant_degraded_pct), (4, Some(100.0)));
    assert_eq!((seam.no_pool_count, choices.0["r004"].1), (1, Outcome::NoAdmissiblePool));
}

#[test]
fn rivals_that_see_what_seam_refuses_may_take_it() {
    // The degraded pool is the fastest, and too much jitter for this class.
    let jittery = row(&[("pool_id", "fast"), ("latency_ms", "1.0"), ("jitter_ms", "4.0"), ("alternate_count", "1")]);
    let sound = row(&[("pool_id", "sound"), ("alternate_count", "1")]);
    let full = row(&[("request_id", "r2"), ("pool_id", "full"), ("occupancy", "8")]);
    let gone = row(&[("request_id", "r3"), ("pool_id", "gone"), ("drop_rate", "0.05")]);
    let trace = trace(&[jittery, sound, full, gone]);
    let policies = [Policy::Seam, Policy::LowestLatency];
    let pools = |rivals_see| {
        let (_, choices) = run(&trace, &Settings { rivals_see, ..only(&policies) }).unwrap();
        ["r1", "r2", "r3"].map(|request| choices.0[request].0["lowest_latency"].clone())
    };
    assert_eq!(pools(Choosable::AdmissibleOnly), [Some("sound".to_owned()), None, None]);
    assert_eq!(pools(Choosable::UpAndNotFull), [Some("fast".to_owned()), None, None]);
}

#[test]
fn a_request_is_strict_by_class_and_tolerant_by_class_or_criticality() {
    let request = |id: &str, class: &str, criticality: &str, strict: &str| {
        row(&[
            ("request_id", id),
            ("workload_type", class),
            ("criticality", criticality),
            ("is_prefill_decode_strict", strict),
        ])
    };
    let rows = [
        request("r1", "interactive", "0.1", "false"),
        request("r2", "strict-online", "0.8", "true"),
        request("r3", "release", "0.9", "true"),
        request("r4", "batch", "0.9", "false"),
        request("r5", "nightly", "0.35", "false"),
        // Neither: raised to 0.60, and of another class.
        request("r6", "nightly", "0.35", "true"),
        request("r7", "interactive-sync", "0.72", "true"),
    ];
    let (summary, _) = run(trace(&rows), &reference()).unwrap();
    assert_eq!((summary.strict_requests, summary.tolerant_requests, summary.replay_requests), (3, 2, 7));
    assert_eq!(summary.neither_requests, 2);
}

#[test]
fn what_seams_choices_cost_is_told_against_the_fastest_that_it_admits() {
    let one = |id: &str, class: &str, pool: &str, latency_ms: &str, jitter_ms: &str| {
        row(&[
            ("request_id", id),
            ("workload_type", class),
            ("pool_id", pool),
            ("latency_ms", latency_ms),
            ("jitter_ms", jitter_ms),
            ("criticality", if class == "batch" { "0.2" } else { "0.7" }),
            ("is_prefill_decode_strict", "false"),
            ("jitter_tolerance", "0.5"),
            ("alternate_count", "1"),
        ])
    };
    let rows = [
        // Degraded by its jitter, which the class bears, and the faster one.
        one("r1", "interactive", "jittery", "1.0", "2.2"),
        one("r1", "interactive", "sound", "3.5", "0.1"),
        one("r2", "batch", "jittery", "4.0", "2.2"),
        one("r2", "batch", "sound", "3.25", "0.1"),
        // Nobody pays for a single candidate.
        one("r3", "interactive", "sound", "4.0", "0.1"),
        one("r4", "interactive", "gone", "50", "0.1"),
    ];
    let (summary, _) = run(trace(&rows), &reference()).unwrap();
    assert_eq!((summary.strict_workloads_protected_by_seam, summary.strict_protected_extra_ms), (1, Some(2.5)));
    assert_eq!((summary.headroom_preserved_by_seam, summary.headroom_preserved_extra_ms), (1, Some(0.75)));
    assert_eq!(summary.no_pool_by_seam, 1);
    let (summary, _) = run(trace(&rows[4..5]), &reference()).unwrap();
    assert_eq!((summary.strict_protected_extra_ms, summary.headroom_preserved_extra_ms), (None, None));
}

#[test]
fn shares_of_no_requests_are_none() {
    let (summary, _) = run(trace(&[row(&[("workload_type", "other")])]), &reference()).unwrap();
    let metrics = summary.policy_metrics[0].1;
    assert_eq!((metrics.strict_healthy_pct, metrics.tolerant_degraded_pct), (None, None));
    let mut table = Vec::new();
    summary.write_csv(&mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.lines().nth(1).unwrap().starts_with("seam,1,0,,,0,0,0"), "{table}");
}
