//! Real agents under steady load and now and then a fault, for as long as is asked: what they use
//! must not grow. `cargo bench --profile dev --bench soak -- SECONDS` (75 unless said; 1200 is the
//! full form).
//!
//! Two prefill and two decode hosts on loopback. Most requests are moved and released; some are
//! cancelled, some never released. Meanwhile a rail degrades and recovers, configurations are read
//! anew, a decode host is killed and comes back. Once a second the anonymous memory and the
//! descriptors of the hosts that are never killed are read. After a warm-up, the medians of the
//! first and of the last third of the rest are compared. What an agent is meant to remember of its
//! requests (65,536 of them, for ten minutes) is allowed for until it is full; in the full form it
//! is, before the first third begins.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a check fails by panicking"
)]

#[path = "../tests/agents/common.rs"]
#[allow(dead_code, reason = "each program uses its own part")]
mod common;
#[path = "../tests/agents/process.rs"]
#[allow(dead_code, reason = "each user has its own part")]
mod process;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use process::{Process, Setup, Site, request, until};
use rustix::process::Signal;
use seam::api::{Done, TransferResult};
use seam::client::Client;
use seam::model::LeaseId;
use seam::policy::record::DecisionRecord;
use serde_json::{Value, json};
use tokio::time::{Instant, interval, sleep};

const SHORT_S: u64 = 75;
const SESSIONS: usize = 8;
const CALLERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(40);
/// Between two faults.
const CALM: Duration = Duration::from_secs(7);
const REMEMBERED: u64 = 65_536;
const REMEMBERED_FOR_S: u64 = 600;
/// What a remembered request, its record included, may cost.
const REQUEST_BYTES: u64 = 2_560;
/// The largest request.
const LARGEST_BYTES: u64 = 300_000;
/// What may come, and stay with the allocator. Every caller's bytes can be in receive buffers at
/// once, which take up to half more than is in them, and what a buffer had before it grew is not
/// always given back: three times those bytes. The rest is for everything else that comes and goes.
const SLACK_BYTES: u64 = 2 * CALLERS as u64 * LARGEST_BYTES * 3 + (3 << 20);
const SLACK_DESCRIPTORS: u64 = 12;

/// What became of the requests.
#[derive(Debug, Default)]
struct Tally {
    requests: Cell<u64>,
    refused: Cell<u64>,
    delivered: Cell<u64>,
    failed: Cell<u64>,
    cancelled: Cell<u64>,
    abandoned: Cell<u64>,
}

fn count(cell: &Cell<u64>) -> u64 {
    cell.set(cell.get() + 1);
    cell.get()
}

/// What one host used, second by second.
struct Series {
    name: &'static str,
    /// Whether it remembers requests.
    routes: bool,
    rss: RefCell<Vec<u64>>,
    descriptors: RefCell<Vec<u64>>,
}

impl Series {
    fn of(name: &'static str) -> Self {
        Self { name, routes: name.starts_with('p'), rss: RefCell::default(), descriptors: RefCell::default() }
    }

    fn read(&self, agent: &Process) {
        self.rss.borrow_mut().push(agent.rss_anon());
        self.descriptors.borrow_mut().push(agent.descriptors());
    }
}

fn main() {
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(SHORT_S);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(soak(Duration::from_secs(seconds)));
}

async fn soak(length: Duration) {
    let site = Site::new();
    let more = "[transfer]\nlease_ttl = \"1s\"\nbudget = \"2s\"\nfence_max = \"1s\"\n";
    let decode = format!("max_sessions = {SESSIONS}");
    let decode = Setup { decode: Some(&decode), more, ..Setup::DECODE };
    let prefill = Setup { more, ..Setup::PREFILL };
    let d0 = site.start("d0", decode).await;
    let d1 = site.start("d1", Setup { first: false, ..decode }).await;
    let (p0, p1) = (site.start("p0", prefill).await, site.start("p1", prefill).await);
    for host in [&p0, &p1] {
        host.settled(2).await;
    }
    let apis = [("d0", d0.api.to_string()), ("d1", d1.api.to_string())];
    let (tally, end) = (Tally::default(), Instant::now() + length);
    let series = ["p0", "p1", "d0"].map(Series::of);
    let requests = RefCell::new(Vec::new());

    let callers = (0..CALLERS * 2).map(|number| call(if number % 2 == 0 { &p0 } else { &p1 }, &apis, &tally, end));
    let sampling = async {
        let mut second = interval(Duration::from_secs(1));
        while Instant::now() < end {
            second.tick().await;
            for (series, agent) in series.iter().zip([&p0, &p1, &d0]) {
                series.read(agent);
            }
            requests.borrow_mut().push(tally.requests.get());
            assert!(d0.leases().await.len() <= SESSIONS, "never beyond what fits");
        }
    };
    let disturbing = disturb(&p0, &d0, d1, end);
    let (_, (), d1) = tokio::join!(futures_util::future::join_all(callers), sampling, disturbing);

    println!("{tally:?}");
    assert!(tally.delivered.get() > tally.failed.get(), "most bytes arrive");
    until("every lease has ended", async || {
        let holders = p0.leases().await.len() + p1.leases().await.len();
        holders + d0.leases().await.len() + d1.leases().await.len() == 0
    })
    .await;
    let grown: Vec<String> = series.iter().flat_map(|series| judge(series, &requests.borrow())).collect();
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}

/// One caller: route, then mostly move and release.
async fn call(host: &Process, apis: &[(&str, String); 2], tally: &Tally, end: Instant) {
    let client = Client::new(&format!("http://{}", host.api), None).unwrap();
    while Instant::now() < end {
        sleep(PAUSE).await;
        let number = count(&tally.requests);
        let kv_bytes = 1 + number * 7_919 % LARGEST_BYTES;
        let routed = client.post::<DecisionRecord>("/v1/route", &request("batch", kv_bytes)).await;
        let Some(lease) = routed.ok().and_then(|record| Some((record.lease?.id, record.request_id?))) else {
            count(&tally.refused);
            continue;
        };
        match number % 20 {
            0 => drop(count(&tally.abandoned)),
            1 => {
                count(&tally.cancelled);
                let _ = client.delete::<Done>(&format!("/v1/requests/{}", lease.1)).await;
            }
            _ => {
                let blocks = json!({"lease": lease.0, "blocks": [{"offset": 0, "bytes": kv_bytes}]});
                match client.post::<seam::api::TransferReport>("/v1/transfers", &blocks).await {
                    Ok(report) if report.result == TransferResult::Delivered => {
                        count(&tally.delivered);
                        release(apis, report.lease.map_or(lease.0, |lease| lease.id)).await;
                    }
                    _ => drop(count(&tally.failed)),
                }
            }
        }
        if number.is_multiple_of(50) {
            let _ = client.text("/metrics").await;
            let _ = client.get::<Value>("/v1/decisions?limit=20").await;
            let _ = client.events("/v1/events").await;
        }
    }
}

/// What the decode engine does with a session at its end, over a connection of its own.
async fn release(apis: &[(&str, String); 2], lease: LeaseId) {
    let Some((_, api)) = apis.iter().find(|(name, _)| *name == lease.node.as_str()) else { return };
    let client = Client::new(&format!("http://{api}"), None).unwrap();
    let _ = client.delete::<Done>(&format!("/v1/leases/{lease}")).await;
}

/// One fault after the other, with calm between; the decode host that is killed comes back.
async fn disturb(p0: &Process, d0: &Process, mut d1: Process, end: Instant) -> Process {
    let mut round = 0u32;
    sleep(CALM).await;
    while Instant::now() + CALM < end {
        match round % 3 {
            0 => {
                let faults = json!({"rail": "r0", "mode": "degraded", "base_ms": 20.0});
                let _: Done = p0.client.put("/v1/faults", &faults).await.unwrap();
                sleep(CALM / 2).await;
                let _: Done = p0.client.put("/v1/faults", &json!({"rail": "r0"})).await.unwrap();
            }
            1 => [p0, d0].into_iter().for_each(|agent| agent.signal(Signal::HUP)),
            _ => restart(&mut d1).await,
        }
        round += 1;
        sleep(CALM).await;
    }
    d1
}

/// Kills a decode host; it comes back and so does its engine, without sessions.
async fn restart(host: &mut Process) {
    host.kill();
    sleep(Duration::from_secs(1)).await;
    host.restart().await;
    let _: Done = host.client.put("/v1/capacity", &json!({"active_sessions": 0})).await.unwrap();
}

/// Prints what a host used, and says what grew.
fn judge(series: &Series, requests: &[u64]) -> Vec<String> {
    let length = series.rss.borrow().len();
    // All that is remembered is there after ten minutes; a short run has no time for that.
    let warm = if length as u64 > REMEMBERED_FOR_S * 3 / 2 { REMEMBERED_FOR_S as usize + 30 } else { length / 5 };
    let third = (length - warm) / 3;
    let (first, last) = (warm..warm + third, length - third..length);
    let of = |values: &[u64], range: &std::ops::Range<usize>| median(&values[range.clone()]);
    // The most that were remembered up to then: what is freed stays with the allocator. Half of the
    // requests are this host's.
    let remembered = |until: usize| {
        let at = |at: usize| (requests[at] - requests[at.saturating_sub(REMEMBERED_FOR_S as usize)]) / 2;
        (0..until).map(at).max().unwrap_or(0).min(REMEMBERED)
    };
    let new = match series.routes {
        true => remembered(last.end).saturating_sub(remembered(first.start)),
        false => 0,
    };
    let mut grown = Vec::new();
    let figures = [
        ("anonymous memory, B", &series.rss, SLACK_BYTES + new * REQUEST_BYTES),
        ("descriptors", &series.descriptors, SLACK_DESCRIPTORS),
    ];
    for (what, values, allowed) in figures {
        let values = values.borrow();
        let (before, after) = (of(&values, &first), of(&values, &last));
        let line = format!(
            "{} {what}: median {before} in the first third, {after} in the last, at most {} in all; \
             allowed {allowed} more, {new} requests are remembered more",
            series.name,
            values.iter().max().unwrap()
        );
        println!("{line}");
        if after > before + allowed {
            grown.push(line);
        }
    }
    grown
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}
