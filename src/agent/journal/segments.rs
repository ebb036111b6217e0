//! The segments of one life, written one after the other.
//!
//! ```text
//!                 size, age, moved away                    pause over
//! open ──────────────────────────────────▶ next segment ◀──────────── outage
//!   │                                                                    ▲
//!   └──── cannot be written: what had not reached the file is lost ──────┘
//! ```
//!
//! A core of which turns were lost has none written before its next snapshot; a gap comes right
//! before that.
//!
//! The cores are told of a segment before it is opened. What waits already is written in it without a
//! snapshot before it, and is no younger than the time in its header; whatever is younger comes after
//! its core's snapshot.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::lost::{Losses, Lost};
use super::outage::Outage;
use super::output::{self, Output};
use super::queue::{Resumed, Taken};
use super::{Epoch, TURNS, next_epoch, retention};
use crate::agent::clock::Clock;
use crate::agent::folder::Folder;
use crate::config::JournalConfig;
use crate::core::Now;
use crate::journal::{Entry, Header, Input, Part, Writer, list, segment_name};
use crate::metrics::Metrics;
use crate::model::{Generation, NodeName};

/// What every segment says of the life.
pub(super) struct Life {
    pub(super) node: NodeName,
    pub(super) generation: Generation,
    pub(super) config_hash: Box<dyn Fn() -> String + Send>,
    pub(super) clock: Clock,
}

/// The segments of one life.
pub(super) struct Segments {
    life: Life,
    config: JournalConfig,
    folder: Folder,
    epoch: Epoch,
    metrics: Arc<Metrics>,
    /// The number of the next segment.
    next: u64,
    /// A segment was begun, or could not be.
    tried: bool,
    open: Option<Open>,
    /// Turns that no gap tells of yet.
    lost: Losses,
    outage: Outage,
    scratch: Vec<u8>,
}

/// The segment being written.
struct Open {
    writer: Writer<Output>,
    /// Turns that have not reached the file yet.
    unwritten: Losses,
    /// What the gaps that have not reached it yet tell of, and how many they are.
    untold: Losses,
    gaps: u64,
    /// Bytes of snapshots in it.
    snapshots: u64,
    /// Bytes that older segments leave to it.
    reserved: u64,
}

impl Segments {
    pub(super) fn new(life: Life, config: JournalConfig, folder: Folder, epoch: Epoch, metrics: Arc<Metrics>) -> Self {
        Self {
            life,
            config,
            folder,
            epoch,
            metrics,
            next: 0,
            tried: false,
            open: None,
            lost: Losses::default(),
            outage: Outage::new(TURNS),
            scratch: Vec::new(),
        }
    }

    pub(super) fn turn(&mut self, turn: Box<dyn Taken>) {
        let (part, now) = (turn.part(), turn.now());
        if self.open.is_none() || self.lost.has(part) {
            return self.lose(part, now);
        }
        let entry = turn.entry(&mut self.scratch);
        match self.append(&entry) {
            true => self.open.iter_mut().for_each(|open| open.unwritten.add(part, now)),
            false => self.lose(part, now),
        }
        self.make_room();
    }

    pub(super) fn snapshot(&mut self, Resumed { snapshot, now, lost }: Resumed) {
        let part = snapshot.part();
        self.lost.merge(part, lost);
        if !self.gap(part, now) {
            return;
        }
        let before = self.len();
        if self.append(&Entry::Snapshot(snapshot)) {
            let bytes = self.len().saturating_sub(before);
            self.open.iter_mut().for_each(|open| open.snapshots += bytes);
        }
        self.make_room();
    }

    /// Turns are lost, and no snapshot follows.
    pub(super) fn lost(&mut self, part: Part, lost: Lost) {
        self.lost.merge(part, Some(lost));
    }

    pub(super) fn panicked(&mut self, input: Input, now: Now) {
        self.gap(input.part(), now);
        self.append(&Entry::Panicked(input, now));
    }

    /// Writes what was gathered.
    pub(super) fn write_out(&mut self) {
        let Some(open) = &mut self.open else { return };
        match open.writer.get_mut().write_out() {
            Ok(bytes) => {
                (open.unwritten, open.untold) = (Losses::default(), Losses::default());
                self.metrics.journal_written(bytes, std::mem::take(&mut open.gaps));
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Forces what was written to the disk.
    pub(super) fn sync(&mut self) {
        self.write_out();
        let Some(open) = &mut self.open else { return };
        let output = open.writer.get_mut();
        match output.sync() {
            Ok(()) => self.outage.over(output.path()),
            Err(error) => self.fail(&error),
        }
    }

    /// Does what time asks for: forces to the disk, turns to the next segment, tries again.
    pub(super) fn tick(&mut self, now: Instant) {
        let Some(open) = &self.open else {
            if !self.outage.waits(now) {
                self.begin();
            }
            return;
        };
        let output = open.writer.get_ref();
        let (due, old) = (
            now.saturating_duration_since(output.synced()) >= self.config.fsync,
            now.saturating_duration_since(output.opened()) >= self.config.max_age,
        );
        if due {
            self.sync();
            let moved = |open: &&Open| !open.writer.get_ref().is_in_place();
            if let Some(open) = self.open.as_ref().filter(moved) {
                let path = open.writer.get_ref().path().display();
                tracing::warn!(%path, "the segment was deleted, moved away or cut: a new one is begun");
                self.begin();
                return;
            }
        }
        if old {
            self.rotate();
        }
    }

    /// The life ends in order.
    pub(super) fn close(mut self) {
        let now = self.life.clock.now();
        for &part in Part::ALL {
            self.gap(part, now);
        }
        self.append(&Entry::Closed(now));
        self.sync();
    }

    /// What is written from now on goes elsewhere.
    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: std::fs::File) {
        self.open.iter_mut().for_each(|open| open.writer.get_mut().replace_file(file.try_clone().unwrap()));
    }

    fn len(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.writer.written())
    }

    fn lose(&mut self, part: Part, now: Now) {
        self.lost.add(part, now);
        self.metrics.dropped(TURNS);
    }

    /// Writes down what was lost of a core; false if it cannot be.
    fn gap(&mut self, part: Part, until: Now) -> bool {
        let Some(open) = &mut self.open else { return false };
        if let Some(lost) = self.lost.take(part) {
            open.untold.merge(part, Some(lost));
            open.gaps += 1;
            self.append(&Entry::Gap(lost.gap(part, until)));
        }
        true
    }

    /// Whether the entry was taken; one that is too large is not.
    fn append(&mut self, entry: &Entry) -> bool {
        let Some(open) = &mut self.open else { return false };
        open.writer.append(entry).inspect_err(|error| tracing::error!(%error, "left out of the journal")).is_ok()
    }

    /// Writes what was gathered if it is much, and turns to the next segment when this one is full.
    /// One that snapshots fill grows until its turns are as large: each segment begins with them.
    fn make_room(&mut self) {
        let Some(open) = &mut self.open else { return };
        let written = open.writer.written();
        let full = written >= self.config.segment_size.max(open.snapshots.saturating_mul(2));
        if written > open.reserved {
            open.reserved = written.saturating_add(self.config.segment_size);
            self.trim();
        }
        let Some(open) = &self.open else { return };
        match full {
            true => self.rotate(),
            false if open.writer.get_ref().is_full() => self.write_out(),
            false => {}
        }
    }

    fn rotate(&mut self) {
        self.sync();
        if self.open.is_some() {
            self.begin();
        }
    }

    /// Opens the next segment.
    fn begin(&mut self) {
        // This one will be about as large as the last.
        let reserved = self.len().max(self.config.segment_size);
        self.open = None;
        let first = !std::mem::replace(&mut self.tried, true);
        let path = self.folder.path().join(segment_name(&self.life.node, self.life.generation, self.next));
        // The cores' first snapshots are for the first segment: they are under way.
        if !first {
            next_epoch(&self.epoch);
        }
        match self.create(path.clone()) {
            Ok(writer) => {
                self.next += 1;
                let (unwritten, untold) = Default::default();
                self.open = Some(Open { writer, unwritten, untold, gaps: 0, snapshots: 0, reserved });
                self.trim();
            }
            Err(error) => self.outage.failed(&path, &error, Instant::now()),
        }
    }

    fn create(&mut self, path: PathBuf) -> io::Result<Writer<Output>> {
        self.folder.renew().map_err(io::Error::other)?;
        let header = Header {
            node: self.life.node.clone(),
            generation: self.life.generation,
            segment: self.next,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            config_hash: (self.life.config_hash)(),
            opened: self.life.clock.now(),
        };
        let begun = Writer::begin(Output::create(path.clone())?, &header)
            .and_then(|mut writer| Ok((writer.get_mut().write_out()?, writer)));
        // One without a head is of no use to anybody.
        let (written, writer) = begun.inspect_err(|_| output::discard(&path))?;
        self.metrics.journal_written(written, 0);
        Ok(writer)
    }

    /// Deletes the oldest segments of this node, so that this one fits beside the others.
    fn trim(&self) {
        let Some(open) = &self.open else { return };
        let Ok(segments) = list(self.folder.path()) else { return };
        let own = segments.into_iter().filter(|segment| segment.node == self.life.node);
        let limit = self.config.retain.saturating_sub(open.reserved);
        retention::trim(own.map(|segment| segment.path), open.writer.get_ref().path(), limit);
    }

    /// What has not reached the file is lost, and the segment ends here.
    fn fail(&mut self, error: &io::Error) {
        let Some(mut open) = self.open.take() else { return };
        open.untold.move_into(&mut self.lost);
        let lost = open.unwritten.move_into(&mut self.lost);
        self.metrics.dropped_many(TURNS, lost);
        self.outage.failed(open.writer.get_ref().path(), error, Instant::now());
    }
}
