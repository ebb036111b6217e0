//! Reading one line, with every complaint naming its field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{Fields, Range, counted, missing, name_error, one_of, wrong};
use super::{MAX_LINE_BYTES, MAX_POOLS, MAX_SAMPLES, Pool, Question, WhatIfError};
use crate::health::Thresholds;
use crate::health::score::ThresholdField;
use crate::health::window::Point;
use crate::model::{Capacity, Mode, OnNoAdmissible, PoolName, Profile, Workload, WorkloadName, builtin_workloads};
use crate::policy::decide::Target;

/// `case` and `effective_criticality` stand in published test vectors; they say nothing here.
const LINE_FIELDS: &[&str] = &["thresholds", "workload", "pools", "case", "effective_criticality"];
const WORKLOAD_FIELDS: &[&str] = &[
    "name",
    "criticality",
    "latency_sla_ms",
    "jitter_tolerance",
    "sync_frequency",
    "checkpoint_size_mb",
    "is_release_path",
    "is_prefill_decode_strict",
];
const POOL_FIELDS: &[&str] = &[
    "pool_id",
    "max_capacity",
    "soft_capacity_fraction",
    "active_sessions",
    "samples",
    "risk_group",
    "node",
    "path",
    "ages_ms",
];

/// The largest latency or age that a line may state: a day, in milliseconds.
const MAX_MS: f64 = 86_400_000.0;

pub(super) fn line(text: &str, profile: Profile) -> Result<Question, WhatIfError> {
    if text.len() > MAX_LINE_BYTES {
        return Err(WhatIfError::TooLong { found: text.len() });
    }
    let value: Value = serde_json::from_str(text).map_err(|error| WhatIfError::NotJson(error.to_string()))?;
    let fields = Fields::of("line", &value, LINE_FIELDS)?;
    let thresholds = match fields.get("thresholds") {
        Some(value) => thresholds(value, profile)?,
        None => Thresholds::of(profile),
    };
    let workload = match fields.get("workload") {
        Some(value) => workload(value)?,
        None => return Err(missing("workload", "a class name or the fields of a workload")),
    };
    let pools = match fields.get("pools") {
        Some(value) => pools(value, &thresholds)?,
        None => return Err(missing("pools", "a list of pools")),
    };
    Ok(Question { thresholds, workload, pools })
}

fn thresholds(value: &Value, profile: Profile) -> Result<Thresholds, WhatIfError> {
    let names: Vec<&str> = ThresholdField::ALL.iter().map(|field| field.name).collect();
    let fields = Fields::of("thresholds", value, &names)?;
    let mut thresholds = Thresholds::of(profile);
    for field in ThresholdField::ALL {
        if let Some(value) = fields.get(field.name) {
            let at = fields.path(field.name);
            let number = value.as_f64().ok_or_else(|| wrong(&at, value, field.allowed()))?;
            field.set(&mut thresholds, number).map_err(|error| wrong(&at, value, error.allowed))?;
        }
    }
    Ok(thresholds)
}

fn workload(value: &Value) -> Result<Workload, WhatIfError> {
    if let Some(name) = value.as_str() {
        let classes = builtin_workloads();
        let names: Vec<String> = classes.iter().map(|class| class.name.to_string()).collect();
        let class = classes.into_iter().find(|class| class.name.as_str() == name);
        return class.ok_or_else(|| wrong("workload", value, one_of(name, &names)));
    }
    let fields = Fields::of("workload", value, WORKLOAD_FIELDS)?;
    let name = match fields.parsed("name")? {
        Some(name) => name,
        None => WorkloadName::new("custom").map_err(name_error("workload.name"))?,
    };
    let unit = Range { low: 0.0, low_allowed: true, high: 1.0 };
    let above_zero = Range { low: 0.0, low_allowed: false, high: f64::MAX };
    let required = |field: &str, range: Range| {
        let number = fields.number(field, range)?;
        number.ok_or_else(|| missing(&fields.path(field), &range.allowed()))
    };
    Ok(Workload {
        name,
        criticality: required("criticality", unit)?,
        latency_sla_ms: required("latency_sla_ms", above_zero)?,
        jitter_tolerance: required("jitter_tolerance", unit)?,
        sync_frequency: fields.number("sync_frequency", unit)?.unwrap_or(0.0),
        checkpoint_size_mb: fields
            .number("checkpoint_size_mb", Range { low_allowed: true, ..above_zero })?
            .unwrap_or(0.0),
        is_release_path: fields.flag("is_release_path")?,
        is_prefill_decode_strict: fields.flag("is_prefill_decode_strict")?,
        mode: Mode::default(),
        on_no_admissible: OnNoAdmissible::default(),
    })
}

fn pools(value: &Value, thresholds: &Thresholds) -> Result<Vec<Pool>, WhatIfError> {
    let allowed = || format!("a list of 1 to {MAX_POOLS} pools");
    let list = value.as_array().ok_or_else(|| wrong("pools", value, allowed()))?;
    if list.is_empty() || list.len() > MAX_POOLS {
        return Err(counted("pools", list.len(), "pools", allowed()));
    }
    let mut samples_left = MAX_SAMPLES;
    let mut seen = BTreeSet::new();
    let mut pools = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let at = format!("pools[{index}]");
        let pool = pool(&at, value, thresholds, &mut samples_left)?;
        if !seen.insert(pool.target.pool.clone()) {
            return Err(WhatIfError::Field {
                field: format!("{at}.pool_id"),
                found: format!("{:?} a second time", pool.target.pool),
                allowed: "each pool once".into(),
            });
        }
        pools.push(pool);
    }
    Ok(pools)
}

fn pool(at: &str, value: &Value, thresholds: &Thresholds, samples_left: &mut usize) -> Result<Pool, WhatIfError> {
    let fields = Fields::of(at, value, POOL_FIELDS)?;
    let pool: PoolName = fields
        .parsed("pool_id")?
        .ok_or_else(|| missing(&fields.path("pool_id"), "1 to 64 letters, digits, '-', '_' or '.'"))?;
    let max_capacity = fields.whole("max_capacity", 1, u32::MAX)?.unwrap_or(thresholds.default_pool_capacity);
    let soft_range = Range { low: 0.0, low_allowed: false, high: 1.0 };
    let soft_fraction =
        fields.number("soft_capacity_fraction", soft_range)?.unwrap_or(thresholds.default_soft_capacity_fraction);
    let active_sessions = fields.whole("active_sessions", 0, max_capacity)?.unwrap_or(0);
    let samples = match fields.get("samples") {
        Some(value) => samples(&fields.path("samples"), value, samples_left)?,
        None => Vec::new(),
    };
    let ages_ms = match fields.get("ages_ms") {
        Some(value) => Some(ages(&fields.path("ages_ms"), value, samples.len())?),
        None => None,
    };
    Ok(Pool {
        target: Target { pool, node: fields.parsed("node")?, path: fields.parsed("path")? },
        risk_group: fields.parsed("risk_group")?,
        capacity: Capacity { active_sessions, max_capacity, soft_fraction },
        samples,
        ages_ms,
    })
}

fn samples(at: &str, value: &Value, left: &mut usize) -> Result<Vec<Point>, WhatIfError> {
    let pair = "a list of [latency_ms, drop_rate]";
    let list = value.as_array().ok_or_else(|| wrong(at, value, pair.into()))?;
    *left = left.checked_sub(list.len()).ok_or_else(|| {
        counted(at, list.len(), "samples", format!("at most {MAX_SAMPLES} in a line, {left} of them left here"))
    })?;
    let latency = Range { low: 0.0, low_allowed: true, high: MAX_MS };
    let drop = Range { low: 0.0, low_allowed: true, high: 1.0 };
    let mut points = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let Some([latency_ms, drop_rate]) = value.as_array().map(Vec::as_slice) else {
            return Err(wrong(&format!("{at}[{index}]"), value, "[latency_ms, drop_rate]".into()));
        };
        points.push(Point {
            latency_ms: latency
                .read(latency_ms)
                .ok_or_else(|| wrong(&format!("{at}[{index}][0]"), latency_ms, latency.allowed()))?,
            drop_rate: drop
                .read(drop_rate)
                .ok_or_else(|| wrong(&format!("{at}[{index}][1]"), drop_rate, drop.allowed()))?,
            bytes: 0,
        });
    }
    Ok(points)
}

/// The age of each sample, whole milliseconds.
fn ages(at: &str, value: &Value, samples: usize) -> Result<Vec<u64>, WhatIfError> {
    let allowed = || format!("one age per sample, {samples} in all, the oldest first");
    let list = value.as_array().ok_or_else(|| wrong(at, value, allowed()))?;
    if list.len() != samples {
        return Err(counted(at, list.len(), "ages", allowed()));
    }
    let mut newest = MAX_MS;
    let mut ages = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        // Each age is at most the one before it.
        let range = Range { low: 0.0, low_allowed: true, high: newest };
        newest = range.read(value).ok_or_else(|| wrong(&format!("{at}[{index}]"), value, range.allowed()))?;
        ages.push(newest as u64);
    }
    Ok(ages)
}

#[cfg(test)]
mod tests {
    use super::super::decide_line;
    use super::*;
    use crate::model::Profile;

    fn error(line: &str) -> String {
        decide_line(line, Profile::Reference, 1).unwrap_err().to_string()
    }

    fn pools(pools: &str) -> String {
        format!(r#"{{"workload": "batch", "pools": {pools}}}"#)
    }

    #[test]
    fn every_complaint_names_the_field_what_was_found_and_what_is_allowed() {
        let cases = [
            (r#"{"pools": []}"#.to_owned(), "workload: found nothing, allowed a class name"),
            (r#"{"workload": "batch"}"#.to_owned(), "pools: found nothing, allowed a list of pools"),
            (r#"[1]"#.to_owned(), "line: found a list of 1, allowed an object"),
            (r#"{"workload": "bach", "pools": []}"#.to_owned(), "workload: found \"bach\", allowed batch (nearest)"),
            (pools("[]"), "pools: found 0 pools, allowed a list of 1 to 4096 pools"),
            (pools(r#"[{"pool_id": "a b"}]"#), "pools[0].pool_id: found \"a b\", allowed 1 to 64 letters"),
            (pools(r#"[{"pool_id": 7}]"#), "pools[0].pool_id: found 7, allowed text"),
            (pools("[{}]"), "pools[0].pool_id: found nothing, allowed 1 to 64 letters"),
            (pools(r#"[{"pool_id": "a"}, {"pool_id": "a"}]"#), "pools[1].pool_id: found \"a\" a second time"),
            (pools(r#"[{"pool_id": "a", "max_capacity": 0}]"#), "pools[0].max_capacity: found 0, allowed a whole"),
            (
                pools(r#"[{"pool_id": "a", "max_capacity": 4, "active_sessions": 5}]"#),
                "pools[0].active_sessions: found 5, allowed a whole number, 0 to 4",
            ),
            (
                pools(r#"[{"pool_id": "a", "soft_capacity_fraction": 0}]"#),
                "pools[0].soft_capacity_fraction: found 0, allowed a number, above 0, at most 1",
            ),
            (pools(r#"[{"pool_id": "a", "samples": [[1, 0], [-2, 0]]}]"#), "pools[0].samples[1][0]: found -2, allowed"),
            (pools(r#"[{"pool_id": "a", "samples": [[1, 1.5]]}]"#), "pools[0].samples[0][1]: found 1.5, allowed"),
            (pools(r#"[{"pool_id": "a", "samples": [[1]]}]"#), "pools[0].samples[0]: found a list of 1, allowed [lat"),
            (pools(r#"[{"pool_id": "a", "samples": [[null, 0]]}]"#), "pools[0].samples[0][0]: found null"),
            (pools(r#"[{"pool_id": "a", "path": "a>b"}]"#), "pools[0].path: found \"a>b\", allowed source>dest"),
            (
                pools(r#"[{"pool_id": "a", "samples": [[1, 0]], "ages_ms": []}]"#),
                "pools[0].ages_ms: found 0 ages, allowed one age per sample, 1 in all",
            ),
            (
                pools(r#"[{"pool_id": "a", "samples": [[1, 0], [1, 0]], "ages_ms": [5, 6]}]"#),
                "pools[0].ages_ms[1]: found 6, allowed a number, at least 0, at most 5",
            ),
            (
                r#"{"thresholds": {"fae_mx": 3}, "workload": "batch", "pools": []}"#.to_owned(),
                "thresholds.fae_mx: found an unknown field, allowed fae_max (nearest), or one of latency_degraded_ms",
            ),
            (
                r#"{"thresholds": {"fae_max": -3}, "workload": "batch", "pools": []}"#.to_owned(),
                "thresholds.fae_max: found -3, allowed above 0, at most 1000000",
            ),
            (
                r#"{"workload": {"criticality": 2}, "pools": []}"#.to_owned(),
                "workload.criticality: found 2, allowed a number, at least 0, at most 1",
            ),
            (
                r#"{"workload": {"criticality": 0.2, "jitter_tolerance": 0.2}, "pools": []}"#.to_owned(),
                "workload.latency_sla_ms: found nothing, allowed a number, above 0",
            ),
            (
                r#"{"workload": "batch", "pools": [], "expect": {}}"#.to_owned(),
                "expect: found an unknown field, allowed one of thresholds, workload, pools",
            ),
        ];
        for (line, expected) in cases {
            let found = error(&line);
            assert!(found.starts_with(expected), "{line}\n found {found}\n expected {expected}");
        }
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_refused() {
        for number in ["NaN", "1e999", "-Infinity"] {
            let found = error(&pools(&format!(r#"[{{"pool_id": "a", "samples": [[{number}, 0]]}}]"#)));
            assert!(found.starts_with("line: not JSON: "), "{found}");
        }
    }

    #[test]
    fn counts_and_sizes_are_limited() {
        let many: Vec<String> = (0..=MAX_POOLS).map(|index| format!(r#"{{"pool_id": "p{index}"}}"#)).collect();
        let found = error(&pools(&format!("[{}]", many.join(","))));
        assert_eq!(found, "pools: found 4097 pools, allowed a list of 1 to 4096 pools");

        let samples = vec!["[1,0]"; 60_000].join(",");
        let two =
            format!(r#"[{{"pool_id": "a", "samples": [{samples}]}}, {{"pool_id": "b", "samples": [{samples}]}}]"#);
        let found = error(&pools(&two));
        let expected =
            "pools[1].samples: found 60000 samples, allowed at most 100000 in a line, 40000 of them left here";
        assert_eq!(found, expected);

        let found = error(&" ".repeat(MAX_LINE_BYTES + 1));
        assert_eq!(found, "line: found 16777217 bytes, allowed at most 16777216");
    }

    #[test]
    fn the_mesh_profile_counts_only_what_the_ages_leave_fresh() {
        let health = |ages: &str, profile: Profile| {
            let samples = r#""samples": [[90.0, 0.0], [2.0, 0.0], [2.0, 0.0]]"#;
            let line = pools(&format!(r#"[{{"pool_id": "a", {samples}{ages}}}]"#));
            let health = decide_line(&line, profile, 1).unwrap().candidates[0].health;
            (health.sample_count, health.age_ms)
        };
        assert_eq!(health("", Profile::Mesh), (3, None), "one second apart, the newest now");
        let old = r#", "ages_ms": [20000, 4000, 3000]"#;
        assert_eq!(health(old, Profile::Mesh), (2, Some(3000)));
        assert_eq!(health(old, Profile::Reference), (3, Some(3000)));
    }

    #[test]
    fn pools_may_leave_out_what_has_a_default() {
        let line = r#"{"thresholds": {"default_pool_capacity": 3}, "workload": "batch",
            "pools": [{"pool_id": "a", "node": "d0", "path": "p0>d0/r0/quic", "risk_group": "rack-1",
                       "samples": [[1.0, 0.0], [1.0, 0.0]], "ages_ms": [900.5, 300.5]}]}"#;
        let record = decide_line(line, Profile::Reference, 7).unwrap();
        assert_eq!(record.id.to_string(), "what-if.0.7");
        let candidate = &record.candidates[0];
        assert_eq!((candidate.capacity.max_capacity, candidate.capacity.soft_limit), (3, 2));
        assert_eq!(candidate.target.path.as_ref().unwrap().to_string(), "p0>d0/r0/quic");
        assert_eq!(candidate.topology.risk_group.as_ref().unwrap().as_str(), "rack-1");
        assert_eq!(candidate.health.age_ms, Some(300));
    }
}
