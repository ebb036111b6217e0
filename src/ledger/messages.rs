//! What goes into the ledger and what comes out of it.

use serde::{Deserialize, Serialize};

use super::{EngineWord, Settings};
use crate::model::{Extent, Generation, LeaseCall, LeaseCallReply, LeaseId, LoadRecord, NodeName, RequestId, coded};

/// What the shell tells the ledger. `key` names a question, so that its answer finds the asker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// Another agent calls; the network layer has checked that it is `from`.
    Call {
        /// The question's key.
        key: u64,
        /// Who calls.
        from: NodeName,
        /// What it wants.
        call: LeaseCall,
    },
    /// A backend wants to write `bytes` of `sender` into a lease.
    Open {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
        /// Whose bytes.
        sender: NodeName,
        /// How many.
        bytes: u64,
    },
    /// All bytes landed and were verified.
    Delivered {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
        /// How many bytes.
        bytes: u64,
        /// Their BLAKE3.
        hash: [u8; 32],
    },
    /// The stream that wrote into a lease is closed: no later write of it can land.
    Quiet {
        /// The lease.
        lease: LeaseId,
    },
    /// This host's own engine or operator ends a lease.
    EngineRelease {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// This host's own engine reports.
    Engine {
        /// The question's key.
        key: u64,
        /// What it says.
        word: EngineWord,
    },
    /// Take new work, or none.
    Drain(bool),
    /// The configuration has changed. Only the sessions, the soft share, the KV bytes and the
    /// longest fence are taken.
    Configure(Box<Settings>),
    /// An earlier life of this host ended without handing back what it had granted. Comes first,
    /// if at all.
    Recover(LongestLease),
    /// A holder is down or lives again: what it held in lives up to `generation` is void.
    HolderDown {
        /// The holder.
        node: NodeName,
        /// Its last life.
        generation: Generation,
    },
    /// Time has passed.
    Tick,
}

/// What the ledger answers and reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// To [`Input::Call`], [`Input::EngineRelease`] and [`Input::Engine`].
    Reply {
        /// The question's key.
        key: u64,
        /// The answer.
        reply: LeaseCallReply,
    },
    /// To [`Input::Open`]: where the bytes may go.
    Opened {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
        /// The extents, or why not.
        result: Result<Vec<Extent>, OpenRefusal>,
    },
    /// To [`Input::Delivered`].
    Accepted {
        /// The question's key.
        key: u64,
        /// What arrived, or why it no longer counts.
        result: Result<Arrived, OpenRefusal>,
    },
    /// A lease changed its stage.
    Staged {
        /// The lease.
        lease: LeaseId,
        /// Before; none for a new lease.
        from: Option<Stage>,
        /// After; none for a freed one.
        to: Option<Stage>,
    },
    /// A lease that may last longer than any before is about to be told, or those that are held now
    /// may: to be noted, before anything that follows, for the life after this one.
    Longest(LongestLease),
    /// The headroom changed enough to be told to the mesh.
    Load(LoadRecord),
}

/// How long the leases of one life last at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongestLease {
    /// Their time to live, or more, in milliseconds.
    pub ttl_ms: u64,
    /// How long they are fenced after it, in milliseconds; 0 if that is not known.
    pub fence_max_ms: u64,
}

/// A delivered transfer, as the decode engine is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// The request.
    pub request_id: RequestId,
    /// Who sent it.
    pub source: NodeName,
    /// Where it lies, in order.
    pub extents: Vec<Extent>,
}

coded!(
    /// Where a lease stands.
    Stage {
        /// Bytes may come.
        Granted = "granted",
        /// Bytes have come; the engine holds the session.
        Delivered = "delivered",
        /// Void, but a late write could still land.
        Fenced = "fenced",
    }
);

/// Why nothing may be written into a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OpenRefusal {
    /// Never granted, or long freed.
    #[error("lease {0} is not known here: never granted, released or expired")]
    Unknown(LeaseId),
    /// Held by another.
    #[error("lease {0} is held by another node")]
    NotHolder(LeaseId),
    /// Not waiting for bytes.
    #[error("lease {lease} is {stage}: bytes may come only while it is granted")]
    Stage {
        /// The lease.
        lease: LeaseId,
        /// Where it stands.
        stage: Stage,
    },
    /// Another stream writes into it.
    #[error("lease {0} is being written already")]
    Busy(LeaseId),
    /// More, or other, bytes than it was granted for.
    #[error("lease {lease} holds {granted} bytes: found {found}, allowed 1 to {granted}")]
    Size {
        /// The lease.
        lease: LeaseId,
        /// How many bytes it was granted for.
        granted: u64,
        /// How many came.
        found: u64,
    },
}
