//! The published experiments: the aggregates come out of the cores.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

use seam::eval::experiments;
use seam::model::Profile;
use serde_json::Value;

/// Whether everything that is in `expected` is in `found`; what `found` has beside it does no harm.
fn contains(found: &Value, expected: &Value, at: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, value) in expected {
                contains(found.get(name).unwrap_or(&Value::Null), value, &format!("{at}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{at}");
            for (index, value) in expected.iter().enumerate() {
                contains(&found[index], value, &format!("{at}[{index}]"));
            }
        }
        (Value::Number(found), Value::Number(expected)) => {
            assert_eq!(found.as_f64(), expected.as_f64(), "{at}");
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}

#[test]
fn the_reference_profile_gives_the_published_aggregates() {
    let path = format!("{}/tests/data/experiments_expected.json", env!("CARGO_MANIFEST_DIR"));
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let found = serde_json::to_value(experiments::run(Profile::Reference).unwrap()).unwrap();
    contains(&found, &expected, "experiments");
}

#[test]
fn the_mesh_profile_is_nowhere_worse_than_the_published_headline() {
    let report = experiments::run(Profile::Mesh).unwrap();
    println!("{}", serde_json::to_string_pretty(&report).unwrap());
}
