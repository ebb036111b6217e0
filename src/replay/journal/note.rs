//! What is worth a line about a life's journal.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::life::{Item, Place, What};
use super::outputs::short;
use super::tally::Tally;
use crate::journal::{Entry, Part};
use crate::model::{Generation, NodeName, coded};

/// Notes kept of one life; further ones are counted.
pub const MAX_NOTES: usize = 100;

coded!(
    /// What a note is about.
    Noted {
        /// The first segment there is is not the life's first.
        BeginsLate = "begins_late",
        /// The newest segment ends within an entry.
        TornEnd = "torn_end",
        /// A segment cannot be read on.
        Damaged = "damaged",
        /// Segments are missing between others.
        Missing = "missing",
        /// Turns were not written.
        Gap = "gap",
        /// A core panicked.
        Panicked = "panicked",
        /// The mesh cannot be played from there on.
        MeshRunning = "mesh_running",
    }
);

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What about.
    pub noted: Noted,
    /// In which file.
    pub file: PathBuf,
    /// At which byte.
    pub at: u64,
    /// In words.
    pub text: String,
}

/// What one life's journal holds, without playing it.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Whose.
    pub node: NodeName,
    /// Which life.
    pub generation: Generation,
    /// Counts.
    #[serde(flatten)]
    pub tally: Tally,
    /// What is worth a line; at most [`MAX_NOTES`].
    pub notes: Vec<Note>,
    /// Further notes.
    pub notes_left_out: u64,
}

impl Overview {
    /// Nothing is known of this life yet.
    #[must_use]
    pub fn new(node: NodeName, generation: Generation) -> Self {
        Self { node, generation, tally: Tally::default(), notes: Vec::new(), notes_left_out: 0 }
    }

    /// Takes one item of the life; they come in order.
    pub fn take(&mut self, item: &Item) {
        let first = self.tally.segments == 0;
        self.tally.take(item);
        let (noted, text) = match &item.what {
            What::Segment(header) if first && header.segment > 0 => {
                (Noted::BeginsLate, format!("begins at segment {}: those before it are not there", header.segment))
            }
            What::Missing(numbers) => (Noted::Missing, format!("before this one {}", missing(numbers))),
            What::Broken(broken) if broken.is_torn_end() => (Noted::TornEnd, broken.fault.to_string()),
            What::Broken(broken) => (Noted::Damaged, broken.fault.to_string()),
            What::Entry(Entry::Gap(gap)) => {
                let turns = if gap.lost == 1 { "turn" } else { "turns" };
                (Noted::Gap, format!("not written here: {} {turns} of the {} core", gap.lost, gap.part))
            }
            What::Entry(Entry::Panicked(input, _)) => {
                (Noted::Panicked, format!("the {} core panicked at this input: {}", input.part(), short_input(input)))
            }
            What::Segment(_) | What::Entry(Entry::Snapshot(_) | Entry::Turn(_) | Entry::Closed(_)) => return,
        };
        self.note(noted, &item.place, text);
    }

    pub(super) fn note(&mut self, noted: Noted, place: &Place, text: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(Note { noted, file: place.path.to_path_buf(), at: place.at, text });
        } else {
            self.notes_left_out += 1;
        }
    }

    /// Whether anything of the journal is not there any more that was once written, a torn end excepted.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.tally.damaged_segments > 0 || self.tally.missing_segments > 0
    }

    /// Turns of one core.
    #[must_use]
    pub fn turns(&self, part: Part) -> u64 {
        self.tally.turns.get(&part).copied().unwrap_or_default()
    }
}

/// Which segments are missing, in words.
#[must_use]
pub fn missing(numbers: &RangeInclusive<u64>) -> String {
    match (numbers.start(), numbers.end()) {
        (first, last) if first == last => format!("segment {first} is missing"),
        (first, last) => format!("segments {first} to {last} are missing"),
    }
}

fn short_input(input: &crate::journal::Input) -> String {
    use crate::journal::Input;
    match input {
        Input::Health(input) => short(input),
        Input::Policy(input) => short(input),
        Input::Ledger(input) => short(input),
        Input::Mesh(input) => short(input),
    }
}
