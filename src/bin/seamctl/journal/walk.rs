//! `seamctl journal verify`: the checksums of journals.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use seam::journal::{Damage, Entry, JournalError, Reader};
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
    /// What is wrong, and at which byte if that is known.
    detail: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Sound,
    /// The life's newest segment, which ends within an entry.
    Torn,
    /// The life's newest segment, of which nothing was written, or a part of its head.
    Empty,
    /// Another Seam wrote it: nothing is known of its entries.
    OtherFormat,
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
        let files = |state| match found.files.iter().filter(|file| file.state == state).count() {
            0 => None,
            files => Some(count(files, "file")),
        };
        let damaged = files(State::Damaged).map(|files| format!("{files} damaged"));
        let missing = (!found.missing.is_empty()).then(|| "segments are missing".to_owned());
        let other = files(State::OtherFormat).map(|files| format!("{files} of another format"));
        let wrong = damaged.is_some() || missing.is_some();
        let words: Vec<String> = [damaged, missing, other].into_iter().flatten().collect();
        match words.is_empty() {
            true => Ok(()),
            false if wrong => Err(Failure::failed(anyhow::anyhow!(words.join(", ")))),
            // They may be sound; this program cannot tell.
            false => Err(Failure::usage(anyhow::anyhow!(words.join(", ")))),
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
            let (state, detail) = match &stray.error {
                JournalError::Format { .. } => (State::OtherFormat, stray.error.to_string()),
                JournalError::Header(Damage::Torn { .. }) => {
                    (State::Damaged, format!("{NOTHING}, and its name says no life"))
                }
                error => (State::Damaged, error.to_string()),
            };
            let (file, bytes, detail) = (stray.path.clone(), stray.bytes, Some(detail));
            found.files.push(Walked { file, entries: 0, bytes, state, detail });
        }
        found
    }

    fn life(&mut self, life: &Life) {
        let mut expected = None;
        let mut before = None;
        let newest = life.segments.last().map(|segment| segment.number);
        for segment in &life.segments {
            if let Some(first) = expected.filter(|expected| *expected < segment.number) {
                let last = segment.number.saturating_sub(1);
                self.missing.push(Missing { node: life.node.clone(), generation: life.generation, first, last });
            }
            expected = Some(segment.number.saturating_add(1));
            self.files.push(Walked::of(segment, newest == Some(segment.number), before));
            before = Some(segment);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Walked { file, entries, bytes: size, state, detail } in &self.files {
            let words = match (state, detail) {
                (State::Sound, _) => "sound".to_owned(),
                (State::Torn, detail) => format!("sound up to its end, {}", detail.as_deref().unwrap_or_default()),
                (State::Empty | State::OtherFormat | State::Damaged, detail) => detail.clone().unwrap_or_default(),
            };
            let entries = match (state, entries) {
                (State::Empty | State::OtherFormat, _) => String::new(),
                (_, 1) => "1 entry, ".to_owned(),
                (_, entries) => format!("{entries} entries, "),
            };
            text.push_str(&format!("{}: {entries}{}: {words}\n", file.display(), bytes(*size)));
        }
        for Missing { node, generation, first, last } in &self.missing {
            text.push_str(&format!("{node}, life {generation}: {}\n", missing(&(*first..=*last))));
        }
        text
    }
}

impl Walked {
    fn of(segment: &SegmentFile, newest: bool, before: Option<&SegmentFile>) -> Self {
        let mut entries = 0;
        let fault = walk(&segment.path, &mut entries).err();
        let (state, detail) = match fault.map(|fault| Broken { fault, newest }) {
            None => (State::Sound, None),
            Some(broken) => {
                let (state, detail) = judged(&broken, before);
                (state, Some(detail))
            }
        };
        Self { file: segment.path.to_path_buf(), entries, bytes: segment.bytes, state, detail }
    }
}

/// What is said of a segment whose head is not there, however much of it is.
const NOTHING: &str = "holds nothing: its head was never written whole";

/// What a segment is that cannot be read to its end. `before` is the one before it in its life.
fn judged(broken: &Broken, before: Option<&SegmentFile>) -> (State, String) {
    match &broken.fault {
        Fault::Opening(JournalError::Format { .. }) => (State::OtherFormat, broken.fault.to_string()),
        Fault::Opening(JournalError::Header(Damage::Torn { .. })) if !broken.newest => {
            (State::Damaged, format!("{NOTHING}, and others follow it"))
        }
        Fault::Opening(JournalError::Header(Damage::Torn { .. })) => match before.is_some_and(is_closed) {
            true => (State::Damaged, format!("{NOTHING}, and its life was closed before it")),
            false => (State::Empty, NOTHING.to_owned()),
        },
        fault if broken.is_torn_end() => (State::Torn, fault.to_string()),
        fault => (State::Damaged, fault.to_string()),
    }
}

/// Whether its life ends in it, in order.
fn is_closed(segment: &SegmentFile) -> bool {
    let reader =
        File::open(&segment.path).map_err(JournalError::Io).and_then(|file| Reader::open(BufReader::new(file)));
    reader.is_ok_and(|reader| reader.map_while(Result::ok).any(|entry| matches!(entry, Entry::Closed(_))))
}

fn walk(path: &Path, entries: &mut u64) -> Result<(), Fault> {
    let file = File::open(path).map_err(JournalError::Io)?;
    let mut reader = Reader::open(BufReader::with_capacity(256 * 1024, file))?;
    while reader.pass_entry()?.is_some() {
        *entries += 1;
    }
    Ok(())
}
