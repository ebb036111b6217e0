//! Memory for probes: one half is read, the other written by peers.

use std::io;

use memmap2::{MmapOptions, MmapRaw};

use super::{Piece, SCRATCH_BYTES};

/// One half, in bytes.
pub(crate) const HALF: u32 = (SCRATCH_BYTES / 2) as u32;

/// Both halves. No reference into them ever exists: peers write whenever they like.
pub(crate) fn map() -> io::Result<MmapRaw> {
    MmapOptions::new().len(2 * HALF as usize).map_anon().map(MmapRaw::from)
}

/// The pieces of a probe, each from one half to the other's beginning.
pub(crate) fn pieces(bytes: u32) -> Vec<Piece> {
    let whole = (0..bytes / HALF).map(|_| HALF);
    let rest = Some(bytes % HALF).filter(|rest| *rest > 0);
    whole.chain(rest).map(|bytes| Piece { local: 0, remote: 0, bytes: u64::from(bytes) }).collect()
}
