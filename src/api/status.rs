//! What a node knows, as the API shows it.

use serde::{Deserialize, Serialize};

use crate::model::{Evidence, Extent, Generation, LeaseId, NodeName, PathHealth, PathId, PoolName, RequestId, Role};

/// `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// This node.
    pub node: NodeName,
    /// Its cluster.
    pub cluster: String,
    /// This life.
    pub generation: Generation,
    /// What it does.
    pub roles: Vec<Role>,
    /// The pool it decodes for.
    pub pool: Option<PoolName>,
    /// The version of this program.
    pub version: String,
    /// The profile that decides.
    pub profile: String,
    /// `seam` or `engine`.
    pub mover: String,
    /// The configuration's fingerprint.
    pub config_hash: String,
    /// How often the configuration was read anew and taken in this life.
    #[serde(default)]
    pub config_reloads: u64,
    /// Since when it runs, in milliseconds.
    pub uptime_ms: u64,
    /// Whether it takes no new work.
    pub draining: bool,
    /// Whether it grants no leases because it does not know yet what its earlier life granted.
    #[serde(default)]
    pub recovering: bool,
    /// Whether it has joined a mesh, or is the only one it was told of.
    pub ready: bool,
    /// Where the mesh listens.
    pub mesh_addr: String,
    /// The arena, where there is one: its file and its size in bytes.
    pub arena: Option<(String, u64)>,
    /// Members alive, this node included.
    pub members_alive: u32,
    /// Paths by state.
    pub paths: Vec<(String, u32)>,
    /// Decisions made in this life.
    pub decisions: u64,
    /// Leases that this host has granted and not taken back.
    pub leases_granted: u32,
    /// Leases that this host holds on others.
    pub leases_held: u32,
}

/// One line of `GET /v1/members`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberLine {
    /// The member.
    pub node: NodeName,
    /// Its life.
    pub generation: Generation,
    /// `alive`, `suspect` or `down`.
    pub state: String,
    /// Where its mesh endpoint listens.
    pub mesh_addr: String,
    /// What it does, once its record is known.
    pub roles: Vec<Role>,
    /// Its pool.
    pub pool: Option<PoolName>,
    /// Sessions in use and sessions that fit, where known.
    pub sessions: Option<(u32, u32)>,
    /// KV bytes free, where known.
    pub kv_bytes_free: Option<u64>,
    /// Whether it takes no new work.
    pub draining: bool,
}

/// One line of `GET /v1/paths`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathLine {
    /// The path.
    pub path: PathId,
    /// The destination's pool.
    pub pool: Option<PoolName>,
    /// What is known of it.
    pub health: PathHealth,
    /// Whose samples they are.
    pub evidence: Evidence,
    /// How old the newest is, in milliseconds.
    pub age_ms: Option<u64>,
}

/// One line of `GET /v1/leases`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseLine {
    /// The lease.
    pub id: LeaseId,
    /// `granted`, `delivered` or `fenced` on the host that granted it; `held` on the holder.
    pub state: String,
    /// Who holds it.
    pub holder: NodeName,
    /// For which request.
    pub request_id: RequestId,
    /// How many bytes.
    pub kv_bytes: u64,
    /// Where in the arena.
    pub extents: Vec<Extent>,
    /// Until it expires, in milliseconds; absent when it no longer can.
    pub expires_in_ms: Option<u64>,
}
