//! Rails whose bytes are moved by a library that writes into a peer's memory by itself: what such a
//! library must offer, and the rail that every one of them makes with it.
//!
//! ```text
//! sender                      QUIC                     receiver
//! link: greet ──────────── session: hello ───────────▶ welcome: entry
//!       connect ◀───────── what it must know ─────────
//! write ──────────────────── offer a write ──────────▶ the ledger opens the lease
//!       ◀───────────── extents, and an arrival's number
//! put ═══════════════════ the library ═══════════════▶ arena
//!       ─────────────────── hash of what was put ────▶ has it arrived? hash what the arena holds
//!       ◀─────────────────────────────────── landed
//! ```
//!
//! Everything but the bytes goes over the rail's own QUIC endpoint, which also says who the peer
//! is: no such library does. A session lives as long as its stream. Libraries do not fence: what a
//! dead peer has put may land after its session has ended, unless the library's entry can be closed
//! against it. Where it cannot, a lease whose sender has not said that its put is over is reported
//! unfinished, and kept fenced until it is safe.

#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
mod arrivals;
mod rail;
mod receive;
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
pub(crate) mod scratch;
mod send;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::BoxFuture;
use crate::model::NodeName;
#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
pub(super) use arrivals::Arrivals;
pub use rail::FabricRail;

/// The longest greeting or welcome, in bytes.
pub const MAX_GREETING: usize = 64 * 1024;

/// What a library registers beside the arena: memory for probes, one half of it to read from, the other for
/// peers to write to.
pub(crate) const SCRATCH_BYTES: u64 = 2 * 1024 * 1024;

/// Why a library could not do what it was asked, by what that says about the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The far end is gone, or the network between.
    #[error("{0}")]
    PeerGone(String),
    /// It did not end in time.
    #[error("no end in time")]
    TimedOut,
    /// The far end's memory may not be written like that: a wrong key, or outside of what it gave.
    #[error("{0}")]
    Protection(String),
    /// The two libraries do not understand each other.
    #[error("{0}")]
    Skew(String),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// This host is at fault.
    #[error("{0}")]
    Local(String),
}

/// Bytes of this host's arena and where they go in the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they are.
    pub local: u64,
    /// Where they go.
    pub remote: u64,
    /// How many; at least 1.
    pub bytes: u64,
}

/// What a put came to.
#[derive(Debug)]
pub struct Put {
    /// Whether the bytes are in the peer's memory.
    pub result: Result<(), FabricError>,
    /// Nothing of it will be written from here on. Always so after success.
    pub over: bool,
}

#[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
impl Put {
    /// The refusal of pieces that are not all within a peer's arena of so many bytes; none if they are.
    pub(crate) fn outside(pieces: &[Piece], arena_bytes: u64) -> Option<Self> {
        let is_outside = |piece: &&Piece| piece.remote.checked_add(piece.bytes).is_none_or(|end| end > arena_bytes);
        let piece = pieces.iter().find(is_outside)?;
        let detail = format!("{} bytes at {} are outside the peer's arena", piece.bytes, piece.remote);
        Some(Self { result: Err(FabricError::Protection(detail)), over: true })
    }
}

/// A library, with this host's arena registered in it.
pub trait Fabric: Send + Sync + 'static {
    /// Its name and version, for people.
    fn name(&self) -> String;

    /// Begins a link to a peer.
    fn greet<'a>(&'a self, peer: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>>;

    /// A peer wants a link to this side, and this is its greeting.
    fn welcome<'a>(&'a self, peer: &'a NodeName, greeting: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>>;

    /// What its device has counted of errors since it was started: a few fixed words, each once.
    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Lets go of everything.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The beginning of a link.
pub struct Greeting {
    /// What the peer must know of this side, at most [`MAX_GREETING`] bytes.
    pub words: Vec<u8>,
    /// The link to be.
    pub opening: Box<dyn Opening>,
}

/// The answer to a greeting.
pub struct Welcome {
    /// What the peer must know of this side, at most [`MAX_GREETING`] bytes.
    pub words: Vec<u8>,
    /// What receives its puts.
    pub entry: Arc<dyn Entry>,
}

/// A link that waits for the peer's welcome.
pub trait Opening: Send {
    /// Makes the link.
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>>;
}

/// The sending end.
pub trait Link: Send + Sync {
    /// Puts the pieces into the peer's arena, then announces the arrival of `number` there, if there is
    /// one: of everything that was put before, too. Pieces are within both arenas, as far as the peer
    /// was believed; there may be none where there is a number. Ends soon after `cancel` or the deadline.
    fn put<'a>(
        &'a self,
        pieces: Vec<Piece>,
        number: Option<u64>,
        deadline: Duration,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Put>;

    /// Puts so many bytes into memory that the peer keeps for it, and waits until they are there.
    fn probe(&self, payload_bytes: u32, deadline: Duration) -> BoxFuture<'_, Result<(), FabricError>>;

    /// What may be the matter where nothing ever ends.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Whether it has failed for good, so that another must be made.
    fn is_over(&self) -> bool {
        false
    }
}

/// The receiving end of one peer's link.
pub trait Entry: Send + Sync {
    /// Resolves once everything that was put before the announcement of `number` is in the arena.
    fn arrived(&self, number: u64) -> BoxFuture<'_, ()>;

    /// Closes it. True if nothing that the peer has put can land after that.
    fn close(&self) -> BoxFuture<'_, bool>;
}
