//! A recorded history decided again: the published trace gives the published table, whatever its
//! columns' order and wrapping, and what is wrong with a trace is said with its place.

#![cfg(feature = "agent")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "replay/command.rs"]
mod command;
#[path = "replay/document.rs"]
mod document;
#[path = "replay/output.rs"]
mod output;
#[path = "replay/published.rs"]
mod published;
#[path = "replay/reading.rs"]
mod reading;
#[path = "replay/settings.rs"]
mod settings;

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use seam::model::{Outcome, Profile};
use seam::replay::{
    ChoicesCsv, MAX_CANDIDATES, MAX_POOLS, Placed, REMEMBERED_REQUESTS, Replay, ReplayError, Settings, Sink, Summary,
    replay,
};
use seam::rivals::{Choosable, Policy};
use seam::trace::MAX_LINE_BYTES;
use serde_json::Value;

const TRACE: &str = include_str!("../src/eval/data/replay_trace.csv");
const EXPECTED: &str = include_str!("data/replay_expected.json");
const HEADER: &str = "timestamp,request_id,workload_type,pool_id,latency_ms,jitter_ms,drop_rate,occupancy,max_capacity,\
                      soft_capacity_fraction,criticality,sla_ms,jitter_tolerance,is_release_path,\
                      is_prefill_decode_strict,alternate_count";

/// Every choice: by request, the pool by policy, and how Seam's decision ended.
#[derive(Debug, Default, PartialEq)]
struct Choices(BTreeMap<String, (BTreeMap<&'static str, Option<String>>, Outcome)>);

impl Sink for Choices {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        let pools = placed.policies.iter().zip(placed.chosen);
        let pools = pools.map(|(policy, pool)| (policy.as_str(), pool.map(str::to_owned))).collect();
        self.0.insert(placed.request_id.to_owned(), (pools, placed.outcome));
        Ok(())
    }
}

fn run(trace: impl AsRef<[u8]>, settings: &Settings) -> Result<(Summary, Choices), ReplayError> {
    let mut choices = Choices::default();
    let summary = replay("t.csv", Cursor::new(trace.as_ref().to_vec()), settings.clone(), &mut choices)?;
    Ok((summary, choices))
}

fn reference() -> Settings {
    Settings::of(Profile::Reference)
}

fn only(policies: &[Policy]) -> Settings {
    Settings { policies: policies.to_vec(), ..reference() }
}

/// A trace of one row, `r1` on pool `a`, with some of its fields changed.
fn row(changes: &[(&str, &str)]) -> String {
    let plain = "2026-05-02T09:00:00Z,r1,interactive,a,2.0,0.5,0.0,1,8,0.75,0.7,30,0.3,false,true,0";
    let mut fields: Vec<&str> = plain.split(',').collect();
    for (name, value) in changes {
        let at = HEADER.split(',').position(|column| column == *name).unwrap();
        fields[at] = value;
    }
    fields.join(",")
}

fn trace(rows: &[String]) -> String {
    format!("{HEADER}\n{}\n", rows.join("\n"))
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn seamctl(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    for name in ["SEAM_AGENT", "SEAM_TOKEN_FILE", "RUST_LOG", "COLUMNS"] {
        command.env_remove(name);
    }
    command.arg("replay").args(args).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/eval/data/replay_trace.csv");
