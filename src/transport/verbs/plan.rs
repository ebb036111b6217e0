//! How the pieces of a put become work requests.

use std::collections::VecDeque;

use crate::transport::fabric::Piece;

/// What one work request may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes; at least 1.
    pub(super) bytes: u64,
    /// Places that they are gathered from; at least 1.
    pub(super) places: usize,
}

/// One write: bytes of several places here go to one there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Where they go.
    pub(super) remote: u64,
    /// Where they are, and how many.
    pub(super) local: Vec<(u64, u32)>,
    /// How many in all.
    pub(super) bytes: u64,
}

/// The writes of a put that are still to be made.
#[derive(Debug)]
pub(super) struct Plan {
    pieces: VecDeque<Piece>,
    limits: Limits,
}

impl Plan {
    pub(super) fn new(pieces: Vec<Piece>, limits: Limits) -> Self {
        Self { pieces: pieces.into(), limits }
    }

    pub(super) fn is_over(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn give_up(&mut self) {
        self.pieces.clear();
    }

    /// The next write. Pieces that follow one another at the peer are gathered into one.
    pub(super) fn next(&mut self) -> Option<Step> {
        let first = self.pieces.front()?;
        let mut step = Step { remote: first.remote, ..Step::default() };
        let most = self.limits.bytes.min(u64::from(u32::MAX));
        while let Some(piece) = self.pieces.front_mut() {
            let room = most.saturating_sub(step.bytes);
            let follows = step.remote.checked_add(step.bytes) == Some(piece.remote);
            if room == 0 || !follows || step.local.len() >= self.limits.places.max(1) {
                break;
            }
            let bytes = piece.bytes.min(room);
            // No more than `most`.
            step.local.push((piece.local, u32::try_from(bytes).unwrap_or(u32::MAX)));
            step.bytes += bytes;
            piece.local += bytes;
            piece.remote += bytes;
            piece.bytes -= bytes;
            if piece.bytes == 0 {
                self.pieces.pop_front();
            }
        }
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 1_000, places: 4 };

    fn piece(local: u64, remote: u64, bytes: u64) -> Piece {
        Piece { local, remote, bytes }
    }

    fn steps(pieces: Vec<Piece>) -> Vec<Step> {
        let mut plan = Plan::new(pieces, LIMITS);
        let mut steps = Vec::new();
        while let Some(step) = plan.next() {
            steps.push(step);
        }
        assert!(plan.is_over());
        steps
    }

    #[test]
    fn large_pieces_are_split_and_neighbours_gathered() {
        let found = steps(vec![piece(5, 100, 2_300), piece(9_000, 2_400, 10), piece(7, 5_000, 3)]);
        let step = |remote, local: &[(u64, u32)]| Step {
            remote,
            local: local.to_vec(),
            bytes: local.iter().map(|(_, bytes)| u64::from(*bytes)).sum(),
        };
        let expected = [
            step(100, &[(5, 1_000)]),
            step(1_100, &[(1_005, 1_000)]),
            step(2_100, &[(2_005, 300), (9_000, 10)]),
            step(5_000, &[(7, 3)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_byte_is_in_one_write_and_each_within_its_limits() {
        let mut pieces = vec![piece(3, 1, 9_999), piece(50_000, 10_000, 1)];
        pieces.extend((0..500).map(|at| piece(100_000 + at * 50, 10_001 + at * 7, 7)));
        pieces.extend((0..500).map(|at| piece(200_000 + at * 50, 90_000 + at * 8, 7)));
        let expected: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let place = |local: u64| {
            let of = |piece: &&Piece| (piece.local..piece.local + piece.bytes).contains(&local);
            pieces.iter().find(of).map(|piece| piece.remote + local - piece.local)
        };
        let mut seen = 0;
        for step in steps(pieces.clone()) {
            assert!(step.local.len() <= LIMITS.places && (1..=LIMITS.bytes).contains(&step.bytes), "{step:?}");
            let mut remote = step.remote;
            for (local, bytes) in step.local {
                assert_eq!(place(local), Some(remote));
                assert_eq!(place(local + u64::from(bytes) - 1), Some(remote + u64::from(bytes) - 1));
                remote += u64::from(bytes);
                seen += u64::from(bytes);
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_given_up_is_not_written() {
        let mut plan = Plan::new(vec![piece(0, 0, 5_000)], LIMITS);
        assert!(plan.next().is_some());
        plan.give_up();
        assert!(plan.is_over() && plan.next().is_none());
    }
}
