//! The policy core: what is known in, decisions out.
//!
//! ```text
//! PathReport ─┐                                   ┌─▶ Ask ──▶ (ledger of another host) ──┐
//! LoadRecord ─┼─▶ view ──▶ decide(score, admit, ──┤                                      │
//! NodeRecord ─┘            select) per request    └─▶ DecisionRecord ◀── LeaseAnswer ◀───┘
//! ```
//!
//! `score`, `admit`, `select`, `decide` and `record` are pure functions over one slice of
//! candidates; `view` keeps that slice; `routes` drives a request from its question to its lease
//! and its transfer to its last attempt.

pub mod admit;
pub mod decide;
pub mod record;
mod requests;
mod routes;
pub mod score;
pub mod select;
pub mod view;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::RouteRequest;
use crate::core::{Core, Mono, Now};
use crate::health::{PathReport, Thresholds};
use crate::model::{
    DecisionId, Generation, Lease, LeaseAsk, LeaseId, LeaseReply, LoadRecord, NodeName, NodeRecord, PathSpec,
    PathsRecord, RequestId, Workload,
};
use record::DecisionRecord;
use routes::Routes;
use view::{Own, View};

/// Which set of rules decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The published prototype exactly.
    #[default]
    Reference,
    /// The prototype with its weaknesses mended.
    Mesh,
}

impl Profile {
    /// The name in configuration, records and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Mesh => "mesh",
        }
    }
}

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mover {
    /// Seam, from arena to arena.
    #[default]
    Seam,
    /// The engine; a lease is then an admission token.
    Engine,
}

impl Mover {
    /// The name in configuration and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seam => "seam",
            Self::Engine => "engine",
        }
    }
}

/// The policy's part of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which rules decide.
    pub profile: Profile,
    /// Their numbers.
    pub thresholds: Thresholds,
    /// The classes, by unique name.
    pub workloads: Vec<Arc<Workload>>,
    /// The fingerprint of the whole configuration; goes into every record.
    pub config_hash: Arc<str>,
    /// Who moves the bytes.
    pub mover: Mover,
    /// The largest request, in bytes (the arena's size where Seam moves the bytes).
    pub max_kv_bytes: u64,
    /// How long a lease may wait for its bytes, in milliseconds.
    pub lease_ttl_ms: u64,
    /// How long a decode host may take to answer an ask, in milliseconds.
    pub lease_timeout_ms: u64,
    /// Decode hosts asked for one decision at most, one after the other.
    pub lease_rounds: u32,
    /// How long a transfer may take, all attempts together, where the request does not say, in
    /// milliseconds.
    pub transfer_budget_ms: u64,
    /// Attempts of one transfer at most.
    pub transfer_attempts: u32,
    /// Requests remembered at most; of those that hold nothing, the oldest are forgotten first.
    pub max_requests: usize,
    /// How long a finished request is remembered at most, in milliseconds.
    pub request_ttl_ms: u64,
    /// Paths kept at most.
    pub max_paths: usize,
}

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
    /// Time has passed.
    Tick,
}

/// What the policy answers and wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// A decision was made; one for every attempt, dry runs included.
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
    /// Tell a decode host that a lease is needed no longer.
    GiveBack(LeaseId),
    /// To [`Input::TransferStart`] and [`Input::TransferFailed`].
    Plan {
        /// The question's key.
        key: u64,
        /// What to try, or why nothing may be tried.
        result: Result<Plan, TransferProblem>,
    },
    /// Stop the transfer that writes into this lease.
    Stop {
        /// The lease.
        lease: LeaseId,
        /// Whether the request is cancelled; otherwise the attempt has failed.
        cancelled: bool,
    },
    /// To [`Input::Release`] and [`Input::Cancel`].
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
}

/// The policy core: see the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    generation: Generation,
    own: Own,
    settings: Settings,
    /// Counts the inputs; names decisions.
    turn: u64,
    view: View,
    routes: Routes,
}

impl Core for Policy {
    type Input = Input;
    type Output = Output;
    type Snapshot = Self;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.turn += 1;
        self.fire(now, out);
        match input {
            Input::Peer { generation, record } => {
                if self.view.generation(&record.node).is_some_and(|known| known < generation) {
                    self.void_leases(now, &record.node, generation.saturating_sub(1), out);
                }
                self.view.peer(generation, &record);
            }
            Input::PeerGone { node, generation } => {
                if self.view.peer_gone(&node, generation) {
                    self.void_leases(now, &node, generation, out);
                }
            }
            Input::Load { node, generation, record } => self.view.load(now, &node, generation, record),
            Input::Paths { observer, record } => self.view.observed(&observer, &record),
            Input::Report(report) => self.view.report(now, &report),
            Input::Route { key, request_id, request, traceparent } => {
                self.route(now, key, request_id, request, traceparent, out);
            }
            Input::LeaseAnswer { ask, reply } => self.lease_answered(now, ask, reply, out),
            Input::TransferStart { key, lease, bytes } => self.transfer_start(now, key, &lease, bytes, out),
            Input::TransferFailed { key, lease, detail } => self.transfer_failed(now, key, &lease, &detail, out),
            Input::TransferEnded { lease, delivered } => self.transfer_ended(now, &lease, delivered, out),
            Input::Release { key, lease } => {
                let changed = self.release(now, &lease, out);
                out.push(Output::Done { key, changed });
            }
            Input::Renewed { lease, ttl_ms } => self.renewed(now, &lease, ttl_ms),
            Input::Cancel { key, request_id } => {
                let changed = self.cancel(now, &request_id, out);
                out.push(Output::Done { key, changed });
            }
            Input::Tick => {}
        }
    }

    fn deadline(&self) -> Option<Mono> {
        self.routes.deadline()
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn restore(snapshot: Self) -> Self {
        snapshot
    }
}

impl Policy {
    /// The policy of one life of one node.
    #[must_use]
    pub fn new(generation: Generation, own: Own, settings: Settings) -> Self {
        let view = View::new(own.clone(), settings.max_paths);
        Self { generation, own, settings, turn: 0, view, routes: Routes::default() }
    }

    /// What is known of paths and hosts.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Leases that this node holds and has not used up, with their requests.
    pub fn leases(&self) -> impl Iterator<Item = (&RequestId, &Lease, Mono)> {
        self.routes.leases()
    }
}

#[cfg(test)]
mod tests;
