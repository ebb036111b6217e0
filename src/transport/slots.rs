//! Values made once at a time for each key and kept, the least recently used making room.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One value's place. The async lock is held while it is being made.
pub(super) type Slot<V> = Arc<tokio::sync::Mutex<Option<V>>>;

/// Places by key, at most so many.
pub(super) struct Slots<K, V> {
    most: usize,
    table: Mutex<Table<K, V>>,
}

struct Table<K, V> {
    kept: HashMap<K, Kept<V>>,
    uses: u64,
}

struct Kept<V> {
    slot: Slot<V>,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> Slots<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, table: Mutex::new(Table { kept: HashMap::new(), uses: 0 }) }
    }

    /// The place of `key`.
    pub(super) fn slot(&self, key: K) -> Slot<V> {
        let mut table = self.table();
        table.uses += 1;
        let used = table.uses;
        if let Some(kept) = table.kept.get_mut(&key) {
            kept.used = used;
            return Arc::clone(&kept.slot);
        }
        if table.kept.len() >= self.most {
            let oldest = table.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                table.kept.remove(&oldest);
            }
        }
        let slot = Slot::default();
        table.kept.insert(key, Kept { slot: Arc::clone(&slot), used });
        slot
    }

    /// Forgets every value.
    pub(super) fn clear(&self) {
        self.table().kept.clear();
    }

    fn table(&self) -> MutexGuard<'_, Table<K, V>> {
        // Every change of the table is whole before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_least_recently_used_makes_room() {
        let slots: Slots<u8, u8> = Slots::new(2);
        for key in [1, 2] {
            *slots.slot(key).lock().await = Some(key);
        }
        assert_eq!(*slots.slot(1).lock().await, Some(1));
        assert_eq!(*slots.slot(3).lock().await, None);
        assert_eq!(*slots.slot(1).lock().await, Some(1));
        assert_eq!(*slots.slot(2).lock().await, None, "2 made room for 3");
        slots.clear();
        assert_eq!(*slots.slot(1).lock().await, None);
    }
}
