//! Workload classes: what a request needs from a path.

use serde::{Deserialize, Serialize};

use super::WorkloadName;

/// How far Seam's word binds for one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Decide and record, and lease nothing: the caller does what it would have done anyway.
    Observe,
    /// Decide, lease and recommend: where nothing is admissible, the least bad.
    Advise,
    /// Decide; only an admissible path is leased.
    #[default]
    Enforce,
}

/// What to answer when no candidate is admissible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNoAdmissible {
    /// Say so, and lease nothing.
    #[default]
    Refuse,
    /// Take the least bad candidate and say so.
    LeastBad,
}

/// A class of requests and what it demands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The class's name.
    pub name: WorkloadName,
    /// How much harm a slow request does, in [0, 1].
    pub criticality: f64,
    /// The largest acceptable p99 path latency in milliseconds, above 0.
    pub latency_sla_ms: f64,
    /// How much jitter the class bears, in [0, 1].
    pub jitter_tolerance: f64,
    /// How often the class synchronises, in [0, 1]. Carried, not scored.
    #[serde(default)]
    pub sync_frequency: f64,
    /// The size of a checkpoint in mebibytes, at least 0. Carried, not scored.
    #[serde(default)]
    pub checkpoint_size_mb: f64,
    /// The request releases a result to the outside.
    #[serde(default)]
    pub is_release_path: bool,
    /// Prefill and decode wait for each other.
    #[serde(default)]
    pub is_prefill_decode_strict: bool,
    /// How far Seam's word binds.
    #[serde(default)]
    pub mode: Mode,
    /// What to answer when nothing is admissible.
    #[serde(default)]
    pub on_no_admissible: OnNoAdmissible,
}

impl Workload {
    /// Criticality raised to 0.90 on a release path and to 0.60 for strict prefill/decode, at most 1.
    #[must_use]
    pub fn effective_criticality(&self) -> f64 {
        let mut value = self.criticality;
        if self.is_release_path {
            value = value.max(0.90);
        }
        if self.is_prefill_decode_strict {
            value = value.max(0.60);
        }
        value.min(1.0)
    }

    /// Checks every number against its range.
    ///
    /// # Errors
    /// Names the field, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        let unit = |field: &str, value: f64| {
            if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{field}: found {value}, allowed 0 to 1")) }
        };
        unit("criticality", self.criticality)?;
        unit("jitter_tolerance", self.jitter_tolerance)?;
        unit("sync_frequency", self.sync_frequency)?;
        if !(self.latency_sla_ms.is_finite() && self.latency_sla_ms > 0.0) {
            return Err(format!("latency_sla_ms: found {}, allowed a finite number above 0", self.latency_sla_ms));
        }
        if !(self.checkpoint_size_mb.is_finite() && self.checkpoint_size_mb >= 0.0) {
            return Err(format!(
                "checkpoint_size_mb: found {}, allowed a finite number of at least 0",
                self.checkpoint_size_mb
            ));
        }
        Ok(())
    }
}

/// From this effective criticality on work counts as strict in pictures and experiments: from here on the
/// mesh profile's own rules rank it health first, unless configured otherwise.
pub const STRICT_FROM: f64 = 0.70;

/// The classes that exist without configuration: the published prototype's five.
#[must_use]
pub fn builtin_workloads() -> Vec<Workload> {
    // name, criticality, SLA ms, sync frequency, jitter tolerance, release path, prefill/decode strict
    const CLASSES: [(&str, f64, f64, f64, f64, bool, bool); 5] = [
        ("batch", 0.2, 200.0, 0.1, 0.9, false, false),
        ("interactive", 0.7, 30.0, 0.6, 0.3, false, true),
        ("release", 0.95, 15.0, 0.9, 0.1, true, true),
        ("interactive-sync", 0.72, 25.0, 0.7, 0.25, false, true),
        ("strict-online", 0.82, 22.0, 0.75, 0.2, false, true),
    ];
    CLASSES
        .into_iter()
        .filter_map(|(name, criticality, sla, sync, tolerance, release, strict)| {
            Some(Workload {
                name: WorkloadName::new(name).ok()?,
                criticality,
                latency_sla_ms: sla,
                jitter_tolerance: tolerance,
                sync_frequency: sync,
                checkpoint_size_mb: 0.0,
                is_release_path: release,
                is_prefill_decode_strict: strict,
                mode: Mode::default(),
                on_no_admissible: OnNoAdmissible::default(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floors_of_effective_criticality_hold() {
        let find = |name: &str| builtin_workloads().into_iter().find(|w| w.name.as_str() == name).unwrap();
        assert_eq!(builtin_workloads().len(), 5);
        assert_eq!(find("batch").effective_criticality(), 0.2);
        assert_eq!(find("interactive").effective_criticality(), 0.7);
        assert_eq!(find("release").effective_criticality(), 0.95);
        let strict = Workload { criticality: 0.1, ..find("interactive") };
        assert_eq!(strict.effective_criticality(), 0.60);
        let release = Workload { criticality: 0.1, ..find("release") };
        assert_eq!(release.effective_criticality(), 0.90);
    }

    #[test]
    fn a_number_out_of_range_is_named() {
        let base = builtin_workloads().remove(0);
        let bad = Workload { criticality: f64::NAN, ..base.clone() };
        assert!(bad.validate().unwrap_err().starts_with("criticality: found NaN"));
        let bad = Workload { latency_sla_ms: 0.0, ..base };
        assert!(bad.validate().unwrap_err().starts_with("latency_sla_ms: found 0"));
    }
}
