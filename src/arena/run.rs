//! Extents walked as one run of bytes.

use super::OutOfArena;
use crate::model::Extent;

/// Extents that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadExtents {
    /// One reaches outside the arena.
    #[error(transparent)]
    Outside(#[from] OutOfArena),
    /// One holds no bytes.
    #[error("the extent at offset {offset} is empty")]
    Empty {
        /// Where.
        offset: u64,
    },
    /// Together they hold fewer bytes than are to be moved, or their sum is no number.
    #[error("{bytes} bytes do not fit the extents")]
    TooSmall {
        /// How many are to be moved.
        bytes: u64,
    },
    /// Two of them share bytes.
    #[error("extents overlap at offset {offset}")]
    Overlap {
        /// The first shared byte.
        offset: u64,
    },
}

/// The first bytes of some extents, in order, and how far one has walked.
#[derive(Clone, Debug)]
pub struct Run {
    extents: Vec<Extent>,
    index: usize,
    /// Bytes of the current extent already walked.
    within: u64,
    left: u64,
}

impl Run {
    /// The first `bytes` bytes of `extents`, in an arena of `size` bytes.
    ///
    /// # Errors
    /// If an extent is empty or not within the arena, or all of them hold fewer bytes.
    pub fn new(extents: &[Extent], bytes: u64, size: u64) -> Result<Self, BadExtents> {
        if total(extents, size)? < bytes {
            return Err(BadExtents::TooSmall { bytes });
        }
        Ok(Self { extents: extents.to_vec(), index: 0, within: 0, left: bytes })
    }

    /// As [`new`](Self::new), for writing: no byte may be written twice.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if two extents overlap.
    pub fn disjoint(extents: &[Extent], bytes: u64, size: u64) -> Result<Self, BadExtents> {
        let run = Self::new(extents, bytes, size)?;
        let mut sorted = extents.to_vec();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if let [a, b] = pair
                && a.end().is_none_or(|end| end > b.offset)
            {
                return Err(BadExtents::Overlap { offset: b.offset });
            }
        }
        Ok(run)
    }

    /// Bytes not walked yet.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Walks over the next contiguous piece, of at most `at_most` bytes; `None` at the end, or if
    /// `at_most` is 0.
    pub fn next(&mut self, at_most: u64) -> Option<Extent> {
        let extent = self.extents.get(self.index)?;
        let rest = extent.bytes - self.within;
        let bytes = rest.min(at_most).min(self.left);
        if bytes == 0 {
            return None;
        }
        let piece = Extent { offset: extent.offset + self.within, bytes };
        self.left -= bytes;
        if bytes == rest {
            self.index += 1;
            self.within = 0;
        } else {
            self.within += bytes;
        }
        Some(piece)
    }
}

/// How many bytes `extents` of an arena of `size` bytes hold.
fn total(extents: &[Extent], size: u64) -> Result<u64, BadExtents> {
    extents.iter().try_fold(0_u64, |sum, extent| {
        let Extent { offset, bytes } = *extent;
        if bytes == 0 {
            return Err(BadExtents::Empty { offset });
        }
        if extent.end().is_none_or(|end| end > size) {
            return Err(OutOfArena { offset, bytes, size }.into());
        }
        sum.checked_add(bytes).ok_or(BadExtents::TooSmall { bytes: u64::MAX })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    #[test]
    fn extents_that_are_empty_outside_too_small_or_overlapping_are_refused() {
        assert_eq!(Run::new(&[extent(3, 0)], 0, 10).unwrap_err(), BadExtents::Empty { offset: 3 });
        assert!(matches!(Run::new(&[extent(5, 6)], 1, 10), Err(BadExtents::Outside(_))));
        assert!(matches!(Run::new(&[extent(u64::MAX, 2)], 1, 10), Err(BadExtents::Outside(_))));
        assert_eq!(Run::new(&[extent(0, 4)], 5, 10).unwrap_err(), BadExtents::TooSmall { bytes: 5 });
        let overlapping = [extent(4, 4), extent(0, 5)];
        assert!(Run::new(&overlapping, 9, 10).is_ok());
        assert_eq!(Run::disjoint(&overlapping, 9, 10).unwrap_err(), BadExtents::Overlap { offset: 4 });
        assert!(Run::disjoint(&[extent(5, 4), extent(0, 5)], 9, 10).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_the_steps_every_byte_is_walked_once_and_in_order(
            extents in prop::collection::vec((0..100_u64, 1..50_u64), 0..10),
            steps in prop::collection::vec(1..70_u64, 1..20),
            share in 0..=100_u64,
        ) {
            let extents: Vec<_> = extents.into_iter().map(|(offset, bytes)| extent(offset, bytes)).collect();
            let all: Vec<u64> = extents.iter().flat_map(|e| e.offset..e.offset + e.bytes).collect();
            let bytes = all.len() as u64 * share / 100;
            let mut run = Run::new(&extents, bytes, 200).unwrap();
            let mut walked = Vec::new();
            let mut step = steps.iter().cycle();
            while let Some(piece) = run.next(*step.next().unwrap()) {
                walked.extend(piece.offset..piece.offset + piece.bytes);
            }
            prop_assert_eq!(run.left(), 0);
            prop_assert_eq!(&walked[..], &all[..bytes as usize]);
        }
    }
}
