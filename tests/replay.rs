//! A recorded history decided again: the published trace gives the published table, whatever its
//! columns' order and wrapping, and what is wrong with a trace is said with its place.

#![cfg(feature = "agent")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

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

#[test]
fn the_published_trace_gives_the_published_choices_and_metrics() {
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    let (summary, choices) = run(TRACE, &reference()).unwrap();
    let name = |theirs: &str| if theirs == "seam_orchestrator" { "seam".to_owned() } else { theirs.to_owned() };

    let chosen = expected["chosen"].as_object().unwrap();
    assert_eq!((chosen.len(), choices.0.len()), (10, 10));
    for (request, policies) in chosen {
        for (policy, pool) in policies.as_object().unwrap() {
            assert_eq!(choices.0[request].0[name(policy).as_str()].as_deref(), pool.as_str(), "{request} {policy}");
        }
    }

    let found = serde_json::to_value(&summary).unwrap();
    let metrics = expected["summary"]["policy_metrics"].as_object().unwrap();
    assert_eq!(metrics.len(), 4);
    for (policy, metrics) in metrics {
        assert_eq!(found["policy_metrics"][name(policy)], *metrics, "{policy}");
    }
    for field in ["replay_requests", "strict_workloads_protected_by_seam", "headroom_preserved_by_seam"] {
        assert_eq!(found[field], expected["summary"][field], "{field}");
    }
}

#[test]
fn the_mesh_profile_serves_the_published_trace_no_worse() {
    let (summary, choices) = run(TRACE, &Settings::of(Profile::Mesh)).unwrap();
    let (_, seam) = summary.policy_metrics.iter().find(|(policy, _)| *policy == Policy::Seam).unwrap();
    // r003 has a degraded pool alone, and r004 a full one.
    assert_eq!((summary.strict_requests, seam.strict_healthy_pct), (6, Some(66.7)));
    assert_eq!((summary.tolerant_requests, seam.tolerant_degraded_pct), (4, Some(100.0)));
    assert_eq!((seam.no_pool_count, choices.0["r004"].1), (1, Outcome::NoAdmissiblePool));
}

#[test]
fn rivals_that_see_what_seam_refuses_may_take_it() {
    // The degraded pool is the fastest, and too much jitter for this class.
    let jittery = row(&[("pool_id", "fast"), ("latency_ms", "1.0"), ("jitter_ms", "4.0"), ("alternate_count", "1")]);
    let sound = row(&[("pool_id", "sound"), ("alternate_count", "1")]);
    let full = row(&[("request_id", "r2"), ("pool_id", "full"), ("occupancy", "8")]);
    let gone = row(&[("request_id", "r3"), ("pool_id", "gone"), ("drop_rate", "0.05")]);
    let trace = trace(&[jittery, sound, full, gone]);
    let policies = [Policy::Seam, Policy::LowestLatency];
    let pools = |rivals_see| {
        let (_, choices) = run(&trace, &Settings { rivals_see, ..only(&policies) }).unwrap();
        ["r1", "r2", "r3"].map(|request| choices.0[request].0["lowest_latency"].clone())
    };
    assert_eq!(pools(Choosable::AdmissibleOnly), [Some("sound".to_owned()), None, None]);
    assert_eq!(pools(Choosable::UpAndNotFull), [Some("fast".to_owned()), None, None]);
}

#[test]
fn a_request_is_strict_by_class_and_tolerant_by_class_or_criticality() {
    let request = |id: &str, class: &str, criticality: &str, strict: &str| {
        row(&[
            ("request_id", id),
            ("workload_type", class),
            ("criticality", criticality),
            ("is_prefill_decode_strict", strict),
        ])
    };
    let rows = [
        request("r1", "interactive", "0.1", "false"),
        request("r2", "strict-online", "0.8", "true"),
        request("r3", "release", "0.9", "true"),
        request("r4", "batch", "0.9", "false"),
        request("r5", "nightly", "0.35", "false"),
        // Neither: raised to 0.60, and of another class.
        request("r6", "nightly", "0.35", "true"),
        request("r7", "interactive-sync", "0.72", "true"),
    ];
    let (summary, _) = run(trace(&rows), &reference()).unwrap();
    assert_eq!((summary.strict_requests, summary.tolerant_requests, summary.replay_requests), (3, 2, 7));
}

#[test]
fn shares_of_no_requests_are_none() {
    let (summary, _) = run(trace(&[row(&[("workload_type", "other")])]), &reference()).unwrap();
    let metrics = summary.policy_metrics[0].1;
    assert_eq!((metrics.strict_healthy_pct, metrics.tolerant_degraded_pct), (None, None));
    let mut table = Vec::new();
    summary.write_csv(&mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.lines().nth(1).unwrap().starts_with("seam,1,0,,,0,0,0"), "{table}");
}

#[test]
fn line_ends_byte_order_mark_gzip_quotes_and_further_columns_change_nothing() {
    let plain = run(TRACE, &reference()).unwrap();
    let windows = format!("\u{feff}{}\r\n\r\n", TRACE.replace('\n', "\r\n"));
    let quoted: String =
        TRACE.lines().map(|line| format!("\"{}\"\n", line.split(',').collect::<Vec<_>>().join("\" , \""))).collect();
    let like_json: String = TRACE.lines().map(|line| format!("[note],{line}\n")).collect();
    let further: String = TRACE.lines().map(|line| format!("note,{line},\n")).collect();
    let python = TRACE.replace("true", "True").replace("false", "False");
    for (what, bytes) in [
        ("CRLF and BOM", windows.clone().into_bytes()),
        ("gzip", gzip(TRACE)),
        ("gzip of CRLF and BOM", gzip(&windows)),
        ("two gzip members", [gzip(&TRACE[..700]), gzip(&TRACE[700..])].concat()),
        ("quotes", quoted.into_bytes()),
        ("further columns", further.into_bytes()),
        ("a first column that looks like JSON", like_json.into_bytes()),
        ("Python's flags", python.into_bytes()),
    ] {
        assert!(run(bytes, &reference()).unwrap() == plain, "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_the_columns_changes_nothing(order in Just((0..16_usize).collect::<Vec<_>>()).prop_shuffle()) {
        let shuffled: String = TRACE
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                order.iter().map(|&at| fields[at]).collect::<Vec<_>>().join(",") + "\n"
            })
            .collect();
        prop_assert!(run(shuffled, &reference()).unwrap() == run(TRACE, &reference()).unwrap());
    }
}

#[test]
fn several_files_are_one_history() {
    let lines: Vec<&str> = TRACE.lines().collect();
    let (first, second) = (lines[..9].join("\n"), [&lines[..1], &lines[9..]].concat().join("\n"));
    let mut choices = Choices::default();
    let mut parts = Replay::new(reference()).unwrap();
    parts.feed("1.csv", Cursor::new(first.clone()), &mut choices).unwrap();
    parts.feed("2.csv", Cursor::new(gzip(&second)), &mut choices).unwrap();
    assert!((parts.finish(), choices) == run(TRACE, &reference()).unwrap());

    let mut again = Replay::new(reference()).unwrap();
    again.feed("1.csv", Cursor::new(first.clone()), &mut ()).unwrap();
    let error = again.feed("2.csv", Cursor::new(first), &mut ()).unwrap_err().to_string();
    assert!(error.starts_with("2.csv, line 2, request_id: found \"r001\" again, after other requests"), "{error}");
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_file_line_and_column() {
    let after = |rows: &[&[(&str, &str)]]| {
        trace(&[&[row(&[])], rows.iter().map(|changes| row(changes)).collect::<Vec<_>>().as_slice()].concat())
    };
    let one = |column: &str, value: &str| after(&[&[("request_id", "r2"), (column, value)]]);
    let same = |column: &str, value: &str| after(&[&[("pool_id", "b"), (column, value)]]);
    let without = |column: &str| trace(&[row(&[])]).replacen(column, "other", 1);
    for (text, expected) in [
        (String::new(), "t.csv, line 1, the file: found no line, allowed a header and at least one request"),
        (format!("{HEADER}\r\n\r\n"), "t.csv, line 3, the file: found a header alone, allowed at least one request"),
        (
            "{\"timestamp\": 1}\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace, whose",
        ),
        (
            "{\"timestamp\": 1, \"latency_ms\": 2}\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace, whose",
        ),
        (
            "[\"a\", \"timestamp\", 3]\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace",
        ),
        (
            one("pool_id", "\"a\"\u{1b}[31m"),
            "t.csv, line 3, the line: found \"\\u{1b}[31m,2.0,0.5,0.0,1,8,0.75,0.7,30,0.3,false,true,0\", allowed a comma",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n".into(),
            "t.csv, line 1, the first line: found a trace of request lengths, which says nothing of pools, allowed a CSV",
        ),
        ("\u{1}\u{0}seam".into(), "t.csv, line 1, the first line: found binary data, allowed a CSV request trace"),
        ("a,b\n1,2\n".into(), "t.csv, line 1, the first line: found \"a,b\", allowed a CSV request trace"),
        (
            without("latency_ms"),
            "t.csv, line 1, the header: found no column latency_ms, allowed each of the columns once, in any order",
        ),
        (
            format!("{HEADER},sla_ms\n"),
            "t.csv, line 1, the header: found sla_ms twice, allowed each of the columns once, in any order",
        ),
        (format!("{HEADER}\n1,2,3\n"), "t.csv, line 2, the line: found 3 fields, allowed 16, as in the header"),
        (one("pool_id", "\"a"), "t.csv, line 3, the line: found a quote that does not end, allowed quotes in pairs"),
        (one("timestamp", "soon"), "t.csv, line 3, timestamp: found \"soon\", allowed a date like 2026-05-02T09:00:03"),
        (
            one("request_id", ""),
            "t.csv, line 3, request_id: found nothing, allowed 1 to 128 printable ASCII characters",
        ),
        (one("workload_type", "a b"), "t.csv, line 3, workload_type: found \"a b\", allowed 1 to 64 letters"),
        (one("pool_id", "a/b"), "t.csv, line 3, pool_id: found \"a/b\", allowed 1 to 64 letters"),
        (
            one("latency_ms", "NaN"),
            "t.csv, line 3, latency_ms: found \"NaN\", allowed a finite number of milliseconds, 0 to 86400000",
        ),
        (one("latency_ms", "-0.1"), "t.csv, line 3, latency_ms: found \"-0.1\", allowed a finite number"),
        (one("latency_ms", ""), "t.csv, line 3, latency_ms: found nothing, allowed a finite number"),
        (one("jitter_ms", "inf"), "t.csv, line 3, jitter_ms: found \"inf\", allowed a finite number of milliseconds"),
        (one("jitter_ms", "1e9"), "t.csv, line 3, jitter_ms: found \"1e9\", allowed a finite number of milliseconds"),
        (one("drop_rate", "1.5"), "t.csv, line 3, drop_rate: found \"1.5\", allowed a finite number, 0 to 1"),
        (
            one("max_capacity", "0"),
            "t.csv, line 3, max_capacity: found \"0\", allowed a whole number of sessions, 1 to",
        ),
        (
            one("occupancy", "9"),
            "t.csv, line 3, occupancy: found \"9\", allowed a whole number of sessions, 0 to max_capacity, which is 8",
        ),
        (one("occupancy", "-1"), "t.csv, line 3, occupancy: found \"-1\", allowed a whole number of sessions"),
        (one("occupancy", "1.5"), "t.csv, line 3, occupancy: found \"1.5\", allowed a whole number of sessions"),
        (
            one("soft_capacity_fraction", "0"),
            "t.csv, line 3, soft_capacity_fraction: found \"0\", allowed a number above 0, at most 1",
        ),
        (one("criticality", "1.01"), "t.csv, line 3, criticality: found \"1.01\", allowed a finite number, 0 to 1"),
        (one("sla_ms", "0"), "t.csv, line 3, sla_ms: found \"0\", allowed a finite number of milliseconds above 0"),
        (one("jitter_tolerance", "-inf"), "t.csv, line 3, jitter_tolerance: found \"-inf\", allowed a finite number"),
        (one("is_release_path", "yes"), "t.csv, line 3, is_release_path: found \"yes\", allowed true or false"),
        (one("alternate_count", "0.5"), "t.csv, line 3, alternate_count: found \"0.5\", allowed a whole number, 0 to"),
        (
            after(&[&[("request_id", "r2")], &[("pool_id", "b")]]),
            "t.csv, line 4, request_id: found \"r1\" again, after other requests, allowed the rows of one request next to",
        ),
        (
            after(&[&[]]),
            "t.csv, line 3, pool_id: found a a second time for r1, allowed each candidate of a request once",
        ),
        (
            same("workload_type", "batch"),
            "t.csv, line 3, workload_type: found \"batch\", allowed \"interactive\" as in the first row of r1",
        ),
        (
            same("criticality", "0.71"),
            "t.csv, line 3, criticality: found \"0.71\", allowed \"0.7\" as in the first row of r1",
        ),
        (same("sla_ms", "31"), "t.csv, line 3, sla_ms: found \"31\", allowed \"30\" as in the first row of r1"),
        (same("jitter_tolerance", "0.2"), "t.csv, line 3, jitter_tolerance: found \"0.2\", allowed \"0.3\" as in"),
        (same("is_release_path", "true"), "t.csv, line 3, is_release_path: found \"true\", allowed \"false\" as in"),
        (
            same("is_prefill_decode_strict", "0"),
            "t.csv, line 3, is_prefill_decode_strict: found \"0\", allowed \"true\"",
        ),
        (same("timestamp", "late"), "t.csv, line 3, timestamp: found \"late\", allowed a date"),
    ] {
        let error = run(&text, &reference()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}\nfound    {error}\nexpected {expected}");
        assert!(error.len() < 600, "{error}");
    }
}

#[test]
fn rows_of_one_request_may_write_the_same_differently_and_be_taken_a_little_later() {
    let second = row(&[
        ("pool_id", "b"),
        ("criticality", "0.70"),
        ("is_release_path", "FALSE"),
        ("timestamp", "2026-05-02T09:00:01Z"),
    ]);
    let (summary, _) = run(trace(&[row(&[]), second]), &reference()).unwrap();
    assert_eq!((summary.replay_requests, summary.replay_rows, summary.pools), (1, 2, 2));
    // Neither row counts the other as an alternate.
    assert_eq!(summary.unlisted_alternates, 1);
}

#[test]
fn text_that_is_none_an_endless_line_and_broken_compression_are_errors() {
    let mut bytes = trace(&[row(&[])]).into_bytes();
    bytes.extend(b"\xff\n");
    let error = run(&bytes, &reference()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 3, the line: found other bytes, allowed UTF-8 text");

    let endless = Cursor::new(trace(&[row(&[])])).chain(std::io::repeat(b'x'));
    let error = replay("t.csv", endless, reference(), &mut ()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 3, the line: found a longer line, allowed lines of at most 1048576 bytes");

    let mut half = gzip(TRACE);
    half.truncate(half.len() / 2);
    let error = run(half, &reference()).unwrap_err().to_string();
    assert!(error.starts_with("t.csv: "), "{error}");
}

#[test]
fn a_request_has_a_bounded_number_of_candidates() {
    let rows = |count: usize| {
        let rows: Vec<String> = (0..count).map(|pool| row(&[("pool_id", &format!("p{pool}"))])).collect();
        trace(&rows)
    };
    let (summary, _) = run(rows(MAX_CANDIDATES), &only(&[Policy::Seam])).unwrap();
    assert_eq!((summary.replay_requests, summary.replay_rows), (1, 4096));
    let error = run(rows(MAX_CANDIDATES + 1), &reference()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 4098, request_id: found more than 4096 rows of r1, allowed at most 4096 candidates");
}

#[test]
fn a_trace_is_decided_while_it_is_read_and_a_listener_that_fails_ends_it() {
    struct Tired(u32);
    impl Sink for Tired {
        fn placed(&mut self, _: &Placed<'_>) -> std::io::Result<()> {
            self.0 += 1;
            if self.0 < 1_000 { Ok(()) } else { Err(std::io::Error::other("enough")) }
        }
    }
    // What follows the rows has no end: a reader that looked ahead without a limit would never return.
    let rows: Vec<String> = (0..2_000).map(|request| row(&[("request_id", &format!("r{request}"))])).collect();
    let endless = Cursor::new(trace(&rows)).chain(std::io::repeat(b'x'));
    let mut tired = Tired(0);
    let error = replay("t.csv", endless, reference(), &mut tired).unwrap_err();
    assert!(matches!(error, ReplayError::Sink(_)), "{error}");
    assert_eq!(tired.0, 1_000);
}

#[test]
fn kv_load_joins_where_there_are_prefix_blocks_and_says_what_it_needs_where_not() {
    let policies = |summary: &Summary| summary.policy_metrics.iter().map(|(policy, _)| *policy).collect::<Vec<_>>();
    let (summary, _) = run(trace(&[row(&[])]), &reference()).unwrap();
    let without: Vec<Policy> = Policy::ALL.iter().copied().filter(|policy| *policy != Policy::KvLoad).collect();
    assert_eq!(policies(&summary), without);

    let error = run(trace(&[row(&[])]), &only(&[Policy::Seam, Policy::KvLoad])).unwrap_err().to_string();
    let expected = "t.csv, line 1, the header: found no column prefix_blocks, allowed that column, which kv_load needs";
    assert_eq!(error, expected);

    let blocks = |rows: &[&str]| {
        let rows: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(pool, blocks)| format!("{},{blocks}", row(&[("pool_id", &format!("p{pool}"))])))
            .collect();
        format!("{HEADER},prefix_blocks\n{}\n", rows.join("\n"))
    };
    let (summary, choices) =
        run(blocks(&["1 2 18446744073709551615", "1  2 18446744073709551615"]), &reference()).unwrap();
    assert_eq!(policies(&summary), Policy::ALL);
    assert!(choices.0["r1"].0["kv_load"].is_some());
    assert!(run(blocks(&["", ""]), &only(&[Policy::KvLoad])).is_ok());
    for (rows, expected) in [
        (blocks(&["1 x"]), "t.csv, line 2, prefix_blocks: found \"x\", allowed whole numbers with blanks between them"),
        (
            blocks(&["1 2", "1 3"]),
            "t.csv, line 3, prefix_blocks: found \"1 3\", allowed \"1 2\" as in the first row of r1",
        ),
    ] {
        assert_eq!(run(rows, &reference()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn policies_are_compared_in_the_order_asked_for_each_once() {
    let asked = [Policy::CapacityOnly, Policy::Seam, Policy::CapacityOnly];
    let (summary, _) = run(TRACE, &only(&asked)).unwrap();
    let policies: Vec<Policy> = summary.policy_metrics.iter().map(|(policy, _)| *policy).collect();
    assert_eq!(policies, asked[..2]);
    // What Seam did is counted whether it is among them or not.
    let (summary, choices) = run(TRACE, &only(&[Policy::LowestLatency])).unwrap();
    assert_eq!((summary.strict_workloads_protected_by_seam, summary.headroom_preserved_by_seam), (4, 2));
    assert_eq!(choices.0["r004"].1, Outcome::NoAdmissiblePool);
}

#[test]
fn thresholds_out_of_range_are_refused_before_anything_is_read() {
    let mut settings = reference();
    settings.thresholds.drop_quarantine = 0.0;
    let error = run(TRACE, &settings).unwrap_err().to_string();
    assert_eq!(error, "thresholds.drop_quarantine: found 0, allowed above 0, at most 1");
}

#[test]
fn choices_are_written_as_csv_that_reads_back() {
    let odd = row(&[("request_id", "\"r,\"\"1\"\"\"")]);
    let full = row(&[("request_id", "r2"), ("occupancy", "8")]);
    let mut choices = ChoicesCsv::new(Vec::new());
    let settings = only(&[Policy::Seam, Policy::CapacityOnly]);
    replay("t.csv", Cursor::new(trace(&[odd, full])), settings, &mut choices).unwrap();
    let text = String::from_utf8(choices.finish().unwrap()).unwrap();
    let expected = "request_id,workload,seam,capacity_only,seam_outcome\n\
                    \"r,\"\"1\"\"\",interactive,a,a,admitted\n\
                    r2,interactive,,,no_admissible_pool\n";
    assert_eq!(text, expected);
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

#[test]
fn the_command_prints_a_table_of_at_most_a_hundred_columns() {
    let mut text = String::new();
    for args in [
        &["--profile", "reference"] as &[&str],
        &["--policy", "seam", "--policy", "lowest_latency", "--rivals-see", "up"],
    ] {
        let output = seamctl(&[&[PUBLISHED], args].concat());
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        text.push_str(&format!("$ seamctl replay trace.csv {}\n{}\n", args.join(" "), out(&output)));
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\u{1b}'), "colour where there is no terminal");
    insta::assert_snapshot!("seamctl_replay", text);
}

#[test]
fn the_command_prints_json_and_writes_equal_files_for_equal_input() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["first", "second"].map(|name| folder.path().join(name).join("deep"));
    for dir in &dirs {
        let output = seamctl(&[PUBLISHED, "--profile", "reference", "--json", "--out", dir.to_str().unwrap()]);
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        let printed: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(printed["policy_metrics"]["seam"]["tolerant_degraded_pct"], 100.0);
        assert_eq!(printed["rivals_see"], "admissible_only");
        let written: Value = serde_json::from_str(&read(&dir.join("replay.json"))).unwrap();
        assert_eq!(written, printed);
    }
    let mut names: Vec<_> = dirs[0].read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["choices.csv", "replay.csv", "replay.json"]);
    for name in names {
        assert_eq!(read(&dirs[0].join(&name)), read(&dirs[1].join(&name)), "{name:?}");
    }
    let choices = read(&dirs[0].join("choices.csv"));
    assert_eq!(choices.lines().count(), 11);
    let table = read(&dirs[0].join("replay.csv"));
    assert!(table.contains("\nlowest_latency,10,5,33.3,75.0,0,0,1\n"), "{table}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_command_refuses_with_status_two_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.csv");
    std::fs::write(&bad, trace(&[row(&[]), row(&[("request_id", "r2"), ("latency_ms", "-1")])])).unwrap();
    let dir = folder.path().join("out");
    let output = seamctl(&[bad.to_str().unwrap(), "--out", dir.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(err(&output).contains("bad.csv, line 3, latency_ms: found \"-1\", allowed"), "{}", err(&output));
    // Neither files nor the folder for them, wherever the fault lies.
    assert!(!dir.exists());
    let deep = dir.join("deep");
    for input in [PUBLISHED, "no/such.csv"] {
        let args = [PUBLISHED, input, "no/such.csv", "--out", deep.to_str().unwrap()];
        let output = seamctl(&args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        assert_eq!(err(&output), "seamctl: no/such.csv: No such file or directory (os error 2)\n");
        assert!(!dir.exists());
    }

    for (args, part) in [
        (&[PUBLISHED, env!("CARGO_MANIFEST_DIR")] as &[&str], "is a directory\n"),
        (&[PUBLISHED, "--config", "no/such.toml"], "no/such.toml: cannot be read"),
        (&[], "FILE"),
        (&[PUBLISHED, "--policy", "sem"], "seam"),
        (&[PUBLISHED, "--policy", "kv_load"], "no column prefix_blocks"),
        (&[PUBLISHED, "--rivals-see", "all"], "admissible"),
    ] {
        let output = seamctl(args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{args:?}");
        assert!(err(&output).contains(part), "{args:?}: {}", err(&output));
    }
    let output = seamctl(&[PUBLISHED, "--out", bad.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""));
}

#[test]
fn broken_compression_names_the_file_and_its_fault_once() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.csv.gz");
    let mut bytes = gzip(TRACE);
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&broken, bytes).unwrap();
    let output = seamctl(&[broken.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    let words = err(&output);
    let fault = words.trim_end().strip_prefix(&format!("seamctl: {}: ", broken.display())).unwrap();
    assert!(!fault.is_empty() && !fault.contains(':'), "{words}");
}

#[test]
fn a_configuration_decides_the_same_history_by_its_own_profile_and_thresholds() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.csv");
    let slow = row(&[
        ("workload_type", "batch"),
        ("latency_ms", "20"),
        ("criticality", "0.2"),
        ("sla_ms", "200"),
        ("jitter_tolerance", "0.9"),
        ("is_prefill_decode_strict", "false"),
    ]);
    std::fs::write(&history, trace(&[slow])).unwrap();
    let prefill = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/prefill.toml"));
    let config = folder.path().join("seam.toml");
    let decided = |policy: &str, args: &[&str]| {
        std::fs::write(&config, format!("{prefill}\n[policy]\n{policy}")).unwrap();
        let files = [history.to_str().unwrap(), "--json", "--config", config.to_str().unwrap()];
        let output = seamctl(&[files.as_slice(), args].concat());
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        let summary: Value = serde_json::from_str(&out(&output)).unwrap();
        (summary["profile"].as_str().unwrap().to_owned(), summary["policy_metrics"]["seam"]["no_pool_count"].clone())
    };
    let stricter = "thresholds.latency_quarantine_ms = 18.0\n";
    let reference = "profile = \"reference\"\n";
    assert_eq!(decided(reference, &[]), ("reference".to_owned(), 0.into()));
    assert_eq!(decided(&format!("{reference}{stricter}"), &[]), ("reference".to_owned(), 1.into()));
    assert_eq!(decided(stricter, &[]), ("mesh".to_owned(), 1.into()));
    // What is said beside it wins, and the thresholds stay the file's.
    assert_eq!(decided(stricter, &["--profile", "reference"]), ("reference".to_owned(), 1.into()));

    std::fs::write(&config, "[policy]\nprofil = \"mesh\"\n").unwrap();
    let output = seamctl(&[PUBLISHED, "--config", config.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(err(&output).contains("policy.profil: unknown key"), "{}", err(&output));
}

const DOCUMENT: &str = include_str!("../docs/replay.md");

#[test]
fn the_table_in_the_document_is_what_the_command_prints() {
    let block = DOCUMENT.split("```\n$ seamctl replay ").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (args, shown) = block.split_once('\n').unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.arg("replay").args(args.split(' ')).current_dir(env!("CARGO_MANIFEST_DIR"));
    let printed = out(&command.env_remove("COLUMNS").stdin(Stdio::null()).output().unwrap());
    let mut printed = printed.lines();
    let shown: Vec<&str> = shown.lines().filter(|line| *line != " …").collect();
    assert!(shown.len() > 10, "{block}");
    for line in shown {
        // In the order printed; only what the ellipsis stands for is left out.
        assert!(printed.any(|found| found == line), "docs/replay.md shows {line:?}, which is not printed there");
    }
}

#[test]
fn the_bounds_in_the_document_are_those_of_the_code() {
    let digits = |text: &str| text.replace(',', "");
    for (what, most) in [
        ("bytes of a line", MAX_LINE_BYTES),
        ("rows of a request", MAX_CANDIDATES as u64),
        ("different pools", MAX_POOLS as u64),
    ] {
        let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| {what} |"))).unwrap();
        assert_eq!(digits(row), format!("| {what} | {most} |"));
    }
    assert!(digits(DOCUMENT).contains(&format!("each for at least the {REMEMBERED_REQUESTS} requests that follow it")));
}
