//! Which segments there are, and several lives on one axis of time.

use seam::core::{Mono, Now};
use seam::health;
use seam::journal::{Entry, Input, Turn, segment_name};
use seam::replay::journal::{History, What};
use seam::sim::START_MS;

use crate::recorder::{LIFE, bytes, header, node};

fn tick(mono: u64, wall_ms: u64) -> Entry {
    let now = Now { mono: Mono(mono), wall_ms };
    Entry::Turn(Turn { now, input: Input::Health(health::Input::Tick), said: Vec::new(), digest: 0 })
}

#[test]
fn segments_are_found_in_files_folders_and_folders_of_nodes_and_ordered_by_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, name, number, file) in [
        ("n1", "n1", 0, "n1-1-000000.journal"),
        ("n0", "n0", 1, "n0-1-000009.journal"),
        ("n0", "n0", 0, "n0-9-000010.journal"),
    ] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join(file), bytes(&header(name, number), &[tick(1, 1)])).unwrap();
    }
    let renamed = dir.path().join("kept.bin");
    std::fs::write(&renamed, bytes(&header("n0", 2), &[])).unwrap();
    let history = History::open(&[dir.path(), &renamed]).unwrap();
    let found: Vec<(String, Vec<u64>)> = history
        .lives()
        .iter()
        .map(|life| (life.node.to_string(), life.segments.iter().map(|segment| segment.number).collect()))
        .collect();
    assert_eq!(found, [("n0".to_owned(), vec![0, 1, 2]), ("n1".to_owned(), vec![0])]);
    assert!(history.bytes() > 0 && history.is_readable());
}

#[test]
fn what_is_no_history_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |paths: &[&std::path::Path]| History::open(paths).unwrap_err().to_string();
    assert!(refused(&[dir.path()]).contains("no journal in this folder"));
    let [one, two] = ["one.journal", "two.journal"].map(|name| dir.path().join(name));
    std::fs::write(&one, bytes(&header("n0", 3), &[])).unwrap();
    std::fs::write(&two, bytes(&header("n0", 3), &[])).unwrap();
    let words = refused(&[&one, &two]);
    assert!(words.starts_with("segment 3 of n0, life 1800000000000, is given twice: "), "{words}");
    assert!(words.contains("one.journal and ") && words.ends_with("two.journal"), "{words}");
    assert!(refused(&[&one, &one]).contains("is given twice"));
    std::fs::write(&two, "timestamp,request_id").unwrap();
    assert!(refused(&[&two]).contains("no journal: it begins with"));
    assert!(refused(&[&dir.path().join("none")]).contains("none: No such file"));
}

#[test]
fn a_segment_of_another_format_is_reported_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = |number| dir.path().join(segment_name(&node("n0"), LIFE, number));
    let mut newer = bytes(&header("n0", 1), &[]);
    newer[8] = 2;
    std::fs::write(file(0), bytes(&header("n0", 0), &[])).unwrap();
    std::fs::write(file(1), newer).unwrap();
    std::fs::write(file(2), bytes(&header("n0", 2), &[])).unwrap();
    let history = History::open(&[dir.path()]).unwrap();
    let broken = history.lives()[0].items().find_map(|item| match item.what {
        What::Broken(broken) => Some((item.place, broken.fault.to_string())),
        _ => None,
    });
    let (place, words) = broken.unwrap();
    assert_eq!(&*place.path, file(1));
    assert_eq!(words, "journal format 2: this program reads format 1; a newer Seam wrote it");
    assert!(history.verify(|_| ()).is_damaged());
}

#[test]
fn several_lives_share_one_axis_that_no_jump_of_a_clock_reorders() {
    let dir = tempfile::tempdir().unwrap();
    const MS: u64 = 1_000_000;
    // The clock of n0 is set back by an hour after its first turn; n1 began 5 ms later on another
    // monotonic clock.
    let back = START_MS - 3_600_000;
    let first = [tick(MS, START_MS + 1), tick(8 * MS, back), tick(20 * MS, back + 12)];
    std::fs::write(dir.path().join("a"), bytes(&header("n0", 0), &first)).unwrap();
    let mut other = header("n1", 0);
    other.opened = Now { mono: Mono(1_000 * MS), wall_ms: START_MS + 5 };
    let second = [tick(1_001 * MS, START_MS + 6), tick(1_010 * MS, START_MS + 15)];
    std::fs::write(dir.path().join("b"), bytes(&other, &second)).unwrap();
    let history = History::open(&[dir.path().join("a"), dir.path().join("b")]).unwrap();
    let merged: Vec<(u64, String)> = history
        .merged()
        .filter(|item| matches!(item.item.what, What::Entry(_)))
        .map(|item| (item.at_ns / MS - START_MS, item.life.node.to_string()))
        .collect();
    let expected = [(1, "n0"), (6, "n1"), (8, "n0"), (15, "n1"), (20, "n0")];
    assert_eq!(merged, expected.map(|(at, name)| (at, name.to_owned())));
    let life = &history.overviews(|_| ())[0].tally;
    assert_eq!((life.from_ms, life.to_ms), (Some(START_MS), Some(START_MS + 20)));
}
