//! Whether a candidate may carry a workload: the first rule that applies, with the numbers it compared.

use super::decide::{Candidate, Demand, Load, Verdict};
use super::rules::Rules;
use crate::model::{PathState, Reason};

/// Milliseconds of jitter that a class without any tolerance bears.
pub const JITTER_SCALE_MS: f64 = 5.0;
/// From this tolerance on jitter is not judged.
pub const JITTER_JUDGED_BELOW: f64 = 0.4;
/// The largest effective criticality on a DEGRADED_RESTRICTED path.
pub const RESTRICTED_CRITICALITY: f64 = 0.50;
/// The largest effective criticality on a DEGRADED_USABLE path; a release path is never below.
pub const USABLE_CRITICALITY: f64 = 0.85;
/// The largest effective criticality on a RESTORED path.
pub const RESTORED_CRITICALITY: f64 = 0.60;

/// Judges `candidate`, whose propagation risk is `prs`; `dark` if this work goes on although nobody
/// can vouch for any candidate.
pub(super) fn judge(
    rules: &Rules<'_>,
    demand: &Demand,
    candidate: &Candidate,
    load: &Load,
    prs: f64,
    dark: bool,
) -> Verdict {
    if let Some(barred) = candidate.barred {
        return barred;
    }
    let health = &candidate.health;
    if load.hard_saturated {
        let (active, max) = (f64::from(load.active_sessions), f64::from(load.max_capacity));
        return Verdict::compared(Reason::RejectedCapacity, active, max);
    }
    let unknown = rules.mesh.and_then(|mesh| mesh.unknown(candidate));
    if let Some(unknown) = unknown
        && !dark
    {
        return unknown;
    }
    if !health.state.carries() {
        return refused_state(rules, candidate);
    }
    if prs > rules.prs_limit {
        return Verdict::compared(Reason::RejectedPrsTooHigh, prs, rules.prs_limit);
    }
    if health.p99_latency_ms > demand.latency_sla_ms {
        return Verdict::compared(Reason::RejectedLatencySlaViolation, health.p99_latency_ms, demand.latency_sla_ms);
    }
    if let Some(limit) = demand.jitter_limit_ms
        && health.jitter_ms > limit
    {
        return Verdict::compared(Reason::RejectedJitterIntolerance, health.jitter_ms, limit);
    }
    if let (Some(mesh_budget_ms), Some(predicted_ms), Some(_)) =
        (demand.transfer_budget_ms, candidate.predicted_ms, rules.mesh)
        && predicted_ms > mesh_budget_ms
    {
        return Verdict::compared(Reason::RejectedTransferBudget, predicted_ms, mesh_budget_ms);
    }
    let limit = match health.state {
        PathState::Healthy => match (unknown, rules.mesh) {
            (Some(_), Some(mesh)) => mesh.blackout_criticality(),
            _ => return Verdict { code: Reason::Admitted, observed: None, limit: None },
        },
        PathState::Restored => RESTORED_CRITICALITY,
        PathState::DegradedUsable => USABLE_CRITICALITY,
        // The last two carry nothing, which was said above.
        PathState::DegradedRestricted | PathState::QuarantineCandidate | PathState::Quarantined => {
            RESTRICTED_CRITICALITY
        }
    };
    if demand.effective_criticality <= limit {
        return Verdict::compared(Reason::AdmittedDespiteDegradation, demand.effective_criticality, limit);
    }
    if candidate.overridden {
        return Verdict::compared(Reason::RejectedOverride, demand.effective_criticality, limit);
    }
    by_bandwidth(rules, candidate).unwrap_or_else(|| {
        Verdict::compared(Reason::RejectedCriticalityTooHighForState, demand.effective_criticality, limit)
    })
}

/// Why a path whose state carries nothing is refused.
fn refused_state(rules: &Rules<'_>, candidate: &Candidate) -> Verdict {
    let (severity, limit) = (candidate.health.state.severity(), PathState::DegradedRestricted.severity());
    if candidate.overridden {
        return Verdict::compared(Reason::RejectedOverride, severity, limit);
    }
    by_bandwidth(rules, candidate).unwrap_or_else(|| Verdict::compared(Reason::RejectedPoolState, severity, limit))
}

/// Names the bandwidth where it alone leads to the path's state.
fn by_bandwidth(rules: &Rules<'_>, candidate: &Candidate) -> Option<Verdict> {
    let ratio = candidate.health.bandwidth_ratio?;
    let (state, below) = rules.mesh?.bandwidth_step(ratio)?;
    let leads = state.severity() >= candidate.health.state.severity();
    leads.then(|| Verdict::compared(Reason::RejectedBandwidth, ratio, below))
}
