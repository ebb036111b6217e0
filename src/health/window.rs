//! The last samples of one path, and the numbers drawn from them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Samples kept of each path.
pub const WINDOW_SAMPLES: usize = 60;

// With so few samples the 99th percentile lies between the two largest, which saves a sort.
const _: () = assert!(WINDOW_SAMPLES <= 100);

/// One sample as it counts: valid, size-free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Latency without the time that the bytes themselves explain, in milliseconds, finite, at least 0.
    pub latency_ms: f64,
    /// Share lost, in [0, 1].
    pub drop_rate: f64,
    /// Bytes moved.
    pub bytes: u64,
}

/// What a window says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowStats {
    /// 99th percentile of the latency, interpolated, in milliseconds; 0 with no sample.
    pub p99_latency_ms: f64,
    /// Sample standard deviation of the latency, in milliseconds; 0 below two samples.
    pub jitter_ms: f64,
    /// Mean drop rate in [0, 1]; 0 with no sample.
    pub mean_drop_rate: f64,
    /// Samples that these numbers rest on.
    pub sample_count: u32,
}

/// The last [`WINDOW_SAMPLES`] samples, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Point>", into = "Vec<Point>")]
pub struct Window {
    points: VecDeque<Point>,
}

impl Window {
    /// Adds the newest sample; the oldest leaves when the window is full.
    pub fn push(&mut self, point: Point) {
        if self.points.len() >= WINDOW_SAMPLES {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The numbers of the newest `window` samples.
    #[must_use]
    pub fn stats(&self, window: u32) -> WindowStats {
        let newest = usize::try_from(window).unwrap_or(WINDOW_SAMPLES);
        let points = self.points.range(self.points.len().saturating_sub(newest)..);
        WindowStats::of(points.map(|point| (point.latency_ms, point.drop_rate)))
    }
}

impl WindowStats {
    /// The numbers of samples of a latency and a drop rate each, at most [`WINDOW_SAMPLES`] of them.
    pub(super) fn of(samples: impl Iterator<Item = (f64, f64)> + Clone) -> Self {
        let (mut largest, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let (mut latency_sum, mut drop_sum) = (0.0, 0.0);
        let mut sample_count = 0u32;
        for (latency_ms, drop_rate) in samples.clone() {
            sample_count += 1;
            latency_sum += latency_ms;
            drop_sum += drop_rate;
            if latency_ms > largest {
                (largest, second) = (latency_ms, largest);
            } else if latency_ms > second {
                second = latency_ms;
            }
        }
        if sample_count == 0 {
            return Self::default();
        }
        let count = f64::from(sample_count);
        let mean = latency_sum / count;
        let squares: f64 = samples.map(|(latency_ms, _)| (latency_ms - mean) * (latency_ms - mean)).sum();
        Self {
            p99_latency_ms: p99(largest, second, count),
            jitter_ms: if sample_count < 2 { 0.0 } else { libm::sqrt(squares / (count - 1.0)) },
            mean_drop_rate: drop_sum / count,
            sample_count,
        }
    }
}

/// Linear interpolation at index `(n - 1) * 0.99` of the sorted latencies.
fn p99(largest: f64, second: f64, samples: f64) -> f64 {
    if samples < 2.0 {
        return largest;
    }
    let index = (samples - 1.0) * 0.99;
    let fraction = index - (samples - 2.0);
    second + (largest - second) * fraction
}

impl From<Window> for Vec<Point> {
    fn from(window: Window) -> Self {
        window.points.into()
    }
}

impl From<Vec<Point>> for Window {
    fn from(points: Vec<Point>) -> Self {
        let mut window = Self::default();
        points.into_iter().for_each(|point| window.push(point));
        window
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(latencies: &[f64]) -> Window {
        latencies.iter().map(|&latency_ms| Point { latency_ms, drop_rate: 0.0, bytes: 0 }).collect::<Vec<_>>().into()
    }

    #[test]
    fn an_empty_window_says_nothing_and_one_sample_has_no_jitter() {
        assert_eq!(window(&[]).stats(10), WindowStats::default());
        let stats = window(&[7.5]).stats(10);
        assert_eq!((stats.p99_latency_ms, stats.jitter_ms, stats.sample_count), (7.5, 0.0, 1));
    }

    #[test]
    fn only_the_newest_samples_count_and_the_oldest_leave() {
        let latencies: Vec<f64> = (0..100).map(f64::from).collect();
        let window = window(&latencies);
        assert_eq!(window.stats(1000).sample_count, 60);
        let stats = window.stats(3);
        assert_eq!(stats.sample_count, 3);
        assert!((stats.p99_latency_ms - 98.98).abs() < 1e-9);
        assert!((stats.jitter_ms - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_stored_window_longer_than_the_limit_is_cut_to_it() {
        let points = vec![Point { latency_ms: 1.0, drop_rate: 0.0, bytes: 0 }; 500];
        let text = serde_json::to_string(&points).unwrap();
        let window: Window = serde_json::from_str(&text).unwrap();
        assert_eq!(window.points.len(), WINDOW_SAMPLES);
    }

    proptest! {
        #[test]
        fn p99_equals_interpolation_over_the_sorted_latencies(
            latencies in prop::collection::vec(0.0..1000.0f64, 1..=WINDOW_SAMPLES)
        ) {
            let mut sorted = latencies.clone();
            sorted.sort_by(f64::total_cmp);
            let index = (sorted.len() - 1) as f64 * 0.99;
            let low = index.floor() as usize;
            let high = (low + 1).min(sorted.len() - 1);
            let expected = sorted[low] + (sorted[high] - sorted[low]) * (index - low as f64);
            let found = window(&latencies).stats(WINDOW_SAMPLES as u32).p99_latency_ms;
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        }
    }
}
