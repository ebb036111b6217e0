//! What can be done to a world, now or at a set time.

use super::event::Event;
use super::fault::Fault;
use super::node::Process;
use super::world::World;
use crate::model::PathId;

/// Something done to a world. Hosts are numbered, prefill hosts first.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A host's process dies at once.
    Kill(usize),
    /// A dead host's process starts anew, under the same name in a new generation.
    Start(usize),
    /// A host's process stands still, as under SIGSTOP.
    Stop(usize),
    /// It runs on, and hears what it missed.
    Continue(usize),
    /// A host's wall clock is wrong by so much, in milliseconds.
    Clock {
        /// Which host.
        node: usize,
        /// By how much.
        offset_ms: i64,
    },
    /// Nothing gets from one host to another.
    Cut {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
    },
    /// It does again.
    Mend {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
    },
    /// Nothing reaches this host, while others hear it.
    Deafen(usize),
    /// These hosts and all others do not hear each other.
    Partition(Vec<usize>),
    /// Nothing is cut any more.
    Heal,
    /// The share of datagrams that is lost on an edge; none for the network's own.
    Loss {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
        /// The share, 0 to 1.
        loss: Option<f64>,
    },
    /// Everything on an edge takes this much longer, in milliseconds.
    Slow {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
        /// How much; none for nothing.
        ms: Option<f64>,
    },
    /// A host's load records are held back (direct gossip only).
    Mute(usize),
    /// They are not.
    Unmute(usize),
    /// A directed path misbehaves; none for no longer.
    Fault {
        /// Which path.
        path: PathId,
        /// How.
        fault: Option<Fault>,
    },
    /// Probes are sent, or none at all.
    Probing(bool),
}

impl World {
    /// Does something at a set time, in milliseconds since the run began.
    pub fn at(&mut self, at_ms: u64, action: Action) {
        self.queue.push((at_ms * 1_000_000).max(self.now_ns), Event::Act(action));
    }

    /// Does something now.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Kill(node) => self.kill(node),
            Action::Start(node) => self.start(node),
            Action::Stop(node) => {
                self.trouble(node);
                if let Some(host) = self.nodes.get_mut(node) {
                    host.stop(self.now_ns);
                }
            }
            Action::Continue(node) => self.carry_on(node),
            Action::Clock { node, offset_ms } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.clock_offset_ms = offset_ms;
                }
            }
            Action::Cut { from, to } => self.network.set_cut(from, to, true),
            Action::Mend { from, to } => {
                self.network.set_cut(from, to, false);
                self.mended(from, to);
            }
            Action::Deafen(node) => {
                for from in 0..self.nodes.len() {
                    self.network.set_cut(from, node, true);
                }
            }
            Action::Partition(island) => {
                for one in 0..self.nodes.len() {
                    for other in 0..self.nodes.len() {
                        if island.contains(&one) != island.contains(&other) {
                            self.network.set_cut(one, other, true);
                        }
                    }
                }
            }
            Action::Heal => {
                for one in 0..self.nodes.len() {
                    for other in 0..self.nodes.len() {
                        if !self.network.connects(one, other) {
                            self.network.set_cut(one, other, false);
                            self.mended(one, other);
                        }
                    }
                }
            }
            Action::Loss { from, to, loss } => {
                self.network.set_loss(from, to, loss);
                self.mended(from, to);
            }
            Action::Slow { from, to, ms } => {
                self.network.set_slow(from, to, ms);
                self.mended(from, to);
            }
            Action::Mute(node) => self.network.set_muted(node, true),
            Action::Unmute(node) => {
                self.network.set_muted(node, false);
                for to in 0..self.nodes.len() {
                    if to != node {
                        self.repair(node, to);
                    }
                }
            }
            Action::Fault { path, fault } => self.rails.set_fault(path, fault, self.now_ns),
            Action::Probing(on) => self.probers.silent = !on,
        }
        self.share_rails();
    }

    fn kill(&mut self, node: usize) {
        self.trouble(node);
        if let Some(host) = self.nodes.get_mut(node) {
            host.kill();
        }
        self.process_died(node);
        self.writes_died(node);
        self.probes_died(node);
    }

    pub(super) fn start(&mut self, node: usize) {
        self.trouble(node);
        let now_ns = self.now_ns;
        let Some(host) = self.nodes.get_mut(node).filter(|host| host.process == Process::Dead) else { return };
        host.start(&self.settings, node, now_ns);
        let decodes = host.decodes;
        // With direct gossip the next beat brings it to the others, and them to it.
        match &mut self.direct {
            Some(direct) => direct.restarted(node),
            None => self.start_mesh(node),
        }
        self.drain(node);
        if decodes {
            self.engine_reads(node);
            self.drain(node);
        } else {
            self.next_arrival(node);
        }
    }

    fn carry_on(&mut self, node: usize) {
        self.trouble(node);
        let now_ns = self.now_ns;
        let Some(missed) = self.nodes.get_mut(node).map(|host| host.carry_on(now_ns)) else { return };
        if let Some(direct) = &mut self.direct {
            direct.carried_on(node, now_ns);
        }
        for heard in missed {
            self.hear(node, heard);
        }
        self.drain(node);
    }
}
