//! The record and `docs/decision.schema.json` describe the same thing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use jsonschema::Validator;
use seam::model::Mover;
use seam::model::Profile;
use seam::model::{Blame, DecisionId, Extent, Lease, Outcome, PathState, Reason};
use seam::policy::record::DecisionRecord;
use seam::policy::select::{SelectionPolicy, Skipped};
use seam::whatif::decide_line;
use serde_json::{Value, json};

fn root(name: &str) -> String {
    format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn schema() -> Value {
    serde_json::from_str(&std::fs::read_to_string(root("docs/decision.schema.json")).unwrap()).unwrap()
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

fn conformance_records() -> Vec<DecisionRecord> {
    let file = std::fs::File::open(root("tests/data/decisions.jsonl.gz")).unwrap();
    let line = |line: std::io::Result<String>| {
        let mut case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        case.as_object_mut().unwrap().remove("expect");
        for pool in case["pools"].as_array_mut().unwrap() {
            pool.as_object_mut().unwrap().retain(|name, _| !name.starts_with("expect"));
        }
        let number = case["case"].as_u64().unwrap();
        decide_line(&case.to_string(), Profile::Reference, number).unwrap()
    };
    BufReader::new(GzDecoder::new(file)).lines().map(line).collect()
}

/// A record as an agent makes it: every field that may be null is not.
fn full_record() -> DecisionRecord {
    let line = r#"{"workload": "batch", "pools": [
        {"pool_id": "a", "node": "d0", "path": "p0>d0/r0/quic", "risk_group": "rack-1",
         "samples": [[2.0, 0.0]], "ages_ms": [250]},
        {"pool_id": "b", "samples": [[90.0, 1.0]], "active_sessions": 8}
    ]}"#;
    let mut record = decide_line(line, Profile::Reference, 3).unwrap();
    let id = |input| DecisionId { node: "p0".parse().unwrap(), generation: 17, input };
    record.id = id(3);
    record.ts = Some(1_700_000_000_000);
    record.node = Some("p0".parse().unwrap());
    record.request_id = Some("r-1".parse().unwrap());
    record.attempt = 2;
    record.parent = Some(id(2));
    record.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    record.config_hash = Some("09af".into());
    record.mover = Some(Mover::Engine);
    let extents = vec![Extent { offset: 65_536, bytes: 65_536 }];
    record.lease = Some(Lease { id: "d0.3.9".parse().unwrap(), kv_bytes: 1000, extents, ttl_ms: 5000 });
    record.candidates[0].predicted_ms = Some(12.5);
    record.candidates[0].blame = Some(Blame::Between);
    record.candidates[0].capacity.age_ms = Some(40);
    record.candidates[1].detail = Some("attempt 1 of this request failed here".into());
    record
}

fn assert_valid(validator: &Validator, record: &DecisionRecord) {
    let json = serde_json::to_value(record).unwrap();
    if let Err(error) = validator.validate(&json) {
        panic!("{} at {}: {json:#}", error, error.instance_path);
    }
}

#[test]
fn every_conformance_record_is_valid_and_reads_back_as_it_was_written() {
    let validator = validator();
    let records = conformance_records();
    assert_eq!(records.len(), 1200);
    for record in &records {
        assert_valid(&validator, record);
        let text = serde_json::to_string(record).unwrap();
        let back: DecisionRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}

#[test]
fn a_record_without_any_null_is_valid_and_reads_back() {
    let record = full_record();
    assert_valid(&validator(), &record);
    let back: DecisionRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!((&back.lease, &back.parent, &back.mover), (&record.lease, &record.parent, &record.mover));
    assert_eq!(back.candidates[0].target, record.candidates[0].target);
}

#[test]
fn the_fields_come_in_the_order_of_the_schema() {
    let text = serde_json::to_string(&full_record()).unwrap();
    let schema_text = std::fs::read_to_string(root("docs/decision.schema.json")).unwrap();
    let order = |text: &str, names: &[&str]| {
        let place = |name: &&str| text.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}"));
        let places: Vec<usize> = names.iter().map(place).collect();
        assert!(places.is_sorted(), "{names:?} {places:?}");
    };
    let names = ["schema", "id", "ts", "request_id", "attempt", "parent", "traceparent", "workload", "profile"];
    order(&text, &names);
    order(&schema_text[schema_text.find("\"properties\"").unwrap()..], &names);
    order(&text, &["config_hash", "mover", "outcome", "reason", "lease", "candidates", "gfs", "prs", "fae", "code"]);
}

#[test]
fn scores_are_written_with_four_decimals_and_measurements_as_they_are() {
    let mut record = full_record();
    let candidate = &mut record.candidates[0];
    (candidate.gfs, candidate.prs, candidate.fae) = (0.123_456, 0.03125, 3.000_04);
    candidate.health.p99_latency_ms = 2.123_456_789;
    let json = serde_json::to_value(&record).unwrap();
    let candidate = &json["candidates"][0];
    assert_eq!(candidate["gfs"], 0.1235);
    assert_eq!(candidate["prs"], 0.0312);
    assert_eq!(candidate["fae"], 3.0);
    assert_eq!(candidate["health"]["p99_latency_ms"], 2.123_456_789);
}

#[test]
fn what_is_no_record_is_refused() {
    let validator = validator();
    let good = serde_json::to_value(full_record()).unwrap();
    assert!(validator.is_valid(&good));
    let changes = [
        ("/schema", json!("seam.decision/2")),
        ("/id", json!("p0")),
        ("/attempt", json!(0)),
        ("/outcome", json!("rejected_capacity")),
        ("/outcome", json!("no_admissible_pool")),
        ("/chosen", Value::Null),
        ("/chosen/pool", json!("a pool")),
        ("/config_hash", json!("xyz")),
        ("/workload/criticality", json!(1.5)),
        ("/lease/kv_bytes", json!(-1)),
        ("/candidates/0/path", json!("p0>d0/r0/tcp")),
        ("/candidates/0/path_state", json!("DEGRADED")),
        ("/candidates/0/gfs", json!(1.01)),
        ("/candidates/0/code", json!("because")),
        ("/candidates/0/chosen", json!(false)),
        ("/candidates/1/chosen", json!(true)),
        ("/candidates/0/selection_vector", json!([])),
        ("/candidates/1/selection_policy", json!("balanced")),
        ("/candidates/1/observed", json!("8")),
        ("/candidates/0/health/evidence", json!("rumour")),
    ];
    for (pointer, value) in changes {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
    for object in
        ["", "/workload", "/chosen", "/lease", "/candidates/0", "/candidates/0/capacity", "/candidates/0/health"]
    {
        let mut bad = good.clone();
        bad.pointer_mut(object).unwrap()["surprise"] = json!(1);
        assert!(!validator.is_valid(&bad), "{object}: an unknown field");
        let names: Vec<String> = good.pointer(object).unwrap().as_object().unwrap().keys().cloned().collect();
        for name in names {
            let mut bad = good.clone();
            bad.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(&name);
            assert!(!validator.is_valid(&bad), "{object}: without {name}");
        }
    }
}

#[test]
fn the_schema_lists_every_code() {
    let schema = schema();
    let codes = |pointer: &str| -> Vec<String> {
        let list = schema.pointer(pointer).unwrap().as_array().unwrap();
        list.iter().filter_map(|code| code.as_str().map(str::to_owned)).collect()
    };
    let names = |all: &[&str]| all.iter().map(|&code| code.to_owned()).collect::<Vec<_>>();
    let candidate = "/$defs/candidate/properties";
    assert_eq!(codes("/$defs/reason/enum"), names(&Reason::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>()));
    assert_eq!(codes("/$defs/state/enum"), names(&PathState::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>()));
    let outcomes = names(&Outcome::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>());
    assert_eq!(codes("/properties/outcome/enum"), outcomes);
    assert_eq!(codes("/properties/reason/enum"), outcomes);
    assert_eq!(
        codes("/properties/mover/enum"),
        names(&Mover::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>())
    );
    let policies = SelectionPolicy::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    assert_eq!(codes(&format!("{candidate}/selection_policy/enum")), names(&policies));
    let skipped = Skipped::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    assert_eq!(codes(&format!("{candidate}/skipped_reason/enum")), names(&skipped));
    let blame = Blame::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    assert_eq!(codes(&format!("{candidate}/blame/enum")), names(&blame));
}
