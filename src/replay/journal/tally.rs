//! What is there, counted.

use std::collections::BTreeMap;

use serde::Serialize;

use super::axis::Axis;
use super::life::{Item, What};
use crate::journal::{Entry, Header, Part, Said};
use crate::model::Outcome;

/// Classes counted by name at most; further ones are counted as `other`.
const MAX_CLASSES: usize = 1_024;

/// What is there of one life, counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// Segments of which at least the head can be read.
    pub segments: u64,
    /// The number of the first of them.
    pub first_segment: Option<u64>,
    /// The number of the last.
    pub last_segment: Option<u64>,
    /// The programs that wrote them: versions, in order of their first segments.
    pub builds: Vec<String>,
    /// When the first segment was opened, in milliseconds since the Unix epoch.
    pub from_ms: Option<u64>,
    /// When the last entry was written, on the life's [axis](Axis).
    pub to_ms: Option<u64>,
    /// Turns of each core.
    pub turns: BTreeMap<Part, u64>,
    /// Decisions.
    pub decisions: u64,
    /// Decisions by class and outcome.
    pub outcomes: BTreeMap<String, BTreeMap<Outcome, u64>>,
    /// Gaps.
    pub gaps: u64,
    /// Turns that were not written because of them.
    pub lost_turns: u64,
    /// Segments that are missing between others.
    pub missing_segments: u64,
    /// Segments that cannot be read to their end; a torn end of the newest one is none of them.
    pub damaged_segments: u64,
    /// Whether the newest segment ends within an entry.
    pub torn_end: bool,
    /// Cores that panicked.
    pub panics: u64,
    /// Whether the life ended in order.
    pub closed: bool,
    #[serde(skip)]
    axis: Option<Axis>,
}

impl Tally {
    /// The life's axis of time, as far as it is known by now.
    #[must_use]
    pub fn axis(&self) -> Axis {
        self.axis.unwrap_or_default()
    }

    /// Counts one item of the life; they come in order.
    pub fn take(&mut self, item: &Item) {
        match &item.what {
            What::Segment(header) => self.segment(header),
            What::Entry(entry) => self.entry(entry),
            What::Missing(numbers) => {
                let missing = numbers.end().saturating_sub(*numbers.start()).saturating_add(1);
                self.missing_segments = self.missing_segments.saturating_add(missing);
            }
            What::Broken(broken) if broken.is_torn_end() => self.torn_end = true,
            What::Broken(_) => self.damaged_segments += 1,
        }
    }

    fn segment(&mut self, header: &Header) {
        let axis = *self.axis.get_or_insert_with(|| Axis::of(header));
        self.segments += 1;
        self.first_segment.get_or_insert(header.segment);
        self.last_segment = Some(header.segment);
        if self.builds.last() != Some(&header.build) && self.builds.len() < MAX_CLASSES {
            self.builds.push(header.build.clone());
        }
        let opened_ms = axis.at_ms(header.opened.mono);
        self.from_ms.get_or_insert(opened_ms);
        self.reached(opened_ms);
    }

    fn entry(&mut self, entry: &Entry) {
        if let Some(now) = entry.now() {
            self.reached(self.axis().at_ms(now.mono));
        }
        match entry {
            Entry::Snapshot(_) => {}
            Entry::Turn(turn) => {
                *self.turns.entry(turn.input.part()).or_default() += 1;
                for said in &turn.said {
                    if let Said::Decided(record) = said {
                        self.decided(record.workload.name.as_str(), record.outcome);
                    }
                }
            }
            Entry::Gap(gap) => {
                self.gaps += 1;
                self.lost_turns = self.lost_turns.saturating_add(gap.lost);
            }
            Entry::Panicked(..) => self.panics += 1,
            Entry::Closed(_) => self.closed = true,
        }
    }

    fn reached(&mut self, ms: u64) {
        self.to_ms = Some(self.to_ms.map_or(ms, |last| last.max(ms)));
    }

    fn decided(&mut self, class: &str, outcome: Outcome) {
        self.decisions += 1;
        let known = self.outcomes.contains_key(class) || self.outcomes.len() < MAX_CLASSES;
        let class = if known { class } else { "other" };
        if let Some(outcomes) = self.outcomes.get_mut(class) {
            *outcomes.entry(outcome).or_default() += 1;
        } else {
            self.outcomes.insert(class.to_owned(), BTreeMap::from([(outcome, 1)]));
        }
    }
}
