//! Watches the states of paths, as their sources see them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::book::Book;
use super::summary::Seen;
use crate::api::PathLine;
use crate::client::{Client, ClientError};
use crate::model::{NodeName, PathId, PathState};

/// Changes kept; a run has some dozens.
const MAX_CHANGES: usize = 10_000;

/// The events that matter here; all others are passed over.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Heard {
    Transition {
        path: String,
        to: PathState,
    },
    #[serde(other)]
    Other,
}

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
    /// Listens to what `source` says of its own paths until `stop`.
    pub(crate) async fn follow(
        self: Arc<Self>,
        source: NodeName,
        client: Client,
        book: Arc<Book>,
        stop: CancellationToken,
    ) {
        tokio::select! {
            () = stop.cancelled() => {}
            Err(error) = self.listen(&source, &client, &book) => {
                if !stop.is_cancelled() {
                    book.error(error);
                }
            }
        }
    }

    /// What the states are at first, then every change; ends only with an error.
    async fn listen(&self, source: &NodeName, client: &Client, book: &Book) -> Result<(), ClientError> {
        loop {
            let mut events = client.events("/v1/events").await?;
            let lines: Vec<PathLine> = client.get("/v1/paths").await?;
            for line in lines.into_iter().filter(|line| line.path.source == *source) {
                self.note(book.now_ms(), line.path, line.health.state);
            }
            while let Some(event) = events.next().await? {
                if event.kind == "lagged" {
                    break;
                }
                if let Ok(Heard::Transition { path, to }) = event.json()
                    && let Ok(path) = path.parse()
                {
                    self.note(book.now_ms(), path, to);
                }
            }
        }
    }

    fn note(&self, at_ms: f64, path: PathId, state: PathState) {
        let mut seen = self.seen();
        let before = seen.now.insert(path.clone(), state);
        if before != Some(state) && seen.changes.len() < MAX_CHANGES {
            // What it was when first asked, it was at the start.
            let at_ms = if before.is_none() { 0.0 } else { at_ms };
            seen.changes.push(Seen { path, at_ms, state });
            self.changed.notify_waiters();
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

    #[tokio::test]
    async fn only_changes_are_kept_and_they_wake_who_waits() {
        let watch = Arc::new(Watch::default());
        let path: PathId = "p0>d0/r0/mock".parse().unwrap();
        let waiting = tokio::spawn({
            let (watch, path) = (watch.clone(), path.clone());
            async move { watch.reaches(&path, PathState::DegradedUsable).await }
        });
        for (at_ms, state) in [(0.5, PathState::Healthy), (1.0, PathState::Healthy), (2.0, PathState::DegradedUsable)] {
            watch.note(at_ms, path.clone(), state);
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap();
        let changes = watch.changes();
        assert_eq!(changes.iter().map(|seen| seen.at_ms).collect::<Vec<_>>(), [0.0, 2.0]);
        assert_eq!(watch.state(&path), Some(PathState::DegradedUsable));
    }
}
