//! The way into the gossip actor. Its own queue has no bound, so whoever wants in needs a permit.

use std::sync::{Arc, Mutex, PoisonError};

use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::actor::Message;
use super::stats::{Drops, MeshStats};
use crate::mesh::Input;
use crate::model::{LoadRecord, NodeRecord, PathsRecord};

/// Packets that wait for the actor.
const MAX_PACKETS: usize = 1024;
/// Everything else that waits for it.
const MAX_OTHERS: usize = 64;

/// Admits what the actor can deal with, and counts what it cannot.
#[derive(Clone)]
pub(super) struct Mailbox {
    packets: Arc<Semaphore>,
    others: Arc<Semaphore>,
    stats: Arc<MeshStats>,
}

impl Mailbox {
    pub(super) fn new(stats: Arc<MeshStats>) -> Self {
        Self { packets: Arc::new(Semaphore::new(MAX_PACKETS)), others: Arc::new(Semaphore::new(MAX_OTHERS)), stats }
    }

    /// Hands a packet to the actor, or drops it: packets may be lost.
    pub(super) fn packet(&self, actor: &ActorRef<Message>, input: Input) {
        match Arc::clone(&self.packets).try_acquire_owned() {
            // An actor that is gone needs no packets.
            Ok(permit) => _ = actor.cast(Message::Input(input, Some(permit))),
            Err(_) => self.stats.count_drop(Drops::Mailbox),
        }
    }

    /// Waits for room.
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.others).acquire_owned().await.ok()
    }
}

/// What this node says of itself: the newest only, until the actor takes it.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    node: Option<NodeRecord>,
    load: Option<LoadRecord>,
    paths: Option<Vec<PathsRecord>>,
}

impl Latest {
    /// Leaves something for the actor; whether it must be woken for it.
    pub(super) fn node(&self, record: NodeRecord) -> bool {
        self.put(|waiting| waiting.node = Some(record))
    }

    /// As [`node`](Self::node).
    pub(super) fn load(&self, record: LoadRecord) -> bool {
        self.put(|waiting| waiting.load = Some(record))
    }

    /// As [`node`](Self::node).
    pub(super) fn paths(&self, chunks: Vec<PathsRecord>) -> bool {
        self.put(|waiting| waiting.paths = Some(chunks))
    }

    pub(super) fn take(&self) -> Vec<Input> {
        let Waiting { node, load, paths } = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let node = node.map(Input::PublishNode);
        let load = load.map(Input::PublishLoad);
        let paths = paths.map(Input::PublishPaths);
        node.into_iter().chain(load).chain(paths).collect()
    }

    fn put(&self, change: impl FnOnce(&mut Waiting)) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = waiting.node.is_none() && waiting.load.is_none() && waiting.paths.is_none();
        change(&mut waiting);
        empty
    }
}
