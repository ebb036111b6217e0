//! What the journal costs whoever owns a core, for one turn, and how many turns a second its writer
//! writes.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program, not a library"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group};
use seam::agent::journal::{Journal, Recorded, Settings, Turn, prepare};
use seam::config::JournalConfig;
use seam::core::{Core, Mono, Now};
use seam::health::{self, HealthCore, Sample, SampleKind, SampleOutcome, Thresholds};
use seam::metrics::Metrics;
use seam::model::{BackendKind, LoadRecord, Mover, NodeRecord, PathSpec, Profile, RailRecord, Role, builtin_workloads};
use seam::policy::view::Own;
use seam::policy::{self, Policy};
use tempfile::TempDir;

/// Turns that fit the queue, with room to spare.
const BATCH: u64 = 8_000;
const HOSTS: usize = 8;
const LIMIT: Duration = Duration::from_secs(60);

fn journal() -> (TempDir, Arc<Metrics>, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let config = JournalConfig {
        dir: dir.path().join("journal"),
        segment_size: 64 << 20,
        max_age: Duration::from_secs(3600),
        fsync: Duration::from_secs(1),
        retain: 256 << 20,
    };
    let metrics = Arc::new(Metrics::new("mesh", 8));
    let settings = Settings {
        node: "p0".parse().unwrap(),
        journal: Some(config),
        records: None,
        config_hash: Box::new(|| "0".repeat(16)),
    };
    let journal = prepare(settings, metrics.clone()).unwrap().unwrap().begin(1).unwrap();
    (dir, metrics, journal)
}

fn now(turn: u64) -> Now {
    Now { mono: Mono(turn * 1_000), wall_ms: 1_796_000_000_000 }
}

/// A core, one of its turns, and what came of that.
struct Taken<C: Core> {
    core: C,
    input: C::Input,
    outputs: Vec<C::Output>,
}

impl<C: Core> Taken<C> {
    fn new(mut core: C, input: C::Input) -> Self {
        let mut outputs = Vec::new();
        core.step(now(1), input.clone(), &mut outputs);
        assert!(!outputs.is_empty());
        Self { core, input, outputs }
    }
}

/// A sample of one of eight paths, with its report.
fn sampled() -> Taken<HealthCore> {
    let mut core = HealthCore::default();
    let path = |host: usize| format!("p0>d{host}/r0/quic").parse().unwrap();
    for host in 0..HOSTS {
        let spec = PathSpec { id: path(host), address: "127.0.0.1:1".into(), bandwidth_gbps: 100.0 };
        core.step(now(0), health::Input::PathUp(spec), &mut Vec::new());
    }
    let sample = Sample {
        path: path(3),
        kind: SampleKind::Probe,
        outcome: SampleOutcome::Ok,
        elapsed_ms: 0.3,
        bytes: 4096,
        attempted_bytes: 4096,
        inflight_bytes: 0,
        late_ms: 0.1,
        taken: None,
    };
    Taken::new(core, health::Input::Sample(sample))
}

/// A request that finds eight decode hosts and asks the best.
fn routed() -> Taken<Policy> {
    let rail = |address: &str| RailRecord {
        name: "r0".parse().unwrap(),
        group: "default".parse().unwrap(),
        backend: BackendKind::Quic,
        address: address.into(),
        bandwidth_gbps: 100.0,
    };
    let own = Own { node: "p0".parse().unwrap(), rails: vec![rail("127.0.0.1:1")], model: None, compat: None };
    let mut policy = Policy::new(1, own, settings());
    let mut out = Vec::new();
    for host in 0..HOSTS {
        let node: seam::model::NodeName = format!("d{host}").parse().unwrap();
        let record = NodeRecord {
            node: node.clone(),
            roles: vec![Role::Decode],
            pool: Some(format!("pool-{host}").parse().unwrap()),
            model: None,
            compat: None,
            risk_group: None,
            rails: vec![rail("127.0.0.1:2")],
            certificate: vec![0; 600],
        };
        policy.step(now(0), policy::Input::Peer { generation: 1, record: Arc::new(record) }, &mut out);
        let record = LoadRecord {
            revision: 1,
            active_sessions: 1,
            max_sessions: 8,
            soft_fraction: 0.75,
            kv_bytes_free: 1 << 30,
            inbound_bytes: 0,
            token_time_ms: None,
            draining: false,
        };
        policy.step(now(0), policy::Input::Load { node, generation: 1, record }, &mut out);
    }
    let request = serde_json::from_str(r#"{"workload": "interactive", "kv_bytes": 1048576}"#).unwrap();
    let request_id = "p0.1796000000000.1".parse().unwrap();
    let taken = Taken::new(policy, policy::Input::Route { key: 1, request_id, request, traceparent: None });
    assert!(matches!(taken.outputs[..], [policy::Output::Ask { .. }]), "{:?}", taken.outputs);
    taken
}

fn settings() -> policy::Settings {
    policy::Settings {
        profile: Profile::Reference,
        thresholds: Thresholds::of(Profile::Reference),
        workloads: builtin_workloads().into_iter().map(Arc::new).collect(),
        config_hash: "0".repeat(16).into(),
        mover: Mover::Seam,
        max_kv_bytes: 1 << 30,
        lease_ttl_ms: 10_000,
        lease_timeout_ms: 250,
        lease_rounds: 8,
        transfer_budget_ms: 5_000,
        transfer_attempts: 3,
        max_excluded_fraction: 0.5,
        max_requests: 65_536,
        request_ttl_ms: 600_000,
        max_paths: 4_096,
    }
}

/// Records a turn `count` times, at most [`BATCH`] at once, and says how long the sender took. The
/// queue is empty before each batch.
fn send<C: Recorded>(journal: &Journal, taken: &Taken<C>, count: u64) -> Duration {
    let mut tape = journal.tape::<C>();
    let (mut took, mut left) = (Duration::ZERO, count);
    while left > 0 {
        let batch = left.min(BATCH);
        let start = Instant::now();
        for turn in 0..batch {
            Turn::begin(&mut tape, &taken.core, now(turn), &taken.input).end(&taken.outputs);
        }
        took += start.elapsed();
        assert!(journal.flush(LIMIT));
        left -= batch;
    }
    took
}

fn sender(criterion: &mut Criterion) {
    let (_dir, metrics, journal) = journal();
    let mut group = criterion.benchmark_group("journal/sender");
    let (sampled, routed) = (sampled(), routed());
    group.bench_function("health sample", |bencher| bencher.iter_custom(|count| send(&journal, &sampled, count)));
    group.bench_function("policy route", |bencher| bencher.iter_custom(|count| send(&journal, &routed, count)));
    group.finish();
    assert!(!metrics.render().contains("seam_queue_dropped_total{"), "a turn was lost: the figures are too good");
}

/// Turns a second that the writer writes: the time for a large batch over that for a small one, so
/// that its polling and its waiting for the disk do not count.
fn writer<C: Recorded>(name: &str, taken: &Taken<C>) {
    const ROUNDS: usize = 15;
    let (_dir, _metrics, journal) = journal();
    let time = |count| {
        let start = Instant::now();
        send(&journal, taken, count);
        start.elapsed().as_secs_f64()
    };
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (small, large) = (500, BATCH);
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (time(small), time(large))).collect();
    let (short, long) = (median(rounds.iter().map(|r| r.0).collect()), median(rounds.iter().map(|r| r.1).collect()));
    let a_second = (large - small) as f64 / (long - short);
    println!("journal/writer/{name}: {a_second:.0} turns a second ({:.1} ms for {large})", long * 1e3);
}

criterion_group!(benches, sender);

fn main() {
    benches();
    writer("health sample", &sampled());
    writer("policy route", &routed());
    Criterion::default().configure_from_args().final_summary();
}
