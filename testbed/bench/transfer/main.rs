//! How fast each backend moves bytes on loopback from one process to another, beside plain TCP, a copy in
//! memory and what each library does with nothing around it. In every round each takes its turn; printed are
//! medians over the rounds, with the least and the most, as a table and as one line of JSON.
//!
//! `cargo bench --features nixl,ucx --bench transfer [-- ROUNDS [BYTES...]]`. NIXL is measured where
//! `SEAM_NIXL_LIBRARY` names the libraries of its wheel, UCX where its library is found, `ucx_perftest` where it
//! is installed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod ends;
mod plain;

use std::collections::BTreeMap;

use ends::{Kind, Sender};

const MIB: u64 = 1024 * 1024;
const SIZES: [u64; 4] = [MIB / 16, MIB, 16 * MIB, 64 * MIB];
const ROUNDS: usize = 5;
const PROBES: usize = 400;

/// What was measured, by name and size, in gigabytes per second.
#[derive(Default)]
struct Table(BTreeMap<(String, u64), Vec<f64>>);

impl Table {
    fn add(&mut self, name: &str, bytes: u64, gb_per_s: f64) {
        self.0.entry((name.to_owned(), bytes)).or_default().push(gb_per_s);
    }

    fn median(&self, name: &str, bytes: u64) -> Option<f64> {
        self.0.get(&(name.to_owned(), bytes)).map(|values| median(values))
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The other way to move as many bytes that a backend is set beside.
fn beside(name: &str) -> Option<&'static str> {
    Some(match name {
        "quic write" => plain::TCP,
        "nixl put" | "nixl write" => plain::NIXL,
        "ucx put" | "ucx write" => plain::UCX,
        "ucx puts, 8 at once" => plain::UCX_AT_ONCE,
        _ => return None,
    })
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let first = words.next();
    if first.as_deref() == Some(ends::RECEIVER) {
        return ends::receive(&words.collect::<Vec<_>>());
    }
    let rounds = first.map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut sizes: Vec<u64> = words.map(|bytes| bytes.parse().unwrap()).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let largest = *sizes.iter().max().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let senders: Vec<Sender> =
        Kind::here().into_iter().map(|kind| Sender::start(kind, dir.path(), largest).unwrap()).collect();
    let load_before = plain::load();
    let (mut table, mut probes) = (Table::default(), BTreeMap::<&str, Vec<f64>>::new());
    for round in 0..=rounds {
        let mut round_of = Table::default();
        for bytes in &sizes {
            for sender in &senders {
                let name = sender.kind.name();
                for (at_once, what) in [(1, "put"), (plain::AT_ONCE, "puts, 8 at once")] {
                    if let Some(put) = sender.put(*bytes, at_once) {
                        round_of.add(&format!("{name} {what}"), *bytes, put);
                    }
                }
                round_of.add(&format!("{name} write"), *bytes, sender.write(*bytes));
            }
            for (name, gb_per_s) in plain::round(*bytes) {
                round_of.add(name, *bytes, gb_per_s);
            }
        }
        for sender in &senders {
            let times = (0..PROBES / rounds.max(1)).map(|_| sender.probe_us());
            let times: Vec<f64> = times.collect();
            if round > 0 {
                probes.entry(sender.kind.name()).or_default().extend(times);
            }
        }
        for (name, bytes, gb_per_s) in plain::libraries(&sizes) {
            round_of.add(name, bytes, gb_per_s);
        }
        // The first round warms connections and memory.
        if round > 0 {
            round_of.0.into_iter().for_each(|((name, bytes), values)| table.add(&name, bytes, values[0]));
        }
    }
    print(&table, &probes, &sizes, load_before);
}

fn print(table: &Table, probes: &BTreeMap<&str, Vec<f64>>, sizes: &[u64], load_before: f64) {
    println!("GB/s, medians [least, most]; load {load_before:.1} before, {:.1} after", plain::load());
    print!("{:<28}", "bytes");
    sizes.iter().for_each(|bytes| print!("{bytes:>22}"));
    println!();
    let mut names: Vec<&String> = table.0.keys().map(|(name, _)| name).collect();
    names.dedup();
    let mut json = Vec::new();
    for name in names {
        print!("{name:<28}");
        for bytes in sizes {
            let Some(values) = table.0.get(&(name.clone(), *bytes)) else {
                print!("{:>22}", "–");
                continue;
            };
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            print!("{:>22}", format!("{:.3} [{least:.3}, {most:.3}]", median(values)));
            json.push(serde_json::json!({"name": name, "bytes": bytes, "gb_per_s": values}));
        }
        println!();
        let ratio = |bytes: &u64| Some(table.median(name, *bytes)? / table.median(beside(name)?, *bytes)?);
        if sizes.iter().any(|bytes| ratio(bytes).is_some()) {
            print!("{:<28}", format!("  of {}", beside(name).unwrap_or_default()));
            sizes.iter().for_each(|bytes| print!("{:>22}", ratio(bytes).map_or("–".into(), |r| format!("{r:.2}"))));
            println!();
        }
    }
    for (name, times) in probes {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() * part / 100).min(sorted.len() - 1)];
        println!("probe of 64 B over {name}: p50 {:.0} µs, p99 {:.0} µs", at(50), at(99));
        json.push(
            serde_json::json!({"name": format!("{name} probe"), "bytes": 64, "us": {"p50": at(50), "p99": at(99)}}),
        );
    }
    println!("{}", serde_json::Value::from(json));
}
