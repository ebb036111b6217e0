//! A mesh with everything that can happen to one, and its journals afterwards.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use seam::api::Done;
use seam::model::Reason;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::journals::{folder, seamctl_replay, section, verified_from_each_segment};
use crate::load::Load;
use crate::process::{Process, Setup, Site};

pub(crate) const REQUESTS: u64 = 2_000;
/// Callers of each prefill host.
const CALLERS: usize = 2;
const TRANSFERS: &str = "[transfer]\nlease_ttl = \"1s\"\nbudget = \"2s\"\nfence_max = \"1s\"\n";
/// A threshold, and a value by which jitter hardly counts.
const CHANGED: &str = "[policy.thresholds]\njitter_restricted_ms = 800.0\n";

pub(crate) async fn run(requests: u64) {
    let site = Site::new();
    let load = Load::default();
    let mut d0 = host(&site, &load, "d0", Setup::DECODE).await;
    let later = Setup { first: false, ..Setup::DECODE };
    let mut d1 = host(&site, &load, "d1", later).await;
    let mut p0 = host(&site, &load, "p0", Setup::PREFILL).await;
    let mut p1 = host(&site, &load, "p1", Setup::PREFILL).await;
    for prefill in [&p0, &p1] {
        prefill.settled(2).await;
    }
    let calls = (0..CALLERS * 2).map(|number| load.call(["p0", "p1"][number % 2], |sent| sent < requests));
    let happens = async {
        let gray = json!({"rail": "r0", "mode": "jitter", "base_ms": 7.0, "peers": ["d0"], "seed": 1});
        reached(&load, requests / 5).await;
        let _: Done = p0.client.put("/v1/faults", &gray).await.unwrap();
        reached(&load, requests / 2).await;
        d1.kill();
        reached(&load, requests * 6 / 10).await;
        let d2 = host(&site, &load, "d2", later).await;
        reached(&load, requests * 8 / 10).await;
        let _: Done = p0.client.put("/v1/faults", &json!({"rail": "r0"})).await.unwrap();
        d2
    };
    let (_, mut d2) = tokio::join!(futures_util::future::join_all(calls), happens);
    println!(
        "{} requests sent, {} answered, {} with a lease, {} delivered",
        load.sent.get(),
        load.answered.get(),
        load.leased.get(),
        load.delivered.get()
    );
    assert_eq!(load.answered.get(), requests, "no prefill host was killed");
    assert!(load.delivered.get() * 4 > requests, "a busy machine makes paths look worse, and yet much arrives");
    for host in [&mut p0, &mut p1, &mut d0, &mut d2] {
        host.signal(Signal::TERM);
        assert_eq!(host.ended().await.code(), Some(0), "{}", host.log());
    }
    for host in [&p0, &p1, &d0, &d1, &d2] {
        verify(&site, &host.name, host.name != "d1");
    }
    change(&folder(&site, "p0"), &p0.config);
}

async fn host(site: &Site, load: &Load, name: &str, setup: Setup<'_>) -> Process {
    let more = format!("{TRANSFERS}{}", section(site, name));
    let host = site.start(name, Setup { more: &more, ..setup }).await;
    load.joined(&host);
    host
}

async fn reached(load: &Load, requests: u64) {
    while load.sent.get() < requests {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Every output of every core must come out as it was.
fn verify(site: &Site, name: &str, closed: bool) {
    let dir = folder(site, name);
    let (status, found) = seamctl_replay(&[dir.to_str().unwrap(), "--verify"]);
    let life = &found["lives"][0];
    println!(
        "{name}: {} segments, {} turns verified, {} not verifiable, {} differ, {} gaps; {}",
        life["segments"],
        found["verified"],
        found["not_verifiable"],
        found["differences"],
        life["gaps"],
        if life["closed"] == true { "ended in order" } else { "killed" },
    );
    assert_eq!(status, Some(0), "{found:#}");
    assert_eq!((&found["identical"], &found["not_verifiable"]), (&true.into(), &0.into()), "{found:#}");
    assert!(found["verified"].as_u64().unwrap() > 100);
    assert_eq!(life["closed"], closed);
    let begun = verified_from_each_segment(&dir);
    println!("{name}: as well from each of {begun} later segments on");
}

/// One threshold is changed: what is chosen otherwise is listed, each with the rule that explains it.
fn change(dir: &Path, config: &Path) {
    let changed = config.with_extension("changed.toml");
    std::fs::write(&changed, format!("{}\n{CHANGED}", std::fs::read_to_string(config).unwrap())).unwrap();
    let (status, found) = seamctl_replay(&[dir.to_str().unwrap(), "--config", changed.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{found:#}");
    let changes: &Vec<Value> = found["changes"].as_array().unwrap();
    println!("one threshold changed: {} of {} requests choose otherwise", changes.len(), found["requests"]);
    assert!(!changes.is_empty(), "{found:#}");
    for change in changes {
        let codes = ["now", "then"].map(|when| change[when]["code"].as_str());
        let known = |code: &&str| Reason::ALL.iter().any(|reason| reason.as_str() == *code);
        assert!(codes.iter().flatten().count() > 0 && codes.iter().flatten().all(known), "no rule in {change:#}");
    }
    println!("the first: {:#}", changes[0]);
}
