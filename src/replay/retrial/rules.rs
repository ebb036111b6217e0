//! Other rules than those that decided.

use std::sync::Arc;

use serde::Serialize;

use crate::health::Thresholds;
use crate::health::score::ThresholdField;
use crate::model::{Profile, Workload};
use crate::{health, policy};

/// One threshold that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThresholdChange {
    /// Its name.
    pub name: &'static str,
    /// What held.
    pub recorded: f64,
    /// What is tried.
    pub changed: f64,
}

/// What is changed of the rules that decided; what is none stays as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Which set of rules decides. Without thresholds its own hold.
    pub profile: Option<Profile>,
    /// Their numbers: those named, or all.
    pub thresholds: Option<Thresholds>,
    /// Only these thresholds are changed; all if none.
    pub named: Option<Vec<&'static str>>,
    /// The classes: these take the place of the recorded ones of their names, or of all of them. In the latter
    /// case a request of a class that is not among them is refused.
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
            workloads: self.workloads(recorded.workloads),
            max_excluded_fraction: self.max_excluded_fraction.unwrap_or(recorded.max_excluded_fraction),
            ..recorded
        }
    }

    fn thresholds(&self, profile: Profile, recorded: Thresholds) -> Thresholds {
        let mut base = match self.profile {
            Some(other) if other != profile => Thresholds::of(other),
            _ => recorded,
        };
        match (&self.thresholds, &self.named) {
            (Some(thresholds), None) => thresholds.clone(),
            (Some(thresholds), Some(names)) => {
                for field in names.iter().filter_map(|name| ThresholdField::named(name)) {
                    // Within its range: the thresholds were validated as a whole.
                    let _ = field.set(&mut base, field.get(thresholds));
                }
                base
            }
            (None, _) => base,
        }
    }

    fn workloads(&self, recorded: Vec<Arc<Workload>>) -> Vec<Arc<Workload>> {
        let Some(workloads) = &self.workloads else { return recorded };
        if self.named.is_none() {
            return workloads.clone();
        }
        let replaced = |class: &Arc<Workload>| workloads.iter().any(|other| other.name == class.name);
        let kept = recorded.into_iter().filter(|class| !replaced(class));
        kept.chain(workloads.iter().cloned()).collect()
    }

    /// The thresholds that differ, of those that held.
    pub(super) fn changes(&self, recorded: &policy::Settings) -> Vec<ThresholdChange> {
        let changed = self.policy(recorded.clone()).thresholds;
        let both = |field: &ThresholdField| (field.get(&recorded.thresholds), field.get(&changed));
        let differs = |field: &&ThresholdField| both(field).0.to_bits() != both(field).1.to_bits();
        let change = |field: &ThresholdField| {
            let (recorded, changed) = both(field);
            ThresholdChange { name: field.name, recorded, changed }
        };
        ThresholdField::ALL.iter().filter(differs).map(change).collect()
    }
}
