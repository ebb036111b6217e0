//! The observer's own stalls.

use super::*;

const PATHS: usize = 10;

/// Probes every path once a second, until `to_ms`; `stalled` says how late this host was.
fn run(bench: &mut Bench, to_ms: u64, late_ms: impl Fn(u64) -> f64) {
    let mut ms = bench.ms() + 100;
    while ms <= to_ms {
        bench.until(ms);
        let late_ms = late_ms(ms);
        bench.sample(Sample { late_ms, ..probe(ms as usize / 100 % PATHS, 2.0 + late_ms) });
        ms += 100;
    }
}

#[test]
fn a_stall_of_the_observer_moves_no_path() {
    let mut bench = Bench::new(Profile::Mesh, PATHS, 10.0);
    let stalled = |ms: u64| if (20_000..20_500).contains(&ms) { 500.0 } else { 0.0 };
    run(&mut bench, 60_000, stalled);
    assert_eq!(bench.transitions, []);
    assert_eq!(bench.discarded, [Discard::Late; 5]);
    assert!(bench.frozen.is_empty(), "so short a stall only costs its own samples");
}

#[test]
fn an_observer_that_stalls_on_freezes_every_state_keeps_reports_young_and_thaws() {
    let mut bench = Bench::new(Profile::Mesh, PATHS, 10.0);
    run(&mut bench, 20_000, |_| 0.0);
    // One path is gray, and its probes say so until this host stalls.
    for s in 0..15 {
        bench.until(20_000 + s * 1000);
        bench.sample(probe(0, 20.0));
    }
    assert_eq!(bench.state(0), PathState::DegradedUsable);
    bench.transitions.clear();

    let start = bench.ms();
    run(&mut bench, start + 60_000, |_| 300.0);
    assert_eq!(bench.frozen, [true]);
    assert!(bench.core.frozen());
    assert_eq!(bench.transitions, []);
    let report = bench.newest.clone().unwrap();
    assert_eq!(report.age_ms, 0, "paths do not go stale because this host is slow");
    assert!(report.health.sample_count >= 3, "{report:?}");

    let start = bench.ms();
    bench.discarded.clear();
    run(&mut bench, start + 60_000, |_| 0.0);
    assert_eq!(bench.frozen, [true, false]);
    assert!(!bench.discarded.is_empty() && bench.discarded.len() <= 15, "{:?}", bench.discarded);
    assert!(bench.discarded.iter().all(|reason| *reason == Discard::Frozen));
    assert_eq!(bench.states(0), [PathState::Restored, PathState::Healthy]);
    assert_eq!(bench.transitions.len(), 2, "{:?}", bench.transitions);
}

#[test]
fn an_engines_reports_neither_keep_a_stalled_host_from_freezing_nor_thaw_it() {
    let mut bench = Bench::new(Profile::Mesh, PATHS, 10.0);
    let busy = |bench: &mut Bench, from_ms: u64, to_ms: u64| {
        for ms in (from_ms..to_ms).step_by(100) {
            bench.until(ms);
            bench.sample(Sample { late_ms: 300.0, ..probe(ms as usize / 100 % PATHS, 302.0) });
            for _ in 0..5 {
                bench.sample(moved(1, SampleKind::Reported, 64 * MIB, 54.0));
            }
        }
    };
    busy(&mut bench, 0, 200);
    assert!(bench.frozen.is_empty(), "two late ones are too few");
    busy(&mut bench, 200, 300);
    assert_eq!(bench.frozen, [true]);
    busy(&mut bench, 300, 10_000);
    assert_eq!(bench.frozen, [true]);
    // Seam's own samples of every kind do thaw it.
    for (ms, kind) in [(14_000, SampleKind::Transfer), (14_001, SampleKind::Bulk)] {
        bench.until(ms);
        bench.sample(moved(1, kind, 64 * MIB, 54.0));
    }
    assert_eq!(bench.frozen, [true, false]);
}

#[test]
fn the_reference_profile_never_freezes() {
    let mut bench = Bench::new(Profile::Reference, PATHS, 10.0);
    run(&mut bench, 20_000, |_| 300.0);
    assert!(bench.frozen.is_empty());
}
