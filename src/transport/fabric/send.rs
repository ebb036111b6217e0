//! The sending side: links to peers, probes and writes through them.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::rail::Shared;
use super::wire::{Done, Outcome, Reply, Request};
use super::{FabricError, Greeting, Link, Piece, Put};
use crate::arena::{Arena, Run};
use crate::model::{Extent, LeaseId, NodeName};
use crate::net::RecvStream;
use crate::transport::blocks::{Deadline, Late, Part, Reader};
use crate::transport::dial::{Purpose, millis};
use crate::transport::stream::{CODE_CANCELLED, CODE_UNFINISHED, Outgoing, gone, hear, open, say};
use crate::transport::{PathError, Peer, Write, Written, check_probe};

/// Bytes hashed between two looks at what else is to be done.
const HASHED_AT_ONCE: u64 = 256 * 1024;
const NO_GRACE: Duration = Duration::ZERO;
/// How long a put that was given up may take to come to its end.
const DRAIN: Duration = Duration::from_secs(5);

/// A link to a peer, and the session that it is part of.
pub(super) struct Outbound {
    session: u64,
    link: Arc<dyn Link>,
    /// The session's stream: the session ends with it.
    _stream: Outgoing,
    /// The peer has ended it, or it has failed here.
    over: Arc<AtomicBool>,
}

impl Outbound {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.link.is_over()
    }

    /// Nobody begins anything on it any more.
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

pub(super) async fn probe(
    shared: &Arc<Shared>,
    peer: &Peer,
    payload_bytes: u32,
    deadline: Duration,
) -> Result<Duration, PathError> {
    check_probe(payload_bytes)?;
    let deadline = Deadline::from(deadline);
    let outbound = in_time(peer, &deadline, NO_GRACE, outbound(shared, peer, &deadline)).await?;
    let started = Instant::now();
    let probe = async {
        let probed = outbound.link.probe(payload_bytes, deadline.left()).await;
        probed.map_err(|error| path_error(&peer.node, &deadline, error))
    };
    let probed = in_time(peer, &deadline, NO_GRACE, probe).await;
    let probed = probed.map_err(|error| doubted(error, || outbound.link.doubt()));
    if matches!(probed, Err(PathError::PeerGone { .. } | PathError::TimedOut { .. })) {
        outbound.end();
    }
    probed.map(|()| started.elapsed())
}

pub(super) async fn write(shared: &Arc<Shared>, peer: &Peer, write: Write) -> Result<Written, PathError> {
    let Write { lease, blocks, deadline } = write;
    if blocks.bytes() == 0 {
        return Err(PathError::Local("a write of no bytes".to_owned()));
    }
    let deadline = Deadline::of_write(deadline, &blocks);
    let mut source = blocks.read();
    // What is there is checked before anything is said; what comes later, when it comes.
    let first = match source.is_ready() {
        true => Some(source.next(&shared.arena).await?),
        false => None,
    };
    let cancel = CancellationToken::new();
    let (done, outcome) = oneshot::channel();
    let link = Arc::new(OnceLock::new());
    let job = Job {
        link: Arc::clone(&link),
        shared: Arc::clone(shared),
        peer: peer.clone(),
        bytes: blocks.bytes(),
        at_once: blocks.at_once(),
        cancel: cancel.clone(),
        deadline: deadline.clone(),
    };
    // In a task of its own: whoever drops the write must not drop what is said of its end.
    shared.tasks.spawn(async move {
        // Fails only if nobody waits any more.
        let _ = done.send(job.run(lease, first, source).await);
    });
    let _cancelled_when_dropped = cancel.drop_guard();
    let closed = |_| Err(PathError::Local("the rail is closed".to_owned()));
    let written = in_time(peer, &deadline, NO_GRACE, async { outcome.await.unwrap_or_else(closed) }).await;
    written.map_err(|error| doubted(error, || link.get().and_then(|link| link.doubt())))
}

/// A write or a probe that is late ends at its deadline, whatever its link would have said: what that knows of
/// its peer is said with it.
fn doubted(error: PathError, what: impl FnOnce() -> Option<String>) -> PathError {
    match error {
        PathError::TimedOut { peer, limit_ms, doubt: None } => PathError::TimedOut { peer, limit_ms, doubt: what() },
        other => other,
    }
}

struct Job {
    /// The link that was taken, for whoever waits.
    link: Arc<OnceLock<Arc<dyn Link>>>,
    shared: Arc<Shared>,
    peer: Peer,
    bytes: u64,
    at_once: bool,
    cancel: CancellationToken,
    deadline: Deadline,
}

/// A place for the bytes.
struct Offered {
    outbound: Arc<Outbound>,
    out: Outgoing,
    back: RecvStream,
    extents: Vec<Extent>,
    number: u64,
}

/// What the puts of a write have come to.
struct Moved {
    /// The hash of everything.
    result: Result<[u8; 32], FabricError>,
    /// Nothing of it will be written from here on.
    over: bool,
}

impl Job {
    async fn run(self, lease: LeaseId, first: Option<Part>, source: Reader) -> Result<Written, PathError> {
        let offered = tokio::select! {
            biased;
            // Dropped with what was said so far: that it is cancelled.
            () = self.cancel.cancelled() => Err(path_error(&self.peer.node, &self.deadline, FabricError::Cancelled)),
            offered = in_time(&self.peer, &self.deadline, NO_GRACE, self.offered(&lease)) => offered,
        }?;
        // From its own deadline on a put only has to come to its end.
        in_time(&self.peer, &self.deadline, DRAIN, self.moved(offered, first, source)).await
    }

    /// Gets a place for the bytes; once more if the session has ended meanwhile.
    async fn offered(&self, lease: &LeaseId) -> Result<Offered, PathError> {
        let node = &self.peer.node;
        // How long a source takes nobody knows; the lease's end is its end.
        let deadline_ms = if self.at_once { millis(self.deadline.limit) } else { u64::MAX };
        for _ in 0..2 {
            let outbound = outbound(&self.shared, &self.peer, &self.deadline).await?;
            let (session, lease) = (outbound.session, lease.clone());
            let request = Request::Offer { session, lease, bytes: self.bytes, deadline_ms };
            let offer = async |connection| {
                let (mut out, mut back) = open(node, &connection).await?;
                say(node, &mut out, &request).await?;
                Ok((hear(node, &mut back).await?, out, back))
            };
            let run = self.shared.dialer.run(&self.peer, Purpose::Small, &self.deadline, offer);
            let (reply, mut out, back) = run.await?;
            match reply {
                Reply::Place { extents, number } => return Ok(Offered { outbound, out, back, extents, number }),
                Reply::NoSession => outbound.end(),
                Reply::Refused(detail) => {
                    out.answered = true;
                    return Err(PathError::Refused { peer: node.clone(), detail });
                }
                Reply::Welcome { .. } => return Err(gone(node, "answered an offer with a welcome".to_owned())),
            }
        }
        Err(gone(node, "ended two sessions at once".to_owned()))
    }

    /// Puts the bytes and learns what became of them.
    async fn moved(&self, offered: Offered, first: Option<Part>, source: Reader) -> Result<Written, PathError> {
        let node = &self.peer.node;
        let Offered { outbound, mut out, mut back, extents, number } = offered;
        // Fails only if it was told before: there is one a write.
        let _ = self.link.set(Arc::clone(&outbound.link));
        let Ok(remote) = Run::new(&extents, self.bytes, u64::MAX) else {
            return Err(gone(node, format!("gave extents of fewer than {} bytes", self.bytes)));
        };
        let begun = self.deadline.spent();
        let cancel = self.cancel.child_token();
        out.code = CODE_UNFINISHED;
        let (moved, early) = {
            let mut work = std::pin::pin!(self.put(&outbound, first, source, remote, number, &cancel));
            tokio::select! {
                moved = &mut work => (moved, None),
                // An answer before the end is a refusal: nothing more is wanted.
                early = hear::<Outcome>(node, &mut back) => {
                    cancel.cancel();
                    (work.await, Some(early))
                }
            }
        };
        if moved.over {
            out.code = CODE_CANCELLED;
        }
        if !matches!(moved.result, Ok(_) | Err(FabricError::Cancelled | FabricError::Local(_))) {
            outbound.end();
        }
        let outcome = match (early, moved.result) {
            (Some(early), _) => early?,
            (None, Err(error)) => return Err(path_error(node, &self.deadline, error)),
            (None, Ok(hash)) => {
                say(node, &mut out, &Done { hash }).await?;
                out.done();
                let outcome = hear(node, &mut back).await?;
                out.answered = true;
                if let Outcome::Landed { shared_bytes } = outcome {
                    let elapsed = self.deadline.spent().saturating_sub(begun);
                    return Ok(Written { bytes: self.bytes, hash, elapsed, shared_bytes });
                }
                outcome
            }
        };
        Err(match outcome {
            Outcome::Landed { .. } => gone(node, "confirmed bytes before they were sent".to_owned()),
            Outcome::Corrupt => PathError::Corrupt { peer: node.clone() },
            Outcome::Refused(detail) => PathError::Refused { peer: node.clone(), detail },
        })
    }

    /// Puts everything, as it comes; the last put announces `number`. The source is waited for while
    /// nothing is under way.
    async fn put(
        &self,
        outbound: &Outbound,
        mut first: Option<Part>,
        mut source: Reader,
        mut remote: Run,
        number: u64,
        cancel: &CancellationToken,
    ) -> Moved {
        let arena = &self.shared.arena;
        let mut hasher = blake3::Hasher::new();
        loop {
            let part = match first.take() {
                Some(first) => Ok(first),
                None => tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err(FabricError::Cancelled),
                    next = source.next(arena) => next.map_err(|error| FabricError::Local(error.to_string())),
                },
            };
            let Part { run, last } = match part {
                Ok(part) => part,
                Err(error) => return Moved { result: Err(error), over: true },
            };
            let (pieces, number) = (pieces(run.clone(), &mut remote), last.then_some(number));
            let put = outbound.link.put(pieces, number, self.deadline.left(), cancel);
            let (Put { result, over }, hashed) = hashed(put, hash(arena, run, &mut hasher)).await;
            let hashed = hashed.unwrap_or(Ok(()));
            match result.and(hashed) {
                Ok(()) if last => return Moved { result: Ok(hasher.finalize().into()), over },
                Ok(()) => {}
                Err(error) => return Moved { result: Err(error), over },
            }
        }
    }
}

/// The pieces of `local`, each with its place in the peer's extents, which hold as many bytes.
fn pieces(mut local: Run, remote: &mut Run) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest: Option<Extent> = None;
    while let Some(from) = rest.take().or_else(|| local.next(u64::MAX))
        && let Some(to) = remote.next(from.bytes)
    {
        pieces.push(Piece { local: from.offset, remote: to.offset, bytes: to.bytes });
        if to.bytes < from.bytes {
            rest = Some(Extent { offset: from.offset + to.bytes, bytes: from.bytes - to.bytes });
        }
    }
    pieces
}

/// A put and the hash of what it puts, at the same time. Nobody needs the hash of a put that failed.
async fn hashed<H>(put: impl Future<Output = Put>, hash: impl Future<Output = H>) -> (Put, Option<H>) {
    let (mut put, mut hash) = (std::pin::pin!(put), std::pin::pin!(hash));
    tokio::select! {
        put = &mut put => {
            let hash = if put.result.is_ok() { Some(hash.await) } else { None };
            (put, hash)
        }
        hash = &mut hash => (put.await, Some(hash)),
    }
}

async fn hash(arena: &Arena, mut run: Run, hasher: &mut blake3::Hasher) -> Result<(), FabricError> {
    while run.left() > 0 {
        let bytes = run.left().min(HASHED_AT_ONCE);
        arena.hash_run(&mut run, bytes, hasher).map_err(|error| FabricError::Local(error.to_string()))?;
        // Hashing takes its time: others of this thread want theirs.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The link to a peer, made if there is none.
async fn outbound(shared: &Arc<Shared>, peer: &Peer, deadline: &Deadline) -> Result<Arc<Outbound>, PathError> {
    let slot = shared.links.slot((peer.node.clone(), peer.address.clone()));
    let mut kept = slot.lock().await;
    if let Some(outbound) = kept.as_ref().filter(|outbound| !outbound.is_over()) {
        return Ok(Arc::clone(outbound));
    }
    *kept = None;
    let node = &peer.node;
    let local = |error: FabricError| path_error(node, deadline, error);
    let Greeting { words, opening } = shared.fabric.greet(node).await.map_err(local)?;
    let hello = async |connection| {
        let (mut out, mut back) = open(node, &connection).await?;
        say(node, &mut out, &Request::Hello { greeting: words }).await?;
        match hear(node, &mut back).await? {
            Reply::Welcome { session, welcome } => Ok((session, welcome, out, back)),
            Reply::Refused(detail) => Err(PathError::Refused { peer: node.clone(), detail }),
            Reply::Place { .. } | Reply::NoSession => {
                Err(gone(node, "answered a hello with something else".to_owned()))
            }
        }
    };
    let (session, welcome, out, mut back) = shared.dialer.run(peer, Purpose::Small, deadline, hello).await?;
    let link = opening.connect(welcome).await.map_err(local)?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    shared.tasks.spawn(async move {
        // The peer says nothing more: whatever comes is the end.
        let _ = back.read_chunk(1, true).await;
        ended.store(true, Ordering::Relaxed);
    });
    let outbound = Arc::new(Outbound { session, link, _stream: out, over });
    *kept = Some(Arc::clone(&outbound));
    Ok(outbound)
}

async fn in_time<T>(
    peer: &Peer,
    deadline: &Deadline,
    grace: Duration,
    work: impl Future<Output = Result<T, PathError>>,
) -> Result<T, PathError> {
    let late = |Late| path_error(&peer.node, deadline, FabricError::TimedOut);
    deadline.within(grace, work).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// What a library's word says about the path.
fn path_error(peer: &NodeName, deadline: &Deadline, error: FabricError) -> PathError {
    match error {
        FabricError::TimedOut => {
            PathError::TimedOut { peer: peer.clone(), limit_ms: millis(deadline.limit), doubt: None }
        }
        FabricError::PeerGone(detail) | FabricError::Protection(detail) | FabricError::Skew(detail) => {
            gone(peer, detail)
        }
        error @ (FabricError::Cancelled | FabricError::Local(_)) => PathError::Local(error.to_string()),
    }
}
