//! Whether a candidate may carry a workload: the first rule that applies, with the numbers it compared.

use super::decide::{Candidate, Demand, Load, Rules, Verdict};
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

/// Judges `candidate`, whose propagation risk is `prs`.
pub(super) fn judge(rules: &Rules, demand: &Demand, candidate: &Candidate, load: &Load, prs: f64) -> Verdict {
    if let Some(barred) = candidate.barred {
        return barred;
    }
    let health = &candidate.health;
    if load.hard_saturated {
        let (active, max) = (f64::from(load.active_sessions), f64::from(load.max_capacity));
        return Verdict::compared(Reason::RejectedCapacity, active, max);
    }
    if !health.state.carries() {
        let limit = PathState::DegradedRestricted.severity();
        return Verdict::compared(Reason::RejectedPoolState, health.state.severity(), limit);
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
    match health.state {
        PathState::Healthy => Verdict { code: Reason::Admitted, observed: None, limit: None },
        PathState::Restored => by_criticality(demand, RESTORED_CRITICALITY),
        PathState::DegradedUsable => by_criticality(demand, USABLE_CRITICALITY),
        // The last two carry nothing, which was said above.
        PathState::DegradedRestricted | PathState::QuarantineCandidate | PathState::Quarantined => {
            by_criticality(demand, RESTRICTED_CRITICALITY)
        }
    }
}

fn by_criticality(demand: &Demand, limit: f64) -> Verdict {
    let code = if demand.effective_criticality > limit {
        Reason::RejectedCriticalityTooHighForState
    } else {
        Reason::AdmittedDespiteDegradation
    };
    Verdict::compared(code, demand.effective_criticality, limit)
}
