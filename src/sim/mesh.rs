//! The real mesh cores over the simulated network: packets, exchanges, seeds, signatures.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::event::{Heard, Own};
use super::settings::Gossip;
use super::wiring::CoreInput;
use super::world::World;
use crate::codec::Blob;
use crate::mesh::{Input, Output};
use crate::model::NodeName;

/// A node looks for seeds this often, in milliseconds.
const LOOK_MS: u64 = 10_000;
/// An exchange with a host that cannot be reached fails after this long, in milliseconds.
const FAILS_MS: u64 = 1_000;
/// The host that all others know at their start.
const SEED: usize = 0;

/// Exchanges under way.
#[derive(Default)]
pub(super) struct Exchanges {
    /// By the asked one's number: who asked, in which life, and under which number.
    asked: BTreeMap<u64, (usize, u32, u64)>,
    /// By asker and its number: who was asked.
    partner: BTreeMap<(usize, u64), usize>,
}

pub(super) fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (index / 250) as u8, (index % 250) as u8], 7946))
}

impl World {
    /// A process starts to take part.
    pub(super) fn start_mesh(&mut self, node: usize) {
        let Some(record) = self.nodes.get(node).map(|node| node.record.clone()) else { return };
        self.tell(node, CoreInput::Mesh(Input::PublishNode(record)));
        self.later(node, 1, Own::SeedAnswers);
    }

    pub(super) fn seed_answers(&mut self, node: usize) {
        let alive = self.nodes.get(SEED).filter(|seed| seed.runs()).map(|seed| seed.name.clone());
        if let Some(seed) = alive.filter(|_| node != SEED && self.network.connects_both(node, SEED)) {
            self.tell(node, CoreInput::Mesh(Input::SeedSeen { node: seed, addr: address(SEED) }));
        }
        self.later(node, LOOK_MS, Own::SeedAnswers);
    }

    /// Does what the mesh core of a node wants done.
    pub(super) fn carry_out(&mut self, node: usize, output: Output) {
        let Some(from) = self.nodes.get(node).map(|node| node.name.clone()) else { return };
        match output {
            Output::Packet { to, addr, bytes } => {
                if let Some(to) = self.member_at(&to, addr)
                    && let Some(delay_ns) = self.network.datagram(node, to)
                {
                    let heard = CoreInput::Mesh(Input::Packet { from, bytes: Blob(bytes) });
                    self.arrive(to, delay_ns, Heard::Core(heard));
                }
            }
            Output::SyncAsk { exchange, to, addr, bytes } => {
                let reached = self.member_at(&to, addr).filter(|to| self.network.connects_both(node, *to));
                match reached {
                    Some(to) if self.nodes.get(to).is_some_and(super::node::Node::runs) => {
                        self.exchanges.partner.insert((node, exchange), to);
                        self.send(node, to, Heard::MeshAsk { from: node, theirs: exchange, bytes });
                    }
                    _ => self.later(node, FAILS_MS, Own::MeshFails(Input::SyncFailed { exchange })),
                }
            }
            Output::SyncReply { exchange, bytes } => {
                if let Some((to, life, theirs)) = self.exchanges.asked.remove(&exchange) {
                    let reply = Input::SyncReplied { exchange: theirs, from, bytes: Blob(bytes) };
                    self.send_to_life(node, to, life, Heard::Core(CoreInput::Mesh(reply)));
                }
            }
            Output::SyncPush { exchange, bytes } => {
                if let Some(to) = self.exchanges.partner.remove(&(node, exchange)) {
                    let push = Input::SyncPushed { from, bytes: Blob(bytes) };
                    self.send(node, to, Heard::Core(CoreInput::Mesh(push)));
                }
            }
            Output::Sign { kind, seq, bytes } => {
                if let Gossip::Cores { keys, .. } = &self.settings.gossip
                    && let Some(key) = keys.get(node)
                {
                    let signature = Blob(key.signer.sign(&bytes));
                    self.tell(node, CoreInput::Mesh(Input::Signed { kind, seq, signature }));
                }
            }
            Output::Event(event) => self.learn(node, event),
            Output::Refused { reason, .. } => self.audit.mesh_refused(reason),
            Output::Member { .. } | Output::Renewed(_) | Output::Rival { .. } => {}
        }
    }

    /// Another node opens an exchange.
    pub(super) fn mesh_asked(&mut self, node: usize, from: usize, theirs: u64, bytes: Vec<u8>) {
        let Some((name, life)) = self.nodes.get(from).map(|node| (node.name.clone(), node.life)) else { return };
        let exchange = self.next_id();
        self.exchanges.asked.insert(exchange, (from, life, theirs));
        self.tell(node, CoreInput::Mesh(Input::SyncAsked { exchange, from: name, bytes: Blob(bytes) }));
    }

    fn member_at(&self, name: &NodeName, addr: SocketAddr) -> Option<usize> {
        self.index_of(name).filter(|index| address(*index) == addr)
    }
}
