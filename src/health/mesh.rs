//! One path under the mesh profile: three tracks, of which the worst is the path's state.
//!
//! ```text
//! small samples ──▶ fresh window ──▶ GFS ─────────▶ latency track ─┐
//! large samples ──▶ achieved / expected bandwidth ─▶ bandwidth track ─┼─▶ worst ─▶ state
//! what failed, and what worked of its size ────────▶ transfer track ─┘
//! ```
//!
//! Samples come late, engines' reports above all. Each track has an order of its own, so that a probe
//! every second does not make every later word on a transfer void.

mod bandwidth;
mod flaps;
mod latency;
mod proven;
mod transfers;
mod window;

use serde::{Deserialize, Serialize};

use super::sample::Measured;
use super::score::gfs;
use super::window::Point;
use super::{Discard, Sample, SampleKind, SampleOutcome, Settings, Thresholds};
use crate::core::Mono;
use crate::model::{PathHealth, PathState};

pub use bandwidth::{
    BANDWIDTH_HYSTERESIS, BULK_FRESH_MS, BULK_SAMPLES, BandwidthTrack, MIN_BULK_SAMPLES, MIN_BULK_WIRE_MS,
    PROOF_SAMPLES, bandwidth_state,
};
pub use flaps::{Flaps, MAX_SLOWDOWN};
pub use latency::LatencyTrack;
pub use proven::{PROVEN_FOR_MS, Proven};
pub use transfers::{Stage, TransferTrack};
use window::FreshStats;
pub use window::FreshWindow;

/// One path under the mesh profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshTrack {
    window: FreshWindow,
    latency: LatencyTrack,
    bandwidth: BandwidthTrack,
    transfers: TransferTrack,
    /// When the newest sample of any kind was taken.
    newest: Option<Mono>,
}

impl MeshTrack {
    /// A path of which nothing is known but its state.
    pub(super) fn in_state(state: PathState) -> Self {
        Self { latency: LatencyTrack::in_state(state), ..Self::default() }
    }

    /// Takes one small, size-free sample and returns the health that follows. One that is older than
    /// the one before it changes nothing.
    pub fn feed(&mut self, settings: &Settings, taken: Mono, point: Point) -> PathHealth {
        self.newest = self.newest.max(Some(taken));
        self.small(settings, taken, point, false);
        self.settled(&settings.thresholds)
    }

    /// Takes one sample that was found good, for what its kind and its size say. One that is too fast
    /// to be believed says only that its bytes arrived.
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        now: Mono,
        sample: &Sample,
        measured: &Measured,
        rail: &mut Proven,
    ) -> Result<PathHealth, Discard> {
        let taken = sample.taken.map_or(now, |taken| taken.min(now));
        if now.ms_since(taken) >= BULK_FRESH_MS {
            return Err(Discard::Reordered);
        }
        let answers = sample.outcome == SampleOutcome::Ok && self.worked(settings, taken, measured.size_bytes);
        if measured.too_fast {
            return Err(Discard::Implausible);
        }
        // What is refused below is older than what is there, so that this stays true.
        self.newest = self.newest.max(Some(taken));
        let large = measured.alone_ms >= MIN_BULK_WIRE_MS;
        let counts = match (sample.kind, sample.outcome) {
            (SampleKind::Probe, outcome) => {
                self.small(settings, taken, measured.point, outcome == SampleOutcome::Failed)
            }
            (SampleKind::Transfer | SampleKind::Reported | SampleKind::Bulk, SampleOutcome::Ok) if large => {
                let base_ms = self.stats(&settings.thresholds).base_latency_ms;
                let moving_ms = (sample.elapsed_ms - base_ms).max(measured.explained_ms);
                self.bandwidth.add(taken, measured.explained_ms / moving_ms)
            }
            (SampleKind::Transfer | SampleKind::Reported | SampleKind::Bulk, SampleOutcome::Ok) => {
                self.small(settings, taken, measured.point, false)
            }
            (
                SampleKind::Transfer | SampleKind::Reported | SampleKind::Bulk,
                outcome @ (SampleOutcome::Lost | SampleOutcome::Failed),
            ) => {
                let lost = outcome == SampleOutcome::Lost;
                let began = Mono(taken.0.saturating_sub((sample.elapsed_ms * 1e6) as u64));
                let bytes = measured.size_bytes.max(1);
                let counts = self.transfers.failed(settings, transfers::Failure { began, ended: taken, bytes, lost });
                if counts && lost && large {
                    self.bandwidth.add(taken, 0.0);
                }
                counts
            }
        };
        if !(counts || answers) {
            return Err(Discard::Reordered);
        }
        if let Some(share) = self.bandwidth.achieved() {
            rail.note(now, share);
        }
        self.bandwidth.expect(rail.share(now));
        Ok(self.settled(&settings.thresholds))
    }

    /// The health after the last sample; [`PathHealth::UNKNOWN`] before the first.
    #[must_use]
    pub fn health(&self, thresholds: &Thresholds) -> PathHealth {
        let stats = self.stats(thresholds).stats;
        PathHealth {
            state: self.state(),
            gfs: gfs(thresholds, &stats),
            p99_latency_ms: stats.p99_latency_ms,
            jitter_ms: stats.jitter_ms,
            mean_drop_rate: stats.mean_drop_rate,
            sample_count: stats.sample_count,
            bandwidth_ratio: self.bandwidth.ratio(),
            failed_bytes: self.transfers.failed_bytes(),
        }
    }

    /// The worst of the three tracks' states.
    #[must_use]
    pub fn state(&self) -> PathState {
        worse(worse(self.latency.state(), self.bandwidth.state()), self.transfers.state())
    }

    /// The track of latency, jitter and losses.
    #[must_use]
    pub fn latency(&self) -> &LatencyTrack {
        &self.latency
    }

    /// When the newest sample was taken.
    pub(super) fn newest(&self) -> Option<Mono> {
        self.newest
    }

    /// When a canary is due.
    pub(super) fn canary_due(&self) -> Option<Mono> {
        self.transfers.due()
    }

    /// A canary is due now: how many bytes it has, and the path's latency without them.
    pub(super) fn canary(&mut self, settings: &Settings, now: Mono) -> Option<(u64, f64)> {
        let bytes = self.transfers.canary(settings, now)?;
        Some((bytes, self.stats(&settings.thresholds).base_latency_ms))
    }

    /// The samples without their times, oldest first.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.window.points()
    }

    /// What the small samples say that are fresh beside the newest of any kind.
    fn stats(&self, thresholds: &Thresholds) -> FreshStats {
        self.window.stats(thresholds, self.newest.unwrap_or_default())
    }

    /// Takes a small sample; says whether it counts, which it does not if a newer one has.
    fn small(&mut self, settings: &Settings, taken: Mono, point: Point, failed: bool) -> bool {
        if self.window.newest().is_some_and(|newest| taken < newest) {
            return false;
        }
        self.window.push(taken, point);
        let window = self.stats(&settings.thresholds);
        self.latency.observe(&settings.thresholds, taken, &window, failed);
        self.transfers.window(settings, taken, self.latency.is_clean());
        true
    }

    fn worked(&mut self, settings: &Settings, taken: Mono, bytes: u64) -> bool {
        let answers = self.transfers.worked(settings, taken, bytes);
        if answers {
            self.bandwidth.forgive();
        }
        answers
    }

    fn settled(&mut self, thresholds: &Thresholds) -> PathHealth {
        self.bandwidth.settle(thresholds, self.newest.unwrap_or_default());
        self.health(thresholds)
    }
}

/// The worse of two states.
fn worse(one: PathState, other: PathState) -> PathState {
    if other.severity() > one.severity() { other } else { one }
}
