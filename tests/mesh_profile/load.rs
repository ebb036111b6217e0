//! This host's own transfers on the rail that its probes use: load, not fault.

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seam::health::RAIL_QUEUE_BYTES;

use super::*;

const GBPS: f64 = 1.0;
const BYTES_PER_MS: f64 = GBPS * 1e6 / 8.0;
const MEAN_TRANSFER_BYTES: f64 = 32.0 * 1024.0 * 1024.0;
const PATHS: usize = 4;
const SECONDS: u64 = 120;
const SEEDS: u64 = 10;

/// A rail that serves this host's transfers one after the other. The sockets and the card hold
/// RAIL_QUEUE_BYTES of them at most, the rest waits in the senders.
struct Rail {
    rng: ChaCha8Rng,
    load: f64,
    next_ms: f64,
    now_ms: f64,
    /// Bytes of each transfer, and those not sent yet.
    under_way: std::collections::VecDeque<(f64, f64)>,
}

impl Rail {
    fn new(seed: u64, load: f64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { rng, load, next_ms: 0.0, now_ms: 0.0, under_way: Default::default() }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.rng.random::<f64>()).ln()
    }

    fn serve(&mut self, ms: f64) {
        let mut bytes = (ms - self.now_ms) * BYTES_PER_MS;
        self.now_ms = ms;
        while let Some((_, left)) = self.under_way.front_mut() {
            if *left > bytes {
                *left -= bytes;
                return;
            }
            bytes -= *left;
            self.under_way.pop_front();
        }
    }

    fn until(&mut self, ms: f64) {
        while self.next_ms <= ms {
            self.serve(self.next_ms);
            let bytes = self.exponential(MEAN_TRANSFER_BYTES);
            self.under_way.push_back((bytes, bytes));
            let between_ms = MEAN_TRANSFER_BYTES / BYTES_PER_MS / self.load;
            self.next_ms += self.exponential(between_ms);
        }
        self.serve(ms);
    }

    /// What a small probe waits for, in milliseconds, and the bytes that this host has in flight.
    fn ahead(&self) -> (f64, u64) {
        let left: f64 = self.under_way.iter().map(|(_, left)| left).sum();
        let all: f64 = self.under_way.iter().map(|(bytes, _)| bytes).sum();
        (left.min(RAIL_QUEUE_BYTES as f64) / BYTES_PER_MS, all as u64)
    }
}

/// How often a path stopped carrying work, and how many samples found `d0` degraded.
#[derive(Debug, Default)]
struct Found {
    exclusions: usize,
    samples: u32,
    degraded: u32,
}

fn run(profile: Profile, load: f64, corrected: bool, gray_ms: f64) -> Found {
    let mut found = Found::default();
    for seed in 0..SEEDS {
        let mut bench = Bench::new(profile, PATHS, GBPS);
        let mut rail = Rail::new(seed, load);
        for turn in 0..SECONDS * PATHS as u64 {
            let number = turn as usize % PATHS;
            bench.until(turn * 1000 / PATHS as u64);
            rail.until(bench.ms() as f64);
            let (ahead_ms, inflight_bytes) = rail.ahead();
            let gray_ms = if number == 0 { gray_ms } else { 0.0 };
            let own_ms = 2.0 + rail.rng.random::<f64>() * 0.5;
            let inflight_bytes = if corrected { inflight_bytes } else { 0 };
            bench.sample(Sample { inflight_bytes, ..probe(number, own_ms + ahead_ms + gray_ms) });
            if number == 0 && turn >= 20 {
                found.samples += 1;
                found.degraded += u32::from(bench.state(0) != PathState::Healthy);
            }
        }
        found.exclusions += bench.transitions.iter().filter(|(_, _, to)| !to.carries()).count();
    }
    found
}

#[test]
fn own_load_excludes_no_path_and_would_without_the_correction() {
    let corrected = run(Profile::Mesh, 0.35, true, 0.0);
    let uncorrected = run(Profile::Mesh, 0.35, false, 0.0);
    println!("35 % own load, {SEEDS} runs of {SECONDS} s: {corrected:?}; uncorrected: {uncorrected:?}");
    assert_eq!((corrected.exclusions, corrected.degraded), (0, 0));
    assert!(uncorrected.exclusions >= 2 * SEEDS as usize, "{uncorrected:?}");
}

#[test]
fn a_gray_path_does_not_hide_behind_own_load() {
    for load in [0.35, 3.0] {
        let mesh = run(Profile::Mesh, load, true, 30.0);
        let reference = run(Profile::Reference, load, true, 30.0);
        println!("a path 30 ms slower at load {load}: {mesh:?}; with all bytes in flight taken out: {reference:?}");
        assert!(mesh.degraded * 100 >= mesh.samples * 99, "{mesh:?}");
        if load > 1.0 {
            assert!(reference.degraded * 20 < reference.samples, "once the rail is always busy, it hid: {reference:?}");
        }
    }
}
