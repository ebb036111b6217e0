//! The bytes of a segment: the prologue, and frames with their lengths and checksums.
//!
//! ```text
//! prologue   "SEAMJRNL" │ format u16
//! frame      length u32, its top bit: more follows │ CRC32C of the bytes u32 │ CRC32C of these eight u32 │ bytes
//! ```
//!
//! All numbers are little-endian. A length is believed once its own checksum is right, so a flipped
//! bit in it is not taken for the end of the file. An entry that does not fit one frame goes on in
//! the next.
//!
//! After a power failure a file may have its length and not its contents: it ends in zeros then, which
//! begin anywhere. A frame that they reach into is torn, not damaged.

use std::io::{self, Read, Write};

use super::error::{Damage, JournalError};

/// What a journal begins with.
pub(super) const MAGIC: [u8; 8] = *b"SEAMJRNL";
/// The format that is written. An earlier one would be read too; there is none.
pub const FORMAT: u16 = 1;
/// Bytes of one entry at most, all its frames together.
pub const MAX_ENTRY: usize = 128 * 1024 * 1024;
/// Bytes of one frame at most.
const MAX_FRAME: usize = 1024 * 1024;
/// The top bit of a length.
const MORE: u32 = 1 << 31;
const HEAD: usize = 12;

pub(super) fn write_prologue(out: &mut impl Write) -> io::Result<usize> {
    out.write_all(&MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    Ok(MAGIC.len() + size_of::<u16>())
}

/// Reads the prologue and says how long it is.
pub(super) fn read_prologue(source: &mut impl Read) -> Result<u64, JournalError> {
    let mut prologue = Vec::new();
    source.by_ref().take(10).read_to_end(&mut prologue)?;
    let torn = |bytes| JournalError::Header(Damage::Torn { at: 0, bytes });
    let length = prologue.len() as u64;
    let sound = MAGIC.iter().chain(&FORMAT.to_le_bytes()).zip(&prologue).take_while(|(is, found)| is == found).count();
    if let Some(cut) = prologue.get(sound..)
        && !cut.is_empty()
        && cut.iter().all(|byte| *byte == 0)
        && let Some(zeros) = rest_is_zeros(source)?
    {
        return Err(torn(length + zeros));
    }
    let (magic, format) = prologue.split_at_checked(MAGIC.len()).unwrap_or((&prologue, &[]));
    if !MAGIC.starts_with(magic) {
        return Err(JournalError::Magic { found: format!("\"{}\"", magic.escape_ascii()) });
    }
    let Some((format, _)) = format.split_first_chunk() else { return Err(torn(length)) };
    match u16::from_le_bytes(*format) {
        FORMAT => Ok(prologue.len() as u64),
        found => Err(JournalError::Format { found }),
    }
}

/// Writes one entry as one frame or more, and says how many bytes they take.
pub(super) fn write_entry(out: &mut impl Write, entry: &[u8]) -> io::Result<usize> {
    if entry.len() > MAX_ENTRY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("an entry of {} bytes", entry.len())));
    }
    let mut written = 0;
    let mut pieces = entry.chunks(MAX_FRAME).peekable();
    while let Some(piece) = pieces.next() {
        let more = if pieces.peek().is_some() { MORE } else { 0 };
        let mut head = [0; HEAD];
        let length = (piece.len() as u32 | more).to_le_bytes();
        let sum = crc32c::crc32c(piece).to_le_bytes();
        head[..4].copy_from_slice(&length);
        head[4..8].copy_from_slice(&sum);
        let own = crc32c::crc32c(&head[..8]).to_le_bytes();
        head[8..].copy_from_slice(&own);
        out.write_all(&head)?;
        out.write_all(piece)?;
        written += HEAD + piece.len();
    }
    Ok(written)
}

/// Reads the frames of one entry after another.
pub(super) struct Frames<R> {
    source: R,
    /// Bytes read so far.
    at: u64,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(source: R, at: u64) -> Self {
        Self { source, at }
    }

    /// Where the next frame begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads one entry into `entry`; false at the end of the file.
    pub(super) fn read(&mut self, entry: &mut Vec<u8>) -> Result<bool, Damage> {
        entry.clear();
        let begin = self.at;
        loop {
            let frame = self.at;
            let head: [u8; HEAD] = match self.head(begin)? {
                Some(head) => head,
                None if frame == begin => return Ok(false),
                None => return Err(Damage::Torn { at: begin, bytes: frame - begin }),
            };
            let words = head.as_chunks::<4>().0;
            let word = |index: usize| words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
            let (length, sum, own) = (word(0), word(1), word(2));
            let computed = crc32c::crc32c(&head[..8]);
            if own != computed {
                return Err(match head.last() == Some(&0) && self.rest_is_zeros()?.is_some() {
                    true => Damage::Torn { at: begin, bytes: self.at - begin },
                    false => Damage::Checksum { at: frame, what: "a frame's head", found: own, computed },
                });
            }
            let bytes = (length & !MORE) as usize;
            if bytes > MAX_FRAME || entry.len() + bytes > MAX_ENTRY {
                return Err(Damage::TooLarge { at: begin });
            }
            let from = entry.len();
            if self.fill(entry, bytes)? < bytes {
                return Err(Damage::Torn { at: begin, bytes: self.at - begin });
            }
            let body = entry.get(from..).unwrap_or_default();
            let computed = crc32c::crc32c(body);
            if sum != computed {
                // What was written last may have reached the disk in part only.
                let torn = match self.rest_is_zeros()? {
                    Some(zeros) => zeros == 0 || body.last() == Some(&0),
                    None => false,
                };
                return Err(match torn {
                    true => Damage::Torn { at: begin, bytes: self.at - begin },
                    false => Damage::Checksum { at: frame, what: "a frame's bytes", found: sum, computed },
                });
            }
            if length & MORE == 0 {
                return Ok(true);
            }
        }
    }

    /// The next frame's head; none at the end of the file. `begin` is where its entry begins.
    fn head(&mut self, begin: u64) -> Result<Option<[u8; HEAD]>, Damage> {
        let mut head = Vec::with_capacity(HEAD);
        let found = self.fill(&mut head, HEAD)?;
        match <[u8; HEAD]>::try_from(head) {
            Ok(head) => Ok(Some(head)),
            Err(_) if found == 0 => Ok(None),
            Err(_) => Err(Damage::Torn { at: begin, bytes: self.at - begin }),
        }
    }

    /// Appends up to `bytes` bytes and says how many there were.
    fn fill(&mut self, into: &mut Vec<u8>, bytes: usize) -> Result<usize, Damage> {
        let at = self.at;
        let read = (&mut self.source).take(bytes as u64).read_to_end(into);
        let read = read.map_err(|source| Damage::Io { at, source })?;
        self.at += read as u64;
        Ok(read)
    }

    /// How many zeros the rest of the file is, if it is nothing else.
    fn rest_is_zeros(&mut self) -> Result<Option<u64>, Damage> {
        let at = self.at;
        let rest = rest_is_zeros(&mut self.source).map_err(|source| Damage::Io { at, source })?;
        self.at += rest.unwrap_or_default();
        Ok(rest)
    }
}

/// Reads on and says how many zeros the rest is, if it is nothing else.
fn rest_is_zeros(source: &mut impl Read) -> io::Result<Option<u64>> {
    let (mut zeros, mut block) = (0, Vec::new());
    while source.by_ref().take(64 * 1024).read_to_end(&mut block)? > 0 {
        if block.iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        zeros += block.len() as u64;
        block.clear();
    }
    Ok(Some(zeros))
}
