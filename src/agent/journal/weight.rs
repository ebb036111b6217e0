//! How much memory a turn takes while it waits for the writer: estimates, within a small factor, of
//! what can be large.

use crate::health::{self, HealthCore};
use crate::journal::Taped;
use crate::ledger::{self, Ledger};
use crate::mesh::{self, MeshCore, MeshEvent};
use crate::model::{Extent, LeaseCallReply, LeaseReply, NodeRecord, PathsRecord};
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

fn extents_bytes(extents: &[Extent]) -> usize {
    size_of_val(extents)
}

fn reply_bytes(reply: &LeaseReply) -> usize {
    match reply {
        LeaseReply::Granted { lease, .. } => extents_bytes(&lease.extents),
        LeaseReply::Refused { .. } => 0,
    }
}

impl Recorded for HealthCore {
    fn input_bytes(input: &health::Input) -> usize {
        use health::Input;
        match input {
            Input::Configure(_) => SETTINGS_BYTES,
            Input::PathUp(spec) => spec.address.len(),
            Input::PathGone(_) | Input::Sample(_) | Input::Tick => 0,
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
        use policy::Input;
        match input {
            Input::Peer { record, .. } => node_bytes(record),
            Input::Paths { record, .. } => paths_bytes(record),
            Input::Route { request, traceparent, .. } => {
                size_of_val(request.exclude.as_slice()) + traceparent.as_ref().map_or(0, |text| text.len())
            }
            Input::TransferFailed { detail, .. } => detail.len(),
            Input::LeaseAnswer { reply, .. } => reply_bytes(reply),
            Input::Configure(_) => SETTINGS_BYTES,
            Input::Override { said, .. } => said.reason.len(),
            Input::PeerGone { .. }
            | Input::Load { .. }
            | Input::Report(_)
            | Input::TransferStart { .. }
            | Input::TransferEnded { .. }
            | Input::TransferWaited { .. }
            | Input::Release { .. }
            | Input::Renewed { .. }
            | Input::Cancel { .. }
            | Input::Withdraw { .. }
            | Input::Tick => 0,
        }
    }

    fn output_bytes(outputs: &[policy::Output]) -> usize {
        use policy::{Output, RouteProblem, TransferProblem};
        let beyond = |output: &Output| match output {
            // An answer has the record of the decision before it.
            Output::Decided(record) => record_bytes(record),
            Output::Answer { result: Err(RouteProblem::UnknownWorkload { found, known }), .. } => {
                found.len() + known.len()
            }
            Output::Plan { result: Ok(plan), .. } => extents_bytes(&plan.lease.extents) + plan.path.address.len(),
            Output::Plan { result: Err(problem), .. } => match problem {
                TransferProblem::Ended { state: text, .. } | TransferProblem::Exhausted(text) => text.len(),
                TransferProblem::Unknown(_) | TransferProblem::Size { .. } | TransferProblem::Cancelled => 0,
            },
            Output::Answer { .. }
            | Output::Ask { .. }
            | Output::Renew { .. }
            | Output::GiveBack(_)
            | Output::GiveUp(_)
            | Output::Stop { .. }
            | Output::OverrideEnded(_)
            | Output::Done { .. } => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES + self.view().path_count() * 2 * PATH_BYTES + self.leases().count() * LEASE_BYTES
    }
}

impl Recorded for Ledger {
    fn input_bytes(input: &ledger::Input) -> usize {
        use ledger::Input;
        match input {
            Input::Engine { word, .. } => word.adopted.as_ref().map_or(0, Vec::len) * PATH_BYTES,
            Input::Configure(_) => SETTINGS_BYTES,
            Input::Call { .. }
            | Input::Open { .. }
            | Input::Delivered { .. }
            | Input::Quiet { .. }
            | Input::EngineRelease { .. }
            | Input::Drain(_)
            | Input::Recover(_)
            | Input::HolderDown { .. }
            | Input::Tick => 0,
        }
    }

    fn output_bytes(outputs: &[ledger::Output]) -> usize {
        use ledger::Output;
        let beyond = |output: &Output| match output {
            Output::Reply { reply: LeaseCallReply::Lease(reply), .. } => reply_bytes(reply),
            Output::Opened { result: Ok(extents), .. } => extents_bytes(extents),
            Output::Accepted { result: Ok(arrived), .. } => extents_bytes(&arrived.extents),
            Output::Reply { reply: LeaseCallReply::Changed(_), .. }
            | Output::Opened { result: Err(_), .. }
            | Output::Accepted { result: Err(_), .. }
            | Output::Staged { .. }
            | Output::Longest(_)
            | Output::Load(_) => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES + self.held().count() * LEASE_BYTES
    }
}

impl Recorded for MeshCore {
    fn input_bytes(input: &mesh::Input) -> usize {
        use mesh::Input;
        match input {
            Input::Packet { bytes, .. }
            | Input::SyncAsked { bytes, .. }
            | Input::SyncReplied { bytes, .. }
            | Input::SyncPushed { bytes, .. }
            | Input::Signed { signature: bytes, .. } => bytes.0.len(),
            Input::PublishNode(record) => node_bytes(record),
            Input::PublishPaths(chunks) => {
                size_of_val(chunks.as_slice()) + chunks.iter().map(paths_bytes).sum::<usize>()
            }
            Input::SeedSeen { .. } | Input::SyncFailed { .. } | Input::PublishLoad(_) | Input::Leave | Input::Tick => 0,
        }
    }

    fn output_bytes(outputs: &[mesh::Output]) -> usize {
        use mesh::Output;
        let beyond = |output: &Output| match output {
            Output::Packet { bytes, .. }
            | Output::SyncAsk { bytes, .. }
            | Output::SyncReply { bytes, .. }
            | Output::SyncPush { bytes, .. }
            | Output::Sign { bytes, .. } => bytes.len(),
            Output::Event(MeshEvent::Node { record, .. }) => node_bytes(record),
            Output::Event(MeshEvent::Paths { record, .. }) => paths_bytes(record),
            Output::Event(MeshEvent::Load { .. } | MeshEvent::Gone { .. })
            | Output::Member { .. }
            | Output::Renewed(_)
            | Output::Rival { .. }
            | Output::Refused { .. } => 0,
        };
        size_of_val(outputs) + outputs.iter().map(beyond).sum::<usize>()
    }

    fn core_bytes(&self) -> usize {
        SETTINGS_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_may_make_long_weighs_as_much() {
        let body = r#"{"workload": "batch", "kv_bytes": 1, "exclude": ["d0", "d1", "d2"]}"#;
        let request: crate::api::RouteRequest = serde_json::from_str(body).unwrap();
        let names = size_of_val(request.exclude.as_slice());
        let request_id = "r1".parse().unwrap();
        let route = policy::Input::Route { key: 1, request_id, request, traceparent: Some("x".repeat(55).into()) };
        assert_eq!(Policy::input_bytes(&route), names + 55);
        let said = policy::overrides::Override {
            target: policy::overrides::OverrideTarget::Path("p0>d0/r0/quic".parse().unwrap()),
            state: crate::model::PathState::Quarantined,
            reason: "x".repeat(300),
        };
        assert_eq!(Policy::input_bytes(&policy::Input::Override { key: 1, said, ttl_ms: 1 }), 300);
        let problem = policy::RouteProblem::UnknownWorkload { found: "x".repeat(64), known: "y".repeat(100) };
        let answer = [policy::Output::Answer { key: 1, result: Err(problem) }];
        assert_eq!(Policy::output_bytes(&answer), size_of_val(&answer) + 164);
        let plan = [policy::Output::Plan { key: 1, result: Err(policy::TransferProblem::Exhausted("z".repeat(80))) }];
        assert_eq!(Policy::output_bytes(&plan), size_of_val(&plan) + 80);
    }
}
