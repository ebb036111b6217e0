//! The mesh core: who is alive, and what each says of itself.
//!
//! ```text
//! packets ──▶ membership (foca) ──▶ up, down, rejoined ──┐
//!    └─ rumours ─┐                                       ├──▶ MeshEvent
//! exchanges ─────┴──▶ records: newer? proven? in time? ──┘
//! ```
//!
//! Membership spreads in packets of at most [`MAX_PACKET`] bytes. Records spread as rumours in the
//! same packets, except for `node` records, which are large and rare; exchanges with one other
//! member at a time repair what rumours missed, and bring in whoever joins. An exchange compares a
//! hash of everything, then, where that differs, 64 hashes, then the entries behind those that
//! differ, and only then moves records (`core/sync.rs`). Only its
//! origin can write a record: it is signed, and the key is the one in the certificate that the
//! cluster's authority gave to that name. A record holds while its origin takes part in the life
//! that wrote it, and no longer than it says, by the clock of whoever keeps it; of the time that it
//! is said to have been under way half its own time counts at most, for nothing proves that. A
//! member is gone when membership says so, not when its records expire.
//!
//! The core holds no private key: it asks for signatures ([`Output::Sign`]) and is given them
//! ([`Input::Signed`]), so a tape of its inputs replays without one.

mod core;
mod identity;
mod member;
mod membership;
mod records;
mod refusal;
mod size;
mod summary;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::core::{MeshCore, RecordView, Snapshot};
use crate::codec::Blob;
use crate::model::{Generation, LoadRecord, NodeName, NodeRecord, PathsRecord};
pub use identity::{NotEd25519, RecordSigner, node_uri};
pub use member::{Member, MemberState};
pub use records::chunk_paths;
pub use refusal::Refusal;
pub use size::{MAX_PACKET, MeshSize};
pub use wire::{
    Aged, Envelope, MAX_RECORD, MAX_RUMOUR, MAX_SYNC, OriginDigest, RecordKind, SyncAsk, SyncPush, SyncReply,
};

/// Records of at most this many nodes are kept.
pub const MAX_ORIGINS: usize = 1024;
/// At most this many members are known, those that are down included.
pub const MAX_MEMBERS: usize = 4096;
/// A node may publish at most this many chunks of paths.
pub const MAX_CHUNKS: usize = 64;
/// No life may begin later than this after the present, in milliseconds: a day. A clock that is off
/// by hours, as by a time zone, locks nobody out, neither the node that has it nor all the others
/// from their only seed. What a life claims falsely is contained all the same: time itself gives the
/// true one room to outrank it.
pub const MAX_AHEAD_MS: u64 = 24 * 3_600_000;

/// What a member of the mesh learns of another: the face of the mesh towards policy and probes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum MeshEvent {
    /// A node is alive, or said something new of itself.
    Node {
        /// Its generation.
        generation: Generation,
        /// What it says.
        record: Arc<NodeRecord>,
    },
    /// A node's headroom.
    Load {
        /// Whose.
        node: NodeName,
        /// In which life.
        generation: Generation,
        /// What it says.
        record: LoadRecord,
    },
    /// A node's view of paths that are not healthy; replaces its earlier chunk of the same number.
    /// One without paths voids that chunk.
    Paths {
        /// Whose view.
        observer: NodeName,
        /// What it says.
        record: PathsRecord,
    },
    /// A node left, is down, or lives anew: this life is over, and everything said in it void.
    Gone {
        /// Which.
        node: NodeName,
        /// Which life of it.
        generation: Generation,
    },
}

/// Who this node is and how fast its mesh beats; fixed for a life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// This node.
    pub node: NodeName,
    /// Its cluster; part of every certificate's name and of every signature.
    pub cluster: String,
    /// The certificate of the cluster's authority, DER.
    pub ca_der: Vec<u8>,
    /// Where others reach this node's mesh endpoint.
    pub addr: SocketAddr,
    /// This life; larger than any earlier one.
    pub generation: Generation,
    /// How fast the mesh beats.
    pub size: MeshSize,
    /// Seeds every random choice.
    pub seed: u64,
}

/// What the shell tells the mesh core. Names of peers are those of their certificates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A seed answered: it is there, and this is its name.
    SeedSeen {
        /// Its name.
        node: NodeName,
        /// Where it was reached.
        addr: SocketAddr,
    },
    /// A packet arrived.
    Packet {
        /// From whom.
        from: NodeName,
        /// What.
        bytes: Blob,
    },
    /// Another member opened a round of an exchange; a [`SyncAsk`].
    SyncAsked {
        /// Numbers what others open, by the shell.
        exchange: u64,
        /// Who.
        from: NodeName,
        /// What.
        bytes: Blob,
    },
    /// The answer to a round of this node; a [`SyncReply`].
    SyncReplied {
        /// Which.
        exchange: u64,
        /// From whom.
        from: NodeName,
        /// What.
        bytes: Blob,
    },
    /// The end of an exchange that another opened; a [`SyncPush`].
    SyncPushed {
        /// From whom.
        from: NodeName,
        /// What.
        bytes: Blob,
    },
    /// A round of this node came to nothing.
    SyncFailed {
        /// Which.
        exchange: u64,
    },
    /// What this node says of itself from now on.
    PublishNode(NodeRecord),
    /// Its headroom from now on.
    PublishLoad(LoadRecord),
    /// Its paths that are not healthy from now on, all of them.
    PublishPaths(Vec<PathsRecord>),
    /// The signature that was asked for.
    Signed {
        /// Of which record.
        kind: RecordKind,
        /// Of which version.
        seq: u64,
        /// The signature.
        signature: Blob,
    },
    /// This node leaves. What comes after changes nothing.
    Leave,
    /// Time has passed.
    Tick,
}

/// What the mesh core wants done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Output {
    /// Send a packet, of at most [`MAX_PACKET`] bytes.
    Packet {
        /// To whom.
        to: NodeName,
        /// Where it listens.
        addr: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// Open a round of an exchange: send the bytes, bring back the answer or say that it failed.
    SyncAsk {
        /// Its number.
        exchange: u64,
        /// With whom.
        to: NodeName,
        /// Where it listens.
        addr: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// Answer a round that another opened.
    SyncReply {
        /// Which.
        exchange: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// End an exchange of this node.
    SyncPush {
        /// Which.
        exchange: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Sign these bytes with this node's key, and bring back [`Input::Signed`].
    Sign {
        /// Which record.
        kind: RecordKind,
        /// Which version.
        seq: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// News of another node.
    Event(MeshEvent),
    /// A member appeared, or moved, or is no more.
    Member {
        /// Which.
        member: Member,
        /// [`MemberState::Alive`] or [`MemberState::Down`].
        state: MemberState,
    },
    /// This node appears anew: others had taken it for down, or held a later life of its name.
    Renewed(Member),
    /// Others say that a node of this one's name takes part elsewhere.
    Rival {
        /// Where.
        addr: SocketAddr,
    },
    /// Something was not believed.
    Refused {
        /// Why.
        reason: Refusal,
        /// Who brought it, where somebody did.
        from: Option<NodeName>,
    },
}
