//! A network of mesh cores in virtual time: seeded latency and loss, seeds that answer, faults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};
use seam::codec::{self, Blob};
use seam::core::{Core, Mono, Now};
use seam::mesh::{
    Aged, Envelope, Input, MeshCore, MeshEvent, MeshSize, Output, RecordKind, RecordSigner, Refusal, Settings,
    SyncPush, node_uri,
};
use seam::model::{
    Generation, LoadRecord, NodeName, NodeRecord, ObservedPath, PathHealth, PathState, PathsRecord, Role,
};

pub(crate) const CLUSTER: &str = "test";
pub(crate) const WALL0: u64 = 1_800_000_000_000;
pub(crate) const SECOND: u64 = 1_000;

/// The authority of a cluster.
#[derive(Clone)]
pub(crate) struct Authority {
    issuer: Arc<Issuer<'static, KeyPair>>,
    pub(crate) der: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).unwrap().der().to_vec();
        Self { issuer: Arc::new(Issuer::new(params, key)), der }
    }

    pub(crate) fn issue(&self, name: &NodeName) -> (Vec<u8>, Arc<RecordSigner>) {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(node_uri(CLUSTER, name).try_into().unwrap())];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().to_vec();
        (certificate, Arc::new(RecordSigner::from_pkcs8(&key.serialize_der()).unwrap()))
    }
}

/// What one node did and learned.
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) certificate: Vec<u8>,
    pub(crate) signer: Arc<RecordSigner>,
    pub(crate) core: Option<MeshCore>,
    pub(crate) nodes: BTreeMap<NodeName, Generation>,
    pub(crate) loads: BTreeMap<NodeName, (Generation, LoadRecord)>,
    pub(crate) paths: BTreeMap<(NodeName, u16), PathsRecord>,
    pub(crate) refused: BTreeMap<Refusal, u32>,
    pub(crate) gone: Vec<(NodeName, Generation)>,
    pub(crate) renewals: u32,
    pub(crate) deaf: bool,
    /// How much of what it sends and of what is sent to it is lost.
    pub(crate) loss: f64,
    /// How far its wall clock is off.
    pub(crate) clock_off_ms: i64,
    /// What went over the network for its exchanges, as the one who asked.
    pub(crate) sync_bytes: usize,
    /// How many rounds of exchanges it opened.
    pub(crate) syncs: usize,
    pub(crate) tape: Vec<(Now, Input)>,
    pub(crate) outputs: Vec<Output>,
    deadline: Option<Mono>,
}

enum Delivery {
    Input(usize, Input),
    Ask {
        to: usize,
        from: usize,
        theirs: u64,
        bytes: Vec<u8>,
    },
    /// A node looks for its seed; if that does not answer, again after so many milliseconds.
    Seed(usize, u64),
}

/// An authority, and what it issued.
pub(crate) type Keys = (Authority, Vec<(Vec<u8>, Arc<RecordSigner>)>);

pub(crate) struct Net {
    pub(crate) authority: Authority,
    pub(crate) nodes: Vec<Node>,
    pub(crate) loss: f64,
    /// Keep every input and output.
    pub(crate) taped: bool,
    pub(crate) size: MeshSize,
    /// Nodes that cannot reach the others, and the reverse.
    pub(crate) cut: BTreeSet<usize>,
    /// Pairs that cannot reach each other.
    pub(crate) severed: BTreeSet<(usize, usize)>,
    seeds: Vec<usize>,
    now_ns: u64,
    rng: ChaCha8Rng,
    queue: BTreeMap<(u64, u64), Delivery>,
    sequence: u64,
    /// Exchanges as the asked know them: who asked, and under which number.
    exchanges: BTreeMap<u64, (usize, u64)>,
    partners: BTreeMap<(usize, u64), usize>,
}

pub(crate) fn name(index: usize) -> NodeName {
    NodeName::new(&format!("n{index}")).unwrap()
}

pub(crate) fn addr(index: usize) -> SocketAddr {
    let [high, low] = u16::try_from(index).unwrap().to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 7946))
}

pub(crate) fn load(active_sessions: u32) -> LoadRecord {
    LoadRecord {
        revision: 1,
        active_sessions,
        max_sessions: 64,
        soft_fraction: 0.75,
        kv_bytes_free: 1 << 30,
        inbound_bytes: 0,
        token_time_ms: Some(12.5),
        draining: false,
    }
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            authority: Authority::new(),
            nodes: Vec::new(),
            loss: 0.0,
            taped: false,
            size: MeshSize::Lan,
            cut: BTreeSet::new(),
            severed: BTreeSet::new(),
            seeds: vec![0, 1],
            now_ns: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            queue: BTreeMap::new(),
            sequence: 0,
            exchanges: BTreeMap::new(),
            partners: BTreeMap::new(),
        }
    }

    /// A mesh of `count` nodes that were started together.
    pub(crate) fn of(count: usize, seed: u64) -> Self {
        let mut net = Self::new(seed);
        net.add(count);
        for index in 0..count {
            net.start(index, WALL0);
        }
        net
    }

    /// The authority and keys of as many nodes, for runs that must be equal.
    pub(crate) fn keys(&self, count: usize) -> Keys {
        (self.authority.clone(), (0..count).map(|index| self.authority.issue(&name(index))).collect())
    }

    pub(crate) fn with_keys(seed: u64, keys: &Keys) -> Self {
        let mut net = Self { authority: keys.0.clone(), ..Self::new(seed) };
        for key in &keys.1 {
            net.add_with(key.clone());
        }
        net
    }

    pub(crate) fn add(&mut self, count: usize) {
        for _ in 0..count {
            self.add_with(self.authority.issue(&name(self.nodes.len())));
        }
    }

    fn add_with(&mut self, (certificate, signer): (Vec<u8>, Arc<RecordSigner>)) {
        self.nodes.push(Node {
            name: name(self.nodes.len()),
            certificate,
            signer,
            core: None,
            nodes: BTreeMap::new(),
            loads: BTreeMap::new(),
            paths: BTreeMap::new(),
            refused: BTreeMap::new(),
            gone: Vec::new(),
            renewals: 0,
            deaf: false,
            loss: 0.0,
            clock_off_ms: 0,
            sync_bytes: 0,
            syncs: 0,
            tape: Vec::new(),
            outputs: Vec::new(),
            deadline: None,
        });
    }

    pub(crate) fn settings(&self, index: usize, generation: Generation) -> Settings {
        Settings {
            node: name(index),
            cluster: CLUSTER.to_owned(),
            ca_der: self.authority.der.clone(),
            addr: addr(index),
            generation,
            size: self.size,
            seed: index as u64,
        }
    }

    pub(crate) fn start(&mut self, index: usize, generation: Generation) {
        let core = MeshCore::new(self.settings(index, generation));
        let node = &mut self.nodes[index];
        node.core = Some(core);
        node.nodes.clear();
        node.loads.clear();
        node.paths.clear();
        let record = NodeRecord {
            node: node.name.clone(),
            roles: vec![Role::Decode],
            pool: None,
            model: None,
            compat: None,
            risk_group: None,
            rails: Vec::new(),
            certificate: node.certificate.clone(),
        };
        self.give(index, Input::PublishNode(record));
        self.later(1, Delivery::Seed(index, 100));
    }

    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index].core = None;
        self.nodes[index].deadline = None;
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono: Mono(self.now_ns), wall_ms: WALL0 + self.now_ns / 1_000_000 }
    }

    /// What a node's clocks say now.
    pub(crate) fn clock_of(&self, index: usize) -> Now {
        let now = self.now();
        Now { wall_ms: now.wall_ms.saturating_add_signed(self.nodes[index].clock_off_ms), ..now }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ns / 1_000_000
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.core.is_some())
    }

    pub(crate) fn refusals(&self, reason: Refusal) -> u32 {
        self.nodes.iter().filter_map(|node| node.refused.get(&reason)).sum()
    }

    /// Every running node knows every other running one's record, and no other.
    pub(crate) fn whole(&self) -> bool {
        let all: BTreeSet<_> = self.running().map(|node| &node.name).collect();
        self.running().all(|node| {
            let known: BTreeSet<_> = node.nodes.keys().chain([&node.name]).collect();
            known == all && node.core.as_ref().unwrap().live_count() + 1 == all.len()
        })
    }

    /// Whether every running node knows this load of another one.
    pub(crate) fn load_is_known_everywhere(&self, of: usize, sessions: u32) -> bool {
        let known = |node: &Node| node.loads.get(&name(of)).is_some_and(|(_, load)| load.active_sessions == sessions);
        self.running().all(|node| node.name == name(of) || known(node))
    }

    /// Whether every running node knows this load of every other one.
    pub(crate) fn know_all_loads(&self, sessions: u32) -> bool {
        let others = self.running().count() - 1;
        let known = |node: &Node| node.loads.values().filter(|(_, load)| load.active_sessions == sessions).count();
        self.running().all(|node| known(node) == others)
    }

    /// Hands records from one node to another as the end of an exchange.
    pub(crate) fn push(&mut self, from: usize, to: usize, records: Vec<Envelope>) {
        self.push_aged(from, to, records.into_iter().map(|envelope| Aged { age_ms: 0, envelope }).collect());
    }

    /// As [`Net::push`], with the ages that the one who passes them on gives them.
    pub(crate) fn push_aged(&mut self, from: usize, to: usize, records: Vec<Aged>) {
        let bytes = Blob(codec::encode(&SyncPush { records }).unwrap());
        self.give(to, Input::SyncPushed { from: name(from), bytes });
    }

    /// Brings a round of an exchange from one node to another; the answer is lost.
    pub(crate) fn ask(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.sequence += 1;
        let exchange = self.sequence;
        self.give(to, Input::SyncAsked { exchange, from: name(from), bytes: Blob(bytes) });
    }

    /// Gives a node an input now, and sends what follows on its way.
    pub(crate) fn give(&mut self, index: usize, input: Input) {
        let now = self.clock_of(index);
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let node = &mut self.nodes[index];
            let Some(core) = &mut node.core else { return };
            let mut out = Vec::new();
            core.step(now, input.clone(), &mut out);
            node.deadline = core.deadline();
            if self.taped {
                node.tape.push((now, input));
                node.outputs.extend(out.iter().cloned());
            }
            for output in out {
                if let Some(next) = self.carry_out(index, output) {
                    inputs.insert(0, next);
                }
            }
        }
    }

    /// Runs until `until` holds, and says after how many milliseconds, or gives up.
    pub(crate) fn run_until(&mut self, at_most_ms: u64, until: impl Fn(&Self) -> bool) -> Option<u64> {
        let start = self.now_ms();
        let end_ns = self.now_ns + at_most_ms * 1_000_000;
        let mut check_ns = self.now_ns;
        loop {
            if self.now_ns >= check_ns {
                if until(self) {
                    return Some(self.now_ms() - start);
                }
                check_ns = self.now_ns + 20_000_000;
            }
            if !self.advance(end_ns) {
                return until(self).then(|| self.now_ms() - start);
            }
        }
    }

    pub(crate) fn run(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    fn advance(&mut self, end_ns: u64) -> bool {
        let deadline = self.nodes.iter().enumerate().filter_map(|(index, node)| Some((node.deadline?.0, index))).min();
        let delivery = self.queue.first_key_value().map(|((at, _), _)| *at);
        let next = deadline.map(|(at, _)| at).into_iter().chain(delivery).min();
        let Some(next) = next.filter(|next| *next <= end_ns) else {
            self.now_ns = end_ns;
            return false;
        };
        self.now_ns = self.now_ns.max(next);
        match deadline {
            Some((at, index)) if delivery.is_none_or(|delivery| at <= delivery) => self.give(index, Input::Tick),
            _ => {
                let (_, delivery) = self.queue.pop_first().unwrap();
                self.deliver(delivery);
            }
        }
        true
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Input(to, input) => self.give(to, input),
            Delivery::Ask { to, from, theirs, bytes } => {
                if self.nodes[to].core.is_none() {
                    return self.later(1_000, Delivery::Input(from, Input::SyncFailed { exchange: theirs }));
                }
                self.sequence += 1;
                let exchange = self.sequence;
                self.exchanges.insert(exchange, (from, theirs));
                self.partners.insert((from, theirs), to);
                let from = name(from);
                self.give(to, Input::SyncAsked { exchange, from, bytes: Blob(bytes) });
            }
            Delivery::Seed(index, retry_ms) => {
                if self.nodes[index].core.is_none() {
                    return;
                }
                let mut met = false;
                for seed in self.seeds.clone() {
                    if seed == index || seed >= self.nodes.len() {
                        continue;
                    }
                    if self.nodes[seed].core.is_some() && self.connected(index, seed) {
                        met = true;
                        self.give(index, Input::SeedSeen { node: name(seed), addr: addr(seed) });
                    }
                }
                if met {
                    self.later(10 * SECOND, Delivery::Seed(index, 100));
                } else {
                    self.later(retry_ms, Delivery::Seed(index, (retry_ms * 2).min(5 * SECOND)));
                }
            }
        }
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        let pair = (a.min(b), a.max(b));
        self.cut.contains(&a) == self.cut.contains(&b)
            && !self.severed.contains(&pair)
            && !self.nodes[a].deaf
            && !self.nodes[b].deaf
    }

    /// Whether a packet is lost on its way.
    fn lost(&mut self, from: usize, to: usize) -> bool {
        let pair = (from.min(to), from.max(to));
        let kept = (1.0 - self.loss) * (1.0 - self.nodes[from].loss) * (1.0 - self.nodes[to].loss);
        !self.rng.random_bool(kept)
            || self.nodes[to].deaf
            || self.severed.contains(&pair)
            || self.cut.contains(&from) != self.cut.contains(&to)
    }

    /// How long a message on a stream takes longer because of loss: it is sent again after 100 ms,
    /// 200 ms and so on, until it and its acknowledgement have come through.
    fn retransmissions_ms(&mut self, from: usize, to: usize) -> u64 {
        let kept = (1.0 - self.loss) * (1.0 - self.nodes[from].loss) * (1.0 - self.nodes[to].loss);
        let mut wait = 100;
        let mut late = 0;
        while late < 5 * SECOND && !self.rng.random_bool(kept) {
            late += wait;
            wait *= 2;
        }
        late
    }

    fn later(&mut self, ms: u64, delivery: Delivery) {
        let jitter = self.rng.random_range(200_000..1_000_000);
        self.sequence += 1;
        self.queue.insert((self.now_ns + ms * 1_000_000 + jitter, self.sequence), delivery);
    }

    fn carry_out(&mut self, index: usize, output: Output) -> Option<Input> {
        match output {
            Output::Packet { to, addr: at, bytes } => {
                assert!(bytes.len() <= seam::mesh::MAX_PACKET);
                if let Some(to) = self.index_of(&to, at)
                    && !self.lost(index, to)
                {
                    let from = name(index);
                    self.later(0, Delivery::Input(to, Input::Packet { from, bytes: Blob(bytes) }));
                }
            }
            Output::SyncAsk { exchange, to, addr: at, bytes } => match self.index_of(&to, at) {
                Some(to) if self.connected(index, to) => {
                    self.nodes[index].sync_bytes += bytes.len();
                    self.nodes[index].syncs += 1;
                    let late = self.retransmissions_ms(index, to);
                    self.later(late, Delivery::Ask { to, from: index, theirs: exchange, bytes });
                }
                _ => self.later(SECOND, Delivery::Input(index, Input::SyncFailed { exchange })),
            },
            Output::SyncReply { exchange, bytes } => {
                let (to, theirs) = self.exchanges.remove(&exchange)?;
                self.nodes[to].sync_bytes += bytes.len();
                let late = self.retransmissions_ms(index, to);
                let reply = Input::SyncReplied { exchange: theirs, from: name(index), bytes: Blob(bytes) };
                if self.connected(index, to) {
                    self.later(late, Delivery::Input(to, reply));
                } else {
                    self.later(SECOND, Delivery::Input(to, Input::SyncFailed { exchange: theirs }));
                }
            }
            Output::SyncPush { exchange, bytes } => {
                let to = self.partners[&(index, exchange)];
                self.nodes[index].sync_bytes += bytes.len();
                let late = self.retransmissions_ms(index, to);
                self.later(late, Delivery::Input(to, Input::SyncPushed { from: name(index), bytes: Blob(bytes) }));
            }
            Output::Sign { kind, seq, bytes } => {
                let signature = Blob(self.nodes[index].signer.sign(&bytes));
                return Some(Input::Signed { kind, seq, signature });
            }
            Output::Event(event) => self.nodes[index].learn(event),
            Output::Refused { reason, .. } => *self.nodes[index].refused.entry(reason).or_default() += 1,
            Output::Renewed(_) => self.nodes[index].renewals += 1,
            Output::Member { .. } | Output::Rival { .. } => {}
        }
        None
    }

    fn index_of(&self, to: &NodeName, at: SocketAddr) -> Option<usize> {
        let index = to.as_str().strip_prefix('n')?.parse().ok()?;
        (index < self.nodes.len() && addr(index) == at).then_some(index)
    }
}

impl Node {
    fn learn(&mut self, event: MeshEvent) {
        match event {
            MeshEvent::Node { generation, record } => {
                self.nodes.insert(record.node.clone(), generation);
            }
            MeshEvent::Load { node, generation, record } => {
                self.loads.insert(node, (generation, record));
            }
            MeshEvent::Paths { observer, record } => {
                self.paths.insert((observer, record.chunk), record);
            }
            MeshEvent::Gone { node, generation } => {
                self.gone.push((node.clone(), generation));
                self.nodes.remove(&node);
                self.loads.remove(&node);
                self.paths.retain(|(observer, _), _| *observer != node);
            }
        }
    }

    pub(crate) fn holds(&self, now: Now, origin: &NodeName, kind: RecordKind) -> bool {
        let core = self.core.as_ref().unwrap();
        core.records(now).any(|record| record.envelope.origin == *origin && record.envelope.kind == kind)
    }

    pub(crate) fn record(&self, now: Now, origin: &NodeName, kind: RecordKind) -> Envelope {
        let core = self.core.as_ref().unwrap();
        let mut records = core.records(now).map(|record| record.envelope);
        records.find(|record| record.origin == *origin && record.kind == kind).unwrap().clone()
    }
}

/// A chunk of `count` degraded paths out of `source`.
pub(crate) fn paths(chunk: u16, source: &NodeName, count: usize) -> PathsRecord {
    let health = PathHealth { state: PathState::DegradedUsable, gfs: 0.3, ..PathHealth::UNKNOWN };
    let path = |index| format!("{source}>d{index}/r0/quic").parse().unwrap();
    PathsRecord { chunk, paths: (0..count).map(|index| ObservedPath { path: path(index), health }).collect() }
}
