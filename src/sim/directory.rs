//! What the mesh has learned of other nodes, told to every core: the agent's directory without its
//! tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::wiring::CoreInput;
use crate::mesh::MeshEvent;
use crate::model::{Generation, NodeName, NodeRecord, PathSpec, RailRecord, Role, paths_between};
use crate::{health, ledger, policy};

/// Who is there, and by which paths this node reaches whom.
pub(super) struct Directory {
    node: NodeName,
    rails: Vec<RailRecord>,
    peers: BTreeMap<NodeName, (Generation, Vec<PathSpec>)>,
    /// Counts the changes of the paths.
    pub(super) version: u64,
}

impl Directory {
    pub(super) fn new(node: NodeName, rails: Vec<RailRecord>) -> Self {
        Self { node, rails, peers: BTreeMap::new(), version: 0 }
    }

    /// Every path of this node.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathSpec> {
        self.peers.values().flat_map(|(_, paths)| paths)
    }

    /// Takes one event and says what the cores are told.
    pub(super) fn learn(&mut self, event: MeshEvent, out: &mut Vec<CoreInput>) {
        match event {
            MeshEvent::Node { generation, record } if record.node != self.node => {
                self.node_is(generation, &record, out);
            }
            MeshEvent::Node { .. } => {}
            MeshEvent::Load { node, generation, record } => {
                out.push(CoreInput::Policy(policy::Input::Load { node, generation, record }));
            }
            MeshEvent::Paths { observer, record } => {
                out.push(CoreInput::Policy(policy::Input::Paths { observer, record }));
            }
            MeshEvent::Gone { node, generation } => self.gone(node, generation, out),
        }
    }

    fn node_is(&mut self, generation: Generation, record: &Arc<NodeRecord>, out: &mut Vec<CoreInput>) {
        let node = &record.node;
        let before = self.peers.get(node).map(|(generation, _)| *generation);
        if before.is_some_and(|before| before > generation) {
            return;
        }
        if before != Some(generation) {
            self.void(node, generation.saturating_sub(1), out);
        }
        let paths = match record.has_role(Role::Decode) {
            true => paths_between(&self.node, &self.rails, record),
            false => Vec::new(),
        };
        out.push(CoreInput::Policy(policy::Input::Peer { generation, record: record.clone() }));
        let known = self.peers.remove(node).map(|(_, paths)| paths).unwrap_or_default();
        for gone in known.iter().filter(|path| !paths.iter().any(|kept| kept.id == path.id)) {
            out.push(CoreInput::Health(health::Input::PathGone(gone.id.clone())));
        }
        out.extend(paths.iter().map(|path| CoreInput::Health(health::Input::PathUp(path.clone()))));
        self.peers.insert(node.clone(), (generation, paths));
        self.version += 1;
    }

    fn gone(&mut self, node: NodeName, generation: Generation, out: &mut Vec<CoreInput>) {
        if self.peers.get(&node).is_some_and(|(known, _)| *known > generation) {
            return;
        }
        self.void(&node, generation, out);
        out.push(CoreInput::Policy(policy::Input::PeerGone { node, generation }));
    }

    /// Forgets a node's lives up to `generation`: the leases that it holds here, the paths to it.
    fn void(&mut self, node: &NodeName, generation: Generation, out: &mut Vec<CoreInput>) {
        out.push(CoreInput::Ledger(ledger::Input::HolderDown { node: node.clone(), generation }));
        for path in self.peers.remove(node).map(|(_, paths)| paths).unwrap_or_default() {
            out.push(CoreInput::Health(health::Input::PathGone(path.id)));
        }
        self.version += 1;
    }
}
