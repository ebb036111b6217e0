//! Agents whose bytes a library moves, as processes on loopback: NIXL from where `SEAM_NIXL_LIBRARY`
//! says, UCX from where `SEAM_UCX_LIBRARY` says, or as they are installed. Where one is not they say so
//! and pass: `testbed/nixl/run` and `testbed/ucx/run` bring them.
#![cfg(any(feature = "nixl", feature = "ucx"))]
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
use rustix::process::Signal;
use seam::api::{PathLine, TransferResult};
use seam::model::Extent;

/// A library that moves bytes.
#[derive(Clone, Copy)]
struct Mover {
    backend: &'static str,
    /// Names its file, or the folder.
    variable: &'static str,
    file: &'static str,
    /// Where the library is, if it is there: what is named and is not, is an error.
    find: fn(Option<&Path>) -> Result<PathBuf, String>,
}

#[cfg(feature = "nixl")]
const NIXL: Mover = Mover {
    backend: "nixl",
    variable: "SEAM_NIXL_LIBRARY",
    file: "libnixl_capi.so",
    find: |named| seam::transport::nixl::find(named).map(|found| found.path).map_err(|error| error.to_string()),
};

#[cfg(feature = "ucx")]
const UCX: Mover = Mover {
    backend: "ucx",
    variable: "SEAM_UCX_LIBRARY",
    file: "libucp.so.0",
    find: |named| seam::transport::ucx::find(named).map(|found| found.path).map_err(|error| error.to_string()),
};

impl Mover {
    /// A rail over the library that the environment names, or that is installed.
    fn rail(self) -> Option<String> {
        let named = std::env::var_os(self.variable).map(PathBuf::from);
        let found = (self.find)(named.as_deref());
        assert!(named.is_none() || found.is_ok(), "{}: {found:?}", self.variable);
        found.inspect_err(|error| println!("skipped: {error}")).ok().map(|path| self.rail_with(&path))
    }

    /// A rail over the library that another variable names.
    fn rail_named(self, variable: &str) -> Option<String> {
        let named = std::env::var_os(variable).map(PathBuf::from);
        if named.is_none() {
            println!("skipped: {variable} is not set");
        }
        named.map(|named| self.rail_with(&(self.find)(Some(&named)).unwrap()))
    }

    fn rail_with(self, library: &Path) -> String {
        let backend = self.backend;
        // A mere name is the loader's to find.
        let library = match library.is_absolute() {
            true => format!("library = \"{}\"", library.display()),
            false => String::new(),
        };
        format!("backend = \"{backend}\"\n[rails.{backend}]\n{library}")
    }
}

macro_rules! of {
    ($($feature:literal $module:ident $mover:ident;)+) => {
        $(#[cfg(feature = $feature)]
        mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn scattered_blocks_of_every_size_arrive_as_they_were() {
                super::scattered_blocks_of_every_size_arrive_as_they_were(super::$mover).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_transfer_whose_host_is_killed_fails_over() {
                super::a_transfer_whose_host_is_killed_fails_over(super::$mover).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_sender_that_stood_still_under_way_does_not_go_on() {
                super::a_sender_that_stood_still_under_way_does_not_go_on(super::$mover).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_host_that_has_no_library_says_so_and_goes_on_with_its_other_rails() {
                super::a_host_that_has_no_library_says_so_and_goes_on_with_its_other_rails(super::$mover).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_host_reads_its_configuration_anew_and_ends_in_order() {
                super::a_host_reads_its_configuration_anew_and_ends_in_order(super::$mover).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn libraries_that_may_not_understand_each_other_come_to_an_end_within_the_deadline() {
                super::libraries_that_may_not_understand_each_other_come_to_an_end_within_the_deadline(super::$mover)
                    .await;
            }
        })+
    };
}

of! {
    "nixl" nixl NIXL;
    "ucx" ucx UCX;
}

/// What every such library does alike.
async fn with(mover: Mover, act: impl AsyncFnOnce(Kit<'_>)) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(rail) = mover.rail() else { return };
    let more = "[transfer]\nbudget = \"40s\"\n";
    act(Kit { large: 256 << 20, rail: &|_| rail.clone(), more, pace: Pace::USUAL }).await;
}

async fn scattered_blocks_of_every_size_arrive_as_they_were(mover: Mover) {
    let cases = [(1, 1), (3, 4_097), (1_000, 1_001), (64, 512 * 1024), (1, 128 << 20)];
    with(mover, async |kit| kit.scattered_blocks_arrive_as_they_were(&cases).await).await;
}

async fn a_transfer_whose_host_is_killed_fails_over(mover: Mover) {
    with(mover, async |kit| kit.a_transfer_whose_host_is_killed_fails_over().await).await;
}

async fn a_sender_that_stood_still_under_way_does_not_go_on(mover: Mover) {
    with(mover, async |kit| kit.a_sender_that_stood_still_under_way_does_not_go_on().await).await;
}

/// The libraries take signals for themselves, and do what they like at the process' end.
async fn a_host_reads_its_configuration_anew_and_ends_in_order(mover: Mover) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(rail) = mover.rail() else { return };
    let site = Site::new();
    // Whatever the tests themselves do without.
    let all = [("UCX_MODULES", "all")];
    let mut d0 = site.start_with("d0", Setup { rail: &rail, ..Setup::DECODE }, &all).await;
    assert!(d0.log().contains("the rail's bytes are moved by a library"), "{}", d0.log());
    d0.rewrite("max_sessions = 4", "max_sessions = 9");
    d0.signal(Signal::HUP);
    until("its configuration is read anew", async || d0.status().await.config_reloads == 1).await;
    d0.signal(Signal::TERM);
    let status = d0.ended().await;
    assert!(status.success(), "{status}: {}", d0.log());
}

async fn a_host_that_has_no_library_says_so_and_goes_on_with_its_other_rails(mover: Mover) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let nowhere = mover.rail_with(&Path::new("/nowhere").join(mover.file));
    let both = format!("{nowhere}\n[[rails]]\nname = \"r1\"\nbackend = \"quic\"\nbind = \"127.0.0.1:0\"");
    let d0 = site.start("d0", Setup { rail: &both, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { rail: &both, ..Setup::PREFILL }).await;
    p0.settled(1).await;
    for agent in [&d0, &p0] {
        assert!(agent.log().contains(&format!("no {} in /nowhere;", mover.file)), "{}", agent.log());
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

async fn libraries_that_may_not_understand_each_other_come_to_an_end_within_the_deadline(mover: Mover) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let other = mover.variable.replace("_LIBRARY", "_OLD_LIBRARY");
    let (Some(new), Some(old)) = (mover.rail(), mover.rail_named(&other)) else { return };
    let site = Site::new();
    let d0 = site.start("d0", Setup { rail: &old, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { rail: &new, ..Setup::PREFILL }).await;
    let mut line = None;
    until("the path is judged", async || {
        let lines: Vec<PathLine> = p0.client.get("/v1/paths").await.unwrap();
        line = lines.into_iter().find(|line| line.health.sample_count >= 5);
        line.is_some()
    })
    .await;
    // Whatever comes of it, the operator is told, once.
    let log = p0.log();
    let told = "the peer's library is of another version";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(log.contains(&format!("this side's {} is ", mover.backend.to_uppercase())), "{log}");
    // Either they get along, or the path is known to carry nothing, and why: nothing hangs.
    let line = line.unwrap();
    println!("{} to {}: {:?}", new, old, line.health);
    match p0.route(&request("batch", 70_000)).await.unwrap().lease {
        Some(lease) => {
            let report = moved(&p0, &lease.id, vec![Extent { offset: 0, bytes: 70_000 }]).await;
            assert!(report.result == TransferResult::Delivered || why(&report).contains("the peer's"), "{report:?}");
        }
        None => assert!(!line.health.state.carries(), "{line:?}"),
    }
    drop(d0);
}
