//! Paths that fail, flap, stall, or only seem to.

use seam::model::{Blame, NodeName, PathId, PathState};
use seam::sim::{Action, Fault, Link, Probing, Settings, Then, World};

use crate::common::{MIB, SECOND, class, for_a_while, held, mixed, settings, sound, state, warm};

fn first_path(world: &World) -> PathId {
    world.path(world.prefill(0), world.decode(0)).unwrap()
}

/// When the path entered and left QUARANTINED since `since_ms`; the last may last on.
fn quarantines(world: &World, path: &PathId, since_ms: u64) -> Vec<(u64, Option<u64>)> {
    let mut found: Vec<(u64, Option<u64>)> = Vec::new();
    for (at, which, from, to, _) in &world.audit().transitions {
        if which != path || *at < since_ms {
            continue;
        }
        if *to == PathState::Quarantined {
            found.push((*at, None));
        } else if *from == PathState::Quarantined
            && let Some(last) = found.last_mut()
        {
            last.1 = Some(*at);
        }
    }
    found
}

#[test]
fn one_failure_is_no_lasting_ban() {
    for seed in 0..4 {
        let mut world = warm(settings(seed, 1, 2));
        let path = first_path(&world);
        for_a_while(
            &mut world,
            700,
            Action::Fault { path: path.clone(), fault: Some(Fault::Stall { from_bytes: 0 }) },
            Action::Fault { path: path.clone(), fault: None },
        );
        world.run(3 * SECOND);
        assert_ne!(state(&world, 0, &path), PathState::Healthy, "seed {seed}: a lost probe is seen");
        let took = world.run_until(60 * SECOND, |world| state(world, 0, &path) == PathState::Healthy);
        println!("one failure, seed {seed}: healthy again {took:?} ms later");
        assert!(took.is_some(), "seed {seed}: {:?}", world.audit().transitions);
        sound(&world, "one failure");
    }
}

#[test]
fn a_flapping_path_is_quarantined_and_restored_once_an_episode_each_time_for_longer() {
    for period_s in [5, 15, 30, 60] {
        let mut world = warm(settings(period_s, 1, 2));
        let path = first_path(&world);
        let (half_ms, since) = (period_s * SECOND / 2, world.now_ms());
        let mut lasted = Vec::new();
        for episode in 0..8 {
            let begun = world.now_ms();
            world.act(Action::Fault { path: path.clone(), fault: Some(Fault::Stall { from_bytes: 0 }) });
            world.run(half_ms);
            world.act(Action::Fault { path: path.clone(), fault: None });
            world.run(half_ms);
            let entered = quarantines(&world, &path, begun).len();
            assert!(entered <= 1, "period {period_s} s, episode {episode}: quarantined {entered} times");
            let healthy = |(at, which, _, to, _): &&(u64, PathId, PathState, PathState, bool)| {
                *at >= begun && which == &path && *to == PathState::Restored
            };
            let restored = world.audit().transitions.iter().filter(healthy).count();
            assert!(restored <= 1, "period {period_s} s, episode {episode}: restored {restored} times");
        }
        for (from, until) in quarantines(&world, &path, since) {
            lasted.extend(until.map(|until| until - from));
        }
        // Once it is steady it comes back, however often it flapped.
        let back = world.run_until(700 * SECOND, |world| state(world, 0, &path) == PathState::Healthy);
        let last = quarantines(&world, &path, since).last().and_then(|(from, until)| Some((*until)? - from));
        println!("flapping with {period_s} s: quarantined for {lasted:?}, then {last:?} ms, healthy {back:?} ms later");
        assert!(!quarantines(&world, &path, since).is_empty(), "period {period_s} s: it is quarantined at all");
        assert!(back.is_some(), "period {period_s} s: it is never trusted again");
        lasted.extend(last);
        // A quarantine lasts for its hold, or as long as the fault and a few clean windows, whichever
        // is longer: where that is the fault, two may be as long.
        assert!(lasted.windows(2).all(|two| two[1] + SECOND > two[0]), "period {period_s} s: {lasted:?}");
        sound(&world, "flapping");
    }
}

#[test]
fn a_stall_of_the_observer_itself_moves_no_path() {
    let mut discarded = 0;
    for seed in 0..4 {
        // A network so slow that some probes are always under way.
        let link = Link { latency_ms: 3.0, jitter_ms: 0.2, loss: 0.0 };
        let probing = Probing { interval_ms: 25, ..settings(seed, 2, 4).probing };
        let arrivals = Some(mixed(3.0, 16 * MIB, 60 * SECOND));
        let mut world = warm(Settings { link, probing, arrivals, ..settings(seed, 2, 4) });
        for _ in 0..5 {
            for_a_while(&mut world, 500, Action::Stop(0), Action::Continue(0));
            world.run(4 * SECOND);
        }
        let left: Vec<_> =
            world.audit().transitions.iter().filter(|(_, path, ..)| path.source.as_str() == "p0").collect();
        println!("stalled observer, seed {seed}: discarded {:?}", world.audit().discarded);
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        discarded += world.audit().discarded.values().sum::<u64>();
        sound(&world, "stalled observer");
    }
    assert!(discarded > 0, "some samples were taken while it stood still");
}

#[test]
fn a_path_that_stalls_large_writes_costs_one_canary_a_hold_and_the_hold_doubles() {
    for seed in 0..2 {
        let mut base = settings(seed, 1, 3);
        base.policy.transfer_budget_ms = 2_000;
        base.arrivals = Some(mixed(2.0, 64 * MIB, 200 * SECOND));
        base.arrivals.as_mut().unwrap().limits_bytes = (32 * MIB, 128 * MIB);
        let mut world = warm(base);
        let path = first_path(&world);
        world.act(Action::Fault { path: path.clone(), fault: Some(Fault::Stall { from_bytes: MIB }) });
        let since = world.now_ms();
        world.run(150 * SECOND);
        let begun: Vec<u64> = world
            .audit()
            .moved
            .iter()
            .filter(|m| m.path == path && m.at_ms >= since)
            .map(|m| m.at_ms - since)
            .collect();
        println!("stalls large writes, seed {seed}: tried after {begun:?} ms");
        // Bounded by its budget, whatever the path does.
        for fate in world.audit().requests.values().filter(|fate| fate.at_ms + 5_000 < world.now_ms()) {
            let ended = fate.delivered_ms.or(fate.failed_ms);
            assert!(fate.lease.is_none() || ended.is_some_and(|at| at - fate.at_ms <= 2_500), "seed {seed}: {fate:?}");
        }
        // What was under way when the first failed fails too; after that canaries alone try it.
        let canaries: Vec<_> = world.audit().canaries.iter().filter(|(_, canary)| canary.path == path).collect();
        let sent: Vec<u64> = canaries.iter().map(|(at, _)| at - since).collect();
        println!("stalls large writes, seed {seed}: canaries after {sent:?} ms");
        assert!(begun.len() <= 3, "seed {seed}: {} tries in 150 s", begun.len());
        assert!(canaries.iter().all(|(_, canary)| canary.deadline_ms <= SECOND), "{canaries:?}");
        let holds: Vec<u64> = begun.iter().chain(&sent).copied().collect();
        let holds: Vec<u64> = holds.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(sent.len() >= 3 && holds.windows(2).all(|two| two[1] * 10 >= two[0] * 16), "seed {seed}: {holds:?}");
        world.act(Action::Fault { path: path.clone(), fault: None });
        let back = world.run_until(300 * SECOND, |world| state(world, 0, &path) == PathState::Healthy);
        println!("stalls large writes, seed {seed}: mended, healthy {back:?} ms later");
        assert!(back.is_some(), "seed {seed}: it is used again");
        // Slots and extents are back.
        world.run(60 * SECOND);
        assert_eq!(held(&world, world.decode(0)), 0, "seed {seed}");
        sound(&world, "stalls large writes");
    }
}

#[test]
fn a_write_that_never_completes_ends_with_its_budget_and_its_session_comes_back() {
    for seed in 0..4 {
        let mut base = settings(seed, 1, 1);
        base.policy.transfer_budget_ms = 2_000;
        let mut world = warm(base);
        let path = first_path(&world);
        world.act(Action::Fault { path, fault: Some(Fault::Stall { from_bytes: MIB }) });
        let request = world.route(0, &class("batch"), 64 * MIB, None, Then::Transfer { after_ms: 1 }).unwrap();
        world.run(10 * SECOND);
        let fate = &world.audit().requests[&request];
        let took = fate.failed_ms.map(|at| at - fate.at_ms);
        println!("never completes, seed {seed}: failed after {took:?} ms");
        assert!(took.is_some_and(|ms| ms <= 2_200), "seed {seed}: {fate:?}");
        assert_eq!(held(&world, world.decode(0)), 0, "seed {seed}: session and extents are back");
        assert!(world.audit().announced.is_empty(), "seed {seed}");
        sound(&world, "never completes");
    }
}

#[test]
fn one_broken_edge_restricts_that_edge_alone() {
    for seed in 0..3 {
        let base = Settings { arrivals: Some(mixed(3.0, 16 * MIB, 60 * SECOND)), ..settings(seed, 3, 3) };
        let mut world = warm(base);
        let path = first_path(&world);
        world.act(Action::Fault { path: path.clone(), fault: Some(Fault::Jitter { base_ms: 12.0 }) });
        world.run(20 * SECOND);
        let since = world.now_ms();
        world.run(20 * SECOND);
        let strict = |placed: &&seam::sim::Placed| placed.at_ms > since && placed.class.as_str() != "batch";
        let used = |from: &str, to: &str| {
            let same = |p: &&seam::sim::Placed| p.path.source.as_str() == from && p.path.destination.as_str() == to;
            world.audit().placed.iter().filter(strict).filter(same).count()
        };
        println!(
            "one edge, seed {seed}: p0>d0 {} p1>d0 {} p0>d1 {}",
            used("p0", "d0"),
            used("p1", "d0"),
            used("p0", "d1")
        );
        assert_eq!(used("p0", "d0"), 0, "seed {seed}: strict work keeps off it");
        assert!(used("p1", "d0") + used("p2", "d0") > 0, "seed {seed}: others still use the destination");
        assert!(used("p0", "d1") + used("p0", "d2") > 0, "seed {seed}: the source still uses others");
        let others: Vec<_> = world.audit().transitions.iter().filter(|(_, which, ..)| *which != path).collect();
        assert!(others.is_empty(), "seed {seed}: {others:?}");
        sound(&world, "one edge");
    }
}

/// Where the newest records of a source place the degradation of its path to a host.
fn blamed(world: &mut World, source: usize, host: &NodeName) -> Option<Blame> {
    let before = world.audit().decisions.len();
    world.route(source, &class("batch"), MIB, None, Then::Hold);
    world.run(SECOND);
    let record = world.audit().decisions[before..].iter().find(|r| r.node.as_ref() == world.name(source))?;
    record.candidates.iter().find(|candidate| candidate.target.node.as_ref() == Some(host))?.blame
}

#[test]
fn what_all_paths_of_a_source_share_is_blamed_on_it_and_what_all_observers_see_on_the_destination() {
    for seed in 0..3 {
        let mut world = warm(settings(seed, 3, 3));
        for host in 0..3 {
            let path = world.path(0, world.decode(host)).unwrap();
            world.act(Action::Fault { path, fault: Some(Fault::Jitter { base_ms: 9.0 }) });
        }
        world.run(20 * SECOND);
        let d0 = world.name(world.decode(0)).unwrap().clone();
        assert_eq!(blamed(&mut world, 0, &d0), Some(Blame::Source), "seed {seed}");
        assert_eq!(blamed(&mut world, 1, &d0), None, "seed {seed}: a path without fault blames nobody");

        let mut world = warm(settings(seed, 3, 3));
        for source in 0..3 {
            let path = world.path(source, world.decode(0)).unwrap();
            world.act(Action::Fault { path, fault: Some(Fault::Jitter { base_ms: 9.0 }) });
        }
        world.run(20 * SECOND);
        assert_eq!(blamed(&mut world, 0, &d0), Some(Blame::Destination), "seed {seed}");

        let mut world = warm(settings(seed, 3, 3));
        let path = first_path(&world);
        world.act(Action::Fault { path, fault: Some(Fault::Jitter { base_ms: 9.0 }) });
        world.run(20 * SECOND);
        assert_eq!(blamed(&mut world, 0, &d0), Some(Blame::Between), "seed {seed}");
    }
}
