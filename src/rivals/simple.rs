//! The three naive baselines of the published prototype.
//!
//! Each takes the smallest vector of numbers, the first pool in the order given on a tie. They have
//! no parameters and no memory. Which pools they may choose from is the caller's matter, see
//! [`Choosable`](super::Choosable).

use std::cmp::Ordering;

use super::{Ask, Rival, Sight};
use crate::model::PathState;

/// The smallest (p99 latency in ms, GFS, utilization).
pub(super) struct LowestLatency;

impl Rival for LowestLatency {
    fn choose(&mut self, _ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        least(pools.iter().enumerate(), |sight| [sight.latency_ms, sight.gfs, sight.load.utilization])
    }
}

/// Of those in state HEALTHY the lowest p99 latency; if none is, the lowest (p99 latency,
/// utilization) of all. Health is yes or no here: a slightly degraded pool counts as little as a
/// quarantined one.
pub(super) struct BinaryHealthOnly;

impl Rival for BinaryHealthOnly {
    fn choose(&mut self, _ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let healthy = pools.iter().enumerate().filter(|(_, sight)| sight.state == PathState::Healthy);
        least(healthy, |sight| [sight.latency_ms])
            .or_else(|| least(pools.iter().enumerate(), |sight| [sight.latency_ms, sight.load.utilization]))
    }
}

/// The smallest (−free sessions, p99 latency). The prototype's replay writes it as the largest
/// (free sessions, −p99 latency), which is the same order.
pub(super) struct CapacityOnly;

impl Rival for CapacityOnly {
    fn choose(&mut self, _ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        least(pools.iter().enumerate(), |sight| [-f64::from(sight.load.remaining), sight.latency_ms])
    }
}

/// The index of the smallest key, the first on a tie.
pub(super) fn least<'a, 'b: 'a, const N: usize>(
    pools: impl Iterator<Item = (usize, &'a Sight<'b>)>,
    key: impl Fn(&Sight<'b>) -> [f64; N],
) -> Option<usize> {
    pools.map(|(index, sight)| (index, key(sight))).min_by(|(_, l), (_, r)| compare(l, r)).map(|(index, _)| index)
}

/// Number by number. Zero is taken as positive, so that −0 ties with 0; NaN comes last.
pub(super) fn compare<const N: usize>(left: &[f64; N], right: &[f64; N]) -> Ordering {
    let unequal = left.iter().zip(right).map(|(l, r)| (l + 0.0).total_cmp(&(r + 0.0)));
    unequal.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, sight};
    use super::*;

    fn choose(mut rival: impl Rival, pools: &[Sight<'_>]) -> Option<usize> {
        rival.choose(&ask(0.0), pools)
    }

    #[test]
    fn the_lowest_latency_wins_then_gfs_then_utilization_then_the_order() {
        let pools = [sight("a", 3.0, 1), sight("b", 2.0, 7)];
        assert_eq!(choose(LowestLatency, &pools), Some(1));
        let pools = [Sight { gfs: 0.2, ..sight("a", 2.0, 0) }, Sight { gfs: 0.1, ..sight("b", 2.0, 7) }];
        assert_eq!(choose(LowestLatency, &pools), Some(1));
        let pools = [sight("a", 2.0, 5), sight("b", 2.0, 4), sight("c", 2.0, 4)];
        assert_eq!(choose(LowestLatency, &pools), Some(1));
    }

    #[test]
    fn a_slower_healthy_pool_beats_a_faster_degraded_one() {
        let degraded = Sight { state: PathState::DegradedUsable, ..sight("a", 1.0, 0) };
        let pools = [degraded, sight("b", 9.0, 7), sight("c", 8.0, 7)];
        assert_eq!(choose(BinaryHealthOnly, &pools), Some(2));
    }

    #[test]
    fn among_equally_fast_healthy_pools_the_load_does_not_matter() {
        assert_eq!(choose(BinaryHealthOnly, &[sight("a", 2.0, 7), sight("b", 2.0, 0)]), Some(0));
    }

    #[test]
    fn without_a_healthy_pool_latency_then_utilization_decide() {
        let restored =
            |name, latency_ms, active| Sight { state: PathState::Restored, ..sight(name, latency_ms, active) };
        let pools = [restored("a", 3.0, 0), restored("b", 2.0, 5), restored("c", 2.0, 4)];
        assert_eq!(choose(BinaryHealthOnly, &pools), Some(2));
    }

    #[test]
    fn the_most_free_sessions_win_then_latency_then_the_order() {
        assert_eq!(choose(CapacityOnly, &[sight("a", 1.0, 5), sight("b", 9.0, 2)]), Some(1));
        assert_eq!(choose(CapacityOnly, &[sight("a", 3.0, 2), sight("b", 2.0, 2), sight("c", 2.0, 2)]), Some(1));
    }

    #[test]
    fn minus_zero_ties_with_zero_and_nan_comes_last() {
        assert_eq!(choose(LowestLatency, &[sight("a", 0.0, 0), sight("b", -0.0, 0)]), Some(0));
        assert_eq!(choose(LowestLatency, &[sight("a", f64::NAN, 0), sight("b", 7.0, 0)]), Some(1));
    }
}
