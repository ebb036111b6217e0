//! What a route costs over HTTP, beside an empty axum handler that answers with as many bytes: real
//! agents as child processes, rounds of all modes interleaved, medians. The client shares the
//! processors with what it measures.
//!
//! `cargo bench --bench route -- [--candidates N] [--connections N] [--rounds N] [--seconds S]`
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod agents;
#[path = "route/client.rs"]
mod client;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agents::{Mesh, cpu_s, load, until};
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use client::Script;

/// Tolerant work: a machine that is busy with its own benchmark makes paths look gray.
fn question(dry_run: bool) -> String {
    format!(r#"{{"workload":"batch","kv_bytes":65536,"dry_run":{dry_run}}}"#)
}

/// One mode's round.
struct Round {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the servers per request, in microseconds.
    cpu_us: f64,
}

struct Mode {
    name: &'static str,
    server: SocketAddr,
    /// The processes whose time counts.
    pids: Vec<u32>,
    script: Script,
    rounds: Vec<Round>,
    unleased: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(bytes) = arguments.first().and_then(|first| first.strip_prefix("serve-empty=")) {
        return serve_empty(bytes.parse().unwrap());
    }
    let number = |name: &str, default: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    let (candidates, connections) = (number("--candidates", 8), number("--connections", 32));
    let (rounds, seconds) = (number("--rounds", 7), number("--seconds", 2));

    let mesh = Mesh::new("lan");
    let decode = mesh.decode("d0", true);
    let prefill = mesh.prefill("p0", candidates);
    let mut answer = String::new();
    until("every path is known, and a host has room", || {
        answer = prefill.post("/v1/route", &question(true));
        answer.matches("\"path_state\"").count() == candidates && answer.contains("\"outcome\":\"admitted\"")
    });
    let (empty, empty_address) = start_empty(answer.len());

    let agents = vec![prefill.pid(), decode.pid()];
    let mode = |name, server, pids, script| Mode { name, server, pids, script, rounds: Vec::new(), unleased: 0 };
    let mut modes = [
        mode("empty", empty_address, vec![empty.0.id()], Script::post("/empty", &question(true), false)),
        mode("dry run", prefill.api, agents.clone(), Script::post("/v1/route", &question(true), false)),
        mode("lease", prefill.api, agents, Script::post("/v1/route", &question(false), true)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 0..=rounds {
        for mode in &mut modes {
            let before: f64 = mode.pids.iter().map(|&pid| cpu_s(pid)).sum();
            let time = Duration::from_secs(seconds as u64);
            let load = runtime.block_on(client::run(mode.server, &mode.script, connections, time));
            let cpu = mode.pids.iter().map(|&pid| cpu_s(pid)).sum::<f64>() - before;
            mode.unleased += load.unleased;
            // The first round only warms up.
            if round > 0 {
                let count = load.latencies_us.len();
                let at = |share: f64| f64::from(load.latencies_us[(count as f64 * share) as usize]) / 1e3;
                mode.rounds.push(Round {
                    per_s: count as f64 / load.elapsed.as_secs_f64(),
                    p50_ms: at(0.5),
                    p99_ms: at(0.99),
                    cpu_us: cpu * 1e6 / count as f64,
                });
            }
        }
    }
    println!(
        "{candidates} candidates, {connections} connections, answers of {} bytes, {rounds} rounds of {seconds} s, load {}",
        answer.len(),
        load()
    );
    report(&modes);
}

/// A table, then the same as one line of JSON. Ratios are taken round by round.
fn report(modes: &[Mode]) {
    let empty: Vec<f64> = modes[0].rounds.iter().map(|round| round.per_s).collect();
    println!(
        "{:8} {:>24} {:>20} {:>20} {:>20} {:>20}",
        "", "requests/s", "p50 ms", "p99 ms", "cpu µs/request", "ratio"
    );
    let mut lines = Vec::new();
    for mode in modes {
        let of = |value: fn(&Round) -> f64| spread(mode.rounds.iter().map(value).collect());
        let ratio = spread(mode.rounds.iter().zip(&empty).map(|(round, empty)| round.per_s / empty).collect());
        let columns = [of(|r| r.per_s), of(|r| r.p50_ms), of(|r| r.p99_ms), of(|r| r.cpu_us), ratio];
        let [per_s, p50, p99, cpu, ratio] = &columns;
        println!(
            "{:8} {:>24} {:>20} {:>20} {:>20} {:>20}",
            mode.name,
            show(per_s, 0),
            show(p50, 2),
            show(p99, 2),
            show(cpu, 1),
            show(ratio, 2)
        );
        if mode.unleased > 0 {
            println!("{} routes got no lease", mode.unleased);
        }
        lines.push(serde_json::json!({
            "mode": mode.name, "requests_per_s": per_s, "p50_ms": p50, "p99_ms": p99,
            "server_cpu_us": cpu, "ratio_to_empty": ratio, "unleased": mode.unleased,
        }));
    }
    println!("{}", serde_json::Value::from(lines));
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

fn show([median, least, most]: &[f64; 3], digits: usize) -> String {
    format!("{median:.digits$} [{least:.digits$}–{most:.digits$}]")
}

/// A child process that is ended when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program again as the empty server.
fn start_empty(bytes: usize) -> (Server, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(format!("serve-empty={bytes}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Server(child), line.trim().parse().unwrap())
}

/// Reads every body and answers with `bytes` bytes.
fn serve_empty(bytes: usize) {
    let answer = Bytes::from(vec![b'x'; bytes]);
    let handler = post(move |_: Bytes| {
        let answer = answer.clone();
        async move { ([(CONTENT_TYPE, "application/json")], answer) }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use axum::serve::ListenerExt as _;

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        axum::serve(listener, axum::Router::new().route("/empty", handler)).await.unwrap();
    });
}
