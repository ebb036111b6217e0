//! The built-in stream: a seeded stand-in for a trace, the same on every platform.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::TraceRequest;

/// Requests a second.
const RATE_PER_S: f64 = 3.0;
/// Prompts: median and spread (sigma of the logarithm), and the range they are cut to.
const INPUT: Lengths = Lengths { median: 6_000.0, sigma: 1.1, min: 32, max: 128_000 };
/// Answers.
const OUTPUT: Lengths = Lengths { median: 300.0, sigma: 0.7, min: 1, max: 2_000 };

/// Endless requests with Poisson arrivals (3 a second) and log-normal lengths (prompts with a
/// median of 6,000 tokens, answers with a median of 300).
pub struct Builtin {
    rng: ChaCha8Rng,
    at_ms: f64,
}

impl Builtin {
    /// The stream of one seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), at_ms: 0.0 }
    }

    /// Uniform in (0, 1], from the upper 53 bits.
    fn uniform(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn length(&mut self, lengths: &Lengths) -> u64 {
        // Box and Muller: one normal deviate from two uniform ones.
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        let normal = radius * libm::cos(std::f64::consts::TAU * self.uniform());
        let tokens = libm::rint(lengths.median * libm::exp(lengths.sigma * normal));
        (tokens as u64).clamp(lengths.min, lengths.max)
    }
}

struct Lengths {
    median: f64,
    sigma: f64,
    min: u64,
    max: u64,
}

impl Iterator for Builtin {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        let arrival_ms = self.at_ms;
        self.at_ms += -libm::log(self.uniform()) / RATE_PER_S * 1_000.0;
        let (input_tokens, output_tokens) = (self.length(&INPUT), self.length(&OUTPUT));
        Some(TraceRequest { arrival_ms, input_tokens, output_tokens, prefix_hashes: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_and_another_seed_another() {
        let stream = |seed| Builtin::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn rate_and_lengths_are_what_the_documentation_says() {
        let requests: Vec<_> = Builtin::new(1).take(20_000).collect();
        let last = requests.last().unwrap();
        let rate = 20_000.0 / (last.arrival_ms / 1_000.0);
        assert!((2.9..3.1).contains(&rate), "{rate}");
        let median = |mut tokens: Vec<u64>| {
            tokens.sort_unstable();
            tokens[tokens.len() / 2]
        };
        let input = median(requests.iter().map(|request| request.input_tokens).collect());
        let output = median(requests.iter().map(|request| request.output_tokens).collect());
        assert!((5_700..6_300).contains(&input), "{input}");
        assert!((285..315).contains(&output), "{output}");
        assert!(requests.iter().all(|request| (32..=128_000).contains(&request.input_tokens)));
        assert!(requests.windows(2).all(|pair| pair[0].arrival_ms <= pair[1].arrival_ms));
    }
}
