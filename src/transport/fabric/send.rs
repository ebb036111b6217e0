//! The sending side: links to peers, probes and writes through them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::rail::Shared;
use super::wire::{Done, Outcome, Reply, Request};
use super::{FabricError, Greeting, Link, Piece, Put};
use crate::arena::{Arena, Run};
use crate::model::{Extent, LeaseId, NodeName};
use crate::net::{Connection, RecvStream};
use crate::transport::dial::{Purpose, millis};
use crate::transport::stream::{CODE_CANCELLED, CODE_UNFINISHED, Outgoing, gone, hear, open, say};
use crate::transport::{PathError, Peer, Write, Written, check_probe};

/// Bytes hashed between two looks at what else is to be done.
const HASHED_AT_ONCE: u64 = 256 * 1024;
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
    let until = tokio::time::Instant::now() + deadline;
    let outbound = outbound(shared, peer, until, deadline).await?;
    let started = Instant::now();
    let left = until.saturating_duration_since(tokio::time::Instant::now());
    let probe = async {
        outbound.link.probe(payload_bytes, left).await.map_err(|error| path_error(&peer.node, deadline, error))
    };
    let probed = in_time(peer, until, deadline, probe).await;
    if matches!(probed, Err(PathError::PeerGone { .. } | PathError::TimedOut { .. })) {
        outbound.end();
    }
    probed.map(|()| started.elapsed())
}

pub(super) async fn write(shared: &Arc<Shared>, peer: &Peer, write: Write) -> Result<Written, PathError> {
    let bytes = write.blocks.iter().fold(0_u64, |sum, block| sum.saturating_add(block.bytes));
    if bytes == 0 {
        return Err(PathError::Local("a write of no bytes".to_owned()));
    }
    let run =
        Run::new(&write.blocks, bytes, shared.arena.size()).map_err(|error| PathError::Local(error.to_string()))?;
    let until = tokio::time::Instant::now() + write.deadline;
    let cancel = CancellationToken::new();
    let (done, outcome) = oneshot::channel();
    let job = Job { shared: Arc::clone(shared), peer: peer.clone(), bytes, run, cancel: cancel.clone(), until };
    // In a task of its own: whoever drops the write must not drop what is said of its end.
    shared.tasks.spawn(async move {
        // Fails only if nobody waits any more.
        let _ = done.send(job.run(write.lease, write.deadline).await);
    });
    let _cancelled_when_dropped = cancel.drop_guard();
    let closed = |_| Err(PathError::Local("the rail is closed".to_owned()));
    in_time(peer, until, write.deadline, async { outcome.await.unwrap_or_else(closed) }).await
}

struct Job {
    shared: Arc<Shared>,
    peer: Peer,
    bytes: u64,
    run: Run,
    cancel: CancellationToken,
    until: tokio::time::Instant,
}

/// A place for the bytes.
struct Offered {
    outbound: Arc<Outbound>,
    out: Outgoing,
    back: RecvStream,
    extents: Vec<Extent>,
    number: u64,
}

impl Job {
    async fn run(self, lease: LeaseId, deadline: Duration) -> Result<Written, PathError> {
        let offered = self.offered(&lease, deadline).await?;
        // From its own deadline on a put only has to come to its end.
        in_time(&self.peer, self.until + DRAIN, deadline, self.moved(offered, deadline)).await
    }

    /// Gets a place for the bytes; once more if the session has ended meanwhile.
    async fn offered(&self, lease: &LeaseId, deadline: Duration) -> Result<Offered, PathError> {
        let node = &self.peer.node;
        for _ in 0..2 {
            let outbound = outbound(&self.shared, &self.peer, self.until, deadline).await?;
            let (session, lease) = (outbound.session, lease.clone());
            let request = Request::Offer { session, lease, bytes: self.bytes, deadline_ms: millis(deadline) };
            let offer = async |connection| {
                let (mut out, mut back) = open(node, &connection).await?;
                say(node, &mut out, &request).await?;
                Ok((hear(node, &mut back).await?, out, back))
            };
            let (reply, mut out, back) = dialed(&self.shared, &self.peer, self.until, deadline, offer).await?;
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
    async fn moved(&self, offered: Offered, deadline: Duration) -> Result<Written, PathError> {
        let node = &self.peer.node;
        let Offered { outbound, mut out, mut back, extents, number } = offered;
        let Some(pieces) = pieces(self.run.clone(), &extents, self.bytes) else {
            return Err(gone(node, format!("gave extents of fewer than {} bytes", self.bytes)));
        };
        let started = Instant::now();
        let left = self.until.saturating_duration_since(tokio::time::Instant::now());
        let cancel = self.cancel.child_token();
        out.code = CODE_UNFINISHED;
        let (put, hash, early) = {
            let put = outbound.link.put(pieces, number, left, &cancel);
            let mut work = std::pin::pin!(hashed(put, hash(&self.shared.arena, self.run.clone())));
            tokio::select! {
                (put, hash) = &mut work => (put, hash, None),
                // An answer before the end is a refusal: nothing more is wanted.
                early = hear::<Outcome>(node, &mut back) => {
                    cancel.cancel();
                    let (put, hash) = work.await;
                    (put, hash, Some(early))
                }
            }
        };
        if put.over {
            out.code = CODE_CANCELLED;
        }
        if !matches!(put.result, Ok(()) | Err(FabricError::Cancelled | FabricError::Local(_))) {
            outbound.end();
        }
        let outcome = match (early, put.result) {
            (Some(early), _) => early?,
            (None, Err(error)) => return Err(path_error(node, deadline, error)),
            (None, Ok(())) => {
                let hash = hash.unwrap_or_else(|| Err(PathError::Local("not hashed".to_owned())))?;
                say(node, &mut out, &Done { hash }).await?;
                out.done();
                let outcome = hear(node, &mut back).await?;
                out.answered = true;
                if let Outcome::Landed { shared_bytes } = outcome {
                    return Ok(Written { bytes: self.bytes, hash, elapsed: started.elapsed(), shared_bytes });
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
}

/// The pieces of `local`, each with its place in the peer's extents; none if those are too few.
fn pieces(mut local: Run, extents: &[Extent], bytes: u64) -> Option<Vec<Piece>> {
    let mut remote = Run::new(extents, bytes, u64::MAX).ok()?;
    let mut pieces = Vec::new();
    let mut rest: Option<Extent> = None;
    while let Some(from) = rest.take().or_else(|| local.next(u64::MAX)) {
        let to = remote.next(from.bytes)?;
        pieces.push(Piece { local: from.offset, remote: to.offset, bytes: to.bytes });
        if to.bytes < from.bytes {
            rest = Some(Extent { offset: from.offset + to.bytes, bytes: from.bytes - to.bytes });
        }
    }
    Some(pieces)
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

async fn hash(arena: &Arena, mut run: Run) -> Result<[u8; 32], PathError> {
    let mut hasher = blake3::Hasher::new();
    while run.left() > 0 {
        let bytes = run.left().min(HASHED_AT_ONCE);
        arena.hash_run(&mut run, bytes, &mut hasher).map_err(|error| PathError::Local(error.to_string()))?;
        // Hashing takes its time: others of this thread want theirs.
        tokio::task::yield_now().await;
    }
    Ok(hasher.finalize().into())
}

/// The link to a peer, made if there is none; all of it until `until`.
async fn outbound(
    shared: &Arc<Shared>,
    peer: &Peer,
    until: tokio::time::Instant,
    deadline: Duration,
) -> Result<Arc<Outbound>, PathError> {
    let slot = shared.links.slot((peer.node.clone(), peer.address.clone()));
    let mut kept = in_time(peer, until, deadline, async { Ok(slot.lock().await) }).await?;
    if let Some(outbound) = kept.as_ref().filter(|outbound| !outbound.is_over()) {
        return Ok(Arc::clone(outbound));
    }
    *kept = None;
    let node = &peer.node;
    let local = |error: FabricError| path_error(node, deadline, error);
    let greet = async { shared.fabric.greet(node).await.map_err(local) };
    let Greeting { words, opening } = in_time(peer, until, deadline, greet).await?;
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
    let (session, welcome, out, mut back) = dialed(shared, peer, until, deadline, hello).await?;
    let connect = async { opening.connect(welcome).await.map_err(local) };
    let link = in_time(peer, until, deadline, connect).await?;
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

/// Runs `work` on the connection to a peer. The time is the dialer's to keep: one that was cut off from outside
/// would not forget a connection on which nothing arrives, and a peer that has restarted would not be found.
async fn dialed<T>(
    shared: &Shared,
    peer: &Peer,
    until: tokio::time::Instant,
    deadline: Duration,
    work: impl AsyncFnOnce(Connection) -> Result<T, PathError>,
) -> Result<T, PathError> {
    let left = until.saturating_duration_since(tokio::time::Instant::now());
    shared.dialer.run(peer, Purpose::Small, left, work).await.map_err(|error| match error {
        PathError::TimedOut { peer, .. } => PathError::TimedOut { peer, limit_ms: millis(deadline) },
        error => error,
    })
}

async fn in_time<T>(
    peer: &Peer,
    until: tokio::time::Instant,
    deadline: Duration,
    work: impl Future<Output = Result<T, PathError>>,
) -> Result<T, PathError> {
    let late = |_| PathError::TimedOut { peer: peer.node.clone(), limit_ms: millis(deadline) };
    timeout_at(until, work).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// What a library's word says about the path.
fn path_error(peer: &NodeName, deadline: Duration, error: FabricError) -> PathError {
    match error {
        FabricError::TimedOut => PathError::TimedOut { peer: peer.clone(), limit_ms: millis(deadline) },
        FabricError::PeerGone(detail) | FabricError::Protection(detail) | FabricError::Skew(detail) => {
            gone(peer, detail)
        }
        error @ (FabricError::Cancelled | FabricError::Local(_)) => PathError::Local(error.to_string()),
    }
}
