//! The agents of the run: their names and their configuration.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::plan::Plan;

/// How often a path is probed.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// The one rail of every host.
pub(crate) const RAIL: &str = "r0";
/// What a rail is taken to carry: loopback shared by every agent, with encryption and two hashes.
const BANDWIDTH_GBPS: f64 = 2.0;

/// What a host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Prefill,
    Decode,
}

/// One host of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSpec {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Its arena.
    pub(crate) arena: PathBuf,
}

/// Prefill hosts `p0`, `p1`, …, then decode hosts `d0`, `d1`, …
pub(crate) fn hosts(dir: &Path, prefill: usize, decode: usize) -> Vec<HostSpec> {
    let host = |kind, letter, index: usize| {
        let name = format!("{letter}{index}");
        HostSpec { arena: dir.join(format!("{name}.arena")), name, kind }
    };
    let prefill = (0..prefill).map(|index| host(Kind::Prefill, 'p', index));
    prefill.chain((0..decode).map(|index| host(Kind::Decode, 'd', index))).collect()
}

/// The part of a host's configuration that keeps its journal in a folder of its own in `dir`.
pub(crate) fn journal(host: &HostSpec, dir: &Path) -> String {
    let dir = toml::Value::String(dir.join(&host.name).display().to_string());
    format!("[journal]\ndir = {dir}\n")
}

/// The configuration of one host's agent, as its operator would write it.
pub(crate) fn config(
    host: &HostSpec,
    dir: &Path,
    plan: &Plan,
    model: &str,
    decode_hosts: usize,
    seed: Option<SocketAddr>,
) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, host, dir, plan, model, decode_hosts, seed);
    text
}

fn write(
    out: &mut String,
    host: &HostSpec,
    dir: &Path,
    plan: &Plan,
    model: &str,
    decode_hosts: usize,
    seed: Option<SocketAddr>,
) -> std::fmt::Result {
    let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
    let seeds: Vec<_> = seed.iter().map(|seed| format!("\"{seed}\"")).collect();
    let (role, arena_bytes) = match host.kind {
        Kind::Prefill => ("prefill", plan.prefill_arena_bytes),
        Kind::Decode => ("decode", plan.decode_arena_bytes),
    };
    writeln!(out, "[node]\nname = \"{}\"\ncluster = \"demo\"\nroles = [\"{role}\"]", host.name)?;
    writeln!(out, "model = \"{model}\"\ndata_dir = {}", quoted(&dir.join(&host.name)))?;
    writeln!(out, "[mesh]\nbind = \"127.0.0.1:0\"\nsize = \"local\"\nseeds = [{}]", seeds.join(", "))?;
    writeln!(out, "[tls]\ndev = true\ndev_dir = {}", quoted(&dir.join("ca")))?;
    writeln!(out, "[api]\nbind = \"127.0.0.1:0\"")?;
    writeln!(out, "[probe]\ninterval = \"{}ms\"", PROBE_INTERVAL.as_millis())?;
    // Every path at its interval, and as much again.
    let per_s = 2 * decode_hosts as u128 * 1_000 / PROBE_INTERVAL.as_millis();
    writeln!(out, "budget_per_s = {per_s}")?;
    // Bandwidth between hosts that are one process says how busy its processors are, and no more.
    writeln!(out, "bulk = \"0B\"\n[policy.thresholds]")?;
    writeln!(out, "bandwidth_degraded = 0.0\nbandwidth_restricted = 0.0\nbandwidth_quarantine = 0.0")?;
    writeln!(out, "[transfer]\nmover = \"seam\"")?;
    writeln!(out, "[arena]\npath = {}\nsize = \"{arena_bytes}B\"", quoted(&host.arena))?;
    if host.kind == Kind::Decode {
        writeln!(out, "[decode]\npool = \"decode\"\nmax_sessions = {}", plan.max_sessions)?;
        writeln!(out, "kv_bytes = \"{arena_bytes}B\"\nengine = {{ kind = \"api\" }}")?;
    }
    writeln!(out, "[[rails]]\nname = \"{RAIL}\"\nbackend = \"mock\"\nbind = \"127.0.0.1:0\"")?;
    writeln!(out, "bandwidth_gbps = {BANDWIDTH_GBPS:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::demo::Options;
    use crate::model::{BackendKind, Role};
    use crate::trace::Builtin;

    #[test]
    fn every_host_has_a_configuration_that_an_agent_accepts() {
        let options = Options { prefill: 2, decode: 16, ..Options::default() };
        let trace: Vec<_> = Builtin::new(1).take(50).collect();
        let plan = Plan::new(&options, options.model, &trace);
        let dir = Path::new("/tmp/a \"quoted\" \\ name");
        let hosts = hosts(dir, options.prefill, options.decode);
        assert_eq!(hosts.len(), 18);
        for host in hosts {
            let seed = Some("127.0.0.1:4000".parse().unwrap());
            let text = config(&host, dir, &plan, "llama-3.1-8b", 16, seed) + &journal(&host, dir);
            let config = Config::from_toml(&text, &host.name).unwrap();
            assert_eq!(config.node.name.as_str(), host.name);
            assert_eq!(config.rails[0].backend, BackendKind::Mock);
            assert_eq!(config.journal.as_ref().unwrap().dir, dir.join(&host.name));
            assert_eq!(config.mesh.seeds, ["127.0.0.1:4000"]);
            assert_eq!(config.arena.as_ref().unwrap().path, host.arena);
            assert_eq!(config.has_role(Role::Decode), host.kind == Kind::Decode);
            if let Some(decode) = &config.decode {
                assert_eq!(decode.max_sessions, plan.max_sessions);
                assert_eq!(decode.kv_bytes, plan.decode_arena_bytes);
            }
        }
    }
}
