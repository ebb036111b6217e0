//! The port that every backend implements, one file a backend.
//!
//! A backend measures and moves; it decides nothing. It has its own deadline on everything, says
//! of every error what it tells about the path, and writes only into extents that the receiving
//! side's [`Landing`] has confirmed for that lease. Over QUIC the receiving side sees to that; a library
//! that writes into its memory by itself trusts every member with it.

#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
mod bell;
mod blocks;
mod dial;
pub mod fabric;
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
mod loader;
pub mod mock;
pub mod nixl;
pub mod quic;
mod slots;
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
mod starting;
mod stream;
pub mod ucx;
pub mod verbs;
#[cfg(any(feature = "nixl", feature = "ucx"))]
mod worker;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Extent, LeaseId, NodeName};
use crate::net::{Endpoint, EndpointOptions, NetError, NodeIdentity, Traffic};
pub use blocks::{Blocks, Feed};

/// The largest probe, in bytes.
pub const MAX_PROBE_BYTES: u32 = 16 * 1024 * 1024;

fn check_probe(payload_bytes: u32) -> Result<(), PathError> {
    match payload_bytes {
        0..=MAX_PROBE_BYTES => Ok(()),
        _ => Err(PathError::Local(format!("a probe of {payload_bytes} bytes, at most {MAX_PROBE_BYTES}"))),
    }
}

/// A rail's endpoint.
///
/// # Errors
/// Peers are told the address, so it must be a definite one.
fn listen(
    bind: SocketAddr,
    identity: &NodeIdentity,
    traffic: Traffic,
    options: EndpointOptions,
) -> Result<Endpoint, NetError> {
    if bind.ip().is_unspecified() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "a rail needs the address of its own network port");
        return Err(NetError::Bind { addr: bind, source });
    }
    Endpoint::bind_with(bind, identity, traffic, options)
}

/// A boxed future, so that backends can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The far end of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Who must answer there; checked against its certificate.
    pub node: NodeName,
    /// Where, in the backend's own words.
    pub address: String,
}

/// What went wrong on a path, by what it says about the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing came back in time. Counts as lost.
    #[error("no answer from {peer} within {limit_ms} ms{}", doubt.as_ref().map(|doubt| format!("; {doubt}")).unwrap_or_default())]
    TimedOut {
        /// The far end.
        peer: NodeName,
        /// The deadline.
        limit_ms: u64,
        /// What may be the matter, where something is known to be unusual.
        doubt: Option<String>,
    },
    /// The far end cannot be reached, or went away. Counts as failed.
    #[error("{peer} is gone: {detail}")]
    PeerGone {
        /// The far end.
        peer: NodeName,
        /// The transport's own words.
        detail: String,
    },
    /// The far end answered, and refused: not the path's fault.
    #[error("{peer} refused: {detail}")]
    Refused {
        /// The far end.
        peer: NodeName,
        /// Its reason.
        detail: String,
    },
    /// What landed is not what was sent. Counts as failed.
    #[error("{peer} received other bytes than were sent")]
    Corrupt {
        /// The far end.
        peer: NodeName,
    },
    /// This host is at fault (memory, descriptors, arguments): never a sample.
    #[error("local fault: {0}")]
    Local(String),
}

/// One transfer: blocks of the local arena, in order, into one lease.
#[derive(Clone, Debug)]
pub struct Write {
    /// The lease to write into.
    pub lease: LeaseId,
    /// Blocks of the local arena, checked against its size.
    pub blocks: Blocks,
    /// How long it may take, not counting what it waits for its source.
    pub deadline: Duration,
}

/// What a finished transfer knows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes moved.
    pub bytes: u64,
    /// BLAKE3 of them, computed at both ends and found equal.
    pub hash: [u8; 32],
    /// From the first byte sent to the far end's confirmation, without the time in which nothing was
    /// under way because the source had not written more.
    pub elapsed: Duration,
    /// Bytes of other writes that came to the far end on the same rail meanwhile; 0 where the
    /// backend cannot say.
    pub shared_bytes: u64,
}

/// A way to move bytes between arenas.
///
/// Dropping a future of this trait cancels what it does: no byte is written after the far end has
/// noticed, and the far end reports the lease quiet.
pub trait Backend: Send + Sync + 'static {
    /// Where this side listens, in the backend's own words; goes into the node record.
    fn address(&self) -> String;

    /// Sends `payload_bytes` on the path and waits for the echo. The deadline covers setting up a
    /// connection where there is none yet; the time returned does not.
    fn probe<'a>(
        &'a self,
        peer: &'a Peer,
        payload_bytes: u32,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Duration, PathError>>;

    /// Moves bytes into a lease and waits until the far end has verified them.
    fn write<'a>(&'a self, peer: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>>;

    /// What it has turned away or given up so far, by reason: a few fixed words, each once.
    fn refusals(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What its device has counted of errors since it was started: a few fixed words, each once.
    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Stops answering and closes every connection.
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn address(&self) -> String {
        (**self).address()
    }

    fn probe<'a>(
        &'a self,
        peer: &'a Peer,
        payload_bytes: u32,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Duration, PathError>> {
        (**self).probe(peer, payload_bytes, deadline)
    }

    fn write<'a>(&'a self, peer: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>> {
        (**self).write(peer, write)
    }

    fn refusals(&self) -> Vec<(&'static str, u64)> {
        (**self).refusals()
    }

    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        (**self).device_errors()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        (**self).close()
    }
}

/// The receiving side's authority: the ledger, as a backend sees it.
pub trait Landing: Send + Sync + 'static {
    /// `sender` wants to write `bytes` into `lease`: where may they go? An `Err` says why not, in
    /// words for the sender. A lease can be opened once at a time, by its holder only.
    fn open<'a>(
        &'a self,
        lease: &'a LeaseId,
        sender: &'a NodeName,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Vec<Extent>, String>>;

    /// All bytes landed and their hash is `hash`. An `Err` says that the lease ended meanwhile:
    /// the transfer must then fail.
    fn delivered<'a>(&'a self, lease: &'a LeaseId, bytes: u64, hash: [u8; 32]) -> BoxFuture<'a, Result<(), String>>;

    /// Resolves once an open lease is void: what still writes into it must stop, and say so with
    /// [`quiet`](Self::quiet).
    fn voided<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        let _ = lease;
        Box::pin(std::future::pending())
    }

    /// Nobody knows whether bytes may still land in an open lease: its sender is gone, and its library
    /// keeps nobody out. The lease must stay closed to others until none can. Comes instead of
    /// [`quiet`](Self::quiet).
    fn unfinished<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()>;

    /// The stream that wrote into `lease` is closed; no later write of it can land. Comes once for
    /// every `open` that succeeded, after `delivered` where there is one, and before the sender
    /// hears the outcome.
    fn quiet<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()>;
}
