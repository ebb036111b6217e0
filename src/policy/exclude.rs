//! How much of a pool may be refused, and what is taken when everything is.
//!
//! A pool that is refused beyond its share says more of the judge than of the paths: a threshold
//! that is too tight, or a fault that all share. Beyond the share candidates are ranked, not refused.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::decide::{Assessment, Candidate};
use super::rules::{GFS_BAND, MeshRules, banded};
use super::select::lexical;
use super::tie;
use crate::model::{PoolName, Reason};

/// The candidates refused beyond `share` of their pool, the least bad of each pool. One candidate
/// of a pool may always be excluded.
pub(super) fn beyond_the_share(share: f64, candidates: &[Candidate], assessments: &[Assessment]) -> Vec<usize> {
    let mut beyond = Vec::new();
    let excluded = |assessment: &Assessment| {
        matches!(assessment.verdict.code, Reason::RejectedPoolState | Reason::RejectedBandwidth)
    };
    if share >= 1.0 || !assessments.iter().any(excluded) {
        return beyond;
    }
    let mut pools: BTreeMap<&PoolName, (usize, Vec<usize>)> = BTreeMap::new();
    for (index, (candidate, assessment)) in candidates.iter().zip(assessments.iter()).enumerate() {
        let (members, refused) = pools.entry(&candidate.target.pool).or_default();
        *members += 1;
        if excluded(assessment) && !candidate.health.state.carries() && candidate.barred.is_none() {
            refused.push(index);
        }
    }
    for (members, mut refused) in pools.into_values() {
        let allowed = libm::floor(members as f64 * share + 1e-9).max(1.0) as usize;
        if refused.len() <= allowed {
            continue;
        }
        let badness = |index: &usize| candidates.get(*index).map_or([f64::INFINITY; 2], badness);
        refused.sort_by(|left, right| lexical(&badness(left), &badness(right)));
        let back = refused.len() - allowed;
        // A path on which transfers failed is left to its canaries.
        let trusted =
            |index: &usize| candidates.get(*index).is_some_and(|candidate| candidate.health.failed_bytes == 0);
        beyond.extend(refused.into_iter().filter(trusted).take(back));
    }
    beyond
}

/// The least bad of candidates that are all refused, if it was its health that spoke against
/// it: what is full, draining, incompatible or excluded by name stays refused.
pub(super) fn least_bad(
    mesh: &MeshRules<'_>,
    tie: u64,
    candidates: &[Candidate],
    assessments: &[Assessment],
) -> Option<usize> {
    let by_health = |code: Reason| {
        matches!(
            code,
            Reason::RejectedPoolState
                | Reason::RejectedPrsTooHigh
                | Reason::RejectedLatencySlaViolation
                | Reason::RejectedJitterIntolerance
                | Reason::RejectedCriticalityTooHighForState
                | Reason::RejectedUnproven
                | Reason::RejectedStale
                | Reason::RejectedTransferBudget
                | Reason::RejectedBandwidth
        )
    };
    let order = |candidate: &Candidate, assessment: &Assessment| {
        let [severity, gfs] = badness(candidate);
        [severity, gfs, mesh.ranked_load(&assessment.load), f64::from(tie::of_target(tie, &candidate.target))]
    };
    let eligible = candidates.iter().zip(assessments.iter()).enumerate().filter(|(_, (candidate, assessment))| {
        candidate.barred.is_none() && by_health(assessment.verdict.code) && candidate.health.failed_bytes == 0
    });
    let ordered = eligible.map(|(index, (candidate, assessment))| (index, order(candidate, assessment)));
    let least = ordered.reduce(|least, next| if lexical(&next.1, &least.1) == Ordering::Less { next } else { least });
    least.map(|(index, _)| index)
}

fn badness(candidate: &Candidate) -> [f64; 2] {
    [candidate.health.state.severity(), banded(candidate.health.gfs, GFS_BAND)]
}
