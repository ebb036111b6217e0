//! The messages of the mesh, as they go over the wire.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::codec::{self, Blob, CodecError, Wire};
use crate::model::{Generation, NodeName};

/// A rumour has at most this many bytes, so that it fits a packet behind the longest header.
pub const MAX_RUMOUR: usize = 800;
/// Any record has at most this many bytes.
pub const MAX_RECORD: usize = 16 * 1024;
/// An exchange's message has at most this many bytes; what does not fit waits for the next one.
pub const MAX_SYNC: usize = 1024 * 1024;

/// Which of its origin's records a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKind {
    /// Who the node is.
    Node,
    /// How loaded it is.
    Load,
    /// One chunk of its paths that are not healthy.
    Paths(u16),
}

impl RecordKind {
    /// The name in metrics and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Load => "load",
            Self::Paths(_) => "paths",
        }
    }
}

/// A record with what versions it and proves its origin. Only the origin can make one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Who wrote it.
    pub origin: NodeName,
    /// Which of its records it is.
    pub kind: RecordKind,
    /// In which life.
    pub generation: Generation,
    /// Counts the versions of this record in that life, from 1.
    pub seq: u64,
    /// How long it holds from when it was written, in milliseconds.
    pub ttl_ms: u32,
    /// What it says: a record of the model, encoded.
    pub body: Blob,
    /// The origin's Ed25519 signature over all of the above.
    pub signature: Blob,
}

impl Wire for Envelope {
    const NAME: &'static str = "record";
    const LIMIT: usize = MAX_RECORD;
}

/// What a record's signature covers.
#[derive(Serialize, Deserialize)]
struct Claim {
    domain: String,
    cluster: String,
    origin: NodeName,
    kind: RecordKind,
    generation: Generation,
    seq: u64,
    ttl_ms: u32,
    body: Blob,
}

impl Wire for Claim {
    const NAME: &'static str = "record";
    const LIMIT: usize = MAX_RECORD;
}

impl Envelope {
    /// The bytes that the origin signs.
    ///
    /// # Errors
    /// The record is too large.
    pub fn signed_bytes(&self, cluster: &str) -> Result<Vec<u8>, CodecError> {
        codec::encode(&Claim {
            domain: "seam.record/1".to_owned(),
            cluster: cluster.to_owned(),
            origin: self.origin.clone(),
            kind: self.kind,
            generation: self.generation,
            seq: self.seq,
            ttl_ms: self.ttl_ms,
            body: self.body.clone(),
        })
    }
}

/// What is known of some of one origin's records: enough to say which are newer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginDigest {
    /// Whose.
    pub origin: NodeName,
    /// Of which life.
    pub generation: Generation,
    /// The newest version known of each.
    pub seqs: Vec<(RecordKind, u64)>,
}

/// A record on its way between two that keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aged {
    /// How long ago it was written, as far as the sender knows, in milliseconds.
    pub age_ms: u32,
    /// The record.
    pub envelope: Envelope,
}

/// What opens a round of an exchange. A round costs next to nothing where both know the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncAsk {
    /// The first round: all the asker knows, in two numbers.
    Roots {
        /// Of its members that are not down.
        members: u64,
        /// Of its records.
        records: u64,
    },
    /// The second: what is in the buckets that differ.
    Entries {
        /// Which buckets of members, a bit each.
        member_buckets: u64,
        /// The members in them, the asker itself included.
        members: Vec<foca::Member<Member>>,
        /// Which buckets of records, a bit each.
        record_buckets: u64,
        /// The versions of the records in them.
        digest: Vec<OriginDigest>,
    },
}

/// The answer to a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncReply {
    /// To the first: the asked knows the same.
    Same,
    /// To the first: something differs. A list is empty where nothing of its sort does.
    Buckets {
        /// A number for each bucket of members.
        members: Vec<u64>,
        /// A number for each bucket of records.
        records: Vec<u64>,
    },
    /// To the second: what the asker lacks, and what the asked lacks.
    Delta {
        /// The members in the buckets that the asker named.
        members: Vec<foca::Member<Member>>,
        /// Records that the asker lacks.
        records: Vec<Aged>,
        /// Records that the asked lacks.
        want: Vec<(NodeName, RecordKind)>,
    },
}

/// The end of an exchange: the records that were wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPush {
    /// The records.
    pub records: Vec<Aged>,
}

impl Wire for SyncAsk {
    const NAME: &'static str = "sync question";
    const LIMIT: usize = MAX_SYNC;
}

impl Wire for SyncReply {
    const NAME: &'static str = "sync answer";
    const LIMIT: usize = MAX_SYNC;
}

impl Wire for SyncPush {
    const NAME: &'static str = "sync records";
    const LIMIT: usize = MAX_SYNC;
}

#[cfg(test)]
mod tests;
