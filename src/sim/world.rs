//! The world: its hosts, what will happen, and the time.

use std::collections::BTreeMap;

use super::arrivals::Streams;
use super::audit::Audit;
use super::engines::Engines;
use super::event::{Event, Heard, Own};
use super::gossip::Direct;
use super::lease_calls::Call;
use super::mesh::Exchanges;
use super::network::Network;
use super::node::{Cores, Node, Process};
use super::prober::Probers;
use super::queue::Queue;
use super::rails::Rails;
use super::settings::{Gossip, Settings};
use super::tape::Tapes;
use super::wiring::CoreInput;
use crate::core::Now;
use crate::health::{HealthCore, SampleOutcome};
use crate::ledger::Ledger;
use crate::mesh::MeshCore;
use crate::model::{NodeName, PathId};
use crate::policy::Policy;

/// A message that does not get through is tried again after this long.
const RESEND_NS: u64 = 200_000_000;
/// And so often.
const RESENDS: u32 = 25;
/// A condition is looked at this often in virtual time.
const LOOK_NS: u64 = 10_000_000;

/// A whole mesh in virtual time: see the [module documentation](super).
pub struct World {
    pub(super) settings: Settings,
    pub(super) now_ns: u64,
    pub(super) queue: Queue<Event>,
    pub(super) nodes: Vec<Node>,
    names: BTreeMap<NodeName, usize>,
    pub(super) network: Network,
    pub(super) direct: Option<Direct>,
    pub(super) exchanges: Exchanges,
    pub(super) rails: Rails,
    pub(super) probers: Probers,
    pub(super) engines: Engines,
    pub(super) streams: Streams,
    pub(super) calls: BTreeMap<u64, Call>,
    pub(super) audit: Audit,
    tapes: Option<(usize, Tapes)>,
    /// When something was last done to a host, or to an edge.
    troubles_ns: BTreeMap<usize, u64>,
    mended_ns: BTreeMap<(usize, usize), u64>,
    ids: u64,
}

impl World {
    /// A world at its beginning, every process just started.
    ///
    /// # Errors
    /// Names the setting that is out of range, what was found and what is allowed.
    pub fn new(settings: Settings) -> Result<Self, String> {
        check(&settings)?;
        let count = settings.prefill + settings.decode;
        let seed = |part: u64| settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part);
        let mut nodes = Vec::new();
        for index in 0..count {
            nodes.push(Node::new(&settings, index).map_err(|error| error.to_string())?);
        }
        let names = nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index)).collect();
        let taped = nodes.iter().position(|node| settings.taped.as_deref() == Some(node.name.as_str()));
        let mut world = Self {
            now_ns: 0,
            queue: Queue::new(),
            nodes,
            names,
            network: Network::new(settings.link, seed(1)),
            direct: Direct::new(&settings.gossip, seed(2)),
            exchanges: Exchanges::default(),
            rails: Rails::new(seed(3)),
            probers: Probers::new(seed(4)),
            engines: Engines::new(seed(5)),
            streams: Streams::new(seed(6)),
            calls: BTreeMap::new(),
            audit: Audit::default(),
            tapes: taped.map(|node| (node, Tapes::default())),
            troubles_ns: BTreeMap::new(),
            mended_ns: BTreeMap::new(),
            ids: 0,
            settings,
        };
        world.queue.push(0, Event::Beat);
        for node in 0..count {
            world.start(node);
        }
        world.troubles_ns.clear();
        Ok(world)
    }

    /// The number of a prefill host.
    #[must_use]
    pub fn prefill(&self, which: usize) -> usize {
        which
    }

    /// The number of a decode host.
    #[must_use]
    pub fn decode(&self, which: usize) -> usize {
        self.settings.prefill + which
    }

    /// Milliseconds since the run began.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ns / 1_000_000
    }

    /// What was noted since the run began.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The network as it is now.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The inputs and outputs of the node that was to be taped.
    #[must_use]
    pub fn tapes(&self) -> Option<&Tapes> {
        self.tapes.as_ref().map(|(_, tapes)| tapes)
    }

    /// A host's name.
    #[must_use]
    pub fn name(&self, node: usize) -> Option<&NodeName> {
        self.nodes.get(node).map(|node| &node.name)
    }

    /// How a host's process is.
    #[must_use]
    pub fn process(&self, node: usize) -> Process {
        self.nodes.get(node).map_or(Process::Dead, |node| node.process)
    }

    /// A host's generation: that of its last process.
    #[must_use]
    pub fn generation(&self, node: usize) -> u64 {
        self.nodes.get(node).map_or(0, |node| node.generation)
    }

    /// A host's policy, where a process is.
    #[must_use]
    pub fn policy(&self, node: usize) -> Option<&Policy> {
        self.cores_of(node).map(|cores| &cores.policy)
    }

    /// A host's health core, where a process is.
    #[must_use]
    pub fn health(&self, node: usize) -> Option<&HealthCore> {
        self.cores_of(node).map(|cores| &cores.health)
    }

    /// A decode host's ledger, where a process is.
    #[must_use]
    pub fn ledger(&self, node: usize) -> Option<&Ledger> {
        self.cores_of(node)?.ledger.as_ref()
    }

    /// A host's mesh core, where a process is and the gossip is real.
    #[must_use]
    pub fn mesh(&self, node: usize) -> Option<&MeshCore> {
        self.cores_of(node)?.mesh.as_ref()
    }

    /// The path from one host to another over the first rail.
    #[must_use]
    pub fn path(&self, from: usize, to: usize) -> Option<PathId> {
        let (from, to) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let rail = from.record.rails.first()?;
        Some(PathId {
            source: from.name.clone(),
            destination: to.name.clone(),
            rail: rail.name.clone(),
            backend: rail.backend,
        })
    }

    /// Events and messages for which there was no room, all together.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let backlogs: u64 = self.nodes.iter().map(|node| node.backlog_dropped).sum();
        self.queue.refused() + backlogs + self.audit.left_out + self.audit.writes_refused
    }

    /// Runs for so many milliseconds.
    pub fn run(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    /// Runs until `until` holds and says after how many milliseconds, or gives up.
    pub fn run_until(&mut self, at_most_ms: u64, mut until: impl FnMut(&Self) -> bool) -> Option<u64> {
        let start_ms = self.now_ms();
        let end_ns = self.now_ns.saturating_add(at_most_ms * 1_000_000);
        let mut look_ns = self.now_ns;
        loop {
            if self.now_ns >= look_ns {
                if until(self) {
                    return Some(self.now_ms() - start_ms);
                }
                look_ns = self.now_ns + LOOK_NS;
            }
            let Some((at_ns, event)) = self.queue.pop(end_ns) else { break };
            self.now_ns = self.now_ns.max(at_ns);
            self.happens(event);
        }
        self.now_ns = end_ns;
        until(self).then(|| self.now_ms() - start_ms)
    }

    pub(super) fn happens(&mut self, event: Event) {
        match event {
            Event::At { node, life, heard } => {
                let Some(host) = self.nodes.get_mut(node).filter(|host| host.life == life) else { return };
                match host.process {
                    Process::Running => self.hear(node, heard),
                    Process::Stopped => host.keep(heard),
                    Process::Dead => {}
                }
            }
            Event::Resend { from, to, heard, tries } => self.resend(from, to, heard, tries),
            Event::Act(action) => self.act(action),
            Event::Moved { write, version } => self.moved(write, version),
            Event::SessionEnds { node, lease } => self.session_ends(node, lease),
            Event::Arrive { node, life } => self.arrives(node, life),
            Event::Beat => self.beat(),
        }
    }

    /// A process that runs hears something, and its cores act on it.
    pub(super) fn hear(&mut self, node: usize, heard: Heard) {
        match heard {
            Heard::Tick(core) => self.tick(node, core),
            Heard::Core(input) => self.tell(node, input),
            Heard::Own(own) => self.own(node, own),
            Heard::Rumour { from, generation, seq, record } => self.rumour(node, from, generation, seq, record),
            Heard::LeaseCall { ticket } => self.lease_called(node, ticket),
            Heard::LeaseReply { ticket, reply } => self.lease_replied(ticket, reply),
            Heard::ProbeArrived { probe } => self.probe_arrived(node, probe),
            Heard::ProbeEcho { probe } => self.probe_ended(node, probe, SampleOutcome::Ok),
            Heard::WriteAsked { write } => self.write_asked(node, write),
            Heard::WriteLanded { write } => self.write_landed(node, write),
            Heard::WriteClosed { write } => self.write_closed(node, write),
            Heard::WriteAnswered { write, landed } => self.write_answered(node, write, landed),
            Heard::MeshAsk { from, theirs, bytes } => self.mesh_asked(node, from, theirs, bytes),
        }
        self.drain(node);
    }

    fn own(&mut self, node: usize, own: Own) {
        match own {
            Own::ProbeDue { path, epoch } => self.probe_due(node, path, epoch),
            Own::BulkDue { path, epoch } => self.bulk_due(node, path, epoch),
            Own::ProbeDeadline { probe } => self.probe_ended(node, probe, SampleOutcome::Lost),
            Own::LeaseTimeout { ticket } => self.lease_timed_out(ticket),
            Own::WriteDeadline { write } => self.write_timed_out(node, write),
            Own::WriteGivenUp { write } | Own::WriteQuiet { write } => self.write_quiet(node, write),
            Own::Start { lease, bytes } => self.start_transfer(node, lease, bytes),
            Own::SessionEnded { lease } => self.session_ended(node, lease),
            Own::EngineReads => self.engine_reads(node),
            Own::SeedAnswers => self.seed_answers(node),
            Own::MeshFails(input) => self.tell(node, CoreInput::Mesh(input)),
        }
    }

    /// Sends a message on a stream to the process that now runs there; sent again while the edge is
    /// cut.
    pub(super) fn send(&mut self, from: usize, to: usize, heard: Heard) {
        if let Some(life) = self.nodes.get(to).map(|node| node.life) {
            self.send_to_life(from, to, life, heard);
        }
    }

    pub(super) fn send_to_life(&mut self, from: usize, to: usize, life: u32, heard: Heard) {
        if let Some(sender) = self.nodes.get(from).map(|node| node.life) {
            self.resend((from, sender), (to, life), heard, RESENDS);
        }
    }

    fn resend(&mut self, from: (usize, u32), to: (usize, u32), heard: Heard, tries: u32) {
        if self.nodes.get(from.0).is_none_or(|node| node.life != from.1 || node.process == Process::Dead) {
            return;
        }
        if let Some(delay_ns) = self.network.message(from.0, to.0) {
            self.queue.push(self.now_ns + delay_ns, Event::At { node: to.0, life: to.1, heard });
        } else if tries > 0 {
            self.queue.push(self.now_ns + RESEND_NS, Event::Resend { from, to, heard, tries: tries - 1 });
        }
    }

    /// Something arrives at the process that now runs there.
    pub(super) fn arrive(&mut self, to: usize, delay_ns: u64, heard: Heard) {
        if let Some(life) = self.nodes.get(to).map(|node| node.life) {
            self.queue.push(self.now_ns + delay_ns, Event::At { node: to, life, heard });
        }
    }

    /// A process does something later.
    pub(super) fn later(&mut self, node: usize, ms: u64, own: Own) {
        self.later_ns(node, ms.saturating_mul(1_000_000), own);
    }

    pub(super) fn later_ns(&mut self, node: usize, ns: u64, own: Own) {
        self.arrive(node, ns, Heard::Own(own));
    }

    pub(super) fn now_of(&self, node: usize) -> Now {
        self.nodes.get(node).map(|node| node.now(self.now_ns)).unwrap_or_default()
    }

    pub(super) fn cores_of(&self, node: usize) -> Option<&Cores> {
        self.nodes.get(node)?.cores.as_ref()
    }

    pub(super) fn cores_mut(&mut self, node: usize) -> Option<&mut Cores> {
        self.nodes.get_mut(node)?.cores.as_mut()
    }

    pub(super) fn tapes_of(&mut self, node: usize) -> Option<&mut Tapes> {
        self.tapes.as_mut().filter(|(taped, _)| *taped == node).map(|(_, tapes)| tapes)
    }

    pub(super) fn index_of(&self, name: &NodeName) -> Option<usize> {
        self.names.get(name).copied()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn trouble(&mut self, node: usize) {
        self.troubles_ns.insert(node, self.now_ns);
    }

    /// Whether a host does not run, or did not within the last `ms` milliseconds.
    pub(super) fn troubled(&self, node: usize, ms: u64) -> bool {
        self.process(node) != Process::Running || self.within(self.troubles_ns.get(&node), ms)
    }

    pub(super) fn mended(&mut self, from: usize, to: usize) {
        self.mended_ns.insert((from, to), self.now_ns);
    }

    /// Whether something was done to an edge within the last `ms` milliseconds.
    pub(super) fn was_mended(&self, from: usize, to: usize, ms: u64) -> bool {
        self.within(self.mended_ns.get(&(from, to)), ms)
    }

    fn within(&self, at_ns: Option<&u64>, ms: u64) -> bool {
        at_ns.is_some_and(|at_ns| self.now_ns.saturating_sub(*at_ns) < ms * 1_000_000)
    }
}

fn check(settings: &Settings) -> Result<(), String> {
    let whole = |field: &str, found: usize, least: usize, most: usize| match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(format!("{field}: found {found}, allowed {least} to {most}")),
    };
    let above = |field: &str, found: f64| match found.is_finite() && found > 0.0 {
        true => Ok(()),
        false => Err(format!("{field}: found {found}, allowed a finite number above 0")),
    };
    whole("prefill", settings.prefill, 0, 1_000)?;
    whole("decode", settings.decode, 0, 1_000)?;
    whole("rails", settings.rails, 1, 16)?;
    above("bandwidth_gbps", settings.bandwidth_gbps)?;
    above("session_ms", settings.session_ms)?;
    whole("probing.interval_ms", usize::try_from(settings.probing.interval_ms).unwrap_or(0), 1, 3_600_000)?;
    if let Some(arrivals) = &settings.arrivals {
        above("arrivals.per_s", arrivals.per_s)?;
    }
    if let Gossip::Cores { keys, .. } = &settings.gossip
        && keys.len() != settings.prefill + settings.decode
    {
        let (found, allowed) = (keys.len(), settings.prefill + settings.decode);
        return Err(format!("gossip.keys: found {found}, allowed {allowed}, one for each host"));
    }
    Ok(())
}
