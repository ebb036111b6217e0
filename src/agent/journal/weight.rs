//! How much memory a turn takes while it waits for the writer: estimates, within a small factor, of
//! what can be large.

use crate::health::{self, HealthCore};
use crate::journal::Taped;
use crate::ledger::{self, Ledger};
use crate::mesh::{self, MeshCore, MeshEvent};
use crate::model::{LeaseCallReply, LeaseReply, NodeRecord, PathsRecord};
use crate::policy::record::DecisionRecord;
use crate::policy::{self, Policy};

/// One path and its health, names shared.
const PATH_BYTES: usize = 256;
/// A path with its samples.
const HISTORY_BYTES: usize = 6 * 1024;
/// One candidate of a decision record.
const CANDIDATE_BYTES: usize = 512;
/// A request and its lease, or a lease of a ledger.
const LEASE_BYTES: usize = 512;
/// A whole configuration of a core.
const SETTINGS_BYTES: usize = 16 * 1024;

/// A core whose turns the agent records.
pub trait Recorded: Taped<Input: Send + 'static, Output: Send + 'static> + 'static {
    /// Bytes of an input, its own size excluded.
    fn input_bytes(input: &Self::Input) -> usize;

    /// Bytes of a turn's outputs.
    fn output_bytes(outputs: &[Self::Output]) -> usize;

    /// Bytes of the core.
    fn core_bytes(&self) -> usize;
}

/// Bytes of a decision record.
pub(super) fn record_bytes(record: &DecisionRecord) -> usize {
    size_of::<DecisionRecord>() + record.candidates.len() * CANDIDATE_BYTES
}

fn node_bytes(record: &NodeRecord) -> usize {
    size_of::<NodeRecord>() + record.certificate.len() + record.rails.len() * PATH_BYTES
}

fn paths_bytes(record: &PathsRecord) -> usize {
    record.paths.len() * PATH_BYTES
}

impl Recorded for HealthCore {
    fn input_bytes(input: &health::Input) -> usize {
        match input {
            health::Input::Configure(_) => SETTINGS_BYTES,
            health::Input::PathUp(_) | health::Input::PathGone(_) | health::Input::Sample(_) | health::Input::Tick => 0,
        }
    }

    fn output_bytes(outputs: &[health::Output]) -> usize {
        size_of_val(outputs)
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES + self.paths().count() * HISTORY_BYTES
    }
}

impl Recorded for Policy {
    fn input_bytes(input: &policy::Input) -> usize {
        match input {
            policy::Input::Peer { record, .. } => node_bytes(record),
            policy::Input::Paths { record, .. } => paths_bytes(record),
            policy::Input::TransferFailed { detail, .. } => detail.len(),
            policy::Input::LeaseAnswer { reply: LeaseReply::Granted { lease, .. }, .. } => {
                size_of_val(lease.extents.as_slice())
            }
            policy::Input::Configure(_) => SETTINGS_BYTES,
            policy::Input::Override { .. } => LEASE_BYTES,
            _ => 0,
        }
    }

    fn output_bytes(outputs: &[policy::Output]) -> usize {
        let beyond = |output: &policy::Output| match output {
            policy::Output::Decided(record) => record_bytes(record),
            policy::Output::Plan { result: Ok(plan), .. } => size_of_val(plan.lease.extents.as_slice()),
            _ => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES + self.view().path_count() * 2 * PATH_BYTES + self.leases().count() * LEASE_BYTES
    }
}

impl Recorded for Ledger {
    fn input_bytes(input: &ledger::Input) -> usize {
        match input {
            ledger::Input::Engine { word, .. } => word.adopted.as_ref().map_or(0, Vec::len) * PATH_BYTES,
            _ => 0,
        }
    }

    fn output_bytes(outputs: &[ledger::Output]) -> usize {
        let beyond = |output: &ledger::Output| match output {
            ledger::Output::Reply { reply: LeaseCallReply::Lease(LeaseReply::Granted { lease, .. }), .. } => {
                size_of_val(lease.extents.as_slice())
            }
            ledger::Output::Opened { result: Ok(extents), .. } => size_of_val(extents.as_slice()),
            ledger::Output::Accepted { result: Ok(arrived), .. } => size_of_val(arrived.extents.as_slice()),
            _ => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES + self.held().count() * LEASE_BYTES
    }
}

impl Recorded for MeshCore {
    fn input_bytes(input: &mesh::Input) -> usize {
        match input {
            mesh::Input::Packet { bytes, .. }
            | mesh::Input::SyncAsked { bytes, .. }
            | mesh::Input::SyncReplied { bytes, .. }
            | mesh::Input::SyncPushed { bytes, .. }
            | mesh::Input::Signed { signature: bytes, .. } => bytes.0.len(),
            mesh::Input::PublishNode(record) => node_bytes(record),
            mesh::Input::PublishPaths(chunks) => chunks.iter().map(paths_bytes).sum(),
            _ => 0,
        }
    }

    fn output_bytes(outputs: &[mesh::Output]) -> usize {
        let beyond = |output: &mesh::Output| match output {
            mesh::Output::Packet { bytes, .. }
            | mesh::Output::SyncAsk { bytes, .. }
            | mesh::Output::SyncReply { bytes, .. }
            | mesh::Output::SyncPush { bytes, .. }
            | mesh::Output::Sign { bytes, .. } => bytes.len(),
            mesh::Output::Event(MeshEvent::Node { record, .. }) => node_bytes(record),
            mesh::Output::Event(MeshEvent::Paths { record, .. }) => paths_bytes(record),
            _ => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES
    }
}
