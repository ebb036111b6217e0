//! One put, chunk by chunk.

use std::collections::VecDeque;
use std::ffi::CString;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::objects::{Agent, Progress, Request};
use crate::transport::fabric::{FabricError, Piece, Put};

/// Bytes and descriptors of one chunk at most: few enough that one which is copied on this thread
/// holds up the others for a few milliseconds only.
const CHUNK_BYTES: u64 = 4 * 1024 * 1024;
const CHUNK_PIECES: usize = 512;
/// Chunks under way of one put.
const WINDOW: usize = 4;
/// How long the last chunks of a put that was given up may take to end.
const DRAIN: Duration = Duration::from_secs(3);

/// What is to be put.
pub(super) struct Job {
    /// Local offsets, and those at the peer.
    pub(super) pieces: Vec<Piece>,
    /// The address at the peer that its offsets count from.
    pub(super) remote_base: u64,
    /// Pieces are of the scratch memory rather than of the arena.
    pub(super) scratch: bool,
    /// What is announced to the peer once all is there; nothing if none.
    pub(super) number: Option<u64>,
    /// How long it may take.
    pub(super) deadline: Duration,
}

/// A put under way.
pub(super) struct Transfer {
    pub(super) peer: CString,
    chunks: VecDeque<Vec<(usize, usize, usize)>>,
    under_way: Vec<Request>,
    number: Option<u64>,
    deadline: Instant,
    cancel: CancellationToken,
    /// Why no further chunk is posted, and how long those under way are waited for.
    given_up: Option<(FabricError, Instant)>,
    /// A chunk has failed, and may have left something behind on its way.
    failed: bool,
    done: Option<oneshot::Sender<Put>>,
}

/// What a step has come to.
pub(super) enum Step {
    /// Something has moved.
    Moved,
    /// Everything still waits.
    Waits,
    /// It has ended.
    Ended {
        /// The peer can be spoken to no more.
        peer_gone: bool,
        /// What had not ended when it was waited for no longer: to be kept until it has.
        left: Vec<Request>,
    },
}

impl Transfer {
    pub(super) fn new(
        peer: CString,
        job: Job,
        local_base: u64,
        cancel: CancellationToken,
        done: oneshot::Sender<Put>,
    ) -> Self {
        Self {
            peer,
            chunks: chunks(&job.pieces, local_base, job.remote_base),
            under_way: Vec::new(),
            number: job.number,
            deadline: Instant::now() + job.deadline,
            cancel,
            given_up: None,
            failed: false,
            done: Some(done),
        }
    }

    pub(super) fn step(&mut self, agent: &Rc<Agent>) -> Step {
        let before = self.under_way.len();
        let mut failed = None;
        self.under_way.retain(|request| match request.progress() {
            Progress::UnderWay => true,
            Progress::Done => false,
            Progress::Failed(error) => {
                failed = Some(error);
                false
            }
        });
        let mut moved = self.under_way.len() < before;
        if let Some(error) = failed {
            self.failed = true;
            self.give_up(error);
        } else if self.cancel.is_cancelled() {
            self.give_up(FabricError::Cancelled);
        } else if Instant::now() >= self.deadline {
            self.give_up(FabricError::TimedOut);
        }
        while self.given_up.is_none() && self.under_way.len() < WINDOW {
            let Some(chunk) = self.chunks.pop_front() else { break };
            // SAFETY: chunks are made of pieces of the arena or of the scratch memory, both of which
            // stay registered until after the last transfer has ended.
            match unsafe { Request::post(agent, &self.peer, &chunk) } {
                Ok(request) => self.under_way.push(request),
                Err(error) => {
                    self.failed = true;
                    self.give_up(error);
                }
            }
            moved = true;
        }
        match &self.given_up {
            None if self.under_way.is_empty() => self.finish(agent),
            Some((error, until)) if self.under_way.is_empty() || Instant::now() >= *until => {
                let error = error.clone();
                let over = self.under_way.is_empty() && !self.failed;
                self.end(Err(error), over)
            }
            _ if moved => Step::Moved,
            _ => Step::Waits,
        }
    }

    fn give_up(&mut self, error: FabricError) {
        self.chunks.clear();
        self.given_up.get_or_insert((error, Instant::now() + DRAIN));
    }

    fn finish(&mut self, agent: &Agent) -> Step {
        let announced = match self.number {
            Some(number) => agent.announce(&self.peer, &number.to_le_bytes()),
            None => Ok(()),
        };
        self.end(announced.map_err(FabricError::PeerGone), true)
    }

    fn end(&mut self, result: Result<(), FabricError>, over: bool) -> Step {
        let peer_gone = matches!(result, Err(FabricError::PeerGone(_)));
        if let Some(done) = self.done.take() {
            // Fails only if nobody waits any more.
            let _ = done.send(Put { result, over });
        }
        Step::Ended { peer_gone, left: std::mem::take(&mut self.under_way) }
    }
}

/// The pieces with their addresses, in chunks.
fn chunks(pieces: &[Piece], local_base: u64, remote_base: u64) -> VecDeque<Vec<(usize, usize, usize)>> {
    let mut chunks = VecDeque::new();
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for piece in pieces {
        let mut done = 0;
        while done < piece.bytes {
            let length = (piece.bytes - done).min(CHUNK_BYTES - bytes);
            let address = |base: u64, offset: u64| (base + offset + done) as usize;
            chunk.push((address(local_base, piece.local), address(remote_base, piece.remote), length as usize));
            (done, bytes) = (done + length, bytes + length);
            if bytes == CHUNK_BYTES || chunk.len() == CHUNK_PIECES {
                chunks.push_back(std::mem::take(&mut chunk));
                bytes = 0;
            }
        }
    }
    if !chunk.is_empty() {
        chunks.push_back(chunk);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_every_byte_once_and_stay_within_their_limits() {
        let mib = 1024 * 1024;
        let mut pieces =
            vec![Piece { local: 5, remote: 7, bytes: 9 * mib }, Piece { local: 20 * mib, remote: 30 * mib, bytes: 1 }];
        pieces.extend((0..2_000).map(|at| Piece { local: 100 * mib + at, remote: 200 * mib + at * 2, bytes: 1 }));
        let chunks = chunks(&pieces, 1 << 40, 1 << 41);
        let mut walked: Vec<(u64, u64, u64)> = Vec::new();
        for chunk in &chunks {
            let bytes: usize = chunk.iter().map(|(.., length)| length).sum();
            assert!(bytes as u64 <= CHUNK_BYTES && chunk.len() <= CHUNK_PIECES && bytes > 0);
            for (local, remote, length) in chunk {
                let (local, remote, length) = (*local as u64 - (1 << 40), *remote as u64 - (1 << 41), *length as u64);
                match walked.last_mut() {
                    Some(last) if last.0 + last.2 == local && last.1 + last.2 == remote => last.2 += length,
                    _ => walked.push((local, remote, length)),
                }
            }
        }
        let expected: Vec<_> = pieces.iter().map(|piece| (piece.local, piece.remote, piece.bytes)).collect();
        assert_eq!(walked, expected);
    }
}
