//! What was recorded comes out again.

use seam::journal::{Entry, Gap, Part};
use seam::replay::journal::{Lost, Noted};

use crate::recorder::{STORY, turns, verify, write};

#[test]
fn all_four_cores_come_out_as_recorded_wherever_the_segments_are_split() {
    let dir = tempfile::tempdir().unwrap();
    let count = STORY.tape.len();
    let mut hashes = Vec::new();
    for splits in [vec![], vec![1], vec![count / 2], (1..8).map(|part| part * count / 8).collect(), vec![count - 1]] {
        let folder = dir.path().join(splits.len().to_string()).join(splits.first().unwrap_or(&0).to_string());
        std::fs::create_dir_all(&folder).unwrap();
        write(&folder, "n0", &STORY.segments(&splits));
        let report = verify(&[&folder]);
        let life = &report.lives[0];
        assert!(report.is_identical(), "{:?}", life.overview.notes);
        assert_eq!((report.verified(), report.unverifiable()), (count as u64, 0));
        for part in Part::ALL {
            assert!(turns(&report, *part).1 > 20, "{part}: {:?}", turns(&report, *part));
        }
        let compared: Vec<u64> = life.cores.iter().map(|core| core.snapshots_compared).collect();
        assert_eq!(compared, [splits.len() as u64; 4]);
        assert!(life.overview.tally.closed && life.overview.tally.decisions > 20);
        hashes.push(report.hash);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "the hash depends on the outputs alone");
}

#[test]
fn repeated_replays_give_the_same_hash_and_another_history_another() {
    let dir = tempfile::tempdir().unwrap();
    let paths = write(dir.path(), "n0", &STORY.segments(&[300]));
    let first = verify(&[dir.path()]).hash;
    for _ in 0..3 {
        assert_eq!(verify(&[dir.path()]).hash, first);
    }
    assert_ne!(verify(&paths[..1]).hash, first);
}

#[test]
fn after_a_gap_a_core_goes_on_from_its_next_snapshot_and_the_mesh_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut cores = STORY.cores();
    let mut entries: Vec<Entry> = Part::ALL.iter().map(|part| Entry::Snapshot(cores.snapshot(*part))).collect();
    let (from, until) = (STORY.tape.len() / 3, STORY.tape.len() / 2);
    let mut lost = [0; 4];
    for (index, (now, input)) in STORY.tape.iter().enumerate() {
        let turn = cores.turn(*now, input.clone());
        let part = turn.input.part() as usize;
        if (from..until).contains(&index) {
            lost[part] += 1;
            continue;
        }
        if index == until {
            for part in Part::ALL.iter().filter(|part| lost[**part as usize] > 0) {
                let gap = Gap { part: *part, lost: lost[*part as usize], since: STORY.tape[from].0, until: *now };
                entries.push(Entry::Gap(gap));
            }
            // One turn comes before the snapshots.
            entries.push(Entry::Turn(turn));
            entries.extend(Part::ALL.iter().map(|part| Entry::Snapshot(cores.snapshot(*part))));
            continue;
        }
        entries.push(Entry::Turn(turn));
    }
    write(dir.path(), "n0", &[entries]);
    let report = verify(&[dir.path()]);
    assert!(report.is_identical(), "a gap is no failure");
    assert_eq!(report.lives[0].overview.tally.lost_turns, lost.iter().sum::<u64>());
    let mesh = &report.lives[0].cores[3];
    assert!(mesh.not_verifiable[&Lost::MeshRunning] > 0 && mesh.verified > 0, "{mesh:?}");
    let others: u64 = report.lives[0].cores[..3].iter().map(|core| core.unverifiable()).sum();
    assert!(others <= 1, "only what stands before the snapshots: {others}");
    let noted: Vec<Noted> = report.lives[0].overview.notes.iter().map(|note| note.noted).collect();
    assert_eq!(noted, [Noted::Gap, Noted::Gap, Noted::Gap, Noted::Gap, Noted::MeshRunning]);
}

#[test]
fn a_panic_is_reported_and_not_played_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    segments[0].pop();
    let (now, input) = STORY.tape.last().unwrap().clone();
    segments[0].push(Entry::Panicked(input, now));
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    assert!(report.is_identical());
    let note = &report.lives[0].overview.notes[0];
    assert_eq!(note.noted, Noted::Panicked);
    assert!(note.text.contains(" core panicked at this input: "), "{}", note.text);
    assert!(!report.lives[0].overview.tally.closed);
}
