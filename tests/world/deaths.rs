//! Processes that die, stand still, or come back.

use seam::ledger::Stage;
use seam::mesh::MeshSize;
use seam::sim::{Action, Settings, Then, World};

use crate::common::{MIB, SECOND, class, cores, held, mixed, settings, sound, warm};

/// Leases of `d0` that a host holds, in whatever stage but delivered.
fn held_by(world: &World, holder: &str) -> usize {
    let ledger = world.ledger(world.decode(0)).unwrap();
    ledger.held().filter(|held| held.ask.holder.as_str() == holder && held.stage != Stage::Delivered).count()
}

#[test]
fn what_a_killed_prefill_host_held_comes_back_within_its_ttl_or_the_down_notice() {
    // The time to live, the mesh, and within what time everything is back.
    let direct = |down_after_ms| seam::sim::Gossip::Direct { delay_ms: (100, 300), down_after_ms };
    let cases = [
        (2 * SECOND, direct(5_000), 2_600),
        (20 * SECOND, direct(5_000), 6_000),
        (20 * SECOND, cores(MeshSize::Local, 2, 1), 5_000),
    ];
    for (ttl_ms, gossip, within_ms) in cases {
        for seed in 0..3 {
            let mut base = Settings { gossip: gossip.clone(), ..settings(seed, 2, 1) };
            // Slow rails: the writes are under way when their sender dies.
            base.bandwidth_gbps = 1.0;
            base.ledger.arena_bytes = Some(8 * 64 * MIB);
            base.ledger.kv_bytes = 8 * 64 * MIB;
            base.policy.lease_ttl_ms = ttl_ms;
            base.policy.transfer_budget_ms = 60_000;
            base.idle_ms = 30_000;
            let mut world = warm(base);
            for turn in 0..8 {
                let then = if turn < 3 { Then::Transfer { after_ms: 1 } } else { Then::Hold };
                world.route(0, &class("batch"), 64 * MIB, None, then).unwrap();
                world.run(20);
            }
            assert_eq!(held_by(&world, "p0"), 8, "seed {seed}: all sessions are p0's");
            world.act(Action::Kill(world.prefill(0)));
            // The other wants its place all the while: what comes free is given out at once.
            let mut took = None;
            for turn in 0..within_ms / 100 {
                world.route(1, &class("batch"), 64 * MIB, None, Then::Transfer { after_ms: 1 }).unwrap();
                world.run(100);
                if held_by(&world, "p0") == 0 {
                    took.get_or_insert((turn + 1) * 100);
                }
            }
            // A lease that is being written was asked to live for as long as that may take, so that the
            // notice ends it first. With the notice later than the ttl only those wait for it.
            if ttl_ms < 5_000 {
                assert!(held_by(&world, "p0") <= 3, "seed {seed}: the unused ones have expired");
                let left = world.run_until(5 * SECOND, |world| held_by(world, "p0") == 0);
                assert!(left.is_some(), "seed {seed}: the written ones go with the notice");
            } else {
                assert!(took.is_some(), "seed {seed}, ttl {ttl_ms}: not all are back after {within_ms} ms");
            }
            let fenced = world.audit().stages.iter().filter(|(_, _, _, to)| *to == Some(Stage::Fenced)).count();
            println!("prefill killed, ttl {ttl_ms} ms, seed {seed}: all back after {took:?} ms, {fenced} fenced");
            assert!(fenced >= 3, "seed {seed}: what was being written is fenced first");
            world.run(5 * SECOND);
            assert!(world.audit().placed.iter().any(|p| p.path.source.as_str() == "p1"), "p1 is served");
            sound(&world, "prefill killed");
        }
    }
}

#[test]
fn a_decode_host_that_stood_still_for_ten_seconds_lets_its_overdue_deadlines_pass_first() {
    for seed in 0..4 {
        let mut base = settings(seed, 2, 1);
        base.policy.lease_ttl_ms = 3_000;
        let mut world = warm(base);
        let host = world.decode(0);
        for _ in 0..8 {
            world.route(0, &class("batch"), 64 * MIB, None, Then::Hold).unwrap();
            world.run(10);
        }
        assert_eq!(held(&world, host), 8, "seed {seed}");
        world.act(Action::Stop(host));
        let stopped = world.now_ms();
        world.run(1_000);
        // p1 knows it as full by gossip, p0 by its own leases; a third answer can only come later.
        world.run(9_000);
        // Two asks are on their way to it as it runs on.
        world.act(Action::Continue(host));
        let late = world.route(1, &class("batch"), 64 * MIB, None, Then::Hold);
        world.run(2 * SECOND);
        let overdue: Vec<_> = world.audit().stages.iter().filter(|(at, ..)| *at >= stopped + 9_000).take(8).collect();
        assert!(
            overdue.len() == 8 && overdue.iter().all(|(.., from, to)| from.is_some() && to.is_none()),
            "{overdue:?}"
        );
        assert!(late.is_some());
        // Used again without help.
        world.run(5 * SECOND);
        let again = world.route(1, &class("batch"), 64 * MIB, None, Then::Transfer { after_ms: 1 }).unwrap();
        world.run(2 * SECOND);
        assert!(world.audit().requests[&again].delivered_ms.is_some(), "seed {seed}: it takes work again");
        sound(&world, "decode stopped");
    }
}

#[test]
fn an_ask_that_waited_for_a_host_that_stood_still_finds_the_expired_sessions_free() {
    for seed in 0..4 {
        let mut base = settings(seed, 2, 1);
        base.policy.lease_ttl_ms = 3_000;
        let mut world = warm(base);
        let host = world.decode(0);
        for _ in 0..7 {
            world.route(0, &class("batch"), 64 * MIB, None, Then::Hold).unwrap();
            world.run(10);
        }
        world.act(Action::Stop(host));
        world.route(1, &class("batch"), 64 * MIB, None, Then::Hold).unwrap();
        world.route(0, &class("batch"), 64 * MIB, None, Then::Hold).unwrap();
        world.run(4_500);
        let before = world.audit().asked.len();
        world.act(Action::Continue(host));
        world.run(50);
        let asked = &world.audit().asked[before..];
        println!("an ask that waited, seed {seed}: {asked:?}");
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.refusal.is_none()), "seed {seed}: {asked:?}");
        // Nobody waited for the answer any more: what was granted is given up.
        world.run(SECOND);
        assert_eq!(held(&world, host), 0, "seed {seed}");
        sound(&world, "an ask that waited");
    }
}

#[test]
fn a_decode_host_that_is_killed_and_started_under_the_same_name_is_used_again_and_owes_nothing() {
    for (seed, away_ms) in [(0, 500), (1, 500), (2, 9_000), (3, 9_000)] {
        for gossip in [settings(seed, 2, 2).gossip, cores(MeshSize::Local, 2, 2)] {
            let mut base = Settings { gossip, ..settings(seed, 2, 2) };
            base.arrivals = Some(mixed(6.0, 32 * MIB, 40 * SECOND));
            // Its engine's word ends the new life's doubt over what the old one granted.
            base.engine_word_ms = Some(100);
            let mut world = warm(base);
            let host = world.decode(0);
            let old = world.generation(host);
            assert!(world.audit().placed.iter().any(|placed| placed.path.destination.as_str() == "d0"));
            world.act(Action::Kill(host));
            world.run(away_ms);
            world.act(Action::Start(host));
            let back = world.now_ms();
            let new = world.generation(host);
            assert!(new > old);
            world.run(15 * SECOND);
            let again = world
                .audit()
                .stages
                .iter()
                .find(|(_, lease, ..)| lease.node.as_str() == "d0" && lease.generation == new);
            let again = again.map(|(at, ..)| at - back);
            println!("restarted after {away_ms} ms, seed {seed}: first lease after {again:?} ms");
            assert!(again.is_some_and(|ms| ms < 5_000), "seed {seed}: {again:?}");
            let ledger = world.ledger(host).unwrap();
            assert!(ledger.held().all(|held| held.lease.id.generation == new));
            let late = world.audit().announced.iter().filter(|(at, lease)| *at > back && lease.generation == old);
            assert_eq!(late.filter(|(_, lease)| lease.node.as_str() == "d0").count(), 0, "seed {seed}");
            // Whatever the old life said of its sessions is forgotten at its peers.
            for peer in 0..2 {
                let policy = world.policy(peer).unwrap();
                assert_eq!(policy.view().generation(world.name(host).unwrap()), Some(new), "seed {seed}");
            }
            sound(&world, "decode restarted");
        }
    }
}

#[test]
fn a_transfer_that_outlives_its_lease_fails_and_is_never_announced() {
    for seed in 0..4 {
        // It asks to be let in only after the lease has expired.
        let mut base = settings(seed, 1, 1);
        base.policy.lease_ttl_ms = 2_000;
        base.policy.transfer_budget_ms = 30_000;
        let mut world = warm(base);
        let (source, host) = (world.prefill(0), world.decode(0));
        let request = world.route(source, &class("batch"), 64 * MIB, None, Then::Transfer { after_ms: 500 }).unwrap();
        world.run(100);
        world.act(Action::Slow { from: source, to: host, ms: Some(3_000.0) });
        world.run(40 * SECOND);
        let fate = world.audit().requests[&request].clone();
        assert!(
            fate.lease.is_some() && fate.delivered_ms.is_none() && fate.failed_ms.is_some(),
            "seed {seed}: {fate:?}"
        );
        println!("outlived, seed {seed}: {:?}", world.audit().failure(fate.lease.as_ref().unwrap()));
        assert!(world.audit().announced.is_empty(), "seed {seed}");
        world.run(10 * SECOND);
        assert_eq!(held(&world, host), 0, "seed {seed}");
        sound(&world, "outlived");

        // Its holder is taken for down while the bytes flow.
        let mut base = settings(seed, 2, 1);
        base.bandwidth_gbps = 0.2;
        base.policy.transfer_budget_ms = 60_000;
        let mut world = warm(base);
        let (source, host) = (world.prefill(0), world.decode(0));
        let request = world.route(source, &class("batch"), 256 * MIB, None, Then::Transfer { after_ms: 1 }).unwrap();
        world.run(SECOND);
        world.act(Action::Partition(vec![source]));
        world.run(7 * SECOND);
        assert_eq!(held(&world, host), 0, "seed {seed}: fenced, quiet, free");
        world.act(Action::Heal);
        world.run(60 * SECOND);
        let fate = &world.audit().requests[&request];
        let first = fate.lease.as_ref().unwrap();
        assert!(world.audit().announced.iter().all(|(_, lease)| lease != first), "seed {seed}: {fate:?}");
        sound(&world, "outlived its holder");
    }
}
