use std::fs::OpenOptions;

use super::*;

fn settings(dir: &Path) -> Settings {
    Settings { node: node(), journal: Some(config(dir)), records: None, config_hash: Box::new(String::new) }
}

fn prepared(dir: &Path) -> Result<Option<Prepared>, FolderError> {
    prepare(settings(dir), Arc::new(Metrics::new("mesh", 8)))
}

/// A folder with one segment of a life that was not closed.
fn left_behind() -> (TempDir, PathBuf, PathBuf) {
    let mut life = Life::new(|_| {});
    life.samples(5);
    life.writer.round(Instant::now());
    let (folder, path) = (life.folder(), list(&life.folder()).unwrap().remove(0).path);
    let Life { dir, .. } = life;
    (dir, folder, path)
}

#[test]
fn nothing_is_prepared_where_nothing_is_kept() {
    let settings = Settings { journal: None, ..settings(Path::new("/nowhere")) };
    assert!(prepare(settings, Arc::new(Metrics::new("mesh", 8))).unwrap().is_none());
}

#[test]
fn a_second_journal_in_one_folder_is_refused_by_name_until_the_first_has_ended() {
    let life = Life::new(|_| {});
    let folder = life.folder();
    let error = prepared(&folder).map(drop).unwrap_err().to_string();
    let holder = format!("journal.dir: {} is in use by p0, process {};", folder.display(), std::process::id());
    assert!(error.starts_with(&holder), "{error}");
    let (dir, _) = life.close();
    assert!(prepared(&folder).unwrap().is_some());
    drop(dir);
}

#[test]
fn a_journal_may_lie_in_a_folder_that_its_agent_holds_already() {
    let dir = TempDir::new().unwrap();
    let data_dir = Folder::hold("node.data_dir", dir.path(), &node()).unwrap();
    let metrics = Arc::new(Metrics::new("mesh", 8));
    let prepared = prepare_with(settings(dir.path()), metrics, Clock::start(), Some(&data_dir)).unwrap().unwrap();
    let (_journal, mut writer) = prepared.assemble(GENERATION);
    writer.round(Instant::now());
    assert_eq!(entries(dir.path()).len(), 1);
}

#[test]
fn the_torn_end_of_an_earlier_life_is_cut_off() {
    let (_dir, folder, path) = left_behind();
    let whole = path.metadata().unwrap().len();
    // The last bytes are missing, as after a power failure.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(whole - 3).unwrap();
    prepared(&folder).unwrap();
    let length = path.metadata().unwrap().len();
    assert!(length < whole - 3, "{length} of {whole}");
    assert_eq!(played(&entries(&folder)[0]), 5);
}

#[test]
fn a_segment_torn_before_its_first_entry_is_deleted() {
    let (_dir, folder, path) = left_behind();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(15).unwrap();
    prepared(&folder).unwrap();
    assert!(!path.exists());
}

#[test]
fn other_damage_is_left_as_it_is() {
    let (_dir, folder, path) = left_behind();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    prepared(&folder).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_second_life_writes_beside_the_first() {
    let mut life = Life::new(|_| {});
    life.samples(2);
    let (dir, _) = life.close();
    let mut life = Life::of(dir, GENERATION + 1, |_| {});
    life.samples(4);
    let (dir, _) = life.close();
    let segments = entries(&dir.path().join("journal"));
    assert_eq!(segments.iter().map(played).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn a_flush_brings_everything_to_the_file_and_an_end_without_words_too() {
    let mut life = Life::new(|_| {});
    life.samples(2);
    let Life { dir, journal, writer, mut core, mut tape, .. } = life;
    let running = std::thread::spawn(move || writer.run());
    assert!(journal.flush(Duration::from_secs(60)));
    let folder = dir.path().join("journal");
    assert_eq!(played(&entries(&folder)[0]), 3);
    let (now, mut out) = (Now { mono: Mono(9), wall_ms: 9 }, Vec::new());
    let turn = Turn::begin(&mut tape, &core, now, &Input::Tick);
    core.step(now, Input::Tick, &mut out);
    turn.end(&out);
    drop((journal, tape));
    running.join().unwrap();
    let entries = entries(&folder);
    assert_eq!(played(&entries[0]), 4);
    assert!(!entries[0].iter().any(|entry| matches!(entry, Entry::Closed(_))));
}
