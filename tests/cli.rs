//! The two programs as their users meet them: help, errors, exit statuses, offline commands.

#![cfg(feature = "agent")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use seam::config::Config;
use seam::policy::record::DecisionRecord;

fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    for name in ["SEAM_AGENT", "SEAM_TOKEN_FILE", "RUST_LOG", "COLUMNS", "NOTIFY_SOCKET"] {
        command.env_remove(name);
    }
    command
}

fn seamctl(args: &[&str]) -> Output {
    program(env!("CARGO_BIN_EXE_seamctl")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn seam_agent(args: &[&str]) -> Output {
    program(env!("CARGO_BIN_EXE_seam-agent")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn decide(args: &[&str], input: &str) -> Output {
    let mut child = program(env!("CARGO_BIN_EXE_seamctl"))
        .arg("decide")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn every_command_explains_itself() {
    let mut text = String::new();
    let commands: &[&[&str]] = &[
        &[],
        &["demo"],
        &["decide"],
        &["simulate"],
        &["experiments"],
        &["evaluate"],
        &["replay"],
        &["timeline"],
        &["doctor"],
        &["status"],
        &["members"],
        &["paths"],
        &["decisions"],
        &["explain"],
        &["route"],
        &["lease", "list"],
        &["lease", "release"],
        &["load"],
        &["drain"],
        &["undrain"],
        &["certs"],
        &["certs", "init"],
        &["certs", "issue"],
        &["completions"],
    ];
    for command in commands {
        let output = seamctl(&[*command, &["--help"]].concat());
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        text.push_str(&format!("$ seamctl {} --help\n{}\n", command.join(" "), out(&output)));
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100));
    insta::assert_snapshot!("seamctl_help", text);
    insta::assert_snapshot!("seam_agent_help", out(&seam_agent(&["--help"])));
}

#[test]
fn bad_usage_is_status_two_and_says_what_is_allowed() {
    let mut text = String::new();
    let cases: [&[&str]; 25] = [
        &["statsu"],
        &["status", "--agent", "127.0.0.1:7980"],
        &["status", "--agent", "https://127.0.0.1:7980"],
        &["decisions", "--outcome", "good"],
        &["decisions", "--limit", "0"],
        &["explain", "17"],
        &["route", "a b"],
        &["route", "batch", "--bytes", "lots"],
        &["route", "batch", "--source", "p1"],
        &["decide", "--profile", "mash"],
        &["demo", "--prefill", "0"],
        &["demo", "--decode", "-1"],
        &["demo", "--requests", "many"],
        &["demo", "--speedup", "-0.5"],
        &["demo", "--seed", "-1"],
        &["demo", "--model", "mistral-7b"],
        &["simulate", "--seed", "1.5"],
        &["replay", "trace.csv", "--seed", "-1"],
        &["timeline", "dir", "--out", "x.svg", "--width", "-10"],
        &["timeline", "dir", "--out", "x.svg", "--from", "-1"],
        &["route", "batch", "--bytes", "-1"],
        &["certs", "issue", "dir", "no/name"],
        &["load"],
        &["load", "--agent", "http://127.0.0.1:1", "--rate", "0"],
        &["load", "--agent", "http://127.0.0.1:1", "--rate", "1", "--speedup", "2"],
    ];
    for args in cases {
        let output = seamctl(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
        text.push_str(&format!("$ seamctl {}\n{}\n", args.join(" "), err(&output)));
    }
    insta::assert_snapshot!("seamctl_bad_usage", text);
}

#[test]
fn an_agent_that_does_not_answer_is_status_one() {
    // A socket that is bound and then closed: nobody listens there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}");
    for args in [vec!["status"], vec!["drain"], vec!["decisions", "--follow"], vec!["lease", "list", "--json"]] {
        let output = seamctl(&[args.as_slice(), &["--agent", &url]].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let error = err(&output);
        assert!(error.contains(&url) && error.contains("is the agent running?"), "{error}");
    }
}

const LINE: &str = r#"{"workload": "interactive", "pools": [{"pool_id": "a", "samples": [[2.1, 0.0], [2.0, 0.0], [2.2, 0.0]]}, {"pool_id": "b", "samples": [[90.0, 0.0], [2.0, 0.0], [2.0, 0.0]]}]}"#;

#[test]
fn decide_prints_one_record_a_line_from_standard_input_or_a_file() {
    let output = decide(&[], &format!("{LINE}\n\n{LINE}\n"));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let records: Vec<DecisionRecord> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].chosen.as_ref().unwrap().pool.as_str(), "a");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{LINE}").unwrap();
    let from_file = decide(&["--input", file.path().to_str().unwrap(), "--profile", "mesh"], "");
    assert_eq!(out(&from_file).lines().next(), out(&output).lines().next(), "mesh is the default");
    let reference = decide(&["--profile", "reference"], LINE);
    assert!(out(&reference).contains(r#""profile":"reference""#));
}

#[test]
fn decide_names_the_line_at_fault_and_keeps_what_came_before() {
    let output = decide(&[], &format!("{LINE}\n{{\"workload\": \"interactiv\", \"pools\": []}}\n{LINE}\n"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(out(&output).lines().count(), 1);
    assert!(err(&output).starts_with("seamctl: standard input:2: "), "{}", err(&output));
    let missing = decide(&["--input", "no/such/file"], "");
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).contains("no/such/file"));
}

#[test]
fn evidence_that_cannot_be_written_is_bad_usage_and_names_the_option() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let out_dir = file.path().to_str().unwrap();
    for command in ["experiments", "evaluate"] {
        let output = seamctl(&[command, "--out", out_dir]);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{command}: {}", err(&output));
        assert!(err(&output).starts_with(&format!("seamctl: --out {out_dir}: ")), "{}", err(&output));
    }
    assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 0);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = program(env!("CARGO_BIN_EXE_seamctl"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn certificates_are_made_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ca");
    let dir = dir.to_str().unwrap();
    let made = seamctl(&["certs", "init", dir, "--cluster", "lab"]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    assert_eq!(seamctl(&["certs", "init", dir]).status.code(), Some(1));
    let issued = seamctl(&["certs", "issue", dir, "p0", "--san", "p0.lab", "--san", "127.0.0.1"]);
    assert_eq!(issued.status.code(), Some(0), "{}", err(&issued));
    for name in ["ca.pem", "p0.pem", "p0-key.pem"] {
        assert!(out(&issued).contains(name), "{}", out(&issued));
        assert!(Path::new(dir).join(name).exists());
    }
    let section = out(&issued).split_once("[tls]\n").unwrap().1.to_owned();
    assert!(section.lines().all(|line| line.contains(" = \"")), "{section}");
    assert_eq!(seamctl(&["certs", "issue", dir, "p0"]).status.code(), Some(1));
    assert_eq!(seamctl(&["certs", "issue", "no/such/ca", "p1"]).status.code(), Some(1));
}

#[test]
fn the_agent_checks_its_configuration_and_prints_the_effective_one() {
    for name in ["seam", "prefill", "decode", "engine-mover"] {
        let path = format!("configs/{name}.toml");
        let output = seam_agent(&["--config", &path, "--check"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let printed = Config::from_toml(&out(&output), "printed").unwrap();
        assert_eq!(printed, Config::load(Path::new(&path)).unwrap());
    }
}

#[test]
fn an_agent_that_cannot_start_says_why_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("seam.toml");
    let prefill = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/configs/prefill.toml")).unwrap();
    // No machine has an address that is set aside for documents.
    let here = folder.path().to_str().unwrap();
    let text = prefill.replace("127.0.0.1:7982", "192.0.2.1:7982").replace("/tmp/seam", here).replace("/dev/shm", here);
    let text = text.replace("dev = true", "dev = true\nallow_insecure_dev = true");
    std::fs::write(&config, text).unwrap();
    let output = seam_agent(&["--config", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let words = err(&output) + &out(&output);
    let failed = words.lines().find(|line| line.contains("the agent cannot start")).unwrap();
    assert_eq!(failed.matches("os error").count(), 1, "{failed}");
}

#[test]
fn the_document_of_the_demo_has_every_option_that_its_help_has() {
    let help = out(&seamctl(&["demo", "--help"]));
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/demo.md")).unwrap();
    let words = help.split_whitespace().filter(|word| word.starts_with("--") && *word != "--help");
    let options: std::collections::BTreeSet<&str> = words.collect();
    assert!(options.len() >= 10, "{options:?}");
    for option in options {
        assert!(document.contains(&format!("\n| `{option}")), "docs/demo.md has no row for {option}");
    }
}

#[test]
fn the_agent_refuses_a_bad_configuration_with_status_two() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    std::fs::write(&path, "[node]\nname = \"p 0\"\nrolls = [\"prefill\"]\n").unwrap();
    for args in [vec!["--check"], vec![]] {
        let output = seam_agent(&[&["--config", path.to_str().unwrap()], args.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(out(&output), "");
        let text = err(&output).replace(folder.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!("seam_agent_bad_configuration", text);
    }
    let missing = seam_agent(&["--config", "no/such.toml", "--check"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).starts_with("no/such.toml: cannot be read: "), "{}", err(&missing));
}

#[test]
fn the_doctor_says_what_a_configuration_asks_in_vain_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("seam.toml");
    let text = |bind: &str| {
        let dir = dir.path().display();
        format!(
            "[node]\nname = \"p0\"\nroles = [\"prefill\"]\ndata_dir = \"{dir}/data\"\n\
             [mesh]\nbind = \"{bind}\"\n[tls]\ndev = true\nallow_insecure_dev = true\n\
             [api]\nbind = \"127.0.0.1:0\"\n[[rails]]\nname = \"r0\"\nbind = \"127.0.0.1:0\"\n\
             [arena]\npath = \"{dir}/arena\"\nsize = \"64KiB\"\n"
        )
    };
    let file = config.to_str().unwrap();
    std::fs::write(&config, text("127.0.0.1:0")).unwrap();
    let well = seamctl(&["doctor", "--config", file]);
    assert_eq!(well.status.code(), Some(0), "{}", err(&well));
    assert!(out(&well).lines().all(|line| line.chars().count() <= 100), "{}", out(&well));

    std::fs::write(&config, text("192.0.2.1:7981")).unwrap();
    let ill = seamctl(&["doctor", "--config", file, "--json"]);
    assert_eq!((ill.status.code(), err(&ill).as_str()), (Some(1), "seamctl: 1 finding to mend\n"));
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&ill.stdout).unwrap();
    let failed: Vec<_> = findings.iter().filter(|finding| finding["verdict"] == "fail").collect();
    assert_eq!((failed.len(), &failed[0]["what"]), (1, &"mesh port".into()));
    assert_eq!(failed[0]["remedy"], "set mesh.bind to an address that ip addr shows");
    assert!(!dir.path().join("data").exists() && !dir.path().join("arena").exists(), "nothing is made");

    let output = seamctl(&["doctor", "--config", "/nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
}
