//! `seamctl journal verify`: the checksums of journals.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use seam::journal::{JournalError, Reader};
use seam::model::{Generation, NodeName};
use seam::replay::journal::{Broken, Fault, History, Life, SegmentFile, missing};
use serde::Serialize;

use crate::exit::{Failure, print, print_json};
use crate::table::{bytes, count};

/// Whose checksums to look at.
#[derive(Args)]
pub(crate) struct Walk {
    /// Segments of journals, or folders of them.
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Print what was found as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was found of all files.
#[derive(Serialize)]
struct Found {
    files: Vec<Walked>,
    missing: Vec<Missing>,
}

/// What was found of one file.
#[derive(Serialize)]
struct Walked {
    file: PathBuf,
    /// Sound entries, up to the first damage.
    entries: u64,
    bytes: u64,
    state: State,
    /// What is wrong, and at which byte.
    detail: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Sound,
    Torn,
    Damaged,
}

/// Segments between others that are not there.
#[derive(Serialize)]
struct Missing {
    node: NodeName,
    generation: Generation,
    first: u64,
    last: u64,
}

impl Walk {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let history = History::open(&self.files).map_err(Failure::usage)?;
        let found = Found::of(&history);
        match self.json {
            true => print_json(&found)?,
            false => print(&found.text())?,
        }
        let damaged = found.files.iter().filter(|file| file.state == State::Damaged).count();
        match (damaged, found.missing.len()) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::failed(anyhow::anyhow!("segments are missing"))),
            (damaged, _) => Err(Failure::failed(anyhow::anyhow!("{} damaged", count(damaged, "file")))),
        }
    }
}

impl Found {
    fn of(history: &History) -> Self {
        let mut found = Self { files: Vec::new(), missing: Vec::new() };
        for life in history.lives() {
            found.life(life);
        }
        for stray in history.strays() {
            let detail = Some(stray.error.to_string());
            let (file, bytes) = (stray.path.clone(), stray.bytes);
            found.files.push(Walked { file, entries: 0, bytes, state: State::Damaged, detail });
        }
        found
    }

    fn life(&mut self, life: &Life) {
        let mut expected = None;
        let newest = life.segments.last().map(|segment| segment.number);
        for segment in &life.segments {
            if let Some(first) = expected.filter(|expected| *expected < segment.number) {
                let last = segment.number.saturating_sub(1);
                self.missing.push(Missing { node: life.node.clone(), generation: life.generation, first, last });
            }
            expected = Some(segment.number.saturating_add(1));
            self.files.push(Walked::of(segment, newest == Some(segment.number)));
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Walked { file, entries, bytes: size, state, detail } in &self.files {
            let state = match (state, detail) {
                (State::Sound, _) => "sound".to_owned(),
                (State::Torn, detail) => format!("sound up to its end, {}", detail.as_deref().unwrap_or_default()),
                (State::Damaged, detail) => detail.clone().unwrap_or_default(),
            };
            let entries = if *entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
            text.push_str(&format!("{}: {entries}, {}: {state}\n", file.display(), bytes(*size)));
        }
        for Missing { node, generation, first, last } in &self.missing {
            text.push_str(&format!("{node}, life {generation}: {}\n", missing(&(*first..=*last))));
        }
        text
    }
}

impl Walked {
    fn of(segment: &SegmentFile, newest: bool) -> Self {
        let mut entries = 0;
        let fault = walk(&segment.path, &mut entries).err();
        let broken = fault.map(|fault| Broken { fault, newest });
        let state = match &broken {
            None => State::Sound,
            Some(broken) if broken.is_torn_end() => State::Torn,
            Some(_) => State::Damaged,
        };
        let detail = broken.map(|broken| broken.fault.to_string());
        Self { file: segment.path.to_path_buf(), entries, bytes: segment.bytes, state, detail }
    }
}

fn walk(path: &Path, entries: &mut u64) -> Result<(), Fault> {
    let file = File::open(path).map_err(JournalError::Io)?;
    let mut reader = Reader::open(BufReader::with_capacity(256 * 1024, file))?;
    while reader.pass_entry()?.is_some() {
        *entries += 1;
    }
    Ok(())
}
