//! Where work goes when many decide at once, or on old news.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seam::model::LeaseRefusal;
use seam::sim::{Action, Settings, Then};

use crate::common::{MIB, SECOND, class, mixed, settings, sound, warm};

#[test]
fn a_burst_of_sixteen_hosts_within_one_gossip_interval_spreads_over_eight_equal_ones() {
    const ASKS: usize = 32;
    let mut worst: f64 = 0.0;
    for seed in 0..6 {
        for work in ["batch", "interactive", "release"] {
            let mut base = settings(seed, 16, 8);
            base.ledger.max_sessions = 16;
            let mut world = warm(base);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut turns: Vec<(u64, usize)> = (0..ASKS).map(|turn| (rng.random_range(0..100), turn % 16)).collect();
            turns.sort_unstable();
            let start = world.now_ms();
            for (at_ms, source) in turns {
                world.run((start + at_ms) - world.now_ms());
                world.route(source, &class(work), 8 * MIB, None, Then::Hold).unwrap();
            }
            world.run(SECOND);
            let mut got: BTreeMap<String, usize> = BTreeMap::new();
            for placed in &world.audit().placed {
                *got.entry(placed.path.destination.to_string()).or_default() += 1;
            }
            assert_eq!(got.values().sum::<usize>(), ASKS, "seed {seed}, {work}: all are placed");
            let times = *got.values().max().unwrap() as f64 / (ASKS as f64 / 8.0);
            println!("burst, seed {seed}, {work}: {got:?}, the fullest has {times:.2} times its share");
            worst = worst.max(times);
            sound(&world, "burst");
        }
    }
    println!("burst: at worst {worst:.2} times the fair share");
    assert!(worst <= 2.5, "{worst:.2} times the fair share");
}

#[test]
fn a_full_host_whose_load_records_are_held_back_is_asked_once_an_interval_by_each_at_most() {
    for seed in 0..4 {
        let mut base = settings(seed, 6, 4);
        base.ledger.max_sessions = 16;
        base.arrivals = Some(mixed(4.0, 8 * MIB, 40 * SECOND));
        base.session_ms = 500.0;
        let mut world = warm(Settings { ..base });
        let stale = world.decode(0);
        world.act(Action::Mute(stale));
        world.run(2 * SECOND);
        // Whatever it had is over; then its engine fills up, and nobody is told.
        world.engine_runs(stale, 16);
        let since = world.now_ms();
        world.run(10 * SECOND);
        let asked: Vec<_> = world.audit().asked.iter().filter(|a| a.host == stale && a.at_ms > since).collect();
        assert!(asked.iter().all(|asked| asked.refusal == Some(LeaseRefusal::Sessions)), "seed {seed}");
        let mut intervals: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        for ask in &asked {
            *intervals.entry((ask.asker, ask.at_ms / 100)).or_default() += 1;
        }
        let most = intervals.values().max().copied().unwrap_or(0);
        println!("stale idle, seed {seed}: {} asks of 6 hosts in 10 s, at most {most} an interval", asked.len());
        assert!(most <= 1, "seed {seed}: {most} asks of one host within one interval");
        let askers: BTreeSet<usize> = asked.iter().map(|asked| asked.asker).collect();
        assert_eq!(askers.len(), 6, "seed {seed}: every host finds out, by asking");
        assert!(asked.len() <= 6 * 2, "seed {seed}: {} refused asks", asked.len());
        let placed = world.audit().placed.iter().filter(|placed| placed.at_ms > since).count();
        assert!(placed > 100, "seed {seed}: work goes on elsewhere: {placed}");
        sound(&world, "stale idle");
    }
}

#[test]
fn a_blackout_of_all_probes_lets_tolerant_work_through_and_ends_with_it() {
    for seed in 0..3 {
        let mut base = settings(seed, 3, 3);
        base.policy.lease_ttl_ms = 500;
        let mut world = warm(base);
        // Nothing moves, for a transfer would be telemetry.
        let placed = |world: &mut seam::sim::World, work: &str| {
            let request = world.route(0, &class(work), MIB, None, Then::Hold).unwrap();
            world.run(600);
            world.audit().requests[&request].lease.is_some()
        };
        for work in ["batch", "interactive", "release"] {
            assert!(placed(&mut world, work), "seed {seed}: {work} before");
        }
        world.act(Action::Probing(false));
        world.run(20 * SECOND);
        assert!(placed(&mut world, "batch"), "seed {seed}: batch in the dark");
        for work in ["interactive", "release"] {
            assert!(!placed(&mut world, work), "seed {seed}: {work} in the dark");
            let record = world.audit().decisions.last().unwrap();
            let codes: Vec<_> = record.candidates.iter().map(|candidate| candidate.code.as_str()).collect();
            assert!(codes.iter().all(|code| *code == "rejected_stale"), "seed {seed}, {work}: {codes:?}");
        }
        world.act(Action::Probing(true));
        world.run(10 * SECOND);
        for work in ["batch", "interactive", "release"] {
            assert!(placed(&mut world, work), "seed {seed}: {work} afterwards");
        }
        sound(&world, "blackout");
    }
}
