//! The demo as a user runs it: one program, nothing installed, nothing left behind.

#![cfg(feature = "agent")]
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seam::client::Client;
use serde_json::Value;

fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.arg("demo").args(arguments).env("TMPDIR", folder).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_short_run_verifies_every_transfer_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--requests", "60", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["requests"], 60);
    let decided: u64 = report["decisions"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(decided, 60);
    let transfers = &report["transfers"];
    assert!(transfers["ok"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(transfers["ok"], transfers["verified"]);
    assert_eq!(report["over_commits"], 0);
    assert!(report["gray_path"].as_str().unwrap().starts_with("p0>d"));
    assert_eq!(report["agents"].as_array().unwrap().len(), 5);
    assert!(is_empty(folder.path()));
}

#[tokio::test]
async fn a_kept_mesh_answers_until_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = demo(folder.path(), &["--requests", "20", "--prefill", "1", "--decode", "2", "--keep", "--json"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    for agent in report["agents"].as_array().unwrap() {
        let client = Client::new(agent["api"].as_str().unwrap(), None).unwrap();
        let status: Value = client.get("/v1/status").await.unwrap();
        assert_eq!(status["node"], agent["name"]);
    }
    assert!(!is_empty(folder.path()));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(is_empty(folder.path()));
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = demo(folder.path(), &["--speedup", "1"]).spawn().unwrap();
    // The stream would last minutes; it is ended once it runs.
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(progress.any(|line| line.unwrap().contains("requests served")));
    interrupt(&child);
    assert!(progress.any(|line| line.unwrap().contains("ended early")));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(is_empty(folder.path()));
}

#[test]
fn what_cannot_be_used_is_said_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, "arrival_s,input_tokens,output_tokens\n0,x,1\n").unwrap();
    for (arguments, expected) in [
        (vec!["--prefill", "0"], "'--prefill <N>': allowed a whole number, 1 to 8"),
        (vec!["--model", "llama-3-8b"], "(did you mean llama-3.1-8b?)"),
        (vec!["--trace", "/nowhere/trace.csv"], "/nowhere/trace.csv: No such file"),
        (vec!["--trace", trace.to_str().unwrap()], "trace.csv, line 2, input_tokens: found x"),
    ] {
        let output = demo(folder.path(), &arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors:?} lacks {expected:?}");
    }
}
