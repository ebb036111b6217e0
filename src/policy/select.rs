//! The order among the admissible.

use std::cmp::Ordering;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decide::{Demand, Load, Rules};
use super::round::round4;
use crate::model::{PathState, coded};

/// The most numbers that a rank has.
pub const MAX_VECTOR: usize = 6;

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
        /// Nothing: it only comes later in the list.
        LaterInList = "later_in_list",
    }
);

impl SelectionPolicy {
    pub(super) fn of(rules: &Rules, demand: &Demand) -> Self {
        if demand.effective_criticality <= rules.headroom_first_up_to {
            Self::HeadroomFirst
        } else if demand.effective_criticality >= rules.health_first_from || demand.is_release_path {
            Self::HealthFirst
        } else {
            Self::Balanced
        }
    }

    /// What each number of this policy's ranks compares, most important first.
    #[must_use]
    pub fn keys(self) -> &'static [Skipped] {
        use Skipped::{FewerRemaining, HealthySpared, HigherGfs, HigherSeverity, HigherUtilization, SoftSaturated};
        match self {
            Self::HeadroomFirst => {
                &[HealthySpared, SoftSaturated, HigherUtilization, HigherSeverity, HigherGfs, FewerRemaining]
            }
            Self::HealthFirst => &[HigherSeverity, HigherGfs, SoftSaturated, HigherUtilization, FewerRemaining],
            Self::Balanced => &[SoftSaturated, HigherSeverity, HigherUtilization, HigherGfs, FewerRemaining],
        }
    }
}

/// A candidate's place in the order: the smaller vector is the better one. Ranks of one decision
/// are of one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// What the numbers mean.
    pub policy: SelectionPolicy,
    /// The numbers.
    pub vector: SelectionVector,
}

impl Rank {
    /// The rank of a candidate whose GFS is `gfs` when rounded.
    pub(super) fn of(policy: SelectionPolicy, state: PathState, gfs: f64, load: &Load) -> Self {
        // Severities have two decimals: there is nothing to round.
        let severity = state.severity();
        let soft = f64::from(u8::from(load.soft_saturated));
        let utilization = round4(load.utilization);
        // Not a negation: that would make a negative zero.
        let few = 0.0 - f64::from(load.remaining);
        let vector = match policy {
            SelectionPolicy::HeadroomFirst => {
                let healthy = f64::from(u8::from(state == PathState::Healthy));
                SelectionVector { values: [healthy, soft, utilization, severity, gfs, few], len: 6 }
            }
            SelectionPolicy::HealthFirst => {
                SelectionVector { values: [severity, gfs, soft, utilization, few, 0.0], len: 5 }
            }
            SelectionPolicy::Balanced => {
                SelectionVector { values: [soft, severity, utilization, gfs, few, 0.0], len: 5 }
            }
        };
        Self { policy, vector }
    }

    /// What this rank is worse in than `chosen`.
    #[must_use]
    pub fn behind(&self, chosen: &Self) -> Skipped {
        let pairs = self.vector.values.iter().zip(&chosen.vector.values);
        let differs = pairs.zip(self.policy.keys()).find(|((mine, theirs), _)| mine != theirs);
        differs.map_or(Skipped::LaterInList, |(_, key)| *key)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        lexical(&self.vector.values, &other.vector.values)
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
            return Err(D::Error::invalid_length(numbers.len(), &"at most 6 numbers"));
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
