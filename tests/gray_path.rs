//! One directed path turns gray and clears again, in virtual time: the health and policy cores fed
//! with what the fault modes draw, over many seeds.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use seam::api::RouteRequest;
use seam::core::{Core, Mono, Now};
use seam::health::{self, HealthCore, Sample, SampleKind, SampleOutcome, Thresholds};
use seam::model::Profile;
use seam::model::{
    BackendKind, LoadRecord, Mover, NodeName, NodeRecord, PathId, PathState, RailRecord, Role, builtin_workloads,
};
use seam::policy::view::Own;
use seam::policy::{self, Policy};
use seam::transport::mock::{Fault, FaultMode, Faults};

const SEEDS: u64 = 200;
const HOSTS: [&str; 3] = ["d0", "d1", "d2"];

/// A prefill host with a path to each decode host, without anything that does I/O.
struct Bench {
    now: Now,
    health: HealthCore,
    policy: Policy,
    rng: ChaCha8Rng,
    /// What `p0>d0` went through since it was last forgotten.
    transitions: Vec<PathState>,
    /// Windows of `p0>d0` that counted as bad since it turned gray.
    bad_windows: u32,
}

fn path(host: &str) -> PathId {
    format!("p0>{host}/r0/mock").parse().unwrap()
}

fn rail() -> RailRecord {
    RailRecord {
        name: "r0".parse().unwrap(),
        group: "default".parse().unwrap(),
        backend: BackendKind::Mock,
        address: "127.0.0.1:1".to_owned(),
        bandwidth_gbps: 100.0,
    }
}

impl Bench {
    fn new(profile: Profile, seed: u64) -> Self {
        let own = Own { node: "p0".parse().unwrap(), rails: vec![rail()], model: None, compat: None };
        let settings = policy::Settings {
            profile: Profile::Reference,
            thresholds: Thresholds::default(),
            workloads: builtin_workloads().into_iter().map(Arc::new).collect(),
            config_hash: "0".into(),
            mover: Mover::Seam,
            max_kv_bytes: 1 << 30,
            lease_ttl_ms: 10_000,
            lease_timeout_ms: 250,
            lease_rounds: 8,
            transfer_budget_ms: 5_000,
            transfer_attempts: 3,
            max_excluded_fraction: 0.5,
            max_requests: 100,
            request_ttl_ms: 60_000,
            max_paths: 100,
        };
        let mut bench = Self {
            now: Now { mono: Mono(1), wall_ms: 1 },
            health: HealthCore::default(),
            policy: Policy::new(1, own, settings),
            rng: ChaCha8Rng::seed_from_u64(seed),
            transitions: Vec::new(),
            bad_windows: 0,
        };
        let settings = health::Settings { profile, ..health::Settings::default() };
        bench.health.step(bench.now, health::Input::Configure(settings), &mut Vec::new());
        for host in HOSTS {
            bench.join(host);
        }
        bench
    }

    fn join(&mut self, host: &str) {
        let node: NodeName = host.parse().unwrap();
        let record = NodeRecord {
            node: node.clone(),
            roles: vec![Role::Decode],
            pool: Some(format!("pool-{host}").parse().unwrap()),
            model: None,
            compat: None,
            risk_group: None,
            rails: vec![rail()],
            certificate: Vec::new(),
        };
        let load = LoadRecord {
            revision: 1,
            active_sessions: 1,
            max_sessions: 8,
            soft_fraction: 0.75,
            kv_bytes_free: 1 << 30,
            inbound_bytes: 0,
            token_time_ms: None,
            draining: false,
        };
        let mut out = Vec::new();
        self.policy.step(self.now, policy::Input::Peer { generation: 1, record: Arc::new(record) }, &mut out);
        self.policy.step(self.now, policy::Input::Load { node, generation: 1, record: load }, &mut out);
        let spec = self.policy.view().spec(&path(host)).unwrap().clone();
        self.health.step(self.now, health::Input::PathUp(spec), &mut Vec::new());
    }

    /// One probe of every path, `p0>d0` in the given mode, the others clean.
    fn round(&mut self, mode: FaultMode) {
        self.now = Now { mono: self.now.mono.plus_ms(50), wall_ms: self.now.wall_ms + 50 };
        for host in HOSTS {
            let faults = match (host, mode) {
                ("d0", FaultMode::Jitter) => Faults { base_ms: 7.0, ..Faults::new(mode) },
                _ => Faults::new(FaultMode::Clean),
            };
            let Fault::Delay(delay) = faults.sample(4096, &mut self.rng) else { panic!("{mode} loses nothing") };
            let sample = Sample {
                path: path(host),
                kind: SampleKind::Probe,
                outcome: SampleOutcome::Ok,
                elapsed_ms: delay.as_secs_f64() * 1000.0,
                bytes: 4096,
                attempted_bytes: 4096,
                inflight_bytes: 0,
                late_ms: 0.0,
                taken: None,
            };
            let mut out = Vec::new();
            self.health.step(self.now, health::Input::Sample(sample), &mut out);
            for output in out {
                match output {
                    health::Output::Report(report) => {
                        self.bad_windows += u32::from(host == "d0" && report.health.gfs > 0.18);
                        self.policy.step(self.now, policy::Input::Report(report), &mut Vec::new());
                    }
                    health::Output::Transition { to, .. } => {
                        assert_eq!(host, "d0", "only the gray path leaves HEALTHY");
                        self.transitions.push(to);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn state(&self) -> PathState {
        self.policy.view().paths(self.now).find(|line| line.spec.id == path("d0")).unwrap().health.state
    }

    /// Where a request of a class would go now.
    fn goes(&mut self, class: &str) -> String {
        let request = RouteRequest {
            workload: class.parse().unwrap(),
            kv_bytes: 1 << 20,
            request_id: None,
            model: None,
            source: None,
            exclude: Vec::new(),
            transfer_budget_ms: None,
            dry_run: true,
        };
        let route = policy::Input::Route { key: 1, request_id: "r".parse().unwrap(), request, traceparent: None };
        let mut out = Vec::new();
        self.policy.step(self.now, route, &mut out);
        let record = out.into_iter().find_map(|o| match o {
            policy::Output::Answer { result, .. } => Some(result.unwrap()),
            _ => None,
        });
        record.unwrap().chosen.clone().unwrap().node.unwrap().as_str().to_owned()
    }
}

#[test]
fn strict_work_leaves_a_jittery_path_in_time_batch_keeps_it_and_it_returns_without_flapping() {
    turns_gray_and_clears(Profile::Reference);
}

#[test]
fn the_same_holds_under_the_health_rules_of_the_mesh_profile() {
    turns_gray_and_clears(Profile::Mesh);
}

fn turns_gray_and_clears(profile: Profile) {
    let persistence = Thresholds::default().persistence_to_escalate;
    let (mut kept, mut unlucky) = (0, 0);
    for seed in 0..SEEDS {
        let mut bench = Bench::new(profile, seed);
        for _ in 0..20 {
            bench.round(FaultMode::Clean);
        }
        assert_eq!(bench.transitions, [], "seed {seed}: a clean path is healthy");

        bench.bad_windows = 0;
        for _ in 0..40 {
            bench.round(FaultMode::Jitter);
            if bench.bad_windows > persistence {
                for class in ["interactive", "release"] {
                    assert_ne!(bench.goes(class), "d0", "seed {seed}, {class} after {} bad", bench.bad_windows);
                }
                match bench.state() {
                    PathState::DegradedUsable | PathState::DegradedRestricted | PathState::Restored => {
                        assert_eq!(bench.goes("batch"), "d0", "seed {seed}: it still works for those who bear it");
                        kept += 1;
                    }
                    // A window of unlucky draws: a few in a thousand.
                    PathState::QuarantineCandidate | PathState::Quarantined => {
                        assert_ne!(bench.goes("batch"), "d0", "seed {seed}");
                        unlucky += 1;
                    }
                    PathState::Healthy => panic!("seed {seed}: it looks healthy while it is gray"),
                }
            }
        }
        assert!(bench.bad_windows > persistence, "seed {seed}: jitter at 7 ms is seen");

        bench.transitions.clear();
        for _ in 0..60 {
            bench.round(FaultMode::Clean);
        }
        let ups = |state| bench.transitions.iter().filter(|to| **to == state).count();
        let (restored, healthy) = (ups(PathState::Restored), ups(PathState::Healthy));
        assert_eq!((restored, healthy), (1, 1), "seed {seed}: {:?}", bench.transitions);
        assert!(bench.transitions.ends_with(&[PathState::Restored, PathState::Healthy]), "seed {seed}");
    }
    assert!(unlucky * 20 < kept, "{unlucky} of {kept} windows");
}
