//! What came out otherwise is named field by field.

use std::sync::Arc;

use seam::health;
use seam::journal::{Entry, Input, Part, Said, Snapshot};
use seam::replay::journal::{Lost, Wrong};

use crate::recorder::{STORY, differences, turns, verify, write};

/// The index of the first turn of which this holds.
fn find(entries: &[Entry], wanted: impl Fn(&seam::journal::Turn) -> bool) -> usize {
    entries.iter().position(|entry| matches!(entry, Entry::Turn(turn) if wanted(turn))).unwrap()
}

fn turn_mut(entry: &mut Entry) -> &mut seam::journal::Turn {
    let Entry::Turn(turn) = entry else { panic!("{entry:?}") };
    turn
}

#[test]
fn a_changed_decision_is_named_field_by_field_and_its_core_waits_for_its_next_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[STORY.tape.len() * 3 / 4]);
    let decided = |said: &Said| matches!(said, Said::Decided(record) if record.candidates.len() > 1);
    let at = find(&segments[0], |turn| turn.said.iter().any(decided));
    let turn = turn_mut(&mut segments[0][at]);
    let said = turn.said.iter_mut().find(|said| decided(said)).unwrap();
    let Said::Decided(record) = said else { panic!("{said:?}") };
    let mut changed = (**record).clone();
    changed.candidates[1].gfs += 0.125;
    changed.candidates[0].health.p99_latency_ms = 7.5;
    changed.attempt = 3;
    *record = Arc::new(changed);
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    let policy = &report.lives[0].cores[1];
    assert_eq!((report.differences(), policy.differences), (1, 1));
    assert_eq!(policy.not_verifiable.keys().collect::<Vec<_>>(), [&Lost::Difference]);
    assert_eq!(policy.verified + policy.unverifiable() + 1, policy.turns);
    assert!(!report.is_identical());
    let Some(Wrong::Said { fields, .. }) = policy.first_difference.as_ref().map(|found| &found.wrong) else {
        panic!("{policy:?}")
    };
    let names: Vec<&str> = fields.iter().map(|field| field.field.as_str()).collect();
    assert!(names.contains(&"attempt") && names.contains(&"candidates[1].gfs"), "{names:?}");
    let words = differences(&report, dir.path());
    assert!(words.contains("attempt: 3 recorded, 1 replayed"), "{words}");
    for part in [Part::Health, Part::Ledger, Part::Mesh] {
        assert_eq!(turns(&report, part).2, 0, "{part}");
    }
}

#[test]
fn a_changed_digest_says_which_outputs_the_replay_gives() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    let at = find(&segments[0], |turn| turn.digest != 0 && turn.said.is_empty() && turn.input.part() == Part::Health);
    turn_mut(&mut segments[0][at]).digest ^= 1;
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    assert_eq!(report.differences(), 1);
    let words = differences(&report, dir.path());
    assert!(words.contains("outputs replayed: 1 Report; those recorded are known by their digest only"), "{words}");
}

#[test]
fn other_outputs_than_recorded_are_listed_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    let at = find(&segments[0], |turn| matches!(turn.said.as_slice(), [Said::Transition { .. }]));
    turn_mut(&mut segments[0][at]).said = vec![Said::Frozen(true)];
    write(dir.path(), "n0", &segments);
    let words = differences(&verify(&[dir.path()]), dir.path());
    assert!(words.contains("recorded: Frozen(true)\n  replayed: Transition {"), "{words}");
}

#[test]
fn a_snapshot_that_is_not_the_running_cores_is_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[STORY.tape.len() / 2]);
    let Entry::Snapshot(Snapshot::Health(snapshot)) = &mut segments[1][0] else { panic!("health comes first") };
    snapshot.reports += 1;
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    let health = &report.lives[0].cores[0];
    // It goes on from the recorded snapshot, whose reports are numbered otherwise than recorded.
    assert!(health.differences >= 1);
    let found = health.first_difference.as_ref().unwrap();
    assert!(found.input.is_none());
    let words = found.to_string();
    assert!(words.contains("health core, snapshot after turn "), "{words}");
    assert!(words.contains("\n    reports: "), "{words}");
}

#[test]
fn an_input_that_was_changed_changes_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    let at = find(&segments[0], |turn| matches!(turn.input, Input::Health(health::Input::Sample(_))));
    let Input::Health(health::Input::Sample(sample)) = &mut turn_mut(&mut segments[0][at]).input else {
        panic!("a sample")
    };
    sample.elapsed_ms += 40.0;
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    let found = report.lives[0].cores[0].first_difference.as_ref().unwrap();
    assert!(found.input.as_ref().unwrap().starts_with("Sample(Sample { path: "), "{found}");
    assert_eq!(report.differences(), 1);
}

#[cfg(debug_assertions)]
#[test]
fn a_core_that_panics_in_the_replay_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    for entry in &mut segments[0] {
        if let Entry::Snapshot(Snapshot::Ledger(ledger)) = entry {
            let mut text = serde_json::to_value(&**ledger).unwrap();
            text["pages"]["free_pages"] = u64::MAX.into();
            **ledger = serde_json::from_value(text).unwrap();
        }
    }
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    let words = differences(&report, dir.path());
    assert!(words.contains("it panicked in the replay: attempt to multiply with overflow"), "{words}");
    assert_eq!(turns(&report, Part::Policy).2, 0, "the others go on");
}
