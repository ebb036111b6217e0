use super::*;

fn path(text: &str) -> PathId {
    text.parse().unwrap()
}

fn observation(class: Class, at_ms: f64, chosen: Option<(&str, PathState)>, degraded: bool) -> Observation {
    let outcome = match chosen {
        None => Outcome::NoAdmissiblePool,
        Some((_, PathState::Healthy)) => Outcome::Admitted,
        Some(_) => Outcome::AdmittedDespiteDegradation,
    };
    Observation {
        class,
        routed: Some(Routed {
            decision: format!("p0.1.{at_ms}"),
            at_ms,
            outcome,
            chosen: chosen.map(|(text, state)| (path(text), state)),
            degraded_candidate: degraded,
            source: "p0".into(),
            refusals: match chosen {
                None => vec![Reason::RejectedCapacity, Reason::RejectedLatencySlaViolation],
                Some(_) => Vec::new(),
            },
        }),
        moved: chosen.map(|_| Moved { delivered: true, verified: true, bytes: 100, elapsed_ms: at_ms }),
        error: None,
    }
}

fn fault() -> Fault {
    Fault { path: path("p0>d0/r0/mock"), on_ms: 100.0, off_ms: Some(500.0) }
}

fn seen(text: &str, at_ms: f64, state: PathState) -> Seen {
    Seen { path: path(text), at_ms, state }
}

const GRAY: &str = "p0>d0/r0/mock";
const CLEAN: &str = "p0>d1/r0/mock";

#[test]
fn strict_placement_is_counted_over_what_was_placed() {
    let observations = [
        observation(Class::Release, 1.0, Some((CLEAN, PathState::Healthy)), false),
        observation(Class::Release, 2.0, Some((GRAY, PathState::Restored)), true),
        observation(Class::Release, 3.0, None, true),
    ];
    let report = summarise(&observations, &[], None);
    let release = &report.classes["release"];
    assert_eq!(release.placement, Share { count: 1, of: 2 });
    assert_eq!((release.strict_on_healthy_pct, release.tolerant_on_degraded_pct), (Some(50.0), None));
    assert_eq!(report.decisions["no_admissible_pool"], 1);
    assert_eq!(report.refusals["rejected_capacity"], 1);
    assert_eq!(report.decisions.values().sum::<u64>(), report.requests);
    assert!(!report.classes.contains_key("batch"));
}

#[test]
fn tolerant_placement_is_counted_only_where_there_was_a_degraded_candidate() {
    let observations = [
        observation(Class::Batch, 1.0, Some((CLEAN, PathState::Healthy)), false),
        observation(Class::Batch, 2.0, Some((GRAY, PathState::DegradedUsable)), true),
        observation(Class::Batch, 3.0, Some((GRAY, PathState::DegradedRestricted)), true),
        observation(Class::Batch, 4.0, Some((CLEAN, PathState::Healthy)), true),
    ];
    let batch = &summarise(&observations, &[], None).classes["batch"];
    assert_eq!(batch.placement, Share { count: 2, of: 3 });
    assert_eq!(batch.strict_on_healthy_pct, None);
}

#[test]
fn transfers_and_failures_add_up() {
    let mut failed = observation(Class::Batch, 5.0, Some((CLEAN, PathState::Healthy)), false);
    failed.moved = Some(Moved { delivered: false, verified: false, bytes: 0, elapsed_ms: 1.0 });
    let mut unverified = observation(Class::Batch, 5.0, Some((CLEAN, PathState::Healthy)), false);
    unverified.moved = Some(Moved { delivered: true, verified: false, bytes: 7, elapsed_ms: 1.0 });
    let silent = Observation { class: Class::Batch, routed: None, moved: None, error: Some("503 from p0".into()) };
    let good = observation(Class::Batch, 3.0, Some((CLEAN, PathState::Healthy)), false);
    let report = summarise(&[failed, unverified, silent, good.clone()], &[], None);
    assert_eq!(report.transfers, Transfers { ok: 2, failed: 1, verified: 1, bytes: 107 });
    assert_eq!(report.decisions["no_answer"], 1);
    assert_eq!(report.errors, ["503 from p0"]);
    assert_eq!(report.classes["batch"].p99_ms, Some(1.0 + 2.0 * 0.99));
    assert!(!report.passed());
    assert!(summarise(std::slice::from_ref(&good), &[], None).passed());
}

#[test]
fn the_gray_path_is_split_at_the_moment_its_source_saw_it() {
    let observations = [
        observation(Class::Release, 50.0, Some((GRAY, PathState::Healthy)), false),
        observation(Class::Release, 120.0, Some((GRAY, PathState::Healthy)), false),
        observation(Class::Release, 200.0, Some((CLEAN, PathState::Healthy)), true),
        observation(Class::Batch, 200.0, Some((GRAY, PathState::DegradedUsable)), true),
    ];
    let seen = [
        seen(GRAY, -5.0, PathState::Healthy),
        seen(GRAY, 150.0, PathState::DegradedUsable),
        seen(GRAY, 700.0, PathState::Restored),
        seen(GRAY, 900.0, PathState::Healthy),
    ];
    let gray = summarise(&observations, &seen, Some(&fault())).gray.unwrap();
    assert_eq!(gray.detected_after_ms, Some(50.0));
    assert_eq!(gray.healthy_after_ms, Some(400.0));
    assert_eq!(gray.before["release"], Share { count: 2, of: 2 });
    assert_eq!(gray.after["release"], Share { count: 0, of: 1 });
    assert_eq!(gray.after["batch"], Share { count: 1, of: 1 });
    assert_eq!(gray.timeline.len(), 4);
}

#[test]
fn a_fault_that_nobody_saw_is_not_said_to_be_seen() {
    let seen = [seen(GRAY, 0.0, PathState::Healthy)];
    let gray = summarise(&[], &seen, Some(&fault())).gray.unwrap();
    assert_eq!((gray.detected_after_ms, gray.healthy_after_ms), (None, None));
}

#[test]
fn other_paths_are_listed_only_if_they_left_healthy() {
    let seen = [
        seen(GRAY, 150.0, PathState::DegradedUsable),
        seen(CLEAN, 0.0, PathState::Healthy),
        seen("p1>d0/r0/mock", 0.0, PathState::Healthy),
        seen("p1>d0/r0/mock", 300.0, PathState::DegradedUsable),
    ];
    let others = summarise(&[], &seen, Some(&fault())).other_paths;
    assert_eq!(others.iter().map(|other| other.path.as_str()).collect::<Vec<_>>(), ["p1>d0/r0/mock"]);
}

#[test]
fn the_interesting_decision_is_a_strict_one_that_kept_away() {
    let plain = observation(Class::Release, 1.0, Some((CLEAN, PathState::Healthy)), false);
    let bore = observation(Class::Batch, 2.0, Some((GRAY, PathState::DegradedUsable)), true);
    let kept = observation(Class::Interactive, 3.0, Some((CLEAN, PathState::Healthy)), true);
    let id = |observations: &[Observation]| {
        interesting(observations, Some(&fault())).map(|(routed, _)| routed.decision.clone())
    };
    assert_eq!(id(&[plain.clone(), bore.clone(), kept]).as_deref(), Some("p0.1.3"));
    assert_eq!(id(&[plain.clone(), bore]).as_deref(), Some("p0.1.2"));
    assert_eq!(id(&[plain]).as_deref(), Some("p0.1.1"));
    assert_eq!(id(&[]), None);
}
