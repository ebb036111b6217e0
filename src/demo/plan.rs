//! What will happen: a trace and the options in, every request's class, size and length out.
//! Pure, so that the same options give the same plan.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Options;
use crate::model::PAGE_BYTES;
use crate::trace::{KvModel, Mix, TraceRequest};

/// The largest request of a run becomes this many bytes; the others shrink by the same factor.
pub(crate) const LARGEST_BYTES: u64 = 4 * 1024 * 1024;
/// KV blocks, as a paged prefill engine has them.
pub(crate) const BLOCK_BYTES: u64 = 512 * 1024;
/// Requests whose KV caches a prefill arena holds at once.
pub(crate) const SLOTS: usize = 4;
/// One output token takes this long at speedup 1.
pub(crate) const TOKEN_TIME_MS: f64 = 20.0;
/// The mean share of the sessions that the stream keeps busy.
const TARGET_LOAD: f64 = 0.60;
/// How long a session counts beyond its own length, whatever the speedup: the transfer before it,
/// and until a reading of the engine that knows of its end has arrived.
const OVERHEAD_MS: f64 = 250.0;
const SESSIONS: (f64, f64) = (4.0, 256.0);
const MIB: u64 = 1024 * 1024;

/// The classes that the demo's requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Batch,
    Interactive,
    Release,
}

impl Class {
    pub(crate) const ALL: [Self; 3] = [Self::Batch, Self::Interactive, Self::Release];

    /// The name of the workload.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Interactive => "interactive",
            Self::Release => "release",
        }
    }

    /// Must be served by a healthy path: the built-in class's effective criticality is at least 0.7.
    pub(crate) fn is_strict(self) -> bool {
        matches!(self, Self::Interactive | Self::Release)
    }

    fn draw(mix: &Mix, rng: &mut ChaCha8Rng) -> Self {
        let drawn = mix.draw(rng);
        let is_drawn = |class: &Self| drawn.is_some_and(|name| name.as_str() == class.as_str());
        Self::ALL.into_iter().find(is_drawn).unwrap_or(Self::Batch)
    }
}

/// One request of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// When it is sent, counted from the stream's start.
    pub(crate) at: Duration,
    pub(crate) class: Class,
    /// What it moves, scaled.
    pub(crate) kv_bytes: u64,
    /// How long its session decodes.
    pub(crate) session: Duration,
    /// Which prefill host it came to.
    pub(crate) prefill: usize,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) requests: Vec<Planned>,
    /// True KV bytes for each byte that is moved, at least 1.
    pub(crate) shrink: f64,
    /// The largest request's true KV bytes.
    pub(crate) largest_true_bytes: u64,
    pub(crate) max_sessions: u32,
    /// Sessions that one decode host has on average.
    pub(crate) mean_sessions: f64,
    pub(crate) token_time_ms: f64,
    pub(crate) slot_bytes: u64,
    pub(crate) prefill_arena_bytes: u64,
    pub(crate) decode_arena_bytes: u64,
}

impl Plan {
    /// Lays out the run. `trace` has at least one request.
    pub(crate) fn new(options: &Options, model: KvModel, trace: &[TraceRequest]) -> Self {
        let largest_true_bytes = trace.iter().map(|request| model.kv_bytes(request.input_tokens)).max().unwrap_or(0);
        let shrink = (largest_true_bytes as f64 / LARGEST_BYTES as f64).max(1.0);
        let token_time_ms = TOKEN_TIME_MS / options.speedup;
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        // The built-in stream is drawn from the same seed; another ChaCha stream keeps them apart.
        rng.set_stream(1);
        let mix = Mix::default();
        let requests: Vec<_> = trace
            .iter()
            .enumerate()
            .map(|(index, request)| Planned {
                at: millis(request.arrival_ms / options.speedup),
                class: Class::draw(&mix, &mut rng),
                kv_bytes: shrunk(model.kv_bytes(request.input_tokens), shrink),
                session: millis((request.output_tokens as f64 * token_time_ms).max(1.0)),
                prefill: index % options.prefill.max(1),
            })
            .collect();
        let mean_sessions = mean_sessions(&requests) / options.decode.max(1) as f64;
        let max_sessions = (mean_sessions / TARGET_LOAD).ceil().clamp(SESSIONS.0, SESSIONS.1) as u32;
        let largest = requests.iter().map(|request| request.kv_bytes).max().unwrap_or(PAGE_BYTES);
        let mean = requests.iter().map(|request| request.kv_bytes).sum::<u64>() / (requests.len() as u64).max(1);
        let slot_bytes = largest.next_multiple_of(BLOCK_BYTES);
        let busy = 2 * mean * u64::from(max_sessions);
        Self {
            shrink,
            largest_true_bytes,
            max_sessions,
            mean_sessions,
            token_time_ms,
            slot_bytes,
            prefill_arena_bytes: slot_bytes * SLOTS as u64,
            decode_arena_bytes: busy.clamp(8 * slot_bytes, 256 * MIB).next_multiple_of(MIB),
            requests,
        }
    }

    /// The place in the stream at which the path turns gray.
    pub(crate) fn half_way(&self) -> usize {
        self.requests.len() / 2
    }
}

/// Sessions open at once on average, over all hosts (Little's law).
fn mean_sessions(requests: &[Planned]) -> f64 {
    let Some(last) = requests.last() else { return 0.0 };
    let held_ms: f64 = requests.iter().map(|request| request.session.as_secs_f64() * 1_000.0 + OVERHEAD_MS).sum();
    // A stream shorter than what one request takes has no rate to speak of.
    let span_ms = (last.at.as_secs_f64() * 1_000.0).max(held_ms / requests.len() as f64);
    held_ms / span_ms
}

/// At least one page, at most [`LARGEST_BYTES`].
fn shrunk(bytes: u64, shrink: f64) -> u64 {
    ((bytes as f64 / shrink) as u64).clamp(PAGE_BYTES, LARGEST_BYTES)
}

/// At most a day: traces of longer gaps are no use here.
fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or(Duration::MAX).min(Duration::from_secs(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arrival_ms: f64, input_tokens: u64, output_tokens: u64) -> TraceRequest {
        TraceRequest { arrival_ms, input_tokens, output_tokens, prefix_hashes: None }
    }

    fn plan(options: &Options, trace: &[TraceRequest]) -> Plan {
        Plan::new(options, options.model, trace)
    }

    #[test]
    fn the_largest_request_fills_four_mebibytes_and_the_smallest_one_page() {
        let trace = [request(0.0, 64_000, 10), request(10.0, 32_000, 10), request(20.0, 1, 10)];
        let plan = plan(&Options::default(), &trace);
        let sizes: Vec<_> = plan.requests.iter().map(|request| request.kv_bytes).collect();
        assert_eq!(sizes, [LARGEST_BYTES, LARGEST_BYTES / 2, PAGE_BYTES]);
        assert_eq!(plan.largest_true_bytes, 64_000 * 131_072);
        assert_eq!(plan.shrink, 2_000.0);
    }

    #[test]
    fn small_requests_are_not_blown_up() {
        let plan = plan(&Options::default(), &[request(0.0, 16, 10)]);
        assert_eq!((plan.shrink, plan.requests[0].kv_bytes), (1.0, 16 * 131_072));
    }

    #[test]
    fn speedup_divides_arrivals_and_session_lengths() {
        let options = Options { speedup: 10.0, prefill: 2, ..Options::default() };
        let plan = plan(&options, &[request(0.0, 10, 0), request(5_000.0, 10, 300), request(6_000.0, 10, 300)]);
        assert_eq!(plan.requests[1].at, Duration::from_millis(500));
        assert_eq!(plan.requests[1].session, Duration::from_millis(600));
        assert_eq!(plan.requests[0].session, Duration::from_millis(1));
        assert_eq!(plan.requests.iter().map(|request| request.prefill).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn sessions_are_chosen_for_sixty_percent_load_within_bounds() {
        // 1,000 requests over 10 s, each held 350 ms: 35 sessions, 17.5 on each of two hosts.
        let trace: Vec<_> = (0..1_000).map(|index| request(f64::from(index) * 10.01, 10, 5)).collect();
        let options = Options { speedup: 1.0, decode: 2, ..Options::default() };
        let steady = plan(&options, &trace);
        assert!((steady.mean_sessions - 17.5).abs() < 0.1, "{}", steady.mean_sessions);
        assert_eq!(steady.max_sessions, 30);
        assert_eq!(plan(&options, &trace[..1]).max_sessions, 4);
        let burst: Vec<_> = (0..2_000).map(|_| request(0.0, 10, 5)).collect();
        assert_eq!(plan(&options, &burst).max_sessions, 256);
    }

    #[test]
    fn arenas_hold_the_largest_request_and_stay_bounded() {
        let burst: Vec<_> = (0..2_000).map(|_| request(0.0, 100_000, 5)).collect();
        let plan = plan(&Options::default(), &burst);
        assert_eq!(plan.slot_bytes, LARGEST_BYTES);
        assert_eq!(plan.decode_arena_bytes, 256 * MIB);
        assert_eq!(plan.prefill_arena_bytes, 16 * MIB);
    }

    #[test]
    fn the_class_mix_is_seeded_and_near_its_shares() {
        let trace: Vec<_> = (0..10_000).map(|_| request(0.0, 10, 5)).collect();
        let classes = |seed| {
            let plan = plan(&Options { seed, ..Options::default() }, &trace);
            plan.requests.into_iter().map(|request| request.class).collect::<Vec<_>>()
        };
        assert_eq!(classes(1), classes(1));
        assert_ne!(classes(1), classes(2));
        for (class, share) in [(Class::Batch, 4_500), (Class::Interactive, 4_000), (Class::Release, 1_500)] {
            let found = classes(1).iter().filter(|drawn| **drawn == class).count();
            assert!(found.abs_diff(share) < 200, "{class:?}: {found}");
        }
    }

    #[test]
    fn strict_classes_are_those_of_effective_criticality_seven_tenths() {
        for class in Class::ALL {
            let workload = crate::model::builtin_workloads().into_iter().find(|w| w.name.as_str() == class.as_str());
            assert_eq!(workload.unwrap().effective_criticality() >= 0.7, class.is_strict(), "{class:?}");
        }
    }
}
