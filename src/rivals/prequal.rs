//! Prequal: hot or cold by requests in flight, then the lowest latency, on reused probes.
//!
//! From Wydrowski, Kleinberg, Rumble and Archer, "Load is not what you should balance: Introducing
//! Prequal" (NSDI 2024). A probe answers with a pool's requests in flight (RIF) and its latency. Each
//! ask probes a few pools at random and keeps the answers in a small pool of probes. A probe is *hot*
//! if its RIF is above the `Q_RIF` quantile of recent RIF, else *cold*. Among cold ones the lowest
//! latency wins; if all are hot, the lowest RIF. The winner's probe then counts one request more, and
//! of the pool of probes one leaves, by turns the oldest and the worst.
//!
//! Simplified: answers are there at once, where the paper's come later and serve the asks to come;
//! the latency is the p99 of a pool's path, where there a server reports the median at a like RIF;
//! a newer probe replaces an older one of the same pool; and there is no budget of uses for a probe,
//! whose own count already makes it worse with each use.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::p2c::draw;
use super::simple::compare;
use super::{Ask, Rival, Sight};

/// The quantile of RIF above which a probe is hot, in [0, 1]: the paper's 2^(−1/4). 0 leaves nearly
/// everything to RIF, 1 everything to latency.
const Q_RIF: f64 = 0.84;
/// Pools probed for each ask, the paper's baseline.
const PROBES_PER_ASK: usize = 3;
/// Probes kept at most, the paper's size.
const MAX_PROBES: usize = 16;
/// A probe older than this is dropped, the paper's limit.
const MAX_AGE_MS: f64 = 1_000.0;
/// Answers that make the distribution of RIF: those of the last 43 asks or so. Fewer would let the
/// quantile jump with every answer, many more let it trail behind the load.
const RIF_WINDOW: usize = 128;

pub(super) struct Prequal {
    rng: ChaCha8Rng,
    /// The oldest first.
    probes: Vec<Probe>,
    rifs: VecDeque<u32>,
    /// Whose turn it is to leave: the oldest probe's, else the worst's.
    oldest_leaves: bool,
}

struct Probe {
    name: String,
    rif: u32,
    latency_ms: f64,
    at_ms: f64,
}

impl Prequal {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), probes: Vec::new(), rifs: VecDeque::new(), oldest_leaves: false }
    }

    /// Takes the answer of one pool.
    fn probe(&mut self, at_ms: f64, sight: &Sight<'_>) {
        let rif = sight.load.active_sessions;
        self.probes.retain(|probe| probe.name != sight.name);
        self.probes.push(Probe { name: sight.name.to_owned(), rif, latency_ms: sight.latency_ms, at_ms });
        if self.probes.len() > MAX_PROBES {
            self.probes.remove(0);
        }
        self.rifs.push_back(rif);
        if self.rifs.len() > RIF_WINDOW {
            self.rifs.pop_front();
        }
    }

    /// The RIF above which a probe is hot: the quantile by nearest rank.
    fn threshold(&self) -> u32 {
        let mut rifs: Vec<u32> = self.rifs.iter().copied().collect();
        rifs.sort_unstable();
        let rank = libm::ceil(Q_RIF * rifs.len() as f64) as usize;
        rifs.get(rank.saturating_sub(1)).copied().unwrap_or(u32::MAX)
    }

    fn remove_one(&mut self, threshold: u32) {
        let worst = || {
            let ranks = self.probes.iter().map(|probe| probe.rank(threshold)).enumerate();
            ranks.max_by(|(_, left), (_, right)| compare(left, right)).map(|(index, _)| index)
        };
        let leaves = if self.oldest_leaves { Some(0) } else { worst() };
        self.oldest_leaves = !self.oldest_leaves;
        if let Some(index) = leaves.filter(|index| *index < self.probes.len()) {
            self.probes.remove(index);
        }
    }
}

impl Probe {
    /// The smaller, the better: the cold by latency, then the hot by RIF.
    fn rank(&self, threshold: u32) -> [f64; 3] {
        let rif = f64::from(self.rif);
        if self.rif > threshold { [1.0, rif, self.latency_ms] } else { [0.0, self.latency_ms, rif] }
    }
}

impl Rival for Prequal {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        self.probes.retain(|probe| ask.at_ms - probe.at_ms <= MAX_AGE_MS);
        let probed = draw(&mut self.rng, &mut (0..pools.len()).collect(), PROBES_PER_ASK);
        for sight in probed.into_iter().filter_map(|index| pools.get(index)) {
            self.probe(ask.at_ms, sight);
        }
        let threshold = self.threshold();
        // Probes of pools that cannot be chosen now wait.
        let known = self.probes.iter_mut().filter_map(|probe| {
            let index = pools.iter().position(|sight| sight.name == probe.name)?;
            Some((index, probe))
        });
        let (index, best) =
            known.min_by(|(_, left), (_, right)| compare(&left.rank(threshold), &right.rank(threshold)))?;
        best.rif = best.rif.saturating_add(1);
        self.remove_one(threshold);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, sight};
    use super::*;

    /// One that has already seen each of `rifs`.
    fn after(rifs: &[u32]) -> Prequal {
        Prequal { rifs: rifs.iter().copied().collect(), ..Prequal::new(1) }
    }

    #[test]
    fn the_threshold_is_the_quantile_of_recent_requests_in_flight() {
        let rifs: Vec<u32> = (1..=100).rev().collect();
        assert_eq!(after(&rifs).threshold(), 84);
        assert_eq!(after(&[5]).threshold(), 5);
        assert_eq!(after(&[9, 1, 1, 1, 1]).threshold(), 9);
        assert_eq!(after(&[9, 1, 1, 1, 1, 1, 1]).threshold(), 1);
    }

    #[test]
    fn among_cold_pools_the_lowest_latency_wins_however_loaded() {
        let pools = [sight("a", 4.0, 1), sight("b", 3.0, 6), sight("c", 5.0, 0)];
        assert_eq!(after(&[7; 100]).choose(&ask(0.0), &pools), Some(1));
    }

    #[test]
    fn a_hot_pool_loses_to_a_slower_cold_one() {
        let pools = [sight("a", 9.0, 2), sight("b", 1.0, 3)];
        assert_eq!(after(&[2; 100]).choose(&ask(0.0), &pools), Some(0));
    }

    #[test]
    fn if_all_are_hot_the_fewest_requests_in_flight_win() {
        let pools = [sight("a", 1.0, 7), sight("b", 9.0, 5), sight("c", 2.0, 6)];
        assert_eq!(after(&[1; 100]).choose(&ask(0.0), &pools), Some(1));
    }

    #[test]
    fn a_probe_counts_what_was_placed_by_it() {
        let mut rival = after(&[9; 100]);
        let pools = [sight("a", 5.0, 0), sight("b", 1.0, 3), sight("c", 5.0, 0)];
        assert_eq!(rival.choose(&ask(0.0), &pools), Some(1));
        assert_eq!(rival.probes.iter().find(|probe| probe.name == "b").unwrap().rif, 4);
    }

    #[test]
    fn a_probe_is_kept_for_a_second() {
        let mut rival = after(&[9; 100]);
        for name in ["a", "b", "c", "d"] {
            rival.probe(0.0, &sight(name, 1.0, 0));
        }
        let mut old_after = |at_ms: f64| {
            rival.choose(&ask(at_ms), &[sight("e", 5.0, 0)]);
            rival.probes.iter().filter(|probe| probe.at_ms == 0.0).count()
        };
        // At 1,000 ms the slowest leaves, which is e itself.
        assert_eq!([old_after(1_000.0), old_after(1_000.1)], [4, 0]);
    }

    #[test]
    fn a_kept_probe_wins_unless_its_pool_cannot_be_chosen() {
        let pools: Vec<Sight<'_>> = ["a", "b", "c", "d", "e", "f"].map(|name| sight(name, 5.0, 0)).to_vec();
        let kept = |seed| {
            let mut rival = Prequal { rng: ChaCha8Rng::seed_from_u64(seed), ..after(&[9; 100]) };
            rival.probe(0.0, &sight("f", 1.0, 0));
            rival
        };
        // What a probe found counts, though f is as slow as the others by now.
        let mut unasked = 0;
        for seed in 0..20 {
            let mut rival = kept(seed);
            let chosen = rival.choose(&ask(1.0), &pools);
            if rival.probes.iter().any(|probe| probe.name == "f" && probe.at_ms == 0.0) {
                unasked += 1;
                assert_eq!(chosen, Some(5));
            }
        }
        assert!((4..17).contains(&unasked), "of 20 asks 10 or so do not probe f: {unasked}");
        assert!(kept(1).choose(&ask(1.0), &pools[..5]).unwrap() < 5);
    }

    #[test]
    fn the_worst_and_the_oldest_probe_leave_by_turns() {
        let mut rival = Prequal::new(1);
        for (name, latency_ms, active) in [("old", 1.0, 0), ("slow", 9.0, 0), ("hot", 2.0, 5), ("new", 3.0, 0)] {
            rival.probe(0.0, &sight(name, latency_ms, active));
        }
        let mut gone = |threshold: u32| {
            let before: Vec<String> = rival.probes.iter().map(|probe| probe.name.clone()).collect();
            rival.remove_one(threshold);
            before.into_iter().find(|name| rival.probes.iter().all(|probe| probe.name != *name)).unwrap()
        };
        assert_eq!([gone(4), gone(4), gone(4), gone(4)], ["hot", "old", "slow", "new"]);
    }

    #[test]
    fn probes_and_answers_are_bounded() {
        let names: Vec<String> = (0..200).map(|pool| format!("pool-{pool}")).collect();
        let pools: Vec<Sight<'_>> = names.iter().map(|name| sight(name, 1.0, 0)).collect();
        let mut rival = Prequal::new(1);
        for _ in 0..200 {
            rival.choose(&ask(0.0), &pools);
        }
        assert_eq!((rival.probes.len(), rival.rifs.len()), (MAX_PROBES - 1, RIF_WINDOW));
    }
}
