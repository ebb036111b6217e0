//! `seamctl simulate` and the artifacts of the scenarios.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::process::{Command, Output, Stdio};

use seam::eval::scenario::{DEFAULT_SEED, ScenarioName, decision_trace, named, scenarios_json};
use seam::policy::record::DecisionRecord;
use serde_json::Value;

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.env_remove("COLUMNS").arg("simulate").args(args).stdin(Stdio::null()).output().unwrap()
}

fn shown(args: &[&str]) -> String {
    let output = simulate(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn objects(args: &[&str]) -> Vec<Value> {
    shown(args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn gray_failure_and_capacity_pressure_read_as_before_in_both_profiles() {
    for scenario in ["E", "F"] {
        for profile in ["reference", "mesh"] {
            let text = shown(&["--scenario", scenario, "--profile", profile]);
            insta::assert_snapshot!(format!("scenario_{}_{profile}", scenario.to_lowercase()), text);
        }
    }
}

#[test]
fn every_scenario_fits_a_hundred_columns_without_colour_and_says_what_to_look_at_next() {
    for profile in ["reference", "mesh"] {
        for seed in ["0", "7", "18446744073709551615"] {
            let text = shown(&["--seed", seed, "--profile", profile]);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(!text.contains('\u{1b}'), "colour without a terminal");
            assert_eq!(text.matches("\nPublished:\n").count(), 6);
            assert!(text.lines().last().unwrap().starts_with("Next: seamctl simulate "), "{text}");
        }
    }
}

#[test]
fn json_is_one_object_a_line_with_the_numbers_of_the_table_and_the_records() {
    let all = objects(&["--scenario", "all", "--json"]);
    let letters: Vec<&str> = all.iter().map(|object| object["scenario"].as_str().unwrap()).collect();
    assert_eq!(letters, ["A", "B", "C", "D", "E", "F"]);
    for object in &all {
        let name = object["scenario"].as_str().unwrap();
        assert_eq!(objects(&["--scenario", name, "--json"]), std::slice::from_ref(object));
        assert_eq!(object["profile"], "mesh", "the default");
        let text = shown(&["--scenario", name]);
        for pool in object["pools"].as_array().unwrap() {
            let number = |field: &str| pool[field].as_f64().unwrap();
            for cell in [
                format!("{:.4}", number("gfs")),
                format!("{:.2}", number("p99_latency_ms")),
                format!("{:.2}", number("jitter_ms")),
                pool["state"].as_str().unwrap().to_owned(),
            ] {
                assert!(text.split_whitespace().any(|word| word == cell), "{cell} in {text}");
            }
        }
        let records = object["records"].as_array().unwrap();
        assert_eq!(records.len(), object["routes"].as_array().unwrap().len());
        for (record, number) in records.iter().zip(1..) {
            let record: DecisionRecord = serde_json::from_value(record.clone()).unwrap();
            assert_eq!(record.id.to_string(), format!("scenario-{}.0.{number}", name.to_lowercase()));
        }
    }
}

#[test]
fn a_seed_gives_the_same_bytes_again_and_another_seed_others() {
    let once = shown(&["--seed", "42", "--json"]);
    assert_eq!(shown(&["--seed", "42", "--json"]), once);
    assert_ne!(shown(&["--seed", "43", "--json"]), once);
    assert_eq!(shown(&["--json"]), shown(&["--seed", &DEFAULT_SEED.to_string(), "--scenario", "ALL", "--json"]));
    assert_eq!(shown(&["--scenario", "e"]), shown(&["--scenario", "E"]));
}

#[test]
fn bad_usage_is_status_two_and_says_what_is_allowed() {
    let cases: [(&[&str], &str); 4] = [
        (&["--scenario", "G"], "scenario \"G\": unknown, allowed: A, B, C, D, E, F, all"),
        (&["--scenario", ""], "scenario \"\": unknown, allowed: A, B, C, D, E, F, all"),
        (&["--seed", "-1"], "'-1'"),
        (&["--profile", "mash"], "allowed: reference, mesh"),
    ];
    for (args, word) in cases {
        let output = simulate(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(word), "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_decision_trace_has_the_records_of_both_profiles_one_a_line() {
    for name in [ScenarioName::E, ScenarioName::F] {
        let trace = decision_trace(&named(name).unwrap(), DEFAULT_SEED);
        let mut expected = String::new();
        for profile in ["reference", "mesh"] {
            for object in objects(&["--scenario", name.as_str(), "--profile", profile, "--json"]) {
                for record in object["records"].as_array().unwrap() {
                    // The order of the fields is that of the record.
                    let record: DecisionRecord = serde_json::from_value(record.clone()).unwrap();
                    expected.push_str(&(serde_json::to_string(&record).unwrap() + "\n"));
                }
            }
        }
        assert_eq!(trace, expected);
    }
}

/// The tables of docs/scenarios.md, from the artifact that they are copied from.
fn tables(artifact: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut rows = String::new();
    for scenario in artifact["scenarios"].as_array().unwrap() {
        for pool in scenario["pools"].as_array().unwrap() {
            let fields = ["pool", "state", "gfs", "p99_latency_ms", "jitter_ms", "mean_drop_rate", "active_sessions"];
            let cells: Vec<String> = fields.iter().map(|field| text(&pool[field])).collect();
            rows.push_str(&format!("| {} | {} |\n", text(&scenario["profile"]), cells.join(" | ")));
        }
    }
    for scenario in artifact["scenarios"].as_array().unwrap() {
        for route in scenario["routes"].as_array().unwrap() {
            let refused = |candidate: &&Value| candidate["pool"] != route["chosen"];
            let others = route["candidates"].as_array().unwrap().iter().filter(refused).map(|candidate| {
                let code = text(&candidate["code"]);
                match (candidate["admissible"].as_bool().unwrap(), &candidate["observed"], &candidate["limit"]) {
                    (true, _, _) => format!("{}: {}", text(&candidate["pool"]), text(&candidate["skipped_reason"])),
                    (false, Value::Null, _) => format!("{}: {code}", text(&candidate["pool"])),
                    (false, seen, limit) => format!("{}: {code}, {seen} against {limit}", text(&candidate["pool"])),
                }
            });
            rows.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                text(&scenario["profile"]),
                text(&route["workload"]),
                text(&route["outcome"]),
                text(&route["chosen"]),
                others.collect::<Vec<_>>().join("; ")
            ));
        }
    }
    let counts = |map: &Value| {
        let counts = map.as_object().unwrap().iter().map(|(name, times)| format!("{name} {times}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    for tally in artifact["tallies"].as_array().unwrap() {
        let head = format!("| {} | {}", text(&tally["scenario"]), text(&tally["profile"]));
        for pool in tally["pools"].as_array().unwrap() {
            rows.push_str(&format!("{head} | {} | {} |\n", text(&pool["pool"]), counts(&pool["states"])));
        }
        for route in tally["routes"].as_array().unwrap() {
            let (workload, placed, held) = (text(&route["workload"]), counts(&route["placed"]), &route["held"]);
            rows.push_str(&format!("{head} | {workload} | {placed} | {held} |\n"));
        }
    }
    rows
}

#[test]
fn the_tables_of_the_document_are_those_of_the_artifact() {
    let artifact: Value = serde_json::from_str(&scenarios_json(DEFAULT_SEED)).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenarios.md");
    let document = std::fs::read_to_string(path).unwrap();
    let rows = tables(&artifact);
    let missing: Vec<&str> = rows.lines().filter(|row| !document.lines().any(|line| line == *row)).collect();
    assert!(missing.is_empty(), "docs/scenarios.md lacks:\n{}", missing.join("\n"));
    let measured = |line: &&str| line.starts_with("| ") && (line.contains("reference") || line.contains("mesh"));
    let stale: Vec<&str> =
        document.lines().filter(measured).filter(|line| !rows.lines().any(|row| row == *line)).collect();
    assert!(stale.is_empty(), "docs/scenarios.md has what does not come out:\n{}", stale.join("\n"));
}
