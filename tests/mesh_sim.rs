//! The mesh core in virtual time: joining, spreading, dying, coming back, and refusing.
#![cfg(feature = "agent")]

#[path = "mesh_sim/net.rs"]
mod net;

use net::{Net, SECOND, WALL0, load, name};
use seam::mesh::{Input, RecordKind, Refusal};

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
            net.running().filter(|node| node.name != name(3)).all(|node| {
                node.loads.get(&name(3)).is_some_and(|(_, record)| record.active_sessions == update)
            })
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
