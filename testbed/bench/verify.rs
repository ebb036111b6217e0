//! How long a journal of a million turns takes to be played again, and in how much memory: the life of
//! a node in a simulated mesh is written as an agent writes it, then given to `seamctl replay`.
//!
//! `cargo bench --bench verify -- [--turns N] [--dir DIR]`; a folder that is named keeps the journal.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "a program, not a library")]

#[path = "verify/life.rs"]
mod life;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the memory of the program is looked at.
const LOOK: Duration = Duration::from_millis(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let said = |option| arguments.iter().position(|argument| argument == option).map(|at| &arguments[at + 1]);
    let turns: usize = said("--turns").map_or(1_000_000, |turns| turns.parse().unwrap());

    let folder = tempfile::tempdir().unwrap();
    let dir = said("--dir").map_or(folder.path(), Path::new);
    let began = Instant::now();
    let written = life::write(dir, turns);
    let took = began.elapsed().as_secs_f64();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{turns} turns ({written}), made in {took:.0} s; load {}", load.trim());
    println!("{:28} {:>8} {:>12} {:>14}", "seamctl replay", "s", "turns/s", "most RSS MB");
    for options in [&[] as &[&str], &["--verify"], &["--profile", "reference", "--policy", "round_robin"]] {
        let (seconds, rss_mb, said) = replay(dir, options);
        let name = if options.is_empty() { "(what is there)".to_owned() } else { options.join(" ") };
        println!("{name:28} {seconds:>8.2} {:>12.0} {rss_mb:>14.1}", turns as f64 / seconds);
        if options.contains(&"--verify") {
            println!("{}", said.lines().filter(|line| line.starts_with(['I', 'H'])).collect::<Vec<_>>().join("\n"));
        }
    }
}

/// How long one replay took, the most memory in which it was seen, and what it said.
fn replay(dir: &Path, options: &[&str]) -> (f64, f64, String) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_seamctl"))
        .arg("replay")
        .arg(dir)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Read while it runs: it waits when a pipe is full.
    let mut stdout = child.stdout.take().unwrap();
    let said = std::thread::spawn(move || std::io::read_to_string(&mut stdout).unwrap());
    let mut most: f64 = 0.0;
    let status = loop {
        most = most.max(most_rss_mb(child.id()).unwrap_or(0.0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(LOOK);
    };
    let seconds = began.elapsed().as_secs_f64();
    assert!(status.success(), "{options:?}: {status}");
    (seconds, most, said.join().unwrap())
}

/// The most that a process has held in memory so far; none once it has ended.
fn most_rss_mb(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().split(' ').next()?.parse::<f64>().ok()? / 1024.0)
}
