//! What `explain` says, word for word.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use seam::model::Profile;
use seam::model::{DecisionId, Lease, Outcome, Reason};
use seam::policy::explain::{MAX_COLUMNS, explain};
use seam::policy::record::DecisionRecord;
use seam::whatif::decide_line;

/// Thirty samples around `latency_ms`, every other one higher by `swing_ms`.
fn samples(latency_ms: f64, swing_ms: f64, drop_rate: f64) -> String {
    let sample = |index| {
        let swing = if index % 2 == 0 { swing_ms } else { 0.0 };
        format!("[{}, {drop_rate}]", latency_ms + swing)
    };
    let list: Vec<String> = (0..30).map(sample).collect();
    format!("[{}]", list.join(", "))
}

fn record(workload: &str, pools: &[String]) -> DecisionRecord {
    let line = format!(r#"{{"workload": "{workload}", "pools": [{}]}}"#, pools.join(", "));
    decide_line(&line, Profile::Reference, 42).unwrap()
}

fn pool(name: &str, active_sessions: u32, samples: &str) -> String {
    format!(
        r#"{{"pool_id": "{name}", "node": "{name}", "path": "p0>{name}/r0/quic",
            "active_sessions": {active_sessions}, "samples": {samples}}}"#
    )
}

/// One candidate of every kind of judgement.
fn fabric() -> Vec<String> {
    vec![
        pool("clean", 2, &samples(2.0, 0.3, 0.0)),
        pool("busy", 6, &samples(2.0, 0.3, 0.0)),
        pool("jittery", 0, &samples(5.0, 9.0, 0.0)),
        pool("slow", 0, &samples(31.0, 0.5, 0.0)),
        pool("lossy", 0, &samples(39.0, 20.0, 0.2)),
        pool("full", 8, &samples(2.0, 0.3, 0.0)),
        pool("silent", 3, "[]"),
    ]
}

#[test]
fn critical_work_goes_to_the_healthy_path() {
    insta::assert_snapshot!(explain(&record("interactive", &fabric())));
}

#[test]
fn tolerant_work_spares_the_healthy_path() {
    insta::assert_snapshot!(explain(&record("batch", &fabric())));
}

#[test]
fn release_work_is_ranked_by_health() {
    insta::assert_snapshot!(explain(&record("release", &fabric())));
}

#[test]
fn a_refusal_of_everything_says_why_for_each() {
    let pools = [pool("slow", 0, &samples(31.0, 0.5, 0.0)), pool("full", 8, "[]")];
    insta::assert_snapshot!(explain(&record("release", &pools)));
}

#[test]
fn a_later_attempt_names_the_earlier_one_and_its_lease() {
    let mut record = record("interactive", &fabric());
    let id = |input| DecisionId { node: "p0".parse().unwrap(), generation: 17, input };
    record.id = id(42);
    record.node = Some("p0".parse().unwrap());
    record.request_id = Some("r-1".parse().unwrap());
    record.attempt = 2;
    (record.outcome, record.reason) = (Outcome::Admitted, Reason::Admitted);
    record.parent = Some(id(41));
    record.lease =
        Some(Lease { id: "clean.3.9".parse().unwrap(), kv_bytes: 1 << 20, extents: Vec::new(), ttl_ms: 5000 });
    let barred = record.candidates.last_mut().unwrap();
    barred.admissible = false;
    barred.code = Reason::RejectedLeaseRefused;
    barred.detail = Some("silent refused the lease: sessions".into());
    (barred.observed, barred.limit, barred.skipped_reason) = (None, None, None);
    insta::assert_snapshot!(explain(&record));
}

#[test]
fn no_line_is_wider_than_a_terminal_however_long_the_names_are() {
    let long = "n".repeat(64);
    let pools = [
        format!(r#"{{"pool_id": "a", "node": "{long}", "path": "{long}>{long}/{}/quic"}}"#, "r".repeat(32)),
        format!(r#"{{"pool_id": "b", "node": "{long}", "path": "{long}>{long}/{}/mock"}}"#, "r".repeat(32)),
    ];
    let text = explain(&record("batch", &pools));
    let unbroken: String = text.split_whitespace().collect();
    assert!(unbroken.contains(&format!("{long}/{}/quic:chosen", "r".repeat(32))), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= MAX_COLUMNS, "{line}");
    }
}
