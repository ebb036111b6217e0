//! Agents as a whole, in one process on loopback: what must hold whatever the timing.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/world.rs"]
#[allow(dead_code, reason = "each test file uses its own part of the world")]
mod world;

use std::collections::BTreeMap;

use seam::api::{
    Arrival, ChunkTaken, Done, OverrideLine, PathLine, RouteRequest, TransferAnswer, TransferReport, TransferResult,
};
use seam::client::ClientError;
use seam::model::{LeaseId, Outcome, PathState, Reason};
use seam::policy::record::DecisionRecord;
use serde_json::{Value, json};
use world::{Host, Terms, World, request, until};

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_session_goes_to_exactly_one_of_eight_who_ask_at_once() {
    const ASKERS: usize = 8;
    const ROUNDS: usize = 200;
    let mut world = World::new().await;
    let decode = world.decode("d0", Terms { sessions: 1, ..Terms::default() }).await;
    let mut askers = Vec::new();
    // Without samples no path leaves HEALTHY: sessions alone decide, however busy the machine is.
    let more = "[policy.thresholds]\nstale_after_ms = 10800000\nfresh_ms = 10800000\n";
    let terms = Terms { arena_bytes: MIB, probe: "1h", more, ..Terms::default() };
    for number in 0..ASKERS {
        askers.push(world.prefill(&format!("p{number}"), terms).await);
    }
    for round in 0..ROUNDS {
        for asker in &askers {
            asker.believes("d0", (0, 1)).await;
        }
        let asks = askers.iter().map(|asker| async move { asker.route(&request("batch", 1000)).await.unwrap() });
        let records = futures_util::future::join_all(asks).await;
        let granted: Vec<LeaseId> = records.iter().filter_map(|r| r.lease.as_ref()).map(|l| l.id.clone()).collect();
        assert_eq!(granted.len(), 1, "round {round}: {granted:?}");
        for record in records.iter().filter(|record| record.lease.is_none()) {
            assert_eq!(record.outcome, Outcome::NoAdmissiblePool);
            // A crowded machine can lose sight of a host for a moment: then nothing is known of it.
            let code = record.candidates[0].code;
            let refused = [Reason::RejectedLeaseRefused, Reason::RejectedCapacity, Reason::RejectedUnproven];
            assert!(refused.contains(&code), "round {round}: {code}");
        }
        assert_eq!(decode.leases().await.len(), 1);
        assert!(decode.release(&granted[0]).await);
    }
    for host in askers.into_iter().chain([decode]) {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gray_path_keeps_batch_loses_the_strict_and_returns_through_restored() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms { sessions: 64, ..Terms::default() }).await;
    let d1 = world.decode("d1", Terms { sessions: 64, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    let p1 = world.prefill("p1", Terms::default()).await;
    p0.settled(2).await;
    p1.settled(2).await;
    let mut events = p0.client.events("/v1/events").await.unwrap();
    let gray = json!({"rail": "r0", "mode": "jitter", "base_ms": 7.0, "seed": 7, "peers": ["d0"]});
    let done: Done = p0.client.put("/v1/faults", &gray).await.unwrap();
    assert!(done.changed);
    until("the path p0>d0 is gray", async || {
        let paths = p0.paths().await;
        let line = paths.iter().find(|line| line.path.destination.as_str() == "d0").unwrap();
        // Beyond what interactive bears, and counted bad for longer than a state needs to escalate.
        line.health.jitter_ms > 3.5 && line.health.state != PathState::Healthy
    })
    .await;
    let went = |record: &DecisionRecord| record.chosen.as_ref().and_then(|c| c.node.clone()).map(|n| n.to_string());
    for class in ["interactive", "release"] {
        let record = p0.route(&RouteRequest { dry_run: true, ..request(class, 1000) }).await.unwrap();
        assert_eq!(went(&record).as_deref(), Some("d1"), "{class}: {record:?}");
    }
    let record = p0.route(&RouteRequest { dry_run: true, ..request("batch", 1000) }).await.unwrap();
    assert_eq!(went(&record).as_deref(), Some("d0"), "batch keeps what still works: {record:?}");
    // The directed path alone is gray: the same host by another source is not. On a busy machine
    // that path may be slow for a moment, but not for long.
    until("p1>d0 is healthy", async || p1.state_of("d0").await == Some(PathState::Healthy)).await;

    let _: Done = p0.client.put("/v1/faults", &json!({"rail": "r0"})).await.unwrap();
    until("the path p0>d0 is healthy again", async || p0.state_of("d0").await == Some(PathState::Healthy)).await;
    let mut states = Vec::new();
    while states.last().map(String::as_str) != Some("healthy") {
        let event = events.next().await.unwrap().unwrap();
        let event: Value = serde_json::from_str(&event.data).unwrap();
        if event["kind"] == "transition" && event["path"] == "p0>d0/r0/mock" {
            states.push(event["to"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(states.iter().rev().nth(1).map(String::as_str), Some("restored"), "{states:?}");
    for host in [p0, p1, d0, d1] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_land_where_the_lease_says_and_a_lease_is_used_once_by_its_holder() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms { sessions: 64, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    let p1 = world.prefill("p1", Terms::default()).await;
    p0.settled(1).await;
    p1.settled(1).await;
    let data: Vec<u8> = (0..MIB).map(|i| (i * 31 % 251) as u8).collect();
    p0.write(4 * MIB, 77, &data);
    let mut arrivals = d0.client.events("/v1/arrivals").await.unwrap();

    let record = p0.route(&request("batch", MIB)).await.unwrap();
    let lease = record.lease.unwrap();
    // Two blocks, the second half first: they are concatenated in the order of the request.
    let half = MIB / 2;
    let report = p0.transfer(&lease.id, &[(77 + half, half), (77, half)]).await.unwrap();
    assert_eq!((report.result, report.bytes, report.attempts.len()), (TransferResult::Delivered, MIB, 1));
    let arrival = arrivals.next().await.unwrap().unwrap();
    let arrival: Arrival = serde_json::from_str(&arrival.data).unwrap();
    assert_eq!((&arrival.lease, arrival.bytes), (&lease.id, MIB));
    let landed = d0.read(4 * MIB, &arrival.extents, data.len());
    let (first, second) = data.split_at(data.len() / 2);
    assert!(landed == [second, first].concat());
    assert_eq!(report.hash.as_deref(), Some(blake3::hash(&landed).to_hex().as_str()));
    assert_eq!(arrival.hash, report.hash.unwrap());

    let status = |error: seam::client::ClientError| (error.status(), error.to_string());
    let (code, detail) = status(p0.transfer(&lease.id, &[(0, 10)]).await.unwrap_err());
    assert_eq!(code, Some(409), "{detail}");
    assert!(detail.contains("its bytes were delivered"), "{detail}");
    let other = p0.route(&request("batch", 100)).await.unwrap().lease.unwrap();
    let (code, detail) = status(p1.transfer(&other.id, &[(0, 100)]).await.unwrap_err());
    assert_eq!(code, Some(404), "another node's lease: {detail}");
    let (code, detail) = status(p0.transfer(&other.id, &[(0, 101)]).await.unwrap_err());
    assert_eq!(code, Some(400), "{detail}");
    assert!(p0.release(&other.id).await);
    let (code, detail) = status(p0.transfer(&other.id, &[(0, 100)]).await.unwrap_err());
    assert_eq!(code, Some(409), "{detail}");
    assert!(d0.release(&lease.id).await, "the engine ends the session");
    until("no session is left", async || d0.leases().await.is_empty()).await;
    for host in [p0, p1, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_move_while_the_rest_is_computed_which_costs_neither_the_budget_nor_the_lease() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms::default()).await;
    // Less than what the source takes below, so that both would end without it.
    let p0 = world.prefill("p0", Terms { more: "[transfer]\nlease_ttl = \"2s\"\n", ..Terms::default() }).await;
    p0.settled(1).await;
    let data: Vec<u8> = (0..MIB).map(|i| (i * 31 % 251) as u8).collect();
    let (third, half) = (MIB / 3, MIB / 2);
    let ask = RouteRequest { transfer_budget_ms: Some(1_500), ..request("batch", MIB) };
    let lease = p0.route(&ask).await.unwrap().lease.unwrap();

    let taken =
        |index, bytes| TransferAnswer::Taken(ChunkTaken { lease: lease.id.clone(), index, bytes, kv_bytes: MIB });
    let word = |answer: Result<TransferAnswer, ClientError>| answer.unwrap_err().to_string();
    let early = word(p0.chunk(&lease.id, (1, false), &[(0, 1)]).await);
    assert!(early.contains("it begins with chunk 0"), "{early}");
    p0.write(4 * MIB, 0, &data[..third as usize]);
    assert_eq!(p0.chunk(&lease.id, (0, false), &[(0, third)]).await.unwrap(), taken(0, third));
    assert_eq!(p0.chunk(&lease.id, (0, false), &[(0, third)]).await.unwrap(), taken(0, third), "said again");
    let overlap = word(p0.chunk(&lease.id, (1, false), &[(third - 1, 2)]).await);
    assert!(overlap.contains("overlaps"), "{overlap}");
    // The source takes its time.
    for (index, from, to) in [(1, third, half), (2, half, MIB)] {
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        p0.write(4 * MIB, from, &data[from as usize..to as usize]);
        assert_eq!(p0.chunk(&lease.id, (index, false), &[(from, to - from)]).await.unwrap(), taken(index, to));
    }
    // Its answer is lost, and it is sent again.
    let (first, answer) = tokio::join!(p0.chunk(&lease.id, (3, true), &[]), p0.chunk(&lease.id, (3, true), &[]));
    let ended = |answer: &Result<TransferAnswer, ClientError>| matches!(answer, Ok(TransferAnswer::Ended(_)));
    let answer = if ended(&answer) { answer } else { first };
    let answer = answer.unwrap();
    let TransferAnswer::Ended(report) = answer else { panic!("{answer:?}") };
    assert_eq!((report.result, report.bytes, report.attempts.len()), (TransferResult::Delivered, MIB, 1), "{report:?}");
    assert_eq!(report.hash.as_deref(), Some(blake3::hash(&data).to_hex().as_str()));
    assert_eq!(p0.chunk(&lease.id, (4, true), &[]).await.unwrap(), TransferAnswer::Ended(report), "too late for it");

    let lease = p0.route(&request("batch", MIB)).await.unwrap().lease.unwrap();
    p0.chunk(&lease.id, (0, false), &[(0, third)]).await.unwrap();
    until("the transfer has ended for want of its rest", async || {
        p0.client.get::<TransferReport>(&format!("/v1/transfers/{}", lease.id)).await.is_ok()
    })
    .await;
    let TransferAnswer::Ended(report) = p0.chunk(&lease.id, (1, true), &[(third, 1)]).await.unwrap() else { panic!() };
    assert_eq!((report.result, report.attempts.len()), (TransferResult::Failed, 1));
    let error = report.attempts[0].error.as_deref().unwrap();
    assert_eq!(error, "the next chunk did not come within transfer.lease_ttl, 2s");
    assert!(p0.paths().await.iter().all(|path| path.health.failed_bytes == 0), "no path is to blame");
    until("the lease is free", async || d0.leases().await.iter().all(|line| line.id != lease.id)).await;
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_is_refused_never_stands_in_the_way_of_one_that_is_not() {
    const REFUSED: usize = 6;
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms { sessions: 64, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    p0.settled(1).await;
    for round in 0..50 {
        let lease = p0.route(&request("batch", 1000)).await.unwrap().lease.unwrap().id;
        let refused = (0..REFUSED).map(|_| p0.transfer(&lease, &[(0, 1001)]));
        let (before, sound, after) = tokio::join!(
            futures_util::future::join_all(refused),
            p0.transfer(&lease, &[(0, 1000)]),
            futures_util::future::join_all((0..REFUSED).map(|_| p0.transfer(&lease, &[(0, 1001)]))),
        );
        assert_eq!(sound.map(|report| report.result).unwrap(), TransferResult::Delivered, "round {round}");
        for error in before.into_iter().chain(after).map(Result::unwrap_err) {
            assert!(matches!(error.status(), Some(400 | 409)), "round {round}: {error}");
        }
        assert!(d0.release(&lease).await);
    }
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unused_lease_expires_on_both_sides() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms::default()).await;
    let more = "[transfer]\nlease_ttl = \"200ms\"\n";
    let p0 = world.prefill("p0", Terms { more, ..Terms::default() }).await;
    p0.settled(1).await;
    let lease = p0.route(&request("batch", 100)).await.unwrap().lease.unwrap();
    until("the session is free again", async || d0.leases().await.is_empty()).await;
    // Its holder was told of it later, and so holds it for a little longer.
    until("the holder has let go of it", async || p0.leases().await.is_empty()).await;
    let error = p0.transfer(&lease.id, &[(0, 100)]).await.unwrap_err();
    assert!(error.to_string().contains("has expired"), "{error}");
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named_and_has_no_effect() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms::default()).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    p0.settled(1).await;
    let before = d0.leases().await.len();
    let refused = async |host: &Host, method: &str, path: &str, body: Value, status: u16, says: &[&str]| {
        let outcome: Result<Value, _> = match method {
            "PUT" => host.client.put(path, &body).await,
            _ => host.client.post(path, &body).await,
        };
        let error = outcome.expect_err(&format!("{method} {path} {body}"));
        assert_eq!(error.status(), Some(status), "{method} {path} {body}: {error}");
        for word in says {
            assert!(error.to_string().contains(word), "{method} {path} {body}: {error} does not say {word}");
        }
    };
    let route = |workload: &str, kv_bytes: Value| json!({"workload": workload, "kv_bytes": kv_bytes});
    refused(&p0, "POST", "/v1/route", route("nope", 1.into()), 400, &["workload", "nope", "batch"]).await;
    refused(&p0, "POST", "/v1/route", route("batch", 0.into()), 400, &["kv_bytes", "0", "allowed"]).await;
    let beyond = (4 * MIB + 1).into();
    refused(&p0, "POST", "/v1/route", route("batch", beyond), 400, &["kv_bytes", "4194305", "4194304"]).await;
    refused(&p0, "POST", "/v1/route", route("batch", (-1).into()), 400, &["kv_bytes"]).await;
    refused(&p0, "POST", "/v1/route", json!({"workload": "batch"}), 400, &["kv_bytes"]).await;
    let typo = json!({"workload": "batch", "kv_bites": 1});
    refused(&p0, "POST", "/v1/route", typo, 400, &["kv_bites", "kv_bytes"]).await;
    let capacity =
        |sessions: Value, token_time: Value| json!({"active_sessions": sessions, "token_time_ms": token_time});
    refused(&d0, "PUT", "/v1/capacity", capacity((-1).into(), 1.into()), 400, &["active_sessions"]).await;
    refused(&d0, "PUT", "/v1/capacity", capacity(4_000_000_000u64.into(), 1.into()), 400, &["active_sessions"]).await;
    refused(&d0, "PUT", "/v1/capacity", capacity(1.into(), (-2.5).into()), 400, &["token_time_ms", "-2.5"]).await;
    refused(&p0, "PUT", "/v1/capacity", capacity(1.into(), 1.into()), 409, &["no decode host"]).await;
    let transfer = |blocks: Value| json!({"lease": "d0.1.1", "blocks": blocks});
    let block = |offset: u64, bytes: u64| json!({"offset": offset, "bytes": bytes});
    let overlapping = transfer(json!([block(0, 10), block(5, 10)]));
    refused(&p0, "POST", "/v1/transfers", overlapping, 400, &["blocks", "overlap"]).await;
    let outside = transfer(json!([block(4 * MIB - 1, 2)]));
    refused(&p0, "POST", "/v1/transfers", outside, 400, &["block 0", "4194304"]).await;
    refused(&p0, "POST", "/v1/transfers", transfer(json!([])), 400, &["blocks"]).await;
    refused(&p0, "POST", "/v1/transfers", transfer(json!([block(0, 1)])), 404, &["d0.1.1"]).await;
    let other_mode = json!({"rail": "r0", "mode": "sideways"});
    refused(&p0, "PUT", "/v1/faults", other_mode, 400, &["sideways", "jitter"]).await;
    assert_eq!(d0.leases().await.len(), before);

    let sample = |duration_ms: Value, bytes: u64| json!({"destination": "d0", "duration_ms": duration_ms, "bytes": bytes, "outcome": "ok"});
    let samples = json!([
        sample((-1.0).into(), 1),
        sample(1e300.into(), 1),
        // 8 Gb/s is a megabyte a millisecond.
        sample(1.0.into(), 100_000_000),
        sample(1.0.into(), 1000),
        {"destination": "d9", "duration_ms": 1.0, "bytes": 1, "outcome": "ok"},
        {"destination": "d0", "duration_ms": 1.0, "bytes": 1, "outcome": "cancelled"},
        {"source": "p9", "destination": "d0", "duration_ms": 1.0, "bytes": 1, "outcome": "ok"},
    ]);
    let verdicts = p0.samples(&samples).await;
    let accepted: Vec<bool> = verdicts.iter().map(|verdict| verdict.accepted).collect();
    assert_eq!(accepted, [false, false, false, true, false, false, false], "{verdicts:?}");
    let reason = |at: usize| verdicts[at].reason.clone().unwrap();
    assert!(reason(0).contains("found -1"), "{}", reason(0));
    assert!(reason(2).contains("implausible"), "{}", reason(2));
    assert!(reason(4).contains("d9") && reason(5).contains("cancelled") && reason(6).contains("p9"));
    // JSON has no NaN or infinity: what stands for them does not even parse.
    let unparsable = json!([{"destination": "d0", "duration_ms": null, "bytes": 1, "outcome": "ok"}]);
    refused(&p0, "POST", "/v1/samples", unparsable, 400, &["duration_ms"]).await;
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_moves_its_own_bytes_routes_reports_and_releases() {
    let mut world = World::new().await;
    let more = "[transfer]\nmover = \"engine\"\n";
    let d0 = world.decode("d0", Terms { more, ..Terms::default() }).await;
    let d1 = world.decode("d1", Terms { more, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms { more, ..Terms::default() }).await;
    p0.settled(2).await;
    let record =
        p0.route(&RouteRequest { exclude: vec!["d1".parse().unwrap()], ..request("release", MIB) }).await.unwrap();
    let lease = record.lease.unwrap();
    assert_eq!(lease.id.node.as_str(), "d0");
    assert!(lease.extents.is_empty(), "the engine knows where its bytes go");
    let error = p0.transfer(&lease.id, &[(0, 1)]).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the engine"), "{error}");
    // Its transfers to d0 take far longer than the wire explains: the path turns gray by them alone.
    let slow = json!({"destination": "d0", "duration_ms": 400.0, "bytes": MIB, "outcome": "ok"});
    let verdicts = p0.samples(&json!(vec![slow; 10])).await;
    assert!(verdicts.iter().all(|verdict| verdict.accepted), "{verdicts:?}");
    // The samples are taken before they are acted on.
    until("release goes to d1", async || {
        let dry = p0.route(&RouteRequest { dry_run: true, ..request("release", MIB) }).await.unwrap();
        dry.chosen.and_then(|chosen| chosen.node).is_some_and(|node| node.as_str() == "d1")
    })
    .await;
    let adopted = json!({"active_sessions": 1, "adopted": [lease.id], "token_time_ms": 20.0});
    let done: Done = d0.client.put("/v1/capacity", &adopted).await.unwrap();
    assert!(done.changed, "{}", done.detail);
    p0.believes("d0", (1, 4)).await;
    assert!(p0.release(&lease.id).await);
    until("the lease is gone", async || d0.leases().await.is_empty()).await;
    for host in [p0, d0, d1] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engines_late_word_on_a_failed_transfer_counts_and_each_verdict_is_what_became_of_the_sample() {
    let mut world = World::new().await;
    let more = "[transfer]\nmover = \"engine\"\n";
    let d0 = world.decode("d0", Terms { more, ..Terms::default() }).await;
    let p0 = world.prefill("p0", Terms { more, ..Terms::default() }).await;
    p0.settled(1).await;
    let item = |bytes: u64, outcome: &str, age_ms: u64| json!({"destination": "d0", "duration_ms": 80.0, "bytes": bytes, "outcome": outcome, "age_ms": age_ms});
    until("the path was there two seconds ago", async || {
        let verdicts = p0.samples(&json!([item(1, "ok", 2000)])).await;
        verdicts[0].reason.as_ref().is_none_or(|reason| !reason.contains("earlier_life"))
    })
    .await;
    // 64 MiB take 67 ms on 8 Gb/s. The newer one comes first, and has ended last all the same.
    let items = json!([item(64 * MIB, "ok", 0), item(64 * MIB, "timeout", 1500), item(1, "ok", 61_000)]);
    let verdicts = p0.samples(&items).await;
    let accepted: Vec<bool> = verdicts.iter().map(|verdict| verdict.accepted).collect();
    assert_eq!(accepted, [true, true, false], "{verdicts:?}");
    until("the path is put aside", async || p0.state_of("d0").await == Some(PathState::Quarantined)).await;
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_knows_it_shows() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms::default()).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    p0.settled(1).await;
    let first = p0.route(&request("batch", 1000)).await.unwrap();
    let _: DecisionRecord = p0.client.get(&format!("/v1/decisions/{}", first.id)).await.unwrap();
    let none: Vec<DecisionRecord> = p0.client.get("/v1/decisions?class=release").await.unwrap();
    assert!(none.is_empty());
    let all: Vec<DecisionRecord> = p0.client.get("/v1/decisions?outcome=admitted&limit=5").await.unwrap();
    assert_eq!(all, std::slice::from_ref(&first));
    let members = p0.members().await;
    let roles: BTreeMap<&str, &str> = members.iter().map(|m| (m.node.as_str(), m.state.as_str())).collect();
    assert_eq!(roles, BTreeMap::from([("d0", "alive"), ("p0", "alive")]));
    let foreign: Vec<PathLine> = d0.paths().await;
    assert!(foreign.is_empty(), "a decode host sends on no path");
    let about = RouteRequest { source: Some("p0".parse().unwrap()), dry_run: true, ..request("batch", 1) };
    let record = d0.route(&about).await.unwrap();
    assert_eq!(record.candidates.len(), 1, "what d0 knows of p0's paths: the one to d0 itself");
    let metrics = p0.client.text("/metrics").await.unwrap();
    for line in [
        "# HELP seam_decisions_total",
        "seam_decisions_total{workload=\"batch\",outcome=\"admitted\"} 1",
        "seam_path_gfs{peer=\"d0\",pool=\"pool-d0\",rail=\"r0\",backend=\"mock\"}",
        "seam_build_info{",
    ] {
        assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
    }
    until("gauges are set", async || {
        let text = p0.client.text("/metrics").await.unwrap();
        text.contains("seam_node_gfs{perspective=\"source\"}") && text.contains("seam_members{state=\"alive\"} 2")
    })
    .await;
    let _: Done = d0.client.post("/v1/drain", &json!({})).await.unwrap();
    until("p0 hears of the drain", async || {
        let dry = p0.route(&RouteRequest { dry_run: true, ..request("batch", 1) }).await.unwrap();
        dry.candidates[0].code == Reason::RejectedDraining
    })
    .await;
    for host in [p0, d0] {
        host.agent.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_word_on_a_path_holds_until_it_is_withdrawn_and_is_told() {
    let mut world = World::new().await;
    let d0 = world.decode("d0", Terms::default()).await;
    let d1 = world.decode("d1", Terms::default()).await;
    let p0 = world.prefill("p0", Terms::default()).await;
    p0.settled(2).await;
    let mut events = p0.client.events("/v1/events").await.unwrap();
    let target = "p0>d0/r0/mock";
    let word = json!({"target": target, "state": "quarantined", "ttl": "1m", "reason": "switch maintenance"});
    let done: Done = p0.client.put("/v1/overrides", &word).await.unwrap();
    assert_eq!((done.changed, done.detail.as_str()), (true, "p0>d0/r0/mock counts as quarantined for 60000 ms"));
    let told: Value = loop {
        let event: Value = serde_json::from_str(&events.next().await.unwrap().unwrap().data).unwrap();
        if event["kind"] == "override" {
            break event;
        }
    };
    assert_eq!((&told["target"], &told["state"]), (&json!(target), &json!("quarantined")));
    assert_eq!(told["reason"], "switch maintenance");
    let dry = || RouteRequest { dry_run: true, ..request("batch", 1000) };
    let code_of = |record: &DecisionRecord, host: &str| {
        let of_host = |c: &&_| -> bool {
            let c: &seam::policy::record::CandidateRecord = c;
            c.target.node.as_ref().is_some_and(|node| node.as_str() == host)
        };
        record.candidates.iter().find(of_host).unwrap().code
    };
    let nowhere = json!({"target": "d9", "state": "quarantined", "ttl": "1s", "reason": "a typo"});
    let done: Done = p0.client.put("/v1/overrides", &nowhere).await.unwrap();
    assert!(done.detail.ends_with("no path of this node is known that it would meet now"), "{}", done.detail);
    let _: Done = p0.client.delete("/v1/overrides?target=d9").await.unwrap();
    let record = p0.route(&dry()).await.unwrap();
    assert_eq!(record.chosen.as_ref().unwrap().node.as_ref().unwrap().as_str(), "d1");
    assert_eq!(code_of(&record, "d0"), Reason::RejectedOverride);
    let listed: Vec<OverrideLine> = p0.client.get("/v1/overrides").await.unwrap();
    assert_eq!((listed.len(), listed[0].target.as_str()), (1, target));
    assert!((1..=60_000).contains(&listed[0].expires_in_ms));
    for (field, value) in [("target", "a b"), ("ttl", "soon"), ("ttl", "9days"), ("reason", " "), ("state", "fine")] {
        let mut bad = word.clone();
        bad[field] = json!(value);
        let error = p0.client.put::<Done>("/v1/overrides", &bad).await.unwrap_err().to_string();
        assert!(error.contains(field), "{field}: {error}");
    }
    let withdrawn: Done = p0.client.delete("/v1/overrides?target=p0%3Ed0/r0/mock").await.unwrap();
    assert!(withdrawn.changed);
    assert_ne!(code_of(&p0.route(&dry()).await.unwrap(), "d0"), Reason::RejectedOverride);
    for host in [p0, d0, d1] {
        host.agent.shutdown().await;
    }
}
