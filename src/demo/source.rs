//! A simulated prefill engine: it writes KV blocks into its host's arena.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::book::Hash;
use super::plan::{BLOCK_BYTES, SLOTS};
use crate::arena::{Arena, OutOfArena};
use crate::model::Extent;

/// One prefill host's memory, in slots of the largest request's size.
pub(crate) struct Source {
    arena: Arena,
    slot_bytes: u64,
    free: Mutex<BTreeSet<usize>>,
    permits: Arc<Semaphore>,
}

/// A slot in use; free again when dropped.
pub(crate) struct Slot {
    source: Arc<Source>,
    number: usize,
    _permit: OwnedSemaphorePermit,
}

impl Source {
    /// `arena` holds [`SLOTS`] slots.
    pub(crate) fn new(arena: Arena, slot_bytes: u64) -> Arc<Self> {
        let free = Mutex::new((0..SLOTS).collect());
        Arc::new(Self { arena, slot_bytes, free, permits: Arc::new(Semaphore::new(SLOTS)) })
    }

    /// Waits for a slot: a prefill engine computes no more than its memory holds. `None` once the
    /// run has been given up.
    pub(crate) async fn slot(self: &Arc<Self>) -> Option<Slot> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop_first()?;
        Some(Slot { source: self.clone(), number, _permit: permit })
    }
}

impl Slot {
    /// Writes `bytes` bytes that depend on `key` alone; returns the blocks that hold them, in the
    /// order of the bytes, and their hash. The blocks lie in the slot in reverse, as little in
    /// order as those of a paged engine.
    pub(crate) fn fill(&self, key: &Hash, bytes: u64) -> Result<(Vec<Extent>, Hash), OutOfArena> {
        let count = bytes.div_ceil(BLOCK_BYTES);
        let slot_start = self.number as u64 * self.source.slot_bytes;
        let mut stream = blake3::Hasher::new_keyed(key).finalize_xof();
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        let mut blocks = Vec::new();
        for block in 0..count {
            let length = (bytes - block * BLOCK_BYTES).min(BLOCK_BYTES);
            let offset = slot_start + (count - 1 - block) * BLOCK_BYTES;
            buffer.truncate(length as usize);
            stream.fill(&mut buffer);
            hasher.update(&buffer);
            self.source.arena.write(offset, &buffer)?;
            blocks.push(Extent { offset, bytes: length });
        }
        Ok((blocks, *hasher.finalize().as_bytes()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Runs before the permit's own drop, so whoever gets the permit finds the slot.
        self.source.free.lock().unwrap_or_else(PoisonError::into_inner).insert(self.number);
    }
}

/// The key of one request's bytes.
pub(crate) fn key(seed: u64, index: usize) -> Hash {
    *blake3::hash(format!("{seed}/{index}").as_bytes()).as_bytes()
}

/// Reads `bytes` bytes out of `extents`, in order, and hashes them; `None` if the extents hold
/// fewer or lie outside the arena.
pub(crate) fn read_back(arena: &Arena, extents: &[Extent], bytes: u64) -> Option<Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BLOCK_BYTES as usize];
    let mut left = bytes;
    for extent in extents {
        let mut offset = extent.offset;
        let mut here = extent.bytes.min(left);
        while here > 0 {
            let piece = buffer.get_mut(..here.min(BLOCK_BYTES) as usize)?;
            arena.read_into(offset, piece).ok()?;
            hasher.update(piece);
            let length = piece.len() as u64;
            (offset, here, left) = (offset + length, here - length, left - length);
        }
    }
    (left == 0).then(|| *hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Arc<Source> {
        let slot_bytes = 2 * BLOCK_BYTES;
        Source::new(Arena::anonymous(slot_bytes * SLOTS as u64).unwrap(), slot_bytes)
    }

    #[tokio::test]
    async fn what_was_written_reads_back_with_its_hash_and_no_two_requests_are_equal() {
        let source = source();
        let (one, two) = (source.slot().await.unwrap(), source.slot().await.unwrap());
        let bytes = BLOCK_BYTES + 65_536;
        let (blocks, hash) = one.fill(&key(1, 0), bytes).unwrap();
        let (other_blocks, other) = two.fill(&key(1, 1), bytes).unwrap();
        assert_ne!(hash, other);
        assert_eq!(read_back(&source.arena, &blocks, bytes), Some(hash));
        assert_eq!(read_back(&source.arena, &other_blocks, bytes), Some(other));
        assert_eq!(blocks[0], Extent { offset: BLOCK_BYTES, bytes: BLOCK_BYTES });
        assert_eq!(blocks[1], Extent { offset: 0, bytes: 65_536 });
        let (again, same) = two.fill(&key(1, 0), bytes).unwrap();
        assert_eq!((again.len(), same), (2, hash));
    }

    #[tokio::test]
    async fn reading_stops_at_the_bytes_asked_for_and_fails_short_of_them() {
        let source = source();
        let slot = source.slot().await.unwrap();
        let (blocks, hash) = slot.fill(&key(1, 0), 70_000).unwrap();
        let longer = [Extent { bytes: 131_072, ..blocks[0] }];
        assert_eq!(read_back(&source.arena, &longer, 70_000), Some(hash));
        assert_eq!(read_back(&source.arena, &blocks, 70_001), None);
        let outside = [Extent { offset: source.arena.size(), bytes: 65_536 }];
        assert_eq!(read_back(&source.arena, &outside, 65_536), None);
    }

    #[tokio::test]
    async fn a_slot_is_given_to_one_request_at_a_time_and_comes_back() {
        let source = source();
        let mut slots = Vec::new();
        for _ in 0..SLOTS {
            slots.push(source.slot().await.unwrap());
        }
        let numbers: BTreeSet<_> = slots.iter().map(|slot| slot.number).collect();
        assert_eq!(numbers.len(), SLOTS);
        let waiting = tokio::spawn({
            let source = source.clone();
            async move { source.slot().await.map(|slot| slot.number) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let freed = slots.pop().map(|slot| slot.number);
        assert_eq!(waiting.await.unwrap(), freed);
    }
}
