use super::*;
use crate::agent::journal::queue::{MAX_BYTES, MAX_ENTRIES};

/// Gaps and snapshots of a tape with the number of turns between them.
fn shape(entries: &[Entry]) -> Vec<String> {
    let mut shape: Vec<String> = Vec::new();
    let mut turns = 0;
    for entry in entries {
        if matches!(entry, Entry::Turn(_)) {
            turns += 1;
            continue;
        }
        if std::mem::take(&mut turns) > 0 {
            shape.push("turns".to_owned());
        }
        shape.push(match entry {
            Entry::Gap(gap) => format!("gap of {} from {} to {}", gap.lost, gap.since.wall_ms, gap.until.wall_ms),
            Entry::Snapshot(_) => "snapshot".to_owned(),
            Entry::Panicked(_, now) => format!("panicked at {}", now.wall_ms),
            Entry::Closed(_) | Entry::Turn(_) => "closed".to_owned(),
        });
    }
    if turns > 0 {
        shape.push("turns".to_owned());
    }
    shape
}

#[test]
fn a_full_queue_loses_turns_counts_them_and_goes_on_with_a_gap_and_a_snapshot() {
    let mut life = Life::new(|_| {});
    // The writer is held: a snapshot and these turns fill the queue.
    let (fit, lost) = (MAX_ENTRIES as u64 - 1, 100);
    for _ in 0..fit + lost {
        life.turn(Input::Tick);
    }
    assert_eq!(life.counted(LOST), lost);
    life.writer.round(Instant::now());
    life.turn(Input::Tick);
    life.turn(Input::Tick);
    life.writer.round(Instant::now());
    let segments = life.entries();
    let until = fit + lost + 1;
    let gap = format!("gap of {lost} from {} to {until}", fit + 1);
    assert_eq!(shape(&segments[0]), ["snapshot", "turns", &gap, "snapshot", "turns"]);
    assert_eq!(played(&segments[0]), fit + 2);
    assert_eq!((life.counted(LOST), life.counted(GAPS)), (lost, 1));
}

#[test]
fn turns_that_a_dead_writer_does_not_take_are_counted_and_those_after_an_end_in_order_are_not() {
    let turns = |life: Life, end: fn(Journal, Writer)| {
        let Life { metrics, journal, writer, core, mut tape, dir: _dir, .. } = life;
        end(journal, writer);
        for _ in 0..3 {
            Turn::begin(&mut tape, &core, Now::default(), &Input::Tick).end(&[]);
        }
        counted(&metrics, LOST)
    };
    assert_eq!(turns(Life::new(|_| {}), |_, writer| drop(writer)), 3);
    let in_order = |journal: Journal, writer: Writer| {
        let running = std::thread::spawn(move || writer.run());
        assert!(journal.close(Duration::from_secs(60)));
        running.join().unwrap();
    };
    assert_eq!(turns(Life::new(|_| {}), in_order), 0);
}

#[test]
fn whoever_lost_turns_goes_on_only_when_half_of_the_queue_is_free() {
    let mut life = Life::new(|_| {});
    for _ in 0..MAX_ENTRIES + 10 {
        life.turn(Input::Tick);
    }
    for _ in 0..MAX_ENTRIES / 2 - 1 {
        life.writer.take_one();
    }
    life.turn(Input::Tick);
    let before = life.counted(LOST);
    life.writer.take_one();
    life.writer.take_one();
    life.turn(Input::Tick);
    assert_eq!(life.counted(LOST), before);
    life.writer.round(Instant::now());
    assert_eq!(life.counted(GAPS), 1);
}

#[test]
fn the_queue_is_bounded_by_bytes_and_an_empty_one_takes_an_entry_of_any_size() {
    let life = Life::new(|_| {});
    let sender = &life.journal.sender;
    let large = sender.reserve(MAX_BYTES + 1).unwrap();
    assert!(sender.reserve(1).is_none());
    drop(large);
    let half = sender.reserve(MAX_BYTES / 2).unwrap();
    assert!(sender.reserve(MAX_BYTES / 2 + 1).is_none());
    let other = sender.reserve(MAX_BYTES / 2).unwrap();
    assert!(sender.reserve(1).is_none());
    drop((half, other));
    assert!(sender.has_ample_room());
}

#[test]
fn losses_at_the_end_of_a_life_are_told_before_it_is_closed() {
    let mut life = Life::new(|_| {});
    for _ in 0..MAX_ENTRIES + 4 {
        life.turn(Input::Tick);
    }
    let (dir, metrics) = life.close();
    let segments = entries(&dir.path().join("journal"));
    let shape = shape(&segments[0]);
    assert_eq!(shape[..2], ["snapshot", "turns"]);
    assert!(shape[2].starts_with("gap of 5 from 16384 to "), "{shape:?}");
    assert_eq!(shape[3..], ["closed"]);
    assert_eq!(counted(&metrics, GAPS), 1);
}

#[test]
fn a_turn_that_panics_is_told_even_when_the_queue_is_full() {
    for full in [false, true] {
        let mut life = Life::new(|_| {});
        let before = if full { MAX_ENTRIES as u64 } else { 3 };
        for _ in 0..before - 1 {
            life.turn(Input::Tick);
        }
        let (tape, core) = (&mut life.tape, &life.core);
        let now = Now { mono: Mono(before), wall_ms: before };
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = Turn::begin(tape, core, now, &Input::Tick);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        // One look at the queue takes as much as fits it, and this is more.
        life.writer.round(Instant::now());
        life.writer.round(Instant::now());
        let last = format!("panicked at {before}");
        assert_eq!(shape(&life.entries()[0]), ["snapshot", "turns", &last], "full: {full}");
    }
}

#[test]
fn whoever_ends_the_process_brings_a_panicked_turn_to_the_disk_first() {
    let mut life = Life::new(|_| {});
    life.turn(Input::Tick);
    let Life { dir, journal, writer, core, mut tape, .. } = life;
    journal.sender.control.begun();
    let running = std::thread::spawn(move || writer.run());
    let now = Now { mono: Mono(2), wall_ms: 2 };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _turn = Turn::begin(&mut tape, &core, now, &Input::Tick);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    flush_all(Duration::from_secs(60));
    let segments = entries(&dir.path().join("journal"));
    assert_eq!(shape(&segments[0]), ["snapshot", "turns", "panicked at 2"]);
    drop((tape, journal));
    running.join().unwrap();
}
