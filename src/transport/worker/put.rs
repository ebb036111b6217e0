//! One put, chunk by chunk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Announcement, Ends, Engine, Memory, Place, Progress, Span};
use crate::arena::Segment;
use crate::transport::fabric::{FabricError, Piece, Put};

/// Bytes and spans of one chunk at most: few enough that one which is copied on this thread
/// holds up the others for a few milliseconds only.
const CHUNK_BYTES: u64 = 4 * 1024 * 1024;
const CHUNK_PIECES: usize = 512;
/// Chunks under way of one put.
const WINDOW: usize = 4;
/// How long what was given up may take to end.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The last chunks of a put; and how long one may stand still that nobody gives up.
    pub(super) drain: Duration,
    /// What has not ended by then, until its peer is given up, whatever else is under way to it. Far below
    /// `transfer.fence_max`, after which the far side gives its memory to somebody else: the configuration
    /// is refused where that is shorter than both together and a margin.
    pub(super) stuck: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { drain: Duration::from_secs(3), stuck: Duration::from_secs(5) }
    }
}

/// What is to be put.
pub(crate) struct Job {
    /// Local offsets, and those at the peer.
    pub(crate) pieces: Vec<Piece>,
    /// What memory it is in at the peer, and the address there that offsets count from.
    pub(crate) remote: (Segment, u64),
    /// Of which memory they are.
    pub(crate) place: Place,
    /// What is announced to the peer once all of it, and all that was put before, is in its memory;
    /// nothing if none.
    pub(crate) announcement: Option<Announcement>,
    /// How long it may take.
    pub(crate) deadline: Duration,
}

/// Who has asked for a put.
pub(crate) struct Asker {
    /// Nothing more is to be written.
    pub(super) cancel: CancellationToken,
    /// Told, before the end, that the link can be used no more.
    pub(super) over: Arc<AtomicBool>,
    pub(super) done: Option<oneshot::Sender<Put>>,
}

/// How far a put is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Chunks are posted.
    Posts,
    /// All chunks have ended here; whether they have there is waited for.
    Flushes,
    /// Everything is in the peer's memory, and that is announced.
    Announces,
}

/// A put under way.
pub(super) struct Transfer<E: Engine> {
    pub(super) peer: E::Peer,
    ends: Ends,
    chunks: VecDeque<Vec<Span>>,
    posted: bool,
    stage: Stage,
    under_way: Vec<E::Request>,
    announcement: Option<Announcement>,
    deadline: Instant,
    asker: Asker,
    drain: Duration,
    /// When something of it has ended last, or was begun.
    moved: Instant,
    /// Why no further chunk is posted, and how long those under way are waited for.
    given_up: Option<(FabricError, Instant)>,
    /// A chunk has failed, and may have left something behind on its way.
    failed: bool,
}

/// What a step has come to.
pub(super) enum Step<E: Engine> {
    /// Something has moved.
    Moved,
    /// Everything still waits.
    Waits,
    /// It has ended.
    Ended {
        /// The peer can be spoken to no more.
        peer_gone: bool,
        /// What had not ended when it was waited for no longer: to be kept until it has.
        left: Vec<E::Request>,
    },
}

impl<E: Engine> Transfer<E> {
    pub(super) fn new(peer: E::Peer, job: Job, memory: &Memory, asker: Asker, drain: Duration) -> Self {
        let (local, (to, remote)) = (memory.region(job.place), job.remote);
        Self {
            peer,
            ends: Ends { place: job.place, from: local.segment, to },
            chunks: chunks(&job.pieces, local.address as u64, remote),
            posted: false,
            stage: Stage::Posts,
            under_way: Vec::new(),
            announcement: job.announcement,
            deadline: Instant::now() + job.deadline,
            asker,
            drain,
            moved: Instant::now(),
            given_up: None,
            failed: false,
        }
    }

    pub(super) fn step(&mut self, engine: &mut E) -> Step<E> {
        let before = self.under_way.len();
        let mut failed = None;
        self.under_way.retain_mut(|request| match engine.progress(request) {
            Progress::UnderWay => true,
            Progress::Done => false,
            Progress::Failed(error) => {
                failed = Some(error);
                false
            }
        });
        let mut moved = self.under_way.len() < before;
        if let Some(error) = failed {
            self.fail(error);
        } else if self.asker.cancel.is_cancelled() {
            self.give_up(FabricError::Cancelled);
        } else if Instant::now() >= self.deadline {
            self.give_up(FabricError::TimedOut);
        }
        moved |= self.post(engine);
        if moved {
            self.moved = Instant::now();
        }
        if self.under_way.is_empty() {
            return match self.stage {
                // What was given up before anything was posted is over, and what has failed cannot be
                // waited for.
                Stage::Posts if self.failed || !self.posted && self.given_up.is_some() => self.end(),
                Stage::Posts => self.enter(Stage::Flushes, engine),
                Stage::Flushes if self.failed || self.given_up.is_some() => self.end(),
                Stage::Flushes => self.enter(Stage::Announces, engine),
                Stage::Announces => self.end(),
            };
        }
        match &self.given_up {
            Some((_, until)) if Instant::now() >= *until => self.end(),
            _ if moved => Step::Moved,
            _ => Step::Waits,
        }
    }

    /// Posts as many chunks as may be under way.
    fn post(&mut self, engine: &mut E) -> bool {
        let mut moved = false;
        while self.stage == Stage::Posts && self.given_up.is_none() && self.under_way.len() < WINDOW {
            let Some(chunk) = self.chunks.pop_front() else { break };
            // SAFETY: chunks are made of pieces of the arena or of the scratch memory, both of which
            // stay until after the engine is dropped.
            match unsafe { engine.post(&self.peer, self.ends, &chunk) } {
                Ok(request) => {
                    self.posted = true;
                    self.under_way.push(request);
                }
                Err(error) => self.fail(error),
            }
            moved = true;
        }
        moved
    }

    /// Begins the next stage. What has nothing to wait for in it goes on at the next step.
    fn enter(&mut self, stage: Stage, engine: &mut E) -> Step<E> {
        let begun = match (stage, &self.announcement) {
            (Stage::Flushes, _) => engine.flush(&self.peer),
            (Stage::Announces, Some(announcement)) => engine.announce(&self.peer, announcement),
            (Stage::Posts, _) | (Stage::Announces, None) => Ok(None),
        };
        self.stage = stage;
        match begun {
            Ok(request) => self.under_way.extend(request),
            Err(error) => self.fail(error),
        }
        Step::Moved
    }

    /// Whether something of it may still come to its end by itself.
    pub(super) fn moves(&self) -> bool {
        self.given_up.is_none() && self.moved.elapsed() < self.drain
    }

    /// Ends it at once, if anything of it has begun. What had not ended is to be given up with its peer.
    pub(super) fn abandon(&mut self, error: &FabricError) -> Option<Vec<E::Request>> {
        if !self.posted && self.stage == Stage::Posts {
            return None;
        }
        self.fail(error.clone());
        self.asker.over.store(true, Ordering::Relaxed);
        match self.end() {
            Step::Ended { left, .. } => Some(left),
            Step::Moved | Step::Waits => None,
        }
    }

    fn fail(&mut self, error: FabricError) {
        self.failed = true;
        self.give_up(error);
    }

    fn give_up(&mut self, error: FabricError) {
        self.chunks.clear();
        self.given_up.get_or_insert((error, Instant::now() + self.drain));
    }

    fn end(&mut self) -> Step<E> {
        // From the announcement on everything was in the peer's memory; before, only a flush that went
        // well says that nothing is on its way.
        let flushed = !self.posted || self.stage == Stage::Flushes && !self.failed && self.under_way.is_empty();
        let over = flushed || self.stage == Stage::Announces;
        let result = self.given_up.take().map_or(Ok(()), |(error, _)| Err(error));
        let peer_gone = matches!(result, Err(FabricError::PeerGone(_)));
        if peer_gone || !self.under_way.is_empty() {
            self.asker.over.store(true, Ordering::Relaxed);
        }
        if let Some(done) = self.asker.done.take() {
            // Fails only if nobody waits any more.
            let _ = done.send(Put { result, over });
        }
        Step::Ended { peer_gone, left: std::mem::take(&mut self.under_way) }
    }
}

/// The pieces with their addresses, in chunks.
fn chunks(pieces: &[Piece], local_base: u64, remote_base: u64) -> VecDeque<Vec<Span>> {
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
