//! One path's samples and the health that follows from them.

use serde::{Deserialize, Serialize};

use super::score::{Thresholds, gfs};
use super::state::StateTrack;
use super::window::{Point, Window};
use crate::model::PathHealth;

/// The window and the state of one path, wherever its samples come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Track {
    window: Window,
    state: StateTrack,
}

impl Track {
    /// A path in this state that has these samples, the oldest first.
    pub(super) fn resumed(points: Vec<Point>, state: StateTrack) -> Self {
        Self { window: points.into(), state }
    }

    /// Takes one valid sample and returns the health that follows.
    pub fn feed(&mut self, thresholds: &Thresholds, point: Point) -> PathHealth {
        self.window.push(point);
        let health = self.health(thresholds);
        self.state.observe(thresholds, health.gfs);
        PathHealth { state: self.state.state, ..health }
    }

    /// The health after the last sample; [`PathHealth::UNKNOWN`] before the first.
    #[must_use]
    pub fn health(&self, thresholds: &Thresholds) -> PathHealth {
        let stats = self.window.stats(thresholds.candidate_window);
        PathHealth {
            state: self.state.state,
            gfs: gfs(thresholds, &stats),
            p99_latency_ms: stats.p99_latency_ms,
            jitter_ms: stats.jitter_ms,
            mean_drop_rate: stats.mean_drop_rate,
            sample_count: stats.sample_count,
            ..PathHealth::UNKNOWN
        }
    }

    /// The state and the windows in a row that led to it.
    #[must_use]
    pub fn state(&self) -> StateTrack {
        self.state
    }
}
