//! The table of requests: one entry from the question until it is forgotten, with its single
//! deadline, and the leases and asks that lead back to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decide::Verdict;
use super::record::DecisionRecord;
use crate::api::RouteRequest;
use crate::core::Mono;
use crate::model::{DecisionId, Lease, LeaseId, NodeName, PathId, PathSpec, RequestId, Workload};

/// Candidates in all remembered answers, as far as closed requests are concerned: some 100 MB.
const MAX_CANDIDATES: usize = 262_144;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) request: RouteRequest,
    pub(super) workload: Arc<Workload>,
    pub(super) traceparent: Option<Arc<str>>,
    /// What the caller was told; the same question gets it again.
    pub(super) answer: Option<Arc<DecisionRecord>>,
    /// The newest decision, and how many attempts there were.
    pub(super) last: Option<DecisionId>,
    pub(super) attempt: u32,
    /// Decode hosts asked for this attempt.
    pub(super) rounds: u32,
    /// What this request has learned to avoid.
    pub(super) bars: Vec<Bar>,
    /// Every lease that it was ever granted, at most one an attempt.
    pub(super) leases: Vec<LeaseId>,
    /// Until when its newest lease lives, if nobody lets it live longer.
    pub(super) lease_until: Option<Mono>,
    /// When its transfer must have ended, all attempts together; set when it starts.
    pub(super) budget_until: Option<Mono>,
    pub(super) stage: Stage,
}

/// Where a request stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Decode hosts were asked; the draft becomes the answer with the best that is granted.
    Asking(Box<Asking>),
    /// A lease is held and waits for its bytes.
    Leased { lease: Lease, path: PathSpec },
    /// A transfer writes into the lease; `stopping` once it was told to stop.
    Moving { lease: Lease, path: PathSpec, stopping: bool },
    /// Nothing is held any more.
    Closed(Ended),
}

impl Stage {
    /// The paths that it keeps others from trying.
    fn paths(&self) -> impl Iterator<Item = &PathId> {
        let (held, asking) = match self {
            Self::Leased { path, .. } | Self::Moving { path, .. } => (Some(&path.id), None),
            Self::Asking(asking) => (asking.offer.as_ref().map(|offer| &offer.path), Some(asking)),
            Self::Closed(_) => (None, None),
        };
        held.into_iter().chain(asking.into_iter().flat_map(|asking| asking.open.iter().map(|open| &open.path)))
    }
}

/// What is known while decode hosts are asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Asking {
    /// The asks without an answer, the best-ranked first.
    pub(super) open: Vec<OpenAsk>,
    /// The best that was granted so far.
    pub(super) offer: Option<Offer>,
    pub(super) draft: DecisionRecord,
    pub(super) waiters: Vec<Waiter>,
}

/// An ask without an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenAsk {
    pub(super) ask: u64,
    pub(super) path: PathId,
    /// Its place among those asked at once, the best-ranked at 0.
    pub(super) place: u8,
}

/// A lease that was granted, and what it promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) lease: Lease,
    pub(super) path: PathId,
    pub(super) place: u8,
    /// When its bytes would have landed, in milliseconds from now.
    pub(super) predicted_ms: f64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Refused,
    Delivered,
    Failed,
    Released,
    Expired,
    Cancelled,
    PeerGone,
}

impl Ended {
    /// What became of the lease, to follow "it".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Refused => "was never granted",
            Self::Delivered => "was used: its bytes were delivered",
            Self::Failed => "was used: its transfer failed",
            Self::Released => "was released",
            Self::Expired => "has expired",
            Self::Cancelled => "was cancelled with its request",
            Self::PeerGone => "is void: its decode host is gone",
        }
    }
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Waiter {
    /// A caller, for the decision.
    Route(u64),
    /// A transfer, for its next attempt.
    Transfer(u64),
}

/// What a request has learned to avoid: a host, or one path to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bar {
    pub(super) node: NodeName,
    pub(super) path: Option<PathId>,
    pub(super) verdict: Verdict,
    pub(super) why: Arc<str>,
}

/// All requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Requests {
    entries: BTreeMap<RequestId, (Entry, Mono)>,
    by_ask: BTreeMap<u64, RequestId>,
    by_lease: BTreeMap<LeaseId, RequestId>,
    /// Deadlines of entries that hold or wait for something.
    open: BTreeSet<(Mono, RequestId)>,
    /// When closed entries are forgotten.
    closed: BTreeSet<(Mono, RequestId)>,
    /// Open requests that ask for, hold or use a lease on a path.
    by_path: BTreeMap<PathId, u32>,
    /// Candidates in all answers: what the memory of the table grows with.
    candidates: usize,
}

impl Requests {
    pub(super) fn get(&self, id: &RequestId) -> Option<&Entry> {
        self.entries.get(id).map(|(entry, _)| entry)
    }

    /// Changes an entry in place, but neither its stage nor its deadline.
    pub(super) fn amend(&mut self, id: &RequestId, change: impl FnOnce(&mut Entry)) {
        if let Some((entry, _)) = self.entries.get_mut(id) {
            change(entry);
        }
    }

    /// Takes an entry out, to be put back in its next stage.
    pub(super) fn take(&mut self, id: &RequestId) -> Option<Entry> {
        let (entry, at) = self.entries.remove(id)?;
        for path in entry.stage.paths() {
            if let Some(uses) = self.by_path.get_mut(path) {
                *uses -= 1;
                if *uses == 0 {
                    self.by_path.remove(path);
                }
            }
        }
        self.candidates -= entry.candidates();
        match &entry.stage {
            Stage::Closed(_) => self.closed.remove(&(at, id.clone())),
            Stage::Asking(asking) => {
                for open in &asking.open {
                    self.by_ask.remove(&open.ask);
                }
                self.open.remove(&(at, id.clone()))
            }
            Stage::Leased { .. } | Stage::Moving { .. } => self.open.remove(&(at, id.clone())),
        };
        Some(entry)
    }

    /// Puts an entry in; at `at` it is due, or forgotten if it is closed.
    pub(super) fn put(&mut self, id: &RequestId, entry: Entry, at: Mono) {
        match &entry.stage {
            Stage::Closed(_) => {
                self.closed.insert((at, id.clone()));
            }
            Stage::Asking(asking) => {
                for open in &asking.open {
                    self.by_ask.insert(open.ask, id.clone());
                }
                self.open.insert((at, id.clone()));
            }
            Stage::Leased { .. } | Stage::Moving { .. } => {
                self.open.insert((at, id.clone()));
            }
        }
        if let Some(newest) = entry.leases.last() {
            self.by_lease.entry(newest.clone()).or_insert_with(|| id.clone());
        }
        for path in entry.stage.paths() {
            *self.by_path.entry(path.clone()).or_default() += 1;
        }
        self.candidates += entry.candidates();
        self.entries.insert(id.clone(), (entry, at));
    }

    /// Whether an open request asks for, holds or uses a lease on a path.
    pub(super) fn uses(&self, path: &PathId) -> bool {
        self.by_path.contains_key(path)
    }

    pub(super) fn of_ask(&self, ask: u64) -> Option<RequestId> {
        self.by_ask.get(&ask).cloned()
    }

    pub(super) fn of_lease(&self, lease: &LeaseId) -> Option<RequestId> {
        self.by_lease.get(lease).cloned()
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        // Closed entries are forgotten whenever a new one comes: no turn of their own.
        self.open.first().map(|(at, _)| *at)
    }

    /// The next entry that is overdue and still holds or waits for something.
    pub(super) fn due(&self, now: Mono) -> Option<RequestId> {
        self.open.first().filter(|(at, _)| *at <= now).map(|(_, id)| id.clone())
    }

    /// Forgets closed entries whose time has come, and beyond those the oldest, until one more
    /// fits below `limit` and the answers kept hold few enough candidates. False if none fits.
    pub(super) fn make_room(&mut self, now: Mono, limit: usize) -> bool {
        while let Some((at, id)) = self.closed.first()
            && (*at <= now || self.entries.len() >= limit || self.candidates > MAX_CANDIDATES)
        {
            let id = id.clone();
            if let Some(entry) = self.take(&id) {
                for lease in &entry.leases {
                    self.by_lease.remove(lease);
                }
            }
        }
        self.entries.len() < limit
    }

    /// Every entry that is not closed, and when it is due.
    pub(super) fn open(&self) -> impl Iterator<Item = (&RequestId, &Entry, Mono)> {
        self.open.iter().filter_map(|(_, id)| self.entries.get_key_value(id)).map(|(id, (entry, at))| (id, entry, *at))
    }
}

impl Entry {
    fn candidates(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.candidates.len())
    }
}
