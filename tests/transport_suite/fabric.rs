//! What fabric rails do beyond every backend: sessions, and fences where a put is given up.

use std::time::Duration;

use seam::transport::{PathError, Write};

use crate::memory::DOUBT;
use crate::world::{AMPLE, Kind, Node, World, extent, lease, name};
use crate::{MIB, refusal};

/// A write of `p` to `d` that is open at `d` and stands still after 2 MiB.
async fn stuck_write(p: &Node, d: &Node, deadline: Duration) -> tokio::task::JoinHandle<Result<(), PathError>> {
    p.fill(7);
    d.ledger.grant(lease(1), "p", &[extent(0, 16 * MIB)]);
    p.held.after(Some(2 * MIB));
    let (backend, peer) = (p.backend.clone(), d.peer.clone());
    let writing = tokio::spawn(async move {
        let blocks = vec![extent(0, 16 * MIB)].into();
        backend.write(&peer, Write { lease: lease(1), blocks, deadline }).await.map(drop)
    });
    let sent = p.bytes(&[extent(0, 2 * MIB)]);
    d.ledger.until(&lease(1), |granted| granted.is_open).await;
    while d.bytes(&[extent(0, 2 * MIB)]) != sent {
        tokio::task::yield_now().await;
    }
    writing
}

async fn nothing_lands(d: &Node, after: impl AsyncFnOnce()) {
    let at_quiet = d.bytes(&[extent(0, 16 * MIB)]);
    after().await;
    assert!(d.bytes(&[extent(0, 16 * MIB)]) == at_quiet, "bytes landed after quiet");
    assert_eq!(d.ledger.of(&lease(1)).delivered, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_cancelled_under_way_is_quiet_once_nothing_of_it_can_land() {
    for kind in [Kind::Memory, Kind::Unfenced] {
        let world = World::new(kind);
        let (p, d) = (world.node("p", 16 * MIB), world.node("d", 16 * MIB));
        let writing = stuck_write(&p, &d, AMPLE).await;
        writing.abort();
        d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
        let later = async || {
            p.held.after(None);
            d.ledger.grant(lease(2), "p", &[extent(15 * MIB, 9)]);
            // The session goes on: only what was cancelled is over.
            p.probe(&d.peer, 1_000_000).await.unwrap();
        };
        nothing_lands(&d, later).await;
        assert_eq!(d.refusals("fenced"), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_runs_into_its_deadline_is_a_timeout_with_what_its_link_suspects_and_quiet() {
    let world = World::new(Kind::Unfenced);
    let (p, d) = (world.node("p", 16 * MIB), world.node("d", 16 * MIB));
    // Longer than the receiver would wait for one that says nothing.
    p.held.drains(Duration::from_millis(1_500));
    let writing = stuck_write(&p, &d, Duration::from_millis(700)).await;
    let result = writing.await.unwrap();
    let late = |limit_ms| PathError::TimedOut { peer: name("d"), limit_ms, doubt: Some(DOUBT.to_owned()) };
    assert_eq!(result, Err(late(700)));
    assert_eq!(result.unwrap_err().to_string(), format!("no answer from d within 700 ms; {DOUBT}"));
    assert_eq!(d.ledger.of(&lease(1)).quiet, 0, "its last bytes may still land");
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    assert_eq!((d.ledger.of(&lease(1)).unfinished, d.refusals("fenced")), (0, 0));
    let probed = p.backend.probe(&d.peer, 3_000_000, Duration::from_millis(200)).await;
    assert_eq!(probed, Err(late(200)));
    nothing_lands(&d, async || p.held.after(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_dies_under_way_leaves_the_lease_fenced_where_its_entry_does_not_keep_it_out() {
    for (kind, quiet) in [(Kind::Memory, 1), (Kind::Unfenced, 0)] {
        let world = World::new(kind);
        let d = world.node("d", 16 * MIB);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let p = crate::BlockOnHere::block_on_here(&runtime, async { world.node("p", 16 * MIB) }).await;
        let writing = stuck_write(&p, &d, AMPLE).await;
        p.backend.close().await;
        writing.abort();
        match quiet {
            1 => d.ledger.until(&lease(1), |granted| granted.quiet == 1).await,
            _ => d.ledger.until(&lease(1), |granted| granted.unfinished == 1).await,
        }
        let granted = d.ledger.of(&lease(1));
        assert_eq!((granted.quiet, granted.unfinished), (quiet, 1 - quiet));
        assert_eq!(d.refusals("fenced"), u64::from(1 - quiet));
        crate::kill(runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_void_stops_its_put_before_it_is_quiet() {
    let world = World::new(Kind::Unfenced);
    let (p, d) = (world.node("p", 16 * MIB), world.node("d", 16 * MIB));
    let writing = stuck_write(&p, &d, AMPLE).await;
    d.ledger.void(&lease(1));
    let words = refusal(writing.await.unwrap());
    assert_eq!(words, "the lease was voided while its bytes came");
    d.ledger.until(&lease(1), |granted| granted.quiet == 1).await;
    nothing_lands(&d, async || p.held.after(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_of_another_kind_is_refused() {
    let world = World::new(Kind::Memory);
    let p = world.node("p", MIB);
    let other = World::of(Kind::Quic, &world);
    let d = other.node("d", MIB);
    let error = p.probe(&d.peer, 64).await.unwrap_err();
    assert!(matches!(error, PathError::Refused { .. }), "{error:?}");
}
