//! What is missing, torn or damaged is found, and nothing else suffers.

use std::path::Path;

use seam::core::{Mono, Now};
use seam::health::{self, HealthCore, Sample, SampleKind, SampleOutcome};
use seam::journal::{Entry, Header, Input, Part, Taped};
use seam::model::PathSpec;
use seam::replay::journal::{History, LifeReport, Lost, Noted, Report, Verifier, segment_items};

use crate::recorder::{LIFE, STORY, bytes, header, node, turns, verify, write};

#[test]
fn a_missing_segment_is_named_and_every_core_but_the_mesh_goes_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let third = STORY.tape.len() / 3;
    let paths = write(dir.path(), "n0", &STORY.segments(&[third, 2 * third]));
    std::fs::remove_file(&paths[1]).unwrap();
    let report = verify(&[dir.path()]);
    assert!(!report.is_identical() && report.differences() == 0 && report.is_damaged());
    let life = &report.lives[0];
    assert_eq!(life.overview.notes[0].text, "before this one segment 1 is missing");
    assert_eq!(life.overview.tally.missing_segments, 1);
    for part in [Part::Health, Part::Policy, Part::Ledger] {
        assert_eq!(turns(&report, part).2, 0, "{part}");
    }
    let (all, verified, lost) = turns(&report, Part::Mesh);
    assert!(lost > 0 && verified + lost == all);
    assert_eq!(life.cores[3].not_verifiable.keys().collect::<Vec<_>>(), [&Lost::MeshRunning]);

    // Without the first segment there is nothing wrong, and no mesh to verify.
    std::fs::remove_file(&paths[0]).unwrap();
    let report = verify(&[dir.path()]);
    assert!(report.is_identical());
    assert_eq!(turns(&report, Part::Mesh).1, 0);
    let noted: Vec<Noted> = report.lives[0].overview.notes.iter().map(|note| note.noted).collect();
    assert_eq!(noted, [Noted::BeginsLate, Noted::MeshRunning]);
}

#[test]
fn segments_that_an_agent_deletes_meanwhile_are_passed_over_and_one_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let quarter = STORY.tape.len() / 4;
    let paths = write(dir.path(), "n0", &STORY.segments(&[quarter, 2 * quarter, 3 * quarter]));
    let history = History::open(&[dir.path()]).unwrap();
    std::fs::remove_file(&paths[0]).unwrap();
    let overview = history.overviews(|_| {}).remove(0);
    assert!(!overview.is_damaged());
    let noted: Vec<Noted> = overview.notes.iter().map(|note| note.noted).collect();
    assert_eq!((noted, overview.tally.first_segment), (vec![Noted::BeginsLate], Some(1)));
    // In the middle it is missing.
    let kept = std::fs::read(&paths[2]).unwrap();
    std::fs::remove_file(&paths[2]).unwrap();
    let overview = history.overviews(|_| {}).remove(0);
    assert_eq!(overview.tally.missing_segments, 1);
    std::fs::create_dir(&paths[2]).unwrap();
    let overview = History::open(&[dir.path()]).unwrap().overviews(|_| {}).remove(0);
    assert_eq!((overview.tally.damaged_segments, overview.tally.missing_segments), (1, 0));
    assert!(overview.notes.iter().any(|note| note.file == paths[2] && note.noted == Noted::Damaged));
    std::fs::remove_dir(&paths[2]).unwrap();
    std::fs::write(&paths[2], kept).unwrap();
    assert!(!History::open(&[dir.path()]).unwrap().overviews(|_| {})[0].is_damaged());
}

#[test]
fn a_torn_end_is_no_failure_and_a_torn_middle_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let half = STORY.tape.len() / 2;
    let paths = write(dir.path(), "n0", &STORY.segments(&[half]));
    let cut = |path: &Path, by: usize| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes.truncate(bytes.len() - by);
        std::fs::write(path, bytes).unwrap();
    };
    cut(&paths[1], 40);
    let report = verify(&[dir.path()]);
    assert!(report.is_identical());
    assert_eq!(report.lives[0].overview.notes[0].noted, Noted::TornEnd);
    assert_eq!(report.unverifiable(), 0);

    cut(&paths[0], 3);
    let report = verify(&[dir.path()]);
    assert!(report.is_damaged() && report.differences() == 0);
    assert_eq!(report.lives[0].overview.notes[0].noted, Noted::Damaged);

    // A newest segment of which nothing reached the disk, or its length only.
    std::fs::write(&paths[0], bytes(&header("n0", 0), &STORY.segments(&[half])[0])).unwrap();
    for nothing in ["", &"\0".repeat(5_000)] {
        std::fs::write(&paths[1], nothing).unwrap();
        let report = verify(&[dir.path()]);
        assert!(report.is_identical() && report.lives[0].overview.tally.torn_end);
    }
}

#[test]
fn a_flipped_bit_costs_the_rest_of_its_segment_and_is_named_with_file_and_byte() {
    let dir = tempfile::tempdir().unwrap();
    let third = STORY.tape.len() / 3;
    let paths = write(dir.path(), "n0", &STORY.segments(&[third, 2 * third]));
    let mut bytes = std::fs::read(&paths[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&paths[1], bytes).unwrap();
    let report = verify(&[dir.path()]);
    assert!(report.is_damaged() && report.differences() == 0);
    let note = &report.lives[0].overview.notes[0];
    assert_eq!((note.noted, &note.file), (Noted::Damaged, &paths[1]));
    assert!(note.at as usize <= middle && note.text.starts_with("damaged at byte "), "{note:?}");
    assert!(report.verified() as usize > third && report.unverifiable() > 0);
}

#[test]
fn turns_without_a_snapshot_before_them_are_no_verified_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = STORY.segments(&[]);
    segments[0].retain(|entry| !matches!(entry, Entry::Snapshot(snapshot) if snapshot.part() == Part::Ledger));
    write(dir.path(), "n0", &segments);
    let report = verify(&[dir.path()]);
    assert!(!report.is_identical() && report.differences() == 0);
    assert_eq!(report.lives[0].cores[2].not_verifiable.keys().collect::<Vec<_>>(), [&Lost::NoSnapshot]);
}

#[test]
fn turns_that_waited_when_a_segment_was_opened_are_no_damage_where_it_is_the_first_that_is_left() {
    const WAITED: usize = 40;
    let half = STORY.tape.len() / 2;
    let [_, waited, rest] = STORY.segments(&[half - WAITED, half]).try_into().unwrap();
    let entries: Vec<Entry> = waited.into_iter().skip(Part::ALL.len()).chain(rest).collect();
    let report = |opened: Now| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n0.journal");
        std::fs::write(&path, bytes(&Header { opened, ..header("n0", 1) }, &entries)).unwrap();
        verify(&[path])
    };
    let (last, _) = STORY.tape[half - 1];
    let opened = report(last);
    assert!(opened.is_identical() && opened.verified() > 0);
    let why =
        |report: &Report, why| report.lives[0].cores.iter().filter_map(|c| c.not_verifiable.get(&why)).sum::<u64>();
    let not_known = (WAITED as u64, 0);
    assert_eq!((why(&opened, Lost::BegunBefore), why(&opened, Lost::NoSnapshot)), not_known);
    // One that is younger than the segment must have a snapshot before it.
    let earlier = report(Now { mono: Mono(last.mono.0 - 1), ..last });
    assert!(earlier.is_damaged() && why(&earlier, Lost::NoSnapshot) > 0);
}

/// A small journal of one core, and its reports as text.
fn small() -> Vec<u8> {
    let mut core = HealthCore::default();
    let id: seam::model::PathId = "p0>d0/r0/quic".parse().unwrap();
    let spec = PathSpec { id: id.clone(), address: "127.0.0.1:1".into(), bandwidth_gbps: 10.0 };
    let sample = |elapsed_ms| {
        health::Input::Sample(Sample {
            path: id.clone(),
            kind: SampleKind::Probe,
            outcome: SampleOutcome::Ok,
            elapsed_ms,
            bytes: 64,
            attempted_bytes: 64,
            inflight_bytes: 0,
            late_ms: 0.0,
            taken: None,
        })
    };
    let mut entries = vec![Entry::Snapshot(core.taped_snapshot())];
    for (at, input) in [health::Input::PathUp(spec), sample(1.0), sample(90.0)].into_iter().enumerate() {
        let now = Now { mono: Mono(at as u64), wall_ms: 3 };
        let mut out = Vec::new();
        seam::core::Core::step(&mut core, now, input.clone(), &mut out);
        let said = out.iter().filter_map(HealthCore::said).collect();
        let digest = seam::journal::digest(&out, &mut Vec::new());
        entries.push(Entry::Turn(seam::journal::Turn { now, input: Input::Health(input), said, digest }));
    }
    entries.push(Entry::Closed(Now::default()));
    bytes(&header("n0", 0), &entries)
}

fn played(bytes: &[u8]) -> LifeReport {
    let mut verifier = Verifier::new(node("n0"), LIFE);
    segment_items(Path::new("small"), bytes, true).for_each(|item| verifier.take(item));
    verifier.finish()
}

/// Whether something was found to be wrong.
fn is_found(life: &LifeReport) -> bool {
    life.differences() > 0 || life.overview.is_damaged() || life.overview.tally.torn_end
}

#[test]
fn every_flipped_bit_of_a_journal_is_found() {
    let bytes = small();
    let sound = played(&bytes);
    assert!(!is_found(&sound) && sound.cores[0].verified == 3 && sound.overview.tally.closed);
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let life = played(&bytes);
        assert!(is_found(&life), "bit {bit} goes unnoticed");
        assert_eq!(life.differences(), 0, "bit {bit}: nothing unsound is played");
    }
}

#[test]
fn every_cut_of_a_journal_is_found_or_falls_between_two_entries() {
    let bytes = small();
    let mut whole = 0;
    for length in 0..bytes.len() {
        let life = played(&bytes[..length]);
        assert_eq!(life.differences(), 0, "cut at {length}");
        if !is_found(&life) {
            assert!(!life.overview.tally.closed, "cut at {length}: the end is missing");
            whole += 1;
        }
    }
    assert_eq!(whole, 5, "after the head, the snapshot and each turn");
}
