//! What goes into the policy core and what comes out of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Settings;
use super::overrides::{Override, OverrideTarget};
use super::record::DecisionRecord;
use crate::api::RouteRequest;
use crate::health::PathReport;
use crate::model::{
    DecisionId, Generation, Lease, LeaseAsk, LeaseId, LeaseReply, LoadRecord, NodeName, NodeRecord, PathSpec,
    PathsRecord, RequestId,
};

/// What the shell tells the policy. `key` names a question, so that its answer finds the asker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A peer lives and describes itself.
    Peer {
        /// Its life.
        generation: Generation,
        /// What it says.
        record: Arc<NodeRecord>,
    },
    /// A peer is gone; everything that it said or granted is void.
    PeerGone {
        /// Which.
        node: NodeName,
        /// Which life of it.
        generation: Generation,
    },
    /// A decode host's headroom.
    Load {
        /// Whose.
        node: NodeName,
        /// In which life.
        generation: Generation,
        /// What it says.
        record: LoadRecord,
    },
    /// An observer's paths that are not healthy.
    Paths {
        /// Whose view.
        observer: NodeName,
        /// What it says.
        record: PathsRecord,
    },
    /// This node's own word on one of its paths.
    Report(PathReport),
    /// A request asks for a path.
    Route {
        /// The question's key.
        key: u64,
        /// The caller's name of the request, or one made up for it.
        request_id: RequestId,
        /// The question.
        request: RouteRequest,
        /// The caller's W3C trace context, carried into the record.
        traceparent: Option<Arc<str>>,
    },
    /// A decode host answered an ask, or could not be asked.
    LeaseAnswer {
        /// The ask's number.
        ask: u64,
        /// What it says.
        reply: LeaseReply,
    },
    /// The caller wants to move bytes into a lease.
    TransferStart {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
        /// How many bytes.
        bytes: u64,
    },
    /// An attempt failed; may another path be tried?
    TransferFailed {
        /// The question's key.
        key: u64,
        /// The lease of the failed attempt.
        lease: LeaseId,
        /// What went wrong, in words for the next record.
        detail: Arc<str>,
    },
    /// A transfer ended for good: delivered, or cancelled.
    TransferEnded {
        /// The lease of the last attempt.
        lease: LeaseId,
        /// Whether the bytes landed.
        delivered: bool,
    },
    /// The caller needs a lease no longer.
    Release {
        /// The question's key.
        key: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// A decode host has agreed that a lease lives longer.
    Renewed {
        /// The lease.
        lease: LeaseId,
        /// How much longer, counted from now, in milliseconds.
        ttl_ms: u64,
    },
    /// The caller needs the whole request no longer.
    Cancel {
        /// The question's key.
        key: u64,
        /// The request.
        request_id: RequestId,
    },
    /// An operator's word on a path or a host; a later one on the same replaces it.
    Override {
        /// The question's key.
        key: u64,
        /// What is said.
        said: Override,
        /// How long it holds, in milliseconds.
        ttl_ms: u64,
    },
    /// An operator takes a word back.
    Withdraw {
        /// The question's key.
        key: u64,
        /// What it was about.
        target: OverrideTarget,
    },
    /// The configuration has changed: from the next decision on, these hold.
    Configure(Box<Settings>),
    /// Time has passed.
    Tick,
    /// A transfer has waited for its source, which is no transfer time.
    TransferWaited {
        /// The lease of the attempt.
        lease: LeaseId,
        /// How long, since it was last said, in milliseconds.
        ms: u64,
    },
}

/// What the policy answers and wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// A decision was made; one for every attempt. A dry run is answered, and is no decision.
    Decided(Arc<DecisionRecord>),
    /// To [`Input::Route`].
    Answer {
        /// The question's key.
        key: u64,
        /// The decision, or why there is none.
        result: Result<Arc<DecisionRecord>, RouteProblem>,
    },
    /// Ask a decode host for a lease and tell its answer.
    Ask {
        /// Which host.
        node: NodeName,
        /// What to ask; [`LeaseAsk::ask`] names the answer.
        ask: LeaseAsk,
        /// How long to wait, in milliseconds.
        timeout_ms: u64,
    },
    /// Tell a decode host that a lease is needed for longer: its transfer starts late.
    Renew {
        /// The lease.
        lease: LeaseId,
        /// How much longer, counted from now, in milliseconds.
        ttl_ms: u64,
    },
    /// Tell a decode host that a lease is needed no longer, whatever has become of it.
    GiveBack(LeaseId),
    /// Tell a decode host that this node has given a lease up, unless its bytes have landed.
    GiveUp(LeaseId),
    /// To [`Input::TransferStart`] and [`Input::TransferFailed`].
    Plan {
        /// The question's key.
        key: u64,
        /// What to try, or why nothing may be tried.
        result: Result<Plan, TransferProblem>,
    },
    /// Stop an attempt of a transfer.
    Stop {
        /// The transfer: the lease that it was started with.
        transfer: LeaseId,
        /// The lease that the attempt writes into.
        lease: LeaseId,
        /// Whether the request is cancelled; otherwise the attempt has failed.
        cancelled: bool,
    },
    /// An override's time is over.
    OverrideEnded(OverrideTarget),
    /// To [`Input::Release`], [`Input::Cancel`], [`Input::Override`] and [`Input::Withdraw`].
    Done {
        /// The question's key.
        key: u64,
        /// Whether anything changed.
        changed: bool,
    },
}

/// One attempt to move bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The request.
    pub request_id: RequestId,
    /// The decision that chose the path.
    pub decision: DecisionId,
    /// The lease to write into.
    pub lease: Lease,
    /// The path.
    pub path: PathSpec,
    /// How long this attempt may take, in milliseconds.
    pub deadline_ms: u64,
}

/// Why a request gets no decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RouteProblem {
    /// The class does not exist.
    #[error("found {found:?}, known are {known}")]
    UnknownWorkload {
        /// What was asked for.
        found: String,
        /// What exists.
        known: String,
    },
    /// The size is out of range.
    #[error("found {found}, allowed 1 to {limit} bytes")]
    KvBytes {
        /// What was asked for.
        found: u64,
        /// The largest.
        limit: u64,
    },
    /// The transfer budget is out of range.
    #[error("found {found}, allowed 1 to {limit} ms")]
    TransferBudget {
        /// What was asked for.
        found: u64,
        /// The largest.
        limit: u64,
    },
    /// A lease can be asked for this node's own paths only.
    #[error("found {found}: this node can lease for itself only; another source needs \"dry_run\": true")]
    ForeignSource {
        /// What was asked for.
        found: NodeName,
    },
    /// The source is not a member.
    #[error("found {found}: no such member is known here")]
    UnknownSource {
        /// What was asked for.
        found: NodeName,
    },
    /// The request id was used for another request.
    #[error("{0} was used before for a request with another body")]
    IdReused(RequestId),
    /// The request was cancelled.
    #[error("request {0} was cancelled")]
    Cancelled(RequestId),
    /// Too many requests are remembered that still hold something.
    #[error("{limit} requests are under way or hold leases")]
    Full {
        /// How many.
        limit: usize,
    },
}

impl RouteProblem {
    /// The part of the question that is at fault; none if it is sound.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::UnknownWorkload { .. } => Some("workload"),
            Self::KvBytes { .. } => Some("kv_bytes"),
            Self::TransferBudget { .. } => Some("transfer_budget_ms"),
            Self::ForeignSource { .. } | Self::UnknownSource { .. } => Some("source"),
            Self::IdReused(_) | Self::Cancelled(_) | Self::Full { .. } => None,
        }
    }
}

/// Why a transfer is not tried, or not tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TransferProblem {
    /// No such lease.
    #[error("lease {0} is not held by this node: never granted to it, or long gone")]
    Unknown(LeaseId),
    /// It was used, or is in use, or has ended.
    #[error("lease {lease} cannot be used: it {state}")]
    Ended {
        /// The lease.
        lease: LeaseId,
        /// What became of it.
        state: String,
    },
    /// More bytes than it was granted for.
    #[error("blocks hold {found} bytes in sum, lease {lease} allows 1 to {limit}")]
    Size {
        /// The lease.
        lease: LeaseId,
        /// What was asked for.
        found: u64,
        /// What was granted.
        limit: u64,
    },
    /// Nothing is left to try.
    #[error("{0}")]
    Exhausted(String),
    /// The request was cancelled meanwhile.
    #[error("the request was cancelled")]
    Cancelled,
}
