//! Watches the states of paths, as their sources see them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::book::Book;
use super::summary::Seen;
use crate::api::PathLine;
use crate::client::Client;
use crate::model::{NodeName, PathId, PathState};

/// How often each source is asked.
const EVERY: Duration = Duration::from_millis(50);
/// Changes kept; a run has some dozens.
const MAX_CHANGES: usize = 10_000;

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Watch {
    seen: Mutex<States>,
    changed: Notify,
}

#[derive(Default)]
struct States {
    now: BTreeMap<PathId, PathState>,
    changes: Vec<Seen>,
}

impl Watch {
    /// Asks `source` for its own paths until `stop`.
    pub(crate) async fn follow(
        self: Arc<Self>,
        source: NodeName,
        client: Client,
        book: Arc<Book>,
        stop: CancellationToken,
    ) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match client.get::<Vec<PathLine>>("/v1/paths").await {
                Ok(lines) => self.note(book.now_ms(), lines.into_iter().filter(|line| line.path.source == source)),
                Err(_) if stop.is_cancelled() => return,
                Err(error) => book.error(error),
            }
        }
    }

    fn note(&self, at_ms: f64, lines: impl Iterator<Item = PathLine>) {
        let mut seen = self.seen();
        for PathLine { path, health, .. } in lines {
            let state = health.state;
            let before = seen.now.insert(path.clone(), state);
            if before != Some(state) && seen.changes.len() < MAX_CHANGES {
                // What it was when first asked, it was at the start.
                let at_ms = if before.is_none() { 0.0 } else { at_ms };
                seen.changes.push(Seen { path, at_ms, state });
                self.changed.notify_waiters();
            }
        }
    }

    /// The state that a path was last seen in.
    pub(crate) fn state(&self, path: &PathId) -> Option<PathState> {
        self.seen().now.get(path).copied()
    }

    /// Every change so far, in the order in which it was seen.
    pub(crate) fn changes(&self) -> Vec<Seen> {
        self.seen().changes.clone()
    }

    /// Waits until `path` is in `state`.
    pub(crate) async fn reaches(&self, path: &PathId, state: PathState) {
        loop {
            let changed = self.changed.notified();
            if self.state(path) == Some(state) {
                return;
            }
            changed.await;
        }
    }

    fn seen(&self) -> MutexGuard<'_, States> {
        // A change is complete before anything in here can fail.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Evidence, PathHealth};

    fn line(state: PathState) -> PathLine {
        let path = "p0>d0/r0/mock".parse().unwrap();
        let health = PathHealth { state, ..PathHealth::UNKNOWN };
        PathLine { path, pool: None, health, evidence: Evidence::Own, age_ms: None }
    }

    #[tokio::test]
    async fn only_changes_are_kept_and_they_wake_who_waits() {
        let watch = Arc::new(Watch::default());
        let path: PathId = "p0>d0/r0/mock".parse().unwrap();
        let waiting = tokio::spawn({
            let (watch, path) = (watch.clone(), path.clone());
            async move { watch.reaches(&path, PathState::DegradedUsable).await }
        });
        for (at_ms, state) in [(0.5, PathState::Healthy), (1.0, PathState::Healthy), (2.0, PathState::DegradedUsable)] {
            watch.note(at_ms, std::iter::once(line(state)));
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap();
        let changes = watch.changes();
        assert_eq!(changes.iter().map(|seen| seen.at_ms).collect::<Vec<_>>(), [0.0, 2.0]);
        assert_eq!(watch.state(&path), Some(PathState::DegradedUsable));
    }
}
