//! Agents whose bytes NIXL moves: processes on loopback, with the library that
//! `SEAM_NIXL_LIBRARY` names, or the one that is installed. Where there is none they say so and pass:
//! `testbed/nixl/run` brings one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod process;

use std::path::{Path, PathBuf};

use process::{Process, Setup, Site, request, until};
use seam::api::{PathLine, TransferReport, TransferRequest, TransferResult};
use seam::arena::Arena;
use seam::model::{Extent, LeaseId};
use tokio::sync::Mutex;

/// Agents measure time: two sites at once would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// What is sent at most: all of a prefill host's arena. A decode host has room for two, since one
/// that was asked in vain counts as used until its next word.
const LARGE: u64 = 256 << 20;

/// The library of an environment variable, or the one that is installed.
fn library(variable: &str) -> Option<PathBuf> {
    let configured = std::env::var_os(variable).map(PathBuf::from);
    if configured.is_none() && variable != "SEAM_NIXL_LIBRARY" {
        println!("skipped: {variable} is not set");
        return None;
    }
    let found = seam::transport::nixl::find(configured.as_deref());
    assert!(configured.is_none() || found.is_ok(), "{variable}: {found:?}");
    found.inspect_err(|error| println!("skipped: {error}")).ok().map(|found| found.path)
}

fn rail(library: &Path) -> String {
    format!("backend = \"nixl\"\n[rails.nixl]\nlibrary = \"{}\"", library.display())
}

fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn arena(site: &Site, node: &str) -> Arena {
    let bytes = if node.starts_with('d') { 2 * LARGE } else { LARGE };
    Arena::open(&site.path().join(format!("{node}.arena")), bytes).unwrap()
}

/// Two decode hosts and a prefill host, all ready.
async fn start(site: &Site, rail: &str) -> (Vec<Process>, Process) {
    let more = "[transfer]\nbudget = \"40s\"\n";
    let decode = Setup { arena_bytes: 2 * LARGE, rail, ..Setup::DECODE };
    let hosts = vec![site.start("d0", decode).await, site.start("d1", Setup { first: false, ..decode }).await];
    let p0 = site.start("p0", Setup { arena_bytes: LARGE, rail, more, ..Setup::PREFILL }).await;
    p0.settled(2).await;
    arena(site, "p0").write(0, &pattern(LARGE)).unwrap();
    (hosts, p0)
}

/// Why its first attempt failed.
fn why(report: &TransferReport) -> String {
    report.attempts[0].error.clone().unwrap_or_default()
}

async fn moved(p0: &Process, lease: &LeaseId, blocks: Vec<Extent>) -> TransferReport {
    p0.client.post("/v1/transfers", &TransferRequest { lease: lease.clone(), blocks, chunk: None }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scattered_blocks_of_every_size_arrive_as_they_were() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(library) = library("SEAM_NIXL_LIBRARY") else { return };
    let site = Site::new();
    let (_hosts, p0) = start(&site, &rail(&library)).await;
    assert!(p0.log().contains("the rail's bytes are moved by a library"), "{}", p0.log());
    for (count, bytes) in [(1, 1), (3, 4_097), (1_000, 1_001), (64, 512 * 1024), (1, 128 << 20)] {
        let blocks: Vec<Extent> = (0..count).map(|at| Extent { offset: at * (bytes + 13) + 5, bytes }).collect();
        let granted = p0.route(&request("batch", count * bytes)).await.unwrap();
        let lease = granted.lease.clone().unwrap_or_else(|| panic!("{granted:?}"));
        let report = moved(&p0, &lease.id, blocks.clone()).await;
        assert_eq!(report.result, TransferResult::Delivered, "{count} of {bytes}: {report:?}");
        let source = pattern(LARGE);
        let sent: Vec<u8> = blocks
            .iter()
            .flat_map(|block| &source[block.offset as usize..(block.offset + block.bytes) as usize])
            .copied()
            .collect();
        let hash = arena(&site, lease.id.node.as_str()).hash(&lease.extents, count * bytes).unwrap();
        assert_eq!(hash, *blake3::hash(&sent).as_bytes(), "{count} of {bytes}");
        p0.client.delete::<seam::api::Done>(&format!("/v1/leases/{}", lease.id)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_host_is_killed_fails_over() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(library) = library("SEAM_NIXL_LIBRARY") else { return };
    let site = Site::new();
    let (mut hosts, p0) = start(&site, &rail(&library)).await;
    let granted = p0.route(&request("batch", LARGE)).await.unwrap().lease.unwrap();
    let (lease, landing) = (granted.id, granted.extents[0].offset);
    let victim = usize::from(lease.node.as_str() == "d1");
    let kill = async {
        let (arena, sent) = (arena(&site, lease.node.as_str()), pattern(1_000));
        until("bytes land", async || {
            let mut head = [0; 1_000];
            arena.read_into(landing, &mut head).unwrap();
            head[..] == sent[..]
        })
        .await;
        hosts[victim].kill();
    };
    let (report, ()) = tokio::join!(moved(&p0, &lease, vec![Extent { offset: 0, bytes: LARGE }]), kill);
    assert_eq!((report.result, report.attempts.len()), (TransferResult::Delivered, 2), "{report:?}");
    assert_eq!(report.attempts[0].result, TransferResult::Failed);
    println!("the first attempt failed after {} ms: {}", report.attempts[0].elapsed_ms, why(&report));
    assert_eq!(report.hash.as_deref(), Some(blake3::hash(&pattern(LARGE)).to_hex().as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_has_no_nixl_says_so_and_goes_on_with_its_other_rails() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let nowhere = rail(Path::new("/nowhere/libnixl_capi.so"));
    let both = format!("{nowhere}\n[[rails]]\nname = \"r1\"\nbackend = \"quic\"\nbind = \"127.0.0.1:0\"");
    let d0 = site.start("d0", Setup { rail: &both, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { rail: &both, ..Setup::PREFILL }).await;
    p0.settled(1).await;
    for agent in [&d0, &p0] {
        assert!(agent.log().contains("no libnixl_capi.so in /nowhere;"), "{}", agent.log());
    }
    let lease = p0.leased(&request("batch", 70_000)).await;
    let report = moved(&p0, &lease, vec![Extent { offset: 0, bytes: 70_000 }]).await;
    assert_eq!(report.result, TransferResult::Delivered, "{report:?}");
    assert_eq!(report.attempts[0].path.rail.as_str(), "r1");

    // Without another rail there is nothing to go on with.
    let mut alone = site.spawn("p1", Setup { rail: &nowhere, ..Setup::PREFILL }, &[]);
    assert!(!alone.ended().await.success());
    assert!(alone.log().contains("rails.r0.backend"), "{}", alone.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libraries_that_may_not_understand_each_other_come_to_an_end_within_the_deadline() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (Some(new), Some(old)) = (library("SEAM_NIXL_LIBRARY"), library("SEAM_NIXL_OLD_LIBRARY")) else { return };
    let site = Site::new();
    let (new, old) = (rail(&new), rail(&old));
    let d0 = site.start("d0", Setup { rail: &old, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { rail: &new, ..Setup::PREFILL }).await;
    let mut line = None;
    until("the path is judged", async || {
        let lines: Vec<PathLine> = p0.client.get("/v1/paths").await.unwrap();
        line = lines.into_iter().find(|line| line.health.sample_count >= 5);
        line.is_some()
    })
    .await;
    // Either they get along, or the path is known to carry nothing, and why: nothing hangs.
    let line = line.unwrap();
    println!("{} to {}: {:?}", new, old, line.health);
    match p0.route(&request("batch", 70_000)).await.unwrap().lease {
        Some(lease) => {
            let report = moved(&p0, &lease.id, vec![Extent { offset: 0, bytes: 70_000 }]).await;
            assert!(report.result == TransferResult::Delivered || why(&report).contains("NIXL is"), "{report:?}");
        }
        None => assert!(!line.health.state.carries(), "{line:?}"),
    }
    drop(d0);
}
