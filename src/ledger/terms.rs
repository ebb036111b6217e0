//! What the ledger is configured with and what its engine tells it.

use serde::{Deserialize, Serialize};

use crate::model::{LeaseId, ModelName};

/// The ledger's part of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Sessions that fit, unless the engine says otherwise; at least 1.
    pub max_sessions: u32,
    /// The share from which the host counts as soft saturated, in (0, 1].
    pub soft_fraction: f64,
    /// KV bytes that fit, unless the engine says otherwise.
    pub kv_bytes: u64,
    /// The arena's size where Seam moves the bytes; none where the engine does.
    pub arena_bytes: Option<u64>,
    /// The model that this host serves; an ask for another is refused.
    pub model: Option<ModelName>,
    /// Leases kept at most, in any stage.
    pub max_leases: usize,
    /// The longest time to live that is granted, in milliseconds.
    pub max_ttl_ms: u64,
    /// How long a fenced lease is kept when nobody says that it is quiet, in milliseconds.
    pub fence_max_ms: u64,
    /// Whether every write asks this ledger first, so that an expired lease without an open
    /// stream is safe at once. Not so where an engine moves the bytes itself.
    pub writes_are_gated: bool,
    /// The mesh is told of changes at most once in this many milliseconds.
    pub load_interval_ms: u64,
}

/// A decode engine's own word on itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineWord {
    /// Sessions that it runs.
    pub active_sessions: u32,
    /// Sessions that it could run.
    pub max_sessions: Option<u32>,
    /// KV bytes that it has free.
    pub kv_bytes_free: Option<u64>,
    /// Its time per output token in milliseconds.
    pub token_time_ms: Option<f64>,
    /// Leases that its numbers contain, from now on and until they are released. Where given, only
    /// these count as contained.
    pub adopted: Option<Vec<LeaseId>>,
    /// When it took the reading, in milliseconds since the Unix epoch. Where `adopted` is not
    /// given, every lease delivered before counts as contained.
    pub as_of_ms: Option<u64>,
}
