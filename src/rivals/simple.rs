//! The published prototype's naive baselines.

use super::{Ask, Rival, Sight};

/// The lowest (p99, gfs, utilization).
pub(super) struct LowestLatency;

impl Rival for LowestLatency {
    fn choose(&mut self, _ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let key = |sight: &Sight<'_>| [sight.latency_ms, sight.gfs, sight.load.utilization];
        let order = |left: &[f64; 3], right: &[f64; 3]| {
            left.iter()
                .zip(right)
                .map(|(l, r)| l.total_cmp(r))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        };
        (0..pools.len()).min_by(|&left, &right| match (pools.get(left), pools.get(right)) {
            (Some(left), Some(right)) => order(&key(left), &key(right)),
            _ => std::cmp::Ordering::Equal,
        })
    }
}
