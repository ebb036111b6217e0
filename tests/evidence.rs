//! What is in `outputs/` is what the code makes, and what the documents say of it is in `outputs/`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seam::eval::artifacts;
use seam::model::Profile;
use seam::policy::record::DecisionRecord;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `folder`, from the project's root.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn every_file_of_the_evidence_comes_out_byte_for_byte_and_there_is_no_other() {
    let made = artifacts::all().unwrap();
    for artifact in &made {
        let path = format!("outputs/{}", artifact.path);
        assert!(read(&path) == artifact.text, "{path} is not what `seamctl evaluate` makes");
    }
    let expected: BTreeSet<String> = made.iter().map(|artifact| format!("outputs/{}", artifact.path)).collect();
    assert_eq!(files(&root().join("outputs")), expected);
}

/// The rows of every table, each without the space around its cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    text.lines().filter(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn every_row_of_the_experiments_document_is_a_row_of_the_summary() {
    let made: BTreeSet<Vec<String>> = rows(&read("outputs/summary.md")).into_iter().collect();
    let told = rows(&read("docs/experiments.md"));
    assert!(told.len() > 40, "{}", told.len());
    for row in told {
        assert!(made.contains(&row), "docs/experiments.md: no row {row:?} in outputs/summary.md");
    }
}

#[test]
fn the_decision_that_the_decision_model_reads_is_the_one_in_the_trace() {
    let trace = read("outputs/scenarios/scenario-e.jsonl");
    let records: Vec<DecisionRecord> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mesh: Vec<&DecisionRecord> = records.iter().filter(|record| record.profile == Profile::Mesh).collect();
    let told = rows(&read("docs/decision-model.md"));
    let row = |head: &str| told.iter().find(|row| row[0] == head).unwrap_or_else(|| panic!("no row {head:?}"));
    let batch = &mesh[0].candidates;
    assert_eq!(mesh[0].workload.name.as_str(), "batch");
    assert_eq!((batch[0].target.pool.as_str(), batch[1].target.pool.as_str()), ("jitter", "clean"));
    for (column, one) in batch.iter().enumerate() {
        let cell = |head: &str| row(head)[column + 1].as_str();
        assert_eq!(cell("state, GFS"), format!("{}, {}", one.path_state, one.gfs));
        let health = &one.health;
        assert_eq!(cell("p99, jitter"), format!("{:.2} ms, {:.2} ms", health.p99_latency_ms, health.jitter_ms));
        assert_eq!(cell("PRS"), one.prs.to_string());
        assert!(cell("its rank").contains(&one.selection_vector.as_slice()[0].to_string()), "{one:?}");
    }
    for record in mesh {
        for (column, one) in record.candidates.iter().enumerate() {
            let compared = match (one.observed, one.limit) {
                (Some(observed), Some(limit)) if one.admissible => {
                    format!("{}: criticality {observed}, refused above {limit}", one.code)
                }
                (Some(observed), Some(limit)) => format!("{}: {observed:.2} ms, at most {limit} ms", one.code),
                _ => one.code.to_string(),
            };
            assert_eq!(row(record.workload.name.as_str())[column + 1], compared);
        }
    }
}

#[test]
fn every_picture_and_file_that_a_document_cites_is_there() {
    for document in [
        "docs/experiments.md",
        "docs/scenarios.md",
        "docs/decision-model.md",
        "docs/replacement-path.md",
        "outputs/summary.md",
    ] {
        let text = read(document);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let folder = root().join(document).parent().unwrap().to_owned();
        for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let path = folder.join(link.split('#').next().unwrap());
            assert!(path.exists(), "{document} cites {link}");
        }
        for word in text.split('`').filter(|word| word.starts_with("outputs/")) {
            assert!(root().join(word).exists(), "{document} cites {word}");
        }
    }
}
