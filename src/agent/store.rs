//! What an agent has decided and seen, as far as memory is granted for it: the newest decision
//! records, and a live stream of events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;

use super::service::{DecisionFilter, EventJson};
use crate::api::TransferReport;
use crate::model::{DecisionId, Generation, LeaseId, NodeName, PathId, PathState};
use crate::policy::overrides::OverrideTarget;
use crate::policy::record::DecisionRecord;

/// Decision records kept in memory.
const MAX_RECORDS: usize = 10_000;
/// Candidates in them: what their memory grows with.
const MAX_CANDIDATES: usize = 65_536;
/// Events that a slow reader may fall behind before it loses some, and is told so.
const MAX_BEHIND: usize = 4_096;

/// One event of the stream.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// A decision was made.
    Decision {
        /// Its record.
        record: &'a DecisionRecord,
    },
    /// A path changed its state.
    Transition {
        /// When, in milliseconds since the Unix epoch.
        ts: u64,
        /// The path, as text.
        path: String,
        /// Before.
        from: PathState,
        /// After.
        to: PathState,
    },
    /// A lease that this host granted changed its stage.
    Lease {
        /// When, in milliseconds since the Unix epoch.
        ts: u64,
        /// The lease.
        lease: &'a LeaseId,
        /// Before; none for a new one.
        from: Option<&'static str>,
        /// After; none for a freed one.
        to: Option<&'static str>,
    },
    /// A member came or went.
    Member {
        /// When, in milliseconds since the Unix epoch.
        ts: u64,
        /// Which.
        node: &'a NodeName,
        /// Which life of it.
        generation: Generation,
        /// `alive` or `down`.
        state: &'static str,
    },
    /// An operator's word on a path or a host, or the end of one.
    Override {
        /// When, in milliseconds since the Unix epoch.
        ts: u64,
        /// What it is about.
        target: &'a OverrideTarget,
        /// What it counts as; none once it is measured again.
        state: Option<PathState>,
        /// Why.
        reason: Option<&'a str>,
    },
    /// A transfer ended.
    Transfer {
        /// When, in milliseconds since the Unix epoch.
        ts: u64,
        /// What became of it.
        #[serde(flatten)]
        report: &'a TransferReport,
    },
}

impl Event<'_> {
    pub(crate) fn transition(ts: u64, path: &PathId, from: PathState, to: PathState) -> Self {
        Self::Transition { ts, path: path.to_string(), from, to }
    }
}

/// The records and the stream.
pub(crate) struct Store {
    records: Mutex<Records>,
    events: broadcast::Sender<EventJson>,
}

#[derive(Default)]
struct Records {
    newest_last: VecDeque<Arc<DecisionRecord>>,
    candidates: usize,
    total: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { records: Mutex::default(), events: broadcast::channel(MAX_BEHIND).0 }
    }
}

impl Store {
    /// Keeps a record, in place of the oldest if there is no more room.
    pub(crate) fn keep(&self, record: Arc<DecisionRecord>) {
        self.tell(&Event::Decision { record: &record });
        let mut records = self.records();
        records.total += 1;
        records.candidates += record.candidates.len();
        records.newest_last.push_back(record);
        let mut forgotten = Vec::new();
        while records.newest_last.len() > MAX_RECORDS || records.candidates > MAX_CANDIDATES {
            let Some(oldest) = records.newest_last.pop_front() else { break };
            records.candidates -= oldest.candidates.len();
            forgotten.push(oldest);
        }
        // Readers need not wait while these are freed.
        drop(records);
        drop(forgotten);
    }

    /// Tells every reader of the stream.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if self.events.receiver_count() == 0 {
            return;
        }
        if let Ok(json) = serde_json::to_string(event) {
            // Nobody may be listening any more.
            let _ = self.events.send(json.into());
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<EventJson> {
        self.events.subscribe()
    }

    /// The records that match, the newest first.
    pub(crate) fn find(&self, filter: &DecisionFilter) -> Vec<Arc<DecisionRecord>> {
        let matches = |record: &&Arc<DecisionRecord>| {
            filter.class.as_ref().is_none_or(|class| record.workload.name == *class)
                && filter.outcome.is_none_or(|outcome| record.outcome == outcome)
                && filter.since.is_none_or(|since| record.ts >= Some(since))
        };
        self.records().newest_last.iter().rev().filter(matches).take(filter.limit).cloned().collect()
    }

    pub(crate) fn get(&self, id: &DecisionId) -> Option<Arc<DecisionRecord>> {
        self.records().newest_last.iter().rev().find(|record| record.id == *id).cloned()
    }

    /// Decisions made in this life, forgotten ones included.
    pub(crate) fn total(&self) -> u64 {
        self.records().total
    }

    fn records(&self) -> std::sync::MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
