//! Quarantine, and the memory of flaps.

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use seam::health::Thresholds;

use super::*;

#[test]
fn one_failure_then_clean_probes_is_no_lasting_ban() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..60 {
        bench.until(s * 1000);
        bench.sample(if s == 20 { lost(0) } else { probe(0, 2.0) });
    }
    let states = bench.states(0);
    assert!(!states.contains(&PathState::Quarantined), "{states:?}");
    assert!(states.ends_with(&[PathState::Restored, PathState::Healthy]), "{states:?}");
    let healthy = bench.transitions.last().unwrap().0;
    assert!(healthy <= 40_000, "{healthy} ms: the failure leaves the window after 10 samples");
}

#[test]
fn a_path_that_stays_dead_is_quarantined_and_back_soon_after_it_works_again() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..700 {
        bench.until(s * 1000);
        bench.sample(if (20..600).contains(&s) { lost(0) } else { probe(0, 2.0) });
    }
    let states = bench.states(0);
    assert_eq!(states.iter().filter(|state| **state == PathState::Quarantined).count(), 1, "{states:?}");
    assert!(states.ends_with(&[PathState::Quarantined, PathState::Restored, PathState::Healthy]), "{states:?}");
    let at = |wanted| bench.transitions.iter().rev().find(|(_, _, to)| *to == wanted).unwrap().0;
    assert!(at(PathState::Quarantined) <= 30_000, "{}", at(PathState::Quarantined));
    assert!(at(PathState::Healthy) <= 635_000, "{}", at(PathState::Healthy));
}

#[test]
fn a_transport_that_refuses_three_times_is_quarantined() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..23 {
        bench.until(s * 1000);
        let refused = Sample { outcome: SampleOutcome::Failed, bytes: 0, ..probe(0, 0.2) };
        bench.sample(if s >= 20 { refused } else { probe(0, 2.0) });
    }
    assert_eq!(bench.state(0), PathState::Quarantined);
}

#[test]
fn a_path_that_fell_silent_is_proven_anew_and_keeps_its_state() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..20 {
        bench.until(s * 1000);
        bench.sample(probe(0, 20.0));
    }
    assert_eq!((bench.state(0), bench.health(&path(0)).sample_count), (PathState::DegradedUsable, 10));
    bench.until(60_000);
    let health = bench.sample(probe(0, 20.0));
    assert_eq!((health.state, health.sample_count), (PathState::DegradedUsable, 1));
    bench.until(61_000);
    assert_eq!(bench.sample(probe(0, 20.0)).sample_count, 2);
}

#[test]
fn a_sample_older_than_the_newest_is_refused_and_an_old_one_is_not_reported_as_new() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    bench.until(10_000);
    bench.sample(Sample { taken: Some(Mono(0).plus_ms(7000)), ..probe(0, 2.0) });
    assert_eq!(bench.newest.as_ref().unwrap().age_ms, 3000);
    bench.sample(Sample { taken: Some(Mono(0).plus_ms(6999)), ..probe(0, 2.0) });
    assert_eq!(bench.discarded, [Discard::Reordered]);
    bench.sample(Sample { taken: Some(Mono(0).plus_ms(99_000)), ..probe(0, 2.0) });
    assert_eq!(bench.newest.as_ref().unwrap().age_ms, 0, "no sample is from the future");
}

#[test]
fn large_samples_keep_no_path_proven_whose_small_ones_have_gone_silent() {
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..10 {
        bench.until(s * 1000);
        bench.sample(probe(0, 2.0));
    }
    bench.until(19_500);
    let health = bench.sample(moved(0, SampleKind::Transfer, 64 * MIB, 56.0));
    assert_eq!(health.sample_count, 5, "of 0 s to 9 s, those younger than 15 s");
    bench.until(24_000);
    assert_eq!(bench.sample(moved(0, SampleKind::Transfer, 64 * MIB, 56.0)).sample_count, 0);
    let report = bench.newest.as_ref().unwrap();
    assert_eq!((report.age_ms, report.health.sample_count), (0, 0), "young, and unproven");
}

#[test]
fn states_survive_a_change_of_profile() {
    for (from, to) in [(Profile::Reference, Profile::Mesh), (Profile::Mesh, Profile::Reference)] {
        let mut bench = Bench::new(from, 3, 10.0);
        for s in 0..20 {
            bench.until(s * 1000);
            bench.sample(probe(0, 2.0));
            bench.sample(probe(1, 20.0));
            bench.sample(lost(2));
        }
        let before: Vec<PathState> = (0..3).map(|number| bench.state(number)).collect();
        bench.transitions.clear();
        bench.step(Input::Configure(Settings { profile: to, thresholds: Thresholds::of(to), ..Settings::default() }));
        assert_eq!((0..3).map(|number| bench.state(number)).collect::<Vec<_>>(), before, "{from} to {to}");
        for s in 20..80 {
            bench.until(s * 1000);
            (0..3).for_each(|number| {
                bench.sample(probe(number, 2.0));
            });
        }
        let after: Vec<PathState> = (0..3).map(|number| bench.state(number)).collect();
        assert_eq!(after, [PathState::Healthy; 3], "{from} to {to}: {:?}", bench.transitions);
    }
}

/// Half of each period the path loses most probes; a probe a second for two hours.
fn flap(period_ms: u64, seed: u64) -> Bench {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bench = Bench::new(Profile::Mesh, 1, 10.0);
    for s in 0..7200 {
        bench.until(s * 1000 + rng.random_range(0..200));
        let bad = bench.ms() % period_ms < period_ms / 2;
        bench.sample(if bad && rng.random::<f64>() < 0.9 { lost(0) } else { probe(0, 2.0 + rng.random::<f64>()) });
    }
    bench
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_path_that_flaps_is_quarantined_once_an_episode_and_ever_longer(period_ms in 5_000u64..60_000, seed: u64) {
        let bench = flap(period_ms, seed);
        let mut episodes: std::collections::BTreeMap<u64, (u32, u32)> = std::collections::BTreeMap::new();
        let (mut entered, mut lasted) = (None, Vec::new());
        for (ms, _, to) in &bench.transitions {
            let episode = episodes.entry(ms / period_ms).or_default();
            match (*to, entered) {
                (PathState::Quarantined, _) => {
                    episode.0 += 1;
                    entered = Some(*ms);
                }
                (_, Some(since)) => {
                    episode.1 += 1;
                    lasted.push(ms - since);
                    entered = None;
                }
                (_, None) => {}
            }
        }
        prop_assert!(episodes.values().all(|(into, back)| *into <= 1 && *back <= 1), "{:?}", episodes);
        prop_assert!(entered.is_some() || !lasted.is_empty(), "never quarantined: {:?}", bench.transitions);
        for (flaps, lasted_ms) in lasted.iter().enumerate() {
            let hold_ms = (10_000u64 << flaps.min(10)).min(600_000);
            prop_assert!(*lasted_ms >= hold_ms, "{:?} for a period of {}", lasted, period_ms);
        }
    }
}
