//! More than an agent can bear: it stays bounded, counts what it turns away, and serves again.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod process;
#[path = "agents/world.rs"]
#[allow(dead_code, reason = "each test file uses its own part of the world")]
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use process::{Process, Setup, Site, request, until};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use seam::agent::service::ServiceError;
use seam::client::Client;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use world::{Terms, World};

/// One at a time: each wants the whole machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_that_nobody_releases_are_bounded_and_end_by_themselves() {
    const REQUESTS: usize = 10_000;
    const SESSIONS: usize = 4_000;
    const CALLERS: usize = 32;
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    // The engine moves the bytes, so that no arena limits the leases, and each is fenced at its end.
    let more = "[transfer]\nmover = \"engine\"\nlease_ttl = \"40s\"\nfence_max = \"500ms\"\n";
    let decode = format!("max_sessions = {SESSIONS}");
    let d0 = site.start("d0", Setup { decode: Some(&decode), more, ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { more, ..Setup::PREFILL }).await;
    p0.settled(1).await;
    let before = [&p0, &d0].map(Process::rss_anon);

    let (started, leased) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let caller = async || {
        let client = Client::new(&format!("http://{}", p0.api), None).unwrap();
        while started.fetch_add(1, Ordering::Relaxed) < REQUESTS {
            let record: seam::policy::record::DecisionRecord =
                client.post("/v1/route", &request("batch", 1)).await.unwrap();
            leased.fetch_add(usize::from(record.lease.is_some()), Ordering::Relaxed);
        }
    };
    let begun = tokio::time::Instant::now();
    futures_util::future::join_all((0..CALLERS).map(|_| caller())).await;
    let leased = leased.into_inner();
    let took_s = begun.elapsed().as_secs_f64();
    let held = d0.leases().await.len();
    let during = [&p0, &d0].map(Process::rss_anon);
    println!(
        "{REQUESTS} requests in {took_s:.1} s, {leased} leased, {held} held at the end; anonymous memory of \
         prefill and decode host {before:?} B before, {during:?} B after"
    );
    assert!(held <= SESSIONS, "never beyond what fits");
    assert!(leased >= SESSIONS, "all that fits is granted");
    assert!(leased < REQUESTS, "what does not fit is refused");
    let text = p0.client.text("/metrics").await.unwrap();
    let decisions = text.lines().filter(|line| line.starts_with("seam_decisions_total{workload=\"batch\""));
    let decided: usize = decisions.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum();
    assert!(decided >= REQUESTS, "each is counted, {decided} are");
    for (before, during) in before.iter().zip(during) {
        assert!(during < before + (256 << 20), "{} B more", during - before);
    }

    until("all of them have ended on both sides", async || {
        d0.leases().await.is_empty() && p0.leases().await.is_empty()
    })
    .await;
    p0.leased(&request("batch", 1)).await;
}

/// Lets this process, and those that it starts, have so many descriptors; whether it may.
fn descriptors(wanted: u64) -> bool {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    maximum.is_none_or(|maximum| maximum >= wanted)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok()
}

async fn idle(agent: &Process, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(TcpStream::connect(agent.api).await.unwrap());
    }
    streams
}

const REFUSED: &str = "seam_queue_dropped_total{queue=\"api_connections\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_bounded_and_the_api_serves_beside_and_after_them() {
    const LIMIT: usize = 4_096;
    let _alone = ONE_AT_A_TIME.lock().await;
    if !descriptors(6_000) {
        println!("skipped: this process may not have 6,000 descriptors");
        return;
    }
    let site = Site::new();
    let d0 = site.start("d0", Setup::DECODE).await;
    let within = idle(&d0, 2_000).await;
    assert!(d0.status().await.ready, "2,000 idle connections leave room");
    assert_eq!(d0.metric(REFUSED).await, None);

    // The rest up to the limit and 200 beyond it, of which the client of this test has one.
    let beyond = idle(&d0, LIMIT - 2_000 + 200).await;
    until("those beyond the limit are counted", async || {
        // The client keeps its connection from before.
        d0.metric(REFUSED).await.is_some_and(|refused| refused >= 200.0)
    })
    .await;
    let mut last = beyond.into_iter().last().unwrap();
    assert_eq!(last.read(&mut [0]).await.unwrap_or(0), 0, "they are closed");

    drop(within);
    until("it serves again", async || {
        Client::new(&format!("http://{}", d0.api), None).unwrap().text("/healthz").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_descriptors_goes_on_and_serves_once_there_are_some() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let d0 = site.start_with("d0", Setup::DECODE, &[]).await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(d0.pid()).unwrap());
    let few = Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::prlimit(pid, Resource::Nofile, few).unwrap();
    assert!(d0.status().await.ready);
    let streams = idle(&d0, 100).await;
    until("it is noticed", async || d0.log().contains("the API cannot accept a connection")).await;
    assert!(d0.metric(REFUSED).await.is_some_and(|refused| refused >= 1.0), "over the connection of before");
    drop(streams);
    until("it serves again", async || {
        Client::new(&format!("http://{}", d0.api), None).unwrap().text("/healthz").await.is_ok()
    })
    .await;
    let p0 = site.start("p0", Setup::PREFILL).await;
    p0.settled(1).await;
    p0.leased(&request("batch", 1)).await;
}

/// A file system of a few pages; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        println!("skipped: this process may not mount a small disk");
        None
    }

    fn fill(&self) {
        let error = std::fs::write(self.0.join("filler"), vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

async fn fails_to_start(site: &Site, name: &str, from: &str, to: &Path, words: &[&str]) {
    let mut agent = site.spawn(name, Setup::DECODE, &[]);
    agent.kill();
    agent.rewrite(from, &to.display().to_string());
    agent.relaunch();
    assert_eq!(agent.ended().await.code(), Some(1));
    for word in words {
        assert!(agent.log().contains(word), "{word} is not in\n{}", agent.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_an_error_that_names_the_key_or_is_logged_and_never_ends_a_running_agent() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let site = Site::new();
    let Some(disk) = SmallDisk::mount(site.path().join("disk")) else { return };
    let own = |file: &str| site.path().join(file).display().to_string();
    let arena = disk.0.join("arena");
    fails_to_start(&site, "d1", &own("d1.arena"), &arena, &["arena", "No space left"]).await;
    let _ = std::fs::remove_file(&arena);

    // Room for the start, none for what comes later.
    let mut d0 = site.spawn("d0", Setup::DECODE, &[]);
    d0.kill();
    d0.rewrite(&format!("data_dir = \"{}\"", own("d0")), &format!("data_dir = \"{}\"", disk.0.join("d0").display()));
    d0.restart().await;
    disk.fill();
    let p0 = site.start("p0", Setup::PREFILL).await;
    p0.settled(1).await;
    p0.leased(&request("batch", 1)).await;
    assert!(d0.log().contains("leases cannot be noted"), "{}", d0.log());
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));

    let data_dir = disk.0.join("d2");
    fails_to_start(&site, "d2", &own("d2"), &data_dir, &[data_dir.to_str().unwrap(), "No space left"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_mailbox_is_answered_503_counted_and_served_again() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms { sessions: 4, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    p0.settled(1).await;
    let flood = Arc::new(AtomicBool::new(true));
    let refused = Arc::new(AtomicUsize::new(0));
    let service = p0.agent.service().clone();
    let (on, counted) = (flood.clone(), refused.clone());
    let flooding = tokio::spawn(async move {
        let mut waiting = tokio::task::JoinSet::new();
        while on.load(Ordering::Relaxed) {
            while waiting.len() < 20_000 {
                let (service, counted) = (service.clone(), counted.clone());
                waiting.spawn(async move {
                    match service.decide(request("batch", 1), None).await {
                        Err(ServiceError::Overloaded { what: "policy", limit }) => {
                            assert_eq!(limit, 16_384);
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(ServiceError::Overloaded { what: "requests", .. }) | Ok(_) => {}
                        Err(other) => panic!("{other}"),
                    }
                });
            }
            waiting.join_next().await;
        }
        while waiting.join_next().await.is_some() {}
    });
    let body = serde_json::to_string(&request("batch", 1)).unwrap();
    let ask = format!(
        "POST /v1/route HTTP/1.1\r\nhost: seam\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let api = p0.agent.api_addr();
    let mut answer = String::new();
    until("a caller over HTTP is turned away", async || {
        // One that is let in waits for all that wait before it: many at once meet a full mailbox.
        let asks = (0..128).map(async |_| {
            let mut stream = TcpStream::connect(api).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, ask.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        });
        let mut answers = futures_util::future::join_all(asks).await.into_iter();
        answer = answers.find(|answer| answer.contains("policy: 16384 at once")).unwrap_or_default();
        answer.starts_with("HTTP/1.1 503")
    })
    .await;
    flood.store(false, Ordering::Relaxed);
    assert!(answer.to_ascii_lowercase().contains("retry-after: 1"), "{answer}");
    assert!(answer.contains("/problems/overloaded"), "{answer}");
    flooding.await.unwrap();
    let text = p0.client.text("/metrics").await.unwrap();
    let series = "seam_queue_dropped_total{queue=\"policy\"} ";
    let dropped: usize = text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).unwrap();
    assert!(dropped > refused.load(Ordering::Relaxed), "those in this process, and at least one over HTTP");

    // What was leased meanwhile ends by itself; then there is room again.
    tokio::time::timeout(Duration::from_secs(60), async {
        while p0.route(&request("batch", 1)).await.is_ok_and(|record| record.lease.is_none()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    assert!(d0.leases().await.len() <= 4);
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}
