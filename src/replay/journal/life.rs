//! One life's segments, read one after the other.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use super::history::SegmentFile;
use crate::journal::{Damage, Entry, Header, JournalError, Reader};

/// Bytes read at once.
const BUFFER: usize = 256 * 1024;

/// Something in a life's journal, and where.
#[derive(Debug)]
pub struct Item {
    /// Where.
    pub place: Place,
    /// What.
    pub what: What,
}

/// A place in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which segment's file.
    pub path: Arc<Path>,
    /// Bytes from its beginning.
    pub at: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}", self.path.display(), self.at)
    }
}

/// What there may be in a life's journal.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are entries, and there is one at a time")]
pub enum What {
    /// A segment begins.
    Segment(Header),
    /// An entry.
    Entry(Entry),
    /// Segments with these numbers, between the one before and the one that follows, are not there.
    Missing(RangeInclusive<u64>),
    /// A segment cannot be read on; the next segment follows.
    Broken(Broken),
}

/// A segment that cannot be read on.
#[derive(Debug)]
pub struct Broken {
    /// Why.
    pub fault: Fault,
    /// Whether it is the life's newest segment.
    pub newest: bool,
}

/// Why a segment cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Its head cannot be read.
    #[error(transparent)]
    Opening(#[from] JournalError),
    /// An entry cannot be read.
    #[error(transparent)]
    Reading(#[from] Damage),
}

impl Broken {
    /// Whether this is how a process leaves its journal that was killed while it wrote: the newest
    /// segment ends within an entry. Nothing else of it is in doubt.
    #[must_use]
    pub fn is_torn_end(&self) -> bool {
        let torn = matches!(
            self.fault,
            Fault::Opening(JournalError::Header(Damage::Torn { .. })) | Fault::Reading(Damage::Torn { .. })
        );
        torn && self.newest
    }
}

/// Reads one life, item by item, in memory bounded by one entry.
pub struct LifeReader<'a> {
    segments: slice::Iter<'a, SegmentFile>,
    /// The number that the next segment should have.
    expected: Option<u64>,
    /// A segment whose missing predecessors have been named.
    waiting: Option<Found<'a>>,
    open: Option<SegmentItems<BufReader<File>>>,
}

/// A segment, its file, and whether it is the life's newest.
struct Found<'a> {
    segment: &'a SegmentFile,
    file: io::Result<File>,
    newest: bool,
}

impl<'a> LifeReader<'a> {
    pub(super) fn new(segments: &'a [SegmentFile]) -> Self {
        Self { segments: segments.iter(), expected: None, waiting: None, open: None }
    }

    /// Opens the next segment; its predecessors first where they are missing.
    fn advance(&mut self) -> Option<Item> {
        let Found { segment, file, newest } = match self.waiting.take() {
            Some(found) => found,
            None => self.find()?,
        };
        let missing = self.expected.filter(|expected| *expected < segment.number);
        self.expected = Some(segment.number.saturating_add(1));
        let place = Place { path: Arc::clone(&segment.path), at: 0 };
        if let Some(first) = missing {
            self.waiting = Some(Found { segment, file, newest });
            return Some(Item { place, what: What::Missing(first..=segment.number.saturating_sub(1)) });
        }
        let file = match file {
            Ok(file) => BufReader::with_capacity(BUFFER, file),
            Err(error) => {
                let fault = Fault::Opening(JournalError::Io(error));
                return Some(Item { place, what: What::Broken(Broken { fault, newest }) });
            }
        };
        let (items, first) = SegmentItems::begin(Arc::clone(&segment.path), file, newest);
        self.open = items;
        Some(first)
    }
}

impl<'a> LifeReader<'a> {
    /// The next segment that is there. An agent that runs deletes its oldest ones meanwhile, never the
    /// newest.
    fn find(&mut self) -> Option<Found<'a>> {
        loop {
            let segment = self.segments.next()?;
            let newest = self.segments.as_slice().is_empty();
            let file = File::open(&segment.path);
            let deleted = file.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if newest || !deleted {
                return Some(Found { segment, file, newest });
            }
        }
    }
}

impl Iterator for LifeReader<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        match self.open.as_mut().and_then(Iterator::next) {
            Some(item) => Some(item),
            None => {
                self.open = None;
                self.advance()
            }
        }
    }
}

/// The items of one segment, from wherever its bytes come. `path` stands for it.
pub fn segment_items(path: &Path, source: impl Read, newest: bool) -> impl Iterator<Item = Item> {
    let (items, first) = SegmentItems::begin(path.into(), source, newest);
    std::iter::once(first).chain(items.into_iter().flatten())
}

/// One segment under way.
struct SegmentItems<R> {
    path: Arc<Path>,
    reader: Reader<R>,
    newest: bool,
}

impl<R: Read> SegmentItems<R> {
    fn begin(path: Arc<Path>, source: R, newest: bool) -> (Option<Self>, Item) {
        let place = Place { path: Arc::clone(&path), at: 0 };
        match Reader::open(source) {
            Ok(reader) => {
                let what = What::Segment(reader.header().clone());
                (Some(Self { path, reader, newest }), Item { place, what })
            }
            Err(error) => {
                let what = What::Broken(Broken { fault: Fault::Opening(error), newest });
                (None, Item { place, what })
            }
        }
    }
}

impl<R: Read> Iterator for SegmentItems<R> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let place = Place { path: Arc::clone(&self.path), at: self.reader.at() };
        let what = match self.reader.next_entry().transpose()? {
            Ok(entry) => What::Entry(entry),
            Err(damage) => What::Broken(Broken { fault: Fault::Reading(damage), newest: self.newest }),
        };
        Some(Item { place, what })
    }
}
