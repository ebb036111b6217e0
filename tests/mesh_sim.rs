//! The mesh core in virtual time: joining, spreading, dying, coming back, and refusing.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

#[path = "mesh_sim/clocks.rs"]
mod clocks;
#[path = "mesh_sim/faults.rs"]
mod faults;
#[path = "mesh_sim/hostile.rs"]
mod hostile;
#[path = "mesh_sim/net.rs"]
mod net;

use net::{Net, SECOND, WALL0, load, name, paths};
use seam::core::Core;
use seam::mesh::{Input, MeshCore, RecordKind, Refusal};

#[test]
fn meshes_of_3_20_and_100_nodes_started_together_are_whole_within_seconds() {
    for (count, at_most) in [(3, 3 * SECOND), (20, 5 * SECOND), (100, 8 * SECOND)] {
        let mut net = Net::of(count, 7);
        let took = net.run_until(at_most, Net::whole);
        println!("{count} nodes whole after {took:?} ms");
        assert!(took.is_some(), "{count} nodes are not whole after {at_most} ms");
        assert_eq!(net.refusals(Refusal::BadSignature) + net.refusals(Refusal::Protocol), 0);
    }
}

#[test]
fn a_load_update_reaches_every_node_at_one_percent_loss() {
    let mut net = Net::of(20, 1);
    net.loss = 0.01;
    net.run_until(5 * SECOND, Net::whole).unwrap();
    for update in 1..=5 {
        net.give(3, Input::PublishLoad(load(update)));
        let known = |net: &Net| {
            net.running()
                .filter(|node| node.name != name(3))
                .all(|node| node.loads.get(&name(3)).is_some_and(|(_, record)| record.active_sessions == update))
        };
        let took = net.run_until(4 * SECOND, known);
        println!("update {update} known after {took:?} ms");
        assert!(took.is_some(), "update {update} is not known everywhere");
    }
}

#[test]
fn a_late_joiner_gets_every_record() {
    let mut net = Net::of(10, 2);
    for index in 0..10 {
        net.give(index, Input::PublishLoad(load(index as u32)));
    }
    net.run(20 * SECOND);
    net.add(1);
    net.start(10, WALL0 + net.now_ms());
    let took = net.run_until(3 * SECOND, |net| net.whole() && net.nodes[10].loads.len() == 10);
    println!("late joiner whole after {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn a_killed_node_and_its_records_are_gone_everywhere_within_six_and_a_half_seconds() {
    for seed in 0..4 {
        let mut net = Net::of(12, seed);
        net.give(5, Input::PublishLoad(load(9)));
        net.run_until(5 * SECOND, Net::whole).unwrap();
        net.run(3 * SECOND);
        assert!(net.running().all(|node| node.holds(net.now(), &name(5), RecordKind::Load)));
        net.kill(5);
        let took = net.run_until(6_500, Net::whole);
        println!("gone after {took:?} ms");
        assert!(took.is_some(), "seed {seed}");
        for node in net.running() {
            assert!(!node.holds(net.now(), &name(5), RecordKind::Load));
            assert!(!node.holds(net.now(), &name(5), RecordKind::Node));
            assert_eq!(node.gone, [(name(5), WALL0)]);
        }
    }
}

#[test]
fn a_restart_takes_its_own_place_and_nothing_of_the_earlier_life_is_believed() {
    let mut net = Net::of(8, 3);
    net.give(4, Input::PublishLoad(load(40)));
    net.run_until(5 * SECOND, |net| net.whole() && net.nodes[0].loads.contains_key(&name(4))).unwrap();
    let old = net.nodes[0].record(net.now(), &name(4), RecordKind::Load);

    // It is back before anyone noticed that it was away.
    net.kill(4);
    net.run(200);
    let generation = WALL0 + net.now_ms();
    net.start(4, generation);
    let took = net.run_until(3 * SECOND, |net| {
        net.whole() && net.running().all(|node| node.name == name(4) || node.nodes[&name(4)] == generation)
    });
    println!("restarted node known after {took:?} ms");
    assert!(took.is_some());
    assert!(net.running().all(|node| !node.loads.contains_key(&name(4))));
    assert!(net.running().filter(|node| node.name != name(4)).all(|node| node.gone == [(name(4), WALL0)]));

    let before = net.refusals(Refusal::Stale);
    net.push(1, 0, vec![old]);
    net.run(100);
    assert_eq!(net.refusals(Refusal::Stale), before + 1);
    assert!(!net.nodes[0].loads.contains_key(&name(4)));
}

#[test]
fn a_restart_whose_clock_went_back_still_takes_its_place() {
    let mut net = Net::of(8, 4);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.kill(4);
    net.start(4, WALL0 - 3_600_000);
    let took = net.run_until(5 * SECOND, |net| {
        net.whole() && net.running().all(|node| node.name == name(4) || node.nodes[&name(4)] > WALL0)
    });
    println!("clock went back: known after {took:?} ms, {} renewals", net.nodes[4].renewals);
    assert!(took.is_some());
    assert!(net.nodes[4].renewals < 10);
}

#[test]
fn a_node_that_leaves_is_gone_at_once_and_stays_gone() {
    let mut net = Net::of(8, 5);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.give(2, Input::Leave);
    let left = |net: &Net| net.nodes.iter().filter(|node| node.name != name(2)).all(|node| node.gone.len() == 1);
    let took = net.run_until(2 * SECOND, left);
    println!("left: known after {took:?} ms");
    assert!(took.is_some());
    net.kill(2);
    net.run(20 * SECOND);
    assert!(net.whole());
    assert!(left(&net));
}

#[test]
fn two_halves_that_could_not_talk_find_each_other_again() {
    let mut net = Net::of(10, 6);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.cut.extend(5..10);
    net.run(15 * SECOND);
    assert!(net.running().all(|node| node.nodes.len() < 9));
    net.cut.clear();
    let took = net.run_until(15 * SECOND, Net::whole);
    println!("partition healed after {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn a_node_that_cannot_hear_does_not_make_the_others_rejoin() {
    let mut net = Net::of(12, 8);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.run(5 * SECOND);
    net.nodes[7].deaf = true;
    net.run(20 * SECOND);
    assert!(net.running().filter(|node| node.name != name(7)).all(|node| node.gone == [(name(7), WALL0)]));
    net.nodes[7].deaf = false;
    let took = net.run_until(15 * SECOND, Net::whole);
    println!("hears again: whole after {took:?} ms");
    assert!(took.is_some());
    assert_eq!(net.running().filter(|node| node.name != name(7)).map(|node| node.renewals).sum::<u32>(), 0);
}

#[test]
fn records_outlive_their_time_only_if_they_are_said_again() {
    let mut net = Net::of(4, 9);
    net.give(1, Input::PublishLoad(load(1)));
    net.give(1, Input::PublishPaths(vec![paths(0, &name(1), 3), paths(1, &name(1), 1)]));
    net.run(10 * SECOND);
    net.give(1, Input::PublishPaths(vec![paths(0, &name(1), 2)]));
    net.run(320 * SECOND);
    for node in net.running().filter(|node| node.name != name(1)) {
        assert!(node.holds(net.now(), &name(1), RecordKind::Load));
        assert!(node.holds(net.now(), &name(1), RecordKind::Node));
        assert!(node.holds(net.now(), &name(1), RecordKind::Paths(0)));
        assert!(!node.holds(net.now(), &name(1), RecordKind::Paths(1)), "an empty chunk is not said again");
        assert_eq!(node.paths[&(name(1), 0)].paths.len(), 2);
        assert_eq!(node.paths[&(name(1), 1)].paths.len(), 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_a_tape_gives_the_same_outputs() {
    let keys = Net::new(0).keys(3);
    let run = || {
        let mut net = Net::with_keys(11, &keys);
        net.taped = true;
        net.loss = 0.02;
        for index in 0..3 {
            net.start(index, WALL0);
        }
        net.give(1, Input::PublishLoad(load(1)));
        net.run(10 * SECOND);
        net.kill(1);
        net.run(10 * SECOND);
        net
    };
    let net = run();
    let again = run();
    for (one, other) in net.nodes.iter().zip(&again.nodes) {
        assert!(one.tape == other.tape && one.outputs == other.outputs, "{} differs", one.name);
    }
    for (index, node) in net.nodes.iter().enumerate() {
        let before = MeshCore::new(net.settings(index, WALL0)).snapshot();
        let written = serde_json::to_string(&before).unwrap();
        let mut core = MeshCore::restore(serde_json::from_str(&written).unwrap());
        let mut out = Vec::new();
        for (now, input) in &node.tape {
            core.step(*now, input.clone(), &mut out);
        }
        assert!(out.len() > 50, "{} outputs", out.len());
        assert!(out == node.outputs, "node {index} answers its tape otherwise");
    }
}
