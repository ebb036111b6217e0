//! Transfers that fail while small probes succeed.

use super::*;

/// Probes each second until `to_s`, answering each canary as `answer` says, after its deadline.
fn run(bench: &mut Bench, to_s: u64, works: bool) {
    let mut answered = bench.canaries.len();
    for s in bench.ms() / 1000 + 1..=to_s {
        bench.until(s * 1000);
        bench.sample(probe(0, 0.3));
        for (at, canary) in bench.canaries.clone().into_iter().skip(answered) {
            bench.until(at + canary.deadline_ms);
            let elapsed_ms = if works { 8.0 } else { canary.deadline_ms as f64 };
            let sample = if works { moved } else { stuck }(0, SampleKind::Bulk, canary.bytes, elapsed_ms);
            bench.sample(sample);
        }
        answered = bench.canaries.len();
    }
}

#[test]
fn a_path_on_which_transfers_hang_gets_one_canary_a_hold_and_ever_longer_holds() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    run(&mut bench, 10, true);
    bench.sample(stuck(0, SampleKind::Transfer, 512 * MIB, 5000.0));
    let health = bench.health(&path(0));
    assert_eq!((health.state, health.failed_bytes), (PathState::Quarantined, 512 * MIB));

    run(&mut bench, 2000, false);
    assert_eq!(bench.states(0), [PathState::Quarantined], "no small probe rehabilitates it");
    let starts: Vec<u64> = bench.canaries.iter().map(|(ms, _)| *ms).collect();
    let pauses: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) / 1000).collect();
    // A hold begins when the canary has missed its deadline, up to a second later here.
    let expected = [20, 40, 80, 160, 320, 600];
    for (pause, hold) in pauses.iter().zip(expected) {
        assert!((hold..=hold + 2).contains(pause), "{pauses:?}");
    }
    assert!(pauses.len() >= expected.len(), "{pauses:?}");
    for (_, canary) in &bench.canaries {
        assert_eq!((canary.bytes, canary.deadline_ms), (8 * MIB, 250), "short, whatever the transfer's was");
    }

    bench.transitions.clear();
    let before = bench.canaries.len();
    run(&mut bench, 3000, true);
    assert_eq!(bench.canaries.len(), before + 1);
    assert_eq!(bench.states(0), [PathState::Restored, PathState::Healthy]);
    assert_eq!(bench.health(&path(0)).failed_bytes, 0);
}

/// A report of a transfer that ended at `ended_ms`.
fn ended(ended_ms: u64, sample: Sample) -> Sample {
    Sample { taken: Some(Mono(0).plus_ms(ended_ms)), ..sample }
}

#[test]
fn a_failed_transfer_that_an_engine_reports_late_marks_the_path_though_probes_came_between() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for half_s in 0..24 {
        bench.until(half_s * 500);
        bench.sample(probe(0, 0.3));
    }
    assert_eq!(bench.ms(), 11_500);
    bench.sample(ended(10_000, stuck(0, SampleKind::Reported, 64 * MIB, 5000.0)));
    let health = bench.health(&path(0));
    assert_eq!((health.state, health.failed_bytes), (PathState::Quarantined, 64 * MIB));
    assert_eq!(bench.discarded, []);
    assert_eq!(bench.newest.as_ref().unwrap().age_ms, 0, "the probe's age, not the report's");
    assert_eq!(bench.core.deadline(), Some(Mono(0).plus_ms(20_000)), "the hold runs from when it failed");
}

#[test]
fn late_words_on_transfers_count_each_by_the_order_of_its_own_track() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    bench.until(100_000);
    bench.sample(probe(0, 0.3));
    // It has worked since at its size: what failed before is answered.
    for ended_ms in [97_000, 98_500, 99_000] {
        bench.sample(ended(ended_ms, moved(0, SampleKind::Reported, 64 * MIB, 54.0)));
    }
    bench.sample(ended(98_000, stuck(0, SampleKind::Reported, 64 * MIB, 5000.0)));
    assert_eq!(bench.discarded, [Discard::Reordered]);
    let health = bench.health(&path(0));
    assert_eq!((health.state, health.failed_bytes), (PathState::Healthy, 0));
    assert!(health.bandwidth_ratio.unwrap() > 0.95, "no ratio of 0 beside it: {health:?}");
    // A small one is latency, which the probe has said since.
    bench.sample(ended(99_500, moved(0, SampleKind::Reported, 4096, 300.0)));
    assert_eq!(bench.discarded, [Discard::Reordered; 2]);
    assert_eq!(bench.health(&path(0)).sample_count, 1);
    // What ended a minute ago says nothing about now.
    bench.sample(ended(40_000, stuck(0, SampleKind::Reported, 512 * MIB, 5000.0)));
    assert_eq!(bench.discarded, [Discard::Reordered; 3]);
    bench.sample(ended(40_001, stuck(0, SampleKind::Reported, 512 * MIB, 5000.0)));
    assert_eq!(bench.state(0), PathState::Healthy, "as large as a canary has worked since");
    bench.sample(ended(99_001, stuck(0, SampleKind::Reported, 512 * MIB, 5000.0)));
    assert_eq!(bench.state(0), PathState::Quarantined);
}

#[test]
fn a_canary_that_is_too_fast_to_be_believed_restores_and_measures_nothing() {
    // 1 Gb/s is configured where the wire does 10: 8 MiB take 7 ms instead of 67.
    let mut bench = Bench::new(Profile::Mesh, 1, 1.0);
    run(&mut bench, 10, true);
    bench.sample(stuck(0, SampleKind::Transfer, 512 * MIB, 9000.0));
    let before = bench.health(&path(0));
    bench.until(20_000);
    assert_eq!(bench.canaries.len(), 1);
    bench.until(20_007);
    bench.sample(moved(0, SampleKind::Bulk, 8 * MIB, 7.0));
    assert_eq!(bench.discarded, [Discard::Implausible], "still counted");
    let health = bench.health(&path(0));
    assert_eq!((health.state, health.failed_bytes), (PathState::Restored, 0));
    assert_eq!((health.sample_count, health.bandwidth_ratio), (before.sample_count, None), "the lost one is forgiven");
    assert_eq!(bench.newest.as_ref().unwrap().health, health, "and the policy hears of it");

    // The same where nothing had failed is only discarded.
    bench.newest = None;
    bench.sample(moved(0, SampleKind::Bulk, 8 * MIB, 7.0));
    assert_eq!((bench.discarded.len(), bench.newest.is_none()), (2, true));
}

#[test]
fn a_transfer_that_is_refused_once_restricts_and_one_of_its_size_that_works_restores() {
    for kind in [SampleKind::Transfer, SampleKind::Reported] {
        let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
        run(&mut bench, 10, true);
        let refused = |bytes| Sample { outcome: SampleOutcome::Failed, ..stuck(0, kind, bytes, 1.0) };
        assert_eq!(bench.sample(refused(6 * MIB)).state, PathState::DegradedRestricted);
        run(&mut bench, 18, true);
        assert_eq!(bench.state(0), PathState::DegradedRestricted, "small probes do not restore it");
        assert_eq!(bench.sample(moved(0, kind, 5 * MIB, 5.0)).state, PathState::DegradedRestricted);
        assert_eq!(bench.sample(moved(0, kind, 6 * MIB, 6.0)).state, PathState::Restored);
        assert_eq!(bench.sample(refused(6 * MIB)).state, PathState::DegradedRestricted);
        assert_eq!(bench.sample(refused(6 * MIB)).state, PathState::Quarantined, "twice in a row");
    }
}
