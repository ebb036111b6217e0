//! Journals of agents, read and played again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use seam::core::Core;
use seam::health::HealthCore;
use seam::journal::{Entry, Header, Input, Part, Reader, Said, Snapshot, Taped, Turn, digest, list};
use seam::ledger::Ledger;
use seam::mesh::MeshCore;
use seam::policy::Policy;

/// Every segment of a folder; all of them must be sound to their ends.
pub(crate) fn life(dir: &Path) -> Vec<(Header, Vec<Entry>)> {
    read(dir, |entry| Some(entry.unwrap()))
}

/// As [`life`], of an agent that still writes.
pub(crate) fn life_so_far(dir: &Path) -> Vec<(Header, Vec<Entry>)> {
    read(dir, Result::ok)
}

fn read(
    dir: &Path,
    sound: impl Fn(Result<Entry, seam::journal::Damage>) -> Option<Entry>,
) -> Vec<(Header, Vec<Entry>)> {
    let mut segments = Vec::new();
    for segment in list(dir).unwrap_or_default() {
        let Ok(reader) = Reader::open(BufReader::new(File::open(segment.path).unwrap())) else { continue };
        segments.push((reader.header().clone(), reader.map_while(&sound).collect()));
    }
    segments
}

/// Where cores begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// At their first snapshot, and go on from there.
    FirstSnapshot,
    /// Anew at every snapshot, but the mesh core, of which there is only the first.
    EverySnapshot,
}

/// What came of a journal that was played again.
#[derive(Default)]
pub(crate) struct Played {
    /// Turns of each core.
    pub(crate) turns: BTreeMap<Part, u64>,
    /// What was said, in order.
    pub(crate) said: Vec<Said>,
}

/// Plays one life again: every turn must come out as it is written.
pub(crate) fn play<'e>(entries: impl IntoIterator<Item = &'e Entry>, start: Start) -> Played {
    let (mut health, mut policy, mut ledger, mut mesh) =
        (None::<HealthCore>, None::<Policy>, None::<Ledger>, None::<MeshCore>);
    let mut played = Played::default();
    for entry in entries {
        match entry {
            Entry::Snapshot(snapshot) => match snapshot.clone() {
                Snapshot::Health(snapshot) => begin(&mut health, *snapshot, start),
                Snapshot::Policy(snapshot) => begin(&mut policy, *snapshot, start),
                Snapshot::Ledger(snapshot) => begin(&mut ledger, *snapshot, start),
                Snapshot::Mesh(snapshot) => begin(&mut mesh, *snapshot, start),
                Snapshot::MeshRunning => assert!(mesh.is_some(), "it ran before its first snapshot"),
            },
            Entry::Turn(turn) => match turn.input.clone() {
                Input::Health(input) => take(&mut health, input, turn, &mut played),
                Input::Policy(input) => take(&mut policy, input, turn, &mut played),
                Input::Ledger(input) => take(&mut ledger, input, turn, &mut played),
                Input::Mesh(input) => take(&mut mesh, input, turn, &mut played),
            },
            Entry::Closed(_) => {}
            Entry::Gap(_) | Entry::Panicked(..) => panic!("{entry:?}"),
        }
    }
    played
}

fn begin<C: Core>(core: &mut Option<C>, snapshot: C::Snapshot, start: Start) {
    if core.is_none() || start == Start::EverySnapshot {
        *core = Some(C::restore(snapshot));
    }
}

fn take<C: Taped>(core: &mut Option<C>, input: C::Input, turn: &Turn, played: &mut Played) {
    let core = core.as_mut().unwrap_or_else(|| panic!("a turn before any snapshot of its core: {turn:?}"));
    let mut out = Vec::new();
    core.step(turn.now, input, &mut out);
    let said: Vec<Said> = out.iter().filter_map(C::said).collect();
    assert_eq!(said, turn.said, "{turn:?}");
    assert_eq!(digest(&out, &mut Vec::new()), turn.digest, "{turn:?}: {out:?}");
    played.said.extend(said);
    *played.turns.entry(turn.input.part()).or_default() += 1;
}
