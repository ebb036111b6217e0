//! The journal of one core, with a writer that is moved by hand.

mod disk;
mod lines;
mod losses;
mod rotation;
mod start;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::tape::{TapeOf, Turn};
use super::writer::Writer;
use super::*;
use crate::core::{Core, Mono, Now};
use crate::health::{HealthCore, Input, Output, Sample, SampleKind, SampleOutcome};
use crate::journal::{self, Entry, Reader, Snapshot, digest, list};
use crate::model::PathSpec;

const GENERATION: Generation = 7;

fn node() -> NodeName {
    NodeName::new("p0").unwrap()
}

fn config(dir: &Path) -> JournalConfig {
    JournalConfig {
        dir: dir.to_owned(),
        segment_size: 64 << 20,
        max_age: Duration::from_secs(3600),
        fsync: Duration::from_secs(1),
        retain: 1 << 30,
    }
}

/// A life of one health core.
struct Life {
    dir: TempDir,
    metrics: Arc<Metrics>,
    journal: Journal,
    writer: Writer,
    core: HealthCore,
    tape: TapeOf<HealthCore>,
    turns: u64,
}

impl Life {
    fn new(change: impl FnOnce(&mut JournalConfig)) -> Self {
        Self::of(TempDir::new().unwrap(), GENERATION, change)
    }

    fn of(dir: TempDir, generation: Generation, change: impl FnOnce(&mut JournalConfig)) -> Self {
        let mut journal = config(&dir.path().join("journal"));
        change(&mut journal);
        let metrics = Arc::new(Metrics::new("mesh", 8));
        let settings =
            Settings { node: node(), journal: Some(journal), records: None, config_hash: Box::new(|| "c0ffee".into()) };
        let prepared = prepare(settings, metrics.clone()).unwrap().unwrap();
        let (journal, writer) = prepared.assemble(generation);
        let tape = journal.tape();
        Self { dir, metrics, journal, writer, core: HealthCore::default(), tape, turns: 0 }
    }

    fn turn(&mut self, input: Input) -> Vec<Output> {
        self.turns += 1;
        let (now, mut out) = (Now { mono: Mono(self.turns), wall_ms: self.turns }, Vec::new());
        let turn = Turn::begin(&mut self.tape, &self.core, now, &input);
        self.core.step(now, input, &mut out);
        turn.end(&out);
        out
    }

    /// Brings a path, then turns with samples of it.
    fn samples(&mut self, count: u64) {
        self.turn(Input::PathUp(spec()));
        for number in 0..count {
            self.turn(sample(number as f64));
        }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    fn entries(&self) -> Vec<Vec<Entry>> {
        entries(&self.folder())
    }

    fn counted(&self, series: &str) -> u64 {
        counted(&self.metrics, series)
    }

    /// Ends the life in order.
    fn close(self) -> (TempDir, Arc<Metrics>) {
        let Self { dir, metrics, journal, writer, tape, .. } = self;
        drop(tape);
        let running = std::thread::spawn(move || writer.run());
        assert!(journal.close(Duration::from_secs(60)));
        running.join().unwrap();
        (dir, metrics)
    }
}

fn spec() -> PathSpec {
    PathSpec { id: "p0>d0/r0/quic".parse().unwrap(), address: "127.0.0.1:1".into(), bandwidth_gbps: 10.0 }
}

fn sample(elapsed_ms: f64) -> Input {
    Input::Sample(Sample {
        path: spec().id,
        kind: SampleKind::Probe,
        outcome: SampleOutcome::Ok,
        elapsed_ms,
        bytes: 64,
        attempted_bytes: 64,
        inflight_bytes: 0,
        late_ms: 0.0,
        taken: None,
    })
}

fn counted(metrics: &Metrics, series: &str) -> u64 {
    let text = metrics.render();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0)
}

const LOST: &str = "seam_queue_dropped_total{queue=\"journal\"}";
const GAPS: &str = "seam_journal_gaps_total";

/// The entries of every segment of a folder; all of them must be sound.
fn entries(dir: &Path) -> Vec<Vec<Entry>> {
    let read = |segment: journal::Segment| {
        let reader = Reader::open(BufReader::new(File::open(segment.path).unwrap())).unwrap();
        assert_eq!((reader.header().generation, reader.header().segment), (segment.generation, segment.number));
        reader.map(Result::unwrap).collect()
    };
    list(dir).unwrap().into_iter().map(read).collect()
}

/// Plays a tape and says how many turns came out as they were; none may differ.
fn played<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> u64 {
    let (mut core, mut turns, mut scratch): (Option<HealthCore>, _, _) = (None, 0, Vec::new());
    for entry in entries {
        match entry {
            Entry::Snapshot(Snapshot::Health(snapshot)) => {
                if let Some(core) = &core {
                    assert_eq!(core.snapshot(), **snapshot, "a snapshot is what the tape leads to");
                }
                core = Some(HealthCore::restore((**snapshot).clone()));
            }
            Entry::Gap(_) => core = None,
            Entry::Turn(turn) => {
                let journal::Input::Health(input) = &turn.input else { panic!("{turn:?}") };
                let mut out = Vec::new();
                core.as_mut().expect("a snapshot comes first").step(turn.now, input.clone(), &mut out);
                assert_eq!(turn.digest, digest(&out, &mut scratch));
                turns += 1;
            }
            Entry::Closed(_) => {}
            other => panic!("{other:?}"),
        }
    }
    turns
}
