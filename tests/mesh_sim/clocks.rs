//! Wall clocks that are off by an hour.

use seam::mesh::Input;

use super::net::{Net, SECOND, load, name};

const HOUR_MS: i64 = 3_600_000;

/// Whether the mesh is whole and all that `index` says now is known.
fn whole_with(net: &mut Net, index: usize, sessions: u32) -> Option<u64> {
    net.give(index, Input::PublishLoad(load(sessions)));
    net.run_until(5 * SECOND, |net| net.whole() && net.load_is_known_everywhere(index, sessions))
}

#[test]
fn a_node_whose_clock_is_set_an_hour_ahead_and_later_back_between_restarts_is_known_each_time() {
    let mut net = Net::of(20, 61);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    let mut life = 0;
    for (round, off) in [HOUR_MS, -HOUR_MS, 0].into_iter().enumerate() {
        net.kill(4);
        net.run(500);
        net.nodes[4].clock_off_ms = off;
        // What it wrote down counts, and its clock if that is later.
        life = net.clock_of(4).wall_ms.max(life + 1);
        net.start(4, life);
        let took = whole_with(&mut net, 4, round as u32 + 1);
        println!("clock off by {off} ms: whole after {took:?} ms");
        assert!(took.is_some());
        assert_eq!(net.nodes[4].renewals, 0, "nobody held a later life of it");
        assert!(net.running().all(|node| node.name == name(4) || node.nodes[&name(4)] == life));
    }
}

#[test]
fn a_mesh_whose_first_seed_is_an_hour_ahead_or_behind_is_whole_and_so_are_nodes_between() {
    for off in [HOUR_MS, -HOUR_MS] {
        let mut net = Net::new(62);
        net.add(20);
        net.nodes[0].clock_off_ms = off;
        net.nodes[7].clock_off_ms = -off;
        for index in 0..20 {
            net.start(index, net.clock_of(index).wall_ms);
        }
        for index in [0, 3, 7] {
            let took = whole_with(&mut net, index, 1);
            println!("seed's clock off by {off} ms: whole with node {index} after {took:?} ms");
            assert!(took.is_some());
        }
    }
}
