//! What a replay remembers of the rows that it has read, within bounds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::{InvalidName, PoolName};
use crate::policy::decide::Target;

/// Pools of one replay at most.
pub const MAX_POOLS: usize = 65_536;

/// A request id is known again while at most this many others came after its request.
pub const REMEMBERED_REQUESTS: usize = 1_750_000;

/// The smallest latency that a pool is credited with, in milliseconds: slowdown divides by it.
const MIN_IDEAL_MS: f64 = 0.001;

/// One pool.
pub(super) struct Pool {
    pub(super) target: Arc<Target>,
    /// The smallest latency that it has shown, in milliseconds.
    pub(super) ideal_ms: f64,
    /// The request that it was last a candidate of.
    last_request: u64,
}

/// The pools, each with a place of its own.
#[derive(Default)]
pub(super) struct Pools {
    places: HashMap<Box<str>, usize>,
    pools: Vec<Pool>,
}

/// Why a row's pool cannot be taken.
pub(super) enum Refused {
    Name(InvalidName),
    TooMany,
    Twice,
}

impl Pools {
    /// The place of the pool `name`, a candidate of request number `request` with this latency.
    pub(super) fn candidate(&mut self, name: &str, request: u64, latency_ms: f64) -> Result<usize, Refused> {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => self.add(name)?,
        };
        let pool = self.pools.get_mut(place).ok_or(Refused::TooMany)?;
        if pool.last_request == request {
            return Err(Refused::Twice);
        }
        pool.last_request = request;
        pool.ideal_ms = pool.ideal_ms.min(latency_ms).max(MIN_IDEAL_MS);
        Ok(place)
    }

    fn add(&mut self, name: &str) -> Result<usize, Refused> {
        let target = Target { pool: PoolName::new(name).map_err(Refused::Name)?, node: None, path: None };
        if self.pools.len() >= MAX_POOLS {
            return Err(Refused::TooMany);
        }
        let place = self.pools.len();
        self.pools.push(Pool { target: Arc::new(target), ideal_ms: f64::INFINITY, last_request: 0 });
        self.places.insert(name.into(), place);
        Ok(place)
    }

    pub(super) fn get(&self, place: usize) -> Option<&Pool> {
        self.pools.get(place)
    }

    pub(super) fn len(&self) -> usize {
        self.pools.len()
    }
}

/// The ids of requests, as the first 128 bits of their BLAKE3 hashes: among so few, two that are equal
/// by chance are out of reach. Two sets take turns, so that the newest are always known.
pub(super) struct RequestIds {
    newest: HashSet<u128>,
    older: HashSet<u128>,
    /// How many each set holds at most.
    limit: usize,
    last: Option<u128>,
}

impl RequestIds {
    pub(super) fn new(limit: usize) -> Self {
        Self { newest: HashSet::new(), older: HashSet::new(), limit, last: None }
    }

    /// Remembers an id by its hash, and says whether it is a new one.
    pub(super) fn insert(&mut self, hash: u128) -> bool {
        if self.older.contains(&hash) || self.newest.contains(&hash) {
            return false;
        }
        if self.newest.len() >= self.limit {
            std::mem::swap(&mut self.newest, &mut self.older);
            self.newest.clear();
        }
        self.last = Some(hash);
        self.newest.insert(hash)
    }

    /// The newest of all.
    pub(super) fn last(&self) -> Option<u128> {
        self.last
    }
}

/// What an id is remembered by.
pub(super) fn hash_of(request_id: &str) -> u128 {
    let mut first = [0; 16];
    first.iter_mut().zip(blake3::hash(request_id.as_bytes()).as_bytes()).for_each(|(to, from)| *to = *from);
    u128::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_again_for_as_long_as_promised_and_not_forever() {
        let mut ids = RequestIds::new(100);
        assert!((0..100).all(|id| ids.insert(id)));
        assert!(!ids.insert(0));
        assert!((100..200).all(|id| ids.insert(id)));
        assert!(!ids.insert(100), "99 others came after it");
        assert!(!ids.insert(0), "it may be known for longer");
        assert!(ids.insert(200));
        assert!(ids.insert(0));
        assert!(!ids.insert(101), "100 others came after it");
        assert_eq!((ids.newest.len(), ids.older.len()), (2, 100));
    }

    #[test]
    fn a_pool_keeps_its_place_and_is_one_candidate_of_a_request() {
        let mut pools = Pools::default();
        assert_eq!(pools.candidate("a", 1, 3.0).ok(), Some(0));
        assert_eq!(pools.candidate("b", 1, 0.0).ok(), Some(1));
        assert!(matches!(pools.candidate("a", 1, 3.0), Err(Refused::Twice)));
        assert_eq!(pools.candidate("a", 2, 2.0).ok(), Some(0));
        assert_eq!((pools.get(0).unwrap().ideal_ms, pools.get(1).unwrap().ideal_ms), (2.0, MIN_IDEAL_MS));
        assert!(matches!(pools.candidate("a b", 2, 2.0), Err(Refused::Name(_))));
    }

    #[test]
    fn pools_are_bounded() {
        let mut pools = Pools::default();
        for pool in 0..MAX_POOLS {
            assert_eq!(pools.candidate(&format!("p{pool}"), 1, 1.0).ok(), Some(pool));
        }
        assert!(matches!(pools.candidate("one-more", 1, 1.0), Err(Refused::TooMany)));
        // Of a name that is none that is said first.
        assert!(matches!(pools.candidate("\u{1b}[31m", 1, 1.0), Err(Refused::Name(_))));
        assert_eq!(pools.candidate("p7", 2, 1.0).ok(), Some(7));
    }
}
