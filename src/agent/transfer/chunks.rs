//! A transfer whose blocks its caller gives in chunks, while the bytes are still being computed.

use std::collections::BTreeMap;

use crate::agent::service::ServiceError;
use crate::api::{Chunk, ChunkTaken};
use crate::model::{Extent, LeaseId};
use crate::transport::Feed;

/// Blocks of one transfer at most, all chunks together.
const MAX_BLOCKS: usize = 100_000;

/// The chunks so far.
pub(super) struct Chunks {
    lease: LeaseId,
    /// How many bytes all of them must hold: what the lease is for.
    kv_bytes: u64,
    feed: Feed,
    /// The newest, which its caller may say again.
    newest: (Chunk, Vec<Extent>),
    bytes: u64,
    /// Where each block ends, by where it begins.
    taken: BTreeMap<u64, u64>,
}

impl Chunks {
    /// The transfer's first chunk is under way already.
    pub(super) fn begun(lease: LeaseId, kv_bytes: u64, feed: Feed, first: Vec<Extent>) -> Self {
        let taken = first.iter().map(|block| (block.offset, end(block))).collect();
        let bytes = first.iter().map(|block| block.bytes).sum();
        let newest = (Chunk { index: 0, is_final: false }, first);
        Self { lease, kv_bytes, feed, newest, bytes, taken }
    }

    /// What there is so far.
    pub(super) fn so_far(&self) -> ChunkTaken {
        let (lease, index) = (self.lease.clone(), self.newest.0.index);
        ChunkTaken { lease, index, bytes: self.bytes, kv_bytes: self.kv_bytes }
    }

    /// Takes the next chunk, of blocks that lie within the arena and apart; the newest may come again.
    ///
    /// # Errors
    /// It is another one, or does not fit those before it or the lease. Nothing has changed then.
    pub(super) fn take(&mut self, chunk: Chunk, blocks: Vec<Extent>) -> Result<(), ServiceError> {
        let bad = |field: &'static str, detail: String| Err(ServiceError::BadInput { field, detail });
        let (newest, next) = (self.newest.0, self.newest.0.index.saturating_add(1));
        if chunk == newest && blocks == self.newest.1 {
            return Ok(());
        }
        if newest.is_final {
            return bad(
                "chunk.index",
                format!("found {}, allowed none: chunk {} was final", chunk.index, newest.index),
            );
        }
        if chunk.index != next {
            return bad("chunk.index", format!("found {}, allowed {next}: each once, in order", chunk.index));
        }
        if self.taken.len() + blocks.len() > MAX_BLOCKS {
            return bad("blocks", format!("found more than {MAX_BLOCKS} in all chunks together"));
        }
        if let Some(block) = blocks.iter().find(|block| self.overlaps(block)) {
            return bad("blocks", format!("the block at offset {} overlaps one of an earlier chunk", block.offset));
        }
        let bytes = blocks.iter().fold(self.bytes, |sum, block| sum.saturating_add(block.bytes));
        if bytes > self.kv_bytes {
            return bad("blocks", format!("found {bytes} bytes in all chunks, the lease has {}", self.kv_bytes));
        }
        if chunk.is_final && bytes < self.kv_bytes {
            let detail =
                format!("found {bytes} bytes in all chunks, allowed are exactly the lease's {}", self.kv_bytes);
            return bad("chunk.final", detail);
        }
        self.feed.give(&blocks, chunk.is_final);
        self.taken.extend(blocks.iter().map(|block| (block.offset, end(block))));
        self.bytes = bytes;
        self.newest = (chunk, blocks);
        Ok(())
    }

    fn overlaps(&self, block: &Extent) -> bool {
        let before = self.taken.range(..=block.offset).next_back().is_some_and(|(_, &end)| end > block.offset);
        before || self.taken.range(block.offset..end(block)).next().is_some()
    }
}

/// Blocks lie within an arena: their ends are numbers.
fn end(block: &Extent) -> u64 {
    block.offset.saturating_add(block.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Blocks;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect()
    }

    #[test]
    fn chunks_come_once_in_order_apart_and_hold_exactly_what_the_lease_is_for() {
        let first = extents(&[(100, 10), (50, 5)]);
        let (feed, blocks) = Blocks::coming(40, first.clone());
        let lease: LeaseId = "d.1.1".parse().unwrap();
        let mut chunks = Chunks::begun(lease.clone(), 40, feed, first.clone());
        let mut take = |index, is_final, list: &[(u64, u64)]| {
            chunks.take(Chunk { index, is_final }, extents(list)).map_err(|error| error.to_string())
        };
        take(0, false, &[(100, 10), (50, 5)]).unwrap();
        assert_eq!(take(0, false, &[(100, 10)]).unwrap_err(), "chunk.index: found 0, allowed 1: each once, in order");
        assert_eq!(take(2, false, &[(0, 1)]).unwrap_err(), "chunk.index: found 2, allowed 1: each once, in order");
        for overlapping in [(109, 1), (99, 2), (54, 90), (40, 11)] {
            let words = format!("blocks: the block at offset {} overlaps one of an earlier chunk", overlapping.0);
            assert_eq!(take(1, false, &[(0, 1), overlapping]).unwrap_err(), words);
        }
        let many = "blocks: found 41 bytes in all chunks, the lease has 40";
        assert_eq!(take(1, false, &[(110, 26)]).unwrap_err(), many);
        let few = "chunk.final: found 39 bytes in all chunks, allowed are exactly the lease's 40";
        assert_eq!(take(1, true, &[(110, 24)]).unwrap_err(), few);
        take(1, false, &[(110, 25)]).unwrap();
        take(1, false, &[(110, 25)]).unwrap();
        // That it was the last may be known later than the chunk itself.
        take(2, true, &[]).unwrap();
        take(2, true, &[]).unwrap();
        assert_eq!(take(3, true, &[]).unwrap_err(), "chunk.index: found 3, allowed none: chunk 2 was final");
        assert_eq!(chunks.so_far(), ChunkTaken { lease, index: 2, bytes: 40, kv_bytes: 40 });
        assert_eq!(blocks.so_far(), extents(&[(100, 10), (50, 5), (110, 25)]));
    }
}
