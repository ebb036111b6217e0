//! A map with a bound: what was used longest ago is forgotten first.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Pools that a rival remembers at most: more than any history here has, and a few MiB at worst.
pub(super) const MAX_POOLS: usize = 4_096;

/// At most a bound of entries, at least one.
pub(super) struct Recent<K, V> {
    bound: usize,
    uses: u64,
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord, V> Recent<K, V> {
    pub(super) fn new(bound: usize) -> Self {
        Self { bound: bound.max(1), uses: 0, entries: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// In the order of their keys.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    /// A look, which is no use.
    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// The same, to change it.
    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Uses an entry, which is `fresh` if there was none.
    pub(super) fn used<Q>(&mut self, key: &Q, fresh: impl FnOnce() -> V) -> &mut V
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if self.entries.len() >= self.bound && !self.entries.contains_key(key) {
            self.forget_oldest();
        }
        self.uses += 1;
        let (used, value) = self.entries.entry(key.to_owned()).or_insert_with(|| (0, fresh()));
        let key = self.by_use.remove(used).unwrap_or_else(|| key.to_owned());
        self.by_use.insert(self.uses, key);
        *used = self.uses;
        value
    }

    /// Forgets what was used longest ago.
    pub(super) fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.by_use.pop_first() {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first() {
        let mut recent: Recent<String, u32> = Recent::new(2);
        recent.used("a", || 1);
        recent.used("b", || 2);
        assert_eq!(*recent.used("a", || 9), 1);
        recent.used("c", || 3);
        assert_eq!((recent.get("a"), recent.get("b"), recent.get("c")), (Some(&1), None, Some(&3)));
    }

    #[test]
    fn a_look_is_no_use() {
        let mut recent: Recent<u64, ()> = Recent::new(2);
        recent.used(&1, || ());
        recent.used(&2, || ());
        assert!(recent.get(&1).is_some() && recent.get_mut(&1).is_some());
        recent.used(&3, || ());
        assert!(recent.get(&1).is_none());
    }

    proptest! {
        #[test]
        fn it_holds_the_last_distinct_keys_used(bound in 1_usize..6, keys in prop::collection::vec(0_u64..9, 0..60)) {
            let mut recent: Recent<u64, u64> = Recent::new(bound);
            let mut order: Vec<u64> = Vec::new();
            for key in keys {
                prop_assert_eq!(*recent.used(&key, || key), key);
                order.retain(|known| *known != key);
                order.push(key);
                order.drain(..order.len().saturating_sub(bound));
                let mut held = order.clone();
                held.sort_unstable();
                prop_assert_eq!(recent.values().copied().collect::<Vec<_>>(), held);
                prop_assert_eq!(recent.len(), recent.by_use.len());
            }
        }
    }
}
