//! The receiving side: sessions of peers, and what they put into leases.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::rail::{MAX_PEER_SESSIONS, MAX_SESSIONS, Shared};
use super::wire::{Done, Outcome, Reply, Request, cut};
use super::{Entry, MAX_GREETING, Welcome};
use crate::arena::Run;
use crate::codec::{self, Wire};
use crate::model::{LeaseId, NodeName};
use crate::net::frame::{FrameError, read_frame};
use crate::net::{Connection, Endpoint, ReadError, RecvStream, SendStream};
use crate::transport::stream::{CODE_ANSWERED, CODE_CANCELLED, CODE_MALFORMED, hear, say};

/// How long a stream may take to say what it wants, and an answer to be taken.
const TALK_LIMIT: Duration = Duration::from_secs(10);
/// No transfer is waited for longer, whatever its sender wants.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3_600);
/// A sender gives up at its own deadline and says so; only one that cannot is given up here.
const GRACE: Duration = Duration::from_millis(500);
/// How long a sender may take to stop, once its lease is void or its deadline is over, and an
/// announcement to follow it. A little longer than a sender waits for its library.
const STOP_LIMIT: Duration = Duration::from_secs(6);
/// Bytes hashed between two looks at what else is to be done.
const HASHED_AT_ONCE: u64 = 256 * 1024;

/// One peer's session.
pub(super) struct Session {
    peer: NodeName,
    entry: Arc<dyn Entry>,
    over: CancellationToken,
}

/// Serves every connection of `endpoint` until it closes. Streams per connection and connections
/// per endpoint are limited by the endpoint.
pub(super) async fn serve(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(connection) = endpoint.accept().await {
        shared.tasks.spawn(serve_connection(connection, Arc::clone(&shared)));
    }
}

async fn serve_connection(connection: Connection, shared: Arc<Shared>) {
    while let Ok((out, incoming)) = connection.quinn().accept_bi().await {
        let (shared, peer) = (Arc::clone(&shared), connection.peer().clone());
        let tasks = shared.tasks.clone();
        tasks.spawn(async move { serve_stream(&shared, &peer, out, incoming).await });
    }
}

async fn serve_stream(shared: &Shared, peer: &NodeName, mut out: SendStream, mut incoming: RecvStream) {
    match timeout(TALK_LIMIT, hear(peer, &mut incoming)).await {
        Ok(Ok(Request::Hello { greeting })) => session(shared, peer, greeting, &mut out, &mut incoming).await,
        Ok(Ok(Request::Offer { session, lease, bytes, deadline_ms })) => {
            let limit = Duration::from_millis(deadline_ms).min(LONGEST_DEADLINE) + GRACE;
            let offer = Offer { shared, peer, lease, bytes, limit };
            offer.serve(session, &mut out, &mut incoming).await;
        }
        Ok(Err(error)) => {
            count(&shared.counters.malformed);
            tracing::debug!(%peer, %error, "no request on a fabric stream");
            // Fails only if the peer has ended it already.
            let _ = (out.reset(CODE_MALFORMED), incoming.stop(CODE_MALFORMED));
        }
        Err(_) => count(&shared.counters.broken),
    }
}

/// Opens a session and keeps it as long as its stream.
async fn session(shared: &Shared, peer: &NodeName, greeting: Vec<u8>, out: &mut SendStream, incoming: &mut RecvStream) {
    let refused = async |out: &mut SendStream, words: String| {
        count(&shared.counters.refused);
        answer(peer, out, &Reply::Refused(cut(&words))).await;
    };
    // Before a library has any work with it, and once more when it has done that.
    let room = full(&shared.sessions(), peer);
    if let Some(words) = room {
        return refused(out, words).await;
    }
    let (welcome, entry) = match shared.fabric.welcome(peer, greeting).await {
        Ok(Welcome { words, entry }) if words.len() <= MAX_GREETING => (words, entry),
        Ok(Welcome { words, .. }) => {
            return refused(out, format!("a welcome of {} bytes, at most {MAX_GREETING}", words.len())).await;
        }
        Err(error) => return refused(out, error.to_string()).await,
    };
    let number = shared.number();
    let session = Arc::new(Session { peer: peer.clone(), entry, over: CancellationToken::new() });
    let room = {
        let mut sessions = shared.sessions();
        let room = full(&sessions, peer);
        if room.is_none() {
            sessions.insert(number, Arc::clone(&session));
        }
        room
    };
    if let Some(words) = room {
        session.entry.close().await;
        return refused(out, words).await;
    }
    let welcomed = timeout(TALK_LIMIT, say(peer, out, &Reply::Welcome { session: number, welcome })).await;
    if matches!(welcomed, Ok(Ok(()))) {
        // The peer says nothing more: whatever comes is the end.
        let _ = incoming.read_chunk(1, true).await;
    }
    shared.sessions().remove(&number);
    session.over.cancel();
    session.entry.close().await;
    let _ = out.reset(CODE_ANSWERED);
}

/// Why there is no room for one more session of a peer.
fn full(sessions: &HashMap<u64, Arc<Session>>, peer: &NodeName) -> Option<String> {
    let of_peer = sessions.values().filter(|session| session.peer == *peer).count();
    match (sessions.len(), of_peer) {
        (MAX_SESSIONS.., _) => Some(format!("{MAX_SESSIONS} sessions are open, no more are allowed")),
        (_, MAX_PEER_SESSIONS..) => Some(format!("{peer} has {of_peer} sessions open, no more are allowed")),
        _ => None,
    }
}

/// A write that a peer wants to make.
struct Offer<'a> {
    shared: &'a Shared,
    peer: &'a NodeName,
    lease: LeaseId,
    bytes: u64,
    limit: Duration,
}

/// How the waiting for a put has ended.
enum Ended {
    /// The sender says that it is done, and its announcement has come.
    Arrived(Done),
    /// Nothing of it will be written any more.
    Over,
    /// Nobody knows.
    Unknown,
}

impl Offer<'_> {
    async fn serve(&self, session: u64, out: &mut SendStream, incoming: &mut RecvStream) {
        let (peer, counters) = (self.peer, &self.shared.counters);
        let session = self.shared.sessions().get(&session).filter(|session| session.peer == *peer).cloned();
        let Some(session) = session else { return answer(peer, out, &Reply::NoSession).await };
        let extents = match self.shared.landing.open(&self.lease, peer, self.bytes).await {
            Ok(extents) => extents,
            Err(words) => {
                count(&counters.refused);
                return answer(peer, out, &Reply::Refused(cut(&words))).await;
            }
        };
        // From here on every way leads to `quiet`, or to a fence.
        let run = match Run::disjoint(&extents, self.bytes, self.shared.arena.size()) {
            Ok(run) => run,
            Err(error) => {
                self.shared.landing.quiet(&self.lease).await;
                count(&counters.refused);
                return answer(peer, out, &Reply::Refused(cut(&format!("the lease's extents: {error}")))).await;
            }
        };
        let came_before = counters.came_bytes.load(Ordering::Relaxed);
        let number = self.shared.number();
        let placed = timeout(TALK_LIMIT, say(peer, out, &Reply::Place { extents, number })).await;
        let ended = match placed {
            Ok(Ok(())) => {
                let mut heard = std::pin::pin!(self.heard(&session, number, incoming));
                tokio::select! {
                    biased;
                    () = self.shared.landing.voided(&self.lease) => {
                        let words = "the lease was voided while its bytes came".to_owned();
                        answer(peer, out, &Outcome::Refused(words)).await;
                        match timeout(STOP_LIMIT, heard).await {
                            // What was done before it heard is over as well.
                            Ok(Ended::Arrived(_) | Ended::Over) => Ended::Over,
                            Ok(Ended::Unknown) | Err(_) => Ended::Unknown,
                        }
                    }
                    ended = &mut heard => ended,
                }
            }
            // Whoever does not hear where its bytes go puts them nowhere.
            _ => Ended::Over,
        };
        let outcome = match ended {
            Ended::Arrived(done) => Some(self.landed(run, done, came_before).await),
            Ended::Over => None,
            Ended::Unknown => {
                count(&counters.broken);
                if !session.entry.close().await {
                    count(&counters.fenced);
                    tracing::warn!(lease = %self.lease, %peer, "bytes may still land: the lease stays fenced");
                    return self.shared.landing.unfinished(&self.lease).await;
                }
                None
            }
        };
        self.shared.landing.quiet(&self.lease).await;
        if let Some(outcome) = outcome {
            if matches!(outcome, Outcome::Refused(_)) {
                count(&counters.refused);
            }
            answer(peer, out, &outcome).await;
        }
    }

    /// Waits for what is put there, longer than the sender does: one that gives up says so once the
    /// last of it has ended.
    async fn heard(&self, session: &Session, number: u64, incoming: &mut RecvStream) -> Ended {
        let heard = async {
            let done = match timeout(self.limit + STOP_LIMIT, said(incoming)).await {
                Ok(Ended::Arrived(done)) => done,
                Ok(ended) => return ended,
                Err(_) => return Ended::Unknown,
            };
            // What is announced has come: the library's word and the sender's go different ways.
            match timeout(STOP_LIMIT, session.entry.arrived(number)).await {
                Ok(()) => Ended::Arrived(done),
                Err(_) => Ended::Unknown,
            }
        };
        tokio::select! {
            ended = heard => ended,
            () = session.over.cancelled() => Ended::Unknown,
        }
    }

    /// Compares what the arena holds with what the sender says that it put.
    async fn landed(&self, mut run: Run, done: Done, came_before: u64) -> Outcome {
        let Shared { landing, arena, counters, .. } = self.shared;
        counters.came_bytes.fetch_add(self.bytes, Ordering::Relaxed);
        let mut hasher = blake3::Hasher::new();
        while run.left() > 0 {
            let bytes = run.left().min(HASHED_AT_ONCE);
            if let Err(error) = arena.hash_run(&mut run, bytes, &mut hasher) {
                return Outcome::Refused(cut(&error.to_string()));
            }
            tokio::task::yield_now().await;
        }
        let hash: [u8; 32] = hasher.finalize().into();
        if hash != done.hash {
            return Outcome::Corrupt;
        }
        match landing.delivered(&self.lease, self.bytes, hash).await {
            Ok(()) => {
                count(&counters.landed);
                let came = counters.came_bytes.load(Ordering::Relaxed) - came_before;
                Outcome::Landed { shared_bytes: came.saturating_sub(self.bytes) }
            }
            Err(words) => Outcome::Refused(cut(&words)),
        }
    }
}

/// What the sender says of its put.
async fn said(incoming: &mut RecvStream) -> Ended {
    let frame = match read_frame(incoming, Done::LIMIT).await {
        Ok(frame) => frame,
        Err(FrameError::Io(error)) => {
            let read = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
            return match read {
                Some(ReadError::Reset(CODE_CANCELLED)) => Ended::Over,
                _ => Ended::Unknown,
            };
        }
        Err(FrameError::Ended | FrameError::TooLong { .. }) => return Ended::Unknown,
    };
    codec::decode(&frame).map_or(Ended::Unknown, Ended::Arrived)
}

/// The peer may be gone; then nobody listens.
async fn answer(peer: &NodeName, out: &mut SendStream, reply: &impl Wire) {
    if matches!(timeout(TALK_LIMIT, say(peer, out, reply)).await, Ok(Ok(()))) {
        let _ = out.finish();
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
