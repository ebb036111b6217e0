//! One decision: a slice of candidates and a workload in, an assessment of each and a choice out.

use std::sync::Arc;

use crate::model::{Capacity, Evidence, NodeName, Outcome, PathHealth, PathId, PoolName, Reason, RiskGroup};

/// Where a candidate leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The pool.
    pub pool: PoolName,
    /// The decode host; absent where a what-if names only pools.
    pub node: Option<NodeName>,
    /// The path; absent where a what-if names only pools.
    pub path: Option<PathId>,
    /// Hosts that fail together with it.
    pub risk_group: Option<RiskGroup>,
}

/// A pool, a path to it and the telemetry that one decision reads.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it leads; shared, so that a record costs no copy of the names.
    pub target: Arc<Target>,
    /// The path's health.
    pub health: PathHealth,
    /// How old the newest sample is, in milliseconds, where there is one.
    pub health_age_ms: Option<u64>,
    /// Whose samples they are.
    pub evidence: Evidence,
    /// Sessions.
    pub capacity: Capacity,
    /// How old that word is, in milliseconds.
    pub capacity_age_ms: Option<u64>,
    /// A reason, known before any score, to refuse it for this request (draining, incompatible,
    /// tried and failed, not enough KV bytes), with the numbers compared.
    pub barred: Option<Verdict>,
}

/// A reason and the numbers that it compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The reason.
    pub code: Reason,
    /// What was observed, where a number was.
    pub observed: Option<f64>,
    /// What it was compared with.
    pub limit: Option<f64>,
}

/// How a choice among candidates ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The outcome.
    pub outcome: Outcome,
    /// The chosen candidate's index, if any.
    pub chosen: Option<usize>,
}
