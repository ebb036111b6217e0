//! The configuration file: what is accepted, how it is refused, and that the files and the
//! documentation beside it say the same.

#![cfg(feature = "agent")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[path = "config/policy_table.rs"]
mod policy_table;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use seam::config::{Config, Credentials};
use seam::model::Mover;

const MINIMAL: &str = r#"
[node]
name = "p0"
roles = ["prefill"]

[tls]
dev = true

[[rails]]
name = "r0"
bind = "127.0.0.1:7982"

[arena]
path = "/dev/shm/seam-p0"
size = "256MiB"
"#;

fn refusal(text: &str) -> String {
    Config::from_toml(text, "seam.toml").expect_err("must be refused").to_string()
}

fn with(extra: &str) -> String {
    format!("{MINIMAL}\n{extra}")
}

#[test]
fn the_minimal_file_takes_every_default() {
    let config = Config::from_toml(MINIMAL, "seam.toml").unwrap();
    assert_eq!(config.probe.interval, Duration::from_secs(1));
    assert_eq!(config.transfer.mover, Mover::Seam);
    assert_eq!(config.api.bind.to_string(), "127.0.0.1:7980");
    assert!(config.rails[0].segmentation_offload);
    assert_eq!(config.workloads().len(), 5);
    assert_eq!(config.credentials(), Credentials::Dev { dir: "/var/lib/seam/dev-ca".into() });
}

#[test]
fn the_effective_configuration_reads_back_equal_and_keeps_its_hash() {
    for name in ["seam", "prefill", "decode", "engine-mover"] {
        let config = Config::load(Path::new(&format!("configs/{name}.toml"))).unwrap();
        let again = Config::from_toml(&config.to_toml(), "effective").unwrap();
        assert_eq!(again, config, "{name}");
        assert_eq!(again.hash(), config.hash());
        assert_eq!(config.hash().len(), 16);
        let mut other = config.clone();
        other.transfer.attempts += 1;
        assert_ne!(other.hash(), config.hash());
    }
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_known_one() {
    let error = refusal(&with("[probe]\nintervall = \"1s\"\n"));
    assert_eq!(
        error,
        "seam.toml:18: probe.intervall: unknown key `intervall`; did you mean `interval`? \
         (known: interval, payload, budget_per_s, bulk, bulk_interval, bulk_budget)"
    );
}

#[test]
fn every_problem_is_listed_not_only_the_first() {
    let error = refusal(&with(
        "[probe]\nintervall = \"1s\"\npayload = \"lots\"\n[mesh]\nbind = 7\nsize = \"huge\"\n[polizy]\n[node2]\n",
    ));
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 6, "{error}");
    for needle in [
        "probe.payload: found \"lots\", allowed a size",
        "mesh.bind: found 7, allowed",
        "mesh.size: found \"huge\", allowed one of local, lan, wan",
        "polizy: unknown key `polizy`; did you mean `policy`?",
        "node2: unknown key `node2`; did you mean `node`?",
    ] {
        assert!(error.contains(needle), "{needle} in\n{error}");
    }

    let error = refusal(&with("[probe]\nbulk = \"17MiB\"\nbulk_interval = \"10ms\"\nbulk_budget = \"0B\"\n"));
    assert!(error.contains("probe.bulk: found 17MiB, allowed 0B to 16MiB"), "{error}");
    assert!(error.contains("probe.bulk_interval: found 10ms, allowed 1s to 1h"), "{error}");
    assert!(error.contains("probe.bulk_budget: found 0B, allowed 1KiB to 1GiB"), "{error}");

    let slow = |profile| with(&format!("[probe]\ninterval = \"3s\"\n[policy]\nprofile = \"{profile}\"\n"));
    Config::from_toml(&slow("reference"), "seam.toml").unwrap();
    let error = refusal(&slow("mesh"));
    assert!(
        error.contains(
            "policy.thresholds.stale_after_ms: found 5000, allowed at least 9000: three times probe.interval"
        ),
        "{error}"
    );

    let error = refusal(&with("[probe]\nbudget_per_s = 0\n[transfer]\nattempts = 99\nbudget = \"2h\"\n"));
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(error.contains("seam.toml:20: transfer.attempts: found 99, allowed 1 to 16"), "{error}");
    assert!(error.contains("transfer.budget: found 2h, allowed 1ms to 1h"), "{error}");
}

#[test]
fn a_later_entry_keeps_its_index_when_an_earlier_one_is_refused() {
    let error = refusal(&with("[[rails]]\nname = \"r1\"\n[[rails]]\nname = \"r 2\"\nbind = \"127.0.0.1:1\"\n"));
    assert!(error.contains("rails[1]: the key `bind` is missing"), "{error}");
    assert!(error.contains("rails[2].name: rail \"r 2\" is not allowed"), "{error}");
}

#[test]
fn broken_toml_names_its_line() {
    assert!(refusal("[node]\nname = \n").starts_with("seam.toml:2: "), "{}", refusal("[node]\nname = \n"));
    assert!(refusal("").contains("the key `node` is missing"));
}

#[test]
fn each_rule_refuses_its_violation() {
    let decode = "[decode]\npool = \"a\"\nmax_sessions = 8\nkv_bytes = \"128MiB\"\n";
    let as_decode = MINIMAL.replace("[\"prefill\"]", "[\"decode\"]");
    let edit = |from: &str, to: &str| MINIMAL.replace(from, to);
    let cases = [
        (with("[journal]\n"), "journal: the key `dir` is missing"),
        (with("[records]\ndir = \"\"\n"), "records.dir: found \"\", allowed the path of a folder"),
        (
            with("[journal]\ndir = \"x\"\nsegment_sise = \"1MiB\"\n"),
            "journal.segment_sise: unknown key `segment_sise`; did you mean `segment_size`?",
        ),
        (
            with("[journal]\ndir = \"x\"\nsegment_size = \"63KiB\"\n"),
            "journal.segment_size: found 63KiB, allowed 64KiB to 4GiB",
        ),
        (with("[journal]\ndir = \"x\"\nfsync = \"9ms\"\n"), "journal.fsync: found 9ms, allowed 10ms to 1m"),
        (with("[journal]\ndir = \"x\"\nmax_age = \"8days\"\n"), "journal.max_age: found 8days, allowed 1s to 7days"),
        (
            with("[journal]\ndir = \"x\"\nretain = \"100MiB\"\n"),
            "journal.retain: found 100MiB, allowed at least 128MiB: two files of journal.segment_size",
        ),
        (
            with("[records]\ndir = \"x\"\nrotate = \"5GiB\"\nretain = \"10GiB\"\n"),
            "records.rotate: found 5GiB, allowed 64KiB to 4GiB",
        ),
        (
            with("[records]\ndir = \"x\"\nrotate = \"1MiB\"\nretain = \"1MiB\"\n"),
            "records.retain: found 1MiB, allowed at least 2MiB: two files of records.rotate",
        ),
        (as_decode.clone(), "decode: the section is missing"),
        (with(decode), "decode: found the section, but node.roles does not name decode"),
        (edit("[\"prefill\"]", "[]"), "node.roles: found none"),
        (edit("[\"prefill\"]", "[\"prefill\", \"prefill\"]"), "node.roles: found a role twice"),
        (
            edit("[\"prefill\"]", "[\"reader\"]"),
            "node.roles[0]: found \"reader\", allowed one of prefill, decode, router",
        ),
        (edit("\"p0\"", "\"p 0\""), "node.name: node name \"p 0\" is not allowed"),
        (edit("dev = true", "dev = false"), "tls: found neither dev = true nor the files"),
        (edit("dev = true", "ca = \"ca.pem\""), "tls.cert: the key is missing"),
        (edit("dev = true", "dev = true\nca = \"ca.pem\""), "tls.dev: found true beside"),
        (
            with("[mesh]\nbind = \"10.0.0.1:7981\"\n"),
            "tls.dev: found true while mesh.bind or a rail is not on loopback",
        ),
        (with("[mesh]\nbind = \"0.0.0.0:7981\"\n"), "mesh.advertise: the key is missing"),
        (with("[mesh]\nadvertise = \"0.0.0.0:7981\"\n"), "mesh.advertise: found 0.0.0.0:7981, allowed a concrete"),
        (with("[mesh]\nseeds = [\"host:0\"]\n"), "mesh.seeds[0]: found \"host:0\", allowed HOST, HOST:PORT"),
        (with("[api]\nbind = \"0.0.0.0:7980\"\n"), "api.token_file: the key is missing"),
        (
            edit("bind = \"127.0.0.1:7982\"", "bind = \"0.0.0.0:7982\""),
            "rails[0].bind: found 0.0.0.0:7982, allowed a concrete",
        ),
        (edit("[[rails]]\nname = \"r0\"\nbind = \"127.0.0.1:7982\"", ""), "rails: found none"),
        (with("[[rails]]\nname = \"r0\"\nbind = \"127.0.0.1:0\"\n"), "rails[1].name: found r0 a second time"),
        #[cfg(not(feature = "verbs"))]
        (
            with("[[rails]]\nname = \"r1\"\nbind = \"127.0.0.1:0\"\nbackend = \"verbs\"\n"),
            "rails[1].backend: verbs is not available in this build",
        ),
        (
            with("[[rails]]\nname = \"r1\"\nbind = \"127.0.0.1:0\"\nbackend = \"verbs\"\nverbs = {port = 0}\n"),
            "rails[1].verbs.port: found 0, allowed 1 to 255",
        ),
        (
            with("[[rails]]\nname = \"r1\"\nbind = \"127.0.0.1:0\"\nbandwidth_gbps = nan\n"),
            "rails[1].bandwidth_gbps: found NaN",
        ),
        (
            with("[[rails]]\nname = \"r1\"\nbind = \"127.0.0.1:0\"\nfaults = {mode = \"stall\"}\n"),
            "rails[1].faults: found on a quic rail",
        ),
        (
            with(
                "[[rails]]\nname = \"r1\"\nbind = \"127.0.0.1:0\"\nbackend = \"mock\"\nfaults = {mode = \"jitter\", base_ms = -1.0}\n",
            ),
            "rails[1].faults.base_ms: found -1, allowed 0 to 60000",
        ),
        (
            with("[policy.thresholds]\nw_latency = 2.0\n"),
            "policy.thresholds.w_latency: found 2, allowed at least 0, at most 1",
        ),
        (
            with("[probe]\ninterval = \"2s\"\n[policy]\nprofile = \"mesh\"\n"),
            "policy.thresholds.stale_after_ms: found 5000, allowed at least 6000: three times probe.interval",
        ),
        (
            with("[policy]\nprofile = \"mesh\"\nthresholds = {fresh_ms = 4000}\n"),
            "policy.thresholds.fresh_ms: found 4000, allowed at least 5000",
        ),
        (
            with("[policy]\nprofile = \"mesh\"\nthresholds = {bandwidth_restricted = 0.7}\n"),
            "policy.thresholds.bandwidth_restricted: found 0.7, allowed at most bandwidth_degraded, 0.6",
        ),
        (
            with("[policy.thresholds]\ncandidate_window = 61\n"),
            "policy.thresholds.candidate_window: found 61, allowed whole, at least 1, at most 60",
        ),
        (
            with(
                "[[policy.workloads]]\nname = \"x\"\ncriticality = 1.5\nlatency_sla = \"20ms\"\njitter_tolerance = 0.5\n",
            ),
            "policy.workloads[0].criticality: found 1.5, allowed 0 to 1",
        ),
        (edit("size = \"256MiB\"", "size = \"100KiB\""), "arena.size: found 100KiB, allowed whole pages of 64KiB"),
        (edit("[arena]\npath = \"/dev/shm/seam-p0\"\nsize = \"256MiB\"", ""), "arena: the section is missing"),
        (
            format!("{as_decode}{decode}").replace("128MiB", "512MiB"),
            "decode.kv_bytes: found 512MiB, allowed at most arena.size, 256MiB",
        ),
        (
            format!("{as_decode}{decode}engine = {{kind = \"vllm\"}}\n"),
            "decode.engine.kind: not available in this version",
        ),
        (
            format!("{as_decode}{decode}soft_fraction = 0.0\n"),
            "decode.soft_fraction: found 0, allowed above 0, at most 1",
        ),
    ];
    for (text, needle) in cases {
        let error = refusal(&text);
        assert!(error.contains(needle), "{needle}\nin\n{error}");
    }
}

#[test]
fn the_prs_threshold_that_nobody_wrote_is_that_of_the_profile() {
    let read = |extra: &str| Config::from_toml(&with(extra), "seam.toml").unwrap();
    let limit = |config: &Config| config.policy.thresholds.prs_reject_threshold;
    assert_eq!(limit(&read("[policy]\nprofile = \"reference\"\n")), 0.75);
    assert_eq!(limit(&read("[policy]\nprofile = \"mesh\"\n")), 0.25);
    let said = read("[policy]\nprofile = \"mesh\"\nthresholds = {prs_reject_threshold = 0.75}\n");
    assert_eq!(limit(&said), 0.75);
    assert_eq!(Config::from_toml(&said.to_toml(), "again").unwrap(), said);
}

#[test]
fn a_configured_class_replaces_the_built_in_one_of_its_name() {
    let class = |name: &str| {
        format!(
            "[[policy.workloads]]\nname = \"{name}\"\ncriticality = 0.3\nlatency_sla = \"80ms\"\njitter_tolerance = 0.5\n"
        )
    };
    let config = Config::from_toml(&with(&(class("batch") + &class("mine"))), "seam.toml").unwrap();
    let classes = config.workloads();
    assert_eq!(classes.len(), 6);
    assert_eq!(classes[0].name.as_str(), "batch");
    assert_eq!(classes[0].latency_sla_ms, 80.0);
    let twice = refusal(&with(&(class("mine") + &class("mine"))));
    assert!(twice.contains("policy.workloads[1].name: found mine a second time"), "{twice}");
}

#[test]
fn a_decode_host_whose_rails_keep_nobody_out_fences_for_longer_than_its_senders_may_write() {
    let decode = "[decode]\npool = \"a\"\nmax_sessions = 8\nkv_bytes = \"128MiB\"\n";
    let read = |role: &str, backend: &str, transfer: &str| {
        let host = MINIMAL.replace("prefill", role);
        let host = host.replace("7982\"\n", &format!("7982\"\nbackend = \"{backend}\"\n"));
        let decode = if role == "decode" { decode } else { "" };
        let text = format!("{host}{decode}[transfer]\n{transfer}\n");
        // Not every build has every backend, and says so then.
        Config::from_toml(&text, "seam.toml").err().map(|error| error.to_string()).unwrap_or_default()
    };
    for backend in ["nixl", "ucx"] {
        let error = read("decode", backend, "fence_max = \"9999ms\"");
        let words = format!(
            "transfer.fence_max: found 9s 999ms, allowed at least 10s beside the {backend} rail r0: what its sender"
        );
        assert!(error.contains(&words), "{error}");
        let allowed = [
            read("decode", backend, "fence_max = \"10s\""),
            read("prefill", backend, "fence_max = \"1s\""),
            read("decode", backend, "mover = \"engine\"\nfence_max = \"1s\""),
        ];
        assert!(allowed.iter().all(|error| !error.contains("fence_max")), "{allowed:?}");
    }
    assert_eq!(read("decode", "quic", "fence_max = \"1s\""), "");
}

/// Every key of every section, taken from the error that an unknown key gets.
fn schema() -> BTreeMap<&'static str, Vec<String>> {
    let known = |text: String| -> Vec<String> {
        let error = refusal(&text);
        let line = error.lines().find(|line| line.contains("unknown key `zzz`")).unwrap_or_else(|| panic!("{error}"));
        let list = line.split_once("(known: ").unwrap().1.trim_end_matches(')');
        list.split(", ").map(str::to_owned).collect()
    };
    let mut sections: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for section in [
        "node",
        "mesh",
        "tls",
        "api",
        "decode",
        "probe",
        "policy",
        "policy.thresholds",
        "transfer",
        "arena",
        "metrics",
        "journal",
        "records",
    ] {
        sections.insert(section, known(format!("[{section}]\nzzz = 1\n")));
    }
    sections.insert("rails", known("[[rails]]\nzzz = 1\n".to_owned()));
    sections.insert("policy.workloads", known("[[policy.workloads]]\nzzz = 1\n".to_owned()));
    sections.insert("rails.faults", known("[[rails]]\nfaults = {zzz = 1}\n".to_owned()));
    sections.insert("rails.nixl", known("[[rails]]\nnixl = {zzz = 1}\n".to_owned()));
    sections.insert("rails.ucx", known("[[rails]]\nucx = {zzz = 1}\n".to_owned()));
    sections.insert("rails.verbs", known("[[rails]]\nverbs = {zzz = 1}\n".to_owned()));
    sections.insert("decode.engine", known("[decode]\nengine = {zzz = 1}\n".to_owned()));
    sections.insert("api.tls", known("[api]\ntls = {zzz = 1}\n".to_owned()));
    let mut top = known("zzz = 1\n".to_owned());
    top.retain(|section| !sections.contains_key(section.as_str()));
    assert!(top.is_empty(), "sections without a place in this test: {top:?}");
    sections
}

/// `section.key` of every key of a TOML text, commented examples (`#key = …`) included.
fn keys_of(text: &str) -> Vec<String> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])).unwrap_or(line);
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']).to_owned();
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.push(format!("{section}.{key}"));
            if let Some(inline) = value.strip_prefix('{') {
                for pair in inline.split(", ") {
                    keys.push(format!("{section}.{key}.{}", pair.split(' ').next().unwrap()));
                }
            }
        }
    }
    keys
}

#[test]
fn the_default_file_has_every_key_and_says_the_defaults() {
    let text = std::fs::read_to_string("configs/seam.toml").unwrap();
    let keys = keys_of(&text);
    for (section, names) in schema() {
        for name in names {
            let key = format!("{section}.{name}");
            let table = keys.iter().any(|found| found.starts_with(&format!("{key}.")));
            assert!(keys.contains(&key) || table, "{key} is missing in configs/seam.toml");
        }
    }

    let written = Config::from_toml(&text, "configs/seam.toml").unwrap();
    let required = r#"
        [node]
        name = "node-0"
        roles = ["prefill", "decode"]
        [tls]
        dev = true
        [decode]
        pool = "pool-a"
        max_sessions = 8
        kv_bytes = "1GiB"
        [[rails]]
        name = "rail0"
        bind = "127.0.0.1:7982"
        [arena]
        path = "/dev/shm/seam-node-0"
        size = "1GiB"
    "#;
    assert_eq!(written, Config::from_toml(required, "required").unwrap());

    // Every commented example is legal in itself: no key of it is unknown or unreadable.
    let uncommented: String = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    if let Err(error) = Config::from_toml(&uncommented, "uncommented") {
        let text = error.to_string();
        assert!(!text.contains("unknown key") && !text.contains("allowed a "), "{text}");
    }
}

#[test]
fn the_documentation_has_one_row_for_every_key_and_no_other() {
    let text = std::fs::read_to_string("docs/configuration.md").unwrap();
    let mut documented: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key.to_owned()))
        .collect();
    documented.sort();
    let mut expected: Vec<_> = schema()
        .into_iter()
        .flat_map(|(section, names)| names.into_iter().map(move |name| format!("{section}.{name}")))
        .filter(|key| {
            ![
                "decode.engine",
                "rails.faults",
                "rails.nixl",
                "rails.ucx",
                "rails.verbs",
                "api.tls",
                "policy.thresholds",
                "policy.workloads",
            ]
            .contains(&key.as_str())
        })
        .collect();
    expected.sort();
    assert_eq!(documented, expected);
}
