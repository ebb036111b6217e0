//! `seamctl replay`.

use super::*;

#[test]
fn the_command_prints_a_table_of_at_most_a_hundred_columns() {
    let mut text = String::new();
    for args in [
        &["--profile", "reference"] as &[&str],
        &["--policy", "seam", "--policy", "lowest_latency", "--rivals-see", "up"],
    ] {
        let output = seamctl(&[&[PUBLISHED], args].concat());
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        text.push_str(&format!("$ seamctl replay trace.csv {}\n{}\n", args.join(" "), out(&output)));
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\u{1b}'), "colour where there is no terminal");
    insta::assert_snapshot!("seamctl_replay", text);
}

#[test]
fn the_command_prints_json_and_writes_equal_files_for_equal_input() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["first", "second"].map(|name| folder.path().join(name).join("deep"));
    for dir in &dirs {
        let output = seamctl(&[PUBLISHED, "--profile", "reference", "--json", "--out", dir.to_str().unwrap()]);
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        let printed: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(printed["policy_metrics"]["seam"]["tolerant_degraded_pct"], 100.0);
        assert_eq!(printed["rivals_see"], "admissible");
        assert_eq!(printed["neither_requests"], 0);
        let written: Value = serde_json::from_str(&read(&dir.join("replay.json"))).unwrap();
        assert_eq!(written, printed);
    }
    let up = seamctl(&[PUBLISHED, "--rivals-see", "up", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out(&up)).unwrap()["rivals_see"], "up");
    let mut names: Vec<_> = dirs[0].read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["choices.csv", "replay.csv", "replay.json"]);
    for name in names {
        assert_eq!(read(&dirs[0].join(&name)), read(&dirs[1].join(&name)), "{name:?}");
    }
    let choices = read(&dirs[0].join("choices.csv"));
    assert_eq!(choices.lines().count(), 11);
    let table = read(&dirs[0].join("replay.csv"));
    assert!(table.contains("\nlowest_latency,10,5,33.3,75.0,0,0,1\n"), "{table}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_command_refuses_with_status_two_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.csv");
    std::fs::write(&bad, trace(&[row(&[]), row(&[("request_id", "r2"), ("latency_ms", "-1")])])).unwrap();
    let dir = folder.path().join("out");
    let output = seamctl(&[bad.to_str().unwrap(), "--out", dir.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(err(&output).contains("bad.csv, line 3, latency_ms: found \"-1\", allowed"), "{}", err(&output));
    // Neither files nor the folder for them, wherever the fault lies.
    assert!(!dir.exists());
    let deep = dir.join("deep");
    for input in [PUBLISHED, "no/such.csv"] {
        let args = [PUBLISHED, input, "no/such.csv", "--out", deep.to_str().unwrap()];
        let output = seamctl(&args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        assert_eq!(err(&output), "seamctl: no/such.csv: No such file or directory (os error 2)\n");
        assert!(!dir.exists());
    }

    for (args, part) in [
        (&[PUBLISHED, env!("CARGO_MANIFEST_DIR")] as &[&str], "give either journals or CSV traces\n"),
        (&[PUBLISHED, "--config", "no/such.toml"], "no/such.toml: cannot be read"),
        (&[], "FILE"),
        (&[PUBLISHED, "--policy", "sem"], "seam"),
        (&[PUBLISHED, "--policy", "kv_load"], "no column prefix_blocks"),
        (&[PUBLISHED, "--rivals-see", "all"], "admissible"),
    ] {
        let output = seamctl(args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{args:?}");
        assert!(err(&output).contains(part), "{args:?}: {}", err(&output));
    }
}

#[test]
fn broken_compression_names_the_file_and_its_fault_once() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.csv.gz");
    let mut bytes = gzip(TRACE);
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&broken, bytes).unwrap();
    let output = seamctl(&[broken.to_str().unwrap()]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    let words = err(&output);
    let fault = words.trim_end().strip_prefix(&format!("seamctl: {}: ", broken.display())).unwrap();
    assert!(!fault.is_empty() && !fault.contains(':'), "{words}");
}

#[test]
fn a_configuration_decides_the_same_history_by_its_own_profile_and_thresholds() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.csv");
    let slow = row(&[
        ("workload_type", "batch"),
        ("latency_ms", "20"),
        ("criticality", "0.2"),
        ("sla_ms", "200"),
        ("jitter_tolerance", "0.9"),
        ("is_prefill_decode_strict", "false"),
    ]);
    std::fs::write(&history, trace(&[slow])).unwrap();
    let prefill = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/prefill.toml"));
    let config = folder.path().join("seam.toml");
    let decided = |policy: &str, args: &[&str]| {
        std::fs::write(&config, format!("{prefill}\n[policy]\n{policy}")).unwrap();
        let files = [history.to_str().unwrap(), "--json", "--config", config.to_str().unwrap()];
        let output = seamctl(&[files.as_slice(), args].concat());
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        let summary: Value = serde_json::from_str(&out(&output)).unwrap();
        (summary["profile"].as_str().unwrap().to_owned(), summary["policy_metrics"]["seam"]["no_pool_count"].clone())
    };
    let stricter = "thresholds.latency_quarantine_ms = 18.0\n";
    let reference = "profile = \"reference\"\n";
    assert_eq!(decided(reference, &[]), ("reference".to_owned(), 0.into()));
    assert_eq!(decided(&format!("{reference}{stricter}"), &[]), ("reference".to_owned(), 1.into()));
    assert_eq!(decided(stricter, &[]), ("mesh".to_owned(), 1.into()));
    // What is said beside it wins, and the thresholds stay the file's.
    assert_eq!(decided(stricter, &["--profile", "reference"]), ("reference".to_owned(), 1.into()));

    for (text, words) in [
        ("[policy]\nprofil = \"mesh\"\n", "policy.profil: unknown key"),
        (
            "[policy.thresholds]\nlatency_quarantine_ms = \"high\"\n",
            "latency_quarantine_ms: found \"high\", allowed a number\n",
        ),
        ("", "found nothing, allowed a [policy] table, or an agent's whole configuration"),
    ] {
        std::fs::write(&config, text).unwrap();
        let output = seamctl(&[PUBLISHED, "--config", config.to_str().unwrap()]);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        assert!(err(&output).starts_with("seamctl: --config ") && err(&output).contains(words), "{}", err(&output));
    }
}

#[test]
fn a_file_with_the_policy_alone_is_enough_and_what_it_changes_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rules.toml");
    std::fs::write(&config, "[policy]\nthresholds.latency_quarantine_ms = 18.0\n").unwrap();
    let config = config.to_str().unwrap();
    let dir = folder.path().join("out");
    let json: Value = serde_json::from_str(&out(&seamctl(&[PUBLISHED, "--json", "--config", config]))).unwrap();
    let changed = serde_json::json!({ "latency_quarantine_ms": { "default": 40.0, "found": 18.0 } });
    assert_eq!(json["config"], serde_json::json!({ "file": config, "thresholds_changed": changed }));
    assert_eq!(json["profile"], "mesh");
    let output = seamctl(&[PUBLISHED, "--config", config, "--out", dir.to_str().unwrap()]);
    let words = format!(
        "Rules: --config {config}, which changes of the profile's thresholds:\n  \
         latency_quarantine_ms 18 (40 in mesh)\n"
    );
    assert!(out(&output).contains(&words), "{}", out(&output));
    let written: Value = serde_json::from_str(&read(&dir.join("replay.json"))).unwrap();
    assert_eq!(written, json);

    // Against the profile that decides: the limit of PRS, which the file does not name, follows it.
    let output = seamctl(&[PUBLISHED, "--config", config, "--profile", "reference"]);
    assert!(out(&output).contains("\n  latency_quarantine_ms 18 (40 in reference)\n"), "{}", out(&output));
    assert!(!out(&output).contains("prs_reject_threshold"), "{}", out(&output));
    let plain: Value = serde_json::from_str(&out(&seamctl(&[PUBLISHED, "--json"]))).unwrap();
    assert_eq!(plain["config"], Value::Null);
}
