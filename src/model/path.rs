//! What is known of a path, and which paths exist between two hosts.

use serde::{Deserialize, Serialize};

use super::reason::coded;
use super::records::{NodeRecord, RailRecord};
use super::{NodeName, PathId};

coded!(
    /// How well a path does its work. Not binary: most states still carry something.
    PathState {
        /// Carries everything.
        Healthy = "healthy",
        /// Was degraded, looks clean again, not yet trusted with the most critical.
        Restored = "restored",
        /// Carries what tolerates it.
        DegradedUsable = "degraded_usable",
        /// Carries only what hardly matters.
        DegradedRestricted = "degraded_restricted",
        /// Carries nothing while it persists.
        QuarantineCandidate = "quarantine_candidate",
        /// Carries nothing but probes.
        Quarantined = "quarantined",
    }
);

impl PathState {
    /// How severe the state is, in [0, 1].
    #[must_use]
    pub fn severity(self) -> f64 {
        match self {
            Self::Healthy => 0.0,
            Self::Restored => 0.10,
            Self::DegradedUsable => 0.20,
            Self::DegradedRestricted => 0.55,
            Self::QuarantineCandidate => 0.80,
            Self::Quarantined => 1.0,
        }
    }

    /// Whether a path in this state carries any work at all.
    #[must_use]
    pub fn carries(self) -> bool {
        !matches!(self, Self::QuarantineCandidate | Self::Quarantined)
    }
}

/// Whose samples speak for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// This node's own.
    Own,
    /// Another observer's, through the mesh.
    Observed,
    /// Nobody's.
    None,
}

coded!(
    /// Which part of a path its degradation is placed on.
    Blame {
        /// The host that sends.
        Source = "source",
        /// The host that receives.
        Destination = "destination",
        /// The network between them.
        Between = "between",
    }
);

/// A path's health as one decision reads it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathHealth {
    /// The state after the last sample.
    pub state: PathState,
    /// Gray Failure Score in [0, 1], unrounded.
    pub gfs: f64,
    /// 99th percentile of the size-free latency over the window, in milliseconds.
    pub p99_latency_ms: f64,
    /// Sample standard deviation of that latency, in milliseconds.
    pub jitter_ms: f64,
    /// Mean share of lost or failed attempts, in [0, 1].
    pub mean_drop_rate: f64,
    /// Samples in the window.
    pub sample_count: u32,
    /// Achieved over expected bandwidth of its newest large samples, where there are any.
    #[serde(default)]
    pub bandwidth_ratio: Option<f64>,
    /// Bytes of the largest transfer that failed here while nothing of that size has worked since;
    /// 0 if there is none.
    #[serde(default)]
    pub failed_bytes: u64,
}

impl PathHealth {
    /// A path that nobody has sampled yet.
    pub const UNKNOWN: Self = Self {
        state: PathState::Healthy,
        gfs: 0.0,
        p99_latency_ms: 0.0,
        jitter_ms: 0.0,
        mean_drop_rate: 0.0,
        sample_count: 0,
        bandwidth_ratio: None,
        failed_bytes: 0,
    };
}

/// One path that exists: its name, the rails at both ends, the bandwidth that both share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSpec {
    /// The path.
    pub id: PathId,
    /// Where the destination's rail listens, in the backend's own words.
    pub address: String,
    /// The smaller of both rails' bandwidth, in gigabits per second.
    pub bandwidth_gbps: f64,
}

/// The paths from `source`, with its `rails`, to the host of `destination`.
///
/// Rails pair within one rail group and one backend: the source's k-th rail of a group and backend
/// meets the destination's k-th (modulo how many it has), so a host with eight rails on eight
/// switches has eight paths to its peer, not sixty-four.
#[must_use]
pub fn paths_between(source: &NodeName, rails: &[RailRecord], destination: &NodeRecord) -> Vec<PathSpec> {
    let mut paths = Vec::new();
    if *source == destination.node {
        return paths;
    }
    for (index, rail) in rails.iter().enumerate() {
        let same = |other: &&RailRecord| other.group == rail.group && other.backend == rail.backend;
        let ours_before = rails.iter().take(index).filter(same).count();
        let theirs: Vec<_> = destination.rails.iter().filter(same).collect();
        if theirs.is_empty() {
            continue;
        }
        if let Some(peer) = theirs.get(ours_before % theirs.len()) {
            paths.push(PathSpec {
                id: PathId {
                    source: source.clone(),
                    destination: destination.node.clone(),
                    rail: rail.name.clone(),
                    backend: rail.backend,
                },
                address: peer.address.clone(),
                bandwidth_gbps: rail.bandwidth_gbps.min(peer.bandwidth_gbps),
            });
        }
    }
    paths
}
