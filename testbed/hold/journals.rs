//! Journals that lie in folders, judged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seam::journal::{Entry, Said};
use seam::model::RequestId;
use seam::replay::journal::{History, Life, LifeReport, SegmentFile, What};
use serde_json::Value;

use crate::process::Site;

/// The section that keeps a host's journal: small segments, so that they are turned often.
pub(crate) fn section(site: &Site, name: &str) -> String {
    format!("[journal]\ndir = \"{}\"\nsegment_size = \"64KiB\"\n", folder(site, name).display())
}

pub(crate) fn folder(site: &Site, name: &str) -> PathBuf {
    site.path().join(format!("{name}-journal"))
}

/// Plays segments of one life again; they must come out identical up to their end.
pub(crate) fn verified(segments: &[SegmentFile]) -> LifeReport {
    let files: Vec<&Path> = segments.iter().map(|segment| &*segment.path).collect();
    let mut report = History::open(&files).unwrap().verify(|_| {});
    assert!(report.is_identical(), "{report:#?}");
    assert_eq!(report.lives.len(), 1);
    report.lives.remove(0)
}

/// Whoever begins to read at a later segment must find all that is promised too: there, and in the next.
pub(crate) fn verified_from_each_segment(dir: &Path) -> usize {
    let history = History::open(&[dir]).unwrap();
    let mut begun = 0;
    for life in history.lives() {
        let count = life.segments.len();
        for from in 1..count {
            verified(&life.segments[from..count.min(from + 2)]);
            begun += 1;
        }
    }
    begun
}

/// What one life says of itself.
pub(crate) struct Told {
    /// When its last entry was written, in milliseconds since the Unix epoch.
    pub(crate) last_ms: u64,
    /// What it decided.
    pub(crate) decided: Vec<RequestId>,
}

pub(crate) fn told(life: &Life) -> Told {
    let mut told = Told { last_ms: 0, decided: Vec::new() };
    for item in life.items() {
        let What::Entry(entry) = item.what else { continue };
        if let Some(now) = entry.now() {
            told.last_ms = told.last_ms.max(now.wall_ms);
        }
        let Entry::Turn(turn) = entry else { continue };
        for said in turn.said {
            if let Said::Decided(record) = said {
                told.decided.extend(record.request_id.clone());
            }
        }
    }
    told
}

/// `seamctl replay` with `--json`, and what it says.
pub(crate) fn seamctl_replay(arguments: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_seamctl")).arg("replay").args(arguments).arg("--json").output().unwrap();
    let said = serde_json::from_slice(&stdout);
    let Ok(said) = said else { panic!("{arguments:?}: {status}\n{}", String::from_utf8_lossy(&stderr)) };
    (status.code(), said)
}
