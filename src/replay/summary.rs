//! What a replay counts of each policy, and the table of it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::model::{PathState, Profile, Workload};
use crate::policy::decide::{Candidate, Decision};
use crate::rivals::{Choosable, Policy};

/// The classes that are strict.
pub const STRICT_CLASSES: [&str; 3] = ["interactive", "release", "strict-online"];
/// The class that is tolerant whatever its criticality.
pub const TOLERANT_CLASS: &str = "batch";
/// Up to this effective criticality any class that is not strict is tolerant.
pub const TOLERANT_UP_TO: f64 = 0.35;

/// Whether a class is one of [`STRICT_CLASSES`].
pub(super) fn is_strict(workload: &Workload) -> bool {
    STRICT_CLASSES.contains(&workload.name.as_str())
}

/// Whether a class that is not strict bears a degraded path.
pub(super) fn is_tolerant(workload: &Workload) -> bool {
    let tolerant = workload.name.as_str() == TOLERANT_CLASS || workload.effective_criticality() <= TOLERANT_UP_TO;
    tolerant && !is_strict(workload)
}

/// What came of one policy's choices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Requests in all.
    pub requests: u64,
    /// Strict requests that were placed.
    pub strict_choice_count: u64,
    /// Of all strict requests those placed on a HEALTHY pool, in percent, to one decimal.
    pub strict_healthy_pct: Option<f64>,
    /// Of all tolerant requests those placed on a DEGRADED_USABLE pool, in percent, to one decimal.
    pub tolerant_degraded_pct: Option<f64>,
    /// Tolerant requests placed on a pool that is not HEALTHY while an admissible HEALTHY one was
    /// soft saturated.
    pub headroom_preserved_count: u64,
    /// Strict requests placed on a HEALTHY pool while an admissible one was not HEALTHY.
    pub strict_protected_count: u64,
    /// Requests that were not placed.
    pub no_pool_count: u64,
}

/// What came of a whole replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// By whose rules Seam decided, and which pools were admissible.
    pub profile: Profile,
    /// Which pools the other policies chose from.
    pub rivals_see: Choosable,
    /// What the policies that draw drew from.
    pub seed: u64,
    /// By policy, in the order in which they were asked for.
    #[serde(serialize_with = "as_map")]
    pub policy_metrics: Vec<(Policy, Metrics)>,
    /// Requests in all.
    pub replay_requests: u64,
    /// Rows in all: candidates of requests.
    pub replay_rows: u64,
    /// Different pools.
    pub pools: u64,
    /// Strict requests.
    pub strict_requests: u64,
    /// Tolerant requests.
    pub tolerant_requests: u64,
    /// Requests that are neither: they count in `replay_requests` and in no share.
    pub neither_requests: u64,
    /// Strict requests that Seam placed on a HEALTHY pool while another candidate was not HEALTHY.
    pub strict_workloads_protected_by_seam: u64,
    /// Tolerant requests that Seam placed on a pool that is not HEALTHY while an admissible one was.
    pub headroom_preserved_by_seam: u64,
    /// What the former cost: how much larger the latency of the chosen pool was than that of the fastest
    /// that Seam admits, in milliseconds, on average, to two decimals.
    pub strict_protected_extra_ms: Option<f64>,
    /// What the latter cost: the same against the fastest HEALTHY pool that Seam admits; below zero where the
    /// degraded pool was the faster one.
    pub headroom_preserved_extra_ms: Option<f64>,
    /// Requests that Seam did not place.
    pub no_pool_by_seam: u64,
    /// Requests whose `alternate_count` is not the number of their rows less one.
    pub unlisted_alternates: u64,
}

fn as_map<S: Serializer>(metrics: &[(Policy, Metrics)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(metrics.len()))?;
    metrics.iter().try_for_each(|(policy, metrics)| map.serialize_entry(policy, metrics))?;
    map.end()
}

impl Summary {
    /// The table of the policies as CSV: one line each under the names of [`Metrics`]' fields. A share
    /// of no requests is empty.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_csv(&self, out: impl std::io::Write) -> std::io::Result<()> {
        let mut table = csv::Writer::from_writer(out);
        table.write_record([
            "policy",
            "requests",
            "strict_choice_count",
            "strict_healthy_pct",
            "tolerant_degraded_pct",
            "headroom_preserved_count",
            "strict_protected_count",
            "no_pool_count",
        ])?;
        let percent = |share: Option<f64>| share.map(|share| format!("{share:.1}")).unwrap_or_default();
        for (policy, metrics) in &self.policy_metrics {
            table.write_record([
                policy.as_str(),
                &metrics.requests.to_string(),
                &metrics.strict_choice_count.to_string(),
                &percent(metrics.strict_healthy_pct),
                &percent(metrics.tolerant_degraded_pct),
                &metrics.headroom_preserved_count.to_string(),
                &metrics.strict_protected_count.to_string(),
                &metrics.no_pool_count.to_string(),
            ])?;
        }
        table.flush()
    }
}

/// What one request and its candidates are, as far as it is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) strict: bool,
    pub(super) tolerant: bool,
    any_not_healthy: bool,
    admissible_not_healthy: bool,
    admissible_healthy: bool,
    admissible_healthy_crowded: bool,
    /// The smallest latency among those that are admissible; infinite if there is none.
    fastest_ms: f64,
    /// Among those that are HEALTHY too.
    fastest_healthy_ms: f64,
}

impl Facts {
    pub(super) fn of(workload: &Workload, candidates: &[Candidate], decision: &Decision) -> Self {
        let (strict, tolerant) = (is_strict(workload), is_tolerant(workload));
        let none = f64::INFINITY;
        let mut facts = Self { strict, tolerant, fastest_ms: none, fastest_healthy_ms: none, ..Self::default() };
        for (candidate, assessment) in candidates.iter().zip(&decision.assessments) {
            let healthy = candidate.health.state == PathState::Healthy;
            let admissible = assessment.verdict.admits();
            let latency_ms = candidate.health.p99_latency_ms;
            if admissible {
                facts.fastest_ms = facts.fastest_ms.min(latency_ms);
            }
            if admissible && healthy {
                facts.fastest_healthy_ms = facts.fastest_healthy_ms.min(latency_ms);
            }
            facts.any_not_healthy |= !healthy;
            facts.admissible_not_healthy |= admissible && !healthy;
            facts.admissible_healthy |= admissible && healthy;
            facts.admissible_healthy_crowded |= admissible && healthy && assessment.load.soft_saturated;
        }
        facts
    }
}

/// What is counted of one policy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    placed: u64,
    strict_placed: u64,
    strict_on_healthy: u64,
    strict_protected: u64,
    tolerant_on_degraded: u64,
    headroom_preserved: u64,
}

impl Tally {
    /// One more request, placed on a pool in this state if on any.
    pub(super) fn count(&mut self, facts: &Facts, chosen: Option<PathState>) {
        let Some(state) = chosen else { return };
        let healthy = state == PathState::Healthy;
        self.placed += 1;
        if facts.strict {
            self.strict_placed += 1;
            self.strict_on_healthy += u64::from(healthy);
            self.strict_protected += u64::from(healthy && facts.admissible_not_healthy);
        }
        if facts.tolerant {
            self.tolerant_on_degraded += u64::from(state == PathState::DegradedUsable);
            self.headroom_preserved += u64::from(!healthy && facts.admissible_healthy_crowded);
        }
    }

    pub(super) fn metrics(&self, totals: &Totals) -> Metrics {
        Metrics {
            requests: totals.requests,
            strict_choice_count: self.strict_placed,
            strict_healthy_pct: percent(self.strict_on_healthy, totals.strict),
            tolerant_degraded_pct: percent(self.tolerant_on_degraded, totals.tolerant),
            headroom_preserved_count: self.headroom_preserved,
            strict_protected_count: self.strict_protected,
            no_pool_count: totals.requests - self.placed,
        }
    }
}

/// What is counted of all requests, and of Seam's own choices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) rows: u64,
    pub(super) strict: u64,
    pub(super) tolerant: u64,
    pub(super) protected_by_seam: u64,
    pub(super) preserved_by_seam: u64,
    protected_extra_ms: f64,
    preserved_extra_ms: f64,
    pub(super) not_placed_by_seam: u64,
    pub(super) unlisted_alternates: u64,
}

impl Totals {
    /// One more request, and the pool that Seam chose, if any.
    pub(super) fn count(&mut self, facts: &Facts, chosen_by_seam: Option<&Candidate>) {
        self.requests += 1;
        self.strict += u64::from(facts.strict);
        self.tolerant += u64::from(facts.tolerant);
        let Some(chosen) = chosen_by_seam else {
            self.not_placed_by_seam += 1;
            return;
        };
        let healthy = chosen.health.state == PathState::Healthy;
        let latency_ms = chosen.health.p99_latency_ms;
        if facts.strict && healthy && facts.any_not_healthy {
            self.protected_by_seam += 1;
            self.protected_extra_ms += latency_ms - facts.fastest_ms;
        }
        if facts.tolerant && !healthy && facts.admissible_healthy {
            self.preserved_by_seam += 1;
            self.preserved_extra_ms += latency_ms - facts.fastest_healthy_ms;
        }
    }

    pub(super) fn protected_extra_ms(&self) -> Option<f64> {
        mean(self.protected_extra_ms, self.protected_by_seam)
    }

    pub(super) fn preserved_extra_ms(&self) -> Option<f64> {
        mean(self.preserved_extra_ms, self.preserved_by_seam)
    }
}

/// A mean, rounded to two decimals as text is; none of nothing.
fn mean(sum: f64, count: u64) -> Option<f64> {
    // The sum makes a positive zero of a negative one.
    (count > 0).then(|| format!("{:.2}", sum / count as f64).parse::<f64>().ok().map(|mean| mean + 0.0)).flatten()
}

/// A share in percent, rounded to one decimal as text is; none of nothing.
pub(super) fn percent(part: u64, whole: u64) -> Option<f64> {
    if whole == 0 {
        return None;
    }
    format!("{:.1}", 100.0 * part as f64 / whole as f64).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_is_none_and_others_have_one_decimal() {
        assert_eq!(percent(0, 0), None);
        assert_eq!((mean(0.0, 0), mean(1.0, 3), mean(-0.001, 1)), (None, Some(0.33), Some(0.0)));
        assert_eq!([percent(1, 3), percent(2, 3), percent(3, 3)], [Some(33.3), Some(66.7), Some(100.0)]);
    }
}
