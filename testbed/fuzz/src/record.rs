//! Decision records, as `seamctl explain` and `decisions` read them from an agent.

use seam::model::Profile;
use seam::policy::explain::{MAX_COLUMNS, explain};
use seam::policy::record::DecisionRecord;
use seam::whatif::decide_line;

pub fn run(data: &[u8]) {
    let _ = check(data);
}

/// A record that is accepted can be explained in lines that fit, and written as it was read.
pub(crate) fn check(data: &[u8]) -> Result<(), serde_json::Error> {
    let record: DecisionRecord = serde_json::from_slice(data)?;
    for line in explain(&record).lines() {
        assert!(line.chars().count() <= MAX_COLUMNS, "too wide: {line}");
    }
    let written = serde_json::to_string(&record).expect("what was read can be written");
    let again: DecisionRecord = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("and written again"), written);
    Ok(())
}

pub fn seeds() -> Vec<Vec<u8>> {
    let records = crate::whatif::LINES.iter().filter_map(|line| decide_line(line, Profile::Reference, 1).ok());
    records.map(|record| serde_json::to_vec(&record).expect("a record")).collect()
}
