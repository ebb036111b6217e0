//! Ten thousand transfers, after which the process must hold what it held after the first ones. Run by
//! name, and alone, since it looks at the whole process:
//! `cargo test --test transport_suite -- --ignored quic::ten_thousand`.

use std::fs;
use std::ops::Range;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use seam::model::Extent;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::MIB;
use crate::world::{AMPLE, Node, World, extent, lease};

const TRANSFERS: u64 = 10_000;
/// What comes before the first look: every size, often enough for every buffer to have grown.
const WARM_UP: u64 = 2_000;
/// Senders that come and go before and after.
const LIVES: u64 = 5;
/// Transfers of each.
const LIFE: u64 = 100;
const AT_ONCE: u64 = 4;
const LARGEST_BYTES: u64 = 256 * 1024;
/// What the allocator may keep: the largest transfer in buffers of both ends for as many as there are
/// at once, and 1 MiB for what comes and goes beside. A leak of 315 bytes a transfer is more.
const SLACK_BYTES: u64 = 2 * AT_ONCE * LARGEST_BYTES + MIB;

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

impl Held {
    /// What is held once no more descriptors and threads are than before. What is closing takes its
    /// moment to be closed.
    async fn no_more(self, what: &str) -> Self {
        let until = Instant::now() + AMPLE;
        loop {
            let now = held();
            if now.descriptors <= self.descriptors && now.threads <= self.threads {
                println!("{what}: {self:?}, then {now:?}");
                return now;
            }
            assert!(Instant::now() < until, "{what}: {self:?}, then {now:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn run(world: World) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let d = world.node("d", AT_ONCE * LARGEST_BYTES);
    let mut next = 0;
    let mut some = |transfers: u64| {
        next += transfers;
        next - transfers..next
    };
    // The first brings what is loaded once.
    life(&world, &d, some(LIFE), &mut rng).await;
    let before = held();

    let p = world.node("p", MIB);
    p.fill(1);
    transfers(&p, &d, some(WARM_UP), &mut rng).await;
    let warm = held();
    transfers(&p, &d, some(TRANSFERS), &mut rng).await;
    let after = warm.no_more(&format!("{TRANSFERS} transfers")).await;
    assert!(after.rss_bytes <= warm.rss_bytes + SLACK_BYTES, "memory: {warm:?}, {after:?}");
    p.backend.close().await;
    drop(p);

    // Of their memory the allocator may keep what each of its pools has seen of one sender, so only
    // what is open is looked at.
    for _ in 0..LIVES {
        life(&world, &d, some(LIFE), &mut rng).await;
    }
    before.no_more(&format!("{LIVES} senders")).await;
}

/// A sender that comes, sends and goes.
async fn life(world: &World, d: &Node, numbers: Range<u64>, rng: &mut ChaCha8Rng) {
    let p = world.node("p", MIB);
    p.fill(numbers.start);
    transfers(&p, d, numbers, rng).await;
    p.backend.close().await;
}

async fn transfers(p: &Node, d: &Node, numbers: Range<u64>, rng: &mut ChaCha8Rng) {
    for first in numbers.step_by(AT_ONCE as usize) {
        let writes: Vec<_> = (0..AT_ONCE).map(|at| (first + at, at, blocks(rng))).collect();
        let writes = writes.iter().map(|(number, at, blocks)| transfer(p, d, *number, *at, blocks));
        futures_util::future::join_all(writes).await;
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
