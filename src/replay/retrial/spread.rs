//! Latencies in bounded memory.

use std::collections::BTreeMap;

/// Buckets for every doubling: each is 2.2 % wide.
const BUCKETS_PER_DOUBLING: f64 = 32.0;
/// Nothing is told apart below a microsecond.
const MIN_MS: f64 = 0.001;

/// How many samples had which latency, to 2.2 %.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    buckets: BTreeMap<i32, u64>,
    count: u64,
}

impl Spread {
    pub(super) fn add(&mut self, latency_ms: f64) {
        let bucket = libm::floor(libm::log2(latency_ms.max(MIN_MS)) * BUCKETS_PER_DOUBLING) as i32;
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
    }

    /// The latency below which `share` of the samples lie, in milliseconds; none without samples.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = libm::ceil(share * self.count as f64).max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        // The middle of the bucket.
        bucket.map(|(bucket, _)| libm::exp2((f64::from(*bucket) + 0.5) / BUCKETS_PER_DOUBLING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_their_buckets() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile(0.5), None);
        (1..=1000).for_each(|ms| spread.add(f64::from(ms)));
        for (share, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0), (0.0, 1.0)] {
            let found = spread.quantile(share).unwrap();
            assert!((found / exact - 1.0).abs() < 0.025, "{share}: {found}");
        }
        spread.add(0.0);
        assert!(spread.quantile(0.0).unwrap() < 0.0011);
    }
}
