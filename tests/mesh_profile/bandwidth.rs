//! Bandwidth that collapsed.

use super::*;

/// A second of probes, and one large sample that moves at `gbps`.
fn second(bench: &mut Bench, s: u64, kind: SampleKind, bytes: u64, gbps: f64) {
    bench.until(s * 1000);
    bench.sample(probe(0, 0.3));
    if s.is_multiple_of(5) {
        let moving_ms = bytes as f64 * 8.0 / (gbps * 1e6);
        bench.sample(moved(0, kind, bytes, 0.3 + moving_ms));
    }
}

#[test]
fn a_path_that_fell_back_from_rdma_to_tcp_is_caught_though_its_latency_is_fine_and_returns_in_stages() {
    let mut bench = Bench::new(Profile::Mesh, 1, 100.0);
    for s in 0..60 {
        second(&mut bench, s, SampleKind::Transfer, 256 * MIB, 98.0);
    }
    assert_eq!(bench.transitions, []);
    let ratio = bench.health(&path(0)).bandwidth_ratio.unwrap();
    assert!((0.95..=1.0).contains(&ratio), "{ratio}");

    for s in 60..120 {
        second(&mut bench, s, SampleKind::Transfer, 256 * MIB, 12.0);
        let health = bench.health(&path(0));
        assert!(health.p99_latency_ms < 1.0 && health.gfs < 0.18, "{health:?}");
    }
    assert_eq!(bench.state(0), PathState::QuarantineCandidate, "{:?}", bench.transitions);
    let caught = bench.transitions[0].0;
    assert!(caught <= 75_000, "{caught} ms: the median of five needs three");

    // It carries nothing now: bulk probes bring the evidence.
    bench.transitions.clear();
    for s in 120..240 {
        second(&mut bench, s, SampleKind::Bulk, 64 * MIB, 98.0);
    }
    let stages = [PathState::DegradedRestricted, PathState::DegradedUsable, PathState::Healthy];
    assert_eq!(bench.states(0), stages, "{:?}", bench.transitions);
    for pair in bench.transitions.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 10_000, "{:?}", bench.transitions);
    }
}

#[test]
fn paths_are_held_to_what_their_rail_achieves_and_not_to_what_its_card_is_called() {
    // A backend that carries 20 of 100 Gb/s: no path is at fault for that.
    let mut bench = Bench::new(Profile::Mesh, 2, 100.0);
    let turn = |bench: &mut Bench, s: u64, gbps: [f64; 2]| {
        bench.until(s * 1000);
        for (number, gbps) in gbps.into_iter().enumerate() {
            bench.sample(probe(number, 0.3));
            if s.is_multiple_of(5) {
                let moving_ms = (256 * MIB) as f64 * 8.0 / (gbps * 1e6);
                bench.sample(moved(number, SampleKind::Transfer, 256 * MIB, 0.3 + moving_ms));
            }
        }
    };
    (0..60).for_each(|s| turn(&mut bench, s, [20.0, 18.0]));
    assert_eq!(bench.transitions, []);
    let ratio = |bench: &Bench, number| bench.health(&path(number)).bandwidth_ratio.unwrap();
    assert!(ratio(&bench, 0) > 0.99 && (0.88..0.92).contains(&ratio(&bench, 1)), "{}", ratio(&bench, 1));
    // One that falls behind the other is.
    (60..120).for_each(|s| turn(&mut bench, s, [20.0, 6.0]));
    assert_eq!((bench.state(0), bench.state(1)), (PathState::Healthy, PathState::DegradedRestricted));
    // Once it has been the rule for two hours, it is what the rail carries.
    (120..7_500).for_each(|s| turn(&mut bench, s, [6.0, 6.0]));
    assert_eq!((bench.state(0), bench.state(1)), (PathState::Healthy, PathState::Healthy));
}

#[test]
fn large_samples_are_no_latency_and_small_ones_no_bandwidth() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    // 1 GiB in 5 % more than its wire time: 43 ms that are no latency.
    let wire_ms = (1024 * MIB) as f64 * 8.0 / 10e6;
    for s in 0..10 {
        bench.until(s * 1000);
        bench.sample(moved(0, SampleKind::Transfer, 1024 * MIB, wire_ms * 1.05));
    }
    let health = bench.health(&path(0));
    assert_eq!((health.state, health.sample_count, health.gfs), (PathState::Healthy, 0, 0.0));
    bench.sample(moved(0, SampleKind::Transfer, 4 * MIB, 20.0));
    let health = bench.health(&path(0));
    assert_eq!(health.sample_count, 1);
    assert!(health.bandwidth_ratio.unwrap() > 0.95, "4 MiB are 3.4 ms on this wire: too few");
}
