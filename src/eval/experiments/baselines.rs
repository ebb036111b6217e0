//! Seam beside other policies over 90 trials of one request each.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Share, Trials, mean, rounded};
use crate::eval::episode::{BadEpisode, Played, Routed};
use crate::model::{PathState, STRICT_FROM};
use crate::replay::TOLERANT_UP_TO;
use crate::rivals::Policy;

/// Policies that draw play all trials once for each of so many seeds; their figures are of all of them.
const SEEDS: u64 = 20;
/// Who is compared: all that need no prefix blocks, which the episodes have not.
const POLICIES: [Policy; 9] = [
    Policy::Seam,
    Policy::LowestLatency,
    Policy::BinaryHealthOnly,
    Policy::CapacityOnly,
    Policy::RoundRobin,
    Policy::P2cEwma,
    Policy::P2cSlowdownLease,
    Policy::Prequal,
    Policy::RailMonitor,
];

/// What each policy came to; written as a map by its published name.
#[derive(Clone, Debug, PartialEq)]
pub struct Baselines {
    /// Seam first, then the published baselines, then the others.
    pub standings: Vec<(Policy, Standing)>,
}

/// What one policy came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Standing {
    /// How often all trials were played, each time with another seed; once if nothing is drawn.
    pub seeds: u64,
    /// Requests, those of all seeds together.
    pub trials: usize,
    /// Those that went somewhere.
    pub admissions: usize,
    /// Those that went nowhere.
    pub rejections: usize,
    /// Those that went to a path that is not HEALTHY.
    pub admitted_despite_degradation: usize,
    /// Strict requests (effective criticality of at least 0.7) on HEALTHY, in percent.
    pub strict_workload_success_rate_pct: f64,
    /// Tolerant requests (at most 0.35) on DEGRADED_USABLE, in percent.
    pub tolerant_degraded_utilization_rate_pct: f64,
    /// Of the tolerant requests where a HEALTHY pool is soft saturated and a degraded one is
    /// admissible, those that were not placed on a HEALTHY one, in percent.
    pub healthy_headroom_preservation_rate_pct: f64,
    /// Mean PRS of the chosen.
    pub mean_prs: f64,
    /// Mean FAE of the chosen.
    pub mean_fae: f64,
    /// Mean p99 latency of the path that a strict request was placed on, in milliseconds.
    pub strict_mean_p99_ms: f64,
    /// The same of a tolerant request.
    pub tolerant_mean_p99_ms: f64,
    /// Strict requests.
    pub strict_trials: u32,
    /// Tolerant requests.
    pub tolerant_trials: u32,
    /// Tolerant requests that could spare a crowded HEALTHY pool.
    pub headroom_trials: u32,
}

impl Baselines {
    /// What `policy` came to.
    #[must_use]
    pub fn of(&self, policy: Policy) -> Option<&Standing> {
        self.standings.iter().find(|(name, _)| *name == policy).map(|(_, standing)| standing)
    }
}

impl Serialize for Baselines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.standings.len()))?;
        for (policy, standing) in &self.standings {
            let name = if *policy == Policy::Seam { "orchestrator" } else { policy.as_str() };
            map.serialize_entry(name, standing)?;
        }
        map.end()
    }
}

pub(super) fn run(trials: &Trials) -> Result<Baselines, BadEpisode> {
    let stand = |policy: Policy| {
        let seeds = if policy.draws() { SEEDS } else { 1 };
        let mut played = Vec::new();
        for seed in 0..seeds {
            played.extend(trials.under("baseline_comparison", policy, seed)?);
        }
        Ok((policy, Standing { seeds, ..standing(&played) }))
    };
    Ok(Baselines { standings: POLICIES.into_iter().map(stand).collect::<Result<_, _>>()? })
}

fn standing(played: &[Played]) -> Standing {
    let (mut strict, mut tolerant, mut headroom) = (Share::default(), Share::default(), Share::default());
    let routes = || played.iter().flat_map(|played| &played.routes);
    for routed in routes() {
        let on = |state: PathState| routed.on().is_some_and(|one| one.health.state == state);
        let criticality = routed.workload.effective_criticality();
        if criticality >= STRICT_FROM {
            strict.count(on(PathState::Healthy));
        }
        if criticality <= TOLERANT_UP_TO {
            tolerant.count(on(PathState::DegradedUsable));
            if could_spare(routed) {
                headroom.count(!on(PathState::Healthy));
            }
        }
    }
    let mean_p99_ms = |asks: fn(f64) -> bool| {
        let asks = routes().filter(|routed| asks(routed.workload.effective_criticality()));
        rounded(mean(asks.filter_map(Routed::on).map(|one| one.health.p99_latency_ms)), 1)
    };
    let chosen = || routes().filter_map(|routed| routed.decision.assessments.get(routed.chosen?));
    let admissions = routes().filter(|routed| routed.chosen.is_some()).count();
    Standing {
        seeds: 1,
        trials: routes().count(),
        admissions,
        rejections: routes().count() - admissions,
        admitted_despite_degradation: routes()
            .filter(|routed| routed.on().is_some_and(|one| one.health.state != PathState::Healthy))
            .count(),
        strict_workload_success_rate_pct: strict.pct(),
        tolerant_degraded_utilization_rate_pct: tolerant.pct(),
        healthy_headroom_preservation_rate_pct: headroom.pct(),
        mean_prs: rounded(mean(chosen().map(|found| found.prs)), 3),
        mean_fae: rounded(mean(chosen().map(|found| found.fae)), 3),
        strict_mean_p99_ms: mean_p99_ms(|criticality| criticality >= STRICT_FROM),
        tolerant_mean_p99_ms: mean_p99_ms(|criticality| criticality <= TOLERANT_UP_TO),
        strict_trials: strict.of,
        tolerant_trials: tolerant.of,
        headroom_trials: headroom.of,
    }
}

/// A HEALTHY pool is soft saturated, and a degraded one may take the request.
fn could_spare(routed: &Routed) -> bool {
    let mut both = routed.candidates.iter().zip(&routed.decision.assessments);
    let crowded = both.clone().any(|(one, found)| one.health.state == PathState::Healthy && found.load.soft_saturated);
    crowded && both.any(|(one, found)| one.health.state != PathState::Healthy && found.verdict.admits())
}
