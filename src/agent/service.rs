//! What an agent can be asked to do: the use cases behind the HTTP API, one method each.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::api::{
    Arrival, CapacityReport, Done, LeaseLine, MemberLine, PathLine, RouteRequest, SampleReport, SampleVerdict, Status,
    TransferReport, TransferRequest,
};
use crate::model::{LeaseId, Outcome, RequestId, WorkloadName};

/// Why a use case was not carried out. Nothing changed, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The input is wrong.
    #[error("{field}: {detail}")]
    BadInput {
        /// The field at fault.
        field: &'static str,
        /// What was found and what is allowed.
        detail: String,
    },
    /// The thing named does not exist here.
    #[error("{0}")]
    NotFound(String),
    /// The thing named exists, and is not in a state for this.
    #[error("{0}")]
    Conflict(String),
    /// Too much is waiting already.
    #[error("{what} is full: {limit} waiting")]
    Overloaded {
        /// Which queue.
        what: &'static str,
        /// How many it holds.
        limit: usize,
    },
    /// The agent is shutting down.
    #[error("the agent is shutting down")]
    ShuttingDown,
}

/// Which decisions to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionFilter {
    /// Only this class.
    pub class: Option<WorkloadName>,
    /// Only this outcome.
    pub outcome: Option<Outcome>,
    /// Only those made at or after this time, in milliseconds since the Unix epoch.
    pub since: Option<u64>,
    /// At most this many, the newest first.
    pub limit: usize,
}

/// One event of `GET /v1/events`, as JSON with a `kind`:
/// `{"kind": "decision", "record": {…}}`, `{"kind": "transition", "path", "from", "to"}`,
/// `{"kind": "member", "node", "state"}`, `{"kind": "transfer", "id", "result"}`.
pub type EventJson = Arc<str>;

/// The use cases of one agent.
#[derive(Clone)]
pub struct Service {}

#[allow(clippy::unused_async, unused_variables, missing_docs)]
impl Service {
    /// A service whose agent is no more: it answers everything with [`ServiceError::ShuttingDown`].
    #[must_use]
    pub fn closed() -> Self {
        Self {}
    }
    /// Decides, and leases unless it is a dry run; the decision record as JSON.
    pub async fn route(&self, request: RouteRequest) -> Result<Arc<str>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn release_lease(&self, lease: LeaseId) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn renew_lease(&self, lease: LeaseId, ttl_ms: Option<u64>) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn cancel_request(&self, request: RequestId) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn transfer(&self, request: TransferRequest) -> Result<TransferReport, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn transfer_report(&self, id: LeaseId) -> Result<TransferReport, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub fn arrivals(&self) -> broadcast::Receiver<Arc<Arrival>> {
        broadcast::channel(1).1
    }
    pub fn events(&self) -> broadcast::Receiver<EventJson> {
        broadcast::channel(1).1
    }
    pub async fn samples(&self, samples: Vec<SampleReport>) -> Result<Vec<SampleVerdict>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn capacity(&self, report: CapacityReport) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn drain(&self, on: bool) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn status(&self) -> Result<Status, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn members(&self) -> Result<Vec<MemberLine>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn paths(&self) -> Result<Vec<PathLine>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn leases(&self) -> Result<Vec<LeaseLine>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    /// Every mesh record that this node holds, as JSON values.
    pub async fn records(&self) -> Result<Vec<serde_json::Value>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    /// Decision records as JSON, newest first.
    pub async fn decisions(&self, filter: DecisionFilter) -> Result<Vec<Arc<str>>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    pub async fn decision(&self, id: String) -> Result<Arc<str>, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    /// Switches the faults of a rail that allows them (`rail`, `mode` and its numbers), as the
    /// configuration's `faults` table would.
    pub async fn set_faults(&self, body: serde_json::Value) -> Result<Done, ServiceError> {
        Err(ServiceError::ShuttingDown)
    }
    /// The Prometheus text of this agent.
    pub fn metrics_text(&self) -> String {
        String::new()
    }
    /// Whether it has joined and may be sent work.
    pub fn ready(&self) -> bool {
        false
    }
}
