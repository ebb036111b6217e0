//! The bodies of the HTTP API: one set of types for the server, `seamctl` and the demo. Times are
//! milliseconds, sizes are bytes, names are validated as they are read.

mod status;

use serde::{Deserialize, Serialize};

use crate::model::{Extent, Lease, LeaseId, ModelName, NodeName, PathId, PathState, RailName, RequestId, WorkloadName};

pub use status::{LeaseLine, MemberLine, PathLine, Status};

/// `POST /v1/route`. It goes onto a tape as it is, so every field is always written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// The class.
    pub workload: WorkloadName,
    /// How many KV bytes will move; at least 1.
    pub kv_bytes: u64,
    /// The caller's name of the request; the same again gets the same answer. Made up if absent.
    #[serde(default)]
    pub request_id: Option<RequestId>,
    /// Only hosts of this model.
    #[serde(default)]
    pub model: Option<ModelName>,
    /// Decide for another source, from what this node knows; only as a dry run.
    #[serde(default)]
    pub source: Option<NodeName>,
    /// Decode hosts not to be used.
    #[serde(default)]
    pub exclude: Vec<NodeName>,
    /// How long the transfer may take, all attempts together.
    #[serde(default)]
    pub transfer_budget_ms: Option<u64>,
    /// Decide only; ask for no lease.
    #[serde(default)]
    pub dry_run: bool,
}

impl RouteRequest {
    /// The plainest question: a class and its bytes, all else as by default.
    #[must_use]
    pub fn new(workload: WorkloadName, kv_bytes: u64) -> Self {
        Self {
            workload,
            kv_bytes,
            request_id: None,
            model: None,
            source: None,
            exclude: Vec::new(),
            transfer_budget_ms: None,
            dry_run: false,
        }
    }
}

/// The body of `POST /v1/transfers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// A lease that this node holds and has not used.
    pub lease: LeaseId,
    /// Blocks of this node's arena, in the order in which they are concatenated into the lease's
    /// extents. They must not overlap; their sum must not exceed the lease.
    pub blocks: Vec<Extent>,
    /// Which part of the bytes they are, where those are still being computed; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

/// A part of a transfer's blocks. What is given moves at once; the time until the next chunk comes is
/// no transfer time, and may be as long as `transfer.lease_ttl`. All chunks together must hold exactly
/// the bytes that the lease is for. One that is the first and the final at once is a whole transfer, and
/// may hold fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Counted from 0; each once, in order. The newest may be sent again, as it was.
    pub index: u32,
    /// None comes after it. It may be without blocks.
    #[serde(rename = "final")]
    pub is_final: bool,
}

/// The answer to a chunk that is not the final one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkTaken {
    /// The lease that the transfer was started with.
    pub lease: LeaseId,
    /// The chunk.
    pub index: u32,
    /// Bytes of all chunks so far.
    pub bytes: u64,
    /// How many they must come to.
    pub kv_bytes: u64,
}

/// The answer of `POST /v1/transfers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TransferAnswer {
    /// It has ended; also in answer to a chunk that came too late for it.
    Ended(TransferReport),
    /// A chunk is on its way; the next may come.
    Taken(ChunkTaken),
}

/// How a transfer, or one attempt of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferResult {
    /// Every byte landed and the hashes agree.
    Delivered,
    /// It did not.
    Failed,
    /// The caller cancelled it.
    Cancelled,
}

/// One attempt to move a transfer's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferAttempt {
    /// The decision that chose the path.
    pub decision: String,
    /// The path.
    pub path: PathId,
    /// The lease that it used.
    pub lease: LeaseId,
    /// How it ended.
    pub result: TransferResult,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took, with what chunks were waited for.
    pub elapsed_ms: f64,
}

/// A transfer that has ended: the answer of `POST /v1/transfers` and `GET /v1/transfers/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// The transfer's name: the lease that it was started with.
    pub id: LeaseId,
    /// The request that it belongs to.
    pub request_id: RequestId,
    /// How it ended.
    pub result: TransferResult,
    /// Every attempt, in order.
    pub attempts: Vec<TransferAttempt>,
    /// The lease that the bytes landed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Bytes moved.
    pub bytes: u64,
    /// BLAKE3 of the bytes in request order, hexadecimal, as both ends computed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// From the first attempt's start to the last one's end, with what chunks were waited for.
    pub elapsed_ms: f64,
}

/// One event of `GET /v1/arrivals`: bytes have landed on this decode host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// The lease that they came with.
    pub lease: LeaseId,
    /// The request that they belong to.
    pub request_id: RequestId,
    /// The prefill host that sent them.
    pub source: NodeName,
    /// How many.
    pub bytes: u64,
    /// Where in this host's arena, in order.
    pub extents: Vec<Extent>,
    /// BLAKE3 of the bytes, hexadecimal.
    pub hash: String,
}

/// One item of `POST /v1/samples`: what an engine measured as it moved bytes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleReport {
    /// Where the bytes came from; this node if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<NodeName>,
    /// Where they went.
    pub destination: NodeName,
    /// On which rail; the first that connects the two if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<RailName>,
    /// How long it took.
    pub duration_ms: f64,
    /// How many bytes; of a transfer that failed, how many it was to move.
    pub bytes: u64,
    /// Bytes of the same source that shared the rail meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inflight_bytes: Option<u64>,
    /// How it ended.
    pub outcome: ReportedOutcome,
    /// How long ago it ended; just now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The request that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// How a reported transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedOutcome {
    /// It worked.
    Ok,
    /// It timed out.
    Timeout,
    /// The transport failed.
    Error,
    /// The request itself was at fault or was cancelled; never moves a score.
    Cancelled,
}

/// One item of the answer of `POST /v1/samples`, in the order of the question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleVerdict {
    /// Whether health has used it.
    pub accepted: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `PUT /v1/capacity`: a decode engine's own word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityReport {
    /// Sessions that the engine itself counts as running.
    pub active_sessions: u32,
    /// Sessions that fit; the configured number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<u32>,
    /// KV bytes free in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_bytes_free: Option<u64>,
    /// Time per output token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_time_ms: Option<f64>,
    /// Leases that `active_sessions` already counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Vec<LeaseId>>,
    /// When the engine took this reading, in milliseconds since the Unix epoch: leases delivered
    /// before then count as contained in `active_sessions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<u64>,
}

/// `PUT /v1/overrides`: an operator's word on a path or a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideRequest {
    /// A path, `source>destination/rail/backend`, or a node's name for every path to it.
    pub target: String,
    /// What it counts as, whatever is measured.
    pub state: PathState,
    /// How long, such as "10m"; at most a week.
    pub ttl: String,
    /// Why, for whoever finds it.
    pub reason: String,
}

/// One line of `GET /v1/overrides`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverrideLine {
    /// A path, or a node's name.
    pub target: String,
    /// What it counts as.
    pub state: PathState,
    /// Why.
    pub reason: String,
    /// Until it is measured again, in milliseconds.
    pub expires_in_ms: u64,
}

/// The answer to a release, a renewal, a cancellation or a drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Whether anything changed; the call is idempotent and succeeds either way.
    pub changed: bool,
    /// What is true now, in words.
    pub detail: String,
}

/// An error as RFC 9457 problem details (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable name of the kind of problem, as a relative reference.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// This occurrence in words: the field, what was found, what is allowed.
    pub detail: String,
    /// The field at fault, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}
