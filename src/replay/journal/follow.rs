//! One core, played again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::difference::{Difference, Wrong, fields};
use super::life::Place;
use super::outputs::{kinds, short};
use super::report::CoreReport;
use crate::codec;
use crate::core::{Core, Mono};
use crate::health::HealthCore;
use crate::journal::{Header, Input, MAX_ENTRY, Said, Snapshot, Taped, Turn, digest};
use crate::ledger::Ledger;
use crate::mesh::MeshCore;
use crate::model::coded;
use crate::policy::Policy;

coded!(
    /// Why a turn of a core cannot be verified: nobody knows the state in which the core took it.
    Lost {
        /// No snapshot of it has come yet, and one must have.
        NoSnapshot = "no_snapshot",
        /// The first segment that is there is not the life's first, and the turn was taken before that
        /// segment was opened.
        BegunBefore = "begun_before",
        /// Turns before it were not written.
        Gap = "gap",
        /// Part of a segment before it cannot be read.
        Damage = "damage",
        /// A segment before it is missing.
        Missing = "missing",
        /// The core came out otherwise before.
        Difference = "difference",
        /// A mesh core that has run has no snapshot from which to go on.
        MeshRunning = "mesh_running",
        /// The core panicked when it was recorded.
        Panicked = "panicked",
    }
);

thread_local! {
    static IN_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread plays a turn at the moment. A panic then is caught and reported with the turn,
/// and a panic hook need say nothing of it.
#[must_use]
pub fn in_step() -> bool {
    IN_STEP.get()
}

/// A core that can be made from a journal and told what stands there.
pub(super) trait Played: Taped {
    /// None where the snapshot is not enough, or another core's.
    fn restored(snapshot: Snapshot) -> Option<Self>;

    fn told(input: Input) -> Option<Self::Input>;
}

/// One core's tape as far as it has been played.
pub(super) struct Track<C: Core> {
    /// The core, or why there is none.
    core: Result<C, Lost>,
    report: CoreReport,
    /// Where the life's first segment is not there: when the one being read was opened. Turns that
    /// waited then stand in it before their core's snapshot.
    waited: Option<Mono>,
    /// When its last turn was.
    last: Mono,
    out: Vec<C::Output>,
    recorded: Vec<u8>,
    replayed: Vec<u8>,
}

impl<C: Played> Track<C> {
    pub(super) fn new() -> Self {
        Self {
            core: Err(Lost::NoSnapshot),
            report: CoreReport::new(C::PART),
            waited: None,
            last: Mono::default(),
            out: Vec::new(),
            recorded: Vec::new(),
            replayed: Vec::new(),
        }
    }

    pub(super) fn into_report(self) -> CoreReport {
        self.report
    }

    /// A segment begins of a life whose first segment is not there.
    pub(super) fn begins_late(&mut self, header: &Header) {
        self.waited = Some(header.opened.mono);
    }

    /// From here on nobody knows its state.
    pub(super) fn lose(&mut self, why: Lost) {
        self.core = Err(why);
    }

    /// A snapshot of it stands here. Compares it with the core that runs; without one the core goes on
    /// from it, if it can. Says whether there is a core now.
    pub(super) fn snapshot(&mut self, axis: Axis, place: &Place, snapshot: Snapshot) -> bool {
        if let Ok(core) = &self.core {
            let own = core.taped_snapshot();
            if self.same_snapshot(&snapshot, &own) {
                self.report.snapshots_compared += 1;
                return true;
            }
            let (fields, more) = fields(&snapshot, &own);
            let (recorded_bytes, replayed_bytes) = (self.recorded.len() as u64, self.replayed.len() as u64);
            let wrong = Wrong::Snapshot { fields, more, recorded_bytes, replayed_bytes };
            self.differs(axis, self.last, place, None, wrong);
        }
        // A snapshot that no core ever made may not be fit to make one.
        match guarded(|| C::restored(snapshot)) {
            Ok(Some(core)) => self.core = Ok(core),
            Ok(None) => self.core = Err(Lost::MeshRunning),
            Err(message) => self.differs(axis, self.last, place, None, Wrong::Panicked { message }),
        }
        self.core.is_ok()
    }

    fn same_snapshot(&mut self, recorded: &Snapshot, replayed: &Snapshot) -> bool {
        self.recorded.clear();
        self.replayed.clear();
        // A value without a form in bytes was never written.
        let _ = codec::append_bare("snapshot", MAX_ENTRY, recorded, &mut self.recorded);
        let _ = codec::append_bare("snapshot", MAX_ENTRY, replayed, &mut self.replayed);
        self.recorded == self.replayed
    }

    /// Plays one turn and adds what comes out to `hash`.
    pub(super) fn turn(&mut self, axis: Axis, place: &Place, turn: Turn, hash: &mut blake3::Hasher) {
        self.report.turns += 1;
        self.last = turn.now.mono;
        let core = match &mut self.core {
            Ok(core) => core,
            Err(lost) => {
                let waited = self.waited.is_some_and(|opened| turn.now.mono <= opened);
                let lost = if waited && *lost == Lost::NoSnapshot { Lost::BegunBefore } else { *lost };
                *self.report.not_verifiable.entry(lost).or_default() += 1;
                return;
            }
        };
        let Some(input) = C::told(turn.input) else { return };
        self.out.clear();
        let stepped = guarded(|| core.step(turn.now, input.clone(), &mut self.out));
        if let Err(message) = stepped {
            hash.update(&[C::PART as u8]).update(message.as_bytes());
            self.differs(axis, turn.now.mono, place, Some(short(&input)), Wrong::Panicked { message });
            return;
        }
        let digest = digest(&self.out, &mut self.replayed);
        hash.update(&[C::PART as u8]).update(&digest.to_le_bytes());
        let said: Vec<Said> = self.out.iter().filter_map(C::said).collect();
        let same_said = same(&turn.said, &said, &mut self.recorded, &mut self.replayed);
        if same_said && digest == turn.digest {
            self.report.verified += 1;
            return;
        }
        let wrong = if same_said {
            Wrong::Digest { replayed: kinds(&self.out) }
        } else {
            let differ = |was: &Said, is: &Said| !same(was, is, &mut Vec::new(), &mut Vec::new());
            Wrong::said(&turn.said, &said, differ)
        };
        self.differs(axis, turn.now.mono, place, Some(short(&input)), wrong);
    }

    /// Counts a difference, keeps the first, and trusts the core no longer.
    fn differs(&mut self, axis: Axis, at: Mono, place: &Place, input: Option<String>, wrong: Wrong) {
        self.report.differences += 1;
        let difference = || Difference {
            part: C::PART,
            turn: self.report.turns,
            at_ms: axis.at_ms(at),
            file: place.path.to_path_buf(),
            at: place.at,
            input,
            wrong,
        };
        if self.report.first_difference.is_none() {
            self.report.first_difference = Some(difference());
        }
        self.core = Err(Lost::Difference);
    }
}

/// Whether two values have the same bytes: numbers that are equal and not the same differ, and a
/// not-a-number is the same as itself.
fn same<T: Serialize + ?Sized>(recorded: &T, replayed: &T, was: &mut Vec<u8>, is: &mut Vec<u8>) -> bool {
    was.clear();
    is.clear();
    let wrote = codec::append_bare("output", MAX_ENTRY, &recorded, was).is_ok()
        && codec::append_bare("output", MAX_ENTRY, &replayed, is).is_ok();
    wrote && was == is
}

/// Runs something of a core; what it says when it panics.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    IN_STEP.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IN_STEP.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no words");
        text.chars().take(500).collect()
    })
}

impl Played for HealthCore {
    fn restored(snapshot: Snapshot) -> Option<Self> {
        let Snapshot::Health(snapshot) = snapshot else { return None };
        Some(Self::restore(*snapshot))
    }

    fn told(input: Input) -> Option<Self::Input> {
        let Input::Health(input) = input else { return None };
        Some(input)
    }
}

impl Played for Policy {
    fn restored(snapshot: Snapshot) -> Option<Self> {
        let Snapshot::Policy(snapshot) = snapshot else { return None };
        Some(Self::restore(*snapshot))
    }

    fn told(input: Input) -> Option<Self::Input> {
        let Input::Policy(input) = input else { return None };
        Some(input)
    }
}

impl Played for Ledger {
    fn restored(snapshot: Snapshot) -> Option<Self> {
        let Snapshot::Ledger(snapshot) = snapshot else { return None };
        Some(Self::restore(*snapshot))
    }

    fn told(input: Input) -> Option<Self::Input> {
        let Input::Ledger(input) = input else { return None };
        Some(input)
    }
}

impl Played for MeshCore {
    fn restored(snapshot: Snapshot) -> Option<Self> {
        let Snapshot::Mesh(snapshot) = snapshot else { return None };
        Some(Self::restore(*snapshot))
    }

    fn told(input: Input) -> Option<Self::Input> {
        let Input::Mesh(input) = input else { return None };
        Some(input)
    }
}
