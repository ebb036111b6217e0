//! One segment, read.

use std::io::Read;

use super::frame::{Frames, MAX_ENTRY, read_prologue};
use super::{Damage, Entry, Header, JournalError};
use crate::codec;

/// Reads one segment, entry by entry, in memory bounded by one entry.
pub struct Reader<R> {
    header: Header,
    frames: Frames<R>,
    bytes: Vec<u8>,
    /// Nothing can be read any more.
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the head of a segment. `source` is best buffered.
    ///
    /// # Errors
    /// It is no journal, of another format, or damaged before its first entry.
    pub fn open(mut source: R) -> Result<Self, JournalError> {
        let at = read_prologue(&mut source)?;
        let mut frames = Frames::new(source, at);
        let mut bytes = Vec::new();
        if !frames.read(&mut bytes).map_err(JournalError::Header)? {
            return Err(JournalError::Header(Damage::Torn { at, bytes: 0 }));
        }
        let header = codec::decode_bare("journal header", MAX_ENTRY, &bytes)
            .map_err(|source| JournalError::Header(Damage::Entry { at, source }))?;
        Ok(Self { header, frames, bytes, ended: false })
    }

    /// What the segment says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next entry begins, in bytes from the start of the segment.
    pub fn at(&self) -> u64 {
        self.frames.at()
    }

    /// The next entry; none at the end. After damage there is none either.
    ///
    /// # Errors
    /// Says where the segment cannot be read on, and why.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Damage> {
        if self.ended {
            return Ok(None);
        }
        let entry = self.read();
        self.ended = !matches!(entry, Ok(Some(_)));
        entry
    }

    /// Passes over the next entry without making anything of it, and says how many bytes it takes; none at
    /// the end. Only the checksums are looked at.
    ///
    /// # Errors
    /// Says where the segment cannot be read on, and why.
    pub fn pass_entry(&mut self) -> Result<Option<u64>, Damage> {
        if self.ended {
            return Ok(None);
        }
        let at = self.frames.at();
        let passed = self.frames.read(&mut self.bytes);
        self.ended = !matches!(passed, Ok(true));
        Ok(passed?.then(|| self.frames.at() - at))
    }

    fn read(&mut self) -> Result<Option<Entry>, Damage> {
        let at = self.frames.at();
        if !self.frames.read(&mut self.bytes)? {
            return Ok(None);
        }
        let entry = codec::decode_bare("journal entry", MAX_ENTRY, &self.bytes);
        entry.map(Some).map_err(|source| Damage::Entry { at, source })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Entry, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}
