//! Each rule of the mesh profile, by a decision that it alone changes.

use proptest::prelude::*;

use super::super::*;
use super::workload;
use crate::model::PathState;
use crate::policy::select::Skipped;

use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};

fn critical(criticality: f64) -> Workload {
    Workload { criticality, ..workload("batch") }
}

fn candidate(name: &str, state: PathState, gfs: f64, active_sessions: u32) -> Candidate {
    let target = Target { pool: "pool".parse().unwrap(), node: Some(name.parse().unwrap()), path: None };
    let health = PathHealth { state, gfs, sample_count: 10, ..PathHealth::UNKNOWN };
    let capacity = Capacity { active_sessions, max_capacity: 8, soft_fraction: 0.75 };
    Candidate { health_age_ms: Some(100), ..Candidate::new(Arc::new(target), health, capacity) }
}

fn mesh() -> Thresholds {
    Thresholds::of(Profile::Mesh)
}

fn decide_as(profile: Profile, workload: &Workload, candidates: &[Candidate]) -> Decision {
    decide(&Terms::new(profile, &Thresholds::of(profile), workload), candidates)
}

fn in_mesh(class: &str, candidates: &[Candidate]) -> Decision {
    decide_as(Profile::Mesh, &workload(class), candidates)
}

fn verdict(class: &str, candidates: &[Candidate]) -> (Reason, Option<f64>, Option<f64>) {
    let Verdict { code, observed, limit } = in_mesh(class, candidates).assessments[0].verdict;
    (code, observed, limit)
}

fn samples(base: Candidate, sample_count: u32) -> Candidate {
    Candidate { health: PathHealth { sample_count, ..base.health }, ..base }
}

fn aged(base: Candidate, age_ms: u64) -> Candidate {
    Candidate { health_age_ms: Some(age_ms), ..base }
}

#[test]
fn a_path_with_too_few_fresh_samples_is_unproven_never_healthy() {
    let proven = candidate("b", Healthy, 0.0, 0);
    let fresh = samples(candidate("a", Healthy, 0.0, 0), 2);
    assert_eq!(verdict("release", &[fresh.clone(), proven.clone()]), (Reason::RejectedUnproven, Some(2.0), Some(3.0)));
    let found = verdict("batch", &[fresh.clone(), proven.clone()]);
    assert_eq!(found.0, Reason::RejectedUnproven, "while another path is known");
    assert_eq!(verdict("release", &[samples(fresh, 3), proven]).0, Reason::Admitted);
}

#[test]
fn a_path_whose_telemetry_went_silent_is_stale() {
    let known = candidate("b", Healthy, 0.0, 0);
    let at = |age| aged(candidate("a", Healthy, 0.0, 0), age);
    let stale = (Reason::RejectedStale, Some(5_001.0), Some(5_000.0));
    assert_eq!(verdict("batch", &[at(5_001), known.clone()]), stale);
    assert_eq!(verdict("batch", &[at(5_000), known]).0, Reason::Admitted);
}

#[test]
fn a_total_blackout_does_not_stop_tolerant_traffic() {
    let dark = [aged(candidate("a", Healthy, 0.0, 0), 60_000), samples(candidate("b", Healthy, 0.0, 0), 0)];
    let batch = in_mesh("batch", &dark);
    assert!(batch.choice.chosen.is_some());
    assert_eq!(batch.choice.outcome, Outcome::AdmittedDespiteDegradation);
    let despite = (Reason::AdmittedDespiteDegradation, Some(0.2), Some(0.5));
    assert_eq!(verdict("batch", &dark), despite);
    let interactive = in_mesh("interactive", &dark);
    assert_eq!(interactive.choice.outcome, Outcome::NoAdmissiblePool);
    let codes: Vec<Reason> = interactive.assessments.iter().map(|found| found.verdict.code).collect();
    assert_eq!(codes, [Reason::RejectedStale, Reason::RejectedUnproven]);
    // What was known to be bad before the lights went out stays refused.
    let bad = [aged(candidate("a", Quarantined, 0.9, 0), 60_000), aged(candidate("b", Healthy, 0.0, 0), 60_000)];
    assert_eq!(in_mesh("batch", &bad).choice.chosen, Some(1));
}

#[test]
fn strict_work_ranks_by_health_first_from_070_on() {
    let candidates = [candidate("healthy", Healthy, 0.0, 6), candidate("degraded", DegradedUsable, 0.2, 0)];
    let at = |profile, criticality| decide_as(profile, &critical(criticality), &candidates).choice.chosen;
    assert_eq!(at(Profile::Mesh, 0.70), Some(0));
    assert_eq!(at(Profile::Mesh, 0.69), Some(1), "balanced work avoids the soft saturated");
    assert_eq!(at(Profile::Reference, 0.70), Some(1));
}

#[test]
fn the_prs_threshold_alone_changes_a_decision() {
    let sole = [candidate("a", DegradedRestricted, 0.5, 0)];
    let found = decide_as(Profile::Mesh, &critical(0.5), &sole);
    let Verdict { code, observed, limit } = found.assessments[0].verdict;
    assert_eq!((code, observed.map(round4), limit), (Reason::RejectedPrsTooHigh, Some(0.275), Some(0.25)));
    assert_eq!(decide_as(Profile::Reference, &critical(0.5), &sole).choice.chosen, Some(0));
    let looser = Thresholds { prs_reject_threshold: 0.3, ..mesh() };
    assert_eq!(decide(&Terms::new(Profile::Mesh, &looser, &critical(0.5)), &sole).choice.chosen, Some(0));
}

#[test]
fn alternates_count_only_in_another_risk_group() {
    let grouped = |name: &str, group: &str| Candidate {
        risk_group: Some(group.parse().unwrap()),
        ..candidate(name, DegradedUsable, 0.2, 0)
    };
    let available = |candidates: &[Candidate]| -> Vec<u32> {
        in_mesh("batch", candidates).assessments.iter().map(|found| found.alternates.available).collect()
    };
    let same_rack = [grouped("a", "rack-1"), grouped("b", "rack-1"), grouped("c", "rack-2")];
    assert_eq!(available(&same_rack), [1, 1, 2]);
    let sole = in_mesh("batch", &same_rack[..2]);
    assert!(sole.assessments[0].alternates.sole_route(), "what fails together is no way out");
    // Without a group a host fails alone, and all its paths with it.
    let rails = [candidate("a", Healthy, 0.0, 0), candidate("a", Healthy, 0.0, 0), candidate("b", Healthy, 0.0, 0)];
    assert_eq!(available(&rails), [1, 1, 2]);
    let reference = decide_as(Profile::Reference, &workload("batch"), &same_rack);
    assert_eq!(reference.assessments[0].alternates.available, 2);
}

#[test]
fn collapsed_bandwidth_is_named_where_it_alone_makes_the_state() {
    let at = |ratio, state| {
        let base = candidate("a", state, 0.05, 0);
        let slow = Candidate { health: PathHealth { bandwidth_ratio: Some(ratio), ..base.health }, ..base };
        [slow, candidate("b", Healthy, 0.0, 0)]
    };
    let named = |observed, limit| (Reason::RejectedBandwidth, Some(observed), Some(limit));
    assert_eq!(verdict("interactive", &at(0.3, DegradedRestricted)), named(0.3, 0.4));
    assert_eq!(verdict("batch", &at(0.1, QuarantineCandidate)), named(0.1, 0.15));
    assert_eq!(verdict("release", &at(0.5, DegradedUsable)), named(0.5, 0.6));
    assert_eq!(verdict("batch", &at(0.3, DegradedRestricted)).0, Reason::AdmittedDespiteDegradation);
    // Worse than its bandwidth explains: the state itself is the reason.
    assert_eq!(verdict("batch", &at(0.5, Quarantined)).0, Reason::RejectedPoolState);
}

#[test]
fn a_slow_decode_host_ranks_behind_its_pool() {
    let slow = |name: &str, ratio| Candidate { token_time_ratio: Some(ratio), ..candidate(name, Healthy, 0.0, 0) };
    let candidates = [slow("slow", 2.5), slow("usual", 1.1), slow("stuck", 4.0)];
    for class in ["batch", "interactive", "release"] {
        assert_eq!(in_mesh(class, &candidates).ranking(), [1, 0, 2], "{class}");
    }
    let ranks: Vec<Rank> = in_mesh("release", &candidates).assessments.iter().filter_map(|found| found.rank).collect();
    assert_eq!(ranks[0].behind(&ranks[1]), Skipped::SlowerTokens);
}

#[test]
fn session_load_ranks_in_bands_and_below_three_quarters_only_for_work_that_spares_headroom() {
    let open = |name: &str, active| {
        let base = candidate(name, Healthy, 0.0, active);
        Candidate { capacity: Capacity { soft_fraction: 1.0, ..base.capacity }, ..base }
    };
    let of =
        |class, candidate: &Candidate| in_mesh(class, std::slice::from_ref(candidate)).assessments[0].rank.unwrap();
    for class in ["interactive", "release"] {
        let (empty, half, full) = (of(class, &open("a", 0)), of(class, &open("a", 5)), of(class, &open("a", 7)));
        assert!(empty.ties_with(&half), "{class}");
        assert_eq!(full.behind(&empty), Skipped::HigherUtilization, "{class}");
    }
    let (empty, half) = (of("batch", &open("a", 0)), of("batch", &open("a", 4)));
    assert_eq!(half.behind(&empty), Skipped::HigherUtilization, "work that spares headroom sees every band");
    let near = |gfs| of("batch", &candidate("a", DegradedUsable, gfs, 0));
    assert!(near(0.21).ties_with(&near(0.24)));
    assert_eq!(near(0.26).behind(&near(0.24)), Skipped::HigherGfs);
}

#[test]
fn among_equals_each_request_takes_its_own_so_that_many_do_not_herd() {
    let candidates: Vec<Candidate> = (0..8).map(|at| candidate(&format!("d{at}"), Healthy, 0.0, at % 5)).collect();
    let mut taken = [0_u32; 8];
    let (thresholds, class) = (mesh(), workload("interactive"));
    for tie in 0..800_u64 {
        let terms = Terms { tie: tie.wrapping_mul(0x9e37_79b9), ..Terms::new(Profile::Mesh, &thresholds, &class) };
        let decision = decide(&terms, &candidates);
        assert_eq!(decision.choice.outcome, Outcome::Admitted, "an equal is no alternate");
        taken[decision.choice.chosen.unwrap()] += 1;
    }
    assert!(taken.iter().all(|&times| (60..145).contains(&times)), "{taken:?}");
}

#[test]
fn a_prediction_beyond_the_transfer_budget_is_refused() {
    let at = |predicted| [Candidate { predicted_ms: Some(predicted), ..candidate("a", Healthy, 0.0, 0) }];
    let (thresholds, class) = (mesh(), workload("batch"));
    let terms = Terms { transfer_budget_ms: Some(50.0), ..Terms::new(Profile::Mesh, &thresholds, &class) };
    let Verdict { code, observed, limit } = decide(&terms, &at(50.5)).assessments[0].verdict;
    assert_eq!((code, observed, limit), (Reason::RejectedTransferBudget, Some(50.5), Some(50.0)));
    assert_eq!(decide(&terms, &at(50.0)).choice.chosen, Some(0));
    let reference = Terms { profile: Profile::Reference, ..terms };
    assert_eq!(decide(&reference, &at(50.5)).choice.chosen, Some(0));
}

#[test]
fn the_least_bad_is_taken_where_a_class_asks_for_it_or_is_only_advised() {
    let bad = [candidate("a", QuarantineCandidate, 0.8, 0), candidate("b", DegradedRestricted, 0.5, 0)];
    let strict = workload("release");
    assert_eq!(decide_as(Profile::Mesh, &strict, &bad).choice.outcome, Outcome::NoAdmissiblePool);
    let willing = [
        Workload { on_no_admissible: OnNoAdmissible::LeastBad, ..strict.clone() },
        Workload { mode: Mode::Advise, ..strict.clone() },
    ];
    for class in &willing {
        let decision = decide_as(Profile::Mesh, class, &bad);
        assert_eq!(decision.choice, Choice { outcome: Outcome::AdmittedLeastBad, chosen: Some(1) });
        assert_eq!(decision.assessments[1].verdict.code, Reason::AdmittedLeastBad);
        let reference = decide_as(Profile::Reference, class, &bad);
        assert_eq!(reference.choice.outcome, Outcome::NoAdmissiblePool, "the reference knows no such answer");
    }
    let full = [candidate("a", Healthy, 0.0, 8)];
    assert_eq!(decide_as(Profile::Mesh, &willing[0], &full).choice.chosen, None, "what is full stays full");
    let hung = candidate("a", QuarantineCandidate, 0.8, 0);
    let hung = [Candidate { health: PathHealth { failed_bytes: 1, ..hung.health }, ..hung }];
    assert_eq!(decide_as(Profile::Mesh, &willing[0], &hung).choice.chosen, None, "left to its canaries");
}

#[test]
fn beyond_the_excluded_share_of_a_pool_candidates_are_ranked_not_refused() {
    let (thresholds, class) = (mesh(), workload("release"));
    let with = |share| Terms { max_excluded_fraction: share, ..Terms::new(Profile::Mesh, &thresholds, &class) };
    let pool = [
        candidate("a", Quarantined, 0.9, 0),
        candidate("b", QuarantineCandidate, 0.7, 0),
        candidate("c", QuarantineCandidate, 0.8, 0),
        candidate("d", Quarantined, 0.95, 0),
    ];
    let decision = decide(&with(0.5), &pool);
    assert_eq!(decision.choice, Choice { outcome: Outcome::AdmittedLeastBad, chosen: Some(1) });
    let codes: Vec<Reason> = decision.assessments.iter().map(|found| found.verdict.code).collect();
    let (back, out) = (Reason::AdmittedLeastBad, Reason::RejectedPoolState);
    assert_eq!(codes, [out, back, back, out]);
    assert_eq!(decide(&with(1.0), &pool).choice.outcome, Outcome::NoAdmissiblePool);
    assert_eq!(decide(&with(0.5), &pool[..1]).choice.outcome, Outcome::NoAdmissiblePool, "one may always be out");
    // What is taken back ranks behind whatever was not refused, for every class and from every pool.
    let spared = [pool[0].clone(), pool[1].clone(), pool[2].clone(), candidate("e", Healthy, 0.0, 6)];
    let other = Target { pool: "other".parse().unwrap(), node: Some("f".parse().unwrap()), path: None };
    let elsewhere = [
        pool[1].clone(),
        pool[2].clone(),
        Candidate { target: Arc::new(other), ..candidate("f", DegradedRestricted, 0.5, 7) },
    ];
    for class in ["batch", "interactive", "release"] {
        let class = workload(class);
        let terms = Terms { workload: &class, ..with(0.5) };
        let decision = decide(&terms, &spared);
        assert_eq!(decision.choice, Choice { outcome: Outcome::Admitted, chosen: Some(3) }, "{}", class.name);
        let ranks: Vec<Rank> = decision.assessments.iter().filter_map(|found| found.rank).collect();
        assert_eq!(ranks[0].behind(&ranks[1]), Skipped::LastResort);
    }
    let batch = workload("batch");
    let decision = decide(&Terms { workload: &batch, ..with(0.5) }, &elsewhere);
    assert_eq!(decision.choice.chosen, Some(2), "degraded, and not refused");
    let mut overridden = pool.clone();
    overridden.iter_mut().for_each(|candidate| candidate.overridden = true);
    assert_eq!(decide(&with(0.5), &overridden).choice.chosen, None, "an operator's word stands");
}

#[test]
fn an_operators_word_is_the_state_and_needs_no_samples() {
    let said = |state| [Candidate { overridden: true, ..samples(candidate("a", state, 0.0, 0), 0) }];
    assert_eq!(verdict("release", &said(Healthy)).0, Reason::Admitted);
    assert_eq!(verdict("batch", &said(Quarantined)), (Reason::RejectedOverride, Some(1.0), Some(0.55)));
    assert_eq!(verdict("release", &said(Restored)), (Reason::RejectedOverride, Some(0.95), Some(0.6)));
}

proptest! {
    #[test]
    fn no_choice_is_refused_full_or_barred_and_the_choice_heads_the_ranking(
        drawn in prop::collection::vec(
            (prop::sample::select(PathState::ALL.to_vec()), 0.0..=1.0f64, 0..=8u32, 0..12u32, 0..10_000u64, 0..6u8),
            0..12,
        ),
        class in prop::sample::select(vec!["batch", "interactive", "release"]),
        share in 0.0..=1.0f64,
        least_bad in any::<bool>(),
    ) {
        let build = |(at, (state, gfs, active, count, age, bar)): (usize, (PathState, f64, u32, u32, u64, u8))| {
            let base = aged(samples(candidate(&format!("d{at}"), state, gfs, active), count), age);
            let barred = (bar == 0).then(|| Verdict::compared(Reason::RejectedDraining, 1.0, 0.0));
            Candidate { barred, ..base }
        };
        let candidates: Vec<Candidate> = drawn.into_iter().enumerate().map(build).collect();
        let on_no_admissible = if least_bad { OnNoAdmissible::LeastBad } else { OnNoAdmissible::Refuse };
        let class = Workload { on_no_admissible, ..workload(class) };
        let thresholds = mesh();
        let terms = Terms { max_excluded_fraction: share, ..Terms::new(Profile::Mesh, &thresholds, &class) };
        let decision = decide(&terms, &candidates);
        prop_assert_eq!(decision.ranking().first().copied(), decision.choice.chosen);
        for assessment in &decision.assessments {
            prop_assert_eq!(assessment.rank.is_some(), assessment.verdict.admits());
        }
        if let Some(chosen) = decision.choice.chosen {
            prop_assert!(candidates[chosen].barred.is_none());
            prop_assert!(!candidates[chosen].capacity.hard_saturated());
        }
    }
}
