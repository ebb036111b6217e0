//! One decision: a slice of candidates and a workload in, an assessment of each and a choice out.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::alternates::{Alternates, WaysOut};
use super::round::round4;
use super::rules::{GFS_BAND, Rules, banded};
use super::select::{Rank, SelectionPolicy, lexical};
use super::{admit, exclude, score};
use crate::health::Thresholds;
use crate::model::{
    Blame, Capacity, Evidence, Mode, NodeName, OnNoAdmissible, Outcome, PathHealth, PathId, PoolName, Profile, Reason,
    RiskGroup, Workload,
};

/// The share of a pool that may be excluded, unless configured otherwise.
pub const MAX_EXCLUDED_FRACTION: f64 = 0.5;

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
    /// How long the request's bytes would take, in milliseconds, where that can be said.
    pub predicted_ms: Option<f64>,
    /// The host's time per output token over its pool's median, where both are known.
    pub token_time_ratio: Option<f64>,
    /// How many of the source's rails are configured before the first of its backend: what comes first
    /// is preferred among equals.
    pub backend_order: u16,
    /// The path's state is an operator's word.
    pub overridden: bool,
    /// Where the path's degradation is placed, if that can be said.
    pub blame: Option<Blame>,
    /// A reason, known before any score, to refuse it for this request (draining, incompatible,
    /// tried and failed, not enough KV bytes), with the numbers compared.
    pub barred: Option<Verdict>,
}

impl Candidate {
    /// A candidate that nothing else is known of.
    #[must_use]
    pub fn new(target: Arc<Target>, health: PathHealth, capacity: Capacity) -> Self {
        Self {
            target,
            risk_group: None,
            health,
            health_age_ms: None,
            evidence: Evidence::Own,
            capacity,
            capacity_age_ms: None,
            predicted_ms: None,
            token_time_ratio: None,
            backend_order: 0,
            overridden: false,
            blame: None,
            barred: None,
        }
    }
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
        matches!(self.code, Reason::Admitted | Reason::AdmittedDespiteDegradation | Reason::AdmittedLeastBad)
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

/// What is asked, and by which rules.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Which set of rules decides.
    pub profile: Profile,
    /// Their numbers, validated.
    pub thresholds: &'a Thresholds,
    /// What asks, validated.
    pub workload: &'a Workload,
    /// How long the transfer may take, in milliseconds, where that is judged.
    pub transfer_budget_ms: Option<f64>,
    /// The share of a pool that may be excluded, in [0, 1].
    pub max_excluded_fraction: f64,
    /// What breaks ties among equals.
    pub tie: u64,
}

impl<'a> Terms<'a> {
    /// Terms without a transfer budget, that may exclude a whole pool.
    #[must_use]
    pub fn new(profile: Profile, thresholds: &'a Thresholds, workload: &'a Workload) -> Self {
        Self { profile, thresholds, workload, transfer_budget_ms: None, max_excluded_fraction: 1.0, tie: 0 }
    }
}

/// Decides which of `candidates` should carry a workload now.
///
/// The cost grows with the number of candidates and nothing else.
#[must_use]
pub fn decide(terms: &Terms<'_>, candidates: &[Candidate]) -> Decision {
    let rules = Rules::of(terms.profile, terms.thresholds);
    let demand = Demand::of(terms);
    let policy = SelectionPolicy::of(&rules, &demand);
    let ways_out = WaysOut::among(&rules, candidates);
    let dark = ways_out.dark && rules.mesh.is_some_and(|mesh| mesh.bears_blackout(&demand));

    let mut assessments = Vec::with_capacity(candidates.len());
    let mut best = Best::default();
    for (index, candidate) in candidates.iter().enumerate() {
        let health = &candidate.health;
        let load = Load::of(&candidate.capacity);
        let alternates = ways_out.beside(candidate);
        let severity = health.state.severity();
        let prs = score::prs(demand.effective_criticality, severity, &load, &alternates);
        let fae = score::fae(&rules, terms.thresholds, &demand, health.gfs, &load, &alternates);
        let verdict = admit::judge(&rules, &demand, candidate, &load, prs, dark);
        let rank = verdict.admits().then(|| {
            let rank = Rank::of(policy, &rules, candidate, &load, terms.tie);
            best.consider(index, rank, verdict.code, Wellness::of(&rules, candidate, &load));
            rank
        });
        assessments.push(Assessment { prs, fae, verdict, load, alternates, rank });
    }
    if let Some(mesh) = &rules.mesh {
        let mut taken = exclude::beyond_the_share(terms.max_excluded_fraction, candidates, &assessments);
        if best.is_empty() && taken.is_empty() && demand.takes_least_bad {
            taken.extend(exclude::least_bad(mesh, terms.tie, candidates, &assessments));
        }
        for index in taken {
            if let (Some(candidate), Some(assessment)) = (candidates.get(index), assessments.get_mut(index)) {
                let rank = Rank::of(policy, &rules, candidate, &assessment.load, terms.tie);
                let rank = Rank { last_resort: true, ..rank };
                assessment.verdict.code = Reason::AdmittedLeastBad;
                assessment.rank = Some(rank);
                best.consider(index, rank, assessment.verdict.code, Wellness::of(&rules, candidate, &assessment.load));
            }
        }
    }
    Decision { choice: best.choice(), assessments }
}

/// What a workload demands, derived once per decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Demand {
    pub(super) effective_criticality: f64,
    pub(super) latency_sla_ms: f64,
    /// The largest jitter it bears; absent if it bears any.
    pub(super) jitter_limit_ms: Option<f64>,
    pub(super) is_release_path: bool,
    pub(super) transfer_budget_ms: Option<f64>,
    /// Where nothing is admissible the least bad is taken: asked for, or since the word is advice.
    takes_least_bad: bool,
}

impl Demand {
    pub(super) fn of(terms: &Terms<'_>) -> Self {
        let workload = terms.workload;
        let tolerance = workload.jitter_tolerance;
        let judged = tolerance < admit::JITTER_JUDGED_BELOW;
        Self {
            effective_criticality: workload.effective_criticality(),
            latency_sla_ms: workload.latency_sla_ms,
            jitter_limit_ms: judged.then_some(admit::JITTER_SCALE_MS * (1.0 - tolerance)),
            is_release_path: workload.is_release_path,
            transfer_budget_ms: terms.transfer_budget_ms,
            takes_least_bad: workload.on_no_admissible == OnNoAdmissible::LeastBad || workload.mode == Mode::Advise,
        }
    }
}

/// Severity, GFS, utilization, as far as a profile tells them apart: the smaller, the healthier.
#[derive(Clone, Copy)]
struct Wellness([f64; 3]);

impl Wellness {
    fn of(rules: &Rules<'_>, candidate: &Candidate, load: &Load) -> Self {
        let severity = candidate.health.state.severity();
        Self(match &rules.mesh {
            None => [severity, round4(candidate.health.gfs), load.utilization],
            Some(mesh) => [severity, banded(candidate.health.gfs, GFS_BAND), mesh.ranked_load(load)],
        })
    }
}

/// The best-ranked and the healthiest admissible candidate so far.
#[derive(Default)]
struct Best {
    ranked: Option<(usize, Rank, Reason)>,
    healthiest: Option<(usize, Rank, Wellness)>,
}

impl Best {
    fn is_empty(&self) -> bool {
        self.ranked.is_none()
    }

    fn consider(&mut self, index: usize, rank: Rank, code: Reason, wellness: Wellness) {
        let better = |than: &Rank| rank.compare(than) == Ordering::Less;
        if self.ranked.as_ref().is_none_or(|(_, leader, _)| better(leader)) {
            self.ranked = Some((index, rank, code));
        }
        let healthier = self.healthiest.as_ref().is_none_or(|(_, leader, its)| {
            let resort = rank.last_resort.cmp(&leader.last_resort);
            match resort.then_with(|| lexical(&wellness.0, &its.0)) {
                Ordering::Less => true,
                Ordering::Equal => better(leader),
                Ordering::Greater => false,
            }
        });
        if healthier {
            self.healthiest = Some((index, rank, wellness));
        }
    }

    fn choice(&self) -> Choice {
        let (Some((chosen, _, code)), Some((healthiest, _, _))) = (&self.ranked, &self.healthiest) else {
            return Choice { outcome: Outcome::NoAdmissiblePool, chosen: None };
        };
        let outcome = if *code == Reason::AdmittedLeastBad {
            Outcome::AdmittedLeastBad
        } else if chosen != healthiest {
            Outcome::ReroutedToAlternate
        } else if *code == Reason::Admitted {
            Outcome::Admitted
        } else {
            Outcome::AdmittedDespiteDegradation
        };
        Choice { outcome, chosen: Some(*chosen) }
    }
}

#[cfg(test)]
mod tests;
