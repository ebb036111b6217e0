//! A long life of a node, as its agent would have written it: always the same.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};
use seam::core::{Core, Now};
use seam::health::HealthCore;
use seam::journal::{Entry, Header, Input, Part, Snapshot, Taped, Turn, Writer, segment_name};
use seam::ledger::Ledger;
use seam::mesh::{MeshCore, MeshSize, RecordSigner, node_uri};
use seam::model::NodeName;
use seam::policy::Policy;
use seam::sim::{Action, Arrivals, Fault, Gossip, Key, START_MS, Settings, Tapes, World};

const PREFILL: usize = 2;
const DECODE: usize = 4;
const GENERATION: u64 = START_MS;
const SEGMENT_BYTES: u64 = 64 << 20;
/// So much of the life is simulated at once.
const STEP_MS: u64 = 10_000;
/// A path is gray for the second half of each of these.
const EPISODE_MS: u64 = 60_000;

/// Writes a life of so many turns, and says in words what that is.
pub(crate) fn write(dir: &Path, turns: usize) -> String {
    let settings = settings();
    let fresh = World::new(settings.clone()).unwrap();
    let (mut cores, tape) = (Cores::of(&fresh), tape(&settings, turns));
    let mut counts = [0; 4];
    let mut segment = 0;
    let mut writer = begin(dir, segment, START_NOW, &cores);
    for (now, input) in tape {
        if writer.written() >= SEGMENT_BYTES {
            segment += 1;
            writer = begin(dir, segment, now, &cores);
        }
        counts[input.part() as usize] += 1;
        writer.append(&Entry::Turn(cores.turn(now, input))).unwrap();
    }
    writer.into_inner().into_inner().unwrap();
    let bytes: u64 = dir.read_dir().unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let by_core: Vec<String> = Part::ALL.iter().map(|part| format!("{part} {}", counts[*part as usize])).collect();
    format!("{}; {bytes} bytes in {} segments", by_core.join(", "), segment + 1)
}

const START_NOW: Now = Now { mono: seam::core::Mono(0), wall_ms: START_MS };

/// The four cores of the node: a prefill host's, and a decode host's ledger.
struct Cores {
    health: HealthCore,
    policy: Policy,
    ledger: Ledger,
    mesh: MeshCore,
}

impl Cores {
    /// As they are before they are told anything.
    fn of(fresh: &World) -> Self {
        Self {
            health: HealthCore::default(),
            policy: Policy::restore(fresh.policy(fresh.prefill(0)).unwrap().snapshot()),
            ledger: Ledger::restore(fresh.ledger(fresh.decode(0)).unwrap().snapshot()),
            mesh: MeshCore::restore(fresh.mesh(fresh.prefill(0)).unwrap().snapshot()),
        }
    }

    fn turn(&mut self, now: Now, input: Input) -> Turn {
        match input {
            Input::Health(input) => Turn::take(&mut self.health, now, input),
            Input::Policy(input) => Turn::take(&mut self.policy, now, input),
            Input::Ledger(input) => Turn::take(&mut self.ledger, now, input),
            Input::Mesh(input) => Turn::take(&mut self.mesh, now, input),
        }
    }

    fn snapshots(&self) -> [Snapshot; 4] {
        [
            self.health.taped_snapshot(),
            self.policy.taped_snapshot(),
            self.ledger.taped_snapshot(),
            self.mesh.taped_snapshot(),
        ]
    }
}

/// Opens a segment with the snapshots of the cores.
fn begin(dir: &Path, segment: u64, opened: Now, cores: &Cores) -> Writer<BufWriter<File>> {
    let node: NodeName = "n0".parse().unwrap();
    let file = File::create_new(dir.join(segment_name(&node, GENERATION, segment))).unwrap();
    let (build, config_hash) = (env!("CARGO_PKG_VERSION").to_owned(), "0".repeat(16));
    let header = Header { node, generation: GENERATION, segment, build, config_hash, opened };
    let mut writer = Writer::begin(BufWriter::new(file), &header).unwrap();
    for snapshot in cores.snapshots() {
        writer.append(&Entry::Snapshot(snapshot)).unwrap();
    }
    writer
}

/// What the cores are told, in the order of time: from two runs of one seed, since no host is both.
fn tape(settings: &Settings, turns: usize) -> Vec<(Now, Input)> {
    let world = |taped: &str| World::new(Settings { taped: Some(taped.to_owned()), ..settings.clone() }).unwrap();
    let (mut source, mut target) = (world("p0"), world("d0"));
    let told = |source: &Tapes, target: &Tapes| {
        source.health.inputs.len() + source.policy.inputs.len() + source.mesh.inputs.len() + target.ledger.inputs.len()
    };
    while told(source.tapes().unwrap(), target.tapes().unwrap()) < turns {
        for world in [&mut source, &mut target] {
            turn_gray(world);
            world.run(STEP_MS);
        }
    }
    let (own, ledger) = (source.tapes().unwrap(), &target.tapes().unwrap().ledger);
    let mut tape: Vec<(Now, Input)> = Vec::new();
    tape.extend(own.health.inputs.iter().map(|(now, input)| (*now, Input::Health(input.clone()))));
    tape.extend(own.policy.inputs.iter().map(|(now, input)| (*now, Input::Policy(input.clone()))));
    tape.extend(own.mesh.inputs.iter().map(|(now, input)| (*now, Input::Mesh(input.clone()))));
    tape.extend(ledger.inputs.iter().map(|(now, input)| (*now, Input::Ledger(input.clone()))));
    tape.sort_by_key(|(now, _)| now.mono);
    tape.truncate(turns);
    tape
}

fn turn_gray(world: &mut World) {
    let (path, at) = (world.path(world.prefill(0), world.decode(0)).unwrap(), world.now_ms() % EPISODE_MS);
    if at == EPISODE_MS / 2 {
        world.act(Action::Fault { path, fault: Some(Fault::Jitter { base_ms: 9.0 }) });
    } else if at == 0 {
        world.act(Action::Fault { path, fault: None });
    }
}

fn settings() -> Settings {
    let classes = [("batch", 45.0), ("interactive", 40.0), ("release", 15.0)];
    let arrivals = Arrivals {
        per_s: 50.0,
        classes: classes.map(|(name, weight)| (name.parse().unwrap(), weight)).to_vec(),
        median_bytes: 16 << 20,
        sigma: 0.5,
        limits_bytes: (64 * 1024, 128 << 20),
        until_ms: u64::MAX,
    };
    let base = Settings::new(1, PREFILL, DECODE);
    let ledger = seam::ledger::Settings { max_sessions: 64, ..base.ledger.clone() };
    Settings { arrivals: Some(arrivals), ledger, session_ms: 1_000.0, gossip: gossip(), ..base }
}

/// The real mesh, with certificates of one authority.
fn gossip() -> Gossip {
    let cluster = "bench".to_owned();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = key(0);
    let ca_der = params.self_signed(&authority).unwrap().der().to_vec();
    let issuer = Issuer::new(params, authority);
    let names = (0..PREFILL).map(|i| format!("p{i}")).chain((0..DECODE).map(|i| format!("d{i}")));
    let keys = names.zip(1..).map(|(name, number)| {
        let key = key(number);
        let uri = node_uri(&cluster, &NodeName::new(&name).unwrap());
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        let certificate = params.signed_by(&key, &issuer).unwrap().der().to_vec();
        Key { certificate, signer: Arc::new(RecordSigner::from_pkcs8(&key.serialize_der()).unwrap()) }
    });
    Gossip::Cores { size: MeshSize::Local, keys: keys.collect(), cluster, ca_der }
}

/// A key that is always the same: PKCS #8 of Ed25519 (RFC 8410) around 32 equal bytes.
fn key(number: u8) -> KeyPair {
    const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let der = [HEAD.as_slice(), &[number; 32]].concat();
    KeyPair::from_pkcs8_der_and_sign_algo(&der.as_slice().into(), &PKCS_ED25519).unwrap()
}
