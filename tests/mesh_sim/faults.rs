//! Fifty to two hundred nodes under faults: what is declared down, and how soon all is whole again.

use seam::mesh::{Input, OriginDigest, RecordKind, SyncAsk, SyncReply};

use super::net::{Net, SECOND, WALL0, addr, load, name};

const MINUTE: u64 = 60 * SECOND;

/// A mesh that has settled.
fn settled(count: usize, seed: u64) -> Net {
    let mut net = Net::of(count, seed);
    net.run_until(8 * SECOND, Net::whole).unwrap();
    net.run(3 * SECOND);
    net
}

/// The same, in which every node has said how loaded it is.
fn settled_with_loads(count: usize, seed: u64) -> Net {
    let mut net = settled(count, seed);
    for index in 0..count {
        net.give(index, Input::PublishLoad(load(1)));
    }
    net.run_until(8 * SECOND, |net| net.know_all_loads(1)).unwrap();
    net
}

/// Nobody healthy was taken for down by anybody healthy.
fn healthy_nodes_stayed_up(net: &Net, faulty: &[usize]) {
    let faulty: Vec<_> = faulty.iter().map(|index| name(*index)).collect();
    for node in net.running().filter(|node| !faulty.contains(&node.name)) {
        let wrong: Vec<_> = node.gone.iter().filter(|(gone, _)| !faulty.contains(gone)).collect();
        assert!(wrong.is_empty(), "{} took {wrong:?} for down", node.name);
    }
}

/// Nobody healthy had to appear anew either.
fn healthy_nodes_never_rejoined(net: &Net, faulty: usize) {
    assert_eq!(net.running().filter(|node| node.name != name(faulty)).map(|node| node.renewals).sum::<u32>(), 0);
}

#[test]
fn one_deaf_node_of_fifty_takes_nobody_healthy_down() {
    let mut net = settled(50, 31);
    net.nodes[7].deaf = true;
    net.run(2 * MINUTE);
    healthy_nodes_stayed_up(&net, &[7]);
    assert!(net.running().filter(|node| node.name != name(7)).all(|node| node.gone == [(name(7), WALL0)]));
    net.nodes[7].deaf = false;
    let took = net.run_until(15 * SECOND, Net::whole);
    println!("deaf node hears again: whole after {took:?} ms");
    assert!(took.is_some());
    healthy_nodes_stayed_up(&net, &[7]);
    healthy_nodes_never_rejoined(&net, 7);
}

#[test]
fn one_node_of_fifty_that_half_the_others_cannot_reach_takes_nobody_down() {
    let mut net = settled(50, 32);
    net.severed.extend((10..35).map(|other| (7, other)));
    net.run(2 * MINUTE);
    healthy_nodes_stayed_up(&net, &[]);
    healthy_nodes_never_rejoined(&net, 7);
    net.give(7, Input::PublishLoad(load(2)));
    let took = net.run_until(4 * SECOND, |net| net.load_is_known_everywhere(7, 2));
    println!("half-reachable node's load known everywhere after {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn one_node_of_a_hundred_that_loses_half_of_everything_takes_nobody_healthy_down() {
    let mut net = settled(100, 33);
    net.nodes[7].loss = 0.5;
    net.run(2 * MINUTE);
    let rejoined: u32 = net.nodes.iter().map(|node| node.renewals).sum();
    println!(
        "node 0 took the lossy node for down {} times; {rejoined} rejoined, the lossy one {} times; it took {} for down",
        net.nodes[0].gone.len(),
        net.nodes[7].renewals,
        net.nodes[7].gone.len()
    );
    healthy_nodes_stayed_up(&net, &[7]);
}

#[test]
fn two_halves_of_sixty_nodes_parted_for_two_minutes_are_whole_within_fifteen_seconds() {
    let mut net = settled(60, 35);
    net.cut.extend(30..60);
    net.run(2 * MINUTE);
    assert!(net.running().all(|node| node.nodes.len() == 29), "each half knows itself alone");
    for index in 0..60 {
        net.give(index, Input::PublishLoad(load(2)));
    }
    net.run(2 * SECOND);
    net.cut.clear();
    let took = net.run_until(15 * SECOND, |net| net.whole() && net.know_all_loads(2));
    println!("parted for two minutes: whole, records too, after {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn two_hundred_nodes_that_start_at_once_and_start_again_at_once_are_whole_within_five_seconds() {
    let mut net = Net::of(200, 36);
    let took = net.run_until(5 * SECOND, Net::whole);
    println!("join storm of 200: whole after {took:?} ms");
    assert!(took.is_some());
    net.run(2 * SECOND);
    for index in 0..200 {
        net.kill(index);
    }
    net.run(300);
    let life = WALL0 + net.now_ms();
    for index in 0..200 {
        net.start(index, life);
    }
    let took = net.run_until(5 * SECOND, |net| {
        net.whole() && net.running().all(|node| node.nodes.values().all(|generation| *generation == life))
    });
    println!("mass restart of 200: whole after {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn a_killed_node_of_forty_and_its_records_are_gone_in_time_with_and_without_loss() {
    let mut worst = 0;
    for seed in 0..4 {
        let mut net = settled_with_loads(40, 40 + seed);
        net.loss = if seed % 2 == 0 { 0.0 } else { 0.01 };
        net.run(SECOND);
        net.kill(5);
        let gone = |net: &Net| {
            net.whole()
                && net.running().all(|node| {
                    let holds = |kind| node.holds(net.now(), &name(5), kind);
                    !holds(RecordKind::Node) && !holds(RecordKind::Load)
                })
        };
        let took = net.run_until(6_500, gone);
        println!("loss {}: gone after {took:?} ms", net.loss);
        assert!(took.is_some(), "seed {seed}");
        worst = worst.max(took.unwrap());
        healthy_nodes_stayed_up(&net, &[5]);
    }
    println!("worst {worst} ms");
}

#[test]
fn an_exchange_between_nodes_that_know_the_same_moves_a_few_bytes() {
    let mut net = settled_with_loads(40, 50);
    net.run(8 * SECOND);
    let before: usize = net.nodes.iter().map(|node| node.sync_bytes).sum();
    let asked = |net: &Net| net.nodes.iter().map(|node| node.syncs).sum::<usize>();
    let exchanges = asked(&net);
    net.run(2 * SECOND);
    let bytes = net.nodes.iter().map(|node| node.sync_bytes).sum::<usize>() - before;
    let exchanges = asked(&net) - exchanges;
    println!("{exchanges} rounds, {bytes} bytes: {} a round", bytes / exchanges);
    assert!(exchanges > 20 && bytes / exchanges <= 24, "{exchanges} rounds, {bytes} bytes");

    // What it would be if members told each other all they know, as they do where all differs.
    let member = |index| seam::mesh::Member { name: name(index), addr: addr(index), generation: WALL0, renewals: 0 };
    let members: Vec<_> = (0..100).map(|index| foca::Member::alive(member(index))).collect();
    let seqs = vec![(RecordKind::Node, 1), (RecordKind::Load, 300)];
    let digest = (0..100).map(|index| OriginDigest { origin: name(index), generation: WALL0, seqs: seqs.clone() });
    let ask =
        SyncAsk::Entries { member_buckets: !0, members: members.clone(), record_buckets: !0, digest: digest.collect() };
    let reply = SyncReply::Delta { members, records: Vec::new(), want: Vec::new() };
    let flat = seam::codec::encode(&ask).unwrap().len() + seam::codec::encode(&reply).unwrap().len();
    println!("everything of 100 nodes told each other: {flat} bytes");
    assert!(flat > 100 * bytes / exchanges);
}
