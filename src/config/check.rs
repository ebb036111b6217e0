//! Ranges, and rules across keys.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use super::{Config, EngineKind, PolicyConfig, Problem, RailConfig, format_size};
use crate::health::Thresholds;
use crate::health::score::ThresholdField;
use crate::model::{BackendKind, Mover, NodeName, PAGE_BYTES, Profile, Role};
use crate::net::HostPort;
use crate::transport::mock::{Faults, InvalidFaults};

const MAX_SEEDS: usize = 64;
const MAX_RAILS: usize = 64;
const MAX_WORKLOADS: usize = 256;
const MAX_ARENA_BYTES: u64 = 64 << 40;
/// As many bytes as a rail takes for a probe.
const MAX_BULK_BYTES: u64 = 16 << 20;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// The smallest and the largest file of a journal, in bytes.
const FILE_BYTES: (u64, u64) = (64 << 10, 4 << 30);
/// Where nobody is kept out of the arena, a lease's pages must stay fenced for longer than its sender may
/// still write: it waits 3 s for what it gave up, and its library gives up the peer up to 5 s after that.
const LEAST_OPEN_FENCE: Duration = Duration::from_secs(10);

/// Everything that is wrong with `config`.
pub(super) fn check(config: &Config) -> Vec<Problem> {
    let mut checks = Checks::default();
    node(&mut checks, config);
    mesh(&mut checks, config);
    tls(&mut checks, config);
    api(&mut checks, config);
    decode(&mut checks, config);
    rails(&mut checks, config);
    probe(&mut checks, config);
    policy(&mut checks, &config.policy, config.probe.interval);
    transfer(&mut checks, config);
    arena(&mut checks, config);
    checks.between("metrics.max_paths", config.metrics.max_paths, 0, 100_000);
    journal(&mut checks, config);
    records(&mut checks, config);
    checks.0
}

/// Everything that is wrong with a `policy` table where paths are probed this often.
pub(super) fn check_policy(found: &PolicyConfig, probe_interval: Duration) -> Vec<Problem> {
    let mut checks = Checks::default();
    policy(&mut checks, found, probe_interval);
    checks.0
}

#[derive(Default)]
struct Checks(Vec<Problem>);

impl Checks {
    fn refuse(&mut self, key: impl Into<String>, detail: impl Into<String>) {
        self.0.push(Problem { line: None, key: key.into(), detail: detail.into() });
    }

    fn require(&mut self, holds: bool, key: &str, detail: impl FnOnce() -> String) {
        if !holds {
            self.refuse(key, detail());
        }
    }

    /// NaN is between nothing.
    fn between<T: PartialOrd + Display>(&mut self, key: &str, found: T, least: T, most: T) {
        self.require(found >= least && found <= most, key, || format!("found {found}, allowed {least} to {most}"));
    }

    fn above<T: PartialOrd + Display>(&mut self, key: &str, found: T, floor: T, most: T) {
        self.require(found > floor && found <= most, key, || {
            format!("found {found}, allowed above {floor}, at most {most}")
        });
    }

    fn lasts(&mut self, key: &str, found: Duration, least: Duration, most: Duration) {
        self.require(found >= least && found <= most, key, || {
            let show = humantime::format_duration;
            format!("found {}, allowed {} to {}", show(found), show(least), show(most))
        });
    }

    fn measures(&mut self, key: &str, found: u64, least: u64, most: u64) {
        self.require(found >= least && found <= most, key, || {
            format!("found {}, allowed {} to {}", format_size(found), format_size(least), format_size(most))
        });
    }

    fn at_most(&mut self, key: &str, found: usize, most: usize) {
        self.require(found <= most, key, || format!("found {found} entries, allowed at most {most}"));
    }
}

fn node(checks: &mut Checks, config: &Config) {
    if NodeName::new(&config.node.cluster).is_err() {
        checks.refuse(
            "node.cluster",
            format!("found {:?}, allowed 1 to 64 letters, digits, '-', '_' or '.'", config.node.cluster),
        );
    }
    let roles = &config.node.roles;
    checks.require(!roles.is_empty(), "node.roles", || "found none, allowed prefill, decode, router".to_owned());
    let repeated = (1..roles.len()).any(|index| roles.iter().take(index).any(|role| Some(role) == roles.get(index)));
    checks.require(!repeated, "node.roles", || "found a role twice, allowed each at most once".to_owned());
    checks.require(!config.node.data_dir.as_os_str().is_empty(), "node.data_dir", || {
        "found \"\", allowed the path of a folder".to_owned()
    });
}

fn mesh(checks: &mut Checks, config: &Config) {
    let mesh = &config.mesh;
    match mesh.advertise {
        None => checks.require(!mesh.bind.ip().is_unspecified(), "mesh.advertise", || {
            format!(
                "the key is missing: mesh.bind is {}, which tells others nothing; name a concrete address",
                mesh.bind
            )
        }),
        Some(address) => {
            checks.require(!address.ip().is_unspecified() && address.port() != 0, "mesh.advertise", || {
                format!("found {address}, allowed a concrete address and port that others can reach")
            })
        }
    }
    checks.at_most("mesh.seeds", mesh.seeds.len(), MAX_SEEDS);
    for (index, seed) in mesh.seeds.iter().enumerate() {
        if let Err(error) = seed.parse::<HostPort>() {
            checks.refuse(format!("mesh.seeds[{index}]"), error.to_string());
        }
    }
}

fn tls(checks: &mut Checks, config: &Config) {
    let tls = &config.tls;
    let files = [("tls.ca", &tls.ca), ("tls.cert", &tls.cert), ("tls.key", &tls.key)];
    let given = files.iter().filter(|(_, path)| path.is_some()).count();
    if tls.dev {
        checks.require(given == 0, "tls.dev", || {
            "found true beside tls.ca, tls.cert or tls.key; allowed either dev = true or the three files".to_owned()
        });
        let far = !config.mesh.bind.ip().is_loopback() || config.rails.iter().any(|rail| !rail.bind.ip().is_loopback());
        checks.require(!far || tls.allow_insecure_dev, "tls.dev", || {
            "found true while mesh.bind or a rail is not on loopback; make certificates with `seamctl certs`, \
             or set tls.allow_insecure_dev = true to accept that anyone with the folder can join"
                .to_owned()
        });
    } else if given == 0 {
        checks.refuse("tls", "found neither dev = true nor the files ca, cert and key; make them with `seamctl certs`");
    } else {
        for (key, _) in files.iter().filter(|(_, path)| path.is_none()) {
            checks.refuse(*key, "the key is missing: ca, cert and key belong together");
        }
    }
    checks.require(tls.dev || tls.dev_dir.is_none(), "tls.dev_dir", || {
        "found without dev = true; it has no meaning then".to_owned()
    });
}

fn api(checks: &mut Checks, config: &Config) {
    let api = &config.api;
    checks.require(api.bind.ip().is_loopback() || api.token_file.is_some(), "api.token_file", || {
        format!("the key is missing: api.bind is {}, not loopback, so callers must show a token", api.bind)
    });
}

fn decode(checks: &mut Checks, config: &Config) {
    let Some(decode) = &config.decode else {
        checks.require(!config.has_role(Role::Decode), "decode", || {
            "the section is missing: node.roles names decode".to_owned()
        });
        return;
    };
    checks.require(config.has_role(Role::Decode), "decode", || {
        "found the section, but node.roles does not name decode".to_owned()
    });
    checks.between("decode.max_sessions", decode.max_sessions, 1, 1_000_000);
    checks.above("decode.soft_fraction", decode.soft_fraction, 0.0, 1.0);
    checks.measures("decode.kv_bytes", decode.kv_bytes, PAGE_BYTES, MAX_ARENA_BYTES);
    match decode.engine.kind {
        EngineKind::Static | EngineKind::Api => {
            checks.require(decode.engine.url.is_none(), "decode.engine.url", || {
                "found for a kind that is not asked over HTTP; allowed only with vllm or sglang".to_owned()
            });
        }
        EngineKind::Vllm | EngineKind::Sglang => {
            checks.refuse("decode.engine.kind", "not available in this version; allowed static, api");
        }
    }
    if let (Mover::Seam, Some(arena)) = (config.transfer.mover, &config.arena) {
        checks.require(decode.kv_bytes <= arena.size, "decode.kv_bytes", || {
            format!("found {}, allowed at most arena.size, {}", format_size(decode.kv_bytes), format_size(arena.size))
        });
    }
}

/// The backends that are part of this build.
const AVAILABLE: &[BackendKind] = &[
    BackendKind::Quic,
    BackendKind::Mock,
    #[cfg(feature = "nixl")]
    BackendKind::Nixl,
    #[cfg(feature = "ucx")]
    BackendKind::Ucx,
    #[cfg(feature = "verbs")]
    BackendKind::Verbs,
];

fn rails(checks: &mut Checks, config: &Config) {
    checks.at_most("rails", config.rails.len(), MAX_RAILS);
    let moves = config.has_role(Role::Prefill) || config.has_role(Role::Decode) && config.transfer.mover == Mover::Seam;
    checks.require(!moves || !config.rails.is_empty(), "rails", || {
        "found none; a prefill host, and a decode host to which Seam moves bytes, need at least one".to_owned()
    });
    let mut names = BTreeSet::new();
    for (index, rail) in config.rails.iter().enumerate() {
        let key = |name: &str| format!("rails[{index}].{name}");
        checks.require(names.insert(&rail.name), &key("name"), || {
            format!("found {} a second time; names are unique on a host", rail.name)
        });
        checks.require(AVAILABLE.contains(&rail.backend), &key("backend"), || {
            let allowed: Vec<&str> = AVAILABLE.iter().map(|backend| backend.as_str()).collect();
            let (backend, allowed) = (rail.backend, allowed.join(", "));
            format!("{backend} is not available in this build; allowed {allowed}, or a build with --features {backend}")
        });
        checks.require(rail.nixl.is_none() || rail.backend == BackendKind::Nixl, &key("nixl"), || {
            format!("found on a {} rail; allowed on a nixl rail", rail.backend)
        });
        checks.require(rail.ucx.is_none() || rail.backend == BackendKind::Ucx, &key("ucx"), || {
            format!("found on a {} rail; allowed on a ucx rail", rail.backend)
        });
        checks.require(rail.verbs.is_none() || rail.backend == BackendKind::Verbs, &key("verbs"), || {
            format!("found on a {} rail; allowed on a verbs rail", rail.backend)
        });
        checks.require(rail.verbs.as_ref().is_none_or(|verbs| verbs.port != Some(0)), &key("verbs.port"), || {
            "found 0, allowed 1 to 255".to_owned()
        });
        checks.require(!rail.bind.ip().is_unspecified(), &key("bind"), || {
            format!("found {}, allowed a concrete address: peers are told it", rail.bind)
        });
        checks.above(&key("bandwidth_gbps"), rail.bandwidth_gbps, 0.0, 100_000.0);
        if let Some(faults) = &rail.faults {
            check_faults(checks, &key("faults"), rail, faults);
        }
    }
}

fn check_faults(checks: &mut Checks, key: &str, rail: &RailConfig, faults: &Faults) {
    checks.require(rail.may_have_faults(), key, || {
        format!("found on a {} rail; allowed on a mock rail, or with allow_faults = true", rail.backend)
    });
    if let Err(InvalidFaults { field, found, allowed }) = faults.validate() {
        checks.refuse(format!("{key}.{field}"), format!("found {found}, allowed {allowed}"));
    }
    // TOML has no larger integer.
    checks.between(&format!("{key}.seed"), faults.seed, 0, i64::MAX as u64);
}

impl RailConfig {
    /// Whether faults may be switched on, at start or at run time.
    #[must_use]
    pub fn may_have_faults(&self) -> bool {
        self.allow_faults || self.backend == BackendKind::Mock
    }
}

fn probe(checks: &mut Checks, config: &Config) {
    checks.lasts("probe.interval", config.probe.interval, SECOND / 100, HOUR);
    checks.measures("probe.payload", config.probe.payload, 1, 1 << 20);
    checks.between("probe.budget_per_s", config.probe.budget_per_s, 1, 100_000);
    checks.measures("probe.bulk", config.probe.bulk, 0, MAX_BULK_BYTES);
    checks.lasts("probe.bulk_interval", config.probe.bulk_interval, SECOND, HOUR);
    checks.measures("probe.bulk_budget", config.probe.bulk_budget, 1024, 1 << 30);
}

fn policy(checks: &mut Checks, policy: &PolicyConfig, probe_interval: Duration) {
    checks.between("policy.max_excluded_fraction", policy.max_excluded_fraction, 0.0, 1.0);
    thresholds(checks, &policy.thresholds);
    if policy.profile == Profile::Mesh {
        mesh_rules(checks, &policy.thresholds, probe_interval);
    }
    checks.at_most("policy.workloads", policy.workloads.len(), MAX_WORKLOADS);
    let mut names = BTreeSet::new();
    for (index, workload) in policy.workloads.iter().enumerate() {
        let key = format!("policy.workloads[{index}]");
        checks.require(names.insert(&workload.name), &format!("{key}.name"), || {
            format!("found {} a second time; a class is configured once", workload.name)
        });
        if let Err(detail) = workload.workload().validate() {
            let (name, detail) = detail.split_once(": ").unwrap_or(("name", &detail));
            checks.refuse(format!("{key}.{}", name.trim_end_matches("_ms")), detail);
        }
    }
}

/// What the mesh profile's numbers must be to each other, and to how often paths are probed.
fn mesh_rules(checks: &mut Checks, found: &Thresholds, probe_interval: Duration) {
    let interval_ms = probe_interval.as_secs_f64() * 1000.0;
    let key = |name: &str| format!("policy.thresholds.{name}");
    let stale_ms = 3.0 * interval_ms;
    checks.require(found.stale_after_ms >= stale_ms, &key("stale_after_ms"), || {
        format!("found {}, allowed at least {stale_ms}: three times probe.interval", found.stale_after_ms)
    });
    let proof_ms = f64::from(found.min_samples) * interval_ms;
    checks.require(found.fresh_ms >= proof_ms.max(found.stale_after_ms), &key("fresh_ms"), || {
        let least = proof_ms.max(found.stale_after_ms);
        format!(
            "found {}, allowed at least {least}: min_samples times probe.interval, and stale_after_ms",
            found.fresh_ms
        )
    });
    checks.require(found.min_samples <= found.candidate_window, &key("min_samples"), || {
        format!("found {}, allowed at most candidate_window, {}", found.min_samples, found.candidate_window)
    });
    let rising = [
        ("bandwidth_quarantine", found.bandwidth_quarantine, "bandwidth_restricted", found.bandwidth_restricted),
        ("bandwidth_restricted", found.bandwidth_restricted, "bandwidth_degraded", found.bandwidth_degraded),
        ("token_time_degraded", found.token_time_degraded, "token_time_restricted", found.token_time_restricted),
        ("quarantine_hold_ms", found.quarantine_hold_ms, "quarantine_hold_max_ms", found.quarantine_hold_max_ms),
    ];
    for (name, lower, above, upper) in rising {
        checks.require(lower <= upper, &key(name), || format!("found {lower}, allowed at most {above}, {upper}"));
    }
}

fn thresholds(checks: &mut Checks, found: &Thresholds) {
    let mut copy = found.clone();
    for field in ThresholdField::ALL {
        if let Err(error) = field.set(&mut copy, field.get(found)) {
            let detail = format!("found {}, allowed {}", error.found, error.allowed);
            checks.refuse(format!("policy.thresholds.{}", field.name), detail);
        }
    }
}

fn transfer(checks: &mut Checks, config: &Config) {
    let transfer = &config.transfer;
    checks.lasts("transfer.budget", transfer.budget, SECOND / 1000, HOUR);
    checks.between("transfer.attempts", transfer.attempts, 1, 16);
    checks.lasts("transfer.lease_ttl", transfer.lease_ttl, SECOND / 10, HOUR);
    checks.lasts("transfer.fence_max", transfer.fence_max, SECOND / 10, HOUR);
    let is_open = |rail: &&RailConfig| matches!(rail.backend, BackendKind::Nixl | BackendKind::Ucx);
    let receives = config.has_role(Role::Decode) && transfer.mover == Mover::Seam;
    if let Some(rail) = config.rails.iter().find(is_open).filter(|_| receives) {
        checks.require(transfer.fence_max >= LEAST_OPEN_FENCE, "transfer.fence_max", || {
            let show = humantime::format_duration;
            format!(
                "found {}, allowed at least {} beside the {} rail {}: what its sender gave up may land until then",
                show(transfer.fence_max),
                show(LEAST_OPEN_FENCE),
                rail.backend,
                rail.name
            )
        });
    }
}

fn arena(checks: &mut Checks, config: &Config) {
    let Some(arena) = &config.arena else {
        let needed =
            config.transfer.mover == Mover::Seam && (config.has_role(Role::Decode) || config.has_role(Role::Prefill));
        checks.require(!needed, "arena", || {
            "the section is missing: transfer.mover is seam, so prefill and decode hosts need one".to_owned()
        });
        return;
    };
    checks.measures("arena.size", arena.size, PAGE_BYTES, MAX_ARENA_BYTES);
    checks.require(arena.size % PAGE_BYTES == 0, "arena.size", || {
        format!("found {}, allowed whole pages of {}", format_size(arena.size), format_size(PAGE_BYTES))
    });
    checks.require(!arena.path.as_os_str().is_empty(), "arena.path", || {
        "found \"\", allowed the path of a file".to_owned()
    });
}

fn journal(checks: &mut Checks, config: &Config) {
    let Some(journal) = &config.journal else { return };
    files(checks, &journal.dir, "journal.dir", (journal.segment_size, "journal.segment_size"));
    checks.lasts("journal.max_age", journal.max_age, SECOND, 168 * HOUR);
    checks.lasts("journal.fsync", journal.fsync, SECOND / 100, 60 * SECOND);
    retains(checks, (journal.retain, "journal.retain"), (journal.segment_size, "journal.segment_size"));
}

fn records(checks: &mut Checks, config: &Config) {
    let Some(records) = &config.records else { return };
    files(checks, &records.dir, "records.dir", (records.rotate, "records.rotate"));
    retains(checks, (records.retain, "records.retain"), (records.rotate, "records.rotate"));
}

fn files(checks: &mut Checks, dir: &Path, key: &str, (size, size_key): (u64, &str)) {
    checks.require(!dir.as_os_str().is_empty(), key, || "found \"\", allowed the path of a folder".to_owned());
    checks.measures(size_key, size, FILE_BYTES.0, FILE_BYTES.1);
}

fn retains(checks: &mut Checks, (found, key): (u64, &str), (size, size_key): (u64, &str)) {
    let least = size.saturating_mul(2);
    checks.require(found >= least, key, || {
        format!("found {}, allowed at least {}: two files of {size_key}", format_size(found), format_size(least))
    });
}
