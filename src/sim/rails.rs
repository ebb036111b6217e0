//! The rails: writes share the bandwidth of both their ends, each its equal part.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::event::{Event, Heard};
use super::fault::{Drawn, Fault};
use super::world::World;
use crate::model::{Extent, LeaseId, PathId, PathSpec, RailName};

/// A probe that meets bulk waits behind at most this many bytes of it.
const QUEUE_BYTES: f64 = 64.0 * 1024.0;

/// What is under way on all rails, and what is wrong with which path.
pub(super) struct Rails {
    pub(super) writes: BTreeMap<u64, Write>,
    faults: BTreeMap<PathId, (Fault, u64)>,
    /// When each path was last cleared of a fault.
    cleared_ns: BTreeMap<PathId, u64>,
    /// Bytes that have come to each destination on each rail, as of when rails were shared last.
    came: BTreeMap<(usize, RailName), f64>,
    pub(super) rng: ChaCha8Rng,
}

/// One attempt of a transfer on its way.
pub(super) struct Write {
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) path: PathSpec,
    pub(super) transfer: LeaseId,
    pub(super) lease: LeaseId,
    /// Where its bytes go, once it was let in.
    pub(super) extents: Vec<Extent>,
    pub(super) bytes: u64,
    pub(super) deadline_ms: u64,
    pub(super) started_ns: u64,
    /// Bytes of its own host on the same rail when it began.
    pub(super) shared_before: u64,
    pub(super) extra_ns: u64,
    /// The sender still waits for its end.
    pub(super) sending: bool,
    /// The receiver may still write.
    pub(super) receiving: bool,
    /// Its bytes flow, as far as both ends run.
    pub(super) flows: bool,
    /// What had come to its destination's rail when it was let in.
    pub(super) came_before: f64,
    left: f64,
    rate: f64,
    since_ns: u64,
    version: u64,
}

impl Write {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        source: usize,
        destination: usize,
        path: PathSpec,
        transfer: LeaseId,
        lease: LeaseId,
        bytes: u64,
        deadline_ms: u64,
        started_ns: u64,
    ) -> Self {
        Self {
            source,
            destination,
            path,
            transfer,
            lease,
            extents: Vec::new(),
            bytes,
            deadline_ms,
            started_ns,
            shared_before: 0,
            extra_ns: 0,
            sending: true,
            receiving: false,
            flows: false,
            came_before: 0.0,
            left: bytes as f64,
            rate: 0.0,
            since_ns: started_ns,
            version: 0,
        }
    }
}

impl Write {
    /// Bytes that have come since they were counted last.
    fn on_its_way(&self, now_ns: u64) -> f64 {
        (self.rate * now_ns.saturating_sub(self.since_ns) as f64).min(self.left)
    }
}

impl Rails {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            writes: BTreeMap::new(),
            faults: BTreeMap::new(),
            cleared_ns: BTreeMap::new(),
            came: BTreeMap::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    pub(super) fn set_fault(&mut self, path: PathId, fault: Option<Fault>, now_ns: u64) {
        match fault {
            Some(fault) => {
                self.faults.insert(path, (fault, now_ns));
            }
            None => {
                self.faults.remove(&path);
                self.cleared_ns.insert(path, now_ns);
            }
        }
    }

    pub(super) fn fault(&self, path: &PathId) -> Option<Fault> {
        self.faults.get(path).map(|(fault, _)| *fault)
    }

    /// Whether a path has a fault, or had one within the last `ms` milliseconds.
    pub(super) fn was_faulty(&self, path: &PathId, now_ns: u64, ms: u64) -> bool {
        let recent = |at: &u64| now_ns.saturating_sub(*at) < ms * 1_000_000;
        self.faults.contains_key(path) || self.cleared_ns.get(path).is_some_and(recent)
    }

    /// What one operation of `bytes` bytes on a path meets.
    pub(super) fn draw(&mut self, path: &PathId, bytes: u64) -> Drawn {
        match self.fault(path) {
            Some(fault) => fault.draw(bytes, &mut self.rng),
            None => Drawn::Delay { ms: 0.0 },
        }
    }

    /// Bytes that a host is sending on the rail of `path`.
    pub(super) fn in_flight(&self, path: &PathId) -> u64 {
        let same =
            |write: &&Write| write.sending && write.path.id.source == path.source && write.path.id.rail == path.rail;
        self.writes.values().filter(same).map(|write| write.bytes).sum()
    }

    /// Bytes that have come to a destination on a rail so far.
    pub(super) fn came(&self, destination: usize, rail: &RailName, now_ns: u64) -> f64 {
        let counted = self.came.get(&(destination, rail.clone())).copied().unwrap_or(0.0);
        let here = |write: &&Write| write.destination == destination && write.path.id.rail == *rail;
        counted + self.writes.values().filter(here).map(|write| write.on_its_way(now_ns)).sum::<f64>()
    }

    /// Takes a write that has come so far into account.
    pub(super) fn count(&mut self, id: u64, now_ns: u64) {
        let Some(write) = self.writes.get_mut(&id) else { return };
        let came = write.on_its_way(now_ns);
        write.left -= came;
        write.since_ns = now_ns;
        *self.came.entry((write.destination, write.path.id.rail.clone())).or_default() += came;
    }

    /// How long the bytes of a probe take on a path beside the bulk of others, in milliseconds: a
    /// small one waits behind a little of it, a large one has its part of the rail.
    pub(super) fn busy_ms(&mut self, path: &PathSpec, bytes: u64) -> f64 {
        let flowing = |same: &dyn Fn(&PathId) -> bool| {
            let meets = |write: &&Write| {
                write.flows && write.rate > 0.0 && write.path.id.rail == path.id.rail && same(&write.path.id)
            };
            self.writes.values().filter(meets).count()
        };
        let sending = flowing(&|id| id.source == path.id.source);
        let receiving = flowing(&|id| id.destination == path.id.destination);
        let sharing = sending.max(receiving);
        let mut gbps = path.bandwidth_gbps;
        if let Some(Fault::Collapse { bandwidth_gbps }) = self.fault(&path.id) {
            gbps = gbps.min(bandwidth_gbps);
        }
        let ahead = if sharing > 0 { QUEUE_BYTES * self.rng.random::<f64>() } else { 0.0 };
        let large = bytes as f64 > QUEUE_BYTES;
        let wanted = if large { bytes as f64 * (sharing as f64 + 1.0) } else { bytes as f64 + ahead };
        wanted * 8.0 / (gbps * 1e6)
    }
}

impl World {
    /// Shares every rail anew. Whatever changed: a write began or ended, a process stopped, an edge
    /// was cut, a fault came or went.
    pub(super) fn share_rails(&mut self) {
        let now_ns = self.now_ns;
        let mut senders: BTreeMap<(usize, &str), u32> = BTreeMap::new();
        let mut receivers: BTreeMap<(usize, &str), u32> = BTreeMap::new();
        let moves = |write: &Write| {
            let both = [write.source, write.destination];
            write.flows
                && both.iter().all(|end| self.nodes.get(*end).is_some_and(super::node::Node::runs))
                && self.network.connects_both(write.source, write.destination)
        };
        for write in self.rails.writes.values().filter(|write| moves(write)) {
            let rail = write.path.id.rail.as_str();
            *senders.entry((write.source, rail)).or_default() += 1;
            *receivers.entry((write.destination, rail)).or_default() += 1;
        }
        let mut rates = Vec::new();
        for (id, write) in &self.rails.writes {
            let rail = write.path.id.rail.as_str();
            let sharing = [senders.get(&(write.source, rail)), receivers.get(&(write.destination, rail))];
            let sharing = sharing.into_iter().flatten().copied().max().unwrap_or(1);
            let mut gbps = write.path.bandwidth_gbps / f64::from(sharing);
            match self.rails.fault(&write.path.id) {
                Some(Fault::Collapse { bandwidth_gbps }) => gbps = gbps.min(bandwidth_gbps),
                Some(Fault::Stall { from_bytes }) if write.bytes >= from_bytes => gbps = 0.0,
                _ => {}
            }
            // A gigabit per second is an eighth of a byte per nanosecond.
            rates.push((*id, if moves(write) { gbps / 8.0 } else { 0.0 }));
        }
        for (id, rate) in rates {
            self.rails.count(id, now_ns);
            let Some(write) = self.rails.writes.get_mut(&id) else { continue };
            if (write.rate - rate).abs() < f64::EPSILON {
                continue;
            }
            write.rate = rate;
            write.version += 1;
            if rate > 0.0 {
                let takes_ns = libm::ceil(write.left / rate) as u64;
                let event = Event::Moved { write: id, version: write.version };
                self.queue.push(now_ns.saturating_add(takes_ns), event);
            }
        }
    }

    /// The last byte of a write has come, if its rate has not changed meanwhile.
    pub(super) fn moved(&mut self, id: u64, version: u64) {
        self.rails.count(id, self.now_ns);
        let Some(write) = self.rails.writes.get_mut(&id) else { return };
        if write.version != version || !write.flows {
            return;
        }
        write.flows = false;
        (write.left, write.rate) = (0.0, 0.0);
        write.version += 1;
        let (destination, extra_ns) = (write.destination, write.extra_ns);
        self.arrive(destination, extra_ns, Heard::WriteLanded { write: id });
        self.share_rails();
    }

    /// Whether something is truly wrong between the ends of a path, or was a moment ago.
    pub(super) fn is_faulty(&self, path: &PathId) -> bool {
        const RECENT_MS: u64 = 10_000;
        let ends = [self.index_of(&path.source), self.index_of(&path.destination)];
        let [Some(source), Some(destination)] = ends else { return true };
        self.rails.was_faulty(path, self.now_ns, RECENT_MS)
            || !self.network.is_plain(source, destination)
            || self.was_mended(source, destination, RECENT_MS)
            || self.was_mended(destination, source, RECENT_MS)
            || self.troubled(source, RECENT_MS)
            || self.troubled(destination, RECENT_MS)
    }
}
