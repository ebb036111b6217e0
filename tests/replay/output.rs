//! What `--out` makes: all of it or nothing, and never over an input.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process};

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_input_is_never_overwritten_whatever_links_lead_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let dir = folder.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    };
    let (same, hard, soft, config) = (place("same"), place("hard"), place("soft"), place("config"));
    let input = same.join("choices.csv");
    std::fs::write(&input, TRACE).unwrap();
    std::fs::hard_link(&input, hard.join("replay.csv")).unwrap();
    symlink(&input, soft.join("replay.json")).unwrap();
    let rules = config.join("replay.json");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/configs/prefill.toml"), &rules).unwrap();
    let config_arg = ["--config", rules.to_str().unwrap()];
    for (dir, args, name) in [
        (&same, &[] as &[&str], "choices.csv"),
        (&hard, &[], "replay.csv"),
        (&soft, &[], "replay.json"),
        (&config, &config_arg, "replay.json"),
    ] {
        let before = names(dir);
        let args = [&[input.to_str().unwrap(), "--out", dir.to_str().unwrap()], args].concat();
        let output = seamctl(&args);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{name}");
        let words = format!("--out {0}: {0}/{name} is the same file as the input", dir.display());
        assert!(err(&output).contains(&words), "{}", err(&output));
        assert_eq!(names(dir), before);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.args(["replay", "-", "--out", same.to_str().unwrap()]);
    let output = command.stdin(std::fs::File::open(&input).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("the same file as the input standard input"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&input).unwrap(), TRACE);
}

#[test]
fn a_folder_that_is_not_there_is_made_with_those_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new").join("deep");
    let output = seamctl(&[PUBLISHED, "--out", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(names(&dir), ["choices.csv", "replay.csv", "replay.json"]);
}

#[test]
fn a_place_that_cannot_be_written_is_bad_usage_and_nothing_gets_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let taken = folder.path().join("taken");
    // The last of the three is a folder already.
    std::fs::create_dir_all(taken.join("choices.csv")).unwrap();
    let below = file.join("below");
    for (dir, words) in [
        (file.as_path(), "cannot be written: "),
        (below.as_path(), "cannot be written: "),
        (taken.as_path(), "choices.csv: cannot be written: is a directory"),
        (Path::new("/proc/seam"), "cannot be written: "),
    ] {
        let output = seamctl(&[PUBLISHED, "--out", dir.to_str().unwrap()]);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{}", dir.display());
        let said = err(&output);
        assert!(said.starts_with(&format!("seamctl: --out {}: ", dir.display())) && said.contains(words), "{said}");
    }
    assert_eq!(names(&taken), ["choices.csv"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_signal_ends_a_replay_as_usual_and_leaves_nothing_behind() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        if is_ignored_here(signal) {
            println!("skipped: whoever runs this test ignores {signal:?}, and so does the command");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new").join("deep");
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
        command.args(["replay", "-", "--out", dir.to_str().unwrap()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // It has begun once its file is there, and waits for the rest of its input.
        child.stdin.as_mut().unwrap().write_all(TRACE.as_bytes()).unwrap();
        while !dir.is_dir() || names(&dir).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended too soon");
            std::thread::yield_now();
        }
        // Its input does not end before it does.
        let input = child.stdin.take();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{}", err(&output));
        drop(input);
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does: children inherit that.
fn is_ignored_here(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn a_signal_that_the_caller_ignores_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" replay - --out \"$1\""]);
    command.args([env!("CARGO_BIN_EXE_seamctl"), folder.path().to_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(TRACE.as_bytes()).unwrap();
    while names(folder.path()).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended too soon");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    assert_eq!(names(folder.path()), ["choices.csv", "replay.csv", "replay.json"]);
}
