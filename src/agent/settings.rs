//! From the configuration to each core's own settings.

use std::sync::Arc;
use std::time::Duration;

use super::probe;
use crate::config::Config;
use crate::model::{Mover, Profile, RailRecord, Role};
use crate::policy::view::Own;
use crate::{health, ledger, policy};

/// The longest time to live of a lease, in milliseconds.
pub(crate) const MAX_LEASE_TTL_MS: u64 = 3_600_000;
/// Sessions that any engine may claim to have.
pub(crate) const MAX_SESSIONS: u32 = 1_000_000;
/// A reading may be dated this far ahead of this host's clock, in milliseconds.
pub(crate) const MAX_AHEAD_MS: u64 = 60_000;

/// A sample taken while this host was later than this is discarded, in milliseconds.
const MAX_LATE_MS: f64 = 5.0;
/// A canary has at least this many bytes, unless what failed had fewer, however small bulk probes are
/// and where none are sent: twice the largest `probe.payload`, so that no small probe passes for one.
const MIN_CANARY_BYTES: u64 = 2 << 20;
const MAX_PATHS: usize = 4_096;
const MAX_LEASES: usize = 65_536;
const MAX_REQUESTS: usize = 65_536;
const REQUEST_TTL_MS: u64 = 600_000;
const LEASE_TIMEOUT_MS: u64 = 250;
const LEASE_ROUNDS: u32 = 8;
const LOAD_INTERVAL_MS: u64 = 100;

pub(crate) fn health(config: &Config) -> health::Settings {
    health::Settings {
        profile: config.policy.profile,
        thresholds: config.policy.thresholds.clone(),
        max_late_ms: MAX_LATE_MS,
        max_paths: MAX_PATHS,
        canary_bytes: config.probe.bulk.max(MIN_CANARY_BYTES),
    }
}

pub(crate) fn probe(config: &Config, seed: u64) -> probe::Rates {
    let bytes = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
    let (min_samples, bulk) = match config.policy.profile {
        // It knows no unproven paths, and takes large samples for slow ones.
        Profile::Reference => (0, 0),
        Profile::Mesh => (config.policy.thresholds.min_samples, config.probe.bulk),
    };
    probe::Rates {
        interval: config.probe.interval,
        payload_bytes: bytes(config.probe.payload),
        budget_per_s: config.probe.budget_per_s,
        min_samples,
        bulk_bytes: bytes(bulk),
        bulk_interval: config.probe.bulk_interval,
        bulk_budget_bytes: config.probe.bulk_budget,
        seed,
    }
}

/// The rails that paths of this node start on: none unless it sends.
pub(crate) fn own(config: &Config, rails: &[RailRecord]) -> Own {
    let sends = config.has_role(Role::Prefill) || config.has_role(Role::Router);
    Own {
        node: config.node.name.clone(),
        rails: if sends { rails.to_vec() } else { Vec::new() },
        model: config.node.model.clone(),
        compat: config.node.compat.clone(),
    }
}

pub(crate) fn policy(config: &Config) -> policy::Settings {
    policy::Settings {
        profile: config.policy.profile,
        thresholds: config.policy.thresholds.clone(),
        workloads: config.workloads().into_iter().map(Arc::new).collect(),
        config_hash: config.hash().into(),
        mover: config.transfer.mover,
        max_kv_bytes: match (config.transfer.mover, &config.arena) {
            (Mover::Seam, Some(arena)) => arena.size,
            (Mover::Seam, None) | (Mover::Engine, _) => u64::MAX / 2,
        },
        lease_ttl_ms: millis(config.transfer.lease_ttl),
        lease_timeout_ms: LEASE_TIMEOUT_MS,
        lease_rounds: LEASE_ROUNDS,
        transfer_budget_ms: millis(config.transfer.budget),
        transfer_attempts: config.transfer.attempts,
        max_excluded_fraction: config.policy.max_excluded_fraction,
        max_requests: MAX_REQUESTS,
        request_ttl_ms: REQUEST_TTL_MS,
        max_paths: MAX_PATHS,
    }
}

/// What the ledger of a decode host is told; none for other nodes.
pub(crate) fn ledger(config: &Config) -> Option<ledger::Settings> {
    let decode = config.decode.as_ref().filter(|_| config.has_role(Role::Decode))?;
    let moves = config.transfer.mover == Mover::Seam;
    Some(ledger::Settings {
        max_sessions: decode.max_sessions,
        soft_fraction: decode.soft_fraction,
        kv_bytes: decode.kv_bytes,
        arena_bytes: config.arena.as_ref().filter(|_| moves).map(|arena| arena.size),
        model: config.node.model.clone(),
        max_leases: MAX_LEASES,
        max_ttl_ms: MAX_LEASE_TTL_MS,
        fence_max_ms: millis(config.transfer.fence_max),
        writes_are_gated: moves,
        load_interval_ms: LOAD_INTERVAL_MS,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_larger_than_any_small_probe_even_where_no_bulk_probes_are_sent() {
        let text = r#"
            [node]
            name = "p0"
            roles = ["prefill"]
            [tls]
            dev = true
            [arena]
            path = "/dev/shm/x"
            size = "1MiB"
            [[rails]]
            name = "r0"
            bind = "127.0.0.1:0"
        "#;
        let mut config = Config::from_toml(text, "p0").unwrap();
        for (bulk, canary_bytes) in [(0, 2 << 20), (4096, 2 << 20), (8 << 20, 8 << 20), (16 << 20, 16 << 20)] {
            config.probe.bulk = bulk;
            config.probe.payload = 1 << 20;
            assert_eq!(health(&config).canary_bytes, canary_bytes, "{bulk}");
        }
        config.probe.bulk = 0;
        assert_eq!(probe(&config, 0).bulk_bytes, 0, "none on a schedule");
    }
}
