//! A recorded history, decided again under other rules and by other policies.
//!
//! ```text
//! entries of one life ──▶ world as recorded ─┐ each question:   ┌▶ tally a row: states, observed latencies
//!                    └──▶ world, changed ────┤ a dry run each ──┤
//!                         rivals ────────────┘                  └▶ changes, each with its rule
//! ```
//!
//! The history stays as it was: samples, members and headroom are those that were recorded, whatever
//! is chosen here. From the first choice on that differs, the history itself would have differed
//! too; what follows is an estimate, and counted as one. A choice here is a first choice, before any
//! host was asked: what hosts would have answered to other questions nobody knows. It is therefore
//! compared with what the recorded rules choose in the same way, not with what came of their leases.
//!
//! The questions are the recorded ones, or those of a trace: then nothing was decided, and the load
//! is that of the requests that there were.

mod book;
mod import;
mod rules;
mod spread;
mod tally;
mod world;

use std::collections::BTreeMap;

use serde::Serialize;

pub use book::{Change, Choice, Explained, Rule};
pub use import::{Import, Imported};
pub use rules::{Rules, ThresholdChange};
pub use tally::{ClassRow, Row};

use crate::core::Now;
use crate::health;
use crate::health::score::ThresholdError;
use crate::health::{SampleKind, SampleOutcome};
use crate::journal::{Entry, Input, Part, Said, Snapshot, Turn};
use crate::model::{PathId, RequestId};
use crate::policy;
use crate::policy::record::{CandidateRecord, DecisionRecord};
use crate::rivals::{Ask, Choosable, Finished, Policy, Rival, Sight};
use crate::trace::TraceError;
use book::{Book, Observed, Tried};
use import::{Arrivals, Stream};
use tally::Tallies;
use world::World;

/// Changes that are listed at most; more are counted.
pub const MAX_CHANGES: usize = 10_000;
/// Paths whose best latency is remembered at most, for the rivals that compare with it.
const MAX_IDEALS: usize = 65_536;
/// The smallest latency that a path is credited with, in milliseconds: slowdown divides by it.
const MIN_IDEAL_MS: f64 = 0.001;

/// How a history is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is changed of Seam's own rules.
    pub rules: Rules,
    /// The policies to compare, each once; Seam itself always is.
    pub policies: Vec<Policy>,
    /// Which paths the policies beside Seam choose from, by the recorded rules.
    pub rivals_see: Choosable,
    /// What the policies that draw draw from.
    pub seed: u64,
    /// The request whose decisions are kept whole.
    pub explain: Option<RequestId>,
    /// The requests to ask; the recorded ones if none.
    pub import: Option<Import>,
}

/// Why a history is not tried again.
#[derive(Debug, thiserror::Error)]
pub enum RetrialError {
    /// A threshold is out of range.
    #[error("thresholds.{0}")]
    Threshold(#[from] ThresholdError),
    /// A policy cannot work on a journal.
    #[error("policy {0}: it needs prefix blocks, and a journal has none")]
    PrefixBlocks(Policy),
    /// The trace whose requests are to be asked cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chooser {
    /// What was decided then, leases and quotes included.
    Recorded,
    /// Seam's first choice under the rules that held then.
    Seam,
    /// Seam's first choice under the changed rules.
    Changed,
    /// Another policy.
    #[serde(untagged)]
    Rival(Policy),
}

impl std::fmt::Display for Chooser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Recorded => "as recorded",
            Self::Seam => "seam",
            Self::Changed => "seam, changed",
            Self::Rival(policy) => policy.as_str(),
        })
    }
}

/// What came of it all.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Requests tried.
    pub requests: u64,
    /// The thresholds that the changed rules change, each as it was recorded and as it is tried.
    pub thresholds_changed: Vec<ThresholdChange>,
    /// How far the trace came whose requests they are; none if they are the recorded ones.
    pub imported: Option<Imported>,
    /// Requests of which too little was known: their node's tapes begin later, or are interrupted.
    pub not_tried: u64,
    /// Requests of which no decision is recorded: asked again after one that was tried, or at the end of
    /// the journal.
    pub not_decided: u64,
    /// Of those tried, requests whose recorded decision chose what the recorded rules choose first.
    pub as_first_chosen: u64,
    /// Requests that were tried after a choice of the changed rules had differed in the same life: the
    /// history would have been another one.
    pub estimates: u64,
    /// When the first choice of the changed rules differed, in milliseconds since the Unix epoch.
    pub first_change: Option<u64>,
    /// By chooser, all classes together.
    pub choosers: Vec<Row>,
    /// By class and chooser.
    pub classes: Vec<ClassRow>,
    /// The requests for which the changed rules choose otherwise, at most [`MAX_CHANGES`].
    pub changes: Vec<Change>,
    /// Changes beyond that.
    pub changes_left_out: u64,
    /// Choices that are in no class's row, for there are too many classes.
    pub classes_left_out: u64,
}

/// A history being tried again, life by life.
pub struct Retrial {
    settings: Settings,
    rivals: Vec<(Policy, Box<dyn Rival + Send>)>,
    recorded: World,
    changed: Option<World>,
    book: Book,
    /// The smallest p99 that each path has shown, in milliseconds.
    ideals: BTreeMap<String, f64>,
    began: Option<Now>,
    tallies: Tallies,
    explained: Vec<Explained>,
    not_tried: u64,
    /// The trace, opened: for the first life that is asked.
    opened: Option<Arrivals>,
    /// What this life is still to be asked, once it knows enough.
    stream: Option<Stream>,
    imported: Option<Imported>,
    /// Why the trace cannot be read on.
    broken: Option<TraceError>,
}

impl Retrial {
    /// Nothing is tried yet.
    ///
    /// # Errors
    /// A threshold is out of range, a policy cannot work on a journal, or the trace cannot be read, its
    /// first request included.
    pub fn new(settings: Settings) -> Result<Self, RetrialError> {
        if let Some(thresholds) = &settings.rules.thresholds {
            thresholds.validate()?;
        }
        if let Some(policy) = settings.policies.iter().find(|policy| policy.needs_prefix_blocks()) {
            return Err(RetrialError::PrefixBlocks(*policy));
        }
        let opened = settings.import.as_ref().map(Import::open).transpose()?;
        let mut retrial = Self {
            rivals: Vec::new(),
            recorded: World::new(Rules::default()),
            changed: None,
            book: Book::default(),
            ideals: BTreeMap::new(),
            began: None,
            tallies: Tallies::new(settings.import.is_none()),
            explained: Vec::new(),
            not_tried: 0,
            opened,
            stream: None,
            imported: settings.import.as_ref().map(|_| Imported::default()),
            broken: None,
            settings,
        };
        retrial.next_life();
        Ok(retrial)
    }

    /// What follows is another node's life, or a later one of the same node.
    pub fn next_life(&mut self) {
        self.end_life();
        let mut rivals = Vec::new();
        for policy in &self.settings.policies {
            if rivals.iter().all(|(known, _)| known != policy) {
                rivals.extend(policy.rival(self.settings.seed).map(|rival| (*policy, rival)));
            }
        }
        self.rivals = rivals;
        self.recorded = World::new(Rules::default());
        let rules = Some(&self.settings.rules).filter(|rules| !rules.is_empty());
        self.changed = rules.map(|rules| World::new(rules.clone()));
        self.book = Book::default();
        self.ideals.clear();
        self.began = None;
        self.tallies.next_life();
    }

    /// Something is missing before what follows: every core goes on from its next snapshot.
    pub fn interrupted(&mut self) {
        Part::ALL.iter().for_each(|part| self.interrupt(*part));
    }

    /// Takes the life's next entry.
    pub fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::Snapshot(snapshot) => {
                let now = self.book.now();
                self.recorded.begin(now, &snapshot);
                if let Snapshot::Policy(core) = &snapshot {
                    self.tallies.changes(self.settings.rules.changes(core.settings()));
                }
                if let Some(world) = &mut self.changed {
                    world.begin(now, &snapshot);
                }
            }
            Entry::Turn(turn) => self.turn(turn),
            Entry::Gap(gap) => self.interrupt(gap.part),
            Entry::Panicked(..) | Entry::Closed(_) => {}
        }
    }

    /// Whether the trace cannot be read on: [`finish`](Self::finish) says why, and what else the journals
    /// hold does not matter.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// What came of it, and the wanted request's decisions.
    ///
    /// # Errors
    /// The trace whose requests were asked cannot be read.
    pub fn finish(mut self) -> Result<(Report, Vec<Explained>), TraceError> {
        self.end_life();
        match self.broken {
            Some(error) => Err(error),
            None => Ok((self.tallies.report(self.not_tried, self.imported), self.explained)),
        }
    }

    fn end_life(&mut self) {
        self.close_until(None);
        if let (Some(mut stream), Some(imported)) = (self.stream.take(), &mut self.imported) {
            imported.cut_short += u64::from(stream.is_left());
        }
    }

    fn interrupt(&mut self, part: Part) {
        self.recorded.interrupted(part);
        if let Some(world) = &mut self.changed {
            world.interrupted(part);
        }
    }

    fn turn(&mut self, turn: Turn) {
        let Turn { now, input, said, .. } = turn;
        self.began.get_or_insert(now);
        if self.imported.is_some()
            && let Err(error) = self.ask_what_has_come(now)
        {
            self.broken.get_or_insert(error);
        }
        self.book.reach(now);
        match input {
            Input::Health(input) => {
                if let health::Input::Sample(sample) = &input
                    && sample.kind == SampleKind::Probe
                {
                    self.observe(
                        &sample.path,
                        match sample.outcome {
                            SampleOutcome::Ok => Observed::Took(sample.elapsed_ms),
                            SampleOutcome::Lost | SampleOutcome::Failed => Observed::Lost,
                        },
                    );
                }
                if let Some(world) = &mut self.changed {
                    world.health(now, input.clone());
                }
                self.recorded.health(now, input);
            }
            Input::Policy(question @ policy::Input::Route { .. }) => {
                if self.imported.is_none() {
                    self.question(now, &question);
                }
            }
            Input::Policy(input) => {
                if let Some(world) = &mut self.changed {
                    world.policy(now, input.clone());
                }
                self.recorded.policy(now, input);
            }
            Input::Ledger(_) | Input::Mesh(_) => {}
        }
        for said in said {
            if let Said::Decided(record) = said {
                self.book.decided(record);
            }
        }
        self.close_until(Some(now));
    }

    /// Asks what has come by `now` of the trace's requests.
    fn ask_what_has_come(&mut self, now: Now) -> Result<(), TraceError> {
        if let (None, None, Some(import)) = (&self.broken, &self.stream, &self.settings.import)
            && self.recorded.routes(now)
        {
            let arrivals = self.opened.take().map_or_else(|| import.open(), Ok)?;
            self.stream = Some(Stream::begin(now, arrivals));
            self.imported.iter_mut().for_each(|imported| imported.lives += 1);
        }
        // It is put back unless it is broken.
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        while let Some((at, question)) = stream.next(now)? {
            self.book.reach(at);
            self.question(at, &question);
            self.close_until(Some(at));
        }
        self.stream = Some(stream);
        Ok(())
    }

    fn question(&mut self, now: Now, question: &policy::Input) {
        let policy::Input::Route { request_id, request, .. } = question else { return };
        if request.dry_run || self.book.knows(request_id) {
            return;
        }
        let seam = match self.recorded.decide(now, question) {
            Some(Ok(seam)) => seam,
            Some(Err(problem)) => return self.refused(&problem),
            None => {
                self.not_tried += 1;
                return;
            }
        };
        let changed = match &mut self.changed {
            Some(world) => match world.decide(now, question) {
                Some(answer) => Some(answer.map_err(|problem| words(&problem))),
                None => {
                    self.not_tried += 1;
                    return;
                }
            },
            None => None,
        };
        let mut choices = Vec::with_capacity(self.rivals.len() + 2);
        choices.push((Chooser::Seam, chosen_path(&seam)));
        if let Some(changed) = &changed {
            choices.push((Chooser::Changed, changed.as_deref().ok().and_then(chosen_path)));
        }
        choices.extend(self.rivals_choose(now, &seam));
        self.book.add(Tried { at: now, request_id: request_id.clone(), seam, changed, choices });
    }

    /// The question itself is at fault: a recorded one was refused then, too.
    fn refused(&mut self, problem: &policy::RouteProblem) {
        let Some(imported) = &mut self.imported else {
            self.not_tried += 1;
            return;
        };
        imported.refused += 1;
        imported.first_refusal.get_or_insert_with(|| words(problem));
    }

    /// What the rivals choose of the candidates of `seam`.
    fn rivals_choose(&mut self, now: Now, seam: &DecisionRecord) -> Vec<(Chooser, Option<PathId>)> {
        let up = |candidate: &CandidateRecord| candidate.path_state.carries() && !candidate.capacity.hard_saturated;
        let seen: Vec<(&PathId, String, &CandidateRecord)> = seam
            .candidates
            .iter()
            .filter(|candidate| match self.settings.rivals_see {
                Choosable::AdmissibleOnly => candidate.admissible,
                Choosable::UpAndNotFull => up(candidate),
            })
            .filter_map(|candidate| candidate.target.path.as_ref().map(|path| (path, path.to_string(), candidate)))
            .collect();
        for (_, name, candidate) in &seen {
            let latency_ms = candidate.health.p99_latency_ms.max(MIN_IDEAL_MS);
            let room = self.ideals.len() < MAX_IDEALS;
            match self.ideals.get_mut(name) {
                Some(ideal) => *ideal = ideal.min(latency_ms),
                None if room => {
                    self.ideals.insert(name.clone(), latency_ms);
                }
                None => {}
            }
        }
        let sights: Vec<Sight<'_>> = seen
            .iter()
            .map(|(_, name, candidate)| Sight {
                name,
                state: candidate.path_state,
                gfs: candidate.gfs,
                latency_ms: candidate.health.p99_latency_ms,
                load: candidate.capacity.load(),
            })
            .collect();
        let ask = Ask { at_ms: at_ms(self.began, now), prefix_blocks: None };
        let choose = |(policy, rival): &mut (Policy, Box<dyn Rival + Send>)| {
            let index = (!sights.is_empty()).then(|| rival.choose(&ask, &sights)).flatten();
            let path = index.and_then(|index| seen.get(index)).map(|(path, ..)| (*path).clone());
            (Chooser::Rival(*policy), path)
        };
        self.rivals.iter_mut().map(choose).collect()
    }

    /// A probe said how a path is: everyone who would have used it since its last probe learns that.
    fn observe(&mut self, path: &PathId, observed: Observed) {
        let at_ms = at_ms(self.began, self.book.now());
        let told = self.book.observe(path, observed);
        if !told.iter().any(|chooser| matches!(chooser, Chooser::Rival(_))) {
            return;
        }
        let name = path.to_string();
        let ideal_ms = self.ideals.get(&name).copied();
        for chooser in told {
            let Chooser::Rival(policy) = chooser else { continue };
            let rival = self.rivals.iter_mut().find(|(known, _)| *known == policy);
            if let (Some((_, rival)), Some(ideal_ms)) = (rival, ideal_ms) {
                let (elapsed_ms, ok) = match observed {
                    Observed::Took(elapsed_ms) => (elapsed_ms, true),
                    Observed::Lost => (ideal_ms, false),
                };
                rival.finished(&Finished { at_ms, name: &name, elapsed_ms, ideal_ms, ok });
            }
        }
    }

    /// Counts what nothing more is learned of; everything at the end.
    fn close_until(&mut self, now: Option<Now>) {
        while let Some(closed) = self.book.close(now) {
            if self.settings.explain.as_ref() == Some(&closed.tried.request_id) {
                self.explained.push(closed.explained());
                // The newest are the ones that are asked for.
                if self.explained.len() > MAX_EXPLAINED {
                    self.explained.remove(0);
                }
            }
            self.tallies.count(&closed);
        }
    }
}

/// Decisions of one request id that are kept at most: an id may come again in a later life.
const MAX_EXPLAINED: usize = 64;

fn words(problem: &policy::RouteProblem) -> String {
    problem.field().map_or_else(|| problem.to_string(), |field| format!("{field}: {problem}"))
}

fn chosen_path(record: &DecisionRecord) -> Option<PathId> {
    record.chosen.as_ref().and_then(|chosen| chosen.path.clone())
}

fn at_ms(began: Option<Now>, now: Now) -> f64 {
    began.map_or(0.0, |began| now.mono.0.saturating_sub(began.mono.0) as f64 / 1e6)
}
