//! Other rules than those that decided.

use std::sync::Arc;

use crate::health::Thresholds;
use crate::model::{Profile, Workload};
use crate::{health, policy};

/// What is changed of the rules that decided; what is none stays as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Which set of rules decides. Without thresholds its own hold.
    pub profile: Option<Profile>,
    /// Their numbers.
    pub thresholds: Option<Thresholds>,
    /// The classes. A request of a class that is not among them is refused.
    pub workloads: Option<Vec<Arc<Workload>>>,
    /// The share of a pool that may be excluded, in [0, 1].
    pub max_excluded_fraction: Option<f64>,
}

impl Rules {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn health(&self, recorded: health::Settings) -> health::Settings {
        health::Settings {
            profile: self.profile.unwrap_or(recorded.profile),
            thresholds: self.thresholds(recorded.profile, recorded.thresholds),
            ..recorded
        }
    }

    pub(super) fn policy(&self, recorded: policy::Settings) -> policy::Settings {
        policy::Settings {
            profile: self.profile.unwrap_or(recorded.profile),
            thresholds: self.thresholds(recorded.profile, recorded.thresholds),
            workloads: self.workloads.clone().unwrap_or(recorded.workloads),
            max_excluded_fraction: self.max_excluded_fraction.unwrap_or(recorded.max_excluded_fraction),
            ..recorded
        }
    }

    fn thresholds(&self, profile: Profile, recorded: Thresholds) -> Thresholds {
        match (&self.thresholds, self.profile) {
            (Some(thresholds), _) => thresholds.clone(),
            (None, Some(other)) if other != profile => Thresholds::of(other),
            (None, _) => recorded,
        }
    }
}
