use super::*;

#[test]
fn a_full_segment_is_followed_by_the_next_which_begins_with_a_snapshot_and_the_tape_goes_on() {
    let mut life = Life::new(|config| config.segment_size = 64 << 10);
    for _ in 0..20 {
        life.samples(200);
        life.writer.round(Instant::now());
    }
    let turns = life.turns;
    let (dir, metrics) = life.close();
    let segments = entries(&dir.path().join("journal"));
    assert!(segments.len() > 3, "{}", segments.len());
    let (last, others) = segments.split_last().unwrap();
    for entries in others {
        let snapshots = entries.iter().filter(|entry| matches!(entry, Entry::Snapshot(_))).count();
        assert_eq!(snapshots, 1, "one in each segment");
    }
    assert!(matches!(last.last(), Some(Entry::Closed(_))));
    assert_eq!(played(segments.iter().flatten()), turns);
    let bytes: u64 = list(&dir.path().join("journal")).unwrap().iter().map(|s| s.path.metadata().unwrap().len()).sum();
    assert_eq!(counted(&metrics, "seam_journal_bytes_total"), bytes);
    assert_eq!((counted(&metrics, LOST), counted(&metrics, GAPS)), (0, 0));
}

#[test]
fn an_old_segment_is_followed_by_the_next() {
    let mut life = Life::new(|config| config.max_age = Duration::ZERO);
    for expected in 1..4 {
        life.turn(Input::Tick);
        life.writer.round(Instant::now());
        assert_eq!(life.entries().len(), expected);
    }
}

#[test]
fn the_oldest_segments_of_this_node_go_and_those_of_others_stay() {
    let size = 64 << 10;
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("journal");
    std::fs::create_dir(&folder).unwrap();
    let old = |name: &str, generation| {
        let path = folder.join(journal::segment_name(&NodeName::new(name).unwrap(), generation, 0));
        std::fs::write(&path, vec![0; 2 * size as usize]).unwrap();
        path
    };
    let (own, other) = (old("p0", 3), old("p1", 3));
    let mut life = Life::of(dir, GENERATION, |config| (config.segment_size, config.retain) = (size, 4 * size));
    for _ in 0..40 {
        life.samples(200);
        life.writer.round(Instant::now());
        let own: Vec<_> = list(&life.folder()).unwrap().into_iter().filter(|found| found.node == node()).collect();
        let bytes: u64 = own.iter().map(|segment| segment.path.metadata().unwrap().len()).sum();
        // A turn and a snapshot may go over the edge.
        assert!(bytes <= 4 * size + 8192, "{bytes}");
    }
    assert!(!own.exists() && other.exists());
    std::fs::remove_file(other).unwrap();
    let segments = life.entries();
    assert!(segments.len() >= 3, "{}", segments.len());
    let tape: Vec<&Entry> =
        segments.iter().flatten().skip_while(|entry| !matches!(entry, Entry::Snapshot(_))).collect();
    assert!(played(tape) > 500, "it can be played from any snapshot on");
}

#[test]
fn a_segment_that_snapshots_fill_grows_until_its_turns_are_as_large() {
    let mut life = Life::new(|config| config.segment_size = 64 << 10);
    for number in 0..800 {
        life.turn(Input::PathUp(PathSpec { id: format!("p0>d{number}/r0/quic").parse().unwrap(), ..spec() }));
    }
    life.writer.round(Instant::now());
    let before = life.entries().len();
    for _ in 0..50 {
        life.turn(Input::Tick);
        life.writer.round(Instant::now());
    }
    // Each segment begins with a snapshot of more than the size of a segment.
    assert!(life.entries().len() <= before + 1, "{} from {before}", life.entries().len());
}

#[test]
fn segments_that_snapshots_fill_are_retained_within_the_same_limit() {
    let retain = 1 << 20;
    let mut life = Life::new(|config| (config.segment_size, config.retain) = (64 << 10, retain));
    for number in 0..3_000 {
        life.turn(Input::PathUp(PathSpec { id: format!("p0>d{number}/r0/quic").parse().unwrap(), ..spec() }));
    }
    let mut largest = 0;
    for _ in 0..60 {
        life.samples(200);
        life.writer.round(Instant::now());
        let bytes: Vec<u64> =
            list(&life.folder()).unwrap().iter().map(|segment| segment.path.metadata().unwrap().len()).collect();
        largest = largest.max(bytes.iter().copied().max().unwrap());
        let all: u64 = bytes.iter().sum();
        // What is gathered at a time may go over the edge.
        assert!(all <= retain + (64 << 10), "{bytes:?}");
    }
    assert!(largest > 2 * (64 << 10), "{largest}");
    assert!(list(&life.folder()).unwrap()[0].number > 0);
}

#[test]
fn what_is_younger_than_its_segment_comes_after_a_snapshot_and_only_what_waited_before() {
    let mut life = Life::new(|config| config.segment_size = 64 << 10);
    let clock = Clock::start();
    let turn = |life: &mut Life, input: Input| {
        let (now, mut out) = (clock.now(), Vec::new());
        let turn = Turn::begin(&mut life.tape, &life.core, now, &input);
        life.core.step(now, input, &mut out);
        turn.end(&out);
    };
    turn(&mut life, Input::PathUp(spec()));
    for _ in 0..5 {
        // All of them wait at once, and fill several segments before the core hears of the next one.
        (0..2_000).for_each(|number| turn(&mut life, sample(f64::from(number))));
        life.writer.round(Instant::now());
    }
    let (mut waited, mut segments) = (0, 0);
    for segment in list(&life.folder()).unwrap() {
        let reader = Reader::open(BufReader::new(File::open(segment.path).unwrap())).unwrap();
        let opened = reader.header().opened.mono;
        segments += 1;
        let before = reader.map(Result::unwrap).take_while(|entry| !matches!(entry, Entry::Snapshot(_)));
        for entry in before {
            assert!(entry.now().unwrap().mono <= opened, "segment {}: {entry:?}", segment.number);
            waited += 1;
        }
    }
    assert!(segments > 5 && waited > 0, "{segments} segments, {waited} turns waited");
}

#[test]
fn a_turn_without_room_for_the_snapshot_before_it_is_lost_rather_than_written_without() {
    let mut life = Life::new(|config| config.max_age = Duration::ZERO);
    for number in 0..100 {
        life.turn(Input::PathUp(PathSpec { id: format!("p0>d{number}/r0/quic").parse().unwrap(), ..spec() }));
    }
    life.writer.round(Instant::now());
    life.writer.round(Instant::now());
    // A tick fits what is left, and a snapshot does not.
    let rest = life.core.core_bytes() - 1;
    let held = life.journal.sender.reserve(queue::MAX_BYTES - rest).unwrap();
    life.turn(Input::Tick);
    assert_eq!(life.counted(LOST), 1);
    drop(held);
    life.turn(Input::Tick);
    life.writer.round(Instant::now());
    let last = life.entries().pop().unwrap();
    assert!(matches!(last[..], [Entry::Gap(_), Entry::Snapshot(_), Entry::Turn(_)]), "{last:?}");
}
