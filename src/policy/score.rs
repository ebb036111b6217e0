//! Propagation risk and failure amplification.

use super::alternates::Alternates;
use super::decide::{Demand, Load};
use super::rules::Rules;
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

/// Failure Amplification Estimate in [0, `fae_max`].
///
/// The reference says what would be lost per unit of visible fault, so it shrinks as the fault
/// grows. The mesh profile says what is lost: it never shrinks with GFS, load or scarcity.
#[must_use]
pub(super) fn fae(
    rules: &Rules<'_>,
    thresholds: &Thresholds,
    demand: &Demand,
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
    let release = if demand.is_release_path { RELEASE_FACTOR } else { 1.0 };
    let loss = (exposed * scarcity * demand.effective_criticality * release).min(1.0);
    match rules.mesh {
        None => (loss / gfs.max(FAE_GFS_DIVISOR)).min(thresholds.fae_max),
        Some(_) => thresholds.fae_max * gfs.min(1.0) * loss,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Capacity, Profile, Workload, builtin_workloads};
    use crate::policy::decide::Terms;

    fn load(active_sessions: u32) -> Load {
        Load::of(&Capacity { active_sessions, max_capacity: 8, soft_fraction: 0.75 })
    }

    /// FAE of a class of this criticality.
    fn amplified(profile: Profile, criticality: f64, release: bool, gfs: f64, load: &Load, ways: &Alternates) -> f64 {
        let thresholds = Thresholds::default();
        let base = builtin_workloads().remove(0);
        let workload = Workload { criticality, is_release_path: release, ..base };
        let demand = Demand::of(&Terms::new(profile, &thresholds, &workload));
        fae(&Rules::of(profile, &thresholds), &thresholds, &demand, gfs, load, ways)
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
        let one = Alternates { total: 1, available: 1 };
        let reference = Profile::Reference;
        assert_eq!(amplified(reference, 0.7, false, 0.009, &load(4), &one), 0.0);
        let some = amplified(reference, 0.9, false, 0.2, &load(4), &one);
        assert!((some - 0.125 * 1.5 * 0.9 / 0.2).abs() < 1e-12, "{some}");
        assert_eq!(amplified(reference, 0.9, true, 0.2, &load(4), &one), 2.0 * some);
        let alone = Alternates { total: 0, available: 0 };
        assert_eq!(amplified(reference, 1.0, true, 0.01, &load(8), &alone), 10.0);
        let mesh = amplified(Profile::Mesh, 0.9, false, 0.2, &load(4), &one);
        assert!((mesh - 10.0 * 0.2 * 0.125 * 1.5 * 0.9).abs() < 1e-12, "{mesh}");
    }

    #[test]
    fn the_reference_lets_amplification_shrink_as_the_fault_grows() {
        let one = Alternates { total: 1, available: 1 };
        let at = |gfs| amplified(Profile::Reference, 0.7, false, gfs, &load(4), &one);
        assert!(at(0.6) < at(0.2));
    }

    proptest! {
        #[test]
        fn in_the_mesh_profile_amplification_never_shrinks_with_gfs_load_or_scarcity(
            gfs in (0.0..=1.0f64, 0.0..=1.0f64),
            active in (0..=8u32, 0..=8u32),
            available in (0..6u32, 0..6u32),
            criticality in 0.0..=1.0f64,
            release in any::<bool>(),
        ) {
            let at = |gfs: f64, active: u32, available: u32| {
                let ways = Alternates { total: 6, available };
                amplified(Profile::Mesh, criticality, release, gfs, &load(active), &ways)
            };
            let least = at(gfs.0.min(gfs.1), active.0.min(active.1), available.0.max(available.1));
            let most = at(gfs.0.max(gfs.1), active.0.max(active.1), available.0.min(available.1));
            prop_assert!(least <= most, "{} {}", least, most);
            prop_assert!((0.0..=10.0).contains(&most));
        }
    }
}
