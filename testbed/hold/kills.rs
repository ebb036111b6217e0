//! Agents that are killed at random instants, and what their journals have lost.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use seam::api::Done;
use seam::replay::journal::History;
use serde_json::json;
use tokio::time::sleep;

use crate::common::until;
use crate::journals::{folder, seamctl_replay, section, told, verified, verified_from_each_segment};
use crate::load::{Load, wall_ms};
use crate::process::{Process, Setup, Site};

pub(crate) const SHORT: u64 = 8;
/// `journal.fsync`, as nothing else is said: no more than this may be lost.
const FSYNC_MS: u64 = 1_000;
/// Requests that a life has had a part in before its instant comes, and how long that may take then.
const REACHED: usize = 5;
const INSTANT_MS: u64 = 1_000;
const TRANSFERS: &str = "[transfer]\nlease_ttl = \"1s\"\nbudget = \"2s\"\nfence_max = \"1s\"\n";

/// The most that was lost so far.
#[derive(Debug, Default)]
struct Losses {
    /// From the last entry to the kill, in milliseconds.
    silent_ms: u64,
    /// Requests that were answered and do not stand in the journal.
    answers: usize,
    /// How long before the kill the first of them was answered, in milliseconds.
    answered_ms: u64,
    turns: u64,
    torn: u64,
}

pub(crate) async fn run(times: u64, seed: u64) {
    println!("{times} kills, seed {seed}");
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let site = Site::new();
    let load = Load::default();
    let later = Setup { first: false, ..Setup::DECODE };
    let (_d0, d1) = (host(&site, &load, "d0", Setup::DECODE).await, host(&site, &load, "d1", later).await);
    let (p0, p1) = (host(&site, &load, "p0", Setup::PREFILL).await, host(&site, &load, "p1", Setup::PREFILL).await);
    for prefill in [&p0, &p1] {
        prefill.settled(2).await;
    }
    let (done, mut victims) = (Cell::new(false), [p0, d1]);
    let calls = ["p0", "p0", "p1"].map(|host| load.call(host, |_| !done.get()));
    let killing = async {
        let mut losses = Losses::default();
        for number in 1..=times {
            let victim = &mut victims[draws.next_u64() as usize % 2];
            let wait_ms = draws.next_u64() % INSTANT_MS;
            kill(&site, &load, victim, (number, wait_ms), &mut losses).await;
            victim.restart().await;
            if victim.name.starts_with('d') {
                // Its engine is back as well, without sessions.
                let _: Done = victim.client.put("/v1/capacity", &json!({"active_sessions": 0})).await.unwrap();
            }
        }
        done.set(true);
        losses
    };
    let (_, losses) = tokio::join!(futures_util::future::join_all(calls), killing);
    println!(
        "{} requests answered, {} delivered; {} turns of killed lives verified, {} lives had a torn end",
        load.answered.get(),
        load.delivered.get(),
        losses.turns,
        losses.torn
    );
    println!(
        "the largest loss: {} ms from the last entry to the kill; {} answered requests are in no journal, the \
         first of them answered {} ms before its kill",
        losses.silent_ms, losses.answers, losses.answered_ms
    );
    for victim in &mut victims {
        victim.kill();
        let dir = folder(&site, &victim.name);
        let (status, found) = seamctl_replay(&[dir.to_str().unwrap(), "--verify"]);
        let begun = verified_from_each_segment(&dir);
        println!(
            "{}: {} lives, {} turns verified, and from each of {begun} later segments on",
            victim.name,
            found["lives"].as_array().unwrap().len(),
            found["verified"]
        );
        assert_eq!(status, Some(0), "{found:#}");
    }
}

async fn host(site: &Site, load: &Load, name: &str, setup: Setup<'_>) -> Process {
    let more = format!("{TRANSFERS}{}", section(site, name));
    let host = site.start(name, Setup { more: &more, ..setup }).await;
    load.joined(&host);
    host
}

/// Kills a host that is at work, and judges what it has left.
async fn kill(site: &Site, load: &Load, victim: &mut Process, (number, wait_ms): (u64, u64), losses: &mut Losses) {
    load.take_answers();
    until(&format!("{} is at work", victim.name), async || load.reached(&victim.name) >= REACHED).await;
    sleep(Duration::from_millis(wait_ms)).await;
    let killed_ms = wall_ms();
    victim.kill();

    let history = History::open(&[folder(site, &victim.name)]).unwrap();
    assert!(history.strays().is_empty(), "{:?}", history.strays());
    let life = history.lives().last().unwrap();
    let report = verified(&life.segments);
    let left = told(life);
    let silent_ms = killed_ms.saturating_sub(left.last_ms);
    let decided: BTreeSet<_> = left.decided.into_iter().collect();
    let answers = load.take_answers();
    let own = answers.iter().filter(|answer| answer.by == victim.name && answer.at_ms <= killed_ms);
    let lost: Vec<u64> = own
        .filter(|answer| answer.record.request_id.as_ref().is_some_and(|id| !decided.contains(id)))
        .map(|answer| killed_ms - answer.at_ms)
        .collect();
    let turns: u64 = report.cores.iter().map(|core| core.verified).sum();
    let unverifiable: u64 = report.cores.iter().map(|core| core.unverifiable()).sum();
    let answered_ms = lost.iter().copied().max().unwrap_or(0);
    println!(
        "{number}: {} after {wait_ms} ms: {turns} turns verified in {} segments{}, {silent_ms} ms lost, {} answers \
         lost, the first answered {answered_ms} ms before",
        victim.name,
        life.segments.len(),
        if report.overview.tally.torn_end { ", the end torn" } else { "" },
        lost.len()
    );
    assert_eq!((unverifiable, report.overview.tally.gaps), (0, 0), "{:#?}", report.overview);
    assert!(turns > 0 && !report.overview.tally.closed);
    assert!(silent_ms.max(answered_ms) <= FSYNC_MS, "more is lost than journal.fsync allows");
    losses.silent_ms = losses.silent_ms.max(silent_ms);
    losses.answered_ms = losses.answered_ms.max(answered_ms);
    losses.answers += lost.len();
    losses.turns += turns;
    losses.torn += u64::from(report.overview.tally.torn_end);
}
