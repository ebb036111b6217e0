mod mesh;

use proptest::prelude::*;

use super::*;
use crate::model::{PathState, builtin_workloads};
use crate::policy::select::Skipped;

fn workload(name: &str) -> Workload {
    builtin_workloads().into_iter().find(|class| class.name.as_str() == name).unwrap()
}

fn candidate(name: &str, state: PathState, gfs: f64, active_sessions: u32) -> Candidate {
    Candidate::new(
        Arc::new(Target { pool: name.parse().unwrap(), node: None, path: None }),
        PathHealth { state, gfs, sample_count: 10, ..PathHealth::UNKNOWN },
        Capacity { active_sessions, max_capacity: 8, soft_fraction: 0.75 },
    )
}

fn decide_for(class: &str, candidates: &[Candidate]) -> Decision {
    decide(&Terms::new(Profile::Reference, &Thresholds::default(), &workload(class)), candidates)
}

fn verdict(class: &str, candidate: Candidate) -> Verdict {
    decide_for(class, &[candidate]).assessments[0].verdict
}

#[test]
fn without_candidates_nothing_is_admissible() {
    let decision = decide_for("batch", &[]);
    assert_eq!(decision.choice, Choice { outcome: Outcome::NoAdmissiblePool, chosen: None });
    assert!(decision.ranking().is_empty());
}

#[test]
fn each_rule_refuses_with_the_numbers_that_it_compared() {
    use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};
    let slow = |p99_latency_ms| {
        let base = candidate("a", Healthy, 0.1, 0);
        Candidate { health: PathHealth { p99_latency_ms, ..base.health }, ..base }
    };
    let shaky = |jitter_ms| {
        let base = candidate("a", Healthy, 0.1, 0);
        Candidate { health: PathHealth { jitter_ms, ..base.health }, ..base }
    };
    let critical = Reason::RejectedCriticalityTooHighForState;
    let despite = Reason::AdmittedDespiteDegradation;
    let table = [
        ("batch", candidate("a", Healthy, 0.1, 8), Reason::RejectedCapacity, Some((8.0, 8.0))),
        ("batch", candidate("a", QuarantineCandidate, 0.7, 0), Reason::RejectedPoolState, Some((0.80, 0.55))),
        ("batch", candidate("a", Quarantined, 0.7, 0), Reason::RejectedPoolState, Some((1.0, 0.55))),
        ("interactive", slow(30.5), Reason::RejectedLatencySlaViolation, Some((30.5, 30.0))),
        ("interactive", slow(30.0), Reason::Admitted, None),
        ("interactive", shaky(3.75), Reason::RejectedJitterIntolerance, Some((3.75, 3.5))),
        ("batch", shaky(500.0), Reason::Admitted, None),
        ("interactive", candidate("a", DegradedRestricted, 0.5, 0), critical, Some((0.7, 0.50))),
        ("batch", candidate("a", DegradedRestricted, 0.5, 0), despite, Some((0.2, 0.50))),
        ("release", candidate("a", DegradedUsable, 0.2, 0), critical, Some((0.95, 0.85))),
        ("interactive", candidate("a", DegradedUsable, 0.2, 0), despite, Some((0.7, 0.85))),
        ("interactive", candidate("a", Restored, 0.1, 0), critical, Some((0.7, 0.60))),
        ("batch", candidate("a", Restored, 0.1, 0), despite, Some((0.2, 0.60))),
        ("release", candidate("a", Healthy, 0.1, 0), Reason::Admitted, None),
    ];
    for (class, candidate, code, compared) in table {
        let found = verdict(class, candidate.clone());
        assert_eq!(found.code, code, "{class} {candidate:?}");
        assert_eq!(found.observed.zip(found.limit), compared, "{class} {candidate:?}");
    }
}

#[test]
fn a_barred_candidate_is_refused_as_barred_and_is_nobodys_alternate() {
    let barred = Verdict::compared(Reason::RejectedLeaseRefused, 0.0, 1.0);
    let mut candidates =
        [candidate("a", PathState::Healthy, 0.0, 0), candidate("b", PathState::DegradedUsable, 0.3, 0)];
    let before = decide_for("interactive", &candidates);
    assert_eq!(before.choice.chosen, Some(0));
    candidates[0].barred = Some(barred);
    let after = decide_for("interactive", &candidates);
    assert_eq!(after.choice, Choice { outcome: Outcome::AdmittedDespiteDegradation, chosen: Some(1) });
    assert_eq!(after.assessments[0].verdict, barred);
    assert!(after.assessments[1].alternates.sole_route());
    assert!(after.assessments[1].prs > before.assessments[1].prs);
}

#[test]
fn each_class_ranks_by_what_counts_first_for_it() {
    let candidates = [
        candidate("healthy", PathState::Healthy, 0.05, 1),
        candidate("degraded", PathState::DegradedUsable, 0.25, 2),
        candidate("empty", PathState::DegradedUsable, 0.30, 0),
    ];
    let batch = decide_for("batch", &candidates);
    assert_eq!(batch.choice, Choice { outcome: Outcome::ReroutedToAlternate, chosen: Some(2) });
    assert_eq!(batch.ranking(), [2, 1, 0]);
    assert_eq!(decide_for("interactive", &candidates).ranking(), [0, 2, 1]);
    assert_eq!(decide_for("strict-online", &candidates).ranking(), [0, 1, 2]);
    let ranks = |decision: &Decision, index: usize| decision.assessments[index].rank.unwrap();
    assert_eq!(ranks(&batch, 0).behind(&ranks(&batch, 2)), Skipped::HealthySpared);
    assert_eq!(ranks(&batch, 1).behind(&ranks(&batch, 2)), Skipped::HigherUtilization);
}

#[test]
fn equals_are_taken_in_their_order() {
    let candidates = [candidate("a", PathState::Healthy, 0.100_01, 0), candidate("b", PathState::Healthy, 0.1, 0)];
    let decision = decide_for("release", &candidates);
    assert_eq!(decision.choice, Choice { outcome: Outcome::Admitted, chosen: Some(0) });
    let ranks: Vec<Rank> = decision.assessments.iter().filter_map(|assessment| assessment.rank).collect();
    assert_eq!(ranks[1].behind(&ranks[0]), Skipped::LaterInList);
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let state = prop::sample::select(PathState::ALL.to_vec());
    (state, 0.0..=1.0f64, 0..=9u32, 0.0..60.0f64, 0.0..8.0f64, 0..10u8).prop_map(
        |(state, gfs, active, p99_latency_ms, jitter_ms, bar)| {
            let base = candidate("a", state, gfs, active);
            let bar = (bar == 0).then(|| Verdict::compared(Reason::RejectedDraining, 1.0, 0.0));
            Candidate { health: PathHealth { p99_latency_ms, jitter_ms, ..base.health }, barred: bar, ..base }
        },
    )
}

proptest! {
    #[test]
    fn whoever_walks_down_the_ranking_barring_each_choice_meets_every_admissible_candidate_once(
        mut candidates in prop::collection::vec(any_candidate(), 0..12),
        class in prop::sample::select(vec!["batch", "interactive", "release"]),
    ) {
        let mut met = Vec::new();
        while let Some(chosen) = decide_for(class, &candidates).choice.chosen {
            prop_assert!(!met.contains(&chosen));
            met.push(chosen);
            candidates[chosen].barred = Some(Verdict::compared(Reason::RejectedLeaseRefused, 0.0, 1.0));
        }
        let unbarred = candidates.iter().enumerate().filter(|(index, _)| !met.contains(index));
        let refused = decide_for(class, &candidates);
        for (index, _) in unbarred {
            prop_assert!(!refused.assessments[index].verdict.admits());
        }
    }

    #[test]
    fn scores_stay_in_range_and_the_choice_heads_the_ranking(
        candidates in prop::collection::vec(any_candidate(), 0..12),
        class in prop::sample::select(vec!["batch", "interactive", "release"]),
    ) {
        let decision = decide_for(class, &candidates);
        prop_assert_eq!(decision.ranking().first().copied(), decision.choice.chosen);
        prop_assert_eq!(decision.choice.chosen.is_none(), decision.choice.outcome == Outcome::NoAdmissiblePool);
        prop_assert_eq!(decision.assessments.len(), candidates.len());
        for assessment in &decision.assessments {
            prop_assert!((0.0..=1.0).contains(&assessment.prs));
            prop_assert!((0.0..=10.0).contains(&assessment.fae));
            prop_assert_eq!(assessment.rank.is_some(), assessment.verdict.admits());
        }
    }
}
