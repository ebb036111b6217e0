use super::*;

#[test]
fn a_folder_that_is_gone_stops_nothing_and_turns_are_counted_until_it_is_back() {
    let mut life = Life::new(|config| config.fsync = Duration::ZERO);
    life.samples(3);
    life.writer.round(Instant::now());
    let moved = life.dir.path().join("moved");
    std::fs::rename(life.folder(), &moved).unwrap();
    std::fs::write(life.folder(), "no folder").unwrap();
    // The segment is not where it was: the next one cannot be opened.
    life.writer.round(Instant::now());
    life.samples(9);
    life.writer.round(Instant::now());
    assert_eq!((life.counted(LOST), life.counted(GAPS)), (10, 0));
    std::fs::remove_file(life.folder()).unwrap();
    // It is tried again.
    life.writer.round(Instant::now() + Duration::from_secs(60));
    assert!(life.folder().is_dir());
    life.samples(5);
    life.writer.round(Instant::now());
    assert_eq!((life.counted(LOST), life.counted(GAPS)), (10, 1));
    assert_eq!(played(entries(&moved).iter().flatten()), 4);
    let segments = life.entries();
    assert_eq!(played(segments.iter().flatten()), 6);
    let Entry::Gap(gap) = &segments[0][0] else { panic!("{:?}", segments[0][0]) };
    assert_eq!((gap.part, gap.lost, gap.since.wall_ms, gap.until.wall_ms), (journal::Part::Health, 10, 5, 15));
    // Whoever removes the folder takes its lock away too: it is held anew.
    assert!(matches!(
        Folder::hold("journal.dir", &life.folder(), &node()),
        Err(FolderError::Held { key: "journal.dir", .. })
    ));
}

#[test]
fn a_segment_whose_creation_failed_halfway_is_begun_again_under_its_number() {
    let mut life = Life::new(|config| config.fsync = Duration::ZERO);
    let path = life.folder().join(journal::segment_name(&node(), GENERATION, 0));
    // What an attempt left that could neither go on nor be undone.
    std::fs::write(&path, "").unwrap();
    life.samples(3);
    life.writer.round(Instant::now());
    assert_eq!((life.entries().len(), played(&life.entries()[0]), life.counted(LOST)), (1, 4, 0));
    // A file of something else is left alone, and once it is gone it is the next segment's place.
    let next = life.folder().join(journal::segment_name(&node(), GENERATION, 1));
    std::fs::write(&next, "no segment").unwrap();
    std::fs::remove_file(&path).unwrap();
    life.writer.round(Instant::now());
    assert_eq!(std::fs::read(&next).unwrap(), b"no segment");
    std::fs::remove_file(&next).unwrap();
    life.samples(3);
    life.writer.round(Instant::now() + Duration::from_secs(60));
    life.samples(3);
    life.writer.round(Instant::now() + Duration::from_secs(60));
    assert_eq!(list(&life.folder()).unwrap()[0].number, 1);
    assert!(played(&life.entries()[0]) >= 4);
}

#[test]
fn a_segment_that_was_deleted_or_moved_away_is_followed_by_a_new_one_at_the_next_sync() {
    let mut life = Life::new(|config| config.fsync = Duration::ZERO);
    life.samples(3);
    life.writer.round(Instant::now());
    let first = list(&life.folder()).unwrap().remove(0);
    std::fs::remove_file(&first.path).unwrap();
    life.writer.round(Instant::now());
    life.samples(3);
    life.writer.round(Instant::now());
    let found = list(&life.folder()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].number, first.number + 1);
    assert_eq!(played(&life.entries()[0]), 4);
    assert_eq!(life.counted(LOST), 0);
}

#[test]
fn a_segment_that_was_emptied_in_place_is_followed_by_a_new_one() {
    let mut life = Life::new(|config| config.fsync = Duration::ZERO);
    life.samples(3);
    life.writer.round(Instant::now());
    let first = list(&life.folder()).unwrap().remove(0).path;
    File::options().write(true).open(&first).unwrap().set_len(0).unwrap();
    life.writer.round(Instant::now());
    life.samples(3);
    life.writer.round(Instant::now());
    assert_eq!(first.metadata().unwrap().len(), 0);
    std::fs::remove_file(&first).unwrap();
    assert_eq!((life.entries().len(), played(&life.entries()[0])), (1, 4));
}

#[test]
fn a_disk_that_fills_up_keeps_what_was_written_whole_and_loses_the_rest_with_a_gap() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: this machine has no /dev/full");
        return;
    }
    let mut life = Life::new(|_| {});
    life.samples(3);
    life.writer.round(Instant::now());
    let first = list(&life.folder()).unwrap().remove(0).path;
    // What is written from now on meets a full disk.
    life.writer.replace_file(File::options().write(true).open("/dev/full").unwrap());
    life.samples(7);
    life.writer.round(Instant::now());
    assert_eq!(life.counted(LOST), 8);
    life.samples(1);
    life.writer.round(Instant::now());
    assert_eq!(life.counted(LOST), 10);
    // It is tried again.
    life.writer.round(Instant::now() + Duration::from_secs(60));
    assert_eq!(list(&life.folder()).unwrap().len(), 2);
    life.samples(2);
    life.writer.round(Instant::now());
    let segments = life.entries();
    assert_eq!((played(&segments[0]), played(&segments[1])), (4, 3));
    assert!(matches!(&segments[1][0], Entry::Gap(gap) if gap.lost == 10), "{:?}", segments[1][0]);
    assert!(first.exists());
    assert_eq!((life.counted(LOST), life.counted(GAPS)), (10, 1));
}
