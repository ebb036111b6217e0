//! The receiving side: echoes probes, lets writes land.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::wire::{MAX_MESSAGE, PART_HEAD, Reply, Request};
use crate::arena::{BadExtents, Run};
use crate::codec;
use crate::model::{Extent, LeaseId, NodeName};
use crate::net::frame::{read_frame, write_frame};
use crate::net::{Connection, Endpoint, ReadError, RecvStream, SendStream};
use crate::transport::MAX_PROBE_BYTES;
use crate::transport::stream::{CODE_ANSWERED, CODE_CANCELLED, CODE_MALFORMED};

/// How long a stream may take to say what it wants, and an answer to be taken.
const TALK_LIMIT: Duration = Duration::from_secs(10);
/// No transfer is waited for longer, whatever its sender wants.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3_600);
/// A sender gives up at its own deadline and says so; only one that cannot is given up here.
const GRACE: Duration = Duration::from_millis(500);
/// Stream pieces taken at a time.
const PIECES: usize = 16;
/// Bytes that land before they are read back and hashed; still in the cache then.
const READ_BACK_BYTES: u64 = 256 * 1024;
const HASH_BYTES: usize = 32;

/// Serves every connection of `endpoint` until it closes. Streams per connection and connections
/// per endpoint are limited by the endpoint.
pub(super) async fn serve(endpoint: Endpoint, shared: Arc<Shared>, tasks: TaskTracker) {
    while let Some(connection) = endpoint.accept().await {
        tasks.spawn(serve_connection(connection, Arc::clone(&shared), tasks.clone()));
    }
}

async fn serve_connection(connection: Connection, shared: Arc<Shared>, tasks: TaskTracker) {
    while let Ok((out, incoming)) = connection.quinn().accept_bi().await {
        let (shared, peer) = (Arc::clone(&shared), connection.peer().clone());
        tasks.spawn(async move { serve_stream(&shared, &peer, out, incoming).await });
    }
}

async fn serve_stream(shared: &Shared, peer: &NodeName, mut out: SendStream, mut incoming: RecvStream) {
    let counters = &shared.counters;
    let request = match timeout(TALK_LIMIT, request(&mut incoming)).await {
        Ok(Ok(request)) => request,
        Ok(Err(detail)) => {
            count(&counters.malformed);
            tracing::debug!(%peer, %detail, "no request on a rail stream");
            abort(&mut out, &mut incoming, CODE_MALFORMED);
            return;
        }
        Err(_) => return count(&counters.broken),
    };
    let reply = match request {
        Request::Probe { payload_bytes, .. } if payload_bytes > MAX_PROBE_BYTES => {
            Some(Reply::refused(&format!("a probe of {payload_bytes} bytes, at most {MAX_PROBE_BYTES}")))
        }
        Request::Probe { payload_bytes, deadline_ms } => {
            match timeout(limit(deadline_ms), echo(&mut out, &mut incoming, payload_bytes)).await {
                Ok(Ok(())) => {
                    count(&counters.probes);
                    // Fails only if the prober is gone.
                    let _ = out.finish();
                    return;
                }
                Ok(Err(())) | Err(_) => None,
            }
        }
        Request::Write { lease, bytes, deadline_ms } => {
            let coming = Coming { incoming: &mut incoming, parts: None };
            write(shared, peer, coming, &lease, bytes, limit(deadline_ms)).await
        }
        // How long its source takes nobody knows; the lease's end is its end.
        Request::Parts { lease, bytes } => {
            let coming = Coming { incoming: &mut incoming, parts: Some(&mut out) };
            write(shared, peer, coming, &lease, bytes, LONGEST_DEADLINE).await
        }
    };
    match reply {
        Some(reply) => {
            if matches!(reply, Reply::Refused(_)) {
                count(&counters.refused);
            }
            // The sender may be gone, or may have ended the stream itself; then nobody listens.
            let _ = timeout(TALK_LIMIT, answer(&mut out, &reply)).await;
            let _ = incoming.stop(CODE_ANSWERED);
        }
        None => {
            count(&counters.broken);
            abort(&mut out, &mut incoming, CODE_CANCELLED);
        }
    }
}

/// What a write comes to: the answer, or `None` if the stream broke.
async fn write(
    shared: &Shared,
    sender: &NodeName,
    coming: Coming<'_>,
    lease: &LeaseId,
    bytes: u64,
    limit: Duration,
) -> Option<Reply> {
    let Shared { landing, counters, .. } = shared;
    let extents = match landing.open(lease, sender, bytes).await {
        Ok(extents) => extents,
        Err(words) => return Some(Reply::refused(&words)),
    };
    let came_before = counters.came_bytes.load(Ordering::Relaxed);
    // From here on every way leads to `quiet`.
    let landed = tokio::select! {
        biased;
        () = landing.voided(lease) => {
            landing.quiet(lease).await;
            return Some(Reply::refused("the lease was voided while its bytes came"));
        }
        landed = timeout(limit, land(shared, coming, &extents, bytes)) => landed,
    };
    let reply = match landed {
        Ok(Ok(hashes)) if hashes.sent == hashes.found => match landing.delivered(lease, bytes, hashes.found).await {
            Ok(()) => {
                count(&counters.landed);
                counters.landed_bytes.fetch_add(bytes, Ordering::Relaxed);
                let came = counters.came_bytes.load(Ordering::Relaxed) - came_before;
                Some(Reply::Landed { shared_bytes: came.saturating_sub(bytes) })
            }
            Err(words) => Some(Reply::refused(&words)),
        },
        Ok(Ok(_)) => Some(Reply::Corrupt),
        Ok(Err(LandError::Extents(error))) => Some(Reply::refused(&format!("the lease's extents: {error}"))),
        Ok(Err(LandError::Framing)) => Some(Reply::refused("the stream holds other than the announced bytes")),
        Ok(Err(LandError::Broken(error))) => {
            tracing::debug!(%sender, %lease, %error, "a write broke off");
            None
        }
        Err(_) => None,
    };
    landing.quiet(lease).await;
    reply
}

struct Hashes {
    sent: [u8; HASH_BYTES],
    found: [u8; HASH_BYTES],
}

enum LandError {
    Extents(BadExtents),
    Framing,
    Broken(ReadError),
}

impl From<crate::arena::OutOfArena> for LandError {
    fn from(error: crate::arena::OutOfArena) -> Self {
        Self::Extents(error.into())
    }
}

/// A write's bytes on their way in.
struct Coming<'a> {
    incoming: &'a mut RecvStream,
    /// Where each part is confirmed, if they come in parts.
    parts: Option<&'a mut SendStream>,
}

/// Writes what comes into the arena, straight from the connection's buffers, and hashes what the
/// arena then holds.
async fn land(shared: &Shared, coming: Coming<'_>, extents: &[Extent], bytes: u64) -> Result<Hashes, LandError> {
    let Shared { arena, counters, .. } = shared;
    let Coming { incoming, mut parts } = coming;
    let mut landing = Run::disjoint(extents, bytes, arena.size()).map_err(LandError::Extents)?;
    let mut read_back = landing.clone();
    let mut hasher = blake3::Hasher::new();
    let mut part = Part::new(parts.is_none().then_some(bytes));
    let mut trailer = Vec::with_capacity(HASH_BYTES);
    let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = incoming.read_chunks(&mut pieces).await.map_err(LandError::Broken)? {
        for mut piece in pieces.iter_mut().take(count).map(std::mem::take) {
            while landing.left() > 0 && !piece.is_empty() {
                let of_part = part.take(&mut piece, landing.left())?;
                let landed = arena.scatter(&mut landing, &of_part)?;
                counters.came_bytes.fetch_add(landed as u64, Ordering::Relaxed);
                if let Some(out) = parts.as_deref_mut().filter(|_| part.is_over()) {
                    // Fails only if the sender is gone, or has heard enough.
                    let _ = answer_frame(out, &Reply::Came).await;
                }
            }
            if trailer.len() + piece.len() > HASH_BYTES {
                return Err(LandError::Framing);
            }
            trailer.extend_from_slice(&piece);
        }
        let unhashed = read_back.left() - landing.left();
        if unhashed >= READ_BACK_BYTES {
            arena.hash_run(&mut read_back, unhashed, &mut hasher)?;
            tokio::task::yield_now().await;
        }
    }
    // What never came need not be hashed.
    if landing.left() > 0 {
        return Err(LandError::Framing);
    }
    let unhashed = read_back.left();
    arena.hash_run(&mut read_back, unhashed, &mut hasher)?;
    let sent = trailer.try_into().map_err(|_| LandError::Framing)?;
    Ok(Hashes { sent, found: hasher.finalize().into() })
}

/// How far a part has come; a write that is in one piece is one part without a head.
struct Part {
    head: Vec<u8>,
    left: u64,
}

impl Part {
    fn new(left: Option<u64>) -> Self {
        Self { head: Vec::with_capacity(PART_HEAD), left: left.unwrap_or_default() }
    }

    /// Takes what `piece` has of this part, of which no more than `most` bytes may come. Nothing, if that
    /// was its head.
    fn take(&mut self, piece: &mut Bytes, most: u64) -> Result<Bytes, LandError> {
        if self.left == 0 {
            self.head.extend_from_slice(&piece.split_to(piece.len().min(PART_HEAD - self.head.len())));
            if let Ok(head) = <[u8; PART_HEAD]>::try_from(self.head.as_slice()) {
                self.head.clear();
                self.left = u64::from_le_bytes(head);
                if !(1..=most).contains(&self.left) {
                    return Err(LandError::Framing);
                }
            }
            return Ok(Bytes::new());
        }
        let taken = piece.split_to(piece.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)));
        self.left -= taken.len() as u64;
        Ok(taken)
    }

    /// Whether all of it has come, and nothing yet of the next.
    fn is_over(&self) -> bool {
        self.left == 0 && self.head.is_empty()
    }
}

async fn echo(out: &mut SendStream, incoming: &mut RecvStream, payload_bytes: u32) -> Result<(), ()> {
    answer_frame(out, &Reply::Echo).await?;
    let mut left = payload_bytes as usize;
    while left > 0 {
        let chunk = incoming.read_chunk(left, true).await.map_err(drop)?.ok_or(())?;
        left -= chunk.bytes.len();
        out.write_chunk(chunk.bytes).await.map_err(drop)?;
    }
    Ok(())
}

async fn request(incoming: &mut RecvStream) -> Result<Request, String> {
    let frame = read_frame(incoming, MAX_MESSAGE).await.map_err(|error| error.to_string())?;
    codec::decode(&frame).map_err(|error| error.to_string())
}

async fn answer(out: &mut SendStream, reply: &Reply) -> Result<(), ()> {
    answer_frame(out, reply).await?;
    out.finish().map_err(drop)
}

async fn answer_frame(out: &mut SendStream, reply: &Reply) -> Result<(), ()> {
    let message = codec::encode(reply).map_err(drop)?;
    write_frame(out, &message).await.map_err(drop)
}

/// Ends both directions; a stream that the peer has ended already stays as it is.
fn abort(out: &mut SendStream, incoming: &mut RecvStream, code: crate::net::VarInt) {
    let _ = out.reset(code);
    let _ = incoming.stop(code);
}

fn limit(deadline_ms: u64) -> Duration {
    Duration::from_millis(deadline_ms).min(LONGEST_DEADLINE) + GRACE
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
