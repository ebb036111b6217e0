//! GFS and the thresholds.

use serde::{Deserialize, Serialize};

use super::window::WindowStats;
use crate::model::Profile;

/// What a path that is both slow and lossy costs on top of each alone.
pub const LATENCY_DROP_INTERACTION: f64 = 0.15;

/// Gray Failure Score in [0, 1]: how far the window's latency, jitter and drops are on their way to
/// quarantine, weighted; 0 with no sample.
#[must_use]
pub fn gfs(thresholds: &Thresholds, stats: &WindowStats) -> f64 {
    if stats.sample_count == 0 {
        return 0.0;
    }
    let latency = (stats.p99_latency_ms / thresholds.latency_quarantine_ms).min(1.0);
    let jitter = (stats.jitter_ms / (2.0 * thresholds.jitter_restricted_ms)).min(1.0);
    let drop = (stats.mean_drop_rate / thresholds.drop_quarantine).min(1.0);
    let weighted = thresholds.w_latency * latency + thresholds.w_jitter * jitter + thresholds.w_drop * drop;
    (weighted + LATENCY_DROP_INTERACTION * latency * drop).min(1.0)
}

/// The mesh profile refuses a candidate above this PRS, unless configured otherwise. Severity is at
/// most 0.55 on a path that carries work, so the prototype's 0.75 is never reached.
const MESH_PRS_LIMIT: f64 = 0.25;

/// Every number of the reference policy, under the names that the published prototype uses, and
/// after them those that only the mesh profile reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Latency from which a replayed row counts as DEGRADED_USABLE, in milliseconds.
    pub latency_degraded_ms: f64,
    /// Latency from which a replayed row counts as DEGRADED_RESTRICTED, in milliseconds.
    pub latency_restricted_ms: f64,
    /// The p99 latency at which the latency term of GFS is full, in milliseconds.
    pub latency_quarantine_ms: f64,
    /// Jitter from which a replayed row counts as DEGRADED_USABLE, in milliseconds.
    pub jitter_degraded_ms: f64,
    /// Half the jitter at which the jitter term of GFS is full, in milliseconds.
    pub jitter_restricted_ms: f64,
    /// Drop rate from which a replayed row counts as DEGRADED_USABLE.
    pub drop_degraded: f64,
    /// Drop rate from which a replayed row counts as DEGRADED_RESTRICTED.
    pub drop_restricted: f64,
    /// The drop rate at which the drop term of GFS is full.
    pub drop_quarantine: f64,
    /// Bad windows in a row before a state escalates beyond the next one.
    pub persistence_to_escalate: u32,
    /// Clean windows in a row from degraded to RESTORED.
    pub clean_to_restore: u32,
    /// Clean windows in a row from RESTORED to HEALTHY.
    pub clean_to_healthy: u32,
    /// Samples that health is computed on.
    pub candidate_window: u32,
    /// The PRS above which the mesh profile refuses; the reference compares with the constant 0.75.
    pub prs_reject_threshold: f64,
    /// Sessions of a pool that does not say.
    pub default_pool_capacity: u32,
    /// Soft share of a pool that does not say.
    pub default_soft_capacity_fraction: f64,
    /// Weight of the latency term of GFS.
    pub w_latency: f64,
    /// Weight of the jitter term of GFS.
    pub w_jitter: f64,
    /// Weight of the drop term of GFS.
    pub w_drop: f64,
    /// Sessions at which the load term of FAE is full.
    pub fae_cluster_scale: f64,
    /// The largest FAE.
    pub fae_max: f64,
    /// Mesh: fresh samples below which a path is unproven.
    pub min_samples: u32,
    /// Mesh: the age from which a sample counts no longer, in milliseconds.
    pub fresh_ms: f64,
    /// Mesh: the age of the newest sample from which a path is stale, in milliseconds.
    pub stale_after_ms: f64,
    /// Mesh: the largest effective criticality that still flows when no path has fresh telemetry.
    pub blackout_criticality: f64,
    /// Mesh: how long the first quarantine of a path lasts at least, in milliseconds.
    pub quarantine_hold_ms: f64,
    /// Mesh: how long any quarantine lasts at least, however often the path has flapped, in
    /// milliseconds.
    pub quarantine_hold_max_ms: f64,
    /// Mesh: how long a path must have been out of quarantine for one flap to be forgotten, in
    /// milliseconds.
    pub flap_forget_ms: f64,
    /// Mesh: achieved over expected bandwidth below which a path is DEGRADED_USABLE.
    pub bandwidth_degraded: f64,
    /// Mesh: achieved over expected bandwidth below which a path is DEGRADED_RESTRICTED.
    pub bandwidth_restricted: f64,
    /// Mesh: achieved over expected bandwidth below which a path is a QUARANTINE_CANDIDATE.
    pub bandwidth_quarantine: f64,
    /// Mesh: how long a state that bandwidth led to is held at least, in milliseconds; doubles with
    /// every flap.
    pub bandwidth_hold_ms: f64,
    /// Mesh: a host's token time over its pool's median from which it ranks as DEGRADED_USABLE.
    pub token_time_degraded: f64,
    /// Mesh: a host's token time over its pool's median from which it ranks as DEGRADED_RESTRICTED.
    pub token_time_restricted: f64,
    /// Mesh: effective criticality from which work is ranked by health first.
    pub health_first_from: f64,
    /// Mesh: utilization from which session load ranks for work that does not spare headroom.
    pub load_ranks_from: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            latency_degraded_ms: 5.0,
            latency_restricted_ms: 15.0,
            latency_quarantine_ms: 40.0,
            jitter_degraded_ms: 2.0,
            jitter_restricted_ms: 8.0,
            drop_degraded: 0.001,
            drop_restricted: 0.01,
            drop_quarantine: 0.05,
            persistence_to_escalate: 3,
            clean_to_restore: 5,
            clean_to_healthy: 8,
            candidate_window: 10,
            prs_reject_threshold: 0.75,
            default_pool_capacity: 8,
            default_soft_capacity_fraction: 0.75,
            w_latency: 0.45,
            w_jitter: 0.30,
            w_drop: 0.25,
            fae_cluster_scale: 100.0,
            fae_max: 10.0,
            min_samples: 3,
            fresh_ms: 15_000.0,
            stale_after_ms: 5_000.0,
            blackout_criticality: 0.5,
            quarantine_hold_ms: 10_000.0,
            quarantine_hold_max_ms: 600_000.0,
            flap_forget_ms: 600_000.0,
            bandwidth_degraded: 0.6,
            bandwidth_restricted: 0.4,
            bandwidth_quarantine: 0.15,
            bandwidth_hold_ms: 10_000.0,
            token_time_degraded: 2.0,
            token_time_restricted: 4.0,
            health_first_from: 0.70,
            load_ranks_from: 0.75,
        }
    }
}

impl Thresholds {
    /// What `profile` starts from: the published numbers, which the mesh profile changes in one
    /// place, for its PRS threshold can be reached.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Reference => Self::default(),
            Profile::Mesh => Self { prs_reject_threshold: MESH_PRS_LIMIT, ..Self::default() },
        }
    }
}

/// One threshold: its name, its range, and how to read and set it.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdField {
    /// The name in configuration and input.
    pub name: &'static str,
    /// `ms`, or empty for a plain number.
    pub unit: &'static str,
    low: f64,
    low_allowed: bool,
    high: f64,
    whole: bool,
    read: fn(&Thresholds) -> f64,
    write: fn(&mut Thresholds, f64),
}

impl ThresholdField {
    /// The field of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|field| field.name == name)
    }

    /// The value in `thresholds`.
    #[must_use]
    pub fn get(&self, thresholds: &Thresholds) -> f64 {
        (self.read)(thresholds)
    }

    /// Sets the value in `thresholds`.
    ///
    /// # Errors
    /// Names the field, what was found and what is allowed; `thresholds` is as before.
    pub fn set(&self, thresholds: &mut Thresholds, value: f64) -> Result<(), ThresholdError> {
        self.check(value)?;
        (self.write)(thresholds, value);
        Ok(())
    }

    /// The range in words, without the unit.
    #[must_use]
    pub fn allowed(&self) -> String {
        let low = if self.low_allowed { "at least" } else { "above" };
        let whole = if self.whole { "whole, " } else { "" };
        format!("{whole}{low} {}, at most {}", self.low, self.high)
    }

    fn check(&self, value: f64) -> Result<(), ThresholdError> {
        let above = value > self.low || (self.low_allowed && value == self.low);
        if above && value <= self.high && (!self.whole || libm::trunc(value) == value) {
            return Ok(());
        }
        Err(ThresholdError { field: self.name, found: value, allowed: self.allowed() })
    }
}

/// A threshold outside its range.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{field}: found {found}, allowed {allowed}")]
pub struct ThresholdError {
    /// The field.
    pub field: &'static str,
    /// What was found.
    pub found: f64,
    /// What is allowed.
    pub allowed: String,
}

macro_rules! real {
    ($name:ident, $unit:literal, $low_allowed:literal $low:literal .. $high:expr) => {
        ThresholdField {
            name: stringify!($name),
            unit: $unit,
            low: $low,
            low_allowed: $low_allowed,
            high: $high,
            whole: false,
            read: |thresholds| thresholds.$name,
            write: |thresholds, value| thresholds.$name = value,
        }
    };
}

macro_rules! whole {
    ($name:ident, $high:expr) => {
        ThresholdField {
            name: stringify!($name),
            unit: "",
            low: 1.0,
            low_allowed: true,
            high: $high,
            whole: true,
            read: |thresholds| f64::from(thresholds.$name),
            // The range is checked before, so the conversion is exact.
            write: |thresholds, value| thresholds.$name = value as u32,
        }
    };
}

const HOUR_MS: f64 = 3_600_000.0;

impl ThresholdField {
    /// Every threshold, in the order of the struct.
    pub const ALL: &'static [Self] = &[
        real!(latency_degraded_ms, "ms", false 0.0..HOUR_MS),
        real!(latency_restricted_ms, "ms", false 0.0..HOUR_MS),
        real!(latency_quarantine_ms, "ms", false 0.0..HOUR_MS),
        real!(jitter_degraded_ms, "ms", false 0.0..HOUR_MS),
        real!(jitter_restricted_ms, "ms", false 0.0..HOUR_MS),
        real!(drop_degraded, "", false 0.0..1.0),
        real!(drop_restricted, "", false 0.0..1.0),
        real!(drop_quarantine, "", false 0.0..1.0),
        whole!(persistence_to_escalate, 1000.0),
        whole!(clean_to_restore, 1000.0),
        whole!(clean_to_healthy, 1000.0),
        whole!(candidate_window, super::window::WINDOW_SAMPLES as f64),
        real!(prs_reject_threshold, "", true 0.0..1.0),
        whole!(default_pool_capacity, 1_000_000.0),
        real!(default_soft_capacity_fraction, "", false 0.0..1.0),
        real!(w_latency, "", true 0.0..1.0),
        real!(w_jitter, "", true 0.0..1.0),
        real!(w_drop, "", true 0.0..1.0),
        real!(fae_cluster_scale, "", false 0.0..1_000_000_000.0),
        real!(fae_max, "", false 0.0..1_000_000.0),
        whole!(min_samples, super::window::WINDOW_SAMPLES as f64),
        real!(fresh_ms, "ms", false 0.0..24.0 * HOUR_MS),
        real!(stale_after_ms, "ms", false 0.0..24.0 * HOUR_MS),
        real!(blackout_criticality, "", true 0.0..1.0),
        real!(quarantine_hold_ms, "ms", true 0.0..HOUR_MS),
        real!(quarantine_hold_max_ms, "ms", true 0.0..24.0 * HOUR_MS),
        real!(flap_forget_ms, "ms", false 0.0..24.0 * HOUR_MS),
        real!(bandwidth_degraded, "", true 0.0..1.0),
        real!(bandwidth_restricted, "", true 0.0..1.0),
        real!(bandwidth_quarantine, "", true 0.0..1.0),
        real!(bandwidth_hold_ms, "ms", true 0.0..HOUR_MS),
        real!(token_time_degraded, "", true 1.0..1_000_000.0),
        real!(token_time_restricted, "", true 1.0..1_000_000.0),
        real!(health_first_from, "", true 0.0..1.0),
        real!(load_ranks_from, "", true 0.0..1.0),
    ];
}

impl Thresholds {
    /// Checks every threshold against its range.
    ///
    /// # Errors
    /// Names the first field out of range, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), ThresholdError> {
        ThresholdField::ALL.iter().try_for_each(|field| field.check(field.get(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(p99_latency_ms: f64, jitter_ms: f64, mean_drop_rate: f64) -> WindowStats {
        WindowStats { p99_latency_ms, jitter_ms, mean_drop_rate, sample_count: 10 }
    }

    #[test]
    fn gfs_weighs_each_term_and_adds_their_interaction() {
        let thresholds = Thresholds::default();
        assert_eq!(gfs(&thresholds, &stats(20.0, 0.0, 0.0)), 0.225);
        assert_eq!(gfs(&thresholds, &stats(0.0, 8.0, 0.0)), 0.15);
        assert_eq!(gfs(&thresholds, &stats(0.0, 0.0, 0.025)), 0.125);
        let both = gfs(&thresholds, &stats(20.0, 0.0, 0.025));
        assert!((both - (0.225 + 0.125 + 0.0375)).abs() < 1e-12, "{both}");
        assert_eq!(gfs(&thresholds, &stats(1e9, 1e9, 1.0)), 1.0);
        assert_eq!(gfs(&thresholds, &WindowStats { sample_count: 0, ..stats(40.0, 0.0, 0.0) }), 0.0);
    }

    #[test]
    fn the_defaults_are_in_range_and_what_is_not_is_named() {
        Thresholds::default().validate().unwrap();
        let bad = Thresholds { latency_quarantine_ms: f64::NAN, ..Thresholds::default() };
        let error = bad.validate().unwrap_err().to_string();
        assert_eq!(error, "latency_quarantine_ms: found NaN, allowed above 0, at most 3600000");
        let bad = Thresholds { candidate_window: 61, ..Thresholds::default() };
        let error = bad.validate().unwrap_err().to_string();
        assert_eq!(error, "candidate_window: found 61, allowed whole, at least 1, at most 60");
    }

    #[test]
    fn each_field_sets_the_threshold_of_its_name() {
        let before = serde_json::to_value(Thresholds::default()).unwrap();
        assert_eq!(before.as_object().unwrap().len(), ThresholdField::ALL.len());
        for field in ThresholdField::ALL {
            let mut changed = Thresholds::default();
            field.set(&mut changed, 1.0).unwrap();
            let after = serde_json::to_value(&changed).unwrap();
            assert_eq!(after[field.name].as_f64(), Some(1.0));
            for (name, value) in before.as_object().unwrap() {
                assert!(name == field.name || after[name] == *value, "{} moved {name}", field.name);
            }
        }
    }
}
