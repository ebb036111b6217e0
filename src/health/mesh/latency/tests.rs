use proptest::prelude::*;

use super::*;
use crate::health::state::BAD_ABOVE;
use crate::health::window::WindowStats;
use PathState::{DegradedRestricted, DegradedUsable, Healthy, QuarantineCandidate, Quarantined, Restored};

const SEVERE: f64 = 0.7;
const HIGH: f64 = 0.5;
const MILD: f64 = 0.3;
const EDGE: f64 = 0.16;
const CLEAN: f64 = 0.1;

/// From, GFS, state after the first such window, state once such windows persist (bad or eased: 3 in
/// a row, in QUARANTINE_CANDIDATE 6 of severe ones; clean: 5 in a row, or 8 from RESTORED). The hold
/// of QUARANTINED is over.
const TABLE: [(PathState, f64, PathState, PathState); 30] = [
    (Healthy, SEVERE, DegradedRestricted, QuarantineCandidate),
    (Healthy, HIGH, DegradedUsable, DegradedRestricted),
    (Healthy, MILD, DegradedUsable, DegradedUsable),
    (Healthy, EDGE, Healthy, Healthy),
    (Healthy, CLEAN, Healthy, Healthy),
    (Restored, SEVERE, DegradedRestricted, QuarantineCandidate),
    (Restored, HIGH, DegradedUsable, DegradedRestricted),
    (Restored, MILD, DegradedUsable, DegradedUsable),
    (Restored, EDGE, Restored, Healthy),
    (Restored, CLEAN, Restored, Healthy),
    (DegradedUsable, SEVERE, DegradedRestricted, QuarantineCandidate),
    (DegradedUsable, HIGH, DegradedUsable, DegradedRestricted),
    (DegradedUsable, MILD, DegradedUsable, DegradedUsable),
    (DegradedUsable, EDGE, DegradedUsable, Restored),
    (DegradedUsable, CLEAN, DegradedUsable, Restored),
    (DegradedRestricted, SEVERE, DegradedRestricted, QuarantineCandidate),
    (DegradedRestricted, HIGH, DegradedRestricted, DegradedRestricted),
    (DegradedRestricted, MILD, DegradedRestricted, DegradedUsable),
    (DegradedRestricted, EDGE, DegradedRestricted, Restored),
    (DegradedRestricted, CLEAN, DegradedRestricted, Restored),
    (QuarantineCandidate, SEVERE, QuarantineCandidate, Quarantined),
    (QuarantineCandidate, HIGH, QuarantineCandidate, DegradedRestricted),
    (QuarantineCandidate, MILD, QuarantineCandidate, DegradedRestricted),
    (QuarantineCandidate, EDGE, QuarantineCandidate, QuarantineCandidate),
    (QuarantineCandidate, CLEAN, QuarantineCandidate, Restored),
    (Quarantined, SEVERE, Quarantined, Quarantined),
    (Quarantined, HIGH, Quarantined, Quarantined),
    (Quarantined, MILD, Quarantined, Quarantined),
    (Quarantined, EDGE, Quarantined, Quarantined),
    (Quarantined, CLEAN, Quarantined, Restored),
];

fn at(s: u64) -> Mono {
    Mono(0).plus_ms(s * 1000)
}

/// A window of this GFS, by latency alone, which outliers made so or not.
fn window(thresholds: &Thresholds, score: f64, outliers: bool) -> FreshStats {
    let alone = Thresholds { w_latency: 1.0, w_jitter: 0.0, w_drop: 0.0, ..thresholds.clone() };
    let stats =
        WindowStats { p99_latency_ms: score * alone.latency_quarantine_ms, sample_count: 10, ..WindowStats::default() };
    assert!((gfs(&alone, &stats) - score).abs() < 1e-12);
    FreshStats { stats, severe_without_worst: Band::of(score) == Band::Severe && !outliers, base_latency_ms: 0.0 }
}

fn thresholds() -> Thresholds {
    Thresholds { w_latency: 1.0, w_jitter: 0.0, w_drop: 0.0, ..Thresholds::default() }
}

#[test]
fn every_state_answers_every_band_as_the_table_says() {
    let thresholds = thresholds();
    for (from, score, first, persisting) in TABLE {
        let mut track = LatencyTrack::in_state(from);
        track.observe(&thresholds, at(1), &window(&thresholds, score, false), false);
        assert_eq!(track.state, first, "{from} at {score}, first window");

        let clean = score <= BAD_ABOVE;
        let enough = match (clean, from) {
            (false, QuarantineCandidate) if score == SEVERE => 2 * thresholds.persistence_to_escalate,
            (false, _) => thresholds.persistence_to_escalate,
            (true, Restored) => thresholds.clean_to_healthy,
            (true, _) => thresholds.clean_to_restore,
        };
        let (bad_windows, clean_windows) = if clean { (0, enough - 1) } else { (enough - 1, 0) };
        let eased_windows = enough - 1;
        let severe_windows = if score == SEVERE { bad_windows } else { 0 };
        let counts = LatencyTrack { bad_windows, severe_windows, clean_windows, ..LatencyTrack::in_state(from) };
        let mut track = LatencyTrack { eased_windows, ..counts };
        track.observe(&thresholds, at(1), &window(&thresholds, score, false), false);
        assert_eq!(track.state, persisting, "{from} at {score}, window {enough}");
    }
}

#[test]
fn outliers_alone_do_not_quarantine_a_candidate() {
    let thresholds = thresholds();
    let mut track = LatencyTrack::default();
    for s in 0..20 {
        track.observe(&thresholds, at(s), &window(&thresholds, SEVERE, true), false);
    }
    for s in 20..25 {
        track.observe(&thresholds, at(s), &window(&thresholds, SEVERE, false), false);
        assert_eq!(track.state, QuarantineCandidate, "{s}");
    }
    track.observe(&thresholds, at(25), &window(&thresholds, SEVERE, false), false);
    assert_eq!(track.state, Quarantined);
}

#[test]
fn milder_bad_windows_do_not_count_towards_a_quarantine() {
    let thresholds = thresholds();
    let mut track = LatencyTrack::default();
    for s in 0..20 {
        track.observe(&thresholds, at(s), &window(&thresholds, HIGH, false), false);
    }
    for s in 20..25 {
        track.observe(&thresholds, at(s), &window(&thresholds, SEVERE, false), false);
        assert_eq!(track.state, QuarantineCandidate, "{s}");
    }
    track.observe(&thresholds, at(25), &window(&thresholds, SEVERE, false), false);
    assert_eq!(track.state, Quarantined, "the sixth severe one in a row");
}

#[test]
fn a_transport_that_refuses_is_quarantined_at_once_from_every_state() {
    let thresholds = thresholds();
    for from in PathState::ALL {
        let mut track = LatencyTrack::in_state(*from);
        for s in 0..3 {
            track.observe(&thresholds, at(s), &window(&thresholds, CLEAN, false), true);
        }
        assert_eq!(track.state, Quarantined, "{from}");
    }
}

#[test]
fn nothing_ends_a_quarantine_before_its_hold_and_what_is_bad_then_begins_it_anew() {
    let thresholds = thresholds();
    let refused = |track: &mut LatencyTrack| {
        for _ in 0..3 {
            track.observe(&thresholds, at(0), &window(&thresholds, SEVERE, false), true);
        }
    };
    let mut track = LatencyTrack::default();
    refused(&mut track);
    assert_eq!(track.hold_until, at(10));
    for s in 1..10 {
        track.observe(&thresholds, at(s), &window(&thresholds, CLEAN, false), false);
        assert_eq!(track.state, Quarantined, "after {s} clean windows");
    }
    track.observe(&thresholds, at(10), &window(&thresholds, CLEAN, false), false);
    assert_eq!(track.state, Restored);

    let mut track = LatencyTrack::default();
    refused(&mut track);
    track.observe(&thresholds, at(9), &window(&thresholds, SEVERE, false), false);
    assert_eq!(track.hold_until, at(10), "bad samples do not extend it");
    track.observe(&thresholds, at(10), &window(&thresholds, SEVERE, false), false);
    assert_eq!((track.state, track.hold_until, track.flaps.count()), (Quarantined, at(20), 1));
}

proptest! {
    #[test]
    fn no_sequence_skips_a_stage(
        scores in prop::collection::vec((0.0..=1.0f64, prop::bool::ANY, prop::bool::weighted(0.1)), 1..300),
        persistence_to_escalate in 1u32..5,
        clean_to_restore in 1u32..6,
        clean_to_healthy in 1u32..9,
    ) {
        let thresholds =
            Thresholds { persistence_to_escalate, clean_to_restore, clean_to_healthy, ..thresholds() };
        let mut track = LatencyTrack::default();
        for (turn, (score, outliers, failed)) in scores.into_iter().enumerate() {
            let (before, now) = (track, at(turn as u64));
            track.observe(&thresholds, now, &window(&thresholds, score, outliers), failed);
            prop_assert!((track.bad_windows == 0) != (track.clean_windows == 0));
            match (before.state, track.state) {
                (Quarantined, Quarantined) => {}
                (Quarantined, to) => {
                    prop_assert_eq!(to, Restored);
                    prop_assert!(now >= before.hold_until && score <= BAD_ABOVE);
                    prop_assert!(track.clean_windows >= track.flaps.slowed(clean_to_restore));
                }
                (from, Quarantined) => {
                    let refused = track.failures >= persistence_to_escalate;
                    prop_assert!(refused || from == QuarantineCandidate);
                    prop_assert!(refused || !outliers);
                    prop_assert_eq!(track.hold_until, now.plus_ms(track.hold_ms));
                }
                (QuarantineCandidate, to) => {
                    prop_assert!(matches!(to, QuarantineCandidate | DegradedRestricted | Restored), "{}", to);
                }
                (from, Healthy) if from != Healthy => {
                    prop_assert_eq!(from, Restored);
                    prop_assert!(track.clean_windows >= clean_to_healthy);
                }
                (_, Restored) if before.state != Restored => prop_assert!(score <= BAD_ABOVE),
                _ => {}
            }
        }
    }
}
