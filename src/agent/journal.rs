//! The agent's side of the journal: every core's turns, and every decision, on their way into files.
//!
//! ```text
//! owner of a core ──▶ recorder ──┐
//! owner of a core ──▶ recorder ──┼──▶ bounded queue ──▶ writer's thread ──┬──▶ segments (tapes)
//! policy's effects ── decided ───┘                                        └──▶ lines (decisions)
//! ```
//!
//! Whoever owns a core only clones what its turn was told and what came of it. Everything else is
//! the writer's: it encodes, digests, writes, turns to the next file and deletes the oldest. It
//! polls the queue, since to be woken would cost each sender some microseconds. What does not fit
//! the queue, or the disk, is lost and counted: routing never waits for the journal.

mod control;
mod lines;
mod lost;
mod outage;
mod output;
mod queue;
mod recorder;
mod repair;
mod retention;
mod segments;
mod tape;
#[cfg(test)]
mod tests;
mod weight;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::Clock;
use super::folder::{self, Folder};
use crate::config::{JournalConfig, RecordsConfig};
use crate::metrics::Metrics;
use crate::model::{Generation, NodeName};
use crate::policy::record::DecisionRecord;
use control::Control;
pub(crate) use control::flush_all;
use lines::Lines;
use queue::Sender;
use recorder::Recorder;
use segments::Segments;
use writer::Writer;

pub use super::folder::FolderError;
pub use tape::{Tape, TapeOf, Turn};
pub use weight::Recorded;

/// The queue's name in `seam_queue_dropped_total` for turns that were lost.
const TURNS: &str = "journal";
/// The same for decision records.
const RECORDS: &str = "records";

/// The key of the tapes' folder.
const DIR: &str = "journal.dir";

/// What an agent keeps in files, and where.
pub struct Settings {
    /// Whose.
    pub node: NodeName,
    /// `[journal]`; none: no tapes are kept.
    pub journal: Option<JournalConfig>,
    /// `[records]`; none: no decisions are kept.
    pub records: Option<RecordsConfig>,
    /// The fingerprint of the configuration that holds now.
    pub config_hash: Box<dyn Fn() -> String + Send>,
}

/// A journal whose folder is held, before the life that it is to record has its number.
pub struct Prepared {
    settings: Settings,
    folder: Option<Folder>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

/// A running journal. Clones share it; it ends with the last one and the last tape.
#[derive(Clone)]
pub struct Journal {
    sender: Sender,
    metrics: Arc<Metrics>,
    tapes: bool,
    records: bool,
}

/// Makes and locks the folders, and mends the newest segment of an earlier life if that ended in the
/// middle of an entry; none if nothing is to be kept.
///
/// # Errors
/// A folder cannot be had.
pub fn prepare(settings: Settings, metrics: Arc<Metrics>) -> Result<Option<Prepared>, FolderError> {
    prepare_with(settings, metrics, Clock::start(), None)
}

/// As [`prepare`], on the clock of the agent's cores, and beside a folder that the agent holds already:
/// that may be the same one.
pub(crate) fn prepare_with(
    settings: Settings,
    metrics: Arc<Metrics>,
    clock: Clock,
    held: Option<&Folder>,
) -> Result<Option<Prepared>, FolderError> {
    if settings.journal.is_none() && settings.records.is_none() {
        return Ok(None);
    }
    let hold = |JournalConfig { dir, .. }: &JournalConfig| match held {
        Some(held) => held.hold_also(DIR, dir),
        None => Folder::hold(DIR, dir, &settings.node),
    };
    let folder = settings.journal.as_ref().map(hold).transpose()?;
    if let Some(folder) = &folder {
        repair::repair(folder.path(), &settings.node);
    }
    if let Some(records) = &settings.records {
        let path = &records.dir;
        folder::make(path).map_err(|source| FolderError::Io { key: "records.dir", path: path.clone(), source })?;
    }
    Ok(Some(Prepared { settings, folder, metrics, clock }))
}

impl Prepared {
    /// Starts the writer.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn begin(self, generation: Generation) -> io::Result<Journal> {
        let (journal, writer) = self.assemble(generation);
        journal.sender.control.begun();
        std::thread::Builder::new().name("seam-journal".to_owned()).spawn(move || writer.run())?;
        Ok(journal)
    }

    /// The journal and its writer, which has yet to run.
    fn assemble(self, generation: Generation) -> (Journal, Writer) {
        let Self { settings: Settings { node, journal, records, config_hash }, folder, metrics, clock } = self;
        let (sender, queue) = queue::queue(Arc::new(Control::default()));
        let (tapes, keeps_records) = (journal.is_some(), records.is_some());
        let life = segments::Life { node: node.clone(), generation, config_hash, clock };
        let segments = journal.zip(folder).map(|(journal, folder)| {
            let epoch = sender.epoch.clone();
            Segments::new(life, journal, folder, epoch, metrics.clone())
        });
        let lines = records.map(|records| Lines::new(node, generation, records, metrics.clone()));
        let writer = Writer::new(queue, segments, lines, sender.control.clone());
        (Journal { sender, metrics, tapes, records: keeps_records }, writer)
    }
}

impl Journal {
    /// The tape of one core; none if tapes are not kept. Each core has one, from its first turn on.
    #[must_use]
    pub fn tape<C: Recorded>(&self) -> TapeOf<C> {
        self.tapes.then(|| Box::new(Recorder::new(self.sender.clone(), self.metrics.clone())) as Box<dyn Tape<C>>)
    }

    /// A decision was made.
    pub fn decided(&self, record: &Arc<DecisionRecord>) {
        if !self.records {
            return;
        }
        let place = self.sender.reserve(weight::record_bytes(record));
        let sent = place.is_some_and(|place| self.sender.send(place, queue::Message::Decision(Arc::clone(record))));
        if !sent {
            self.metrics.dropped(RECORDS);
        }
    }

    /// Waits until everything that was said before is written and forced to the disk; false if it
    /// is not within `limit`.
    #[must_use]
    pub fn flush(&self, limit: Duration) -> bool {
        self.sender.control.flush(limit)
    }

    /// Writes what was said before, notes that the life ended in order, and ends the writer; false
    /// if it is not done within `limit`. Nothing that is said later is written.
    #[must_use]
    pub fn close(&self, limit: Duration) -> bool {
        self.sender.control.close(limit)
    }
}

/// How many segments have been opened, as the recorders see it.
type Epoch = Arc<AtomicU64>;

fn first_epoch() -> Epoch {
    Arc::new(AtomicU64::new(1))
}

fn next_epoch(epoch: &Epoch) {
    epoch.fetch_add(1, Ordering::Release);
}
