//! What an agent can be asked to do: the use cases behind the HTTP API, one method each.

mod knowledge;
mod overrides;
mod samples;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::ledger::Answer as LedgerAnswer;
use super::links::Links;
use super::owner::Full;
use super::policy::Answer as PolicyAnswer;
use super::transfer::check_blocks;
use crate::api::{Arrival, CapacityReport, Done, RouteRequest, TransferAnswer, TransferReport, TransferRequest};
use crate::config::{Config, EngineKind};
use crate::ledger::{self, EngineWord};
use crate::model::{
    Generation, LeaseCall, LeaseCallReply, LeaseId, NodeName, Outcome, RailName, RequestId, WorkloadName,
};
use crate::policy::record::DecisionRecord;
use crate::policy::{self, RouteProblem};
use crate::transport::mock::Faults;

/// Bytes of a record's JSON, about, without its candidates.
const RECORD_JSON_BYTES: usize = 1024;
/// Bytes that each candidate adds, about.
const CANDIDATE_JSON_BYTES: usize = 896;
/// How long another agent may take to renew a lease.
const RENEW_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a use case was not carried out. Nothing changed.
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
/// `{"kind": "decision", "record": {…}}`, `{"kind": "transition", "ts", "path", "from", "to"}`,
/// `{"kind": "lease", "ts", "lease", "from", "to"}`, `{"kind": "member", "ts", "node", "generation",
/// "state"}`, `{"kind": "transfer", "ts", "id", "result", …}`.
pub type EventJson = Arc<str>;

/// The use cases of one agent.
#[derive(Clone)]
pub struct Service(Option<Arc<Agency>>);

/// What the use cases work with.
pub(crate) struct Agency {
    pub(crate) links: Arc<Links>,
    /// What is configured now.
    pub(crate) config: watch::Receiver<Arc<Config>>,
    /// How often that was read anew in this life.
    pub(crate) reloads: Arc<AtomicU64>,
    pub(crate) node: NodeName,
    pub(crate) generation: Generation,
    pub(crate) arena_bytes: Option<u64>,
    pub(crate) paths: super::probe::PathList,
    pub(crate) started: Instant,
    pub(crate) draining: AtomicBool,
    /// No new routes: the agent is on its way out.
    pub(crate) closing: AtomicBool,
    pub(crate) made_up_ids: AtomicU64,
}

impl Service {
    pub(crate) fn new(agency: Agency) -> Self {
        Self(Some(Arc::new(agency)))
    }

    /// A service whose agent is no more: it answers everything with [`ServiceError::ShuttingDown`].
    #[must_use]
    pub fn closed() -> Self {
        Self(None)
    }

    fn agency(&self) -> Result<&Agency, ServiceError> {
        self.0.as_deref().ok_or(ServiceError::ShuttingDown)
    }

    /// Decides, and leases unless it is a dry run; the decision record as JSON.
    ///
    /// # Errors
    /// Bad input, a request id used for another request, or too much waiting. That nothing is
    /// admissible is an outcome, not an error.
    pub async fn route(&self, request: RouteRequest, traceparent: Option<Arc<str>>) -> Result<String, ServiceError> {
        let record = self.decide(request, traceparent).await?;
        json(&record)
    }

    /// As [`route`](Self::route), the record as it is.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub async fn decide(
        &self,
        request: RouteRequest,
        traceparent: Option<Arc<str>>,
    ) -> Result<Arc<DecisionRecord>, ServiceError> {
        let agency = self.agency()?;
        if agency.closing.load(Ordering::Acquire) {
            return Err(ServiceError::ShuttingDown);
        }
        let begun = Instant::now();
        let request_id = match &request.request_id {
            Some(id) => id.clone(),
            None => agency.make_up_id()?,
        };
        let question = move |key| policy::Input::Route { key, request_id, request, traceparent };
        let answer = agency.ask_policy(question).await?;
        agency.links.metrics.route_took(begun.elapsed());
        match answer {
            PolicyAnswer::Route(result) => result.map_err(ServiceError::from),
            PolicyAnswer::Plan(_) | PolicyAnswer::Done(_) => Err(ServiceError::ShuttingDown),
        }
    }

    /// Ends a lease: one that this host granted, as its engine's or operator's word; one that it
    /// holds, as its holder's.
    ///
    /// # Errors
    /// The agent is full or shutting down. A lease that is not there is no error.
    pub async fn release_lease(&self, lease: LeaseId) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let id = lease.clone();
        let changed = if lease.node == agency.node {
            agency.ask_ledger(move |key| ledger::Input::EngineRelease { key, lease: id }).await?
        } else {
            agency.ask_policy_done(move |key| policy::Input::Release { key, lease: id }).await?
        };
        Ok(done(changed, format!("lease {lease} is released"), format!("lease {lease} was not held")))
    }

    /// Asks the decode host of a lease to let it live longer.
    ///
    /// # Errors
    /// Bad input; the lease is no longer waiting for its bytes; its host does not answer.
    pub async fn renew_lease(&self, lease: LeaseId, ttl_ms: Option<u64>) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let ttl_ms = ttl_ms.unwrap_or(millis(agency.config.borrow().transfer.lease_ttl));
        if !(1..=super::settings::MAX_LEASE_TTL_MS).contains(&ttl_ms) {
            return Err(ServiceError::BadInput {
                field: "ttl_ms",
                detail: format!("found {ttl_ms}, allowed 1 to {}", super::settings::MAX_LEASE_TTL_MS),
            });
        }
        let mesh = agency.links.mesh.get().ok_or(ServiceError::ShuttingDown)?;
        let call = LeaseCall::Renew { lease: lease.clone(), ttl_ms };
        match mesh.call_lease(&lease.node, call, RENEW_TIMEOUT).await {
            Some(LeaseCallReply::Changed(true)) => {
                agency.links.tell_policy(policy::Input::Renewed { lease: lease.clone(), ttl_ms });
                Ok(Done { changed: true, detail: format!("lease {lease} lives {ttl_ms} ms more") })
            }
            Some(_) => Err(ServiceError::Conflict(format!(
                "lease {lease} cannot be renewed: it is not held by this node, or no longer waits for its bytes"
            ))),
            None => Err(ServiceError::Conflict(format!("{} does not answer, or is no member", lease.node))),
        }
    }

    /// Ends a request: its lease is freed, its transfer stopped.
    ///
    /// # Errors
    /// The agent is full or shutting down. A request that is not there is no error.
    pub async fn cancel_request(&self, request_id: RequestId) -> Result<Done, ServiceError> {
        let id = request_id.clone();
        let changed = self.agency()?.ask_policy_done(move |key| policy::Input::Cancel { key, request_id: id }).await?;
        Ok(done(
            changed,
            format!("request {request_id} is cancelled"),
            format!("request {request_id} held nothing to cancel"),
        ))
    }

    /// Moves blocks of this host's arena into a lease; answers when that has ended, or when a chunk of
    /// them that is not the final one is on its way.
    ///
    /// # Errors
    /// Bad input, a lease that cannot be used, or too many transfers under way. A transfer that
    /// was tried and failed is reported, not an error.
    pub async fn transfer(&self, request: TransferRequest) -> Result<TransferAnswer, ServiceError> {
        let agency = self.agency()?;
        let Some(arena_bytes) = agency.arena_bytes else {
            return Err(ServiceError::Conflict("this node has no arena: its engine moves the bytes".to_owned()));
        };
        check_blocks(&request.blocks, request.chunk, arena_bytes)?;
        let silence_max = agency.config.borrow().transfer.lease_ttl;
        agency.links.transfers.get().ok_or(ServiceError::ShuttingDown)?.start(request, silence_max).await
    }

    /// The report of a transfer that has ended.
    ///
    /// # Errors
    /// None is known.
    pub async fn transfer_report(&self, id: LeaseId) -> Result<TransferReport, ServiceError> {
        let transfers = self.agency()?.links.transfers.get().ok_or(ServiceError::ShuttingDown)?;
        let found = transfers.find(id.clone()).await;
        found.ok_or_else(|| ServiceError::NotFound(format!("no ended transfer {id} is known here")))
    }

    /// What lands on this decode host from now on.
    #[must_use]
    pub fn arrivals(&self) -> broadcast::Receiver<Arc<Arrival>> {
        match self.agency() {
            Ok(agency) => agency.links.arrivals.subscribe(),
            Err(_) => broadcast::channel(1).1,
        }
    }

    /// What happens on this node from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<EventJson> {
        match self.agency() {
            Ok(agency) => agency.links.store.subscribe(),
            Err(_) => broadcast::channel(1).1,
        }
    }

    /// Takes a decode engine's own word.
    ///
    /// # Errors
    /// Bad input, or this node is no decode host.
    pub async fn capacity(&self, report: CapacityReport) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        if let Some(found) = report.token_time_ms.filter(|ms| !(ms.is_finite() && *ms >= 0.0)) {
            let detail = format!("found {found}, allowed a finite number of at least 0");
            return Err(ServiceError::BadInput { field: "token_time_ms", detail });
        }
        if let Some(max) = report.max_sessions
            && !(1..=super::settings::MAX_SESSIONS).contains(&max)
        {
            let detail = format!("found {max}, allowed 1 to {}", super::settings::MAX_SESSIONS);
            return Err(ServiceError::BadInput { field: "max_sessions", detail });
        }
        if report.active_sessions > super::settings::MAX_SESSIONS {
            let detail = format!("found {}, allowed 0 to {}", report.active_sessions, super::settings::MAX_SESSIONS);
            return Err(ServiceError::BadInput { field: "active_sessions", detail });
        }
        if let Some(as_of) = report.as_of
            && as_of > super::clock::wall_ms().saturating_add(super::settings::MAX_AHEAD_MS)
        {
            let detail = format!("found {as_of}, allowed milliseconds since the Unix epoch, not in the future");
            return Err(ServiceError::BadInput { field: "as_of", detail });
        }
        if agency.config.borrow().decode.as_ref().is_some_and(|decode| decode.engine.kind == EngineKind::Static) {
            let why = "decode.engine.kind is \"static\": the leases are the sessions, no reading is taken";
            return Err(ServiceError::Conflict(why.to_owned()));
        }
        let word = EngineWord {
            active_sessions: report.active_sessions,
            max_sessions: report.max_sessions,
            kv_bytes_free: report.kv_bytes_free,
            token_time_ms: report.token_time_ms,
            adopted: report.adopted,
            as_of_ms: report.as_of,
        };
        let changed = agency.ask_ledger(move |key| ledger::Input::Engine { key, word }).await?;
        Ok(done(changed, "taken".to_owned(), "not taken: a later reading was taken already".to_owned()))
    }

    /// Stops or resumes taking new work on this decode host.
    ///
    /// # Errors
    /// This node is no decode host.
    pub async fn drain(&self, on: bool) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let ledger = agency.links.ledger.get().ok_or_else(not_decode)?;
        ledger.tell(ledger::Input::Drain(on));
        let changed = agency.draining.swap(on, Ordering::AcqRel) != on;
        let detail = if on { "no new leases are granted" } else { "leases are granted again" };
        Ok(Done { changed, detail: detail.to_owned() })
    }

    /// Takes no new routes from now on.
    pub(crate) fn close(&self) {
        if let Ok(agency) = self.agency() {
            agency.closing.store(true, Ordering::Release);
        }
    }

    /// Switches the faults of a rail that allows them: `rail`, and the keys of the configuration's
    /// `faults` table; without `mode` the rail is faultless again.
    ///
    /// # Errors
    /// Bad input, or the rail does not allow faults.
    pub async fn set_faults(&self, mut body: serde_json::Value) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let rails = agency.links.rails.get().ok_or(ServiceError::ShuttingDown)?;
        let bad = |field, detail: String| ServiceError::BadInput { field, detail };
        let fields = body.as_object_mut().ok_or_else(|| bad("body", "found no object".to_owned()))?;
        let rail: RailName = match fields.remove("rail").as_ref().and_then(serde_json::Value::as_str) {
            Some(name) => name.parse().map_err(|invalid| bad("rail", format!("{invalid}")))?,
            None => return Err(bad("rail", "found none, allowed the name of a rail of this host".to_owned())),
        };
        let known = rails.get(&rail).ok_or_else(|| ServiceError::NotFound(format!("no rail {rail} on this host")))?;
        let Some(switch) = &known.faults else {
            let why = format!("rail {rail} is {}: faults need the mock backend or allow_faults = true", known.kind);
            return Err(ServiceError::Conflict(why));
        };
        if fields.is_empty() {
            switch.set(None).map_err(|invalid| bad("faults", invalid.to_string()))?;
            return Ok(Done { changed: true, detail: format!("rail {rail} has no faults") });
        }
        let faults: Faults = serde_json::from_value(body).map_err(|error| bad("faults", error.to_string()))?;
        let detail = format!("rail {rail} has faults of mode {}", faults.mode.as_str());
        switch.set(Some(faults)).map_err(|invalid| bad(invalid.field, invalid.to_string()))?;
        Ok(Done { changed: true, detail })
    }

    /// The Prometheus text of this agent.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.agency().map(|agency| agency.links.metrics.render()).unwrap_or_default()
    }

    /// Whether it has joined and may be sent work.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.agency().is_ok_and(|agency| agency.links.mesh.get().is_some_and(super::mesh::MeshHandle::joined))
    }
}

impl Agency {
    fn make_up_id(&self) -> Result<RequestId, ServiceError> {
        let number = self.made_up_ids.fetch_add(1, Ordering::Relaxed);
        RequestId::new(&format!("{}.{}.{number}", self.node, self.generation))
            .map_err(|invalid| ServiceError::BadInput { field: "request_id", detail: invalid.to_string() })
    }

    async fn ask_policy(
        &self,
        question: impl FnOnce(u64) -> policy::Input + Send + 'static,
    ) -> Result<PolicyAnswer, ServiceError> {
        let policy = self.links.policy.get().ok_or(ServiceError::ShuttingDown)?;
        match policy.ask(question).await {
            Ok(answer) => answer.ok_or(ServiceError::ShuttingDown),
            Err(full) => {
                self.links.metrics.dropped("policy");
                Err(overloaded("policy", full))
            }
        }
    }

    async fn ask_policy_done(
        &self,
        question: impl FnOnce(u64) -> policy::Input + Send + 'static,
    ) -> Result<bool, ServiceError> {
        match self.ask_policy(question).await? {
            PolicyAnswer::Done(changed) => Ok(changed),
            PolicyAnswer::Route(_) | PolicyAnswer::Plan(_) => Err(ServiceError::ShuttingDown),
        }
    }

    async fn ask_ledger(
        &self,
        question: impl FnOnce(u64) -> ledger::Input + Send + 'static,
    ) -> Result<bool, ServiceError> {
        let ledger = self.links.ledger.get().ok_or_else(not_decode)?;
        match ledger.ask(question).await {
            Ok(Some(LedgerAnswer::Call(LeaseCallReply::Changed(changed)))) => Ok(changed),
            Ok(_) => Err(ServiceError::ShuttingDown),
            Err(full) => {
                self.links.metrics.dropped("ledger");
                Err(overloaded("ledger", full))
            }
        }
    }
}

impl From<RouteProblem> for ServiceError {
    fn from(problem: RouteProblem) -> Self {
        let detail = problem.to_string();
        match (problem.field(), problem) {
            (Some(field), _) => Self::BadInput { field, detail },
            (None, RouteProblem::Full { limit }) => Self::Overloaded { what: "requests", limit },
            (None, _) => Self::Conflict(detail),
        }
    }
}

/// A record's JSON, written into room for all of it.
fn json(record: &DecisionRecord) -> Result<String, ServiceError> {
    let mut text = Vec::with_capacity(RECORD_JSON_BYTES + CANDIDATE_JSON_BYTES * record.candidates.len());
    // A record has string keys only, and JSON is UTF-8: neither can fail.
    let written = serde_json::to_writer(&mut text, record).map_err(|error| error.to_string());
    let text = written.and_then(|()| String::from_utf8(text).map_err(|error| error.to_string()));
    text.map_err(ServiceError::Conflict)
}

fn overloaded(what: &'static str, full: Full) -> ServiceError {
    ServiceError::Overloaded { what, limit: full.limit }
}

fn not_decode() -> ServiceError {
    ServiceError::Conflict("this node is no decode host".to_owned())
}

fn done(changed: bool, yes: String, no: String) -> Done {
    Done { changed, detail: if changed { yes } else { no } }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
