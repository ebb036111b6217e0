use std::collections::BTreeMap;

use super::*;
use crate::demo::report::{AgentReport, Interesting, OtherPath, Transfers};

fn report() -> Report {
    let state = |at_ms, state: &str| StateAt { at_ms, state: state.into() };
    let class = |requests, outcomes: &[(&str, u64)], placement: Share| ClassReport {
        requests,
        decisions: outcomes.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        strict_on_healthy_pct: None,
        tolerant_on_degraded_pct: None,
        placement,
        ok: requests - 1,
        verified: requests - 1,
        p50_ms: Some(7.25),
        p99_ms: Some(103.0),
    };
    let side = |batch, release| -> BTreeMap<String, Share> {
        [("batch".to_owned(), batch), ("release".to_owned(), release)].into()
    };
    Report {
        requests: 300,
        decisions: [
            ("admitted".to_owned(), 250),
            ("admitted_despite_degradation".to_owned(), 48),
            ("no_admissible_pool".to_owned(), 2),
        ]
        .into(),
        refusals: [("rejected_capacity".to_owned(), 5), ("rejected_latency_sla_violation".to_owned(), 1)].into(),
        transfers: Transfers { ok: 298, failed: 0, verified: 298, bytes: 250_000_000 },
        classes: [
            (
                "batch".to_owned(),
                class(
                    200,
                    &[("admitted", 151), ("admitted_despite_degradation", 48), ("no_admissible_pool", 1)],
                    Share { count: 48, of: 50 },
                ),
            ),
            (
                "release".to_owned(),
                class(100, &[("admitted", 99), ("no_admissible_pool", 1)], Share { count: 99, of: 99 }),
            ),
        ]
        .into(),
        gray_path: Some("p0>d0/r0/mock".into()),
        gray: Some(GrayReport {
            at_ms: 1_650.0,
            detected_after_ms: Some(310.0),
            cleared_at_ms: Some(4_200.0),
            healthy_after_ms: Some(2_100.0),
            timeline: (0..14)
                .map(|step| state(f64::from(step) * 500.0, if step % 2 == 0 { "healthy" } else { "degraded_usable" }))
                .collect(),
            before: side(Share { count: 20, of: 50 }, Share { count: 9, of: 25 }),
            after: side(Share { count: 48, of: 50 }, Share { count: 0, of: 24 }),
        }),
        other_paths: vec![OtherPath {
            path: "p1>d2/r0/mock".into(),
            timeline: vec![state(-3.0, "healthy"), state(900.0, "degraded_usable")],
        }],
        agents: vec![
            AgentReport { name: "p0".into(), api: "http://127.0.0.1:4001".into() },
            AgentReport { name: "d0".into(), api: "http://127.0.0.1:4002".into() },
        ],
        scale: ScaleReport {
            source: "mooncake_conversation.jsonl.gz (Mooncake)".into(),
            model: "llama-3.1-8b".into(),
            shrink: 3_790.5,
            largest_true_bytes: 121_298 * 131_072,
            speedup: 50.0,
            max_sessions: 32,
            mean_sessions: 19.04,
        },
        stream_ms: 4_321.0,
        errors: vec!["d1: the arena has no room".into()],
        interesting: Some(Interesting {
            decision: "p0.17.301".into(),
            api: "http://127.0.0.1:4001".into(),
            why: "a strict request that kept away from a degraded path".into(),
        }),
        ..Report::default()
    }
}

#[test]
fn the_report_reads_as_before() {
    insta::assert_snapshot!(report().to_text(false, true, None));
}

#[test]
fn a_fault_that_was_not_seen_is_not_waited_for_in_words() {
    let mut unseen = report();
    unseen.gray = unseen.gray.map(|gray| GrayReport { detected_after_ms: None, healthy_after_ms: None, ..gray });
    let text = unseen.to_text(false, false, None);
    assert!(text.contains("  NOT SEEN by its source: a host that is itself late"), "{text}");
    assert!(text.contains("\n  cleared at 4.20 s\n"), "{text}");
}

#[test]
fn no_line_is_wider_than_a_hundred_columns_and_colour_is_asked_for() {
    let plain = report().to_text(false, true, None);
    assert!(!plain.contains('\u{1b}'));
    for line in plain.lines() {
        assert!(line.chars().count() <= WIDTH, "{line:?}");
    }
    assert!(report().to_text(true, true, None).contains("\u{1b}[32m298 transfers"));
    let bad = Report { over_commits: 1, ..report() };
    assert!(bad.to_text(true, false, None).contains("\u{1b}[1;31m1 over-commits"));
    assert!(bad.to_text(false, false, None).contains("\nNext: seamctl demo --keep leaves the agents running"));
}

#[test]
fn journals_that_were_kept_are_named_with_what_reads_them() {
    let ended = report().to_text(false, false, Some("'last night'"));
    let closing = "\nThe journal of every host is in 'last night'\nNext: seamctl replay 'last night'\n      \
                   seamctl timeline 'last night' --out incident.svg\n";
    assert!(ended.ends_with(closing), "{ended}");
    let kept = report().to_text(false, true, Some("j"));
    assert!(
        kept.contains("\nThe journal of every host is in j\n") && kept.ends_with("\n  seamctl replay j\n"),
        "{kept}"
    );
}

#[test]
fn json_has_the_keys_that_checks_rely_on() {
    let json = serde_json::to_value(report()).unwrap();
    for key in ["requests", "decisions", "transfers", "over_commits", "classes", "gray_path", "agents"] {
        assert!(!json[key].is_null(), "{key}");
    }
    for key in ["ok", "failed", "verified", "bytes"] {
        assert!(json["transfers"][key].is_u64(), "{key}");
    }
    let class = json["classes"]["release"].as_object().unwrap();
    for key in ["decisions", "strict_on_healthy_pct", "tolerant_on_degraded_pct", "p99_ms"] {
        assert!(class.contains_key(key), "{key}");
    }
    assert_eq!(json["agents"][0], serde_json::json!({"name": "p0", "api": "http://127.0.0.1:4001"}));
}
