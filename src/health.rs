//! The health core: samples in, path states out.
//!
//! ```text
//! Sample ──▶ plausible? late? ──▶ size-free latency ──▶ window ──▶ GFS ──▶ state ──▶ PathReport
//! ```

pub mod score;
pub mod state;
pub mod window;

use serde::{Deserialize, Serialize};

use crate::model::{PathHealth, PathId, PathSpec, PathState};
pub use score::Thresholds;

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
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes of this host's own that shared the rail meanwhile, the sample's own not counted.
    pub inflight_bytes: u64,
    /// How late this host itself was while it measured, in milliseconds.
    pub late_ms: f64,
}

/// What the shell tells the health core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The rules, at start and after a change.
    Configure(Settings),
    /// A path exists, or its bandwidth changed.
    PathUp(PathSpec),
    /// A path exists no longer.
    PathGone(PathId),
    /// A measurement.
    Sample(Sample),
    /// Time has passed.
    Tick,
}

/// What the health core says.
#[derive(Clone, Debug, PartialEq)]
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
    /// A sample was not used.
    Discarded {
        /// The path that it named.
        path: PathId,
        /// Why.
        reason: Discard,
    },
}

/// A numbered snapshot of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Counts the reports of this path in this life.
    pub version: u64,
    /// What is known.
    pub health: PathHealth,
}

crate::model::coded!(
    /// Why a sample was not used.
    Discard {
        /// A number is NaN, infinite or negative.
        Invalid = "invalid",
        /// Faster than the wire, or longer than a day.
        Implausible = "implausible",
        /// This host itself was late while it measured.
        Late = "late",
        /// The path is not known.
        UnknownPath = "unknown_path",
        /// The table of paths is full.
        TooManyPaths = "too_many_paths",
    }
);

/// The health core's part of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Weights and limits of GFS and of the path state.
    pub thresholds: Thresholds,
    /// A sample taken while this host was later than this is discarded, in milliseconds.
    pub max_late_ms: f64,
    /// Paths kept at most.
    pub max_paths: usize,
}
