//! Which probe is sent when: pure but for the random numbers it was seeded with.
//!
//! With more paths than the budget covers at their interval, a stable set of them is probed: those in
//! use first, then those that a hash picks, which differ from host to host. A small share of the
//! budget goes to the others in turn. So the cost of a host stays flat as the mesh grows.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use crate::health::Canary;
use crate::health::pace::{self, BULK_WIRE_MS, DEADLINE_INTERVALS, JITTER, UNPROVEN_RATE};
use crate::model::{PathId, PathSpec, RailName};

const MIN_DEADLINE: Duration = Duration::from_millis(pace::MIN_DEADLINE_MS);
const MAX_DEADLINE: Duration = Duration::from_millis(pace::MAX_DEADLINE_MS);
const MIN_SPACING: Duration = Duration::from_millis(pace::MIN_SPACING_MS);
/// The share of the budget that the active set takes, and the one that the others get in turn; what
/// is left is for paths that are being proven and for bulk.
const ACTIVE_SHARE: f64 = 0.85;
const EXPLORE_SHARE: f64 = 0.05;
/// How long it is the turn of the same others: long enough to prove them.
const EXPLORE_TERM: Duration = Duration::from_secs(30);
/// The active set is drawn up anew at most this often.
const REVIEW: Duration = Duration::from_secs(1);

/// The prober's part of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) interval: Duration,
    pub(crate) payload_bytes: u32,
    pub(crate) budget_per_s: u32,
    /// Samples that prove a path; 0 if it needs none.
    pub(crate) min_samples: u32,
    /// Bytes of a bulk probe; 0 for none on a schedule.
    pub(crate) bulk_bytes: u32,
    pub(crate) bulk_interval: Duration,
    /// Bytes of bulk probes a second.
    pub(crate) bulk_budget_bytes: u64,
    pub(crate) seed: u64,
}

impl Rates {
    /// The budgets of probes and of their bytes, both full.
    fn buckets(&self, now: Instant) -> [Bucket; 2] {
        let probes_per_s = f64::from(self.budget_per_s);
        let bytes_per_s = self.bulk_budget_bytes as f64;
        let largest = f64::from(self.bulk_bytes.max(self.payload_bytes));
        [Bucket::full(probes_per_s, probes_per_s, now), Bucket::full(bytes_per_s, largest.max(bytes_per_s), now)]
    }
}

/// What the tasks that probe a path tell of it.
#[derive(Debug, Default)]
pub(super) struct Mark {
    busy: AtomicBool,
    bulk_busy: AtomicBool,
    /// Answers and losses since the path became active.
    answers: AtomicU32,
}

impl Mark {
    /// Whether an earlier probe has answered: the first pays for the first connection and for cold
    /// caches at both ends, so it is no sample.
    pub(super) fn answered(&self, ok: bool) -> bool {
        let warm = self.answers.load(Ordering::Acquire) > 0;
        if ok || warm {
            self.answers.fetch_add(1, Ordering::AcqRel);
        }
        warm || !ok
    }

    fn flag(&self, bulk: bool) -> &AtomicBool {
        if bulk { &self.bulk_busy } else { &self.busy }
    }

    /// The probe is over.
    pub(super) fn free(&self, bulk: bool) {
        self.flag(bulk).store(false, Ordering::Release);
    }
}

/// A probe to be sent now.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) spec: PathSpec,
    pub(super) bulk: bool,
    pub(super) payload_bytes: u32,
    pub(super) deadline: Duration,
    pub(super) mark: Arc<Mark>,
}

struct Tracked {
    spec: PathSpec,
    rank: u64,
    active: bool,
    in_use: bool,
    due: Instant,
    bulk_due: Instant,
    mark: Arc<Mark>,
}

/// Every path of this host, and what the budgets have left.
pub(super) struct Plan {
    rates: Rates,
    rng: ChaCha8Rng,
    paths: BTreeMap<PathId, Tracked>,
    probes: Bucket,
    bytes: Bucket,
    reviewed: Option<Instant>,
    term: u64,
    term_began: Instant,
}

impl Plan {
    pub(super) fn new(rates: Rates, now: Instant) -> Self {
        let [probes, bytes] = rates.buckets(now);
        Self {
            rng: ChaCha8Rng::seed_from_u64(rates.seed),
            paths: BTreeMap::new(),
            probes,
            bytes,
            reviewed: None,
            term: 0,
            term_began: now,
            rates,
        }
    }

    /// Goes on with other rates; what would be due too late under them is due within them.
    pub(super) fn configure(&mut self, rates: Rates, now: Instant) {
        [self.probes, self.bytes] = rates.buckets(now);
        for path in self.paths.values_mut() {
            path.due = path.due.min(now + rates.interval.mul_f64(self.rng.random::<f64>()));
            path.bulk_due = path.bulk_due.min(now + rates.bulk_interval.mul_f64(self.rng.random::<f64>()));
        }
        self.rates = rates;
        self.reviewed = None;
    }

    /// Follows the list of paths; what is known of those that stay stays.
    pub(super) fn follow(&mut self, list: &[PathSpec], now: Instant) {
        let mut before = std::mem::take(&mut self.paths);
        for spec in list {
            let known = before.remove(&spec.id).filter(|known| known.spec == *spec);
            let tracked = known.unwrap_or_else(|| Tracked {
                rank: rank(self.rates.seed, &spec.id),
                spec: spec.clone(),
                active: false,
                in_use: false,
                due: now,
                bulk_due: now,
                mark: Arc::default(),
            });
            self.paths.insert(spec.id.clone(), tracked);
        }
        self.reviewed = None;
    }

    /// Whether it follows no path.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Draws up the active set, if it is time to; `in_use` is asked only then.
    pub(super) fn review(&mut self, now: Instant, in_use: impl FnOnce() -> BTreeSet<PathId>) {
        if self.reviewed.is_some_and(|at| now.saturating_duration_since(at) < REVIEW) {
            return;
        }
        self.reviewed = Some(now);
        while now.saturating_duration_since(self.term_began) >= EXPLORE_TERM {
            self.term += 1;
            self.term_began += EXPLORE_TERM;
        }
        let in_use = in_use();
        for (path, tracked) in &mut self.paths {
            tracked.in_use = in_use.contains(path);
        }
        let chosen = self.chosen();
        for (path, tracked) in &mut self.paths {
            let active = chosen.contains(path);
            if active && !tracked.active {
                // It is proven anew, at a random point of its interval.
                tracked.mark = Arc::default();
                tracked.due = now + self.rates.interval.mul_f64(self.rng.random::<f64>());
                tracked.bulk_due = now + self.rates.bulk_interval.mul_f64(self.rng.random::<f64>());
            }
            tracked.active = active;
        }
    }

    fn chosen(&self) -> BTreeSet<PathId> {
        let affordable = f64::from(self.rates.budget_per_s) * self.rates.interval.as_secs_f64();
        if self.paths.len() as f64 <= affordable {
            return self.paths.keys().cloned().collect();
        }
        let room = |share: f64| ((affordable * share) as usize).max(1);
        let mut ranked: Vec<&Tracked> = self.paths.values().collect();
        ranked.sort_by_key(|path| (!path.in_use, path.rank));
        let in_use = ranked.iter().filter(|path| path.in_use).count();
        let (active, others) = ranked.split_at(room(ACTIVE_SHARE).max(in_use).min(ranked.len()));
        let explored = room(EXPLORE_SHARE).min(others.len());
        let start = (self.term as usize).wrapping_mul(explored).checked_rem(others.len()).unwrap_or(0);
        let turn = others.iter().cycle().skip(start).take(explored);
        active.iter().chain(turn).map(|path| path.spec.id.clone()).collect()
    }

    /// The probes that are due, those in use and the longest overdue first, and the rail of the first
    /// that the budget does not cover: it and those after it stay due.
    pub(super) fn due(&mut self, now: Instant, canaries: Vec<Canary>) -> (Vec<Due>, Option<RailName>) {
        self.probes.refill(now);
        self.bytes.refill(now);
        let mut found = Vec::new();
        for canary in canaries {
            if let Some(path) = self.paths.get(&canary.path) {
                let bytes = u32::try_from(canary.bytes).unwrap_or(u32::MAX);
                // Rare and decisive: it is sent even on credit.
                self.bytes.left -= f64::from(bytes);
                found.extend(path.send(true, bytes, Duration::from_millis(canary.deadline_ms)));
            }
        }
        let mut due: Vec<&mut Tracked> = self.paths.values_mut().filter(|path| path.active).collect();
        due.sort_by_key(|path| (!path.in_use, path.due));
        let mut skipped = None;
        for path in due.iter_mut().filter(|path| path.due <= now) {
            if !self.probes.has(1.0) {
                skipped = Some(path.spec.id.rail.clone());
                break;
            }
            let spacing = self.rates.spacing(path);
            path.due = now + spacing.mul_f64(1.0 + JITTER * (2.0 * self.rng.random::<f64>() - 1.0));
            let probe = path.send(false, self.rates.payload_bytes, self.rates.deadline());
            self.probes.left -= probe.iter().len() as f64;
            found.extend(probe);
        }
        due.sort_by_key(|path| (!path.in_use, path.bulk_due));
        for path in due.iter_mut().filter(|path| path.bulk_due <= now && self.rates.proves(path)) {
            let bytes = self.rates.bulk_bytes_on(&path.spec);
            if bytes == 0 || !self.bytes.has(f64::from(bytes)) {
                break;
            }
            let spread = 1.0 + JITTER * (2.0 * self.rng.random::<f64>() - 1.0);
            path.bulk_due = now + self.rates.bulk_interval.mul_f64(spread);
            let probe = path.send(true, bytes, MAX_DEADLINE);
            self.bytes.left -= f64::from(bytes) * probe.iter().len() as f64;
            found.extend(probe);
        }
        (found, skipped)
    }

    /// Until the next path is due and the budget covers a probe.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        let active = self.paths.values().filter(|path| path.active);
        let next = active.map(|path| path.due.saturating_duration_since(now)).min();
        let missing = (1.0 - self.probes.left).max(0.0) / f64::from(self.rates.budget_per_s.max(1));
        let least = Duration::from_secs_f64(missing).max(Duration::from_millis(1));
        // Canaries and paths that came into use wait no longer than a review.
        let most = self.rates.interval.min(REVIEW).max(least);
        next.unwrap_or(most).clamp(least, most)
    }
}

impl Tracked {
    /// A probe, unless the last of its kind still waits: one deadline, one sample.
    fn send(&self, bulk: bool, payload_bytes: u32, deadline: Duration) -> Option<Due> {
        let busy = self.mark.flag(bulk).swap(true, Ordering::AcqRel);
        (!busy).then(|| Due { spec: self.spec.clone(), bulk, payload_bytes, deadline, mark: self.mark.clone() })
    }
}

impl Rates {
    fn proves(&self, path: &Tracked) -> bool {
        // The first answer is no sample.
        path.mark.answers.load(Ordering::Acquire) > self.min_samples
    }

    fn spacing(&self, path: &Tracked) -> Duration {
        if self.min_samples == 0 || self.proves(path) {
            self.interval
        } else {
            (self.interval / UNPROVEN_RATE).max(MIN_SPACING).min(self.interval)
        }
    }

    fn deadline(&self) -> Duration {
        (self.interval * DEADLINE_INTERVALS).clamp(MIN_DEADLINE, MAX_DEADLINE)
    }

    /// No more than makes it evidence, so that a slow rail is not kept busy.
    fn bulk_bytes_on(&self, spec: &PathSpec) -> u32 {
        self.bulk_bytes.min((BULK_WIRE_MS * spec.bandwidth_gbps * 1e6 / 8.0) as u32)
    }
}

/// What may be spent: so much a second, saved up to a limit.
struct Bucket {
    left: f64,
    per_s: f64,
    most: f64,
    filled: Instant,
}

impl Bucket {
    fn full(per_s: f64, most: f64, now: Instant) -> Self {
        Self { left: most, per_s, most, filled: now }
    }

    fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + since * self.per_s).min(self.most);
        self.filled = now;
    }

    fn has(&self, amount: f64) -> bool {
        self.left >= amount
    }
}

/// Where the hash of `seed` puts a path: hosts with other seeds probe other paths.
fn rank(seed: u64, path: &PathId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, path).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
