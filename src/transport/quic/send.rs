//! The sending side: probes and writes.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::wire::{Reply, Request};
use crate::arena::{Arena, Run};
use crate::model::NodeName;
use crate::net::{RecvStream, SendStream};
use crate::transport::blocks::{Deadline, Part, Reader};
use crate::transport::dial::{Dialer, Purpose, millis};
use crate::transport::stream::{gone, hear, open, read_error, say, write_error};
use crate::transport::{PathError, Peer, Write, Written, check_probe};

/// Probes above this many bytes go with the bulk: they would delay the small ones.
const SMALL_PROBE_BYTES: u32 = 64 * 1024;
/// Bytes that are read, hashed and handed to the connection at a time.
const CHUNK: usize = 256 * 1024;
/// What probes carry: a period that no power of two divides, so that no misplaced piece fits.
const PATTERN_PERIOD: usize = 251;
static PATTERN: LazyLock<Bytes> =
    LazyLock::new(|| (0..=u8::MAX).take(PATTERN_PERIOD).cycle().take(CHUNK + PATTERN_PERIOD).collect());

pub(super) async fn probe(
    dialer: &Dialer,
    peer: &Peer,
    payload_bytes: u32,
    deadline: Duration,
) -> Result<Duration, PathError> {
    check_probe(payload_bytes)?;
    let deadline = Deadline::from(deadline);
    let purpose = if payload_bytes > SMALL_PROBE_BYTES { Purpose::Bulk } else { Purpose::Small };
    let request = Request::Probe { payload_bytes, deadline_ms: millis(deadline.limit) };
    let probe = async |connection| {
        let started = Instant::now();
        let (mut out, mut back) = open(&peer.node, &connection).await?;
        let send = async {
            say(&peer.node, &mut out, &request).await?;
            let mut sent = 0;
            while sent < payload_bytes as usize {
                let start = sent % PATTERN_PERIOD;
                let piece = PATTERN.slice(start..start + CHUNK.min(payload_bytes as usize - sent));
                sent += piece.len();
                out.write_chunk(piece).await.map_err(|error| write_error(&peer.node, error))?;
            }
            out.done();
            Ok(())
        };
        let receive = async {
            match hear(&peer.node, &mut back).await? {
                Reply::Echo => echo(&peer.node, &mut back, payload_bytes as usize).await,
                Reply::Refused(detail) => Err(PathError::Refused { peer: peer.node.clone(), detail }),
                other @ (Reply::Landed { .. } | Reply::Corrupt | Reply::Came) => {
                    Err(gone(&peer.node, format!("answered {other:?}")))
                }
            }
        };
        both(send, receive).await?;
        out.answered = true;
        Ok(started.elapsed())
    };
    dialer.run(peer, purpose, &deadline, probe).await
}

pub(super) async fn write(dialer: &Dialer, arena: &Arena, peer: &Peer, write: Write) -> Result<Written, PathError> {
    let Write { lease, blocks, deadline } = write;
    let (bytes, at_once) = (blocks.bytes(), blocks.at_once());
    if bytes == 0 {
        return Err(PathError::Local("a write of no bytes".to_owned()));
    }
    let deadline = Deadline::of_write(deadline, &blocks);
    let mut source = blocks.read();
    // What is there is checked before anything is said; what comes later, when it comes.
    let first = match source.is_ready() {
        true => Some(source.next(arena).await?),
        false => None,
    };
    let request = match at_once {
        true => Request::Write { lease, bytes, deadline_ms: millis(deadline.limit) },
        false => Request::Parts { lease, bytes },
    };
    let transfer = async |connection| {
        let begun = deadline.spent();
        let (mut out, mut back) = open(&peer.node, &connection).await?;
        let (came, parts) = watch::channel(0);
        let send = async {
            say(&peer.node, &mut out, &request).await?;
            let stream = Stream { peer: &peer.node, arena, out: &mut out, hasher: blake3::Hasher::new(), at_once };
            let hash = stream.all(first, source, parts).await?;
            out.write_all(&hash).await.map_err(|error| write_error(&peer.node, error))?;
            out.done();
            Ok(hash)
        };
        let receive = async {
            loop {
                match hear(&peer.node, &mut back).await? {
                    Reply::Landed { shared_bytes } => return Ok(shared_bytes),
                    Reply::Came => came.send_modify(|parts| *parts += 1),
                    Reply::Corrupt => return Err(PathError::Corrupt { peer: peer.node.clone() }),
                    Reply::Refused(detail) => return Err(PathError::Refused { peer: peer.node.clone(), detail }),
                    Reply::Echo => return Err(gone(&peer.node, "answered a write with an echo".to_owned())),
                }
            }
        };
        let (hash, shared_bytes) = both(send, receive).await?;
        out.answered = true;
        Ok(Written { bytes, hash, elapsed: deadline.spent().saturating_sub(begun), shared_bytes })
    };
    dialer.run(peer, Purpose::Bulk, &deadline, transfer).await
}

/// The bytes of a write on their way.
struct Stream<'a> {
    peer: &'a NodeName,
    arena: &'a Arena,
    out: &'a mut SendStream,
    hasher: blake3::Hasher,
    at_once: bool,
}

impl Stream<'_> {
    /// Sends everything, as it comes, and says its hash.
    async fn all(
        mut self,
        mut first: Option<Part>,
        mut source: Reader,
        mut came: watch::Receiver<u64>,
    ) -> Result<[u8; 32], PathError> {
        let mut parts = 0;
        loop {
            let Part { run, last } = match first.take() {
                Some(first) => first,
                None => {
                    // While something is under way its time counts; only then is the source waited for.
                    if !source.is_ready() {
                        let ended = |_| gone(self.peer, "ended the stream in the middle".to_owned());
                        came.wait_for(|came| *came >= parts).await.map_err(ended)?;
                    }
                    source.next(self.arena).await?
                }
            };
            // There may be none where they are the last.
            if run.left() > 0 {
                parts += 1;
                self.part(run).await?;
            }
            if last {
                return Ok(self.hasher.finalize().into());
            }
        }
    }

    async fn part(&mut self, mut run: Run) -> Result<(), PathError> {
        if !self.at_once {
            self.out.write_all(&run.left().to_le_bytes()).await.map_err(|error| write_error(self.peer, error))?;
        }
        let mut buffers = Buffers::default();
        while run.left() > 0 {
            let mut buffer = buffers.take();
            // The buffer is fresh or no longer shared.
            let filled = match Arc::get_mut(&mut buffer) {
                Some(writable) => {
                    self.arena.gather(&mut run, writable).map_err(|error| PathError::Local(error.to_string()))?
                }
                None => return Err(PathError::Local("a send buffer is still in use".to_owned())),
            };
            let piece = Bytes::from_owner(Arc::clone(&buffer)).slice(..filled);
            buffers.lent.push_back(buffer);
            self.hasher.update(&piece);
            self.out.write_chunk(piece).await.map_err(|error| write_error(self.peer, error))?;
            // Hashing takes its time: others of this thread want theirs.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// Send buffers, taken again once the connection has let go of them. Their number follows from
/// the connection's send window.
#[derive(Default)]
struct Buffers {
    lent: VecDeque<Arc<[u8]>>,
}

impl Buffers {
    fn take(&mut self) -> Arc<[u8]> {
        let free = self.lent.front().is_some_and(|oldest| Arc::strong_count(oldest) == 1);
        free.then(|| self.lent.pop_front()).flatten().unwrap_or_else(|| vec![0; CHUNK].into())
    }
}

/// Runs both halves of an exchange. The answer decides: it may come before all is sent, and a
/// peer that wants no more is asked for its reason.
async fn both<S, R>(
    send: impl Future<Output = Result<S, PathError>>,
    receive: impl Future<Output = Result<R, PathError>>,
) -> Result<(S, R), PathError> {
    let (mut send, mut receive) = (std::pin::pin!(send), std::pin::pin!(receive));
    tokio::select! {
        sent = &mut send => match sent {
            Ok(sent) => Ok((sent, receive.await?)),
            // The peer knows nothing of it yet.
            Err(error @ PathError::Local(_)) => Err(error),
            Err(error) => match receive.await {
                Err(refused @ PathError::Refused { .. }) => Err(refused),
                _ => Err(error),
            },
        },
        received = &mut receive => {
            let received = received?;
            Ok((send.await?, received))
        }
    }
}

/// Reads the echo of a probe and compares it.
async fn echo(peer: &NodeName, back: &mut RecvStream, expected: usize) -> Result<(), PathError> {
    let corrupt = || PathError::Corrupt { peer: peer.clone() };
    let mut seen = 0;
    while let Some(chunk) = back.read_chunk(CHUNK, true).await.map_err(|error| read_error(peer, error))? {
        let start = seen % PATTERN_PERIOD;
        if PATTERN.get(start..start + chunk.bytes.len()) != Some(&chunk.bytes[..]) {
            return Err(corrupt());
        }
        seen += chunk.bytes.len();
    }
    if seen == expected { Ok(()) } else { Err(corrupt()) }
}
