//! The decision record: everything that one routing outcome rests on, every refused candidate
//! included. Its JSON is described by `docs/decision.schema.json`.
//!
//! In memory every number is as computed and every name shared; gfs, prs and fae are rounded to 4
//! decimals only when a record is written.

mod path_text;
mod written;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::decide::{Assessment, Candidate, Decision, Load, Target};
use super::select::{Rank, SelectionPolicy, SelectionVector, Skipped};
use crate::model::{
    Blame, DecisionId, Evidence, Lease, Mode, Mover, NodeName, Outcome, PathId, PathState, PoolName, Profile, Reason,
    RequestId, RiskGroup, Workload,
};
use written::Written;

/// The version of the record's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schema {
    /// The only one.
    #[default]
    #[serde(rename = "seam.decision/1")]
    V1,
}

/// What a record says beside the decision itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The decision's name.
    pub id: DecisionId,
    /// When, in milliseconds since the Unix epoch; absent in a what-if.
    pub ts: Option<u64>,
    /// Who decided; absent in a what-if.
    pub node: Option<NodeName>,
    /// For which request; absent in a what-if.
    pub request_id: Option<RequestId>,
    /// Which attempt of that request, from 1.
    pub attempt: u32,
    /// The attempt before it.
    pub parent: Option<DecisionId>,
    /// The caller's trace context.
    pub traceparent: Option<Arc<str>>,
    /// What was asked for.
    pub workload: Arc<Workload>,
    /// The rules that decided.
    pub profile: Profile,
    /// The policy that decided: `seam`, or the name of one it is compared with.
    pub policy: Cow<'static, str>,
    /// The configuration's fingerprint, hexadecimal.
    pub config_hash: Option<Arc<str>>,
    /// Who moves the bytes.
    pub mover: Option<Mover>,
}

impl Context {
    /// Of a decision that no agent made: nothing is known but what was asked, and by which rules.
    #[must_use]
    pub fn offline(id: DecisionId, workload: Arc<Workload>, profile: Profile) -> Self {
        Self {
            id,
            ts: None,
            node: None,
            request_id: None,
            attempt: 1,
            parent: None,
            traceparent: None,
            workload,
            profile,
            policy: Cow::Borrowed("seam"),
            config_hash: None,
            mover: None,
        }
    }
}

/// One routing outcome and all it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The version of this form.
    pub schema: Schema,
    /// The decision's name: node, generation, input number.
    pub id: DecisionId,
    /// When, in milliseconds since the Unix epoch.
    pub ts: Option<u64>,
    /// Who decided.
    pub node: Option<NodeName>,
    /// For which request.
    pub request_id: Option<RequestId>,
    /// Which attempt of that request, from 1.
    pub attempt: u32,
    /// The attempt before it.
    pub parent: Option<DecisionId>,
    /// The caller's trace context.
    pub traceparent: Option<Arc<str>>,
    /// What was asked for.
    pub workload: Arc<Workload>,
    /// The rules that decided.
    pub profile: Profile,
    /// The policy that decided.
    pub policy: Cow<'static, str>,
    /// The configuration's fingerprint, hexadecimal.
    pub config_hash: Option<Arc<str>>,
    /// How far the decision binds.
    pub mode: Mode,
    /// Who moves the bytes.
    pub mover: Option<Mover>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why: the outcome as a reason code.
    pub reason: Reason,
    /// What was chosen, if anything.
    pub chosen: Option<Chosen>,
    /// The lease that the chosen host granted.
    pub lease: Option<Lease>,
    /// Every candidate, in the order in which it was considered.
    pub candidates: Vec<CandidateRecord>,
}

/// The chosen candidate's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The pool.
    pub pool: PoolName,
    /// The decode host.
    pub node: Option<NodeName>,
    /// The path.
    #[serde(with = "path_text")]
    pub path: Option<PathId>,
}

/// One candidate, the telemetry it was judged by and the judgement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Written<'_>")]
pub struct CandidateRecord {
    /// Where it leads; written as its pool, node, path and backend.
    pub target: Arc<Target>,
    /// The path's state.
    pub path_state: PathState,
    /// Gray Failure Score in [0, 1].
    pub gfs: f64,
    /// Propagation Risk Score in [0, 1].
    pub prs: f64,
    /// Failure Amplification Estimate.
    pub fae: f64,
    /// Whether it may carry the workload.
    pub admissible: bool,
    /// Why, or why not.
    pub code: Reason,
    /// What was observed, where a number was compared.
    pub observed: Option<f64>,
    /// What it was compared with.
    pub limit: Option<f64>,
    /// How long the request's bytes would take, in milliseconds.
    pub predicted_ms: Option<f64>,
    /// Where its degradation is placed.
    pub blame: Option<Blame>,
    /// Its sessions.
    pub capacity: CapacityRecord,
    /// Where else the work could go.
    pub topology: TopologyRecord,
    /// The path's health.
    pub health: HealthRecord,
    /// How the admissible were ranked; absent if it is not one of them.
    pub selection_policy: Option<SelectionPolicy>,
    /// Its rank: the smallest wins, number by number; empty if it is not admissible.
    pub selection_vector: SelectionVector,
    /// Whether it was chosen.
    pub chosen: bool,
    /// What this request has learned of it, in words: a refused lease, a failed attempt.
    pub detail: Option<Arc<str>>,
    /// What it was worse in than the chosen one, where it was admissible and not chosen.
    pub skipped_reason: Option<Skipped>,
}

/// The sessions of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityRecord {
    /// Sessions in use.
    pub active_sessions: u32,
    /// Sessions that fit.
    pub max_capacity: u32,
    /// Sessions from which it is soft saturated.
    pub soft_limit: u32,
    /// Sessions in use as a share of those that fit.
    pub utilization: f64,
    /// Sessions that still fit.
    pub remaining: u32,
    /// At or above the soft limit.
    pub soft_saturated: bool,
    /// Full.
    pub hard_saturated: bool,
    /// Its time per output token over its pool's median.
    pub token_time_ratio: Option<f64>,
    /// How old that word is, in milliseconds.
    pub age_ms: Option<u64>,
}

/// Where else the work could go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyRecord {
    /// Every other candidate.
    pub alternates: u32,
    /// Those of them that could take it.
    pub available_alternates: u32,
    /// None of them could.
    pub sole_route: bool,
    /// Hosts that fail together with this one.
    pub risk_group: Option<RiskGroup>,
}

/// The numbers of a path's window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthRecord {
    /// 99th percentile of the latency, in milliseconds.
    pub p99_latency_ms: f64,
    /// Standard deviation of the latency, in milliseconds.
    pub jitter_ms: f64,
    /// Mean share lost, in [0, 1].
    pub mean_drop_rate: f64,
    /// Samples that these numbers rest on.
    pub sample_count: u32,
    /// Achieved over expected bandwidth of the newest large samples.
    pub bandwidth_ratio: Option<f64>,
    /// Bytes of the largest transfer that failed here while nothing of that size has worked since.
    pub failed_bytes: u64,
    /// How old the newest sample is, in milliseconds.
    pub age_ms: Option<u64>,
    /// Whose samples they are.
    pub evidence: Evidence,
}

impl DecisionRecord {
    /// The record of `decision` on `candidates`, without a lease yet.
    #[must_use]
    pub fn new(context: Context, candidates: &[Candidate], decision: &Decision) -> Self {
        let chosen = decision.choice.chosen;
        let best = chosen.and_then(|index| decision.assessments.get(index)?.rank);
        let pairs = candidates.iter().zip(&decision.assessments).enumerate();
        let record = |(index, (candidate, assessment))| {
            CandidateRecord::new(candidate, assessment, chosen == Some(index), best.as_ref())
        };
        Self {
            schema: Schema::V1,
            id: context.id,
            ts: context.ts,
            node: context.node,
            request_id: context.request_id,
            attempt: context.attempt,
            parent: context.parent,
            traceparent: context.traceparent,
            mode: context.workload.mode,
            workload: context.workload,
            profile: context.profile,
            policy: context.policy,
            config_hash: context.config_hash,
            mover: context.mover,
            outcome: decision.choice.outcome,
            reason: reason_of(decision.choice.outcome),
            chosen: chosen.and_then(|index| candidates.get(index)).map(|candidate| Chosen::of(&candidate.target)),
            lease: None,
            candidates: pairs.map(record).collect(),
        }
    }
}

impl DecisionRecord {
    /// What a candidate's host has promised with its quote, in milliseconds.
    pub(super) fn predict(&mut self, path: &PathId, predicted_ms: f64) {
        let of_path = |candidate: &&mut CandidateRecord| candidate.target.path.as_ref() == Some(path);
        if let Some(candidate) = self.candidates.iter_mut().find(of_path) {
            candidate.predicted_ms = Some(predicted_ms);
        }
    }

    /// Chooses `path`, which ranked as well as the one chosen before it; that one carries `why` it
    /// was not kept.
    pub(super) fn choose(&mut self, path: &PathId, why: Skipped) {
        for candidate in &mut self.candidates {
            if candidate.target.path.as_ref() == Some(path) {
                self.chosen = Some(Chosen::of(&candidate.target));
                candidate.chosen = true;
                candidate.skipped_reason = None;
            } else if candidate.chosen {
                candidate.chosen = false;
                candidate.skipped_reason = Some(why);
            }
        }
    }
}

/// The outcome as a reason code.
#[must_use]
pub fn reason_of(outcome: Outcome) -> Reason {
    match outcome {
        Outcome::Admitted => Reason::Admitted,
        Outcome::AdmittedDespiteDegradation => Reason::AdmittedDespiteDegradation,
        Outcome::ReroutedToAlternate => Reason::ReroutedToAlternate,
        Outcome::AdmittedLeastBad => Reason::AdmittedLeastBad,
        Outcome::NoAdmissiblePool => Reason::NoAdmissiblePool,
    }
}

impl Chosen {
    fn of(target: &Target) -> Self {
        Self { pool: target.pool.clone(), node: target.node.clone(), path: target.path.clone() }
    }
}

impl CandidateRecord {
    // Made where it stays: as a call it is made elsewhere and copied, a tenth of a decision.
    #[inline]
    fn new(candidate: &Candidate, assessment: &Assessment, chosen: bool, best: Option<&Rank>) -> Self {
        let health = &candidate.health;
        let skipped = |rank: Rank| best.filter(|_| !chosen).map(|best| rank.behind(best));
        Self {
            target: Arc::clone(&candidate.target),
            path_state: health.state,
            gfs: health.gfs,
            prs: assessment.prs,
            fae: assessment.fae,
            admissible: assessment.verdict.admits(),
            code: assessment.verdict.code,
            observed: assessment.verdict.observed,
            limit: assessment.verdict.limit,
            predicted_ms: candidate.predicted_ms,
            blame: candidate.blame,
            capacity: CapacityRecord::of(&assessment.load, candidate),
            topology: TopologyRecord {
                alternates: assessment.alternates.total,
                available_alternates: assessment.alternates.available,
                sole_route: assessment.alternates.sole_route(),
                risk_group: candidate.risk_group.clone(),
            },
            health: HealthRecord {
                p99_latency_ms: health.p99_latency_ms,
                jitter_ms: health.jitter_ms,
                mean_drop_rate: health.mean_drop_rate,
                sample_count: health.sample_count,
                bandwidth_ratio: health.bandwidth_ratio,
                failed_bytes: health.failed_bytes,
                age_ms: candidate.health_age_ms,
                evidence: candidate.evidence,
            },
            selection_policy: assessment.rank.map(|rank| rank.policy),
            selection_vector: assessment.rank.map(|rank| rank.vector).unwrap_or_default(),
            chosen,
            detail: None,
            skipped_reason: assessment.rank.and_then(skipped),
        }
    }
}

impl Serialize for CandidateRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::from(self).serialize(serializer)
    }
}

impl CapacityRecord {
    /// The same as a decision reads it.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            active_sessions: self.active_sessions,
            max_capacity: self.max_capacity,
            soft_limit: self.soft_limit,
            utilization: self.utilization,
            remaining: self.remaining,
            soft_saturated: self.soft_saturated,
            hard_saturated: self.hard_saturated,
        }
    }

    fn of(load: &Load, candidate: &Candidate) -> Self {
        Self {
            active_sessions: load.active_sessions,
            max_capacity: load.max_capacity,
            soft_limit: load.soft_limit,
            utilization: load.utilization,
            remaining: load.remaining,
            soft_saturated: load.soft_saturated,
            hard_saturated: load.hard_saturated,
            token_time_ratio: candidate.token_time_ratio,
            age_ms: candidate.capacity_age_ms,
        }
    }
}
