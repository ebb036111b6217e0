//! A journal that format 1 wrote, kept in the repository: it is read and verified for as long as the
//! format is.

use std::path::Path;

use seam::journal::{Entry, FORMAT, Gap, Input, Part};
use seam::mesh::MeshSize;

use crate::common::cores;
use crate::recorder::{bytes, header, story, verify};

pub(crate) const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/journal-format-1.journal");

#[test]
fn a_journal_of_format_one_is_read_and_verified() {
    assert_eq!(FORMAT, 1, "write a journal of the new format beside it, and keep this one");
    let report = verify(&[GOLDEN]);
    let life = &report.lives[0];
    assert_eq!(report.differences(), 0, "{life:#?}");
    assert!(report.is_identical() && life.overview.tally.closed);
    for core in &life.cores {
        assert!(core.verified > 0, "{}", core.part);
    }
    assert!(life.overview.tally.decisions > 0 && life.overview.tally.gaps == 1);
}

/// Makes the file anew: `cargo test --test replay_journal write_a_journal -- --ignored`. Its certificates
/// are drawn each time, so each time it is another.
#[test]
#[ignore = "it writes into the repository"]
fn write_a_journal_of_format_one() {
    const TURNS: usize = 150;
    let mut story = story(cores(MeshSize::Local, 2, 2), 5);
    // Probes and packets come often: of them a part is enough.
    let mut kept = [0; 4];
    story.tape.retain(|(_, input)| {
        let often = matches!(input, Input::Mesh(_) | Input::Health(_));
        let part = &mut kept[input.part() as usize];
        *part += 1;
        !often || *part < 30
    });
    story.tape.truncate(TURNS);
    let mut entries = story.segments(&[]).remove(0);
    // Turns of the ledger that were lost, and its snapshot after them.
    let ledger = |entry: &Entry| matches!(entry, Entry::Turn(turn) if turn.input.part() == Part::Ledger);
    let last = entries.iter().rposition(ledger).unwrap();
    let Entry::Turn(turn) = &entries[last] else { panic!("a turn") };
    let gap = Gap { part: Part::Ledger, lost: 1, since: turn.now, until: turn.now };
    let mut after = story.cores();
    story.tape.iter().for_each(|(now, input)| drop(after.turn(*now, input.clone())));
    entries.splice(last..=last, [Entry::Gap(gap), Entry::Snapshot(after.snapshot(Part::Ledger))]);
    let bytes = bytes(&header("n0", 0), &entries);
    assert!(bytes.len() < 40_000, "{} bytes", bytes.len());
    std::fs::write(Path::new(GOLDEN), bytes).unwrap();
}
