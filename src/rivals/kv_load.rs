//! Where the prompt's KV blocks already are, and where decoding is light.
//!
//! The rule of prefix-aware routers, as NVIDIA Dynamo's KV router (2025) documents it with its
//! weights at 1 and its temperature at 0; the lowest cost, counted in blocks, wins, the first in the
//! order given on a tie:
//!
//! `cost = uncached blocks of the prompt + decode blocks`
//!
//! A prompt's blocks count as cached as far as the pool holds them from the first on without a gap: a
//! block is of use only behind all before it. What a pool holds is learned from this rival's own
//! placements, as if each succeeded, where Dynamo listens to the engines. Decode blocks are a pool's
//! active sessions times a constant, where Dynamo counts those of each request. For a request without
//! prefix blocks only decode blocks count. It reads neither latency nor health.

use super::recent::{MAX_POOLS, Recent};
use super::{Ask, Rival, Sight};

/// Blocks of one decoding session: the mean of Mooncake's conversation trace, whose prompts have
/// 12,035 tokens in blocks of 512. With much less, all goes where the cache is; with much more, the
/// cache does not matter.
const DECODE_BLOCKS_PER_SESSION: u64 = 24;

/// Blocks that one pool holds at most: 2 Mi tokens in blocks of 512, which at 320 KiB a token (a
/// dense model of 70 billion parameters) is the memory of one host with eight large accelerators.
const MAX_BLOCKS: usize = 4_096;

/// Blocks of all pools together at most, about 100 MiB; beyond it the pool placed on longest ago is
/// forgotten.
const MAX_BLOCKS_IN_ALL: usize = 1 << 20;

pub(super) struct KvLoad {
    caches: Recent<String, Recent<u64, ()>>,
    max_blocks: usize,
    max_blocks_in_all: usize,
}

impl KvLoad {
    pub(super) fn new() -> Self {
        Self::bounded(MAX_POOLS, MAX_BLOCKS, MAX_BLOCKS_IN_ALL)
    }

    fn bounded(max_pools: usize, max_blocks: usize, max_blocks_in_all: usize) -> Self {
        Self { caches: Recent::new(max_pools), max_blocks, max_blocks_in_all }
    }

    /// How many of `blocks`, from the first on, the pool does not hold.
    fn uncached(&self, name: &str, blocks: &[u64]) -> u64 {
        let held = |block: &u64| self.caches.get(name).is_some_and(|cache| cache.get(block).is_some());
        blocks.iter().skip_while(|block| held(block)).count() as u64
    }

    /// Notes that the pool now holds `blocks`. The first are used last, so that room is made from the
    /// tail of a prompt, and a prompt too long for the cache leaves its head there.
    fn place(&mut self, name: &str, blocks: &[u64]) {
        let cache = self.caches.used(name, || Recent::new(self.max_blocks));
        for block in blocks.iter().take(self.max_blocks).rev() {
            cache.used(block, || ());
        }
        while self.blocks() > self.max_blocks_in_all {
            self.caches.forget_oldest();
        }
    }

    fn blocks(&self) -> usize {
        self.caches.values().map(Recent::len).sum()
    }
}

impl Rival for KvLoad {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let prompt = ask.prefix_blocks.unwrap_or_default();
        let cost = |sight: &Sight<'_>| {
            self.uncached(sight.name, prompt) + DECODE_BLOCKS_PER_SESSION * u64::from(sight.load.active_sessions)
        };
        let (index, chosen) = pools.iter().enumerate().min_by_key(|(_, sight)| cost(sight))?;
        if !prompt.is_empty() {
            self.place(chosen.name, prompt);
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, sight};
    use super::*;

    fn choose(rival: &mut KvLoad, blocks: &[u64], active: [u32; 2]) -> usize {
        let pools = [sight("a", 1.0, active[0]), sight("b", 1.0, active[1])];
        rival.choose(&Ask { prefix_blocks: Some(blocks), ..ask(0.0) }, &pools).unwrap()
    }

    #[test]
    fn a_prompt_goes_where_its_blocks_are_until_decoding_there_outweighs_them() {
        let prompt: Vec<u64> = (0..60).collect();
        let mut rival = KvLoad::new();
        assert_eq!(choose(&mut rival, &prompt, [1, 0]), 1);
        // On b nothing is uncached: 24 a session there against 60 blocks on a.
        assert_eq!(choose(&mut rival, &prompt, [0, 2]), 1);
        assert_eq!(choose(&mut rival, &prompt, [0, 3]), 0);
        // Now both hold it.
        assert_eq!(choose(&mut rival, &prompt, [1, 0]), 1);
        assert_eq!(choose(&mut rival, &prompt, [0, 1]), 0);
    }

    #[test]
    fn only_the_unbroken_head_of_a_prompt_is_cached() {
        let mut rival = KvLoad::new();
        rival.place("a", &[1, 2, 4, 5]);
        assert_eq!(rival.uncached("a", &[1, 2, 3, 4, 5]), 3);
        assert_eq!(rival.uncached("a", &[1, 2, 4]), 0);
        assert_eq!(rival.uncached("a", &[7, 1, 2]), 3);
        assert_eq!(rival.uncached("b", &[1, 2]), 2);
        assert_eq!(rival.uncached("b", &[]), 0);
    }

    #[test]
    fn without_prefix_blocks_only_sessions_count_and_nothing_is_learned() {
        let mut rival = KvLoad::new();
        let pools = [sight("a", 1.0, 2), sight("b", 9.0, 1), sight("c", 1.0, 1)];
        assert_eq!(rival.choose(&ask(0.0), &pools), Some(1));
        assert_eq!(rival.caches.len(), 0);
    }

    #[test]
    fn a_full_cache_makes_room_from_the_tail_of_the_oldest_prompt() {
        let mut rival = KvLoad::bounded(1, 5, 5);
        rival.place("a", &[1, 2, 3, 4, 5]);
        rival.place("a", &[90, 91]);
        assert_eq!(rival.uncached("a", &[1, 2, 3, 4, 5]), 2);
        assert_eq!(rival.uncached("a", &[90, 91]), 0);
        // One too long for it leaves its head.
        rival.place("a", &[11, 12, 13, 14, 15, 16, 17, 18]);
        assert_eq!(rival.uncached("a", &[11, 12, 13, 14, 15, 16, 17, 18]), 3);
        assert_eq!(rival.blocks(), 5);
    }

    #[test]
    fn pools_and_blocks_in_all_are_bounded() {
        let mut rival = KvLoad::bounded(3, 4, 10);
        for name in ["a", "b", "c", "d"] {
            rival.place(name, &[1]);
        }
        assert_eq!((rival.caches.len(), rival.blocks()), (3, 3));
        for name in ["b", "c", "d"] {
            rival.place(name, &[1, 2, 3, 4]);
        }
        // 12 in all would be too many: b, placed on longest ago, is forgotten.
        assert_eq!(rival.blocks(), 8);
        assert_eq!(["b", "c", "d"].map(|name| rival.uncached(name, &[1, 2, 3, 4])), [4, 0, 0]);
        let all = KvLoad::new();
        assert_eq!((all.max_blocks, all.max_blocks_in_all), (4_096, 1_048_576));
    }
}
