//! What happens in a world, and what a process hears of it.

use super::schedule::Action;
use super::wiring::{CoreInput, CoreName};
use crate::mesh::Input as MeshInput;
use crate::model::{Generation, LeaseCallReply, LeaseId, LoadRecord, NodeRecord, PathId, PathsRecord};

/// What happens.
pub(super) enum Event {
    /// A process hears something, if it still lives that life.
    At { node: usize, life: u32, heard: Heard },
    /// A message on a stream is tried again.
    Resend { from: (usize, u32), to: (usize, u32), heard: Heard, tries: u32 },
    /// Somebody changes the world.
    Act(Action),
    /// The bytes of a write are all there.
    Moved { write: u64, version: u64 },
    /// A session of a host's decode engine ends, whatever its agent's process does.
    SessionEnds { node: usize, lease: LeaseId },
    /// The next request of a host's stream.
    Arrive { node: usize, life: u32 },
    /// Who can be reached by whom, with direct gossip.
    Beat,
}

/// What a process hears. While it is stopped it hears nothing, and all of it when it continues.
#[derive(Clone)]
pub(super) enum Heard {
    Tick(CoreName),
    Core(CoreInput),
    /// A timer of the host's own software.
    Own(Own),
    /// A record of another node, with direct gossip.
    Rumour {
        from: usize,
        generation: Generation,
        seq: u64,
        record: Rumour,
    },
    /// A lease call arrives at its ledger.
    LeaseCall {
        ticket: u64,
    },
    /// Its answer arrives.
    LeaseReply {
        ticket: u64,
        reply: LeaseCallReply,
    },
    ProbeArrived {
        probe: u64,
    },
    ProbeEcho {
        probe: u64,
    },
    /// A write asks to be let in.
    WriteAsked {
        write: u64,
    },
    /// All its bytes are there, and are verified.
    WriteLanded {
        write: u64,
    },
    /// Its sender ended it.
    WriteClosed {
        write: u64,
    },
    /// The receiver's last word on it.
    WriteAnswered {
        write: u64,
        landed: bool,
    },
    /// An exchange of the mesh arrives.
    MeshAsk {
        from: usize,
        theirs: u64,
        bytes: Vec<u8>,
    },
}

/// What a process does at a time that it has set itself.
#[derive(Clone)]
pub(super) enum Own {
    ProbeDue {
        path: PathId,
        epoch: u64,
    },
    BulkDue {
        path: PathId,
        epoch: u64,
    },
    ProbeDeadline {
        probe: u64,
    },
    LeaseTimeout {
        ticket: u64,
    },
    WriteDeadline {
        write: u64,
    },
    /// The receiving side stops waiting.
    WriteGivenUp {
        write: u64,
    },
    /// The receiving side has stopped writing.
    WriteQuiet {
        write: u64,
    },
    /// A request's bytes are ready to be moved.
    Start {
        lease: LeaseId,
        bytes: u64,
    },
    /// A session of the decode engine is over.
    SessionEnded {
        lease: LeaseId,
    },
    EngineReads,
    SeedAnswers,
    MeshFails(MeshInput),
}

/// A record on its way, with direct gossip.
#[derive(Clone)]
pub(super) enum Rumour {
    Node(std::sync::Arc<NodeRecord>),
    Load(LoadRecord),
    Paths(PathsRecord),
}
