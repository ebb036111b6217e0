//! What differs between profiles in a decision: a profile is one value of `Rules`. How leases are asked
//! for and transfers tried differs too, and is said where it is done (`asking`, `routes`, `transfers`).

use super::decide::{Candidate, Demand, Load, Verdict};
use crate::health::{Thresholds, bandwidth_state};
use crate::model::{Evidence, PathState, Profile, Reason};

/// The reference refuses a candidate above this PRS.
pub const PRS_LIMIT: f64 = 0.75;
/// Work is ranked headroom first up to this effective criticality.
pub const HEADROOM_FIRST_UP_TO: f64 = 0.35;
/// The reference ranks health first from this effective criticality on.
pub const HEALTH_FIRST_FROM: f64 = 0.75;
/// The mesh profile ranks GFS in bands of this width: less is noise of the measurement.
pub const GFS_BAND: f64 = 0.05;
/// The mesh profile ranks utilization in bands of this width.
pub const UTILIZATION_BAND: f64 = 0.125;

/// The rules of one profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules<'a> {
    /// Above this PRS a candidate is refused.
    pub(super) prs_limit: f64,
    /// From this effective criticality on work is ranked health first.
    pub(super) health_first_from: f64,
    /// What the prototype does not know; absent in the reference profile.
    pub(super) mesh: Option<MeshRules<'a>>,
}

/// What the mesh profile adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeshRules<'a> {
    thresholds: &'a Thresholds,
}

impl<'a> Rules<'a> {
    pub(super) fn of(profile: Profile, thresholds: &'a Thresholds) -> Self {
        match profile {
            Profile::Reference => Self { prs_limit: PRS_LIMIT, health_first_from: HEALTH_FIRST_FROM, mesh: None },
            Profile::Mesh => Self {
                prs_limit: thresholds.prs_reject_threshold,
                health_first_from: thresholds.health_first_from,
                mesh: Some(MeshRules { thresholds }),
            },
        }
    }
}

impl MeshRules<'_> {
    /// Why nobody can vouch for a candidate, if so. An operator's word needs no samples; another
    /// observer's is as fresh as its record.
    pub(super) fn unknown(&self, candidate: &Candidate) -> Option<Verdict> {
        if candidate.overridden || candidate.evidence == Evidence::Observed {
            return None;
        }
        if let Some(age_ms) = candidate.health_age_ms.map(|age| age as f64)
            && age_ms > self.thresholds.stale_after_ms
        {
            return Some(Verdict::compared(Reason::RejectedStale, age_ms, self.thresholds.stale_after_ms));
        }
        let samples = candidate.health.sample_count;
        (samples < self.thresholds.min_samples).then(|| {
            Verdict::compared(Reason::RejectedUnproven, f64::from(samples), f64::from(self.thresholds.min_samples))
        })
    }

    /// Whether nobody can vouch for any of `candidates` that this request may use: then what is
    /// unknown says something of the telemetry, and nothing of the paths.
    pub(super) fn blackout(&self, candidates: &[Candidate]) -> bool {
        !candidates.iter().any(|candidate| candidate.barred.is_none() && self.unknown(candidate).is_none())
    }

    /// The largest effective criticality that goes on in a blackout.
    pub(super) fn blackout_criticality(&self) -> f64 {
        self.thresholds.blackout_criticality
    }

    /// Whether work so tolerant goes on in a blackout.
    pub(super) fn bears_blackout(&self, demand: &Demand) -> bool {
        demand.effective_criticality <= self.blackout_criticality()
    }

    /// The state that a path's bandwidth alone leads to, and the ratio below which it does.
    pub(super) fn bandwidth_step(&self, ratio: f64) -> Option<(PathState, f64)> {
        let state = bandwidth_state(self.thresholds, ratio);
        let below = match state {
            PathState::DegradedUsable => self.thresholds.bandwidth_degraded,
            PathState::DegradedRestricted => self.thresholds.bandwidth_restricted,
            PathState::QuarantineCandidate => self.thresholds.bandwidth_quarantine,
            PathState::Healthy | PathState::Restored | PathState::Quarantined => return None,
        };
        Some((state, below))
    }

    /// A candidate's load as far as it ranks: below the limit health and quote decide.
    pub(super) fn ranked_load(&self, load: &Load) -> f64 {
        if load.utilization < self.thresholds.load_ranks_from {
            0.0
        } else {
            banded(load.utilization, UTILIZATION_BAND)
        }
    }

    /// How far a host's token time is above its pool's median: 0 as usual, 1 slow, 2 very slow.
    pub(super) fn slowness(&self, token_time_ratio: Option<f64>) -> f64 {
        match token_time_ratio {
            Some(ratio) if ratio >= self.thresholds.token_time_restricted => 2.0,
            Some(ratio) if ratio >= self.thresholds.token_time_degraded => 1.0,
            Some(_) | None => 0.0,
        }
    }
}

/// `value` cut down to whole bands of `width`, in multiples that four decimals can say.
pub(super) fn banded(value: f64, width: f64) -> f64 {
    // Half a millionth lifts what rounding has put just below a whole band.
    super::round4(libm::floor(value / width + 5e-7) * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_starts_at_its_own_limit() {
        assert_eq!([0.0, 0.049, 0.05, 0.15, 0.149_9].map(|gfs| banded(gfs, GFS_BAND)), [0.0, 0.0, 0.05, 0.15, 0.1]);
        assert_eq!(
            [0.74, 0.75, 0.874, 0.875, 1.0].map(|u| banded(u, UTILIZATION_BAND)),
            [0.625, 0.75, 0.75, 0.875, 1.0]
        );
    }
}
