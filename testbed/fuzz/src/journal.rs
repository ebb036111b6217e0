//! Journals: bytes that claim to be a segment, and entries in sound frames whose contents are anything.

use std::path::Path;
use std::sync::Once;

use seam::codec;
use seam::core::{Mono, Now};
use seam::health::{self, HealthCore, Sample, SampleKind, SampleOutcome};
use seam::journal::{Entry, Gap, Header, Input, MAX_ENTRY, Part, Snapshot, Taped, Turn, Writer};
use seam::ledger::{self, Ledger};
use seam::mesh::{self, MeshCore, MeshSize};
use seam::model::{NodeName, PathSpec, Profile, builtin_workloads};
use seam::policy::view::Own;
use seam::policy::{self, Policy};
use seam::replay::journal::{Verifier, in_step, segment_items};

/// Items of one segment at most.
const MAX_ITEMS: usize = 4_096;

/// The first byte says whether the rest is a segment as it stands, or entries, each with its length in
/// two bytes, to be put into sound frames. Nothing but a core's turn may panic, every turn is counted
/// once, and what is said of differences is bounded.
pub fn run(data: &[u8]) {
    hush();
    let Some((&choice, rest)) = data.split_first() else { return };
    if choice % 2 == 0 {
        verify(rest);
    } else {
        verify(&framed(rest));
    }
}

fn verify(bytes: &[u8]) {
    let mut verifier = Verifier::new(node(), 1);
    let mut items = 0;
    for item in segment_items(Path::new("fuzz"), bytes, true).take(MAX_ITEMS) {
        items += 1;
        verifier.take(item);
    }
    let life = verifier.finish();
    assert!(items > 0, "not even the head is spoken of");
    for core in &life.cores {
        // A snapshot may differ as well as a turn.
        assert!(core.verified + core.unverifiable() <= core.turns, "{core:?}");
        assert!(core.verified + core.unverifiable() + core.differences >= core.turns, "{core:?}");
        if let Some(difference) = &core.first_difference {
            assert!(difference.to_string().len() < 1 << 17, "an endless difference");
        }
    }
    serde_json::to_string(&life).expect("a report can be written");
}

fn framed(mut rest: &[u8]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &header()).expect("a head");
    while let Some((&length, tail)) = rest.split_first_chunk::<2>() {
        let (entry, tail) = tail.split_at(usize::from(u16::from_le_bytes(length)).min(tail.len()));
        if let Ok(entry) = codec::decode_bare::<Entry>("entry", MAX_ENTRY, entry) {
            writer.append(&entry).expect("what was read can be written");
        }
        rest = tail;
    }
    writer.into_inner()
}

/// A panic of a core that was restored from an impossible state is caught and reported: it is no finding.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !in_step() {
                hook(info);
            }
        }));
    });
}

/// A short life of all four cores: as a segment, and as entries.
pub fn seeds() -> Vec<Vec<u8>> {
    let entries = life();
    let mut writer = Writer::begin(Vec::new(), &header()).expect("a head");
    let mut steps = vec![1];
    for entry in &entries {
        writer.append(entry).expect("small");
        let mut bytes = Vec::new();
        codec::append_bare("entry", MAX_ENTRY, entry, &mut bytes).expect("small");
        steps.extend(u16::try_from(bytes.len()).expect("short").to_le_bytes());
        steps.extend(bytes);
    }
    vec![[&[0], writer.into_inner().as_slice()].concat(), steps]
}

fn life() -> Vec<Entry> {
    let own = Own { node: node(), rails: Vec::new(), model: None, compat: None };
    let mut health = HealthCore::default();
    let mut policy = Policy::new(1, own, policy_settings());
    let mut ledger = Ledger::new(node(), 1, ledger_settings());
    let mut mesh = MeshCore::new(mesh::Settings {
        node: node(),
        cluster: "fuzz".to_owned(),
        ca_der: Vec::new(),
        addr: ([127, 0, 0, 1], 7946).into(),
        generation: 1,
        size: MeshSize::Local,
        seed: 1,
    });
    let path: seam::model::PathId = "n0>d0/r0/quic".parse().expect("a path");
    let spec = PathSpec { id: path.clone(), address: "127.0.0.1:1".into(), bandwidth_gbps: 10.0 };
    let sample = health::Input::Sample(Sample {
        path,
        kind: SampleKind::Probe,
        outcome: SampleOutcome::Ok,
        elapsed_ms: 90.0,
        bytes: 64,
        attempted_bytes: 64,
        inflight_bytes: 0,
        late_ms: 0.0,
        taken: None,
    });
    let now = Now { mono: Mono(7), wall_ms: 9 };
    vec![
        Entry::Snapshot(health.taped_snapshot()),
        Entry::Snapshot(policy.taped_snapshot()),
        Entry::Snapshot(ledger.taped_snapshot()),
        Entry::Snapshot(mesh.taped_snapshot()),
        turn(&mut health, now, health::Input::PathUp(spec)),
        turn(&mut health, now, sample),
        turn(&mut policy, now, policy::Input::Tick),
        turn(&mut ledger, now, ledger::Input::Drain(true)),
        turn(&mut mesh, now, mesh::Input::Tick),
        Entry::Snapshot(health.taped_snapshot()),
        Entry::Snapshot(Snapshot::MeshRunning),
        Entry::Gap(Gap { part: Part::Ledger, lost: 1, since: now, until: now }),
        Entry::Panicked(Input::Policy(policy::Input::Tick), now),
        Entry::Closed(now),
    ]
}

fn turn<C: Taped>(core: &mut C, now: Now, input: C::Input) -> Entry {
    Entry::Turn(Turn::take(core, now, input))
}

fn header() -> Header {
    let opened = Now::default();
    Header { node: node(), generation: 1, segment: 0, build: "0".into(), config_hash: "0".into(), opened }
}

fn node() -> NodeName {
    NodeName::new("n0").expect("a name")
}

fn policy_settings() -> policy::Settings {
    policy::Settings {
        profile: Profile::Mesh,
        thresholds: health::Thresholds::of(Profile::Mesh),
        workloads: builtin_workloads().into_iter().map(Into::into).collect(),
        config_hash: "0".into(),
        mover: seam::model::Mover::Seam,
        max_kv_bytes: 1 << 30,
        lease_ttl_ms: 10_000,
        lease_timeout_ms: 250,
        lease_rounds: 8,
        transfer_budget_ms: 4_000,
        transfer_attempts: 2,
        max_excluded_fraction: 0.5,
        max_requests: 16,
        request_ttl_ms: 60_000,
        max_paths: 16,
    }
}

fn ledger_settings() -> ledger::Settings {
    ledger::Settings {
        max_sessions: 2,
        soft_fraction: 0.75,
        kv_bytes: 1 << 20,
        arena_bytes: Some(1 << 20),
        model: None,
        max_leases: 100,
        max_ttl_ms: 60_000,
        fence_max_ms: 5_000,
        writes_are_gated: true,
        load_interval_ms: 100,
    }
}
