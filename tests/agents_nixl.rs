//! Agents whose bytes NIXL moves: processes on loopback, with the library that
//! `SEAM_NIXL_LIBRARY` names, or the one that is installed. Where there is none they say so and pass:
//! `testbed/nixl/run` brings one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/fabric.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod fabric;
#[path = "agents/process.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod process;

use std::path::{Path, PathBuf};

use fabric::{Kit, ONE_AT_A_TIME, moved, why};
use process::{Pace, Setup, Site, request, until};
use seam::api::{PathLine, TransferResult};
use seam::model::Extent;

const MORE: &str = "[transfer]\nbudget = \"40s\"\n";

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scattered_blocks_of_every_size_arrive_as_they_were() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(library) = library("SEAM_NIXL_LIBRARY") else { return };
    let kit = Kit { large: 256 << 20, rail: &|_| rail(&library), more: MORE, pace: Pace::USUAL };
    let cases = [(1, 1), (3, 4_097), (1_000, 1_001), (64, 512 * 1024), (1, 128 << 20)];
    kit.scattered_blocks_arrive_as_they_were(&cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_host_is_killed_fails_over() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(library) = library("SEAM_NIXL_LIBRARY") else { return };
    Kit { large: 256 << 20, rail: &|_| rail(&library), more: MORE, pace: Pace::USUAL }
        .a_transfer_whose_host_is_killed_fails_over()
        .await;
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
