//! From one row to a candidate: a row stands for a whole window, so there is no history to a state.

use std::sync::Arc;

use super::known::Pool;
use super::requests::Row;
use crate::health::Thresholds;
use crate::health::score::gfs;
use crate::health::window::WindowStats;
use crate::model::{PathHealth, PathState};
use crate::policy::decide::Candidate;

/// The state that the metrics of one row lead to.
///
/// ```text
/// QUARANTINE_CANDIDATE  drop rate ≥ drop_quarantine, or latency ≥ latency_quarantine_ms
/// DEGRADED_RESTRICTED   latency ≥ latency_restricted_ms, jitter ≥ jitter_restricted_ms, or drop rate ≥ drop_restricted
/// DEGRADED_USABLE       latency ≥ latency_degraded_ms, jitter ≥ jitter_degraded_ms, or drop rate ≥ drop_degraded
/// HEALTHY               otherwise
/// ```
#[must_use]
pub fn state_of(thresholds: &Thresholds, latency_ms: f64, jitter_ms: f64, drop_rate: f64) -> PathState {
    if drop_rate >= thresholds.drop_quarantine || latency_ms >= thresholds.latency_quarantine_ms {
        PathState::QuarantineCandidate
    } else if latency_ms >= thresholds.latency_restricted_ms
        || jitter_ms >= thresholds.jitter_restricted_ms
        || drop_rate >= thresholds.drop_restricted
    {
        PathState::DegradedRestricted
    } else if latency_ms >= thresholds.latency_degraded_ms
        || jitter_ms >= thresholds.jitter_degraded_ms
        || drop_rate >= thresholds.drop_degraded
    {
        PathState::DegradedUsable
    } else {
        PathState::Healthy
    }
}

/// What a row says of its pool, as a decision reads it: proven and fresh, for it is all that the
/// history knows.
pub(super) fn candidate(thresholds: &Thresholds, row: &Row, pool: &Pool) -> Candidate {
    let Row { latency_ms, jitter_ms, drop_rate, .. } = *row;
    let sample_count = thresholds.min_samples.max(1);
    let stats = WindowStats { p99_latency_ms: latency_ms, jitter_ms, mean_drop_rate: drop_rate, sample_count };
    let health = PathHealth {
        state: state_of(thresholds, latency_ms, jitter_ms, drop_rate),
        gfs: gfs(thresholds, &stats),
        p99_latency_ms: latency_ms,
        jitter_ms,
        mean_drop_rate: drop_rate,
        sample_count,
        bandwidth_ratio: None,
        failed_bytes: 0,
    };
    Candidate { health_age_ms: Some(0), ..Candidate::new(Arc::clone(&pool.target), health, row.capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_belongs_to_the_state_that_it_begins() {
        let thresholds = Thresholds::default();
        let state = |latency_ms, jitter_ms, drop_rate| state_of(&thresholds, latency_ms, jitter_ms, drop_rate);
        let table = [
            (4.999, 1.999, 0.000_999, PathState::Healthy),
            (5.0, 0.0, 0.0, PathState::DegradedUsable),
            (0.0, 2.0, 0.0, PathState::DegradedUsable),
            (0.0, 0.0, 0.001, PathState::DegradedUsable),
            (14.999, 7.999, 0.009_999, PathState::DegradedUsable),
            (15.0, 0.0, 0.0, PathState::DegradedRestricted),
            (0.0, 8.0, 0.0, PathState::DegradedRestricted),
            (0.0, 0.0, 0.01, PathState::DegradedRestricted),
            (39.999, 1e6, 0.049_999, PathState::DegradedRestricted),
            (40.0, 0.0, 0.0, PathState::QuarantineCandidate),
            (0.0, 0.0, 0.05, PathState::QuarantineCandidate),
        ];
        for (latency_ms, jitter_ms, drop_rate, expected) in table {
            assert_eq!(state(latency_ms, jitter_ms, drop_rate), expected, "{latency_ms} {jitter_ms} {drop_rate}");
        }
    }
}
