//! What a run is made of.

use std::sync::Arc;

use super::arrivals::Arrivals;
use crate::health::{self, Thresholds};
use crate::mesh::{MeshSize, RecordSigner};
use crate::model::{Mover, Profile, builtin_workloads};
use crate::policy::decide::MAX_EXCLUDED_FRACTION;
use crate::{ledger, policy};

/// What a run is made of. Prefill hosts are named `p0`, `p1`, …, decode hosts `d0`, `d1`, ….
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seeds every random choice.
    pub seed: u64,
    /// Prefill hosts, 0 to 1,000.
    pub prefill: usize,
    /// Decode hosts, 0 to 1,000.
    pub decode: usize,
    /// Rails of each host, 1 to 16.
    pub rails: usize,
    /// Bandwidth of each rail in gigabits per second, above 0.
    pub bandwidth_gbps: f64,
    /// The network between any two hosts.
    pub link: Link,
    /// How paths are probed.
    pub probing: Probing,
    /// How nodes hear of one another.
    pub gossip: Gossip,
    /// What each health core is configured with.
    pub health: health::Settings,
    /// What each policy is configured with.
    pub policy: policy::Settings,
    /// What each ledger is configured with.
    pub ledger: ledger::Settings,
    /// How long a session lasts on the decode host on average, in milliseconds (exponential).
    pub session_ms: f64,
    /// Every this many milliseconds the decode engines report their sessions; none where the
    /// configured capacity holds and an engine restarts with its agent.
    pub engine_word_ms: Option<u64>,
    /// The stream of requests; none where a scenario asks by itself.
    pub arrivals: Option<Arrivals>,
    /// A stream whose sender died breaks off at the receiver after this long, in milliseconds.
    pub idle_ms: u64,
    /// Keep every input of every core of this node: `p0`, say.
    pub taped: Option<String>,
}

/// The network between any two hosts, one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// At least this long, in milliseconds.
    pub latency_ms: f64,
    /// And up to this much more, evenly drawn, in milliseconds.
    pub jitter_ms: f64,
    /// The share of datagrams that is lost, 0 to 1. Streams send again.
    pub loss: f64,
}

/// How paths are probed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probing {
    /// Between two probes of a path, in milliseconds, a fifth more or less.
    pub interval_ms: u64,
    /// Bytes of a probe.
    pub payload_bytes: u64,
    /// Between two bulk probes of a path, in milliseconds, a fifth more or less; none for no bulk.
    pub bulk_interval_ms: Option<u64>,
    /// Bytes of a bulk probe, less on a slow rail.
    pub bulk_bytes: u64,
}

/// How nodes hear of one another.
#[derive(Clone, Debug)]
pub enum Gossip {
    /// Each record reaches every other node after a drawn delay. A node that cannot be reached, not
    /// even over one other, is gone after a fixed time. Cheap: for scenarios of the policy.
    Direct {
        /// The shortest and the longest delay of a record, in milliseconds.
        delay_ms: (u64, u64),
        /// Unreachable for this long means gone, in milliseconds.
        down_after_ms: u64,
    },
    /// The real mesh cores: packets, exchanges, signatures.
    Cores {
        /// How fast the mesh beats.
        size: MeshSize,
        /// The cluster's name, as in the certificates.
        cluster: String,
        /// The authority's certificate, DER.
        ca_der: Vec<u8>,
        /// One for each node, prefill hosts first.
        keys: Vec<Key>,
    },
}

/// What proves a node's records.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub signer: Arc<RecordSigner>,
}

impl Settings {
    /// A mesh of `prefill` and `decode` hosts with the agent's own defaults: one rail of 100 Gb/s,
    /// decode hosts of 8 sessions and 4 GiB, direct gossip.
    #[must_use]
    pub fn new(seed: u64, prefill: usize, decode: usize) -> Self {
        let thresholds = Thresholds::of(Profile::Mesh);
        Self {
            seed,
            prefill,
            decode,
            rails: 1,
            bandwidth_gbps: 100.0,
            link: Link { latency_ms: 0.1, jitter_ms: 0.1, loss: 0.0 },
            probing: Probing {
                interval_ms: 500,
                payload_bytes: 4096,
                bulk_interval_ms: Some(10_000),
                bulk_bytes: 8 << 20,
            },
            gossip: Gossip::Direct { delay_ms: (100, 300), down_after_ms: 5_000 },
            health: health::Settings {
                profile: Profile::Mesh,
                thresholds: thresholds.clone(),
                max_late_ms: 5.0,
                max_paths: 4096,
                canary_bytes: 8 << 20,
            },
            policy: policy::Settings {
                profile: Profile::Mesh,
                thresholds,
                workloads: builtin_workloads().into_iter().map(Arc::new).collect(),
                config_hash: "sim".into(),
                mover: Mover::Seam,
                max_kv_bytes: 4 << 30,
                lease_ttl_ms: 10_000,
                lease_timeout_ms: 250,
                lease_rounds: 8,
                transfer_budget_ms: 5_000,
                transfer_attempts: 3,
                max_excluded_fraction: MAX_EXCLUDED_FRACTION,
                max_requests: 65_536,
                request_ttl_ms: 600_000,
                max_paths: 4096,
            },
            ledger: ledger::Settings {
                max_sessions: 8,
                soft_fraction: 0.75,
                kv_bytes: 4 << 30,
                arena_bytes: Some(4 << 30),
                model: None,
                max_leases: 65_536,
                max_ttl_ms: 600_000,
                fence_max_ms: 30_000,
                writes_are_gated: true,
                load_interval_ms: 100,
            },
            session_ms: 2_000.0,
            engine_word_ms: None,
            arrivals: None,
            idle_ms: 5_000,
            taped: None,
        }
    }
}
