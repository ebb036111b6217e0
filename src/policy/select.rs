//! The order among the admissible.

use std::cmp::Ordering;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decide::{Candidate, Demand, Load};
use super::round::round4;
use super::rules::{GFS_BAND, HEADROOM_FIRST_UP_TO, Rules, UTILIZATION_BAND, banded};
use super::tie;
use crate::model::{PathState, Profile, coded};

/// The number that breaks ties is a hash of 32 bits, and the order of backends above it.
const TIES: f64 = 4_294_967_296.0;

/// The most numbers that a rank has.
pub const MAX_VECTOR: usize = 7;

coded!(
    /// What counts first when admissible candidates are ranked.
    SelectionPolicy {
        /// Tolerant work: spare the healthy paths, then take the emptiest.
        HeadroomFirst = "headroom_first",
        /// Critical work: the healthiest path, then the emptiest.
        HealthFirst = "health_first",
        /// The rest: not where it is crowded, then the healthier.
        Balanced = "balanced",
    }
);

coded!(
    /// What an admissible candidate was worse in than the chosen one: the first number in which
    /// their ranks differ.
    Skipped {
        /// It is healthy, and the work can do without.
        HealthySpared = "healthy_spared",
        /// It is soft saturated.
        SoftSaturated = "soft_saturated",
        /// More of its sessions are in use.
        HigherUtilization = "higher_utilization",
        /// Its state is more severe.
        HigherSeverity = "higher_severity",
        /// Its gray failure score is higher.
        HigherGfs = "higher_gfs",
        /// Fewer sessions remain.
        FewerRemaining = "fewer_remaining",
        /// It was refused, and would be taken only for want of better.
        LastResort = "last_resort",
        /// Its tokens take longer than is usual in its pool.
        SlowerTokens = "slower_tokens",
        /// Its host granted a lease too, and its quote promised a later end.
        SlowerQuote = "slower_quote",
        /// Nothing, but its backend comes later in the configuration of the source's rails.
        LaterBackend = "later_backend",
        /// Nothing: the hash that breaks ties put it behind.
        TieHash = "tie_hash",
        /// Nothing: it only comes later in the list.
        LaterInList = "later_in_list",
    }
);

impl SelectionPolicy {
    pub(super) fn of(rules: &Rules<'_>, demand: &Demand) -> Self {
        if demand.effective_criticality <= HEADROOM_FIRST_UP_TO {
            Self::HeadroomFirst
        } else if demand.effective_criticality >= rules.health_first_from || demand.is_release_path {
            Self::HealthFirst
        } else {
            Self::Balanced
        }
    }

    /// What each number of this policy's ranks compares under `profile`, most important first.
    #[must_use]
    pub fn keys(self, profile: Profile) -> &'static [Skipped] {
        use Skipped::{
            FewerRemaining, HealthySpared, HigherGfs, HigherSeverity, HigherUtilization, SlowerTokens, SoftSaturated,
            TieHash,
        };
        match (profile, self) {
            (Profile::Reference, Self::HeadroomFirst) => {
                &[HealthySpared, SoftSaturated, HigherUtilization, HigherSeverity, HigherGfs, FewerRemaining]
            }
            (Profile::Reference, Self::HealthFirst) => {
                &[HigherSeverity, HigherGfs, SoftSaturated, HigherUtilization, FewerRemaining]
            }
            (Profile::Reference, Self::Balanced) => {
                &[SoftSaturated, HigherSeverity, HigherUtilization, HigherGfs, FewerRemaining]
            }
            (Profile::Mesh, Self::HeadroomFirst) => {
                &[HealthySpared, SoftSaturated, HigherUtilization, SlowerTokens, HigherSeverity, HigherGfs, TieHash]
            }
            (Profile::Mesh, Self::HealthFirst) => {
                &[HigherSeverity, HigherGfs, SlowerTokens, SoftSaturated, HigherUtilization, TieHash]
            }
            (Profile::Mesh, Self::Balanced) => {
                &[SoftSaturated, HigherSeverity, SlowerTokens, HigherUtilization, HigherGfs, TieHash]
            }
        }
    }
}

/// A candidate's place in the order: the smaller vector is the better one. Ranks of one decision
/// are of one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// What the numbers mean.
    pub policy: SelectionPolicy,
    /// By whose rules.
    pub profile: Profile,
    /// It was refused and is taken for want of better: behind whatever was not.
    pub last_resort: bool,
    /// The numbers.
    pub vector: SelectionVector,
}

impl Rank {
    /// The rank of an admissible candidate; `tie` breaks ties where the profile breaks them so.
    pub(super) fn of(policy: SelectionPolicy, rules: &Rules<'_>, candidate: &Candidate, load: &Load, tie: u64) -> Self {
        // Severities have two decimals: there is nothing to round.
        let state = candidate.health.state;
        let severity = state.severity();
        let healthy = f64::from(u8::from(state == PathState::Healthy));
        let soft = f64::from(u8::from(load.soft_saturated));
        let (profile, values, len) = match &rules.mesh {
            None => {
                let utilization = round4(load.utilization);
                let gfs = round4(candidate.health.gfs);
                // Not a negation: that would make a negative zero.
                let few = 0.0 - f64::from(load.remaining);
                let (values, len) = match policy {
                    SelectionPolicy::HeadroomFirst => ([healthy, soft, utilization, severity, gfs, few, 0.0], 6),
                    SelectionPolicy::HealthFirst => ([severity, gfs, soft, utilization, few, 0.0, 0.0], 5),
                    SelectionPolicy::Balanced => ([soft, severity, utilization, gfs, few, 0.0, 0.0], 5),
                };
                (Profile::Reference, values, len)
            }
            Some(mesh) => {
                let utilization = match policy {
                    // To spare headroom is what this policy is for, however much there is.
                    SelectionPolicy::HeadroomFirst => banded(load.utilization, UTILIZATION_BAND),
                    SelectionPolicy::HealthFirst | SelectionPolicy::Balanced => mesh.ranked_load(load),
                };
                let gfs = banded(candidate.health.gfs, GFS_BAND);
                let slow = mesh.slowness(candidate.token_time_ratio);
                let hash = f64::from(tie::of_target(tie, &candidate.target));
                let tie = f64::from(candidate.backend_order) * TIES + hash;
                let (values, len) = match policy {
                    SelectionPolicy::HeadroomFirst => ([healthy, soft, utilization, slow, severity, gfs, tie], 7),
                    SelectionPolicy::HealthFirst => ([severity, gfs, slow, soft, utilization, tie, 0.0], 6),
                    SelectionPolicy::Balanced => ([soft, severity, slow, utilization, gfs, tie, 0.0], 6),
                };
                (Profile::Mesh, values, len)
            }
        };
        Self { policy, profile, last_resort: false, vector: SelectionVector { values, len } }
    }

    /// What this rank is worse in than `chosen`.
    #[must_use]
    pub fn behind(&self, chosen: &Self) -> Skipped {
        if self.last_resort && !chosen.last_resort {
            return Skipped::LastResort;
        }
        let pairs = self.vector.values.iter().zip(&chosen.vector.values);
        let differs = pairs.zip(self.policy.keys(self.profile)).find(|((mine, theirs), _)| mine != theirs);
        differs.map_or(Skipped::LaterInList, |((mine, theirs), key)| match key {
            Skipped::TieHash if (mine / TIES).floor() > (theirs / TIES).floor() => Skipped::LaterBackend,
            key => *key,
        })
    }

    /// Whether only the tie tells this rank from `other`: both are as good, as far as is known.
    pub(super) fn ties_with(&self, other: &Self) -> bool {
        self.last_resort == other.last_resort && matches!(self.behind(other), Skipped::TieHash | Skipped::LaterInList)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let resort = self.last_resort.cmp(&other.last_resort);
        resort.then_with(|| lexical(&self.vector.values, &other.vector.values))
    }
}

/// Compares number by number.
pub(super) fn lexical<const N: usize>(left: &[f64; N], right: &[f64; N]) -> Ordering {
    for (left, right) in left.iter().zip(right) {
        if left != right {
            return if left < right { Ordering::Less } else { Ordering::Greater };
        }
    }
    Ordering::Equal
}

/// At most [`MAX_VECTOR`] numbers, without a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SelectionVector {
    values: [f64; MAX_VECTOR],
    len: u8,
}

impl SelectionVector {
    /// The numbers.
    #[must_use]
    pub fn as_slice(&self) -> &[f64] {
        self.values.get(..usize::from(self.len)).unwrap_or(&self.values)
    }
}

impl Serialize for SelectionVector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SelectionVector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<f64>::deserialize(deserializer)?;
        let mut vector = Self::default();
        let Some(places) = vector.values.get_mut(..numbers.len()) else {
            return Err(D::Error::invalid_length(numbers.len(), &"at most 7 numbers"));
        };
        places.copy_from_slice(&numbers);
        vector.len = numbers.len() as u8;
        Ok(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_severity_needs_rounding() {
        for state in PathState::ALL {
            assert_eq!(round4(state.severity()), state.severity());
        }
    }
}
