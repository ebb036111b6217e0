//! One segment, written.

use std::io::{self, Write};

use super::frame::{MAX_ENTRY, write_entry, write_prologue};
use super::{Entry, Header};
use crate::codec;

/// Writes one segment.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    written: u64,
    bytes: Vec<u8>,
}

/// A buffer that a large entry has left is not kept.
const KEPT: usize = 1024 * 1024;

impl<W: Write> Writer<W> {
    /// Begins a segment. `out` is best buffered.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(mut out: W, header: &Header) -> io::Result<Self> {
        let mut bytes = Vec::new();
        codec::append_bare("journal header", MAX_ENTRY, header, &mut bytes).map_err(io::Error::other)?;
        let written = write_prologue(&mut out)? + write_entry(&mut out, &bytes)?;
        Ok(Self { out, written: written as u64, bytes })
    }

    /// Appends one entry, and says how many bytes it took. One that is too large is not written.
    ///
    /// # Errors
    /// Those of `out`; an entry of more than [`MAX_ENTRY`](super::MAX_ENTRY) bytes is
    /// [`InvalidInput`](io::ErrorKind::InvalidInput).
    pub fn append(&mut self, entry: &Entry) -> io::Result<u64> {
        self.bytes.clear();
        codec::append_bare("journal entry", MAX_ENTRY, entry, &mut self.bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let bytes = write_entry(&mut self.out, &self.bytes)? as u64;
        self.written += bytes;
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        Ok(bytes)
    }

    /// How many bytes the segment has so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What it writes to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// What it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// What it wrote to.
    pub fn into_inner(self) -> W {
        self.out
    }
}
