//! `seamctl replay` on journals, and `seamctl journal`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use seam::core::Core;
use seam::journal::{Entry, Input, Reader, Said, Snapshot, Turn};
use seam::model::Workload;
use seam::policy::{self, Policy};
use serde_json::Value;

use crate::format::GOLDEN;
use crate::recorder::{bytes, header};

/// Runs it in a folder, so that what it prints names no other.
fn seamctl(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    for name in ["SEAM_AGENT", "SEAM_TOKEN_FILE", "RUST_LOG", "COLUMNS"] {
        command.env_remove(name);
    }
    command.args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn golden() -> Vec<Entry> {
    Reader::open(BufReader::new(File::open(GOLDEN).unwrap())).unwrap().map(Result::unwrap).collect()
}

/// A folder with the journal of format 1, and with another in which a decision and a digest are changed.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(GOLDEN, dir.path().join("sound.journal")).unwrap();
    let mut entries = golden();
    let decided = entries.iter_mut().find_map(|entry| match entry {
        Entry::Turn(turn) => turn.said.iter_mut().find_map(|said| match said {
            Said::Decided(record) => Some(record),
            _ => None,
        }),
        _ => None,
    });
    let record = decided.unwrap();
    let mut changed = (**record).clone();
    changed.candidates[0].gfs += 0.25;
    changed.attempt = 2;
    *record = Arc::new(changed);
    let digested = entries.iter_mut().find_map(|entry| match entry {
        Entry::Turn(turn) if turn.said.is_empty() && turn.digest != 0 => Some(turn),
        _ => None,
    });
    digested.unwrap().digest ^= 1;
    std::fs::write(dir.path().join("changed.journal"), bytes(&header("n0", 0), &entries)).unwrap();
    dir
}

#[test]
fn a_verified_journal_and_a_different_one_are_shown() {
    let dir = folder();
    let mut text = String::new();
    for (args, status) in [
        (&["replay", "sound.journal", "--verify"] as &[&str], 0),
        (&["replay", "changed.journal", "--verify"], 1),
        (&["replay", "sound.journal"], 0),
    ] {
        let output = seamctl(dir.path(), args);
        assert_eq!(output.status.code(), Some(status), "{}", err(&output));
        text.push_str(&format!("$ seamctl {}\n{}{}\n", args.join(" "), out(&output), err(&output)));
    }
    insta::assert_snapshot!("seamctl_replay_journals", text);
}

#[test]
fn a_damaged_journal_is_not_called_identical_and_one_torn_at_its_end_is() {
    let dir = folder();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let sound = std::fs::read(GOLDEN).unwrap();
    let middle = sound.len() / 2;
    let mut bytes = sound.clone();
    bytes[middle] ^= 1;
    write("damaged.journal", &bytes);
    bytes = std::fs::read(dir.path().join("changed.journal")).unwrap();
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    write("both.journal", &bytes);
    // As a power failure leaves it: long enough, and without its last contents.
    bytes = sound;
    bytes[middle..].fill(0);
    write("zeros.journal", &bytes);
    for (name, status, begins) in [
        ("damaged.journal", 1, "Damaged: "),
        ("both.journal", 1, "Different and damaged: "),
        ("zeros.journal", 0, "Identical: "),
    ] {
        let output = seamctl(dir.path(), &["replay", name, "--verify"]);
        let text = out(&output);
        assert_eq!(output.status.code(), Some(status), "{text}{}", err(&output));
        assert!(text.lines().any(|line| line.starts_with(begins)), "{text}");
        assert_eq!(text.contains("Identical"), status == 0, "{text}");
    }
    // Other rules are tried on what there is, and what is not there is named.
    std::fs::write(dir.path().join("stray.journal"), b"SEAMJRNL\x01\x00").unwrap();
    for args in [&["--profile", "reference"] as &[&str], &["--policy", "round_robin"]] {
        let args = &[&["replay", "damaged.journal", "stray.journal"], args].concat()[..];
        let text = out(&seamctl(dir.path(), args));
        assert!(text.contains("\nNote, n0, life 1800000000000: damaged.journal, byte "), "{text}");
        assert!(text.contains("\nNote: stray.journal: its head cannot be read"), "{text}");
        let output = seamctl(dir.path(), &[args, &["--json"]].concat());
        let report: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(report["lives"][0]["notes"][0]["noted"], "damaged");
        assert_eq!(report["strays"][0]["file"], "stray.journal");
    }
}

#[test]
fn json_says_the_same_in_one_object() {
    let dir = folder();
    let output = seamctl(dir.path(), &["replay", "changed.journal", "--verify", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&report["identical"], &report["differences"]), (&false.into(), &2.into()));
    assert_eq!(report["lives"][0]["node"], "n0");
    let cores = report["lives"][0]["cores"].as_array().unwrap();
    let policy = cores.iter().find(|core| core["part"] == "policy").unwrap();
    let wrong = &policy["first_difference"]["wrong"];
    assert_eq!((&wrong["kind"], &wrong["fields"][0]["field"]), (&"said".into(), &"attempt".into()));
    let output = seamctl(dir.path(), &["replay", "sound.journal", "--json"]);
    let overview: Value = serde_json::from_str(&out(&output)).unwrap();
    assert!(overview["lives"][0]["decisions"].as_u64().unwrap() > 0);
}

#[test]
fn checksums_are_looked_at_file_by_file() {
    let dir = folder();
    let mut bytes = std::fs::read(GOLDEN).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(bytes.len() - 5);
    std::fs::write(dir.path().join("torn.journal"), &bytes).unwrap();
    bytes[middle] ^= 1;
    std::fs::write(dir.path().join("damaged.journal"), &bytes).unwrap();
    std::fs::write(dir.path().join("n0-1800000000000-000002.journal"), self::bytes(&header("n0", 2), &[])).unwrap();
    let mut newer = std::fs::read(GOLDEN).unwrap();
    newer[8] = 2;
    std::fs::write(dir.path().join("newer.journal"), &newer).unwrap();
    // What a crash leaves of a segment before its head is on the disk.
    for (name, bytes) in [
        ("n0-1800000000000-000001", ""),
        ("n0-1800000000000-000003", ""),
        ("n1-7-000000", "SEAMJ"),
        ("n1-8-000000", ""),
    ] {
        std::fs::write(dir.path().join(format!("{name}.journal")), bytes).unwrap();
    }
    std::fs::write(dir.path().join("n1-8-000001.journal"), "SEAMJ").unwrap();
    std::fs::write(dir.path().join("unnamed.journal"), "").unwrap();
    let mut text = String::new();
    for (args, status) in [
        (&["journal", "verify", "sound.journal"] as &[&str], 0),
        (&["journal", "verify", "torn.journal"], 0),
        (&["journal", "verify", "damaged.journal"], 1),
        (&["journal", "verify", "sound.journal", "n0-1800000000000-000002.journal"], 1),
        (&["journal", "verify", "sound.journal", "torn.journal"], 2),
        (&["journal", "verify", "newer.journal"], 2),
        (&["journal", "verify", "newer.journal", "damaged.journal"], 1),
        (&["journal", "verify", "n1-7-000000.journal"], 0),
        (&["journal", "verify", "torn.journal", "n0-1800000000000-000001.journal"], 1),
        (&["journal", "verify", "sound.journal", "n0-1800000000000-000001.journal"], 1),
        (&["journal", "verify", "n0-1800000000000-000002.journal", "n0-1800000000000-000003.journal"], 0),
        (&["journal", "verify", "n1-8-000000.journal", "n1-8-000001.journal"], 1),
        (&["journal", "verify", "unnamed.journal"], 1),
    ] {
        let output = seamctl(dir.path(), args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", err(&output));
        text.push_str(&format!("$ seamctl {}\n{}{}\n", args.join(" "), out(&output), err(&output)));
    }
    insta::assert_snapshot!("seamctl_journal_verify", text);
    for (name, state) in [
        ("sound", "sound"),
        ("torn", "torn"),
        ("n1-7-000000", "empty"),
        ("newer", "other_format"),
        ("damaged", "damaged"),
    ] {
        let output = seamctl(dir.path(), &["journal", "verify", &format!("{name}.journal"), "--json"]);
        let found: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(found["files"][0]["state"], state, "{name}");
    }
}

#[test]
fn entries_are_shown_as_json_lines_and_filtered() {
    let dir = folder();
    let cat = |args: &[&str]| {
        let output = seamctl(dir.path(), &[&["journal", "cat", "sound.journal"], args].concat());
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{args:?}");
        let lines: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines
    };
    let all = cat(&[]);
    assert_eq!(all.len(), golden().len());
    assert_eq!((&all[0]["file"], &all[0]["node"]), (&"sound.journal".into(), &"n0".into()));
    assert_eq!((&all[0]["entry"]["kind"], &all[0]["entry"]["snapshot"]), (&"snapshot".into(), &Value::Null));
    let positions: Vec<u64> = all.iter().map(|line| line["at"].as_u64().unwrap()).collect();
    assert!(positions.is_sorted() && positions[0] > 10);
    assert_eq!(all.last().unwrap()["entry"]["kind"], "closed");
    let said = cat(&["--part", "policy", "--said"]);
    assert!(!said.is_empty() && said.len() < all.len());
    assert!(said.iter().all(|line| line["entry"]["part"] == "policy"));
    assert!(said.iter().any(|line| line["entry"]["said"][0]["Decided"]["schema"] == "seam.decision/1"));
    for line in cat(&["--snapshots"]).iter().filter(|line| line["entry"]["kind"] == "snapshot") {
        assert!(line["entry"]["snapshot"].is_object(), "{}", line["entry"]["part"]);
    }
}

#[test]
fn what_can_be_read_of_a_damaged_journal_is_shown_before_it_fails() {
    let dir = folder();
    let mut bytes = std::fs::read(GOLDEN).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(dir.path().join("damaged.journal"), &bytes).unwrap();
    let output = seamctl(dir.path(), &["journal", "cat", "damaged.journal"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).lines().count() > 3);
    assert!(err(&output).starts_with("seamctl: damaged.journal: damaged at byte "), "{}", err(&output));
    let output = seamctl(dir.path(), &["replay", "damaged.journal", "--verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("damaged.journal, byte "), "{}", out(&output));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    let child = command.args(["journal", "cat", "--snapshots", "sound.journal"]).current_dir(dir.path());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn journals_and_traces_are_told_apart_and_not_mixed() {
    let dir = folder();
    std::fs::write(dir.path().join("trace.csv"), "timestamp,request_id\n").unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::write(dir.path().join("other.journal"), "something else").unwrap();
    for (args, words) in [
        (&["replay", "sound.journal", "trace.csv"] as &[&str], "give either journals or CSV traces"),
        (&["replay", "trace.csv", "--verify"], "--verify is for journals, and no journal is given"),
        (&["replay", "trace.csv", "--explain", "r1"], "--explain is for journals, and no journal is given"),
        (&["replay", "empty", "--verify"], "no journal in this folder"),
        (&["replay", "other.journal", "--verify"], "no journal: it begins with \"somethin\""),
        (&["replay", "sound.journal", "--out", "x"], "--out is for CSV traces"),
        (&["replay", "sound.journal", "--verify", "--at", "5"], "'--verify' cannot be used with '--at <TIME>'"),
        (&["replay", "sound.journal", "--verify", "--seed", "5"], "'--verify' cannot be used with '--seed <N>'"),
        (&["replay", "sound.journal", "--verify", "--rivals-see", "up"], "cannot be used with '--rivals-see <WHICH>'"),
        (&["replay", "sound.journal", "--seed", "1"], "--seed says how other policies choose"),
        (&["replay", "sound.journal", "--rivals-see", "admissible"], "--rivals-see says how other policies choose"),
        (&["replay", "sound.journal", "--policy", "kv_load"], "policy kv_load: it needs prefix blocks"),
        (&["replay", "sound.journal", "--at", "noon"], "--at goes with --explain REQUEST"),
        (&["replay", "sound.journal", "--at", "noon", "--explain", "r1"], "--at: found \"noon\", allowed a date"),
        (&["replay", "sound.journal", "sound.journal"], "is given twice"),
        (&["journal", "cat", "trace.csv"], "no journal: it begins with \"timestam\""),
        (&["journal", "cat", "sound.journal", "--part", "cpu"], "allowed: health, policy, ledger, mesh"),
    ] {
        let output = seamctl(dir.path(), args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{args:?}");
        assert!(err(&output).contains(words), "{args:?}: {}", err(&output));
    }
}

#[test]
fn other_rules_and_policies_are_tried_on_a_journal_and_a_request_is_explained() {
    let dir = folder();
    let report = |args: &[&str]| -> Value {
        let output = seamctl(dir.path(), &[&["replay", "sound.journal", "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let tried = report(&["--profile", "reference", "--policy", "round_robin"]);
    let requests = tried["requests"].as_u64().unwrap();
    assert!(requests > 0, "{tried}");
    let choosers: Vec<_> = tried["choosers"].as_array().unwrap().iter().map(|row| row["chooser"].clone()).collect();
    let all: Vec<Value> = serde_json::from_str(r#"["recorded", "seam", "changed", "round_robin"]"#).unwrap();
    assert_eq!(choosers, all);
    let same = report(&["--profile", "mesh"]);
    assert_eq!((same["requests"].as_u64(), same["changes"].as_array().unwrap().len()), (Some(requests), 0));

    std::fs::write(dir.path().join("rules.toml"), "[policy]\nthresholds.jitter_restricted_ms = 3\n").unwrap();
    let under = report(&["--config", "rules.toml"]);
    let changed = &under["thresholds_changed"];
    assert_eq!(changed.as_array().unwrap().len(), 1, "a file with the table alone changes what it names: {changed}");
    assert_eq!(
        (changed[0]["name"].as_str(), changed[0]["changed"].as_f64()),
        (Some("jitter_restricted_ms"), Some(3.0))
    );
    assert_eq!((&under["config"], &under["profile"]), (&"rules.toml".into(), &Value::Null));
    assert_eq!(
        (&tried["profile"], &tried["rivals_see"], &tried["seed"]),
        (&"reference".into(), &"admissible".into(), &1.into())
    );
    assert_eq!((&same["config"], &under["requests"]), (&Value::Null, &tried["requests"]));
    let output = seamctl(dir.path(), &["replay", "sound.journal", "--config", "rules.toml"]);
    assert!(out(&output).contains("\n  jitter_restricted_ms 3 (8 recorded)\n"), "{}", out(&output));
    assert!(out(&output).lines().all(|line| line.chars().count() <= 100), "{}", out(&output));

    let output = seamctl(dir.path(), &["replay", "sound.journal", "--policy", "round_robin"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("first choices are what was recorded"), "{}", out(&output));
    let row = &tried["choosers"][1];
    let counts = ["strict", "tolerant", "neither"].map(|kind| row[kind].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), requests);
    let words = format!("{} strict, {} tolerant, {} neither.\nStrict are the classes", counts[0], counts[1], counts[2]);
    assert!(out(&output).contains(&words), "{}", out(&output));

    let decided = golden().into_iter().find_map(|entry| match entry {
        Entry::Turn(turn) => turn.said.into_iter().find_map(|said| match said {
            Said::Decided(record) => Some(record),
            _ => None,
        }),
        _ => None,
    });
    let record = decided.unwrap();
    let request = record.request_id.clone().unwrap();
    let explained = report(&["--explain", request.as_str()]);
    assert_eq!(explained["recorded"][0], serde_json::to_value(&*record).unwrap());
    let output = seamctl(dir.path(), &["replay", "sound.journal", "--explain", request.as_str()]);
    assert!(out(&output).contains(&format!("decision {}", record.id)), "{}", out(&output));
    let output = seamctl(dir.path(), &["replay", "sound.journal", "--explain", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("--explain: no request nobody was decided"), "{}", err(&output));
}

#[test]
fn a_class_that_a_configuration_lacks_is_a_change_that_says_so() {
    let dir = folder();
    let mut entries = golden();
    let (place, mut settings) = entries
        .iter()
        .enumerate()
        .find_map(|(place, entry)| match entry {
            Entry::Snapshot(Snapshot::Policy(core)) => {
                Some((place, Policy::restore((**core).clone()).settings().clone()))
            }
            _ => None,
        })
        .unwrap();
    let own = Workload { name: "own".parse().unwrap(), ..(*settings.workloads[0]).clone() };
    settings.workloads.push(Arc::new(own));
    let mut wanted = None;
    for entry in &mut entries {
        if let Entry::Turn(turn) = entry
            && let Input::Policy(policy::Input::Route { request, request_id, .. }) = &mut turn.input
        {
            request.workload = "own".parse().unwrap();
            wanted = Some(request_id.clone());
        }
    }
    let now = entries.iter().find_map(Entry::now).unwrap();
    let configured = Input::Policy(policy::Input::Configure(Box::new(settings)));
    entries.insert(place + 1, Entry::Turn(Turn { now, input: configured, said: Vec::new(), digest: 0 }));
    std::fs::write(dir.path().join("own.journal"), bytes(&header("n0", 0), &entries)).unwrap();
    // A table by itself leaves the class as it was; a whole configuration is without it.
    std::fs::write(dir.path().join("table.toml"), "[policy]\nprofile = \"mesh\"\n").unwrap();
    let whole = "[node]\nname = \"n0\"\nroles = [\"prefill\"]\n[tls]\ndev = true\n\
                 [[rails]]\nname = \"r0\"\nbind = \"127.0.0.1:0\"\n[arena]\npath = \"/dev/shm/n0\"\nsize = \"1GiB\"\n";
    std::fs::write(dir.path().join("rules.toml"), whole).unwrap();
    let table = seamctl(dir.path(), &["replay", "own.journal", "--config", "table.toml"]);
    assert!(out(&table).contains("No first choice differs under the changed rules."), "{}", out(&table));
    let run = |args: &[&str]| {
        let output = seamctl(dir.path(), &[&["replay", "own.journal", "--config", "rules.toml"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    let words = "workload: found \"own\", known are ";
    let text = run(&[]);
    assert!(text.contains(" (own): nothing instead of "), "{text}");
    assert!(text.contains(&format!("\n  changed rules: refused, {words}")), "{text}");
    let text = run(&["--explain", wanted.unwrap().as_str()]);
    assert!(text.contains("Under the changed rules it would be refused, before any path is looked at:\n"), "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_requests_of_a_trace_are_asked_of_a_journal() {
    let dir = folder();
    let lines = (0..40).map(|number| format!("{},100,1\n", f64::from(number) * 0.1)).collect::<String>();
    std::fs::write(dir.path().join("trace.csv"), format!("arrival_s,input_tokens,output_tokens\n{lines}")).unwrap();
    let run =
        |args: &[&str]| seamctl(dir.path(), &[&["replay", "sound.journal", "--trace", "trace.csv"], args].concat());
    let output = run(&["--json", "--policy", "round_robin"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let tried: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (tried["imported"]["lives"].as_u64(), tried["choosers"][0]["chooser"].as_str()),
        (Some(1), Some("seam"))
    );
    let text = out(&run(&[]));
    assert!(text.contains("The requests are the trace's, asked of 1 life of nodes that route."), "{text}");
    assert!(text.contains(&format!("\n{} requests tried.", tried["requests"])), "{text}");
    let text = out(&run(&["--explain", "trace-2"]));
    assert!(text.starts_with("Request trace-2, ") && text.contains(" of the trace.\n"), "{text}");

    let bad: [(&[&str], &str); 7] = [
        (&["--speedup", "0"], "allowed a number, 0.1 to 10000"),
        (&["--kv-scale", "inf"], "allowed a number, 0.000000001 to 1000"),
        (&["--kv-scale", "-1"], "allowed a number, 0.000000001 to 1000"),
        (&["--mix", "batch"], "found \"batch\", allowed: CLASS=SHARE"),
        (&["--model", "nobody"], "nobody"),
        (&["--verify"], "cannot be used with"),
        (&["--config", "nobody.toml"], "nobody.toml"),
    ];
    for (args, words) in bad {
        let output = run(args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{args:?}");
        assert!(err(&output).contains(words), "{args:?}: {}", err(&output));
    }
    std::fs::write(dir.path().join("trace.csv"), "a,b\n1,2\n").unwrap();
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("trace.csv"), "{}", err(&output));
    let output = seamctl(dir.path(), &["replay", "sound.journal", "--speedup", "2"]);
    assert_eq!(output.status.code(), Some(2), "it says how a trace is asked, and none is given");
}
