//! Ten thousand transfers, after which the process must hold what it held after the first ones. Run by
//! name, and alone, since it looks at the whole process:
//! `cargo test --test transport_suite -- --ignored quic::ten_thousand`.

use std::fs;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use seam::model::Extent;
use tokio::sync::Mutex;

use crate::MIB;
use crate::world::{Node, World, extent, lease};

const TRANSFERS: u64 = 10_000;
/// What comes before the first look: every size, and several lives of the sender.
const WARM_UP: u64 = 2_000;
/// Transfers of one life of the sender, which then ends and is followed by another.
const LIFE: u64 = 500;
const AT_ONCE: u64 = 4;
const LARGEST_BYTES: u64 = 256 * 1024;
/// What the allocator may keep: the largest transfer in buffers of both ends for as many as there are
/// at once, and 2 MiB for what comes and goes beside. A leak of 420 bytes a transfer is more.
const SLACK_BYTES: u64 = 2 * AT_ONCE * LARGEST_BYTES + 2 * MIB;

/// Each looks at the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// What the process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    rss_bytes: u64,
}

fn held() -> Held {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let rss_bytes = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024;
    Held { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"), rss_bytes }
}

pub(crate) async fn run(world: World) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let d = world.node("d", AT_ONCE * LARGEST_BYTES);
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    lives(&world, &d, 0..WARM_UP, &mut rng).await;
    let before = held();
    lives(&world, &d, WARM_UP..WARM_UP + TRANSFERS, &mut rng).await;
    let after = held();
    println!("after {WARM_UP} transfers {before:?}, after {TRANSFERS} more {after:?}");
    assert!(after.descriptors <= before.descriptors, "descriptors: {before:?}, {after:?}");
    assert!(after.threads <= before.threads, "threads: {before:?}, {after:?}");
    assert!(after.rss_bytes <= before.rss_bytes + SLACK_BYTES, "memory: {before:?}, {after:?}");
}

/// Senders, one after another, each with its part of the transfers.
async fn lives(world: &World, d: &Node, numbers: std::ops::Range<u64>, rng: &mut ChaCha8Rng) {
    for first in numbers.step_by(LIFE as usize) {
        let p = world.node("p", MIB);
        p.fill(first);
        for number in (first..first + LIFE).step_by(AT_ONCE as usize) {
            let writes: Vec<_> = (0..AT_ONCE).map(|at| (number + at, at, blocks(rng))).collect();
            let writes = writes.iter().map(|(number, at, blocks)| transfer(&p, d, *number, *at, blocks));
            futures_util::future::join_all(writes).await;
        }
        p.backend.close().await;
    }
}

async fn transfer(p: &Node, d: &Node, number: u64, at: u64, blocks: &[Extent]) {
    let bytes = blocks.iter().map(|block| block.bytes).sum();
    let into = [extent(at * LARGEST_BYTES, bytes)];
    d.ledger.grant(lease(number), "p", &into);
    p.write(&d.peer, lease(number), blocks).await.unwrap();
    assert!(d.bytes(&into) == p.bytes(blocks), "transfer {number}");
    d.ledger.until(&lease(number), |granted| granted.quiet == 1).await;
    d.ledger.forget(&lease(number));
}

/// 1 byte to the largest size, the small ones as often as the large ones, in up to 16 blocks.
fn blocks(rng: &mut ChaCha8Rng) -> Vec<Extent> {
    let most = 1 << rng.random_range(0..=LARGEST_BYTES.ilog2());
    let count = rng.random_range(1..=16_u64.min(most));
    let each = most / count;
    (0..count).map(|_| extent(rng.random_range(0..=MIB - each), each)).collect()
}
