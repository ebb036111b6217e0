//! One decision: a slice of candidates and a workload in, an assessment of each and a choice out.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::round::round4;
use super::select::{Rank, SelectionPolicy, lexical};
use super::{admit, score};
use crate::health::Thresholds;
use crate::model::{
    Capacity, Evidence, NodeName, Outcome, PathHealth, PathId, PathState, PoolName, Profile, Reason, RiskGroup,
    Workload,
};

/// The reference refuses a candidate above this PRS.
pub const PRS_LIMIT: f64 = 0.75;
/// The reference ranks headroom first up to this effective criticality.
pub const HEADROOM_FIRST_UP_TO: f64 = 0.35;
/// The reference ranks health first from this effective criticality on.
pub const HEALTH_FIRST_FROM: f64 = 0.75;

/// Where a candidate leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The pool.
    pub pool: PoolName,
    /// The decode host; absent where a what-if names only pools.
    pub node: Option<NodeName>,
    /// The path; absent where a what-if names only pools.
    pub path: Option<PathId>,
}

/// A pool, a path to it and the telemetry that one decision reads.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it leads; shared, so that a record costs no copy of the names.
    pub target: Arc<Target>,
    /// Hosts that fail together with it.
    pub risk_group: Option<RiskGroup>,
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
    /// How long the request's bytes would take, in milliseconds, where that can be said. Recorded,
    /// not judged.
    pub predicted_ms: Option<f64>,
    /// A reason, known before any score, to refuse it for this request (draining, incompatible,
    /// tried and failed, not enough KV bytes), with the numbers compared.
    pub barred: Option<Verdict>,
}

/// A reason and the numbers that it compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The reason.
    pub code: Reason,
    /// What was observed, where a number was.
    pub observed: Option<f64>,
    /// What it was compared with.
    pub limit: Option<f64>,
}

impl Verdict {
    /// A reason that compared two numbers.
    #[must_use]
    pub fn compared(code: Reason, observed: f64, limit: f64) -> Self {
        Self { code, observed: Some(observed), limit: Some(limit) }
    }

    /// Whether the candidate may carry the workload.
    #[must_use]
    pub fn admits(&self) -> bool {
        matches!(self.code, Reason::Admitted | Reason::AdmittedDespiteDegradation)
    }
}

/// How a choice among candidates ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The outcome.
    pub outcome: Outcome,
    /// The chosen candidate's index, if any.
    pub chosen: Option<usize>,
}

/// What follows from a candidate's [`Capacity`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
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
}

impl Load {
    /// The load of `capacity`.
    #[must_use]
    pub fn of(capacity: &Capacity) -> Self {
        let soft_limit = capacity.soft_limit();
        Self {
            active_sessions: capacity.active_sessions,
            max_capacity: capacity.max_capacity,
            soft_limit,
            utilization: capacity.utilization(),
            remaining: capacity.remaining(),
            soft_saturated: capacity.active_sessions >= soft_limit,
            hard_saturated: capacity.hard_saturated(),
        }
    }
}

/// Where else the work could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternates {
    /// Every other candidate.
    pub total: u32,
    /// Those of them that could take it.
    pub available: u32,
}

impl Alternates {
    /// Nothing else could take it.
    #[must_use]
    pub fn sole_route(&self) -> bool {
        self.available == 0
    }
}

/// What one decision found out about one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// Propagation Risk Score in [0, 1], unrounded.
    pub prs: f64,
    /// Failure Amplification Estimate, unrounded.
    pub fae: f64,
    /// Whether it may carry the workload, and why.
    pub verdict: Verdict,
    /// Its load.
    pub load: Load,
    /// The other candidates.
    pub alternates: Alternates,
    /// Its place among the admissible; absent if it is not one of them.
    pub rank: Option<Rank>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What was chosen.
    pub choice: Choice,
    /// One assessment per candidate, in their order.
    pub assessments: Vec<Assessment>,
}

impl Decision {
    /// The indices of the admissible candidates, the chosen one first, the next best after it.
    #[must_use]
    pub fn ranking(&self) -> Vec<usize> {
        let ranked = |(index, assessment): (usize, &Assessment)| Some((assessment.rank?, index));
        let mut order: Vec<_> = self.assessments.iter().enumerate().filter_map(ranked).collect();
        order.sort_by(|(left, _), (right, _)| left.compare(right));
        order.into_iter().map(|(_, index)| index).collect()
    }
}

/// Decides which of `candidates` should carry `workload` now.
///
/// `thresholds` and `workload` are taken as validated. The cost grows with the number of
/// candidates and nothing else.
#[must_use]
pub fn decide(profile: Profile, thresholds: &Thresholds, workload: &Workload, candidates: &[Candidate]) -> Decision {
    let rules = Rules::of(profile);
    let demand = Demand::of(workload);
    let policy = SelectionPolicy::of(rules, &demand);
    let others = u32::try_from(candidates.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let available = candidates.iter().filter(|candidate| is_available(candidate)).count() as u32;

    let mut assessments = Vec::with_capacity(candidates.len());
    let mut best = Best::default();
    for (index, candidate) in candidates.iter().enumerate() {
        let health = &candidate.health;
        let load = Load::of(&candidate.capacity);
        let own = u32::from(is_available(candidate));
        let alternates = Alternates { total: others, available: available.saturating_sub(own) };
        let severity = health.state.severity();
        let prs = score::prs(demand.effective_criticality, severity, &load, &alternates);
        let fae = score::fae(
            thresholds,
            demand.effective_criticality,
            demand.is_release_path,
            health.gfs,
            &load,
            &alternates,
        );
        let verdict = admit::judge(rules, &demand, candidate, &load, prs);
        let rank = verdict.admits().then(|| {
            let gfs = round4(health.gfs);
            let rank = Rank::of(policy, health.state, gfs, &load);
            best.consider(index, rank, health.state, [severity, gfs, load.utilization]);
            rank
        });
        assessments.push(Assessment { prs, fae, verdict, load, alternates, rank });
    }
    Decision { choice: best.choice(), assessments }
}

/// What differs between profiles. A profile is one value of this type; no other code asks for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    /// Above this PRS a candidate is refused.
    pub(super) prs_limit: f64,
    /// Up to this effective criticality work is ranked headroom first.
    pub(super) headroom_first_up_to: f64,
    /// From this effective criticality on work is ranked health first.
    pub(super) health_first_from: f64,
}

/// The published prototype's rules.
const REFERENCE: Rules =
    Rules { prs_limit: PRS_LIMIT, headroom_first_up_to: HEADROOM_FIRST_UP_TO, health_first_from: HEALTH_FIRST_FROM };

impl Rules {
    fn of(profile: Profile) -> &'static Self {
        match profile {
            // No input can ask for the mesh profile yet; it will start from the reference.
            Profile::Reference | Profile::Mesh => &REFERENCE,
        }
    }
}

/// What a workload demands, derived once per decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Demand {
    pub(super) effective_criticality: f64,
    pub(super) latency_sla_ms: f64,
    /// The largest jitter it bears; absent if it bears any.
    pub(super) jitter_limit_ms: Option<f64>,
    pub(super) is_release_path: bool,
}

impl Demand {
    fn of(workload: &Workload) -> Self {
        let tolerance = workload.jitter_tolerance;
        let judged = tolerance < admit::JITTER_JUDGED_BELOW;
        Self {
            effective_criticality: workload.effective_criticality(),
            latency_sla_ms: workload.latency_sla_ms,
            jitter_limit_ms: judged.then_some(admit::JITTER_SCALE_MS * (1.0 - tolerance)),
            is_release_path: workload.is_release_path,
        }
    }
}

/// Whether other candidates may count on this one. One that is barred for this request is no way out.
fn is_available(candidate: &Candidate) -> bool {
    candidate.health.state.carries() && !candidate.capacity.hard_saturated() && candidate.barred.is_none()
}

/// The best-ranked and the healthiest admissible candidate so far.
#[derive(Default)]
struct Best {
    ranked: Option<(usize, Rank, PathState)>,
    healthiest: Option<(usize, Rank, Wellness)>,
}

/// Severity, rounded GFS, utilization: the smaller, the healthier.
type Wellness = [f64; 3];

impl Best {
    fn consider(&mut self, index: usize, rank: Rank, state: PathState, wellness: Wellness) {
        let better = |than: &Rank| rank.compare(than) == Ordering::Less;
        if self.ranked.as_ref().is_none_or(|(_, leader, _)| better(leader)) {
            self.ranked = Some((index, rank, state));
        }
        let healthier = self.healthiest.as_ref().is_none_or(|(_, leader, its)| match lexical(&wellness, its) {
            Ordering::Less => true,
            Ordering::Equal => better(leader),
            Ordering::Greater => false,
        });
        if healthier {
            self.healthiest = Some((index, rank, wellness));
        }
    }

    fn choice(&self) -> Choice {
        let (Some((chosen, _, state)), Some((healthiest, _, _))) = (&self.ranked, &self.healthiest) else {
            return Choice { outcome: Outcome::NoAdmissiblePool, chosen: None };
        };
        let outcome = if chosen != healthiest {
            Outcome::ReroutedToAlternate
        } else if *state == PathState::Healthy {
            Outcome::Admitted
        } else {
            Outcome::AdmittedDespiteDegradation
        };
        Choice { outcome, chosen: Some(*chosen) }
    }
}

#[cfg(test)]
mod tests;
