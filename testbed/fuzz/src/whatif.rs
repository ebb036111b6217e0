//! What-if lines.

use seam::model::Profile;
use seam::whatif::decide_line;

/// A line that is decided makes a record that reads back as it was written.
pub fn run(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    match decide_line(line, Profile::Reference, 1) {
        Ok(record) => {
            let written = serde_json::to_vec(&record).expect("a record can be written");
            crate::record::check(&written).expect("a record can be read");
        }
        Err(error) => assert!(error.to_string().len() < 4_096, "an endless error"),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    LINES.map(|line| line.as_bytes().to_vec()).to_vec()
}

pub(crate) const LINES: [&str; 4] = [
    r#"{"workload":"interactive","pools":[{"pool_id":"a","samples":[[2.1,0.0],[2.0,0.0]]},{"pool_id":"b","samples":[[90.0,0.0],[2.0,0.0]],"active_sessions":3}]}"#,
    r#"{"thresholds":{"candidate_window":10,"latency_quarantine_ms":40.0},"workload":{"name":"w","criticality":0.9,"latency_sla_ms":30,"jitter_tolerance":0.3,"is_release_path":true,"is_prefill_decode_strict":false},"pools":[{"pool_id":"a","max_capacity":8,"soft_capacity_fraction":0.75,"active_sessions":8,"samples":[[1,0.01],[50,1.0]],"risk_group":"rack","node":"d0"}]}"#,
    r#"{"workload":"batch","pools":[]}"#,
    r#"{"workload":"release","pools":[{"pool_id":"a","samples":[[7,0],[1,0],[30,0],[2,0]],"ages_ms":[4,3,2,1]}]}"#,
];
