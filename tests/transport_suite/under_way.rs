//! What a library does with a large write that is given up while it moves its bytes.
//!
//! No library can be held up at a given byte, so each test tries until it has met a write under way.

use std::time::Duration;

use seam::transport::{PathError, Write};

use crate::world::{Node, World, extent, lease, name};
use crate::{AMPLE, MIB};

const BYTES: u64 = 64 * MIB;
/// Writes that may end before they are given up, or be given up before they have begun.
const TRIES: u64 = 20;

/// Grants `lease(number)`, and begins to write other bytes than before into it.
fn begin(p: &Node, d: &Node, number: u64, deadline: Duration) -> tokio::task::JoinHandle<Result<(), PathError>> {
    p.fill(number);
    d.ledger.grant(lease(number), "p", &[extent(0, BYTES)]);
    let (backend, peer) = (p.backend.clone(), d.peer.clone());
    let write = Write { lease: lease(number), blocks: vec![extent(0, BYTES)].into(), deadline };
    tokio::spawn(async move { backend.write(&peer, write).await.map(drop) })
}

/// Waits until its write is over; true if that was given up before all of it had landed.
async fn was_met_under_way(p: &Node, d: &Node, number: u64) -> bool {
    d.ledger.until(&lease(number), |granted| granted.quiet + granted.unfinished == 1).await;
    d.bytes(&[extent(0, BYTES)]) != p.bytes(&[extent(0, BYTES)])
}

/// The lease is quiet, since its sender has said that nothing is under way any more, and nothing lands from then on.
async fn ends_for_good(p: &Node, d: &Node, number: u64) {
    let granted = d.ledger.of(&lease(number));
    assert_eq!((granted.delivered, granted.quiet, granted.unfinished, d.refusals("fenced")), (None, 1, 0, 0));
    let at_quiet = d.bytes(&[extent(0, BYTES)]);
    // As much again as the library had under way at most.
    for _ in 0..16 {
        p.probe(&d.peer, 1_000_000).await.unwrap();
    }
    assert!(d.bytes(&[extent(0, BYTES)]) == at_quiet, "bytes landed after quiet");
    d.ledger.grant(lease(number + 1_000), "p", &[extent(0, BYTES)]);
    p.write(&d.peer, lease(number + 1_000), &[extent(0, BYTES)]).await.unwrap();
    assert!(d.bytes(&[extent(0, BYTES)]) == p.bytes(&[extent(0, BYTES)]));
}

pub(crate) async fn a_large_write_that_is_cancelled_under_way_is_quiet_and_nothing_of_it_lands_later(world: World) {
    let (p, d) = (world.node("p", BYTES), world.node("d", BYTES));
    p.probe(&d.peer, 64).await.unwrap();
    for number in 1..=TRIES {
        let writing = begin(&p, &d, number, AMPLE);
        let sent = p.bytes(&[extent(0, 1_000)]);
        while d.bytes(&[extent(0, 1_000)]) != sent {
            tokio::task::yield_now().await;
        }
        writing.abort();
        if was_met_under_way(&p, &d, number).await {
            return ends_for_good(&p, &d, number).await;
        }
    }
    panic!("{TRIES} writes had landed before they could be cancelled");
}

pub(crate) async fn a_large_write_that_runs_into_its_deadline_is_a_timeout_and_quiet(world: World) {
    let (p, d) = (world.node("p", BYTES), world.node("d", BYTES));
    let begun = std::time::Instant::now();
    begin(&p, &d, 100, AMPLE).await.unwrap().unwrap();
    let mut deadline = begun.elapsed() / 2;
    for number in 1..=TRIES {
        let result = begin(&p, &d, number, deadline).await.unwrap();
        let Err(error) = result else {
            deadline = deadline * 2 / 3;
            continue;
        };
        let limit_ms = u64::try_from(deadline.as_millis()).unwrap();
        assert_eq!(error, PathError::TimedOut { peer: name("d"), limit_ms, doubt: None });
        if d.ledger.of(&lease(number)).opened == 0 {
            deadline = deadline * 5 / 4;
        } else if was_met_under_way(&p, &d, number).await {
            return ends_for_good(&p, &d, number).await;
        } else {
            deadline = deadline * 2 / 3;
        }
    }
    panic!("of {TRIES} writes all had landed before their deadline, or not begun by then");
}
