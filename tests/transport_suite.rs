//! What every backend must do, run for each of them.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "transport_suite/fabric.rs"]
mod fabric;
#[path = "transport_suite/hostile.rs"]
mod hostile;
#[path = "transport_suite/leaks.rs"]
mod leaks;
#[path = "transport_suite/memory.rs"]
mod memory;
#[path = "transport_suite/proxy.rs"]
mod proxy;
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
#[path = "transport_suite/under_way.rs"]
mod under_way;
#[cfg(feature = "verbs")]
#[path = "transport_suite/verbs.rs"]
mod verbs_only;
#[path = "transport_suite/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use proxy::Proxy;
use rand::{RngExt as _, SeedableRng as _};
use seam::arena::Arena;
use seam::transport::quic::QuicRail;
use seam::transport::{Blocks, Feed, PathError, Peer, Write, Written};
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
use under_way::{
    a_large_write_that_is_cancelled_under_way_is_quiet_and_nothing_of_it_lands_later,
    a_large_write_that_runs_into_its_deadline_is_a_timeout_and_quiet,
};
use world::{AMPLE, Kind, Ledger, Node, World, extent, lease, name};

const MIB: u64 = 1024 * 1024;

macro_rules! of {
    ($kind:ident: $($test:ident),+ $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            if super::Kind::$kind.is_here() {
                super::$test(super::World::new(super::Kind::$kind)).await;
            }
        })+
    };
}

/// What every backend does.
macro_rules! any_backend {
    ($kind:ident) => {
        of!($kind:
            a_thousand_scattered_blocks_arrive_in_order_and_nothing_else_changes,
            one_byte_and_whole_pages_arrive_alike,
            transfers_of_several_senders_at_once_do_not_mix,
            a_lease_that_is_unknown_held_by_another_too_small_or_used_is_refused_in_the_ledgers_words,
            a_lease_that_ends_under_way_fails_the_transfer,
            a_write_that_the_ledger_keeps_waiting_holds_up_neither_probes_nor_other_writes,
            extents_outside_the_receiving_arena_are_refused_and_the_lease_is_quiet,
            blocks_outside_the_sending_arena_are_a_local_fault,
            probes_of_any_size_come_back,
            a_probe_or_an_address_that_cannot_be_is_a_local_fault,
            a_peer_of_another_name_is_refused,
            a_peer_of_another_ca_is_refused,
            a_peer_that_is_not_there_fails_within_the_deadline,
            a_peer_that_restarted_is_used_again,
            parts_are_sent_while_their_source_is_being_written_and_waiting_for_it_takes_no_time,
            a_source_that_withdraws_the_rest_fails_the_write_and_leaves_the_lease_quiet,
            a_write_that_is_dropped_while_its_source_is_waited_for_leaves_the_lease_quiet,
        );

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "takes its time, and looks at the whole process: run by name"]
        async fn ten_thousand_transfers_leave_nothing_behind() {
            if super::Kind::$kind.is_here() {
                super::leaks::run(super::World::new(super::Kind::$kind)).await;
            }
        }
    };
}

/// What those do whose bytes go over the network between endpoints, where the suite can cut it.
macro_rules! over_quic {
    ($kind:ident) => {
        of!($kind:
            many_operations_at_once_share_one_connection_for_probes_and_one_for_bulk,
            a_peer_that_stops_under_way_fails_the_transfer_and_leaves_the_lease_quiet,
            a_peer_that_dies_under_way_without_a_word_times_out,
            a_cancelled_write_leaves_the_lease_quiet_and_no_byte_lands_later,
            a_peer_behind_a_cut_network_times_out_and_is_used_again_when_it_is_mended,
        );
    };
}

/// What those do whose bytes a library moves.
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
macro_rules! over_library {
    ($kind:ident) => {
        of!($kind:
            a_large_write_that_is_cancelled_under_way_is_quiet_and_nothing_of_it_lands_later,
            a_large_write_that_runs_into_its_deadline_is_a_timeout_and_quiet,
        );
    };
}

mod quic {
    any_backend!(Quic);
    over_quic!(Quic);
}

mod mock {
    any_backend!(Mock);
    over_quic!(Mock);
}

mod memory_fabric {
    any_backend!(Memory);
}

#[cfg(feature = "nixl")]
mod nixl {
    any_backend!(Nixl);
    over_library!(Nixl);
}

#[cfg(feature = "verbs")]
mod verbs {
    any_backend!(Verbs);
    over_library!(Verbs);
}

#[cfg(feature = "ucx")]
mod ucx {
    any_backend!(Ucx);
    over_library!(Ucx);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_versions_that_face_each_other_move_bytes_or_say_which_they_are() {
        if super::Kind::OldUcx.is_here() {
            for (ours, theirs) in [(super::Kind::Ucx, super::Kind::OldUcx), (super::Kind::OldUcx, super::Kind::Ucx)] {
                super::two_versions_move_bytes_or_say_which_they_are(ours, theirs).await;
            }
        }
    }
}

#[cfg(feature = "ucx")]
async fn two_versions_move_bytes_or_say_which_they_are(ours: Kind, theirs: Kind) {
    let world = World::new(ours);
    let (p, d) = (world.node("p", MIB), World::of(theirs, &world).node("d", MIB));
    p.fill(8);
    let blocks = [extent(5, 300_000)];
    d.ledger.grant(lease(1), "p", &blocks);
    let written = p.write_within(Duration::from_secs(8), &d.peer, lease(1), &blocks).await;
    println!("{ours:?} to {theirs:?}: {written:?}");
    match written {
        Ok(_) => assert!(d.bytes(&blocks) == p.bytes(&blocks)),
        Err(error) => assert!(error.to_string().contains("this side's UCX is"), "{error}"),
    }
}

async fn a_thousand_scattered_blocks_arrive_in_order_and_nothing_else_changes(world: World) {
    let (p, d) = (world.node("p", 20 * MIB), world.node("d", 24 * MIB));
    p.fill(1);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let mut blocks: Vec<_> =
        (0..998).map(|_| extent(rng.random_range(0..18 * MIB), rng.random_range(1..9_000))).collect();
    blocks.insert(100, extent(7, 8 * MIB));
    blocks.insert(500, extent(9 * MIB + 1, MIB - 3));
    let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
    let half = bytes / 2 + 1;
    let extents = [extent(12 * MIB + 13, half), extent(4_099, bytes - half)];
    d.ledger.grant(lease(1), "p", &extents);

    let written = p.write(&d.peer, lease(1), &blocks).await.unwrap();

    let sent = p.bytes(&blocks);
    assert!(d.bytes(&extents) == sent, "other bytes landed than were sent");
    assert!(d.untouched_outside(&extents));
    assert_eq!(written.bytes, bytes);
    assert_eq!(written.hash, *blake3::hash(&sent).as_bytes());
    let granted = d.ledger.of(&lease(1));
    assert_eq!((granted.delivered, granted.opened, granted.quiet), (Some((bytes, written.hash)), 1, 1));
}

async fn one_byte_and_whole_pages_arrive_alike(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    p.fill(3);
    for (number, bytes) in [1, 31, 32, 33, 4_096, 65_536, 262_144, 262_145].into_iter().enumerate() {
        let number = number as u64;
        let into = [extent(number + 1, MIB / 2)];
        d.ledger.grant(lease(number), "p", &into);
        p.write(&d.peer, lease(number), &[extent(3, bytes)]).await.unwrap();
        assert!(d.bytes(&[extent(number + 1, bytes)]) == p.bytes(&[extent(3, bytes)]), "{bytes} bytes");
    }
}

async fn transfers_of_several_senders_at_once_do_not_mix(world: World) {
    let d = world.node("d", 32 * MIB);
    let senders: Vec<_> = (0..3).map(|i| world.node(&format!("p{i}"), 2 * MIB)).collect();
    let mut moves = Vec::new();
    for number in 0..24_u64 {
        let sender = number as usize % senders.len();
        senders[sender].fill(sender as u64);
        let into = extent(number * MIB + 5, MIB - 5);
        d.ledger.grant(lease(number), &format!("p{sender}"), &[into]);
        moves.push((number, sender, extent(number * 1_001, MIB - 5), into));
    }
    let writes = moves.iter().map(|(number, sender, block, _)| {
        let sender = &senders[*sender];
        async { sender.write(&d.peer, lease(*number), std::slice::from_ref(block)).await }
    });
    for written in futures_util::future::join_all(writes).await {
        written.unwrap();
    }
    for (number, sender, block, into) in &moves {
        assert!(d.bytes(&[*into]) == senders[*sender].bytes(&[*block]), "transfer {number}");
    }
    let all: Vec<_> = moves.iter().map(|(.., into)| *into).collect();
    assert!(d.untouched_outside(&all));
}

fn refusal(result: Result<impl std::fmt::Debug, PathError>) -> String {
    match result {
        Err(PathError::Refused { detail, .. }) => detail,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn a_lease_that_is_unknown_held_by_another_too_small_or_used_is_refused_in_the_ledgers_words(world: World) {
    let (p, d) = (world.node("p", 12 * MIB), world.node("d", MIB));
    p.fill(4);
    let into = [extent(100, 1_000)];
    d.ledger.grant(lease(1), "q", &into);
    d.ledger.grant(lease(2), "p", &into);
    let block = [extent(0, 1_000)];
    let words = refusal(p.write(&d.peer, lease(9), &block).await);
    assert_eq!(words, "d.1.9 is unknown");
    let words = refusal(p.write(&d.peer, lease(1), &block).await);
    assert_eq!(words, "d.1.1 is not held by p");
    let words = refusal(p.write(&d.peer, lease(2), &[extent(0, 1_001)]).await);
    assert_eq!(words, "1001 bytes, d.1.2 has 1000");
    // More than any buffer on the way holds: the refusal must come while bytes still flow.
    let words = refusal(p.write(&d.peer, lease(2), &[extent(0, 12 * MIB)]).await);
    assert!(words.contains("d.1.2 has 1000"), "{words}");
    assert!(d.untouched_outside(&[]));

    p.write(&d.peer, lease(2), &block).await.unwrap();
    let words = refusal(p.write(&d.peer, lease(2), &[extent(5_000, 1_000)]).await);
    assert_eq!(words, "d.1.2 is in use");
    assert!(d.bytes(&into) == p.bytes(&block), "the refused write has changed nothing");
    assert_eq!(d.ledger.of(&lease(1)).quiet, 0);
}

async fn a_lease_that_ends_under_way_fails_the_transfer(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    d.ledger.grant(lease(1), "p", &[extent(0, 1_000)]);
    d.ledger.end(&lease(1));
    let words = refusal(p.write(&d.peer, lease(1), &[extent(0, 1_000)]).await);
    assert_eq!(words, "d.1.1 has ended");
    let granted = d.ledger.of(&lease(1));
    assert_eq!((granted.delivered, granted.quiet), (None, 1));
}

async fn a_write_that_the_ledger_keeps_waiting_holds_up_neither_probes_nor_other_writes(world: World) {
    let (p, d) = (world.node("p", 12 * MIB), world.node("d", 12 * MIB));
    p.fill(6);
    d.ledger.grant(lease(1), "p", &[extent(0, 10 * MIB)]);
    d.ledger.grant(lease(2), "p", &[extent(10 * MIB, 2 * MIB)]);
    d.ledger.hold(&lease(1), true);
    // More than the connection buffers for one stream.
    let blocks = [extent(0, 10 * MIB)];
    let mut waiting = std::pin::pin!(p.write(&d.peer, lease(1), &blocks));
    let meanwhile = async {
        p.probe(&d.peer, 64).await.unwrap();
        p.write(&d.peer, lease(2), &[extent(0, 2 * MIB)]).await.unwrap();
        p.probe(&d.peer, 1_000_000).await.unwrap();
    };
    tokio::select! {
        biased;
        result = &mut waiting => panic!("the ledger was not asked: {result:?}"),
        () = meanwhile => {}
    }
    assert_eq!(d.ledger.of(&lease(1)).opened, 0);
    d.ledger.hold(&lease(1), false);
    waiting.await.unwrap();
    assert!(d.bytes(&blocks) == p.bytes(&blocks));
}

async fn extents_outside_the_receiving_arena_are_refused_and_the_lease_is_quiet(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    let wrong = [vec![extent(MIB - 10, 11)], vec![extent(u64::MAX - 2, 11)], vec![extent(0, 8), extent(7, 8)]];
    for (number, extents) in wrong.iter().enumerate() {
        let id = lease(number as u64);
        d.ledger.grant(id.clone(), "p", extents);
        refusal(p.write(&d.peer, id.clone(), &[extent(0, 11)]).await);
        assert_eq!(d.ledger.of(&id).quiet, 1);
    }
    assert!(d.untouched_outside(&[]));
}

async fn blocks_outside_the_sending_arena_are_a_local_fault(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    d.ledger.grant(lease(1), "p", &[extent(0, MIB)]);
    for blocks in [vec![], vec![extent(0, 0)], vec![extent(MIB - 1, 2)], vec![extent(0, 1), extent(u64::MAX, 9)]] {
        let result = p.write(&d.peer, lease(1), &blocks).await;
        assert!(matches!(result, Err(PathError::Local(_))), "{blocks:?}: {result:?}");
    }
    assert_eq!(d.ledger.of(&lease(1)).opened, 0);
}

async fn probes_of_any_size_come_back(world: World) {
    let (p, d) = (world.node("p", 1), world.node("d", 1));
    for bytes in [0, 1, 64, 1_500, 65_536, 65_537, 3_000_000, 16 * 1024 * 1024] {
        let elapsed = p.probe(&d.peer, bytes).await.unwrap_or_else(|error| panic!("{bytes} bytes: {error}"));
        assert!(elapsed > Duration::ZERO);
    }
}

/// A write of 3 MiB into `lease(1)` of which the first part is there, has arrived, and is all that has.
async fn begun(p: &Node, d: &Node) -> (Feed, Blocks, tokio::task::JoinHandle<Result<Written, PathError>>) {
    p.fill(4);
    d.ledger.grant(lease(1), "p", &[extent(5, MIB), extent(2 * MIB, 2 * MIB)]);
    let first = extent(9, MIB + MIB / 2);
    let (feed, blocks) = Blocks::coming(3 * MIB, vec![first]);
    let (backend, peer) = (p.backend.clone(), d.peer.clone());
    let write = Write { lease: lease(1), blocks: blocks.clone(), deadline: AMPLE };
    let writing = tokio::spawn(async move { backend.write(&peer, write).await });
    let (there, sent) = ([extent(5, MIB), extent(2 * MIB, MIB / 2)], p.bytes(&[first]));
    while d.bytes(&there) != sent || blocks.waited().is_zero() {
        tokio::task::yield_now().await;
    }
    assert!(d.untouched_outside(&there));
    (feed, blocks, writing)
}

async fn parts_are_sent_while_their_source_is_being_written_and_waiting_for_it_takes_no_time(world: World) {
    let (p, d) = (world.node("p", 8 * MIB), world.node("d", 8 * MIB));
    let started = std::time::Instant::now();
    let (feed, blocks, writing) = begun(&p, &d).await;
    feed.give(&[extent(4 * MIB, 1), extent(5 * MIB + 3, MIB)], false);
    feed.give(&[extent(7 * MIB, MIB / 2 - 1)], false);
    // That it was the last is known later.
    while blocks.waiting().is_none() {
        tokio::task::yield_now().await;
    }
    feed.give(&[], true);
    let written = writing.await.unwrap().unwrap();
    let (waited, took) = (blocks.waited(), started.elapsed());
    let sent = p.bytes(&blocks.so_far());
    assert!(d.bytes(&[extent(5, MIB), extent(2 * MIB, 2 * MIB)]) == sent);
    assert_eq!((written.bytes, written.hash), (3 * MIB, *blake3::hash(&sent).as_bytes()));
    assert!(written.elapsed + waited <= took, "{:?} and {waited:?} of {took:?}", written.elapsed);
    let granted = d.ledger.of(&lease(1));
    assert_eq!((granted.delivered, granted.opened, granted.quiet), (Some((3 * MIB, written.hash)), 1, 1));
}

async fn a_source_that_withdraws_the_rest_fails_the_write_and_leaves_the_lease_quiet(world: World) {
    let (p, d) = (world.node("p", 8 * MIB), world.node("d", 8 * MIB));
    let (feed, _, writing) = begun(&p, &d).await;
    drop(feed);
    assert!(matches!(writing.await.unwrap(), Err(PathError::Local(_))));
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    assert_eq!(d.ledger.of(&lease(1)).delivered, None);
    p.probe(&d.peer, 64).await.unwrap();
}

async fn a_write_that_is_dropped_while_its_source_is_waited_for_leaves_the_lease_quiet(world: World) {
    let (p, d) = (world.node("p", 8 * MIB), world.node("d", 8 * MIB));
    let (feed, _, writing) = begun(&p, &d).await;
    writing.abort();
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    feed.give(&[extent(4 * MIB, MIB + MIB / 2)], true);
    assert_eq!(d.ledger.of(&lease(1)).delivered, None);
    p.probe(&d.peer, 64).await.unwrap();
}

async fn many_operations_at_once_share_one_connection_for_probes_and_one_for_bulk(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    let probes = (0..100).map(|_| p.probe(&d.peer, 64));
    assert!(futures_util::future::join_all(probes).await.iter().all(Result::is_ok));
    assert_eq!(d.quic().connections().accepted, 1);
    let bulk = (0..10).map(|_| p.probe(&d.peer, 100_000));
    assert!(futures_util::future::join_all(bulk).await.iter().all(Result::is_ok));
    assert_eq!(d.quic().connections().accepted, 2);
}

async fn a_probe_or_an_address_that_cannot_be_is_a_local_fault(world: World) {
    let (p, d) = (world.node("p", 1), world.node("d", 1));
    assert!(matches!(p.probe(&d.peer, 16 * 1024 * 1024 + 1).await, Err(PathError::Local(_))));
    let nowhere = Peer { address: "rack 7".to_owned(), ..d.peer.clone() };
    assert!(matches!(p.probe(&nowhere, 1).await, Err(PathError::Local(detail)) if detail.contains("rack 7")));
}

async fn a_peer_of_another_name_is_refused(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    d.ledger.grant(lease(1), "p", &[extent(0, 100)]);
    let pretended = Peer { node: name("e"), ..d.peer.clone() };
    let words = refusal(p.probe(&pretended, 64).await);
    assert!(words.contains("this is d, expected e"), "{words}");
    refusal(p.write(&pretended, lease(1), &[extent(0, 100)]).await);
    assert_eq!(d.ledger.of(&lease(1)).opened, 0);
}

async fn a_peer_of_another_ca_is_refused(world: World) {
    let elsewhere = world.elsewhere();
    let (p, d) = (elsewhere.node("p", MIB), world.node("d", MIB));
    d.ledger.grant(lease(1), "p", &[extent(0, 100)]);
    refusal(p.probe(&d.peer, 64).await);
    refusal(p.write(&d.peer, lease(1), &[extent(0, 100)]).await);
    refusal(d.probe(&p.peer, 64).await);
    assert_eq!(d.ledger.of(&lease(1)).opened, 0);
}

async fn a_peer_that_is_not_there_fails_within_the_deadline(world: World) {
    let p = world.node("p", MIB);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let absent = Peer { node: name("d"), address: silent.local_addr().unwrap().to_string() };
    let deadline = Duration::from_millis(300);
    let expected = PathError::TimedOut { peer: name("d"), limit_ms: 300, doubt: None };
    assert_eq!(p.backend.probe(&absent, 64, deadline).await, Err(expected.clone()));
    assert_eq!(p.write_within(deadline, &absent, lease(1), &[extent(0, 9)]).await, Err(expected));
}

/// A write of `p` to `d` that is open at `d` and cannot go on: the network between them is cut.
async fn stuck_write(p: Node, d: &Node, proxy: &Proxy) -> tokio::task::JoinHandle<Result<(), PathError>> {
    d.ledger.grant(lease(1), "p", &[extent(0, 16 * MIB)]);
    let through = Peer { address: proxy.addr.to_string(), ..d.peer.clone() };
    p.probe(&through, 64).await.unwrap();
    proxy.cut_after(i64::try_from(2 * MIB).unwrap());
    let writing = tokio::spawn(async move {
        p.write_within(Duration::from_secs(5), &through, lease(1), &[extent(0, 16 * MIB)]).await.map(drop)
    });
    d.ledger.until(&lease(1), |granted| granted.is_open).await;
    writing
}

async fn a_peer_that_stops_under_way_fails_the_transfer_and_leaves_the_lease_quiet(world: World) {
    let (p, d) = (world.node("p", 16 * MIB), world.node("d", 16 * MIB));
    let proxy = Proxy::to(d.addr).await;
    let writing = stuck_write(p, &d, &proxy).await;
    proxy.mend();
    d.backend.close().await;
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    // The peer said goodbye, or its goodbye was lost with the cut.
    let result = writing.await.unwrap();
    assert!(matches!(result, Err(PathError::PeerGone { .. } | PathError::TimedOut { .. })), "{result:?}");
    assert_eq!(d.ledger.of(&lease(1)).delivered, None);
}

async fn a_peer_that_dies_under_way_without_a_word_times_out(world: World) {
    let p = world.node("p", 16 * MIB);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let d = runtime.block_on_here(async { world.node("d", 16 * MIB) }).await;
    let proxy = Proxy::to(d.addr).await;
    let writing = stuck_write(p, &d, &proxy).await;
    kill(runtime).await;
    proxy.mend();
    let result = writing.await.unwrap();
    assert_eq!(result, Err(PathError::TimedOut { peer: name("d"), limit_ms: 5_000, doubt: None }));
}

async fn a_peer_that_restarted_is_used_again(world: World) {
    let p = world.node("p", MIB);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let d = runtime.block_on_here(async { world.node("d", MIB) }).await;
    p.probe(&d.peer, 64).await.unwrap();
    let addr = d.addr;
    kill(runtime).await;
    drop(d);
    let again = world.node_at(addr, "d", MIB);
    // The first attempt may still go to the life that is over.
    let mut attempts = Vec::new();
    while attempts.len() < 3 && !attempts.last().is_some_and(Result::is_ok) {
        attempts.push(p.backend.probe(&again.peer, 64, Duration::from_secs(2)).await);
    }
    assert!(attempts.last().is_some_and(Result::is_ok), "{attempts:?}");
    again.ledger.grant(lease(1), "p", &[extent(0, 100)]);
    p.write(&again.peer, lease(1), &[extent(0, 100)]).await.unwrap();
}

async fn a_cancelled_write_leaves_the_lease_quiet_and_no_byte_lands_later(world: World) {
    let (p, d) = (world.node("p", 16 * MIB), world.node("d", 16 * MIB));
    p.fill(5);
    let (sender, peer) = (p.backend.clone(), d.peer.clone());
    let proxy = Proxy::to(d.addr).await;
    let writing = stuck_write(p, &d, &proxy).await;
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    proxy.mend();
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    let served = async {
        while d.quic().counters().broken + d.quic().counters().refused == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AMPLE, served).await.expect("the stream was never ended");
    assert_eq!(d.quic().counters().refused, 0, "given up, not merely cut short");
    let at_quiet = d.bytes(&[extent(0, 16 * MIB)]);
    // A whole exchange over the same connections: whatever was on its way has arrived since.
    let through = Peer { address: proxy.addr.to_string(), ..peer };
    sender.probe(&through, 1_000_000, AMPLE).await.unwrap();
    assert!(d.bytes(&[extent(0, 16 * MIB)]) == at_quiet, "bytes landed after quiet");
    assert_eq!(d.ledger.of(&lease(1)).delivered, None);
}

async fn a_peer_behind_a_cut_network_times_out_and_is_used_again_when_it_is_mended(world: World) {
    let (p, d) = (world.node("p", MIB), world.node("d", MIB));
    let proxy = Proxy::to(d.addr).await;
    let through = Peer { address: proxy.addr.to_string(), ..d.peer.clone() };
    p.probe(&through, 64).await.unwrap();
    proxy.cut_after(0);
    let deadline = Duration::from_millis(250);
    let expected = PathError::TimedOut { peer: name("d"), limit_ms: 250, doubt: None };
    assert_eq!(p.backend.probe(&through, 64, deadline).await, Err(expected.clone()));
    assert_eq!(p.write_within(deadline, &through, lease(1), &[extent(0, 9)]).await, Err(expected));
    proxy.mend();
    p.probe(&through, 64).await.unwrap();
    d.ledger.grant(lease(1), "p", &[extent(0, 9)]);
    p.write(&through, lease(1), &[extent(0, 9)]).await.unwrap();
}

#[tokio::test]
async fn a_rail_that_peers_could_not_find_does_not_start() {
    let world = World::new(Kind::Quic);
    let (arena, ledger) = (Arc::new(Arena::anonymous(1).unwrap()), Arc::new(Ledger::default()));
    for bind in ["0.0.0.0:0", "[::]:0"] {
        let started = QuicRail::start(bind.parse().unwrap(), &world.identity("d"), arena.clone(), ledger.clone());
        let error = started.err().expect("it started").to_string();
        assert!(error.contains("address of its own network port"), "{error}");
    }
}

trait BlockOnHere {
    /// Runs `work` on the runtime, from within another one.
    async fn block_on_here<T: Send>(&self, work: impl Future<Output = T> + Send) -> T;
}

impl BlockOnHere for tokio::runtime::Runtime {
    async fn block_on_here<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        std::thread::scope(|scope| scope.spawn(|| self.block_on(work)).join().unwrap())
    }
}

/// Ends every task of a node at once, as a crash does: nothing is said to its peers.
async fn kill(runtime: tokio::runtime::Runtime) {
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(AMPLE)).await.unwrap();
}
