//! Agents whose bytes RDMA verbs move, over the devices that `SEAM_VERBS_DEVICES` names: sender, receiver, and so on
//! for a second rail. Where there are none they say so and pass: `testbed/rdma-vm/run` makes some.
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

use std::process::Command;

use fabric::{Kit, ONE_AT_A_TIME, moved};
use process::{Pace, Process, Setup, Site, request, until};
use seam::api::{PathLine, TransferReport, TransferResult};
use seam::model::{Extent, PathState};

/// Emulated machines are slow: nothing of this is about speed.
const MORE: &str = "[transfer]\nbudget = \"40s\"\n[policy.thresholds]\nlatency_degraded_ms = 50\nlatency_restricted_ms = 150\n\
    latency_quarantine_ms = 400\njitter_degraded_ms = 20\njitter_restricted_ms = 80\n";

/// The devices, sender and receiver of each rail.
fn devices() -> Option<Vec<(String, String)>> {
    let named = std::env::var("SEAM_VERBS_DEVICES").ok().filter(|named| !named.is_empty());
    if named.is_none() {
        println!("skipped: SEAM_VERBS_DEVICES is not set");
    }
    let named: Vec<String> = named?.split(',').map(str::to_owned).collect();
    Some(named.chunks(2).map(|pair| (pair[0].clone(), pair[pair.len() - 1].clone())).collect())
}

/// A node's end of the first `rails` rails.
fn rails(devices: &[(String, String)], rails: usize, node: &str) -> String {
    let one = |(at, (sender, receiver)): (usize, &(String, String))| {
        let device = if node.starts_with('d') { receiver } else { sender };
        let begin = match at {
            0 => "group = \"g0\"\n".to_owned(),
            _ => {
                format!("[[rails]]\nname = \"r{at}\"\ngroup = \"g{at}\"\nbind = \"127.0.0.1:0\"\nbandwidth_gbps = 8\n")
            }
        };
        format!("{begin}backend = \"verbs\"\n[rails.verbs]\ndevice = \"{device}\"\n")
    };
    devices.iter().take(rails).enumerate().map(one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scattered_blocks_of_every_size_arrive_as_they_were() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(devices) = devices() else { return };
    let kit = Kit { large: 64 << 20, rail: &|node| rails(&devices, 1, node), more: MORE, pace: Pace::EMULATED };
    let cases = [(1, 1), (3, 4_097), (1_000, 1_001), (16, 512 * 1024), (1, 32 << 20)];
    kit.scattered_blocks_arrive_as_they_were(&cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_host_is_killed_fails_over() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(devices) = devices() else { return };
    let kit = Kit { large: 64 << 20, rail: &|node| rails(&devices, 1, node), more: MORE, pace: Pace::EMULATED };
    kit.a_transfer_whose_host_is_killed_fails_over().await;
}

async fn line(p0: &Process, rail: &str) -> PathLine {
    let lines: Vec<PathLine> = p0.client.get("/v1/paths").await.unwrap();
    lines.into_iter().find(|line| line.path.rail.as_str() == rail).unwrap()
}

/// The records of a transfer's attempts.
async fn decided(p0: &Process, report: &TransferReport) -> String {
    let mut records = String::new();
    for attempt in &report.attempts {
        let path = format!("/v1/decisions/{}", attempt.decision);
        records.push_str(&p0.client.text(&path).await.unwrap_or_else(|error| error.to_string()));
    }
    records
}

/// Routes and moves so many requests of a class; says over which rails they went.
async fn served(p0: &Process, workload: &str, requests: usize) -> Vec<String> {
    let mut rails = Vec::new();
    for at in 0..requests {
        let lease = p0.leased(&request(workload, 65_536)).await;
        let report = moved(p0, &lease, vec![Extent { offset: at as u64 * 65_536 % (1 << 20), bytes: 65_536 }]).await;
        if report.result != TransferResult::Delivered {
            panic!("{report:?}\nas decided: {}", decided(p0, &report).await);
        }
        rails.push(report.attempts.last().unwrap().path.rail.as_str().to_owned());
        p0.client.delete::<seam::api::Done>(&format!("/v1/leases/{lease}")).await.unwrap();
    }
    rails
}

/// What the program that `SEAM_VERBS_WIRE` names does to the first rail's sender: `bad`, `good`, `down` or `up`.
struct Wire(String);

impl Wire {
    fn here() -> Option<Self> {
        let program = std::env::var("SEAM_VERBS_WIRE").ok();
        if program.is_none() {
            println!("skipped: SEAM_VERBS_WIRE is not set");
        }
        program.map(Self)
    }

    fn is(&self, word: &str) {
        let status = Command::new(&self.0).arg(word).status().unwrap();
        assert!(status.success(), "{} {word}: {status}", self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_with_jitter_and_loss_is_left_by_strict_work_and_taken_again_once_it_is_mended() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (Some(devices), Some(wire)) = (devices(), Wire::here()) else { return };
    let site = Site::new();
    let kit = Kit { large: 4 << 20, rail: &|node| rails(&devices, 2, node), more: MORE, pace: Pace::EMULATED };
    let (_hosts, p0) = kit.start(&site, &["d0"], 2).await;
    let over = served(&p0, "batch", 300).await;
    let first = over.iter().filter(|rail| *rail == "r0").count();
    println!("batch: {} requests moved and verified, {first} of them over r0", over.len());

    wire.is("bad");
    until("r0 is no longer healthy", async || line(&p0, "r0").await.health.state != PathState::Healthy).await;
    println!("jitter and loss on r0: {:?}", line(&p0, "r0").await.health);
    let over = served(&p0, "interactive", 20).await;
    assert!(over.iter().all(|rail| rail == "r1"), "{over:?}");

    wire.is("good");
    p0.settled(2).await;
    println!("mended: {:?}", line(&p0, "r0").await.health.state);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_paths_of_a_port_that_is_down_fail_and_are_used_again_once_it_carries() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (Some(devices), Some(wire)) = (devices(), Wire::here()) else { return };
    let site = Site::new();
    let kit = Kit { large: 4 << 20, rail: &|node| rails(&devices, 2, node), more: MORE, pace: Pace::EMULATED };
    let (_hosts, p0) = kit.start(&site, &["d0"], 2).await;
    wire.is("down");
    // Until then it is strained, and the only way for strict work wherever r1 is late for a moment.
    until("r0 carries nothing", async || !line(&p0, "r0").await.health.state.carries()).await;
    let told = "seam_rail_device_errors_total{rail=\"r0\",counter=\"event_port\"}";
    until("the port's event is counted", async || p0.metric(told).await.is_some_and(|count| count >= 1.0)).await;
    assert!(p0.log().contains("port 1 of rxe0 is in the state"), "{}", p0.log());
    let over = served(&p0, "interactive", 5).await;
    assert!(over.iter().all(|rail| rail == "r1"), "{over:?}");
    wire.is("up");
    p0.settled(2).await;
    assert!(p0.log().contains("the port carries again"), "{}", p0.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_has_no_library_or_no_device_says_so_and_goes_on_with_its_other_rails() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let pace = Pace::EMULATED;
    let nowhere = "backend = \"verbs\"\n[rails.verbs]\nlibrary = \"/nowhere/libibverbs.so.1\"\n";
    let unknown = "backend = \"verbs\"\n[rails.verbs]\ndevice = \"nosuch0\"\n";
    let other = "[[rails]]\nname = \"r1\"\nbackend = \"quic\"\nbind = \"127.0.0.1:0\"";
    let d0 = site.start("d0", Setup { rail: &format!("{nowhere}{other}"), pace, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { rail: &format!("{unknown}{other}"), pace, more: MORE, ..Setup::PREFILL }).await;
    p0.settled(1).await;
    let log = d0.log();
    assert!(log.contains("/nowhere/libibverbs.so.1: ") && log.contains("install it with its drivers"), "{log}");
    // This host may have no library, no device at all, or others.
    let words = ["install it with its drivers", "this host has no RDMA device", "there is no RDMA device nosuch0"];
    assert!(words.iter().any(|words| p0.log().contains(words)), "{}", p0.log());
    let lease = p0.leased(&request("batch", 70_000)).await;
    let report = moved(&p0, &lease, vec![Extent { offset: 0, bytes: 70_000 }]).await;
    assert_eq!(report.result, TransferResult::Delivered, "{report:?}");
    assert_eq!(report.attempts[0].path.rail.as_str(), "r1");

    // Without another rail there is nothing to go on with.
    let mut alone = site.spawn("p1", Setup { rail: nowhere, ..Setup::PREFILL }, &[]);
    assert!(!alone.ended().await.success());
    assert!(alone.log().contains("rails.r0.backend"), "{}", alone.log());
}
