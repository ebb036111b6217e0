//! What is counted of each chooser.

use std::collections::BTreeMap;

use serde::Serialize;

use super::book::{Change, Closed, Observed, Rule};
use super::spread::Spread;
use super::{Chooser, Imported, MAX_CHANGES, Report, ThresholdChange, chosen_path};
use crate::model::{PathId, PathState, Workload, WorkloadName};
use crate::policy::explain::explain_candidate;
use crate::policy::record::DecisionRecord;
use crate::replay::summary::{is_strict, is_tolerant, percent};

/// What came of one chooser's choices. States are those of the recorded rules, for all choosers
/// alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Who chose.
    pub chooser: Chooser,
    /// Requests in all.
    pub requests: u64,
    /// Requests for which nothing was chosen.
    pub refused: u64,
    /// Requests for which it chose otherwise than the recorded rules do.
    pub differs: u64,
    /// Strict requests.
    pub strict: u64,
    /// Of them those on a HEALTHY path, in percent.
    pub strict_on_healthy_pct: Option<f64>,
    /// Strict requests on a path that is neither HEALTHY nor RESTORED.
    pub strict_on_degraded: u64,
    /// Tolerant requests.
    pub tolerant: u64,
    /// Of them those on a DEGRADED_USABLE path, in percent.
    pub tolerant_on_degraded_pct: Option<f64>,
    /// Tolerant requests on a HEALTHY path.
    pub tolerant_on_healthy: u64,
    /// Requests that are neither strict nor tolerant.
    pub neither: u64,
    /// The median of what the next probe of the chosen path took, in milliseconds, to 2.2 %.
    pub observed_p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub observed_p99_ms: Option<f64>,
    /// Choices of paths whose next probe was lost.
    pub observed_lost: u64,
    /// Choices of paths that were not probed soon enough to know.
    pub not_observed: u64,
}

/// One class's row of one chooser.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRow {
    /// The class.
    pub workload: WorkloadName,
    /// What came of it.
    #[serde(flatten)]
    pub row: Row,
}

#[derive(Debug, Default)]
pub(super) struct Tallies {
    /// Whether the requests were decided then.
    recorded: bool,
    rows: BTreeMap<Chooser, Tally>,
    classes: BTreeMap<(WorkloadName, Chooser), Tally>,
    requests: u64,
    as_first_chosen: u64,
    estimates: u64,
    first_change: Option<u64>,
    /// A choice has differed in this life.
    diverged: bool,
    changes: Vec<Change>,
    changes_left_out: u64,
    classes_left_out: u64,
    not_decided: u64,
    thresholds: Vec<ThresholdChange>,
}

/// Thresholds that are said to be changed at most: nodes may have had different ones.
const MAX_THRESHOLDS: usize = 256;
/// Rows by class and chooser at most.
const MAX_CLASS_ROWS: usize = 16_384;

impl Tallies {
    /// `recorded`: the requests were decided then, and one that was not does not count.
    pub(super) fn new(recorded: bool) -> Self {
        Self { recorded, ..Self::default() }
    }

    /// Notes which thresholds are changed; lives and snapshots repeat one another.
    pub(super) fn changes(&mut self, changes: Vec<ThresholdChange>) {
        for change in changes {
            if self.thresholds.len() < MAX_THRESHOLDS && !self.thresholds.contains(&change) {
                self.thresholds.push(change);
            }
        }
    }

    pub(super) fn next_life(&mut self) {
        self.diverged = false;
    }

    pub(super) fn count(&mut self, closed: &Closed) {
        if self.recorded && closed.recorded.is_empty() {
            self.not_decided += 1;
            return;
        }
        let tried = &closed.tried;
        let seam = chosen_path(&tried.seam);
        let recorded = closed.recorded.first().map(|record| chosen_path(record));
        self.requests += 1;
        self.as_first_chosen += u64::from(recorded.as_ref() == Some(&seam));
        self.estimates += u64::from(self.diverged);
        if let Some(changed) = &tried.changed
            && changed.as_deref().ok().and_then(chosen_path) != seam
        {
            // Lives come one after the other, and overlap in time.
            self.first_change = Some(self.first_change.map_or(tried.at.wall_ms, |first| first.min(tried.at.wall_ms)));
            match self.changes.len() < MAX_CHANGES {
                true => self.changes.push(change(closed, changed.as_deref(), self.diverged)),
                false => self.changes_left_out += 1,
            }
            self.diverged = true;
        }
        let choices = tried.choices.iter().map(|(chooser, path)| (*chooser, path));
        let recorded = recorded.as_ref().map(|path| (Chooser::Recorded, path));
        for (chooser, path) in recorded.into_iter().chain(choices) {
            let class = (tried.seam.workload.name.clone(), chooser);
            self.rows.entry(chooser).or_default().count(closed, path.as_ref(), *path != seam);
            if self.classes.len() < MAX_CLASS_ROWS || self.classes.contains_key(&class) {
                self.classes.entry(class).or_default().count(closed, path.as_ref(), *path != seam);
            } else {
                self.classes_left_out += 1;
            }
        }
    }

    pub(super) fn report(self, not_tried: u64, imported: Option<Imported>) -> Report {
        let row = |((workload, chooser), tally): ((WorkloadName, Chooser), Tally)| ClassRow {
            workload,
            row: tally.row(chooser),
        };
        Report {
            requests: self.requests,
            thresholds_changed: self.thresholds,
            imported,
            not_tried,
            as_first_chosen: self.as_first_chosen,
            estimates: self.estimates,
            first_change: self.first_change,
            choosers: self.rows.into_iter().map(|(chooser, tally)| tally.row(chooser)).collect(),
            classes: self.classes.into_iter().map(row).collect(),
            changes: self.changes,
            changes_left_out: self.changes_left_out,
            classes_left_out: self.classes_left_out,
            not_decided: self.not_decided,
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    refused: u64,
    differs: u64,
    strict: u64,
    strict_on_healthy: u64,
    strict_on_degraded: u64,
    tolerant: u64,
    tolerant_on_degraded: u64,
    tolerant_on_healthy: u64,
    observed: Spread,
    observed_lost: u64,
    not_observed: u64,
}

impl Tally {
    fn count(&mut self, closed: &Closed, chosen: Option<&PathId>, differs: bool) {
        let workload: &Workload = &closed.tried.seam.workload;
        let (strict, tolerant) = (is_strict(workload), is_tolerant(workload));
        self.requests += 1;
        self.differs += u64::from(differs);
        self.strict += u64::from(strict);
        self.tolerant += u64::from(tolerant);
        let Some(path) = chosen else {
            self.refused += 1;
            return;
        };
        let state = state_of(closed, path);
        self.strict_on_healthy += u64::from(strict && state == Some(PathState::Healthy));
        let well = matches!(state, Some(PathState::Healthy | PathState::Restored));
        self.strict_on_degraded += u64::from(strict && !well);
        self.tolerant_on_degraded += u64::from(tolerant && state == Some(PathState::DegradedUsable));
        self.tolerant_on_healthy += u64::from(tolerant && state == Some(PathState::Healthy));
        match closed.observed(path) {
            Some(Observed::Took(latency_ms)) => self.observed.add(latency_ms),
            Some(Observed::Lost) => self.observed_lost += 1,
            None => self.not_observed += 1,
        }
    }

    fn row(&self, chooser: Chooser) -> Row {
        Row {
            chooser,
            requests: self.requests,
            refused: self.refused,
            differs: self.differs,
            strict: self.strict,
            strict_on_healthy_pct: percent(self.strict_on_healthy, self.strict),
            strict_on_degraded: self.strict_on_degraded,
            tolerant: self.tolerant,
            tolerant_on_degraded_pct: percent(self.tolerant_on_degraded, self.tolerant),
            tolerant_on_healthy: self.tolerant_on_healthy,
            neither: self.requests - self.strict - self.tolerant,
            observed_p50_ms: self.observed.quantile(0.50),
            observed_p99_ms: self.observed.quantile(0.99),
            observed_lost: self.observed_lost,
            not_observed: self.not_observed,
        }
    }
}

/// The state of a path by the recorded rules, when the request came.
fn state_of(closed: &Closed, path: &PathId) -> Option<PathState> {
    let records = std::iter::once(&closed.tried.seam).chain(closed.recorded.first());
    let mut candidates = records.flat_map(|record| &record.candidates);
    candidates.find(|candidate| candidate.target.path.as_ref() == Some(path)).map(|candidate| candidate.path_state)
}

fn change(closed: &Closed, changed: Result<&DecisionRecord, &String>, estimate: bool) -> Change {
    let tried = &closed.tried;
    let (from, to) = (chosen_path(&tried.seam), changed.ok().and_then(chosen_path));
    let now = from.as_ref().and_then(|path| judged(changed.ok()?, path));
    let then = to.as_ref().and_then(|path| judged(&tried.seam, path));
    let judged = [("changed rules:", &now), ("recorded rules:", &then)];
    let why: Vec<String> = match changed {
        Ok(_) => judged.iter().filter_map(|(when, said)| Some(format!("{when} {}", said.as_ref()?.0))).collect(),
        Err(problem) => vec![format!("changed rules: refused, {problem}")],
    };
    Change {
        at: tried.at.wall_ms,
        request_id: tried.request_id.clone(),
        workload: tried.seam.workload.name.clone(),
        from: from.map(|path| path.to_string()),
        to: to.map(|path| path.to_string()),
        why: why.join("; "),
        now: now.map(|(_, rule)| rule),
        then: then.map(|(_, rule)| rule),
        estimate,
    }
}

/// What a decision says of a path, in words and as codes.
fn judged(record: &DecisionRecord, path: &PathId) -> Option<(String, Rule)> {
    let candidate = record.candidates.iter().find(|candidate| candidate.target.path.as_ref() == Some(path))?;
    let rule = Rule { code: candidate.code, skipped_reason: candidate.skipped_reason };
    let codes = match rule.skipped_reason {
        Some(skipped) => format!("{}, {skipped}", rule.code),
        None => rule.code.to_string(),
    };
    Some((format!("{} ({codes})", explain_candidate(record, path)?), rule))
}
