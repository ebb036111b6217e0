//! One life, played again.

use super::axis::Axis;
use super::follow::{Lost, Track};
use super::life::{Item, Place, What};
use super::note::{Noted, Overview};
use super::report::LifeReport;
use crate::health::HealthCore;
use crate::journal::{Entry, Header, Input, Part, Snapshot};
use crate::ledger::Ledger;
use crate::mesh::MeshCore;
use crate::model::{Generation, NodeName};
use crate::policy::Policy;

/// Plays the tapes of one life's cores again and compares every turn with what was recorded.
///
/// A core goes on from its snapshots. Where turns are missing before it, or it came out otherwise, it
/// waits for its next one, and its turns until then count as not verifiable. Where a snapshot comes
/// while a core runs, the two are compared.
pub struct Verifier {
    overview: Overview,
    health: Track<HealthCore>,
    policy: Track<Policy>,
    ledger: Track<Ledger>,
    mesh: Track<MeshCore>,
    hash: blake3::Hasher,
}

impl Verifier {
    /// Nothing of this life has been played yet.
    #[must_use]
    pub fn new(node: NodeName, generation: Generation) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(node.as_str().as_bytes()).update(&[0]).update(&generation.to_le_bytes());
        Self {
            overview: Overview::new(node, generation),
            health: Track::new(),
            policy: Track::new(),
            ledger: Track::new(),
            mesh: Track::new(),
            hash,
        }
    }

    /// Takes one item of the life; they come in order.
    pub fn take(&mut self, item: Item) {
        self.overview.take(&item);
        let axis = self.overview.tally.axis();
        let Item { place, what } = item;
        match what {
            What::Segment(header) => self.segment(&header),
            What::Missing(_) => self.lose_all(Lost::Missing),
            What::Broken(_) => self.lose_all(Lost::Damage),
            What::Entry(Entry::Snapshot(snapshot)) => self.snapshot(axis, &place, snapshot),
            What::Entry(Entry::Turn(turn)) => match &turn.input {
                Input::Health(_) => self.health.turn(axis, &place, turn, &mut self.hash),
                Input::Policy(_) => self.policy.turn(axis, &place, turn, &mut self.hash),
                Input::Ledger(_) => self.ledger.turn(axis, &place, turn, &mut self.hash),
                Input::Mesh(_) => self.mesh.turn(axis, &place, turn, &mut self.hash),
            },
            What::Entry(Entry::Gap(gap)) => self.lose(gap.part, Lost::Gap),
            What::Entry(Entry::Panicked(input, _)) => self.lose(input.part(), Lost::Panicked),
            What::Entry(Entry::Closed(_)) => {}
        }
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> LifeReport {
        LifeReport {
            overview: self.overview,
            cores: vec![
                self.health.into_report(),
                self.policy.into_report(),
                self.ledger.into_report(),
                self.mesh.into_report(),
            ],
            hash: self.hash.finalize().to_hex().to_string(),
        }
    }

    fn segment(&mut self, header: &Header) {
        if self.overview.tally.first_segment == Some(0) {
            return;
        }
        self.health.begins_late(header);
        self.policy.begins_late(header);
        self.ledger.begins_late(header);
        self.mesh.begins_late(header);
    }

    fn snapshot(&mut self, axis: Axis, place: &Place, snapshot: Snapshot) {
        let part = snapshot.part();
        let goes_on = match part {
            Part::Health => self.health.snapshot(axis, place, snapshot),
            Part::Policy => self.policy.snapshot(axis, place, snapshot),
            Part::Ledger => self.ledger.snapshot(axis, place, snapshot),
            Part::Mesh => self.mesh.snapshot(axis, place, snapshot),
        };
        let known = self.overview.notes.iter().any(|note| note.noted == Noted::MeshRunning);
        if part == Part::Mesh && !goes_on && !known {
            let text =
                "the mesh of this life cannot be verified from here on: a mesh core that has run has no snapshot";
            self.overview.note(Noted::MeshRunning, place, text.to_owned());
        }
    }

    fn lose(&mut self, part: Part, why: Lost) {
        match part {
            Part::Health => self.health.lose(why),
            Part::Policy => self.policy.lose(why),
            Part::Ledger => self.ledger.lose(why),
            Part::Mesh => self.mesh.lose(why),
        }
    }

    fn lose_all(&mut self, why: Lost) {
        Part::ALL.iter().for_each(|part| self.lose(*part, why));
    }
}
