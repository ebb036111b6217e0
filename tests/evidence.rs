//! What is in `outputs/` is what the code makes, and what the documents say of it is in `outputs/`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seam::eval::artifacts;

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

/// The numbers in a text, signs and units left out.
fn numbers(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let normal = |part: &str| part.trim_matches('.').parse::<f64>().ok().map(|number| number.to_string());
    parts.filter_map(normal).collect()
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
fn every_number_in_a_table_of_the_other_documents_is_in_the_outputs() {
    let outputs: Vec<String> = files(&root().join("outputs")).iter().map(|path| read(path)).collect();
    let known: BTreeSet<String> = outputs.iter().flat_map(|text| numbers(text)).collect();
    for document in ["docs/scenarios.md", "docs/decision-model.md", "docs/replacement-path.md"] {
        for row in rows(&read(document)) {
            for number in numbers(&row.join(" ")) {
                assert!(known.contains(&number), "{document}: {number} in {row:?} is in no file of outputs/");
            }
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
