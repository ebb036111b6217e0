//! Runs in which the journals of real agents must hold.
//!
//! `cargo bench --profile dev --bench hold -- mesh [REQUESTS] | kills [TIMES [SEED]]`
//!
//! - `mesh`: 2,000 requests through two prefill and two decode hosts while a path is gray, a decode
//!   host is killed and another joins. Every node's journal must come out identical when it is played
//!   again, and where one threshold is changed, each choice that differs must name its rule.
//! - `kills`: agents are killed at random instants under load, 8 times unless said; 50 is the full
//!   form. After each, what the killed life has left must be readable, come out identical up to its
//!   end, and have lost no more than `journal.fsync` allows.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a check fails by panicking"
)]

#[path = "../../tests/agents/common.rs"]
mod common;
mod journals;
mod kills;
mod load;
mod mesh;
#[path = "../../tests/agents/process.rs"]
#[allow(dead_code, reason = "each user has its own part")]
mod process;

const USAGE: &str = "mesh [REQUESTS] | kills [TIMES [SEED]]";

fn main() {
    let said: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |at: usize| said.get(at).map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}: {USAGE}")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let began = std::time::Instant::now();
    match said.first().map(String::as_str) {
        Some("mesh") => runtime.block_on(mesh::run(number(1).unwrap_or(mesh::REQUESTS))),
        Some("kills") => {
            let seed = number(2).unwrap_or_else(|| u64::from(std::process::id()));
            runtime.block_on(kills::run(number(1).unwrap_or(kills::SHORT), seed));
        }
        _ => panic!("found {said:?}, allowed {USAGE}"),
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("held, in {:.0} s; load {}", began.elapsed().as_secs_f64(), load.trim());
}
