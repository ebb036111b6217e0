//! Tells every actor what the mesh has learned of other nodes, in the order in which it was learned.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{mpsc, watch};

use super::clock::wall_ms;
use super::links::Links;
use super::store::Event;
use crate::mesh::MeshEvent;
use crate::model::{Generation, NodeName, NodeRecord, PathSpec, RailRecord, Role, paths_between};
use crate::{health, ledger, policy};

/// Mesh events that may wait.
pub(crate) const MAX_EVENTS: usize = 65_536;

/// The directory: who is there, and by which paths this node reaches whom.
pub(crate) struct Directory {
    links: Arc<Links>,
    node: NodeName,
    /// The rails that paths of this node start on; none unless it sends.
    rails: Vec<RailRecord>,
    peers: BTreeMap<NodeName, Known>,
    paths: watch::Sender<Arc<Vec<PathSpec>>>,
}

struct Known {
    generation: Generation,
    paths: Vec<PathSpec>,
}

impl Directory {
    pub(crate) fn new(links: Arc<Links>, node: NodeName, rails: Vec<RailRecord>) -> Self {
        Self { links, node, rails, peers: BTreeMap::new(), paths: watch::channel(Arc::default()).0 }
    }

    /// Every path of this node, as it changes.
    pub(crate) fn paths(&self) -> watch::Receiver<Arc<Vec<PathSpec>>> {
        self.paths.subscribe()
    }

    /// Follows the mesh until it ends.
    pub(crate) async fn follow(mut self, mut events: mpsc::Receiver<MeshEvent>) {
        while let Some(event) = events.recv().await {
            match event {
                MeshEvent::Node { generation, record } if record.node != self.node => self.node_is(generation, &record),
                MeshEvent::Node { .. } => {}
                MeshEvent::Load { node, generation, record } => {
                    self.links.tell_policy(policy::Input::Load { node, generation, record });
                }
                MeshEvent::Paths { observer, record } => {
                    self.links.tell_policy(policy::Input::Paths { observer, record });
                }
                MeshEvent::Gone { node, generation } => self.gone(&node, generation),
            }
        }
    }

    fn node_is(&mut self, generation: Generation, record: &Arc<NodeRecord>) {
        let node = &record.node;
        let before = self.peers.get(node).map(|known| known.generation);
        if before.is_some_and(|before| before > generation) {
            return;
        }
        if before != Some(generation) {
            tracing::info!(%node, generation, "member");
            self.links.store.tell(&Event::Member { ts: wall_ms(), node, generation, state: "alive" });
            // Whatever its earlier lives held or were measured at is void.
            self.void(node, generation.saturating_sub(1));
        }
        let paths = match record.has_role(Role::Decode) {
            true => paths_between(&self.node, &self.rails, record),
            false => Vec::new(),
        };
        self.set_pool(record);
        self.links.tell_policy(policy::Input::Peer { generation, record: record.clone() });
        let known = self.peers.remove(node).map(|known| known.paths).unwrap_or_default();
        for gone in known.iter().filter(|path| !paths.iter().any(|kept| kept.id == path.id)) {
            self.path_gone(gone);
        }
        for path in &paths {
            self.links.tell_health(health::Input::PathUp(path.clone()));
        }
        self.peers.insert(node.clone(), Known { generation, paths });
        self.publish();
    }

    fn gone(&mut self, node: &NodeName, generation: Generation) {
        if self.peers.get(node).is_some_and(|known| known.generation > generation) {
            return;
        }
        tracing::info!(%node, generation, "member gone");
        self.links.store.tell(&Event::Member { ts: wall_ms(), node, generation, state: "down" });
        self.void(node, generation);
        self.links.tell_policy(policy::Input::PeerGone { node: node.clone(), generation });
        self.links.pools.write().unwrap_or_else(PoisonError::into_inner).remove(node);
        self.publish();
    }

    /// Forgets a node's lives up to `generation`: the leases that it holds here, the paths to it.
    fn void(&mut self, node: &NodeName, generation: Generation) {
        if self.links.ledger.get().is_some() {
            self.links.tell_ledger(ledger::Input::HolderDown { node: node.clone(), generation });
        }
        for path in self.peers.remove(node).map(|known| known.paths).unwrap_or_default() {
            self.path_gone(&path);
        }
    }

    fn path_gone(&self, path: &PathSpec) {
        self.links.tell_health(health::Input::PathGone(path.id.clone()));
    }

    fn set_pool(&self, record: &NodeRecord) {
        let mut pools = self.links.pools.write().unwrap_or_else(PoisonError::into_inner);
        match &record.pool {
            Some(pool) => pools.insert(record.node.clone(), pool.clone()),
            None => pools.remove(&record.node),
        };
    }

    fn publish(&self) {
        let all = self.peers.values().flat_map(|known| known.paths.iter().cloned()).collect();
        self.paths.send_replace(Arc::new(all));
    }
}
