//! GFS and the thresholds.

use serde::{Deserialize, Serialize};

/// Every number of the reference policy, under the names that the published prototype uses.
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
    /// Carried; the reference compares with the constant 0.75.
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
        }
    }
}
