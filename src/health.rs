//! The health core: samples in, path states out.
//!
//! ```text
//! Sample ──▶ plausible? late? ──▶ size-free latency ──▶ profile's rules ──▶ state ──▶ PathReport
//! ```
//!
//! The reference profile's rules are [`Track`], the mesh profile's [`MeshTrack`]; [`ProfileTrack`] is
//! where they part.

mod core;
mod history;
pub mod mesh;
pub mod pace;
mod profile;
mod sample;
pub mod score;
pub mod stall;
pub mod state;
mod track;
pub mod window;

use serde::{Deserialize, Serialize};

pub use self::core::{CANARY_SLACK, HealthCore, MIN_CANARY_DEADLINE_MS, PathSnapshot, Snapshot};
use crate::core::Mono;
use crate::model::{PathHealth, PathId, PathSpec, PathState, Profile};
pub use history::{SAMPLES_APART_MS, health_of};
pub use mesh::{MeshTrack, bandwidth_state};
pub use profile::ProfileTrack;
pub use sample::{MAX_ELAPSED_MS, MIN_WIRE_MS, RAIL_QUEUE_BYTES};
pub use score::Thresholds;
pub use track::Track;

/// Who took a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// A small probe of Seam's own.
    Probe,
    /// A transfer that Seam made.
    Transfer,
    /// An engine's report of a transfer that it made.
    Reported,
    /// A large probe of Seam's own, on a schedule or as a canary.
    Bulk,
}

/// How an attempt to use a path ended, as far as the path is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleOutcome {
    /// It worked.
    Ok,
    /// Nothing came back in time.
    Lost,
    /// The path or its far end refused or broke.
    Failed,
}

/// One measurement of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The path.
    pub path: PathId,
    /// Who took it.
    pub kind: SampleKind,
    /// How it ended.
    pub outcome: SampleOutcome,
    /// From the first byte sent to the answer, in milliseconds, at least 0.
    pub elapsed_ms: f64,
    /// Bytes moved; 0 if none arrived.
    pub bytes: u64,
    /// Bytes that were to be moved: as many as `bytes` where it worked.
    pub attempted_bytes: u64,
    /// Bytes that shared the rail meanwhile at that end at which they were more, the sample's own not
    /// counted.
    pub inflight_bytes: u64,
    /// How late this host itself was while it measured, in milliseconds.
    pub late_ms: f64,
    /// When it ended, by the clock that the core is told; the time of the turn if absent.
    pub taken: Option<Mono>,
}

impl Sample {
    /// When it began, for a core whose time is `now`.
    pub(crate) fn began(&self, now: Mono) -> Mono {
        let elapsed_ns = if self.elapsed_ms >= 0.0 { self.elapsed_ms * 1e6 } else { 0.0 };
        // The conversion saturates: what took longer than the clock runs began at its origin.
        Mono(self.taken.unwrap_or(now).0.saturating_sub(elapsed_ns as u64))
    }
}

/// What the shell tells the health core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The rules, at start and after a change. Paths already known stay, even above a smaller limit.
    Configure(Settings),
    /// A path exists, or its bandwidth changed; its samples stay.
    PathUp(PathSpec),
    /// A path exists no longer; what was known of it is forgotten.
    PathGone(PathId),
    /// A measurement.
    Sample(Sample),
    /// Time has passed.
    Tick,
}

/// What the health core says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Output {
    /// A path's health after a sample that counted.
    Report(PathReport),
    /// A path changed its state.
    Transition {
        /// The path.
        path: PathId,
        /// Before.
        from: PathState,
        /// After.
        to: PathState,
    },
    /// A path is known no longer; no report of it follows.
    Gone(PathId),
    /// A sample or a path was not used.
    Discarded {
        /// The path that it named.
        path: PathId,
        /// Why.
        reason: Discard,
    },
    /// A configuration was not used; the earlier one holds.
    Refused(InvalidSettings),
    /// Transfers failed on a path and its hold is over: whether it works again is to be found out
    /// with one large probe.
    Canary(Canary),
    /// This host itself is late most of the time, or no longer: while it is, no state changes.
    Frozen(bool),
}

/// One large probe that decides whether a path carries transfers again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Canary {
    /// The path.
    pub path: PathId,
    /// How many bytes.
    pub bytes: u64,
    /// How long it may take, in milliseconds: far shorter than a transfer may, since it is alone.
    pub deadline_ms: u64,
}

/// A numbered snapshot of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Counts the reports of this core: of two reports of a path, the later has the larger number.
    pub version: u64,
    /// How old its newest sample was when the report was made, in milliseconds.
    pub age_ms: u64,
    /// What is known.
    pub health: PathHealth,
}

crate::model::coded!(
    /// Why a sample or a path was not used.
    Discard {
        /// A number is NaN, infinite or negative.
        Invalid = "invalid",
        /// Faster than the wire, or longer than a day.
        Implausible = "implausible",
        /// This host itself was late while it measured.
        Late = "late",
        /// On time, while this host is late most of the time.
        Frozen = "frozen",
        /// Older than what its track has heard since, or too old for any.
        Reordered = "reordered",
        /// Begun before its path was there: it measured an earlier life of the far end.
        EarlierLife = "earlier_life",
        /// The path is not known.
        UnknownPath = "unknown_path",
        /// The table of paths is full.
        TooManyPaths = "too_many_paths",
    }
);

/// The health core's part of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which set of rules leads from samples to states.
    pub profile: Profile,
    /// Weights and limits of GFS and of the path state.
    pub thresholds: Thresholds,
    /// A sample taken while this host was later than this is discarded, in milliseconds, at least 0.
    pub max_late_ms: f64,
    /// Paths kept at most, 1 to [`MAX_PATHS`].
    pub max_paths: usize,
    /// The largest probe that the shell sends, in bytes, at least 1: what failed with more than this
    /// counts as working again once this many have arrived.
    pub canary_bytes: u64,
}

/// The largest [`Settings::max_paths`]: some 100 MB of samples.
pub const MAX_PATHS: usize = 65_536;

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: Profile::Reference,
            thresholds: Thresholds::default(),
            max_late_ms: 20.0,
            max_paths: 8192,
            canary_bytes: 8 * 1024 * 1024,
        }
    }
}

impl Settings {
    /// Checks every number against its range.
    ///
    /// # Errors
    /// Names the first field out of range, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), InvalidSettings> {
        self.thresholds.validate()?;
        if !(self.max_late_ms.is_finite() && self.max_late_ms >= 0.0) {
            return Err(InvalidSettings::MaxLate(self.max_late_ms));
        }
        if !(1..=MAX_PATHS).contains(&self.max_paths) {
            return Err(InvalidSettings::MaxPaths(self.max_paths));
        }
        if self.canary_bytes == 0 {
            return Err(InvalidSettings::CanaryBytes);
        }
        Ok(())
    }
}

/// A setting outside its range.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
pub enum InvalidSettings {
    /// A threshold.
    #[error("thresholds.{0}")]
    Threshold(#[from] score::ThresholdError),
    /// [`Settings::max_late_ms`].
    #[error("max_late_ms: found {0}, allowed a finite number of at least 0")]
    MaxLate(f64),
    /// [`Settings::max_paths`].
    #[error("max_paths: found {0}, allowed 1 to {MAX_PATHS}")]
    MaxPaths(usize),
    /// [`Settings::canary_bytes`].
    #[error("canary_bytes: found 0, allowed at least 1")]
    CanaryBytes,
}
