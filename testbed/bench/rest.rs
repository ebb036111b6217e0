//! What an agent costs that has nothing to do: a mesh of six with default settings as child
//! processes, anonymous memory and processor time of each.
//!
//! `cargo bench --bench rest -- [--agents N] [--seconds S]`
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod agents;

use std::time::{Duration, Instant};

use agents::{Agent, Mesh, load, until};

/// What is not at rest yet right after the join.
const SETTLE: Duration = Duration::from_secs(5);
/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_secs(1);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    let (count, seconds) = (number("--agents", 6), number("--seconds", 40));

    let mesh = Mesh::new("lan");
    // Half of them send, half of them receive.
    let agents: Vec<Agent> = (0..count)
        .map(|at| match at % 2 {
            0 => mesh.decode(&format!("d{at}"), at == 0),
            _ => mesh.prefill(&format!("p{at}"), 1),
        })
        .collect();
    for agent in &agents {
        until("everyone knows everyone", || {
            agent.get("/v1/members").matches("\"state\":\"alive\"").count() as u64 == count
        });
    }
    std::thread::sleep(SETTLE);

    let start = Instant::now();
    let before: Vec<f64> = agents.iter().map(Agent::cpu_s).collect();
    let mut most = vec![0; agents.len()];
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(SAMPLE);
        for (most, agent) in most.iter_mut().zip(&agents) {
            *most = agent.rss_anon().max(*most);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    println!("{count} agents, {seconds} s, load {}", load());
    println!("{:8} {:>12} {:>14}", "agent", "RssAnon MB", "% of one core");
    let mut lines = Vec::new();
    for ((agent, before), most) in agents.iter().zip(before).zip(most) {
        let (megabytes, share) = (most as f64 / 1e6, (agent.cpu_s() - before) / elapsed * 100.0);
        println!("{:8} {megabytes:>12.1} {share:>14.2}", agent.name);
        lines.push(serde_json::json!({"agent": agent.name, "rss_anon_bytes": most, "cpu_percent": share}));
    }
    println!("{}", serde_json::Value::from(lines));
}
