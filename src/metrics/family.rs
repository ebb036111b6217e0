//! Counters by one or two enums. A series appears when it is first counted.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, Label};
use serde::{Deserialize, Serialize};

use super::Registry;
use crate::health::Discard;
use crate::model::{BackendKind, LeaseRefusal, Outcome, PathState, Reason, coded};

coded!(
    /// Which way bytes went.
    Direction {
        /// Out of this host.
        Sent = "sent",
        /// Into it.
        Received = "received",
    }
);

coded!(
    /// How an attempt to move bytes ended.
    MoveResult {
        /// Every byte landed and the hashes agree.
        Delivered = "delivered",
        /// Nothing came back in time.
        TimedOut = "timed_out",
        /// The far end went away.
        PeerGone = "peer_gone",
        /// The far end refused.
        Refused = "refused",
        /// What landed is not what was sent.
        Corrupt = "corrupt",
        /// This host was at fault.
        Local = "local",
        /// The caller cancelled it.
        Cancelled = "cancelled",
    }
);

coded!(
    /// How a probe ended.
    ProbeResult {
        /// An answer came.
        Ok = "ok",
        /// None came in time.
        Lost = "lost",
        /// The far end refused or broke.
        Failed = "failed",
        /// It was not sent: the budget was spent, or this host was at fault.
        Skipped = "skipped",
    }
);

/// An enum that labels series.
pub(super) trait Choice: Copy + 'static {
    /// How many values it has.
    const COUNT: usize;
    /// Which of them this is.
    fn index(self) -> usize;
    /// The label's value.
    fn word(self) -> &'static str;
}

macro_rules! choice {
    ($($ty:ty),+) => {$(
        impl Choice for $ty {
            const COUNT: usize = <$ty>::ALL.len();
            fn index(self) -> usize {
                self as usize
            }
            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    )+};
}
choice!(BackendKind, Direction, Discard, LeaseRefusal, MoveResult, Outcome, PathState, ProbeResult, Reason);

/// How asking for a lease ended: granted, or why not.
impl Choice for Option<LeaseRefusal> {
    const COUNT: usize = 1 + LeaseRefusal::COUNT;
    fn index(self) -> usize {
        self.map_or(0, |refusal| 1 + refusal.index())
    }
    fn word(self) -> &'static str {
        self.map_or("granted", Choice::word)
    }
}

/// Counters of one name, by one enum.
pub(super) struct Family<A> {
    registry: Arc<Registry>,
    name: &'static str,
    fixed: Vec<Label>,
    label: &'static str,
    cells: Vec<OnceLock<Counter>>,
    choices: PhantomData<A>,
}

impl<A: Choice> Family<A> {
    pub(super) fn new(registry: &Arc<Registry>, name: &'static str, fixed: Vec<Label>, label: &'static str) -> Self {
        let cells = (0..A::COUNT).map(|_| OnceLock::new()).collect();
        Self { registry: Arc::clone(registry), name, fixed, label, cells, choices: PhantomData }
    }

    pub(super) fn of(&self, choice: A) -> &Counter {
        cell(&self.cells, choice.index(), || {
            let mut labels = self.fixed.clone();
            labels.push(Label::new(self.label, choice.word()));
            self.registry.counter(self.name, labels)
        })
    }
}

/// Counters of one name, by two enums.
pub(super) struct Grid<A, B> {
    registry: Arc<Registry>,
    name: &'static str,
    labels: (&'static str, &'static str),
    cells: Vec<OnceLock<Counter>>,
    choices: PhantomData<(A, B)>,
}

impl<A: Choice, B: Choice> Grid<A, B> {
    pub(super) fn new(registry: &Arc<Registry>, name: &'static str, first: &'static str, second: &'static str) -> Self {
        let cells = (0..A::COUNT * B::COUNT).map(|_| OnceLock::new()).collect();
        Self { registry: Arc::clone(registry), name, labels: (first, second), cells, choices: PhantomData }
    }

    pub(super) fn of(&self, first: A, second: B) -> &Counter {
        cell(&self.cells, first.index() * B::COUNT + second.index(), || {
            let labels = vec![Label::new(self.labels.0, first.word()), Label::new(self.labels.1, second.word())];
            self.registry.counter(self.name, labels)
        })
    }
}

/// Durations of one name, by backend.
pub(super) struct Durations {
    registry: Arc<Registry>,
    name: &'static str,
    cells: Vec<OnceLock<Histogram>>,
}

impl Durations {
    pub(super) fn new(registry: &Arc<Registry>, name: &'static str) -> Self {
        let cells = BackendKind::ALL.iter().map(|_| OnceLock::new()).collect();
        Self { registry: Arc::clone(registry), name, cells }
    }

    pub(super) fn record(&self, backend: BackendKind, elapsed: Duration) {
        if let Some(cell) = self.cells.get(backend.index()) {
            let make = || self.registry.histogram(self.name, vec![Label::new("backend", backend.as_str())]);
            cell.get_or_init(make).record(elapsed.as_secs_f64());
        }
    }
}

fn cell(cells: &[OnceLock<Counter>], index: usize, make: impl FnOnce() -> Counter) -> &Counter {
    static NOWHERE: OnceLock<Counter> = OnceLock::new();
    match cells.get(index) {
        Some(cell) => cell.get_or_init(make),
        None => NOWHERE.get_or_init(Counter::noop),
    }
}
