use super::*;
use crate::agent::settings;
use crate::config::Config;
use crate::policy::{self, Policy};

/// A real record: one of a node without paths.
fn record(number: u64) -> Arc<DecisionRecord> {
    let text = "[node]\nname = \"p0\"\nroles = [\"router\"]\n[tls]\ndev = true\n";
    let config = Config::from_toml(text, "p0").unwrap();
    let mut policy = Policy::new(GENERATION, settings::own(&config, &[]), settings::policy(&config));
    let request = serde_json::from_str(r#"{"workload": "batch", "kv_bytes": 1}"#).unwrap();
    let request_id = format!("r{number}").parse().unwrap();
    let mut out = Vec::new();
    policy.step(Now::default(), policy::Input::Route { key: 1, request_id, request, traceparent: None }, &mut out);
    let decided = |output: policy::Output| match output {
        policy::Output::Decided(record) => Some(record),
        _ => None,
    };
    out.into_iter().find_map(decided).unwrap()
}

fn assembled(dir: &Path, rotate: u64, retain: u64) -> (Journal, Writer, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new("mesh", 8));
    let records = Some(RecordsConfig { dir: dir.to_owned(), rotate, retain });
    let settings = Settings { node: node(), journal: None, records, config_hash: Box::new(String::new) };
    let (journal, writer) = prepare(settings, metrics.clone()).unwrap().unwrap().assemble(GENERATION);
    (journal, writer, metrics)
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_decision_is_one_line_in_the_form_of_the_api_without_a_journal() {
    let dir = TempDir::new().unwrap();
    let (journal, mut writer, _) = assembled(dir.path(), 1 << 20, 1 << 30);
    writer.round(Instant::now());
    assert!(files(dir.path()).is_empty(), "no file before the first decision");
    assert!(journal.tape::<HealthCore>().is_none());
    let records = [record(1), record(2), record(3)];
    records.iter().for_each(|record| journal.decided(record));
    writer.round(Instant::now());
    assert_eq!(files(dir.path()), ["decisions-p0-7-000000.jsonl"]);
    let text = std::fs::read_to_string(dir.path().join("decisions-p0-7-000000.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, records.each_ref().map(|record| serde_json::to_string(&**record).unwrap()));
    assert_eq!(serde_json::from_str::<DecisionRecord>(lines[2]).unwrap(), *records[2]);
}

#[test]
fn a_full_file_is_followed_by_the_next_and_the_oldest_go() {
    let dir = TempDir::new().unwrap();
    let (journal, mut writer, metrics) = assembled(dir.path(), 64 << 10, 128 << 10);
    std::fs::write(dir.path().join("decisions-p0-6-000900.jsonl"), "{}\n").unwrap();
    std::fs::write(dir.path().join("decisions-p1-6-000000.jsonl"), "{}\n").unwrap();
    let record = record(1);
    let line = serde_json::to_string(&*record).unwrap().len() as u64 + 1;
    let of_one_file = (64_u64 << 10).div_ceil(line);
    for _ in 0..of_one_file * 3 {
        journal.decided(&record);
        writer.round(Instant::now());
    }
    journal.decided(&record);
    writer.round(Instant::now());
    let names = files(dir.path());
    let left = ["decisions-p0-7-000003.jsonl", "decisions-p1-6-000000.jsonl"];
    assert!(left.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
    assert!(!names.contains(&"decisions-p0-6-000900.jsonl".to_owned()), "{names:?}");
    assert!(!names.contains(&"decisions-p0-7-000000.jsonl".to_owned()), "{names:?}");
    assert_eq!(counted(&metrics, "seam_queue_dropped_total{queue=\"records\"}"), 0);
}

#[test]
fn a_folder_that_cannot_be_written_loses_lines_and_counts_them() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("records");
    let (journal, mut writer, metrics) = assembled(&dir, 64 << 10, 128 << 10);
    std::fs::remove_dir(&dir).unwrap();
    std::fs::write(&dir, "no folder").unwrap();
    journal.decided(&record(1));
    journal.decided(&record(2));
    writer.round(Instant::now());
    assert_eq!(counted(&metrics, "seam_queue_dropped_total{queue=\"records\"}"), 2);
    std::fs::remove_file(&dir).unwrap();
    // It is tried again.
    journal.decided(&record(3));
    writer.round(Instant::now() + Duration::from_secs(60));
    assert!(dir.is_dir());
    assert_eq!(files(&dir), ["decisions-p0-7-000000.jsonl"]);
}
