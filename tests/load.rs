//! `seamctl load` against agents that are processes of their own.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, unused_imports, reason = "each test file uses its own part")]
mod process;

use std::process::{Child, Command, Stdio};

use process::{Process, Setup, Site, until};
use rustix::process::{Pid, Signal, kill_process};
use seam::api::Done;
use serde_json::{Value, json};

fn load(agents: &[&Process], more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.args(["load", "--json", "--kv-scale", "0.0001"]).args(more);
    for agent in agents {
        command.args(["--agent", &format!("http://{}", agent.api)]);
    }
    for name in ["SEAM_AGENT", "SEAM_TOKEN_FILE"] {
        command.env_remove(name);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for its end; the status, the summary, and what it said.
async fn ended(child: Child) -> (Option<i32>, Value, String) {
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn number(summary: &Value, field: &str) -> u64 {
    summary[field].as_u64().unwrap_or_else(|| panic!("no {field} in {summary}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_delivered_and_released_and_a_signal_ends_the_load_with_its_summary() {
    let site = Site::new();
    let d0 =
        site.start("d0", Setup { decode: Some("max_sessions = 64\nengine.kind = \"static\""), ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup::PREFILL).await;
    p0.settled(1).await;

    let (status, summary, said) =
        ended(load(&[&p0, &d0], &["--rate", "40", "--duration", "1s", "--hold", "50ms", "--mix", "batch=1"])).await;
    assert_eq!((status, said.as_str()), (Some(0), ""), "{summary}");
    assert_eq!(number(&summary, "requests"), 40, "{summary}");
    for field in ["shed", "unanswered", "failed", "left"] {
        assert_eq!(number(&summary, field), 0, "{field}: {summary}");
    }
    assert_eq!(number(&summary, "refused") + number(&summary, "delivered"), 40, "{summary}");
    assert!(number(&summary, "delivered") > 0, "{summary}");
    assert_eq!(number(&summary, "released"), number(&summary, "delivered"), "{summary}");
    assert_eq!(summary["classes"]["batch"]["requests"], 40, "{summary}");

    let endless = load(&[&p0, &d0], &["--speedup", "20", "--hold", "1h", "--mix", "batch=1"]);
    until("a session is held", async || d0.leases().await.iter().any(|lease| lease.state == "delivered")).await;
    kill_process(Pid::from_child(&endless), Signal::TERM).unwrap();
    let (status, summary, said) = ended(endless).await;
    assert_eq!((status, said.as_str()), (Some(0), ""), "{summary}");
    assert_eq!(number(&summary, "released"), number(&summary, "delivered"), "{summary}");
    until("no lease is left", async || d0.leases().await.is_empty() && p0.leases().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_attempts_without_an_answer_left_on_their_decode_host_are_ended() {
    let site = Site::new();
    // Nobody else ends a session of such an engine.
    let d0 =
        site.start("d0", Setup { decode: Some("max_sessions = 64\nengine.kind = \"static\""), ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { more: "[transfer]\nbudget = \"2s\"\n", ..Setup::PREFILL }).await;
    p0.settled(1).await;
    let _: Done = p0.client.put("/v1/faults", &json!({"rail": "r0", "mode": "unanswered"})).await.unwrap();

    let endless = load(&[&p0, &d0], &["--rate", "4", "--duration", "1s", "--hold", "1h", "--mix", "batch=1"]);
    until("bytes have arrived", async || d0.leases().await.iter().any(|lease| lease.state == "delivered")).await;
    let (_, summary, _) = ended(endless).await;
    assert_eq!((number(&summary, "delivered"), number(&summary, "left")), (0, 0), "{summary}");
    assert!(number(&summary, "failed") > 0, "{summary}");
    until("no lease is left", async || d0.leases().await.is_empty() && p0.leases().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_needs_a_prefill_host_and_a_trace_that_can_be_read() {
    let site = Site::new();
    let d0 = site.start("d0", Setup::DECODE).await;
    let (status, _, said) = ended(load(&[&d0], &[])).await;
    assert_eq!(status, Some(2));
    assert!(said.contains("found no prefill host"), "{said}");
    let p0 = site.start("p0", Setup::PREFILL).await;
    let (status, _, said) = ended(load(&[&p0], &["--trace", "no-such-trace"])).await;
    assert_eq!(status, Some(2));
    assert!(said.contains("no-such-trace"), "{said}");
}
