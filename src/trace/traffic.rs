//! A trace as the requests that a router is asked: each with a class and KV bytes.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{KvModel, Mix, TraceError, TraceRequest};
use crate::model::WorkloadName;

/// How a trace becomes requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// What turns tokens into KV bytes.
    pub model: KvModel,
    /// How much faster than the trace they come.
    pub speedup: f64,
    /// What their KV bytes are multiplied by, for hosts that are smaller than the model's.
    pub kv_scale: f64,
    /// Their classes.
    pub mix: Mix,
    /// Of the draw of the classes.
    pub seed: u64,
}

/// What a [`Traffic`]'s numbers may be.
pub const SPEEDUP: std::ops::RangeInclusive<f64> = 0.1..=10_000.0;
/// See [`Traffic::kv_scale`].
pub const KV_SCALE: std::ops::RangeInclusive<f64> = 1e-9..=1_000.0;

impl Default for Traffic {
    fn default() -> Self {
        Self { model: KvModel::default(), speedup: 1.0, kv_scale: 1.0, mix: Mix::default(), seed: 1 }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When it comes, in milliseconds since the first one.
    pub at_ms: f64,
    /// Its class.
    pub workload: WorkloadName,
    /// Its KV bytes, at least 1.
    pub kv_bytes: u64,
}

impl Traffic {
    /// The requests of a trace, one after another.
    pub fn of(
        self,
        trace: impl Iterator<Item = Result<TraceRequest, TraceError>>,
    ) -> impl Iterator<Item = Result<Arrival, TraceError>> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        // A built-in stream may be drawn from the same seed; another ChaCha stream keeps them apart.
        rng.set_stream(1);
        trace.filter_map(move |request| {
            let request = match request {
                Ok(request) => request,
                Err(error) => return Some(Err(error)),
            };
            let kv_bytes = self.model.kv_bytes(request.input_tokens) as f64 * self.kv_scale;
            Some(Ok(Arrival {
                at_ms: request.arrival_ms / self.speedup,
                workload: self.mix.draw(&mut rng)?.clone(),
                kv_bytes: (kv_bytes as u64).max(1),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_bytes_and_classes_follow_the_trace() {
        let request = |arrival_ms, input_tokens| {
            Ok(TraceRequest { arrival_ms, input_tokens, output_tokens: 1, prefix_hashes: None })
        };
        let trace = || [request(0.0, 1), request(500.0, 1_000)].into_iter();
        let traffic = Traffic { speedup: 2.0, kv_scale: 0.5, mix: "batch=1".parse().unwrap(), ..Traffic::default() };
        let all: Result<Vec<Arrival>, TraceError> = traffic.of(trace()).collect();
        let seen: Vec<_> = all.unwrap().into_iter().map(|a| (a.at_ms, a.workload.to_string(), a.kv_bytes)).collect();
        assert_eq!(seen, [(0.0, "batch".to_owned(), 65_536), (250.0, "batch".to_owned(), 65_536_000)]);
        let tiny = Traffic { kv_scale: 1e-9, ..Traffic::default() };
        assert_eq!(tiny.of(trace()).map(|arrival| arrival.unwrap().kv_bytes).min(), Some(1));
    }
}
