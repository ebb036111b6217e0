//! What agents keep of their lives in files, and that it can be played again.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, unused_imports, reason = "each test file uses its own part of the site")]
mod process;
#[path = "agents/tapes.rs"]
mod tapes;
#[path = "agents/world.rs"]
#[allow(dead_code, reason = "each test file uses its own part of the world")]
mod world;

use std::path::{Path, PathBuf};

use process::{Setup, Site};
use rustix::process::Signal;
use seam::agent::Agent;
use seam::api::TransferResult;
use seam::config::Config;
use seam::journal::{Entry, Part, Said};
use serde_json::Value;
use tapes::{Start, life, play};
use world::{Host, Terms, World, decode_section, request, until};

const MIB: u64 = 1 << 20;

/// The sections that keep everything of one host.
fn keeping(world: &World, name: &str) -> String {
    let at = |what: &str| world.path().join(format!("{name}-{what}")).display().to_string();
    format!(
        "[journal]\ndir = \"{}\"\nsegment_size = \"64KiB\"\nfsync = \"20ms\"\n[records]\ndir = \"{}\"\n",
        at("journal"),
        at("records")
    )
}

fn folder(world: &World, name: &str, what: &str) -> PathBuf {
    world.path().join(format!("{name}-{what}"))
}

/// The lines of every file of a folder of decision records, in order.
fn lines(dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()).collect()
}

async fn decisions(host: &Host) -> Vec<Value> {
    let mut newest_first: Vec<Value> = host.client.get("/v1/decisions?limit=1000").await.unwrap();
    newest_first.reverse();
    newest_first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_of_transfers_leave_tapes_that_play_again_and_every_decision_in_both_forms() {
    let mut world = World::new().await;
    let (keep_d0, keep_p0) = (keeping(&world, "d0"), keeping(&world, "p0"));
    let d0 = world.decode("d0", Terms { sessions: 64, more: &keep_d0, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms { more: &keep_p0, ..Terms::default() }).await;
    p0.settled(1).await;
    move_some(&p0, &d0).await;
    until("both write their second segment", async || {
        move_some(&p0, &d0).await;
        let second = |name: &&str| seam::journal::list(&folder(&world, name, "journal")).unwrap().len() > 1;
        ["d0", "p0"].iter().all(second)
    })
    .await;
    move_some(&p0, &d0).await;
    let p0_decided = decisions(&p0).await;
    assert!(p0_decided.len() >= 20);
    let mut lives = Vec::new();
    for host in [&p0, &d0] {
        let status: seam::api::Status = host.client.get("/v1/status").await.unwrap();
        lives.push((host.agent.node().clone(), status.config_hash, status.generation));
    }
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }

    assert!(lines(&folder(&world, "p0", "records")) == p0_decided);
    for (node, config_hash, generation) in lives {
        let name = node.as_str();
        let segments = life(&folder(&world, name, "journal"));
        for (number, (header, _)) in segments.iter().enumerate() {
            assert_eq!((&header.node, header.generation, header.segment), (&node, generation, number as u64));
            assert_eq!(header.build, env!("CARGO_PKG_VERSION"));
            assert_eq!(header.config_hash, config_hash);
        }
        assert!(segments.len() > 1, "{name}: {} segments", segments.len());
        let entries: Vec<&Entry> = segments.iter().flat_map(|(_, entries)| entries).collect();
        assert!(matches!(entries.last(), Some(Entry::Closed(_))), "{:?}", entries.last());
        assert_eq!(entries.iter().filter(|entry| matches!(entry, Entry::Closed(_) | Entry::Gap(_))).count(), 1);

        let mut from_start = play(entries.iter().copied(), Start::FirstSnapshot);
        let from_last = play(entries.iter().copied(), Start::EverySnapshot);
        // A host that starts no path measures none, and one that grants no lease has no ledger.
        let own = if name == "p0" { Part::Health } else { Part::Ledger };
        let parts: Vec<Part> = from_start.turns.keys().copied().collect();
        assert_eq!(parts, if name == "p0" { [own, Part::Policy, Part::Mesh] } else { [Part::Policy, own, Part::Mesh] });
        assert!(from_start.turns.values().all(|turns| *turns > 10), "{name}: {:?}", from_start.turns);
        assert_eq!(from_start.turns, from_last.turns);
        let decided: Vec<Value> = from_start.said.drain(..).filter_map(decision).collect();
        assert!(decided == if name == "p0" { p0_decided.clone() } else { Vec::new() });
    }
}

async fn move_some(p0: &Host, d0: &Host) {
    for number in 0..10 {
        let record = p0.route(&request(["batch", "interactive"][number % 2], MIB / 8)).await.unwrap();
        let Some(lease) = record.lease else { continue };
        let report = p0.transfer(&lease.id, &[(0, MIB / 8)]).await.unwrap();
        assert_eq!(report.result, TransferResult::Delivered);
        d0.release(&lease.id).await;
    }
}

/// A decision as the API has it, whose numbers are rounded.
fn decision(said: Said) -> Option<Value> {
    match said {
        Said::Decided(record) => Some(serde_json::to_value(&*record).unwrap()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_agent_on_one_folder_does_not_start_and_says_who_holds_it() {
    let mut world = World::new().await;
    let keep = keeping(&world, "d0");
    let terms = Terms { more: &keep, ..Terms::default() };
    let d0 = world.decode("d0", terms).await;
    let start = async |name: &str, keep: &str| {
        let terms = Terms { more: keep, ..Terms::default() };
        let (text, _) = world.config(name, "decode", &decode_section(name, terms), terms);
        Agent::start(Config::from_toml(&text, name).unwrap()).await
    };
    let refused = |result: Result<Agent, seam::agent::StartError>| result.map(drop).unwrap_err().to_string();
    let own = std::process::id();
    let held = |key: &str, dir: &Path| {
        format!("{key}: {} is in use by d0, process {own}; allowed a folder that no other agent uses", dir.display())
    };
    assert_eq!(
        refused(start("d1", &keep).await),
        held("journal.dir", &folder(&world, "d0", "journal")),
        "another node, the same journal"
    );
    assert_eq!(refused(start("d0", "").await), held("node.data_dir", &world.path().join("d0")));
    d0.agent.shutdown().await;

    // Both are free again, and the next life writes beside the first.
    let again = start("d0", &keep).await.unwrap();
    again.shutdown().await;
    let segments = life(&folder(&world, "d0", "journal"));
    let generations: std::collections::BTreeSet<_> = segments.iter().map(|(header, _)| header.generation).collect();
    assert_eq!(generations.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_agent_leaves_tapes_that_play_and_its_next_life_goes_on_beside_them() {
    let site = Site::new();
    let dir = site.path().join("journal");
    let more = format!("[journal]\ndir = \"{}\"\nfsync = \"10ms\"\n", dir.display());
    let mut d0 = site.start("d0", Setup { more: &more, ..Setup::DECODE }).await;
    until("the first segment has turns of every core", async || {
        let segments = tapes::life_so_far(&dir);
        let entries = segments.iter().flat_map(|(_, entries)| entries);
        play(entries, Start::FirstSnapshot).turns.len() >= 3
    })
    .await;
    d0.kill();
    // As after a power failure: the last entry is not whole.
    let first = seam::journal::list(&dir).unwrap().remove(0).path;
    let whole = first.metadata().unwrap().len();
    std::fs::File::options().write(true).open(&first).unwrap().set_len(whole - 1).unwrap();
    d0.restart().await;
    assert!(d0.log().contains("the newest segment ended in the middle of an entry"), "{}", d0.log());
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));
    let segments = life(&dir);
    assert_eq!(segments.len(), 2);
    for (number, (_, entries)) in segments.iter().enumerate() {
        play(entries, Start::FirstSnapshot);
        assert_eq!(matches!(entries.last(), Some(Entry::Closed(_))), number == 1);
    }
}
