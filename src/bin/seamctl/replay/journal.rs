//! Journals: what is in them, and whether playing them again gives the same.

pub(super) mod text;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use seam::replay::journal::{History, HistoryError, in_step};
use serde::Serialize;

use super::progress::Progress;
use super::{Replay, cannot_open, whatif};
use crate::exit::{Failure, print, print_json};

/// Whether journals are given, rather than CSV traces. It must not be both.
pub(super) fn are_given(paths: &[PathBuf]) -> Result<bool, Failure> {
    let mut kinds = Vec::with_capacity(paths.len());
    for path in paths {
        kinds.push(is_journal(path)?);
    }
    let first = |journal: bool| kinds.iter().position(|kind| *kind == journal).and_then(|index| paths.get(index));
    match (first(true), first(false)) {
        (Some(journal), Some(trace)) => Err(Failure::usage(anyhow::anyhow!(
            "{} holds journals and {} does not: give either journals or CSV traces",
            journal.display(),
            trace.display()
        ))),
        (journal, _) => Ok(journal.is_some()),
    }
}

/// By the content; by the name where a crash or damage has left nothing of it. A pipe cannot be read
/// twice and is taken for a trace.
fn is_journal(path: &Path) -> Result<bool, Failure> {
    const MAGIC: &[u8] = b"SEAMJRNL";
    if path.as_os_str() == "-" {
        return Ok(false);
    }
    let found = path.metadata().map_err(|error| cannot_open(path, error))?;
    if !found.is_file() {
        return Ok(found.is_dir());
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(|error| cannot_open(path, error))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut head).map_err(|error| cannot_open(path, error))?;
    Ok(head == MAGIC || path.extension().is_some_and(|extension| extension == "journal"))
}

/// Opens journals of which at least one can be read.
pub(crate) fn open(paths: &[PathBuf]) -> Result<History, Failure> {
    let history = History::open(paths).map_err(|error: HistoryError| Failure::usage(error))?;
    if history.is_readable() {
        return Ok(history);
    }
    let stray = history.strays().first().map(|stray| format!("{}: {}", stray.path.display(), stray.error));
    let segment = || {
        let item = history.lives().first()?.items().next()?;
        match item.what {
            seam::replay::journal::What::Broken(broken) => Some(format!("{}: {}", item.place, broken.fault)),
            _ => None,
        }
    };
    let what = stray.or_else(segment).unwrap_or_else(|| "nothing in them can be read".to_owned());
    Err(Failure::usage(anyhow::anyhow!("no journal can be read: {what}")))
}

pub(super) fn run(replay: &Replay) -> Result<(), Failure> {
    if replay.out.is_some() {
        return Err(Failure::usage(anyhow::anyhow!("--out is for CSV traces, and journals are given")));
    }
    let history = open(&replay.files)?;
    let asked = replay.explain.is_some() || replay.at.is_some();
    let other_rules = replay.config.is_some() || replay.profile.is_some() || !replay.policies.is_empty();
    let other_traffic = replay.requests.trace().is_some();
    match (replay.verify, asked || other_rules || other_traffic) {
        (true, _) => verify(replay, &history),
        (false, true) => whatif::run(replay, &history),
        (false, false) => overview(replay, &history),
    }
}

fn verify(replay: &Replay, history: &History) -> Result<(), Failure> {
    let hook = std::panic::take_hook();
    // A core that panics in the replay is in the report.
    std::panic::set_hook(Box::new(move |info| {
        if !in_step() {
            hook(info);
        }
    }));
    let mut progress = Progress::of_journals(history.bytes());
    let report = history.verify(|bytes| progress.passed(bytes));
    progress.end();
    if replay.json {
        #[derive(Serialize)]
        struct Verified<'a> {
            identical: bool,
            verified: u64,
            not_verifiable: u64,
            differences: u64,
            #[serde(flatten)]
            report: &'a seam::replay::journal::Report,
        }
        print_json(&Verified {
            identical: report.is_identical(),
            verified: report.verified(),
            not_verifiable: report.unverifiable(),
            differences: report.differences(),
            report: &report,
        })?;
    } else {
        print(&text::of_report(&report))?;
    }
    match (report.differences(), report.is_damaged()) {
        (0, false) => Ok(()),
        (0, true) => Err(Failure::failed(anyhow::anyhow!("the journal is damaged or part of it is missing"))),
        _ => Err(Failure::failed(anyhow::anyhow!("the replay differs from the journal"))),
    }
}

fn overview(replay: &Replay, history: &History) -> Result<(), Failure> {
    let of_choosers = [("--rivals-see", replay.rivals_see.is_some()), ("--seed", replay.seed.is_some())];
    if let Some((option, _)) = of_choosers.into_iter().find(|(_, said)| *said) {
        return Err(Failure::usage(anyhow::anyhow!(
            "{option} says how other policies choose or a trace is asked: give --policy or --trace as well"
        )));
    }
    let mut progress = Progress::of_journals(history.bytes());
    let lives = history.overviews(|bytes| progress.passed(bytes));
    progress.end();
    let strays = history.stray_reports();
    if replay.json {
        return print_json(&serde_json::json!({ "lives": lives, "strays": strays }));
    }
    print(&text::of_overviews(&lives, &strays))
}
