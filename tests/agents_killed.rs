//! Agents that are killed or stopped in the middle of something: processes, signals, loopback.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod process;

use std::time::Duration;

use process::{Process, Setup, Site, request, until};
use rustix::process::Signal;
use seam::api::{Done, PathLine, RouteRequest, TransferResult};
use seam::arena::Arena;
use seam::model::{Extent, Lease};
use seam::policy::record::DecisionRecord;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Agents measure time: two sites at once would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Within this time whatever is dead must be gone from every view.
const GONE_WITHIN: Duration = Duration::from_secs(10);

const LARGE: u64 = 256 << 20;

/// Leases that end by themselves long after any of these tests.
const LASTING: &str = "[transfer]\nlease_ttl = \"10m\"\n";

fn without(node: &str, kv_bytes: u64) -> RouteRequest {
    RouteRequest { exclude: vec![node.parse().unwrap()], ..request("batch", kv_bytes) }
}

async fn records_of(agent: &Process, node: &str) -> usize {
    let records: Vec<Value> = agent.client.get("/v1/records").await.unwrap();
    records.iter().filter(|record| record["origin"] == node || record["node"] == node).count()
}

async fn paths_to(agent: &Process, node: &str) -> usize {
    let paths: Vec<PathLine> = agent.client.get("/v1/paths").await.unwrap();
    paths.iter().filter(|line| line.path.destination.as_str() == node).count()
}

async fn report(agent: &Process, active_sessions: u32) {
    let _: Done = agent.client.put("/v1/capacity", &json!({"active_sessions": active_sessions})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_host_is_killed_fails_over_within_its_budget_and_both_attempts_are_recorded() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let large = |setup| Setup { arena_bytes: LARGE, ..setup };
    let mut hosts = [
        site.start("d0", large(Setup::DECODE)).await,
        site.start("d1", large(Setup { first: false, ..Setup::DECODE })).await,
    ];
    // A budget that a busy machine can keep: half of it is for the first attempt.
    let more = "[transfer]\nbudget = \"40s\"\n";
    let p0 = site.start("p0", large(Setup { more, ..Setup::PREFILL })).await;
    p0.settled(2).await;
    let arena = |node: &str| Arena::open(&site.path().join(format!("{node}.arena")), LARGE).unwrap();
    let pattern: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
    arena("p0").write(0, &pattern).unwrap();
    let mut events = p0.client.events("/v1/events").await.unwrap();

    let first = p0.route(&request("batch", LARGE)).await.unwrap();
    let lease = first.lease.clone().unwrap().id;
    let victim = usize::from(lease.node.as_str() == "d1");
    let landing = first.lease.clone().unwrap().extents[0];
    let kill = async {
        // In the middle of the transfer: its first bytes have landed, none is confirmed.
        let arena = arena(lease.node.as_str());
        until("bytes land", async || {
            let mut head = [0; 1000];
            arena.read_into(landing.offset, &mut head).unwrap();
            head == pattern[..1000]
        })
        .await;
        hosts[victim].kill();
    };
    let (report, ()) = tokio::join!(p0.transfer(&lease, LARGE), kill);
    let report = report.unwrap();

    assert_eq!(report.result, TransferResult::Delivered, "{report:?}");
    assert_eq!(report.attempts.len(), 2, "{report:?}");
    assert_eq!(report.attempts[0].result, TransferResult::Failed);
    assert_ne!(report.attempts[0].path.destination, report.attempts[1].path.destination);
    assert!(report.elapsed_ms < 40_000.0);
    assert_eq!(report.hash.as_deref(), Some(blake3::hash(&pattern).to_hex().as_str()));
    let second: DecisionRecord =
        p0.client.get(&format!("/v1/decisions/{}", report.attempts[1].decision)).await.unwrap();
    assert_eq!((second.attempt, second.parent.as_ref()), (2, Some(&first.id)));
    let failed = second.candidates.iter().find(|c| c.target.node.as_ref() == Some(&lease.node));
    // The host may have left the view already; while it is in it, the record says what happened.
    if let Some(failed) = failed {
        assert!(failed.detail.as_ref().is_some_and(|detail| detail.contains("attempt 1 of this request failed here")));
    }
    until("the event of the transfer", async || {
        let event = events.next().await.unwrap().unwrap();
        event.data.contains("\"kind\":\"transfer\"") && event.data.contains("\"delivered\"")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_is_gone_from_every_view_with_all_that_it_held_and_is_used_again() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let mut d0 = site.start("d0", Setup::DECODE).await;
    let d1 = site.start("d1", Setup { first: false, ..Setup::DECODE }).await;
    let lasting = Setup { more: LASTING, ..Setup::PREFILL };
    let p0 = site.start("p0", lasting).await;
    let mut p1 = site.start("p1", lasting).await;
    for prefill in [&p0, &p1] {
        prefill.settled(2).await;
    }

    // A prefill host with leases on both.
    for other in ["d0", "d1"] {
        p1.leased(&without(other, 1)).await;
    }
    assert_eq!((d0.leases().await.len(), d1.leases().await.len()), (1, 1));
    p1.kill();
    let killed = Instant::now();
    until("the sessions of the killed prefill host are back", async || {
        d0.leases().await.is_empty() && d1.leases().await.is_empty()
    })
    .await;
    println!("sessions of a killed prefill host back after {:.1} s", killed.elapsed().as_secs_f64());
    assert!(killed.elapsed() < GONE_WITHIN);

    // A decode host with a lease of a host that lives.
    p0.leased(&without("d1", 1)).await;
    for view in [&p0, &d1] {
        assert!(records_of(view, "d0").await > 0 && view.alive("d0").await.is_some());
    }
    d0.kill();
    let killed = Instant::now();
    until("the killed decode host is gone from every view", async || {
        for view in [&p0, &d1] {
            if view.alive("d0").await.is_some() || records_of(view, "d0").await > 0 {
                return false;
            }
        }
        paths_to(&p0, "d0").await == 0 && p0.leases().await.is_empty()
    })
    .await;
    println!("a killed decode host gone from every view after {:.1} s", killed.elapsed().as_secs_f64());
    assert!(killed.elapsed() < GONE_WITHIN);

    // It does not know what it had granted: it grants nothing before its engine has reported.
    d0.restart().await;
    until("it is a member again, without room", async || {
        p0.alive("d0").await.is_some_and(|member| member.sessions == Some((4, 4)))
    })
    .await;
    assert!(d0.status().await.recovering);
    assert_eq!(p0.route(&without("d1", 1)).await.unwrap().lease, None);
    report(&d0, 0).await;
    assert!(!d0.status().await.recovering);
    let lease = p0.leased(&without("d1", 100_000)).await;
    assert_eq!(lease.node.as_str(), "d0");
    assert_eq!(p0.transfer(&lease, 100_000).await.unwrap().result, TransferResult::Delivered);

    // An end that leaves a session behind is no clean one; one that leaves nothing is.
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));
    d0.restart().await;
    assert!(d0.status().await.recovering, "its engine has a session that nobody knows of");
    report(&d0, 0).await;
    p0.leased(&without("d1", 1)).await;
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));
    d0.restart().await;
    assert!(!d0.status().await.recovering);
}

/// What a decode host holds, checked: never more than fits, no byte twice.
async fn audit(host: &Process, max_sessions: usize) -> usize {
    let leases = host.leases().await;
    assert!(leases.len() <= max_sessions, "{leases:?}");
    let mut extents: Vec<Extent> = leases.iter().flat_map(|lease| lease.extents.clone()).collect();
    extents.sort_unstable();
    assert!(extents.windows(2).all(|pair| pair[0].end().unwrap() <= pair[1].offset), "{leases:?}");
    leases.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_host_that_stood_still_for_ten_seconds_grants_nothing_twice() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let d0 = site.start("d0", Setup { decode: Some("max_sessions = 2"), ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { more: "[transfer]\nlease_ttl = \"3s\"\n", ..Setup::PREFILL }).await;
    p0.settled(1).await;
    let half = 2 << 20;
    let granted = async || -> Option<Lease> { p0.route(&request("batch", half)).await.unwrap().lease };
    let before = [p0.leased(&request("batch", half)).await, p0.leased(&request("batch", half)).await];
    assert_eq!(audit(&d0, 2).await, 2);
    assert_eq!(granted().await, None, "full");

    d0.signal(Signal::STOP);
    let stopped = Instant::now();
    while stopped.elapsed() < Duration::from_secs(10) {
        assert_eq!(granted().await, None, "a host that stands still grants nothing");
        sleep(Duration::from_millis(250)).await;
    }
    d0.signal(Signal::CONT);

    // Its old leases are overdue: their room goes to new ones, once.
    let mut after = Vec::new();
    until("both sessions are granted anew", async || {
        after.extend(granted().await.map(|lease| lease.id));
        audit(&d0, 2).await == 2 && after.len() >= 2
    })
    .await;
    println!("both sessions granted anew {:.1} s after it went on", stopped.elapsed().as_secs_f64() - 10.0);
    assert!(after.iter().all(|lease| !before.contains(lease)));
    // What was granted before can be used no more; what was granted since can.
    for lease in &before {
        p0.transfer(lease, half).await.unwrap_err();
    }
    let newest = after.last().unwrap();
    assert_eq!(p0.transfer(newest, half).await.unwrap().result, TransferResult::Delivered);
    audit(&d0, 2).await;
}
