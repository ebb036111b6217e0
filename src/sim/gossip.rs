//! Direct gossip: each record reaches every other node after a drawn delay.
//!
//! Cheaper than the real mesh by an order of magnitude, and simpler than it: no record is lost, no
//! member is suspected, and whoever cannot be reached, not even over one other, is gone after a
//! fixed time, judged four times a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::event::{Event, Heard, Rumour};
use super::node::Process;
use super::settings::Gossip;
use super::world::World;
use crate::mesh::MeshEvent;
use crate::model::{Generation, LoadRecord, PathsRecord};

const BEAT_NS: u64 = 250_000_000;

/// Which of its origin's records a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Load,
    Paths(u16),
}

/// What every node has said, and who has heard what.
pub(super) struct Direct {
    delay_ms: (u64, u64),
    down_after_ns: u64,
    rng: ChaCha8Rng,
    seq: u64,
    loads: BTreeMap<usize, (u64, LoadRecord)>,
    paths: BTreeMap<(usize, u16), (u64, PathsRecord)>,
    /// The newest of each record that each node was given.
    seen: BTreeMap<(usize, usize, Kind), u64>,
    /// Who knows whom in which life, by observer and subject.
    known: BTreeMap<(usize, usize), Generation>,
    /// Who is about to learn of whom.
    joining: BTreeSet<(usize, usize)>,
    heard_ns: BTreeMap<(usize, usize), u64>,
}

impl Direct {
    pub(super) fn new(gossip: &Gossip, seed: u64) -> Option<Self> {
        let Gossip::Direct { delay_ms, down_after_ms } = gossip else { return None };
        Some(Self {
            delay_ms: *delay_ms,
            down_after_ns: down_after_ms * 1_000_000,
            rng: ChaCha8Rng::seed_from_u64(seed),
            seq: 0,
            loads: BTreeMap::new(),
            paths: BTreeMap::new(),
            seen: BTreeMap::new(),
            known: BTreeMap::new(),
            joining: BTreeSet::new(),
            heard_ns: BTreeMap::new(),
        })
    }

    fn delay_ns(&mut self) -> u64 {
        let (least, most) = self.delay_ms;
        self.rng.random_range(least * 1_000_000..=most.max(least) * 1_000_000)
    }

    /// A process is new: it knows nobody, and what its host said before is void.
    pub(super) fn restarted(&mut self, node: usize) {
        self.loads.remove(&node);
        self.paths.retain(|(origin, _), _| *origin != node);
        self.known.retain(|(observer, _), _| *observer != node);
        self.seen.retain(|(observer, origin, _), _| *observer != node && *origin != node);
        self.joining.retain(|(observer, subject)| *observer != node && *subject != node);
    }

    /// A process ran on: that it heard nobody meanwhile says nothing of the others.
    pub(super) fn carried_on(&mut self, node: usize, now_ns: u64) {
        self.heard_ns.iter_mut().filter(|((observer, _), _)| *observer == node).for_each(|(_, at)| *at = now_ns);
    }
}

impl World {
    /// A node says something of itself.
    pub(super) fn publish(&mut self, node: usize, record: Rumour) {
        let Some(direct) = &mut self.direct else { return };
        direct.seq += 1;
        match &record {
            Rumour::Node(_) => {}
            Rumour::Load(load) => {
                direct.loads.insert(node, (direct.seq, load.clone()));
            }
            Rumour::Paths(paths) => {
                direct.paths.insert((node, paths.chunk), (direct.seq, paths.clone()));
            }
        }
        let seq = direct.seq;
        for to in 0..self.nodes.len() {
            if to != node {
                self.spread(node, to, seq, record.clone());
            }
        }
    }

    /// A node's paths that are not healthy, all of them: chunks that are no more are emptied.
    pub(super) fn publish_paths(&mut self, node: usize, chunks: Vec<PathsRecord>) {
        let Some(direct) = &self.direct else { return };
        let count = chunks.len();
        let told = direct.paths.range((node, 0)..=(node, u16::MAX));
        let gone: Vec<u16> = told
            .filter(|((_, chunk), (_, record))| usize::from(*chunk) >= count && !record.paths.is_empty())
            .map(|((_, chunk), _)| *chunk)
            .collect();
        let emptied = gone.into_iter().map(|chunk| PathsRecord { chunk, paths: Vec::new() });
        for record in chunks.into_iter().chain(emptied) {
            self.publish(node, Rumour::Paths(record));
        }
    }

    fn spread(&mut self, from: usize, to: usize, seq: u64, record: Rumour) {
        let Some(generation) = self.nodes.get(from).map(|node| node.generation) else { return };
        let Some(life) = self.nodes.get(to).filter(|node| node.process != Process::Dead).map(|node| node.life) else {
            return;
        };
        let Some(delay_ns) = self.direct.as_mut().map(Direct::delay_ns) else { return };
        let heard = Heard::Rumour { from, generation, seq, record };
        self.queue.push(self.now_ns + delay_ns, Event::At { node: to, life, heard });
    }

    /// A record arrives.
    pub(super) fn rumour(&mut self, node: usize, from: usize, generation: Generation, seq: u64, record: Rumour) {
        let reached = self.reaches(from, node);
        let muted = self.network.is_muted(from) && matches!(record, Rumour::Load(_));
        let Some(direct) = &mut self.direct else { return };
        if let Rumour::Node(record) = record {
            if direct.joining.remove(&(node, from)) && reached {
                self.join(node, from, generation, record);
            }
            return;
        }
        // Whoever is not known yet, or cannot be reached, brings all it has said when it joins.
        if direct.known.get(&(node, from)) != Some(&generation) || !reached || muted {
            return;
        }
        let kind = match &record {
            Rumour::Load(_) | Rumour::Node(_) => Kind::Load,
            Rumour::Paths(paths) => Kind::Paths(paths.chunk),
        };
        if direct.seen.get(&(node, from, kind)).is_some_and(|seen| *seen >= seq) {
            return;
        }
        direct.seen.insert((node, from, kind), seq);
        let Some(name) = self.nodes.get(from).map(|node| node.name.clone()) else { return };
        match record {
            Rumour::Load(record) => self.learn(node, MeshEvent::Load { node: name, generation, record }),
            Rumour::Paths(record) => self.learn(node, MeshEvent::Paths { observer: name, record }),
            Rumour::Node(_) => {}
        }
    }

    fn join(&mut self, node: usize, from: usize, generation: Generation, record: Arc<crate::model::NodeRecord>) {
        let Some(direct) = &mut self.direct else { return };
        direct.heard_ns.insert((node, from), self.now_ns);
        let before = direct.known.insert((node, from), generation);
        let load = direct.loads.get(&from).cloned();
        let paths: Vec<_> = direct.paths.range((from, 0)..=(from, u16::MAX)).map(|(_, told)| told.clone()).collect();
        if let Some(generation) = before.filter(|before| *before != generation) {
            direct.seen.retain(|(observer, origin, _), _| (*observer, *origin) != (node, from));
            self.learn(node, MeshEvent::Gone { node: record.node.clone(), generation });
        }
        self.learn(node, MeshEvent::Node { generation, record });
        if let Some((seq, load)) = load {
            self.rumour(node, from, generation, seq, Rumour::Load(load));
        }
        for (seq, record) in paths {
            self.rumour(node, from, generation, seq, Rumour::Paths(record));
        }
    }

    /// Who reaches whom now.
    pub(super) fn beat(&mut self) {
        if self.direct.is_none() {
            return;
        }
        for observer in 0..self.nodes.len() {
            if !self.nodes.get(observer).is_some_and(super::node::Node::runs) {
                continue;
            }
            for subject in 0..self.nodes.len() {
                if subject != observer {
                    self.judge(observer, subject);
                }
            }
            self.drain(observer);
        }
        self.queue.push(self.now_ns + BEAT_NS, Event::Beat);
    }

    fn judge(&mut self, observer: usize, subject: usize) {
        let Some(other) = self.nodes.get(subject) else { return };
        let alive = other.runs();
        let (generation, record) = (other.generation, other.record.clone());
        let reached = alive && self.reaches(subject, observer) && self.reaches(observer, subject);
        let now_ns = self.now_ns;
        let Some(direct) = &mut self.direct else { return };
        let pair = (observer, subject);
        if reached {
            let before_ns = direct.heard_ns.insert(pair, now_ns).unwrap_or(0);
            if direct.known.get(&pair) != Some(&generation) {
                if direct.joining.insert(pair) {
                    self.spread(subject, observer, 0, Rumour::Node(Arc::new(record)));
                }
            } else if now_ns.saturating_sub(before_ns) > 2 * BEAT_NS {
                self.repair(subject, observer);
            }
            return;
        }
        direct.joining.remove(&pair);
        let silent_ns = now_ns.saturating_sub(direct.heard_ns.get(&pair).copied().unwrap_or(0));
        if silent_ns >= direct.down_after_ns
            && let Some(generation) = direct.known.remove(&pair)
        {
            direct.seen.retain(|(one, origin, _), _| (*one, *origin) != pair);
            self.learn(observer, MeshEvent::Gone { node: record.node, generation });
        }
    }

    /// Brings what was said while nobody could hear it.
    pub(super) fn repair(&mut self, from: usize, to: usize) {
        let Some(direct) = &self.direct else { return };
        let load = direct.loads.get(&from).map(|(seq, load)| (*seq, Rumour::Load(load.clone())));
        let paths = direct.paths.range((from, 0)..=(from, u16::MAX));
        let paths = paths.map(|(_, (seq, paths))| (*seq, Rumour::Paths(paths.clone())));
        for (seq, record) in load.into_iter().chain(paths).collect::<Vec<_>>() {
            self.spread(from, to, seq, record);
        }
    }

    /// Whether records get from one host to the other, over a third one if need be.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let network = &self.network;
        network.connects(from, to)
            || (network.any_cut()
                && self.nodes.iter().enumerate().any(|(over, node)| {
                    over != from
                        && over != to
                        && node.runs()
                        && network.connects(from, over)
                        && network.connects(over, to)
                }))
    }
}
