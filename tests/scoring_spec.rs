//! `docs/scoring-spec.md` says what the code does: its tables are read and compared.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use seam::health::mesh::{
    BANDWIDTH_HYSTERESIS, BULK_FRESH_MS, BULK_SAMPLES, MAX_SLOWDOWN, MIN_BULK_SAMPLES, MIN_BULK_WIRE_MS, PROOF_SAMPLES,
    PROVEN_FOR_MS,
};
use seam::health::score::{LATENCY_DROP_INTERACTION, ThresholdField, Thresholds};
use seam::health::stall::{MIN_STALL_SAMPLES, STALL_SAMPLES, STALL_WINDOW_MS};
use seam::health::state::{BAD_ABOVE, QUARANTINE_ABOVE, RELEASE_BELOW, RESTRICTED_ABOVE};
use seam::health::window::WINDOW_SAMPLES;
use seam::health::{CANARY_SLACK, Discard, MAX_ELAPSED_MS, MIN_CANARY_DEADLINE_MS, MIN_WIRE_MS, RAIL_QUEUE_BYTES};
use seam::model::{PathState, Profile, Reason, builtin_workloads};
use seam::policy::rules::{GFS_BAND, HEADROOM_FIRST_UP_TO, HEALTH_FIRST_FROM, PRS_LIMIT, UTILIZATION_BAND};
use seam::policy::select::{SelectionPolicy, Skipped};
use seam::policy::{admit, score};

fn spec() -> String {
    std::fs::read_to_string(format!("{}/docs/scoring-spec.md", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The rows of the table whose first column is headed `heading`, back quotes removed.
fn table(heading: &str) -> Vec<Vec<String>> {
    let spec = spec();
    let start = format!("| {heading} |");
    let rows = spec.lines().skip_while(|line| !line.starts_with(&start)).skip(2);
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table headed {heading}");
    rows
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

#[test]
fn every_threshold_has_its_default_range_and_unit() {
    let defaults = Thresholds::default();
    let expected: Vec<Vec<String>> = ThresholdField::ALL
        .iter()
        .map(|field| vec![field.name.into(), field.get(&defaults).to_string(), field.allowed(), field.unit.into()])
        .collect();
    let found: Vec<Vec<String>> = table("name").into_iter().map(|row| row[..4].to_vec()).collect();
    assert_eq!(found, expected);
    assert!(table("name").iter().all(|row| !row[4].is_empty()));
}

#[test]
fn every_builtin_workload_has_its_numbers() {
    let expected: Vec<Vec<String>> = builtin_workloads()
        .iter()
        .map(|class| {
            vec![
                class.name.to_string(),
                class.criticality.to_string(),
                class.latency_sla_ms.to_string(),
                class.sync_frequency.to_string(),
                class.jitter_tolerance.to_string(),
                yes(class.is_release_path).into(),
                yes(class.is_prefill_decode_strict).into(),
            ]
        })
        .collect();
    assert_eq!(table("class"), expected);
}

#[test]
fn every_state_has_its_severity() {
    let state = |state: &PathState| vec![state.to_string(), state.severity().to_string(), yes(state.carries()).into()];
    let expected: Vec<Vec<String>> = PathState::ALL.iter().map(state).collect();
    assert_eq!(table("state"), expected);
}

#[test]
fn every_constant_has_its_value() {
    let expected = [
        LATENCY_DROP_INTERACTION,
        BAD_ABOVE,
        RESTRICTED_ABOVE,
        QUARANTINE_ABOVE,
        RELEASE_BELOW,
        WINDOW_SAMPLES as f64,
        score::DEPENDENCE_FLOOR,
        score::FAE_GFS_FLOOR,
        score::FAE_GFS_DIVISOR,
        score::LOSS_PER_UTILIZATION,
        score::SOLE_ROUTE_SCARCITY,
        score::ALTERNATE_SCARCITY,
        score::RELEASE_FACTOR,
        PRS_LIMIT,
        admit::JITTER_SCALE_MS,
        admit::JITTER_JUDGED_BELOW,
        admit::RESTRICTED_CRITICALITY,
        admit::USABLE_CRITICALITY,
        admit::RESTORED_CRITICALITY,
        HEADROOM_FIRST_UP_TO,
        HEALTH_FIRST_FROM,
        GFS_BAND,
        UTILIZATION_BAND,
        MAX_ELAPSED_MS,
        MIN_WIRE_MS,
        RAIL_QUEUE_BYTES as f64,
        f64::from(MAX_SLOWDOWN),
        MIN_BULK_WIRE_MS,
        BULK_SAMPLES as f64,
        MIN_BULK_SAMPLES as f64,
        BULK_FRESH_MS as f64,
        PROOF_SAMPLES as f64,
        PROVEN_FOR_MS as f64,
        BANDWIDTH_HYSTERESIS,
        CANARY_SLACK,
        MIN_CANARY_DEADLINE_MS as f64,
        STALL_SAMPLES as f64,
        MIN_STALL_SAMPLES as f64,
        STALL_WINDOW_MS as f64,
    ];
    let found: Vec<f64> = table("constant").iter().map(|row| row[1].parse().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_code_is_listed_and_no_other() {
    let first = |heading| table(heading).into_iter().map(|mut row| row.remove(0)).collect::<Vec<_>>();
    let names = |codes: Vec<&str>| codes.into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first("code"), names(Reason::ALL.iter().map(|code| code.as_str()).collect()));
    assert_eq!(first("policy"), names(SelectionPolicy::ALL.iter().map(|code| code.as_str()).collect()));
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    let discards = names(Discard::ALL.iter().map(|code| code.as_str()).collect());
    assert_eq!(sorted(first("reason")), sorted(discards));
    for skipped in Skipped::ALL {
        assert!(spec().contains(&format!("`{skipped}`")), "{skipped}");
    }
}

#[test]
fn every_vector_has_as_many_numbers_as_the_policy_compares() {
    let words = |skipped: &Skipped| match skipped {
        Skipped::HealthySpared => "1 if healthy else 0",
        Skipped::SoftSaturated => "soft saturated",
        Skipped::HigherUtilization => "utilization",
        Skipped::HigherSeverity => "severity",
        Skipped::HigherGfs => "gfs",
        Skipped::FewerRemaining => "−remaining",
        Skipped::SlowerTokens => "slow",
        Skipped::TieHash => "tie",
        Skipped::LastResort | Skipped::SlowerQuote | Skipped::LaterBackend | Skipped::LaterInList => "never",
    };
    for (heading, profile) in [("policy", Profile::Reference), ("policy of the mesh profile", Profile::Mesh)] {
        for (row, policy) in table(heading).iter().zip(SelectionPolicy::ALL) {
            let keys: Vec<&str> = policy.keys(profile).iter().map(words).collect();
            assert_eq!(row[1], keys.join(", "), "{policy}");
        }
    }
}
