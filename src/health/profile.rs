//! The one place of health where the profiles part: which samples count, and which rules they go
//! through.

use serde::{Deserialize, Serialize};

use super::mesh::Proven;
use super::sample::{Measured, RAIL_QUEUE_BYTES};
use super::state::StateTrack;
use super::window::Point;
use super::{Discard, MeshTrack, Sample, SampleKind, Settings, Thresholds, Track};
use crate::core::Mono;
use crate::model::{PathHealth, PathState, Profile};

impl Settings {
    /// Whether a sample is doubted for what its observer and its path were when it was taken: a host
    /// that stalls, an earlier life of the far end.
    pub(super) fn doubts(&self) -> bool {
        match self.profile {
            Profile::Reference => false,
            Profile::Mesh => true,
        }
    }

    /// This host's other bytes that explain a part of what `sample` took.
    pub(super) fn beside_bytes(&self, sample: &Sample) -> u64 {
        match (self.profile, sample.kind) {
            (Profile::Mesh, SampleKind::Probe) => sample.inflight_bytes.min(RAIL_QUEUE_BYTES),
            (Profile::Mesh, SampleKind::Bulk | SampleKind::Transfer | SampleKind::Reported)
            | (
                Profile::Reference,
                SampleKind::Probe | SampleKind::Bulk | SampleKind::Transfer | SampleKind::Reported,
            ) => sample.inflight_bytes,
        }
    }
}

/// One path under the rules of its profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileTrack {
    /// Under those of the published prototype.
    Reference(Track),
    /// Under those of the mesh profile.
    Mesh(Box<MeshTrack>),
}

impl ProfileTrack {
    /// A path that nobody has sampled yet.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        match profile {
            Profile::Reference => Self::Reference(Track::default()),
            Profile::Mesh => Self::Mesh(Box::default()),
        }
    }

    /// The same path under the rules of `profile`. Its state stays. Towards the reference its samples
    /// stay too; towards the mesh profile, which needs their times, it is proven anew.
    pub(super) fn under(self, profile: Profile) -> Self {
        match (self, profile) {
            (Self::Mesh(track), Profile::Reference) => {
                let state = StateTrack { state: track.state(), ..StateTrack::default() };
                Self::Reference(Track::resumed(track.points().collect(), state))
            }
            (Self::Reference(track), Profile::Mesh) => Self::Mesh(Box::new(MeshTrack::in_state(track.state().state))),
            (same @ Self::Reference(_), Profile::Reference) | (same @ Self::Mesh(_), Profile::Mesh) => same,
        }
    }

    /// Takes one small, size-free sample of which nothing is doubted, as a history or a what-if has it.
    pub fn feed(&mut self, settings: &Settings, taken: Mono, point: Point) -> PathHealth {
        match self {
            Self::Reference(track) => track.feed(&settings.thresholds, point),
            Self::Mesh(track) => track.feed(settings, taken, point),
        }
    }

    /// Takes one sample that was found good, or that is only too fast to be believed.
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        now: Mono,
        sample: &Sample,
        measured: &Measured,
        rail: &mut Proven,
    ) -> Result<PathHealth, Discard> {
        match self {
            Self::Reference(_) if measured.too_fast => Err(Discard::Implausible),
            Self::Reference(track) => Ok(track.feed(&settings.thresholds, measured.point)),
            Self::Mesh(track) => track.take(settings, now, sample, measured, rail),
        }
    }

    /// The health after the last sample.
    #[must_use]
    pub fn health(&self, thresholds: &Thresholds) -> PathHealth {
        match self {
            Self::Reference(track) => track.health(thresholds),
            Self::Mesh(track) => track.health(thresholds),
        }
    }

    /// The state after the last sample.
    #[must_use]
    pub fn state(&self) -> PathState {
        match self {
            Self::Reference(track) => track.state().state,
            Self::Mesh(track) => track.state(),
        }
    }

    /// When its newest sample was taken, as far as its rules care.
    pub(super) fn newest(&self) -> Option<Mono> {
        match self {
            Self::Reference(_) => None,
            Self::Mesh(track) => track.newest(),
        }
    }

    /// When a canary is due.
    pub(super) fn canary_due(&self) -> Option<Mono> {
        match self {
            Self::Reference(_) => None,
            Self::Mesh(track) => track.canary_due(),
        }
    }

    /// A canary is due now: how many bytes it has, and the path's latency without them.
    pub(super) fn canary(&mut self, settings: &Settings, now: Mono) -> Option<(u64, f64)> {
        match self {
            Self::Reference(_) => None,
            Self::Mesh(track) => track.canary(settings, now),
        }
    }
}
