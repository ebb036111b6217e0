//! What is in `outputs/` is what the code makes, and what the documents say of it is in `outputs/`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seam::eval::artifacts;
use seam::model::Profile;
use seam::policy::record::DecisionRecord;
use seam::rivals::Policy;

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
    let mut expected: BTreeSet<String> = made.iter().map(|artifact| format!("outputs/{}", artifact.path)).collect();
    // Of one real run, which no other gives again: docs/replay.md tells of it.
    expected.insert("outputs/recorded/incident.svg".to_owned());
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

/// What `text` names in backticks, and what it links to, each from the folder `from`.
fn named_files<'a>(text: &'a str, from: &Path) -> Vec<(&'a str, PathBuf)> {
    const ROOTS: [&str; 8] =
        ["src/", "docs/", "tests/", "outputs/", "configs/", "testbed/", "experiments/", "scenarios/"];
    let quoted = text.split('`').skip(1).step_by(2);
    // Fuzzing makes this one.
    let made = |word: &str| word.starts_with("testbed/fuzz/artifacts");
    let is_path =
        |word: &&str| ROOTS.iter().any(|root| word.starts_with(root)) && !word.contains([' ', '*', '{']) && !made(word);
    let quoted = quoted.filter(is_path).map(|word| {
        // From the project's root, or, in a document of a folder with such folders, from there.
        let here = from.join(word);
        (word, if here.exists() { here } else { root().join(word) })
    });
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let local = |link: &&str| !link.starts_with(['#', '<']) && !link.contains("://");
    let links = links.filter(local).map(|link| (link, from.join(link.split('#').next().unwrap())));
    quoted.chain(links).collect()
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let docs = files(&root().join("docs")).into_iter().filter(|path| path.ends_with(".md"));
    let mut seen = 0;
    for document in docs.chain(["README.md", "testbed/README.md", "outputs/summary.md"].map(str::to_owned)) {
        // Blocks are what a shell or a program prints.
        let text: String = read(&document).split("```").step_by(2).collect();
        let folder = root().join(&document).parent().unwrap().to_owned();
        for (name, path) in named_files(&text, &folder) {
            assert!(path.exists(), "{document} names {name}, which is not there");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn the_readme_counts_the_policies_that_there_are() {
    let (blocks, others): (Vec<Policy>, Vec<Policy>) =
        Policy::ALL.iter().filter(|policy| **policy != Policy::Seam).partition(|policy| policy.needs_prefix_blocks());
    assert_eq!((others.len(), blocks.as_slice()), (8, [Policy::KvLoad].as_slice()));
    let readme = read("README.md").replace('\n', " ");
    assert_eq!(readme.matches("beside eight other policies").count(), 2);
    assert!(readme.contains("(a ninth, `kv_load`, needs a trace with prefix blocks)"));
}
