//! What can be asked of an entry without knowing which one it is.

use super::{Entry, Part};
use crate::core::Now;

impl Entry {
    /// Which core's; none for the end of a life.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        match self {
            Self::Snapshot(snapshot) => Some(snapshot.part()),
            Self::Turn(turn) => Some(turn.input.part()),
            Self::Gap(gap) => Some(gap.part),
            Self::Panicked(input, _) => Some(input.part()),
            Self::Closed(_) => None,
        }
    }

    /// When: of a gap its end; none for a snapshot, which stands between two turns.
    #[must_use]
    pub fn now(&self) -> Option<Now> {
        match self {
            Self::Snapshot(_) => None,
            Self::Turn(turn) => Some(turn.now),
            Self::Gap(gap) => Some(gap.until),
            Self::Panicked(_, now) | Self::Closed(now) => Some(*now),
        }
    }
}
