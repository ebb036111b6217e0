//! One host: its process, and the cores in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::directory::Directory;
use super::engines::Engine;
use super::event::Heard;
use super::settings::{Gossip, Settings};
use super::wiring::CoreInput;
use crate::core::{Core, Mono, Now};
use crate::health::{self, HealthCore};
use crate::ledger::{self, Ledger};
use crate::mesh::{self, MeshCore};
use crate::model::{BackendKind, Generation, LeaseId, NodeName, NodeRecord, RailRecord, RequestId, RiskGroup, Role};
use crate::policy::Policy;
use crate::policy::view::Own;

/// What a stopped process hears later at most; more is dropped.
const MAX_BACKLOG: usize = 65_536;
/// Stalls remembered.
const MAX_STALLS: usize = 256;

/// How a host's process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It runs.
    Running,
    /// It is stopped, and will hear what it missed.
    Stopped,
    /// There is none.
    Dead,
}

pub(super) struct Node {
    pub(super) name: NodeName,
    pub(super) decodes: bool,
    pub(super) record: NodeRecord,
    pub(super) process: Process,
    /// Counts the processes of this host.
    pub(super) life: u32,
    pub(super) generation: Generation,
    pub(super) clock_offset_ms: i64,
    /// What the host's disk says of leases: it outlives the process.
    pub(super) longest_lease: Option<ledger::LongestLease>,
    pub(super) engine: Engine,
    pub(super) cores: Option<Cores>,
    backlog: VecDeque<Heard>,
    pub(super) backlog_dropped: u64,
    /// When it was stopped, from and until.
    stalls: VecDeque<(u64, u64)>,
    stopped_ns: u64,
}

/// What dies with the process.
pub(super) struct Cores {
    pub(super) health: HealthCore,
    pub(super) policy: Policy,
    pub(super) ledger: Option<Ledger>,
    pub(super) mesh: Option<MeshCore>,
    pub(super) directory: Directory,
    /// When the mesh was told of paths last, and whether a state has changed since.
    pub(super) told_paths: Option<Mono>,
    pub(super) untold: bool,
    /// The earliest tick that each core has coming.
    pub(super) ticks: [Option<u64>; 4],
    pub(super) inbox: VecDeque<CoreInput>,
    /// Who waits for an answer of the policy, or of the ledger.
    pub(super) asked_policy: BTreeMap<u64, PolicyQuestion>,
    pub(super) asked_ledger: BTreeMap<u64, LedgerQuestion>,
    /// Transfers under way: the lease each was started with, to the write that it now makes.
    pub(super) transfers: BTreeMap<LeaseId, Transfer>,
}

pub(super) enum PolicyQuestion {
    Route(RequestId),
    Plan(LeaseId),
}

pub(super) enum LedgerQuestion {
    Call { ticket: u64 },
    Open { write: u64 },
    Delivered { write: u64 },
    Nobody,
}

pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) write: Option<u64>,
}

impl Node {
    /// The `index`-th host of the world, prefill hosts first; not yet started.
    pub(super) fn new(settings: &Settings, index: usize) -> Result<Self, crate::model::InvalidName> {
        let decodes = index >= settings.prefill;
        let text = if decodes { format!("d{}", index - settings.prefill) } else { format!("p{index}") };
        let name = NodeName::new(&text)?;
        let mut rails = Vec::new();
        for rail in 0..settings.rails {
            rails.push(RailRecord {
                name: crate::model::RailName::new(&format!("r{rail}"))?,
                group: crate::model::RailName::new("default")?,
                backend: BackendKind::Mock,
                address: format!("10.0.{}.{}:7000", index / 250, index % 250),
                bandwidth_gbps: settings.bandwidth_gbps,
            });
        }
        let certificate = match &settings.gossip {
            Gossip::Cores { keys, .. } => keys.get(index).map(|key| key.certificate.clone()).unwrap_or_default(),
            Gossip::Direct { .. } => Vec::new(),
        };
        let record = NodeRecord {
            node: name.clone(),
            roles: vec![if decodes { Role::Decode } else { Role::Prefill }],
            pool: if decodes { Some(crate::model::PoolName::new("pool")?) } else { None },
            model: None,
            compat: None,
            risk_group: if decodes { Some(RiskGroup::new(&text)?) } else { None },
            rails,
            certificate,
        };
        Ok(Self {
            name,
            decodes,
            record,
            process: Process::Dead,
            life: 0,
            generation: 0,
            clock_offset_ms: 0,
            longest_lease: None,
            engine: Engine::default(),
            cores: None,
            backlog: VecDeque::new(),
            backlog_dropped: 0,
            stalls: VecDeque::new(),
            stopped_ns: 0,
        })
    }

    pub(super) fn runs(&self) -> bool {
        self.process == Process::Running
    }

    pub(super) fn now(&self, now_ns: u64) -> Now {
        let wall_ms = (super::START_MS + now_ns / 1_000_000).saturating_add_signed(self.clock_offset_ms);
        Now { mono: Mono(now_ns), wall_ms }
    }

    /// A new process; what the last one knew is lost, its generation is not.
    pub(super) fn start(&mut self, settings: &Settings, index: usize, now_ns: u64) {
        self.life += 1;
        self.process = Process::Running;
        self.generation = (self.generation + 1).max(self.now(now_ns).wall_ms);
        self.backlog.clear();
        self.stalls.clear();
        let own = Own {
            node: self.name.clone(),
            rails: if self.decodes { Vec::new() } else { self.record.rails.clone() },
            model: None,
            compat: None,
        };
        let mesh = match &settings.gossip {
            Gossip::Cores { size, cluster, ca_der, .. } => Some(MeshCore::new(mesh::Settings {
                node: self.name.clone(),
                cluster: cluster.clone(),
                ca_der: ca_der.clone(),
                addr: super::mesh::address(index),
                generation: self.generation,
                size: *size,
                seed: settings.seed,
            })),
            Gossip::Direct { .. } => None,
        };
        let ledger = Ledger::new(self.name.clone(), self.generation, settings.ledger.clone());
        let mut cores = Cores {
            health: HealthCore::default(),
            policy: Policy::new(self.generation, own.clone(), settings.policy.clone()),
            ledger: self.decodes.then_some(ledger),
            mesh,
            directory: Directory::new(self.name.clone(), own.rails),
            told_paths: None,
            untold: false,
            ticks: [None; 4],
            inbox: VecDeque::new(),
            asked_policy: BTreeMap::new(),
            asked_ledger: BTreeMap::new(),
            transfers: BTreeMap::new(),
        };
        let first = health::Input::Configure(settings.health.clone());
        cores.inbox.push_back(CoreInput::Health(first));
        if self.decodes {
            let first = match self.longest_lease {
                Some(longest) => ledger::Input::Recover(longest),
                None => ledger::Input::Tick,
            };
            cores.inbox.push_back(CoreInput::Ledger(first));
        }
        // As the agent does: its own record makes its own host known to its own policy.
        let record = Arc::new(self.record.clone());
        let itself = crate::policy::Input::Peer { generation: self.generation, record };
        cores.inbox.push_front(CoreInput::Policy(itself));
        self.cores = Some(cores);
    }

    pub(super) fn kill(&mut self) {
        self.process = Process::Dead;
        self.cores = None;
        self.backlog.clear();
    }

    pub(super) fn stop(&mut self, now_ns: u64) {
        if self.process == Process::Running {
            self.process = Process::Stopped;
            self.stopped_ns = now_ns;
        }
    }

    /// Runs again; what it missed comes back in order.
    pub(super) fn carry_on(&mut self, now_ns: u64) -> VecDeque<Heard> {
        if self.process != Process::Stopped {
            return VecDeque::new();
        }
        self.process = Process::Running;
        if self.stalls.len() == MAX_STALLS {
            self.stalls.pop_front();
        }
        self.stalls.push_back((self.stopped_ns, now_ns));
        std::mem::take(&mut self.backlog)
    }

    /// Keeps what a stopped process will hear.
    pub(super) fn keep(&mut self, heard: Heard) {
        if self.backlog.len() < MAX_BACKLOG {
            self.backlog.push_back(heard);
        } else {
            self.backlog_dropped += 1;
        }
    }

    /// How long the process stood still since `start_ns`, in milliseconds.
    pub(super) fn late_ms(&self, start_ns: u64, now_ns: u64) -> f64 {
        let overlap = |(from, until): &(u64, u64)| until.min(&now_ns).saturating_sub(*from.max(&start_ns));
        self.stalls.iter().map(overlap).sum::<u64>() as f64 / 1e6
    }
}

impl Cores {
    /// When a core must be called again.
    pub(super) fn deadline(&self, core: usize) -> Option<Mono> {
        match core {
            0 => self.health.deadline(),
            1 => self.policy.deadline(),
            2 => self.ledger.as_ref().and_then(Core::deadline),
            _ => self.mesh.as_ref().and_then(Core::deadline),
        }
    }
}
