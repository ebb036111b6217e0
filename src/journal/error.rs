//! What can be wrong with a journal.

use super::frame::{FORMAT, MAX_ENTRY};
use crate::codec::CodecError;

/// Why a segment cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It does not begin as a journal does.
    #[error("no journal: it begins with {found}, a journal begins with \"SEAMJRNL\"")]
    Magic {
        /// What was found, in printable form.
        found: String,
    },
    /// Another program wrote it.
    #[error("journal format {found}: this program reads format {FORMAT}{}", newer(*found))]
    Format {
        /// What was found.
        found: u16,
    },
    /// Its first frame is damaged or says nothing of the segment.
    #[error("its head cannot be read: {0}")]
    Header(Damage),
}

fn newer(found: u16) -> &'static str {
    if found > FORMAT { "; a newer Seam wrote it" } else { "" }
}

/// Where a segment cannot be read on, and why. Everything before is sound.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It ends in the middle of an entry, as after a crash or a power failure: what was written
    /// last did not all reach the disk.
    #[error("torn at byte {at}: the last {bytes} bytes are no whole entry")]
    Torn {
        /// Where the last whole entry ends.
        at: u64,
        /// How many bytes follow.
        bytes: u64,
    },
    /// A checksum is wrong.
    #[error("damaged at byte {at}: the checksum of {what} is {found:08x}, its bytes give {computed:08x}")]
    Checksum {
        /// Where the frame begins.
        at: u64,
        /// Of what: `a frame's head` or `a frame's bytes`.
        what: &'static str,
        /// The checksum that stands there.
        found: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// An entry is larger than any may be.
    #[error("damaged at byte {at}: an entry of more than {MAX_ENTRY} bytes")]
    TooLarge {
        /// Where the entry begins.
        at: u64,
    },
    /// The bytes are sound, and no entry of this format.
    #[error("not understood at byte {at}: {source}")]
    Entry {
        /// Where the entry begins.
        at: u64,
        /// Why.
        source: CodecError,
    },
    /// It cannot be read.
    #[error("cannot be read at byte {at}: {source}")]
    Io {
        /// Where.
        at: u64,
        /// Why.
        source: std::io::Error,
    },
}
