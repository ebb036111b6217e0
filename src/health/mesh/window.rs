//! The samples of one path that are fresh, each with the time it was taken.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::flaps::whole_ms;
use crate::core::Mono;
use crate::health::Thresholds;
use crate::health::score::gfs;
use crate::health::state::Band;
use crate::health::window::{Point, WINDOW_SAMPLES, WindowStats};

/// One sample and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Timed {
    taken: Mono,
    point: Point,
}

/// What the fresh samples say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FreshStats {
    /// Their numbers.
    pub(super) stats: WindowStats,
    /// They are severe, and would be without the worst of them: one fewer than persist.
    pub(super) severe_without_worst: bool,
    /// The smallest latency of those that worked, in milliseconds; 0 if none did.
    pub(super) base_latency_ms: f64,
}

/// The last [`WINDOW_SAMPLES`] samples, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Timed>", into = "Vec<Timed>")]
pub struct FreshWindow {
    samples: VecDeque<Timed>,
}

impl FreshWindow {
    /// Adds the newest sample; the oldest leaves when the window is full.
    pub(super) fn push(&mut self, taken: Mono, point: Point) {
        if self.samples.len() >= WINDOW_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Timed { taken, point });
    }

    /// When the newest sample was taken.
    pub(super) fn newest(&self) -> Option<Mono> {
        self.samples.back().map(|sample| sample.taken)
    }

    /// What the newest `candidate_window` samples say, as far as they were fresh at `at`: when the
    /// path's newest sample of any kind was taken, since that is how young the path is said to be.
    pub(super) fn stats(&self, thresholds: &Thresholds, at: Mono) -> FreshStats {
        let fresh_ms = whole_ms(thresholds.fresh_ms);
        let window = usize::try_from(thresholds.candidate_window).unwrap_or(WINDOW_SAMPLES);
        let samples = self.samples.range(self.samples.len().saturating_sub(window)..);
        let fresh = samples.filter(|sample| at.ms_since(sample.taken) < fresh_ms.max(1));
        let worked = fresh.clone().filter(|sample| sample.point.drop_rate < 1.0);
        let base = worked.map(|sample| sample.point.latency_ms).reduce(f64::min);
        let points = fresh.map(|sample| (sample.point.latency_ms, sample.point.drop_rate));
        let stats = WindowStats::of(points.clone());
        FreshStats {
            stats,
            severe_without_worst: severe(thresholds, &stats) && severe_without_worst(thresholds, points.collect()),
            base_latency_ms: base.unwrap_or(0.0),
        }
    }

    /// The samples without their times, oldest first.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.samples.iter().map(|sample| sample.point)
    }
}

fn severe(thresholds: &Thresholds, stats: &WindowStats) -> bool {
    Band::of(gfs(thresholds, stats)) == Band::Severe
}

/// Whether samples of a latency and a drop rate each are severe without the worst of them, one fewer
/// than persist. An outlier makes every window severe that it stands in; this asks for more than that.
fn severe_without_worst(thresholds: &Thresholds, mut samples: Vec<(f64, f64)>) -> bool {
    let alone = |sample: &(f64, f64)| gfs(thresholds, &WindowStats::of(std::iter::once(*sample)));
    samples.sort_by(|left, right| alone(right).total_cmp(&alone(left)));
    let outliers = usize::try_from(thresholds.persistence_to_escalate).unwrap_or(usize::MAX).saturating_sub(1);
    severe(thresholds, &WindowStats::of(samples.iter().skip(outliers).copied()))
}

impl From<FreshWindow> for Vec<Timed> {
    fn from(window: FreshWindow) -> Self {
        window.samples.into()
    }
}

impl From<Vec<Timed>> for FreshWindow {
    fn from(samples: Vec<Timed>) -> Self {
        let surplus = samples.len().saturating_sub(WINDOW_SAMPLES);
        Self { samples: samples.into_iter().skip(surplus).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(0).plus_ms(ms)
    }

    fn window(samples: &[(u64, f64, f64)]) -> FreshWindow {
        let mut window = FreshWindow::default();
        for &(ms, latency_ms, drop_rate) in samples {
            window.push(at(ms), Point { latency_ms, drop_rate, bytes: 0 });
        }
        window
    }

    #[test]
    fn only_fresh_samples_count_and_a_gap_starts_anew() {
        let thresholds = Thresholds { fresh_ms: 3000.0, ..Thresholds::default() };
        let count_at = |samples: &[(u64, f64, f64)], ms| window(samples).stats(&thresholds, at(ms)).stats.sample_count;
        let count = |samples: &[(u64, f64, f64)]| count_at(samples, samples.last().map_or(0, |sample| sample.0));
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[(0, 1.0, 0.0), (1000, 1.0, 0.0), (2999, 1.0, 0.0)]), 3);
        assert_eq!(count(&[(0, 1.0, 0.0), (1000, 1.0, 0.0), (3000, 1.0, 0.0)]), 2, "an age of fresh_ms is too old");
        assert_eq!(count(&[(0, 1.0, 0.0), (1000, 1.0, 0.0), (60_000, 1.0, 0.0)]), 1);
        assert_eq!(count_at(&[(0, 1.0, 0.0), (1000, 1.0, 0.0)], 3999), 1, "what is newer makes these older");
        assert_eq!(count_at(&[(0, 1.0, 0.0), (1000, 1.0, 0.0)], 4000), 0);
        let many: Vec<_> = (0..50).map(|ms| (ms, 1.0, 0.0)).collect();
        assert_eq!(count(&many), 10, "no more than candidate_window");
    }

    #[test]
    fn a_window_that_only_outliers_make_severe_is_not_severe_without_them() {
        let thresholds = Thresholds::default();
        let judged = |samples: &[(u64, f64, f64)]| {
            let stats = window(samples).stats(&thresholds, at(10));
            (severe(&thresholds, &stats.stats), stats.severe_without_worst)
        };
        let with = |bad: &[(u64, f64, f64)]| {
            let good: Vec<_> = (bad.len() as u64..10).map(|ms| (ms, 2.0, 0.0)).collect();
            judged(&[bad, &good].concat())
        };
        assert_eq!(with(&[(0, 200.0, 1.0)]), (true, false), "one");
        assert_eq!(with(&[(0, 200.0, 1.0), (1, 200.0, 1.0)]), (true, false), "two");
        assert_eq!(with(&[(0, 200.0, 1.0), (1, 200.0, 1.0), (2, 200.0, 1.0)]), (true, true), "as many as persist");
        let unsteady: Vec<_> = (0..10).map(|ms| (ms, if ms % 2 == 0 { 39.0 } else { 2.0 }, 0.0)).collect();
        assert_eq!(judged(&unsteady), (true, true), "by jitter alone");
        assert_eq!(with(&[]), (false, false));
        let base = window(&[(0, 5.0, 1.0), (1, 7.0, 0.0), (2, 9.0, 0.0)]).stats(&thresholds, at(2)).base_latency_ms;
        assert_eq!(base, 7.0, "of those that worked");
    }
}
