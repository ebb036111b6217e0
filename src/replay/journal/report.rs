//! What came of playing a history's journals again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use super::difference::Difference;
use super::follow::Lost;
use super::history::{History, Life};
use super::life::Item;
use super::note::Overview;
use super::verify::Verifier;
use crate::journal::Part;

/// What came of one core.
#[derive(Clone, Debug, Serialize)]
pub struct CoreReport {
    /// Which core.
    pub part: Part,
    /// Its turns.
    pub turns: u64,
    /// Those that came out as recorded.
    pub verified: u64,
    /// Those that nobody can verify, and why.
    pub not_verifiable: BTreeMap<Lost, u64>,
    /// Snapshots that the running core was compared with and had the same.
    pub snapshots_compared: u64,
    /// Turns and snapshots that came out otherwise. After one the core goes on from its next snapshot.
    pub differences: u64,
    /// The first of them.
    pub first_difference: Option<Difference>,
}

/// What came of one life.
#[derive(Clone, Debug, Serialize)]
pub struct LifeReport {
    /// What is there.
    #[serde(flatten)]
    pub overview: Overview,
    /// Its cores: health, policy, ledger, mesh.
    pub cores: Vec<CoreReport>,
    /// BLAKE3 of all outputs that the replay gave, in order, in hexadecimal.
    pub hash: String,
}

/// What came of a history.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its lives, by node and generation.
    pub lives: Vec<LifeReport>,
    /// Files of which nobody knows where they belong.
    pub strays: Vec<StrayReport>,
    /// BLAKE3 of all lives' hashes, in hexadecimal. Two programs, or two runs of one, that gave the same
    /// outputs throughout have the same.
    pub hash: String,
}

/// A file that is damaged so early that nobody knows where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StrayReport {
    /// Which.
    pub file: PathBuf,
    /// What is wrong.
    pub error: String,
}

impl CoreReport {
    pub(super) fn new(part: Part) -> Self {
        Self {
            part,
            turns: 0,
            verified: 0,
            not_verifiable: BTreeMap::new(),
            snapshots_compared: 0,
            differences: 0,
            first_difference: None,
        }
    }

    /// Turns that nobody can verify.
    #[must_use]
    pub fn unverifiable(&self) -> u64 {
        self.not_verifiable.values().sum()
    }
}

impl LifeReport {
    /// Turns and snapshots of all cores that came out otherwise.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.cores.iter().map(|core| core.differences).sum()
    }
}

impl Report {
    /// Turns and snapshots that came out otherwise.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.lives.iter().map(LifeReport::differences).sum()
    }

    /// Turns that came out as recorded.
    #[must_use]
    pub fn verified(&self) -> u64 {
        self.lives.iter().flat_map(|life| &life.cores).map(|core| core.verified).sum()
    }

    /// Turns that nobody can verify.
    #[must_use]
    pub fn unverifiable(&self) -> u64 {
        self.lives.iter().flat_map(|life| &life.cores).map(CoreReport::unverifiable).sum()
    }

    /// Whether anything that was written is not there any more, torn ends excepted; or a core takes turns
    /// without the snapshot that stands in every segment before all that is younger than it.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let no_snapshot = |core: &CoreReport| core.not_verifiable.contains_key(&Lost::NoSnapshot);
        let damaged = |life: &LifeReport| life.overview.is_damaged() || life.cores.iter().any(no_snapshot);
        !self.strays.is_empty() || self.lives.iter().any(damaged)
    }

    /// Whether all came out as recorded, and nothing in between was missing or damaged.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        self.differences() == 0 && !self.is_damaged()
    }
}

impl History {
    /// Plays every life again, one after the other. `heard` is told after each item how many of the
    /// history's [bytes](Self::bytes) lie behind.
    pub fn verify(&self, mut heard: impl FnMut(u64)) -> Report {
        let mut hash = blake3::Hasher::new();
        let mut before = 0;
        let mut verified = Vec::new();
        for life in self.lives() {
            let mut verifier = Verifier::new(life.node.clone(), life.generation);
            let _ = each(life, before, &mut heard, |item| {
                verifier.take(item);
                ControlFlow::Continue(())
            });
            before += life.bytes();
            let report = verifier.finish();
            hash.update(report.hash.as_bytes());
            verified.push(report);
        }
        Report { lives: verified, strays: self.stray_reports(), hash: hash.finalize().to_hex().to_string() }
    }

    /// Hands out every item of every life, life by life, until `take` breaks off. `heard` as in
    /// [`verify`](Self::verify).
    pub fn each_item(&self, mut heard: impl FnMut(u64), mut take: impl FnMut(&Life, Item) -> ControlFlow<()>) {
        let mut before = 0;
        for life in self.lives() {
            if each(life, before, &mut heard, |item| take(life, item)).is_break() {
                return;
            }
            before += life.bytes();
        }
    }

    /// Counts what is there without playing it. `heard` as in [`verify`](Self::verify).
    pub fn overviews(&self, mut heard: impl FnMut(u64)) -> Vec<Overview> {
        let mut before = 0;
        let mut overviews = Vec::new();
        for life in self.lives() {
            let mut overview = Overview::new(life.node.clone(), life.generation);
            let _ = each(life, before, &mut heard, |item| {
                overview.take(&item);
                ControlFlow::Continue(())
            });
            before += life.bytes();
            overviews.push(overview);
        }
        overviews
    }

    /// The files of which nobody knows where they belong, in words.
    #[must_use]
    pub fn stray_reports(&self) -> Vec<StrayReport> {
        let report = |stray: &super::Stray| StrayReport { file: stray.path.clone(), error: stray.error.to_string() };
        self.strays().iter().map(report).collect()
    }
}

/// Gives every item of a life to `take` until that breaks off, and says how many bytes lie behind.
fn each(
    life: &Life,
    before: u64,
    heard: &mut impl FnMut(u64),
    mut take: impl FnMut(Item) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut segments = life.segments.iter();
    let mut current = segments.next();
    let mut behind = before;
    for item in life.items() {
        while let Some(segment) = current
            && segment.path != item.place.path
        {
            behind += segment.bytes;
            current = segments.next();
        }
        heard(behind.saturating_add(item.place.at));
        take(item)?;
    }
    ControlFlow::Continue(())
}
