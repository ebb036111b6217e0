//! What a node says about itself through the mesh: the bodies of its records. The envelope that
//! versions and signs them is the mesh core's.

use serde::{Deserialize, Serialize};

use super::{BackendKind, ModelName, NodeName, PathHealth, PathId, PoolName, RailName, RiskGroup};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Computes KV caches and asks for paths.
    Prefill,
    /// Grants leases and receives KV caches.
    Decode,
    /// Asks for paths on behalf of others.
    Router,
}

/// One network attachment as a node advertises it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RailRecord {
    /// The node's own name of it.
    pub name: RailName,
    /// Rails pair within one group.
    pub group: RailName,
    /// What moves bytes on it.
    pub backend: BackendKind,
    /// Where it listens, in the backend's own words (a socket address for `quic` and `mock`).
    pub address: String,
    /// Its bandwidth in gigabits per second.
    pub bandwidth_gbps: f64,
}

/// Who a node is. Rare, large, sent on streams only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeName,
    /// What it does.
    pub roles: Vec<Role>,
    /// The pool it decodes for.
    pub pool: Option<PoolName>,
    /// The model it serves.
    pub model: Option<ModelName>,
    /// Nodes of unequal tags never pair.
    pub compat: Option<ModelName>,
    /// Hosts that fail together.
    pub risk_group: Option<RiskGroup>,
    /// Its rails, in order of preference.
    pub rails: Vec<RailRecord>,
    /// Its certificate chain's end entity, DER.
    pub certificate: Vec<u8>,
}

impl NodeRecord {
    /// Whether the node has a role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// How loaded a decode host is. Small, frequent, sent as a rumour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Counts the changes of this host's headroom in this life; the larger is the newer. A lease's
    /// quote carries the same count.
    pub revision: u64,
    /// Sessions in use.
    pub active_sessions: u32,
    /// Sessions that fit.
    pub max_sessions: u32,
    /// The share from which the host counts as soft saturated, in (0, 1].
    pub soft_fraction: f64,
    /// KV bytes free for leases.
    pub kv_bytes_free: u64,
    /// Bytes leased and not yet delivered.
    pub inbound_bytes: u64,
    /// The engine's time per output token in milliseconds, where known.
    pub token_time_ms: Option<f64>,
    /// The host takes no new work.
    pub draining: bool,
}

/// One path that is not healthy, as an observer at its source or destination sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedPath {
    /// The path.
    pub path: PathId,
    /// What the observer measured.
    pub health: PathHealth,
}

/// An observer's paths that are not healthy, one bounded chunk of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathsRecord {
    /// Which chunk this is; a chunk replaces the earlier one of the same number.
    pub chunk: u16,
    /// The paths in it; none when all are healthy again.
    pub paths: Vec<ObservedPath>,
}
