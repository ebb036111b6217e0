//! What of a core's outputs matters to people, and the digest of all of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Input, Part, Snapshot, Turn};
use crate::codec;
use crate::core::{Core, Now};
use crate::health::{self, HealthCore};
use crate::ledger::{self, Ledger, Stage};
use crate::mesh::{self, Member, MemberState, MeshCore, MeshEvent};
use crate::model::{Generation, LeaseId, NodeName, PathId, PathState};
use crate::policy::overrides::OverrideTarget;
use crate::policy::record::DecisionRecord;
use crate::policy::{self, Policy};

/// One output that matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// A path changed its state.
    Transition {
        /// The path.
        path: PathId,
        /// Before.
        from: PathState,
        /// After.
        to: PathState,
    },
    /// A path is known no longer.
    Gone(PathId),
    /// This host is late itself most of the time, or no longer.
    Frozen(bool),
    /// A decision.
    Decided(Arc<DecisionRecord>),
    /// An operator's word has ended.
    OverrideEnded(OverrideTarget),
    /// A lease of this host changed its stage.
    Staged {
        /// The lease.
        lease: LeaseId,
        /// Before; none for a new lease.
        from: Option<Stage>,
        /// After; none for a freed one.
        to: Option<Stage>,
    },
    /// A member came, moved or went.
    Member {
        /// Which.
        member: Member,
        /// Alive or down.
        state: MemberState,
    },
    /// A life of a node is over.
    NodeGone {
        /// Which node.
        node: NodeName,
        /// Which life.
        generation: Generation,
    },
    /// This node appears anew.
    Renewed(Member),
}

/// A core whose tape can be kept.
pub trait Taped: Core<Output: Serialize> {
    /// Which one.
    const PART: Part;

    /// Its snapshot as the journal has it.
    fn taped_snapshot(&self) -> Snapshot;

    /// Its input as the journal has it.
    fn taped_input(input: Self::Input) -> Input;

    /// The output as the journal has it, if it matters.
    fn said(output: &Self::Output) -> Option<Said>;
}

impl Turn {
    /// A turn of a core that was told `input` and said `outputs`. `scratch` is overwritten.
    pub fn of<C: Taped>(now: Now, input: C::Input, outputs: &[C::Output], scratch: &mut Vec<u8>) -> Self {
        let said = outputs.iter().filter_map(C::said).collect();
        Self { now, input: C::taped_input(input), said, digest: digest(outputs, scratch) }
    }

    /// Has a core take a turn.
    pub fn take<C: Taped>(core: &mut C, now: Now, input: C::Input) -> Self {
        let mut outputs = Vec::new();
        core.step(now, input.clone(), &mut outputs);
        Self::of::<C>(now, input, &outputs, &mut Vec::new())
    }
}

/// The first 64 bits of the BLAKE3 of all outputs of a turn, in order; 0 where there are none.
/// `scratch` is overwritten.
pub fn digest<O: Serialize>(outputs: &[O], scratch: &mut Vec<u8>) -> u64 {
    if outputs.is_empty() {
        return 0;
    }
    scratch.clear();
    for output in outputs {
        // What has no form in bytes has none in any replay: it stands as its own absence.
        if codec::append_bare("output", usize::MAX, output, scratch).is_err() {
            scratch.push(u8::MAX);
        }
    }
    let mut first = [0; 8];
    first.iter_mut().zip(blake3::hash(scratch).as_bytes()).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(first)
}

impl Taped for HealthCore {
    const PART: Part = Part::Health;

    fn taped_snapshot(&self) -> Snapshot {
        Snapshot::Health(Box::new(self.snapshot()))
    }

    fn taped_input(input: health::Input) -> Input {
        Input::Health(input)
    }

    fn said(output: &health::Output) -> Option<Said> {
        match output {
            health::Output::Transition { path, from, to } => {
                Some(Said::Transition { path: path.clone(), from: *from, to: *to })
            }
            health::Output::Gone(path) => Some(Said::Gone(path.clone())),
            health::Output::Frozen(frozen) => Some(Said::Frozen(*frozen)),
            health::Output::Report(_)
            | health::Output::Discarded { .. }
            | health::Output::Refused(_)
            | health::Output::Canary(_) => None,
        }
    }
}

impl Taped for Policy {
    const PART: Part = Part::Policy;

    fn taped_snapshot(&self) -> Snapshot {
        Snapshot::Policy(Box::new(self.snapshot()))
    }

    fn taped_input(input: policy::Input) -> Input {
        Input::Policy(input)
    }

    fn said(output: &policy::Output) -> Option<Said> {
        match output {
            policy::Output::Decided(record) => Some(Said::Decided(Arc::clone(record))),
            policy::Output::OverrideEnded(target) => Some(Said::OverrideEnded(target.clone())),
            policy::Output::Answer { .. }
            | policy::Output::Ask { .. }
            | policy::Output::Renew { .. }
            | policy::Output::GiveBack(_)
            | policy::Output::GiveUp(_)
            | policy::Output::Plan { .. }
            | policy::Output::Stop { .. }
            | policy::Output::Done { .. } => None,
        }
    }
}

impl Taped for Ledger {
    const PART: Part = Part::Ledger;

    fn taped_snapshot(&self) -> Snapshot {
        Snapshot::Ledger(Box::new(self.snapshot()))
    }

    fn taped_input(input: ledger::Input) -> Input {
        Input::Ledger(input)
    }

    fn said(output: &ledger::Output) -> Option<Said> {
        match output {
            ledger::Output::Staged { lease, from, to } => {
                Some(Said::Staged { lease: lease.clone(), from: *from, to: *to })
            }
            ledger::Output::Reply { .. }
            | ledger::Output::Opened { .. }
            | ledger::Output::Accepted { .. }
            | ledger::Output::Longest(_)
            | ledger::Output::Load(_) => None,
        }
    }
}

impl Taped for MeshCore {
    const PART: Part = Part::Mesh;

    fn taped_snapshot(&self) -> Snapshot {
        match self.has_run() {
            false => Snapshot::Mesh(Box::new(self.snapshot())),
            true => Snapshot::MeshRunning,
        }
    }

    fn taped_input(input: mesh::Input) -> Input {
        Input::Mesh(input)
    }

    fn said(output: &mesh::Output) -> Option<Said> {
        match output {
            mesh::Output::Member { member, state } => Some(Said::Member { member: member.clone(), state: *state }),
            mesh::Output::Event(MeshEvent::Gone { node, generation }) => {
                Some(Said::NodeGone { node: node.clone(), generation: *generation })
            }
            mesh::Output::Renewed(member) => Some(Said::Renewed(member.clone())),
            mesh::Output::Event(MeshEvent::Node { .. } | MeshEvent::Load { .. } | MeshEvent::Paths { .. })
            | mesh::Output::Packet { .. }
            | mesh::Output::SyncAsk { .. }
            | mesh::Output::SyncReply { .. }
            | mesh::Output::SyncPush { .. }
            | mesh::Output::Sign { .. }
            | mesh::Output::Rival { .. }
            | mesh::Output::Refused { .. } => None,
        }
    }
}
