//! Packets, exchanges and records, given to a node that is a member of a mesh.

use std::net::SocketAddr;
use std::sync::LazyLock;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};
use seam::codec::{self, Blob};
use seam::core::{Core, Mono, Now};
use seam::mesh::{
    Aged, Envelope, Input, MAX_MEMBERS, MAX_PACKET, MeshCore, MeshSize, Output, RecordKind, RecordSigner, Settings,
    SyncPush, node_uri,
};
use seam::model::{Generation, NodeName};

const CLUSTER: &str = "fuzz";
const BORN: Generation = 1_800_000_000_000;
const MAX_STEPS: usize = 32;

/// The bytes are steps, each an operation, an argument, a length in two bytes and so many bytes.
/// Whatever arrives, the node sends no packet that is too long, keeps within its bounds and goes
/// on saying what it said of itself.
pub fn run(data: &[u8]) {
    let mut pair = Pair::new();
    pair.meet();
    let mut steps = Steps(data);
    for _ in 0..MAX_STEPS {
        let Some((operation, argument, bytes)) = steps.next() else { return };
        pair.attack(operation, argument, bytes);
    }
}

/// What a healthy member sends in its first moments, each as one step.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut pair = Pair::new();
    pair.meet();
    let load = codec::encode(&crate::codec::load()).expect("small");
    let mut seeds = pair.heard;
    seeds.push(step(6, 1, &[&[9], load.as_slice()].concat()));
    seeds.push(step(7, 0, &[4, 1, 30, 255]));
    seeds.push(step(5, 200, &[]));
    seeds
}

struct Steps<'a>(&'a [u8]);

impl<'a> Iterator for Steps<'a> {
    type Item = (u8, u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[operation, argument, low, high], rest) = self.0.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        self.0 = rest;
        Some((operation, argument, bytes))
    }
}

fn step(operation: u8, argument: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short").to_le_bytes();
    [&[operation, argument], length.as_slice(), bytes].concat()
}

/// A node under test and an honest peer, in virtual time.
struct Pair {
    nodes: [MeshCore; 2],
    now: Now,
    /// What the peer told the node, as steps.
    heard: Vec<Vec<u8>>,
    last_packet: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let nodes = [0, 1].map(|index| {
            MeshCore::new(Settings {
                node: name(index),
                cluster: CLUSTER.to_owned(),
                ca_der: WORLD.authority.clone(),
                addr: addr(index),
                generation: BORN,
                size: MeshSize::Local,
                seed: 1,
            })
        });
        let now = Now { mono: Mono(1_000_000_000), wall_ms: BORN + 1_000 };
        Self { nodes, now, heard: Vec::new(), last_packet: Vec::new() }
    }

    /// Both say who they are, meet, and talk for a while.
    fn meet(&mut self) {
        for index in [0, 1] {
            let certificate = WORLD.members[index].0.clone();
            self.give(index, Input::PublishNode(crate::codec::node_record(name(index), certificate)));
            self.give(index, Input::PublishLoad(crate::codec::load()));
        }
        self.give(0, Input::SeedSeen { node: name(1), addr: addr(1) });
        for _ in 0..6 {
            self.pass(150);
        }
        assert_eq!(self.nodes[0].live_count(), 1, "they have met");
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now { mono: self.now.mono.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
        for index in [0, 1] {
            self.give(index, Input::Tick);
        }
    }

    /// One turn of a node, and all that follows between the two.
    fn give(&mut self, index: usize, input: Input) {
        let mut queue = vec![(index, input)];
        for _ in 0..64 {
            let Some((index, input)) = queue.pop() else { return };
            let mut out = Vec::new();
            self.nodes[index].step(self.now, input, &mut out);
            let (from, other) = (name(index), 1 - index);
            for output in out {
                let input = match output {
                    Output::Packet { to, bytes, .. } if to == name(other) => {
                        self.note(index, 0, &bytes);
                        Input::Packet { from: from.clone(), bytes: Blob(bytes) }
                    }
                    Output::SyncAsk { exchange, to, bytes, .. } if to == name(other) => {
                        self.note(index, 2, &bytes);
                        Input::SyncAsked { exchange, from: from.clone(), bytes: Blob(bytes) }
                    }
                    Output::SyncReply { exchange, bytes } => {
                        self.note(index, 3, &bytes);
                        Input::SyncReplied { exchange, from: from.clone(), bytes: Blob(bytes) }
                    }
                    Output::SyncPush { bytes, .. } => {
                        self.note(index, 4, &bytes);
                        Input::SyncPushed { from: from.clone(), bytes: Blob(bytes) }
                    }
                    Output::Sign { kind, seq, bytes } => {
                        let signature = Blob(WORLD.members[index].1.sign(&bytes));
                        queue.push((index, Input::Signed { kind, seq, signature }));
                        continue;
                    }
                    _ => continue,
                };
                queue.push((other, input));
            }
        }
    }

    fn note(&mut self, from: usize, operation: u8, bytes: &[u8]) {
        if from == 1 {
            self.heard.push(step(operation, 0, bytes));
            if operation == 0 {
                self.last_packet = bytes.to_vec();
            }
        }
    }

    fn attack(&mut self, operation: u8, argument: u8, bytes: &[u8]) {
        let from = name(1);
        let blob = Blob(bytes.to_vec());
        let input = match operation % 8 {
            0 => Input::Packet { from, bytes: blob },
            1 => Input::Packet { from: name(usize::from(argument)), bytes: blob },
            2 => Input::SyncAsked { exchange: u64::from(argument), from, bytes: blob },
            3 => Input::SyncReplied { exchange: u64::from(argument), from, bytes: blob },
            4 => Input::SyncPushed { from, bytes: blob },
            5 => {
                let ms = u64::from(argument) * 50;
                self.now = Now { mono: self.now.mono.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
                Input::Tick
            }
            6 => match signed(argument, bytes) {
                Some(bytes) => Input::SyncPushed { from, bytes },
                None => return,
            },
            _ => {
                let mut packet = self.last_packet.clone();
                for change in bytes.chunks_exact(2) {
                    if let Some(byte) = packet.get_mut(usize::from(change[0])) {
                        *byte ^= change[1];
                    }
                }
                Input::Packet { from, bytes: Blob(packet) }
            }
        };
        let mut out = Vec::new();
        self.nodes[0].step(self.now, input, &mut out);
        while let Some(output) = out.pop() {
            match output {
                Output::Packet { bytes, .. } => assert!(bytes.len() <= MAX_PACKET, "a packet of {}", bytes.len()),
                Output::Sign { kind, seq, bytes } => {
                    let signature = Blob(WORLD.members[0].1.sign(&bytes));
                    self.nodes[0].step(self.now, Input::Signed { kind, seq, signature }, &mut out);
                }
                _ => {}
            }
        }
        self.check();
    }

    fn check(&self) {
        let node = &self.nodes[0];
        assert!(node.members().count() <= MAX_MEMBERS);
        assert_eq!(node.identity().name, name(0));
        assert!(node.node_record(&name(0)).is_some(), "its own record is gone");
        assert!(node.deadline().is_some(), "it has nothing more to do");
        for record in node.records(self.now) {
            codec::encode(record.envelope).expect("a record that is kept can be sent");
        }
    }
}

/// A push of a record that the peer has signed: what it says is the attacker's choice.
fn signed(kind: u8, bytes: &[u8]) -> Option<Blob> {
    let (&seq, body) = bytes.split_first()?;
    let kind = match kind % 4 {
        0 => RecordKind::Node,
        1 => RecordKind::Load,
        _ => RecordKind::Paths(u16::from(kind)),
    };
    let mut envelope = Envelope {
        origin: name(1),
        kind,
        generation: BORN,
        seq: u64::from(seq),
        ttl_ms: 60_000,
        body: Blob(body.to_vec()),
        signature: Blob::default(),
    };
    envelope.signature = Blob(WORLD.members[1].1.sign(&envelope.signed_bytes(CLUSTER).ok()?));
    codec::encode(&SyncPush { records: vec![Aged { age_ms: 0, envelope }] }).ok().map(Blob)
}

/// Who may speak: made once, for making keys is slow.
struct World {
    authority: Vec<u8>,
    members: [(Vec<u8>, RecordSigner); 2],
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("a certificate").der().to_vec();
    let issuer = Issuer::new(params, key);
    let members = [0, 1].map(|index| {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let mut params = CertificateParams::default();
        let uri = node_uri(CLUSTER, &name(index));
        params.subject_alt_names = vec![SanType::URI(uri.try_into().expect("a URI"))];
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").der().to_vec();
        (certificate, RecordSigner::from_pkcs8(&key.serialize_der()).expect("a key that signs"))
    });
    World { authority, members }
});

fn name(index: usize) -> NodeName {
    NodeName::new(&format!("n{index}")).expect("a name")
}

fn addr(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(index).unwrap_or(u8::MAX)], 7946))
}
