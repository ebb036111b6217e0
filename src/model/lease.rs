//! Leases: what a prefill host asks of a decode host, and what it hears.

use serde::{Deserialize, Serialize};

use super::reason::coded;
use super::{Generation, LeaseId, ModelName, NodeName, RequestId};

/// Arena memory is handed out in pages of this many bytes.
pub const PAGE_BYTES: u64 = 64 * 1024;

coded!(
    /// Who moves the bytes of a lease.
    Mover {
        /// Seam, from arena to arena.
        Seam = "seam",
        /// The engine; the lease is its admission token.
        Engine = "engine",
    }
);

#[allow(clippy::derivable_impls, reason = "the macro that makes the enum derives no default")]
impl Default for Mover {
    fn default() -> Self {
        Self::Seam
    }
}

/// A range of a decode host's arena, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    /// First byte, counted from the arena's start.
    pub offset: u64,
    /// Length in bytes, above 0.
    pub bytes: u64,
}

impl Extent {
    /// The first byte after the extent, if that is a number at all.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)
    }
}

/// A prefill host's question for one session and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseAsk {
    /// Who asks; the network layer has checked that it is so.
    pub holder: NodeName,
    /// In which life.
    pub holder_generation: Generation,
    /// Numbers the asks of that life: asked again, it is answered the same.
    pub ask: u64,
    /// For which request.
    pub request_id: RequestId,
    /// How many bytes will come, at least 1.
    pub kv_bytes: u64,
    /// How long the bytes may take, in milliseconds.
    pub ttl_ms: u64,
    /// The asker's model: a host of another refuses.
    pub model: Option<ModelName>,
}

/// A decode host's grant of one session and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name: who granted it, in which life, the how-manieth.
    pub id: LeaseId,
    /// How many bytes were asked for.
    pub kv_bytes: u64,
    /// Where in the arena they go, in order; whole pages, so their sum may exceed `kv_bytes`.
    pub extents: Vec<Extent>,
    /// How long the bytes may take, counted by the decode host from the grant, in milliseconds.
    pub ttl_ms: u64,
}

/// A decode host's fresh word on its headroom; comes with every answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    /// Counts the changes of this host's headroom in this life; the larger is the newer.
    pub revision: u64,
    /// Sessions in use, the one just granted included.
    pub active_sessions: u32,
    /// Sessions that fit.
    pub max_sessions: u32,
    /// KV bytes free for leases.
    pub kv_bytes_free: u64,
    /// Bytes leased and not yet delivered.
    pub inbound_bytes: u64,
    /// The engine's time per output token in milliseconds, where known.
    pub token_time_ms: Option<f64>,
}

coded!(
    /// Why a decode host grants no lease.
    LeaseRefusal {
        /// No session free.
        Sessions = "sessions",
        /// Not enough KV bytes free.
        KvBytes = "kv_bytes",
        /// More bytes than the arena has, or none.
        Size = "size",
        /// The host is draining.
        Draining = "draining",
        /// Another model.
        Model = "model",
        /// The asker is not who it says.
        NotHolder = "not_holder",
        /// The host is no decode host.
        NotDecode = "not_decode",
        /// Too many leases, or too many asks waiting.
        Overloaded = "overloaded",
        /// The host could not be asked, or did not answer in time.
        Unreachable = "unreachable",
        /// The host was restarted and does not know yet what its earlier life granted.
        Recovering = "recovering",
    }
);

/// The answer to a [`LeaseAsk`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LeaseReply {
    /// One session and its bytes.
    Granted {
        /// The grant.
        lease: Lease,
        /// The headroom after it.
        quote: Quote,
    },
    /// Nothing.
    Refused {
        /// Why.
        refusal: LeaseRefusal,
        /// The headroom, where the host could be asked.
        quote: Option<Quote>,
    },
}

/// What one agent asks of another's ledger, over a stream of the mesh endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseCall {
    /// One session and its bytes, please.
    Ask(LeaseAsk),
    /// The holder needs it no longer, and no write of it is under way.
    Release(LeaseId),
    /// The holder needs it for `ttl_ms` more milliseconds.
    Renew {
        /// Which.
        lease: LeaseId,
        /// How much longer, counted from now.
        ttl_ms: u64,
    },
    /// The holder has given it up, and does not know whether its bytes have landed: void unless
    /// they have been delivered, for then the session is the decode engine's.
    GiveUp(LeaseId),
}

impl LeaseCall {
    /// What is asked, as logs say it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ask(_) => "ask",
            Self::Release(_) => "release",
            Self::Renew { .. } => "renew",
            Self::GiveUp(_) => "give_up",
        }
    }
}

/// The answer to a [`LeaseCall`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LeaseCallReply {
    /// To [`LeaseCall::Ask`].
    Lease(LeaseReply),
    /// To the others: whether the lease was known and still in a state to be changed.
    Changed(bool),
}
