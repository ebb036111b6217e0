//! One struct a section. A missing key takes the default named here; a section without a default
//! is off.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{duration, size};
use crate::health::Thresholds;
use crate::mesh::MeshSize;
use crate::model::Profile;
use crate::model::{
    BackendKind, Mode, ModelName, Mover, NodeName, OnNoAdmissible, PoolName, RailName, RiskGroup, Role, Workload,
    WorkloadName,
};
use crate::transport::mock::Faults;
use crate::transport::nixl::NixlConfig;
use crate::transport::ucx::UcxConfig;

/// `[node]`: who this agent is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its name, unique in the cluster.
    pub name: NodeName,
    /// The cluster, a name like a node's.
    #[serde(default = "default_cluster")]
    pub cluster: String,
    /// What it does; at least one.
    pub roles: Vec<Role>,
    /// Where it keeps its generation and its own credentials.
    #[serde(default = "default_data_dir")]
    pub data_dir: PathBuf,
    /// The model that its engine serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// Nodes of unequal tags never pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<ModelName>,
}

/// `[mesh]`: how agents find and watch each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeshConfig {
    /// Where it listens (UDP). Port 0 takes a free one.
    pub bind: SocketAddr,
    /// What others are told instead of `bind`; needed when that is unspecified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<SocketAddr>,
    /// Members to join through, `host:port`; without a port 7981 is meant, an IPv6 address with one
    /// needs brackets. None: this node waits to be joined.
    pub seeds: Vec<String>,
    /// How patient membership is.
    pub size: MeshSize,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 7981)),
            advertise: None,
            seeds: Vec::new(),
            size: MeshSize::default(),
        }
    }
}

/// `[tls]`: the mutual authentication of agents: three files, or `dev`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The CA's certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// This node's certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// A throw-away CA instead of the three files.
    pub dev: bool,
    /// Where that CA lives; agents that shall trust each other name the same folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev_dir: Option<PathBuf>,
    /// Allow `dev` beyond loopback.
    pub allow_insecure_dev: bool,
}

/// `[api]`: the HTTP API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// Where it listens (TCP). Port 0 takes a free one.
    pub bind: SocketAddr,
    /// A Unix socket beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// A file with the bearer token; needed when `bind` is not loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// HTTPS instead of HTTP on `bind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ApiTls>,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self { bind: SocketAddr::from(([127, 0, 0, 1], 7980)), socket: None, token_file: None, tls: None }
    }
}

/// `api.tls`: the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTls {
    /// The certificate chain, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

/// `[decode]`: what this decode host offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeConfig {
    /// The resource group that it belongs to.
    pub pool: PoolName,
    /// Sessions that fit.
    pub max_sessions: u32,
    /// The share of `max_sessions` from which it counts as soft saturated, in (0, 1].
    #[serde(default = "default_soft_fraction")]
    pub soft_fraction: f64,
    /// KV bytes that may be leased.
    #[serde(with = "size")]
    pub kv_bytes: u64,
    /// Hosts that fail together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_group: Option<RiskGroup>,
    /// Where the engine's own word on its capacity comes from.
    #[serde(default)]
    pub engine: EngineConfig,
}

/// `decode.engine`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// How it is asked.
    pub kind: EngineKind,
    /// Where; for the kinds that are asked over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Where a decode engine's own word comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Nowhere: the leases are the sessions.
    Static,
    /// The engine reports with `PUT /v1/capacity`.
    #[default]
    Api,
    /// vLLM's metrics.
    Vllm,
    /// SGLang's metrics.
    Sglang,
}

/// `[[rails]]`: one network attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailConfig {
    /// Its name, unique on this host.
    pub name: RailName,
    /// Rails pair within one group.
    #[serde(default = "default_rail_group")]
    pub group: RailName,
    /// What moves bytes on it.
    #[serde(default = "default_backend")]
    pub backend: BackendKind,
    /// Where it listens (UDP), a concrete address. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Its bandwidth in gigabits per second.
    #[serde(default = "default_bandwidth_gbps")]
    pub bandwidth_gbps: f64,
    /// Let the kernel or the network card cut up batches of datagrams, where they can, which is up
    /// to four times as fast; `false` for one that does it wrong. Loopback does without.
    #[serde(default = "yes")]
    pub segmentation_offload: bool,
    /// Allow faults on a backend other than `mock`.
    #[serde(default)]
    pub allow_faults: bool,
    /// Faults from the start on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Where NIXL is and how it moves bytes, on a rail of that backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nixl: Option<NixlConfig>,
    /// Where UCX is and how it moves bytes, on a rail of that backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ucx: Option<UcxConfig>,
}

/// `[probe]`: how paths are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeConfig {
    /// How often an active path is probed, on average.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// How many bytes a probe carries.
    #[serde(with = "size")]
    pub payload: u64,
    /// Probes per second at most, all paths together.
    pub budget_per_s: u32,
    /// How many bytes a bulk probe carries at most; 0: none are sent on a schedule.
    #[serde(with = "size")]
    pub bulk: u64,
    /// How often an active path gets a bulk probe, on average.
    #[serde(with = "duration")]
    pub bulk_interval: Duration,
    /// Bytes of bulk probes per second at most, all paths together.
    #[serde(with = "size")]
    pub bulk_budget: u64,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            payload: 4096,
            budget_per_s: 200,
            bulk: 8 << 20,
            bulk_interval: Duration::from_secs(10),
            bulk_budget: 4 << 20,
        }
    }
}

/// `[policy]`: how routes are decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Which set of rules decides.
    pub profile: Profile,
    /// The share of a pool that may be excluded; beyond it candidates are ranked instead of
    /// refused. The reference profile knows no such limit and ignores it.
    pub max_excluded_fraction: f64,
    /// Weights and limits of the rules.
    pub thresholds: Thresholds,
    /// Classes beside the built-in ones, or instead of one of the same name.
    pub workloads: Vec<WorkloadConfig>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            max_excluded_fraction: 0.5,
            thresholds: Thresholds::of(Profile::default()),
            workloads: Vec::new(),
        }
    }
}

/// `[[policy.workloads]]`: one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadConfig {
    /// Its name.
    pub name: WorkloadName,
    /// How much harm a slow request does, in [0, 1].
    pub criticality: f64,
    /// The largest acceptable p99 path latency.
    #[serde(with = "duration")]
    pub latency_sla: Duration,
    /// How much jitter it bears, in [0, 1].
    pub jitter_tolerance: f64,
    /// It releases a result to the outside.
    #[serde(default)]
    pub is_release_path: bool,
    /// Prefill and decode wait for each other.
    #[serde(default)]
    pub is_prefill_decode_strict: bool,
    /// How far Seam's word binds.
    #[serde(default)]
    pub mode: Mode,
    /// What to answer when nothing is admissible.
    #[serde(default)]
    pub on_no_admissible: OnNoAdmissible,
}

impl WorkloadConfig {
    /// The class as the policy knows it.
    #[must_use]
    pub fn workload(&self) -> Workload {
        Workload {
            name: self.name.clone(),
            criticality: self.criticality,
            latency_sla_ms: self.latency_sla.as_secs_f64() * 1000.0,
            jitter_tolerance: self.jitter_tolerance,
            sync_frequency: 0.0,
            checkpoint_size_mb: 0.0,
            is_release_path: self.is_release_path,
            is_prefill_decode_strict: self.is_prefill_decode_strict,
            mode: self.mode,
            on_no_admissible: self.on_no_admissible,
        }
    }
}

/// `[transfer]`: who moves the bytes, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferConfig {
    /// Who moves.
    pub mover: Mover,
    /// How long a transfer may take, all attempts together, where the request does not say.
    #[serde(with = "duration")]
    pub budget: Duration,
    /// Attempts at most.
    pub attempts: u32,
    /// How long the bytes of a lease may take, counted from its grant.
    #[serde(with = "duration")]
    pub lease_ttl: Duration,
    /// After this long a fenced lease is freed even if its holder never said that it is quiet.
    #[serde(with = "duration")]
    pub fence_max: Duration,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            mover: Mover::default(),
            budget: Duration::from_secs(5),
            attempts: 3,
            lease_ttl: Duration::from_secs(10),
            fence_max: Duration::from_secs(30),
        }
    }
}

/// `[arena]`: this host's registered KV memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArenaConfig {
    /// The shared-memory file.
    pub path: PathBuf,
    /// Its size in bytes, whole pages of 64 KiB.
    #[serde(with = "size")]
    pub size: u64,
}

/// `[metrics]`: limits of the metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// Paths with series of their own at most; the rest are counted.
    pub max_paths: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { max_paths: 1024 }
    }
}

/// `[journal]`: what every core is told, kept in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalConfig {
    /// The folder of the segments; one agent's alone.
    pub dir: PathBuf,
    /// How large a segment grows before the next one begins, in bytes.
    #[serde(default = "default_file_size", with = "size")]
    pub segment_size: u64,
    /// How old a segment grows before the next one begins.
    #[serde(default = "default_max_age", with = "duration")]
    pub max_age: Duration,
    /// How often what was written is forced to the disk.
    #[serde(default = "default_fsync", with = "duration")]
    pub fsync: Duration,
    /// How many bytes all segments of this node have at most; the oldest are deleted.
    #[serde(default = "default_retain", with = "size")]
    pub retain: u64,
}

/// `[records]`: decision records as JSON lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsConfig {
    /// The folder of the files.
    pub dir: PathBuf,
    /// How large a file grows before the next one begins, in bytes.
    #[serde(default = "default_file_size", with = "size")]
    pub rotate: u64,
    /// How many bytes all files of this node have at most; the oldest are deleted.
    #[serde(default = "default_retain", with = "size")]
    pub retain: u64,
}

fn default_file_size() -> u64 {
    64 << 20
}

fn default_retain() -> u64 {
    1 << 30
}

fn default_max_age() -> Duration {
    Duration::from_secs(3600)
}

fn default_fsync() -> Duration {
    Duration::from_secs(1)
}

fn default_cluster() -> String {
    "seam".to_owned()
}

fn default_data_dir() -> PathBuf {
    PathBuf::from("/var/lib/seam")
}

fn default_soft_fraction() -> f64 {
    0.75
}

fn default_rail_group() -> RailName {
    // The literal is in the name's alphabet, so the fallback never runs; it avoids a panic path.
    RailName::new("default").unwrap_or_else(|_| unreachable!("a valid literal"))
}

fn default_backend() -> BackendKind {
    BackendKind::Quic
}

fn yes() -> bool {
    true
}

fn default_bandwidth_gbps() -> f64 {
    100.0
}
