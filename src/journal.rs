//! The journal: what each core of one life of one node was told, and what came of it, in files.
//!
//! ```text
//! segment   = magic, format │ frame │ frame │ …          frame.rs: lengths and checksums
//! frames    = Header, then Entries                       this file: what they say
//! entry     = Snapshot of a core │ Turn of a core │ Gap │ Panicked │ Closed
//! folder    = segments of lives, each with a number      files.rs
//! ```
//!
//! Each core has a tape of its own in it: a snapshot, then every turn in order. A snapshot of every
//! core stands in every segment before whatever that core did since the segment was opened, and after
//! every gap, so that a reader may begin at any segment. Between two segments of one life a tape goes
//! on; turns that waited when a segment was opened may come before its snapshots.
//!
//! A turn holds its input whole and its outputs in two forms: what matters to people ([`Said`]) as
//! it was, and all of them, byte for byte, as a digest. Whoever plays the tape again can therefore
//! tell whether any output differs, and which decision, without the journal holding everything
//! twice. `docs/journal.md` describes the bytes.

mod entry;
mod error;
mod files;
mod frame;
mod read;
mod said;
#[cfg(test)]
mod tests;
mod write;

use serde::{Deserialize, Serialize};

pub use error::{Damage, JournalError};
pub use files::{Segment, list, named, segment_name};
pub use frame::{FORMAT, MAX_ENTRY};
pub use read::Reader;
pub use said::{Said, Taped, digest};
pub use write::Writer;

use crate::core::Now;
use crate::ledger::Ledger;
use crate::model::{Generation, NodeName, coded};
use crate::policy::Policy;
use crate::{health, ledger, mesh, policy};

coded!(
    /// Which core.
    Part {
        /// Path health.
        Health = "health",
        /// The policy.
        Policy = "policy",
        /// The ledger of a decode host.
        Ledger = "ledger",
        /// The mesh.
        Mesh = "mesh",
    }
);

/// What a segment says of itself, before all else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Whose journal.
    pub node: NodeName,
    /// Of which life.
    pub generation: Generation,
    /// The number of this segment in that life, from 0.
    pub segment: u64,
    /// The program that wrote it: its version.
    pub build: String,
    /// The fingerprint of the configuration when the segment was opened.
    pub config_hash: String,
    /// When it was opened.
    pub opened: Now,
}

/// One entry of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry {
    /// The state of a core, from which its tape goes on.
    Snapshot(Snapshot),
    /// One turn of a core.
    Turn(Turn),
    /// Turns of a core are missing here.
    Gap(Gap),
    /// A core panicked in this turn, and the process ended.
    Panicked(Input, Now),
    /// The life ended in order; nothing follows.
    Closed(Now),
}

/// The state of one core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Snapshot {
    /// Of the health core.
    Health(Box<health::Snapshot>),
    /// Of the policy.
    Policy(Box<Policy>),
    /// Of the ledger.
    Ledger(Box<Ledger>),
    /// Of a mesh core that has yet to start: one that has run cannot be written down.
    Mesh(Box<mesh::Snapshot>),
    /// A mesh core ran when its snapshot was due: its tape cannot be played from here, only from the
    /// start of its life on.
    MeshRunning,
}

/// What a core was told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The health core.
    Health(health::Input),
    /// The policy.
    Policy(policy::Input),
    /// The ledger.
    Ledger(ledger::Input),
    /// The mesh core.
    Mesh(mesh::Input),
}

/// One turn of a core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// When, on the clock that all cores of a life share.
    pub now: Now,
    /// What it was told.
    pub input: Input,
    /// Those of its outputs that matter, in order.
    pub said: Vec<Said>,
    /// All of its outputs ([`digest`]).
    pub digest: u64,
}

/// Turns that were not written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Of which core.
    pub part: Part,
    /// How many.
    pub lost: u64,
    /// When the first of them was.
    pub since: Now,
    /// When the journal went on.
    pub until: Now,
}

impl Snapshot {
    /// Which core's.
    #[must_use]
    pub fn part(&self) -> Part {
        match self {
            Self::Health(_) => Part::Health,
            Self::Policy(_) => Part::Policy,
            Self::Ledger(_) => Part::Ledger,
            Self::Mesh(_) | Self::MeshRunning => Part::Mesh,
        }
    }
}

impl Input {
    /// Which core's.
    #[must_use]
    pub fn part(&self) -> Part {
        match self {
            Self::Health(_) => Part::Health,
            Self::Policy(_) => Part::Policy,
            Self::Ledger(_) => Part::Ledger,
            Self::Mesh(_) => Part::Mesh,
        }
    }
}
