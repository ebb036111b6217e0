//! Which pages of the arena are free.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Extent, PAGE_BYTES};

/// A lease is spread over at most this many extents; a more broken free space counts as full.
pub const MAX_EXTENTS: usize = 64;

/// Free runs of pages, keyed by their first page; no two touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pages {
    free: BTreeMap<u64, u64>,
    free_pages: u64,
    total_pages: u64,
}

impl Pages {
    /// All whole pages of an arena of `bytes`, free.
    pub(super) fn new(bytes: u64) -> Self {
        let total_pages = bytes / PAGE_BYTES;
        let free = if total_pages > 0 { BTreeMap::from([(0, total_pages)]) } else { BTreeMap::new() };
        Self { free, free_pages: total_pages, total_pages }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free_pages * PAGE_BYTES
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_pages * PAGE_BYTES
    }

    /// Takes pages for `bytes`: the first run that holds them all, else the largest runs together.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Vec<Extent>> {
        let wanted = bytes.div_ceil(PAGE_BYTES);
        if wanted == 0 || wanted > self.free_pages {
            return None;
        }
        let runs = self.choose(wanted)?;
        for &(start, pages) in &runs {
            self.remove(start, pages);
        }
        Some(
            runs.into_iter()
                .map(|(start, pages)| Extent { offset: start * PAGE_BYTES, bytes: pages * PAGE_BYTES })
                .collect(),
        )
    }

    /// Gives back what [`take`](Self::take) gave.
    pub(super) fn give(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.insert(extent.offset / PAGE_BYTES, extent.bytes / PAGE_BYTES);
        }
    }

    fn choose(&self, wanted: u64) -> Option<Vec<(u64, u64)>> {
        if let Some((&start, _)) = self.free.iter().find(|&(_, &pages)| pages >= wanted) {
            return Some(vec![(start, wanted)]);
        }
        let mut largest: Vec<(u64, u64)> = self.free.iter().map(|(&start, &pages)| (start, pages)).collect();
        largest.sort_by_key(|&(start, pages)| (std::cmp::Reverse(pages), start));
        let mut runs = Vec::new();
        let mut missing = wanted;
        for (start, pages) in largest.into_iter().take(MAX_EXTENTS) {
            let taken = pages.min(missing);
            runs.push((start, taken));
            missing -= taken;
            if missing == 0 {
                runs.sort_unstable();
                return Some(runs);
            }
        }
        None
    }

    /// Cuts `pages` from the head of the run at `start`.
    fn remove(&mut self, start: u64, pages: u64) {
        if let Some(run) = self.free.remove(&start) {
            if run > pages {
                self.free.insert(start + pages, run - pages);
            }
            self.free_pages -= pages;
        }
    }

    fn insert(&mut self, mut start: u64, mut pages: u64) {
        self.free_pages += pages;
        if let Some((&before, &run)) = self.free.range(..start).next_back()
            && before + run == start
        {
            self.free.remove(&before);
            start = before;
            pages += run;
        }
        if let Some(run) = self.free.remove(&(start + pages)) {
            pages += run;
        }
        self.free.insert(start, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_larger_than_any_run_is_spread_in_address_order() {
        let mut pages = Pages::new(4 * PAGE_BYTES);
        let held: Vec<_> = (0..4).map(|_| pages.take(1).unwrap()).collect();
        pages.give(&held[0]);
        pages.give(&held[2]);
        let spread = pages.take(2 * PAGE_BYTES).unwrap();
        assert_eq!(spread, [held[0][0], held[2][0]]);
        assert_eq!(pages.take(1), None);
    }

    proptest! {
        #[test]
        fn taken_extents_never_overlap_and_all_come_back(ops in prop::collection::vec((any::<bool>(), 1u64..20 * PAGE_BYTES), 1..200)) {
            let mut pages = Pages::new(64 * PAGE_BYTES);
            let mut held: Vec<Vec<Extent>> = Vec::new();
            for (take, size) in ops {
                if take {
                    if let Some(extents) = pages.take(size) {
                        let sum: u64 = extents.iter().map(|e| e.bytes).sum();
                        prop_assert!(sum >= size && sum < size + PAGE_BYTES);
                        held.push(extents);
                    }
                } else if !held.is_empty() {
                    let index = usize::try_from(size).unwrap() % held.len();
                    let extents = held.swap_remove(index);
                    pages.give(&extents);
                }
                let mut all: Vec<_> = held.iter().flatten().copied().collect();
                all.sort_unstable();
                prop_assert!(all.windows(2).all(|pair| pair[0].end().unwrap() <= pair[1].offset));
                let used: u64 = all.iter().map(|e| e.bytes).sum();
                prop_assert_eq!(used + pages.free_bytes(), pages.total_bytes());
            }
            for extents in held {
                pages.give(&extents);
            }
            prop_assert_eq!(pages, Pages::new(64 * PAGE_BYTES));
        }
    }
}
