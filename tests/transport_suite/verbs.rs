//! What verbs do beyond every backend: a peer that is gone is known to be within the device's own patience.

use std::time::{Duration, Instant};

use seam::transport::PathError;

use crate::world::{Kind, World, extent, lease};
use crate::{BlockOnHere as _, MIB, kill};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_receiver_is_gone_under_way_fails_long_before_its_deadline() {
    if !Kind::Verbs.is_here() {
        return;
    }
    let world = World::new(Kind::Verbs);
    let p = world.node("p", 64 * MIB);
    p.fill(9);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let d = runtime.block_on_here(async { world.node("d", 64 * MIB) }).await;
    let whole = [extent(0, 64 * MIB)];
    d.ledger.grant(lease(1), "p", &whole);
    let (peer, arena, sent) = (d.peer.clone(), d.arena.clone(), p.bytes(&[extent(0, 1_000)]));
    let writing = tokio::spawn(async move { (p.write(&peer, lease(1), &whole).await, Instant::now()) });
    let mut head = vec![0; 1_000];
    while head != sent {
        arena.read_into(0, &mut head).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(d);
    kill(runtime).await;
    let gone = Instant::now();
    let (result, failed) = writing.await.unwrap();
    assert!(matches!(&result, Err(PathError::PeerGone { .. })), "{result:?}");
    let late = failed.saturating_duration_since(gone).as_millis();
    println!("gone under way: the write failed {late} ms later: {}", result.unwrap_err());
}
