//! Propagation risk and failure amplification.

use super::decide::{Alternates, Load};
use crate::health::Thresholds;

/// How much of a candidate's load counts as depended on even when it is idle.
pub const DEPENDENCE_FLOOR: f64 = 0.25;
/// Below this GFS nothing is failing that could be amplified.
pub const FAE_GFS_FLOOR: f64 = 0.01;
/// The smallest GFS that a loss is divided by.
pub const FAE_GFS_DIVISOR: f64 = 0.05;
/// The weight of utilization as the loss that a failure causes.
pub const LOSS_PER_UTILIZATION: f64 = 0.25;
/// How much worse a loss is without any alternate.
pub const SOLE_ROUTE_SCARCITY: f64 = 2.5;
/// How much worse a loss is with one alternate; shared among more.
pub const ALTERNATE_SCARCITY: f64 = 0.5;
/// How much worse a loss is on a release path.
pub const RELEASE_FACTOR: f64 = 2.0;

/// Propagation Risk Score in [0, 1]: how likely a fault here spreads to what depends on it.
#[must_use]
pub fn prs(effective_criticality: f64, severity: f64, load: &Load, alternates: &Alternates) -> f64 {
    let (exposure, dependence) = if alternates.sole_route() {
        (1.0, 1.0)
    } else {
        (1.0 / f64::from(alternates.available + 1), (DEPENDENCE_FLOOR + load.utilization).min(1.0))
    };
    (exposure * effective_criticality * dependence * severity).min(1.0)
}

/// Failure Amplification Estimate in [0, `fae_max`]: what would be lost, per unit of visible fault.
#[must_use]
pub fn fae(
    thresholds: &Thresholds,
    effective_criticality: f64,
    is_release_path: bool,
    gfs: f64,
    load: &Load,
    alternates: &Alternates,
) -> f64 {
    if gfs < FAE_GFS_FLOOR {
        return 0.0;
    }
    let scarcity = if alternates.sole_route() {
        SOLE_ROUTE_SCARCITY
    } else {
        1.0 + ALTERNATE_SCARCITY / f64::from(alternates.available)
    };
    let share = f64::from(load.active_sessions) / thresholds.fae_cluster_scale;
    let exposed = share.max(LOSS_PER_UTILIZATION * load.utilization);
    let release = if is_release_path { RELEASE_FACTOR } else { 1.0 };
    let loss = (exposed * scarcity * effective_criticality * release).min(1.0);
    (loss / gfs.max(FAE_GFS_DIVISOR)).min(thresholds.fae_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Capacity;

    fn load(active_sessions: u32) -> Load {
        Load::of(&Capacity { active_sessions, max_capacity: 8, soft_fraction: 0.75 })
    }

    #[test]
    fn a_sole_route_is_wholly_exposed_and_depended_on() {
        let alone = Alternates { total: 3, available: 0 };
        assert_eq!(prs(0.7, 0.2, &load(0), &alone), 0.7 * 0.2);
        let one_more = Alternates { total: 3, available: 1 };
        assert_eq!(prs(0.7, 0.2, &load(0), &one_more), 0.5 * 0.7 * 0.25 * 0.2);
        assert_eq!(prs(1.0, 1.0, &load(8), &one_more), 0.5);
    }

    #[test]
    fn amplification_is_zero_without_a_fault_and_never_above_its_limit() {
        let thresholds = Thresholds::default();
        let one = Alternates { total: 1, available: 1 };
        assert_eq!(fae(&thresholds, 0.7, false, 0.009, &load(4), &one), 0.0);
        let some = fae(&thresholds, 0.7, false, 0.2, &load(4), &one);
        assert!((some - 0.125 * 1.5 * 0.7 / 0.2).abs() < 1e-12, "{some}");
        assert_eq!(fae(&thresholds, 0.7, true, 0.2, &load(4), &one), 2.0 * some);
        let alone = Alternates { total: 0, available: 0 };
        assert_eq!(fae(&thresholds, 1.0, true, 0.01, &load(8), &alone), 10.0);
    }
}
