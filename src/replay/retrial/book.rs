//! Requests that were tried and of which something is still to be learned: what was decided for
//! them then, and how the paths did that they would have used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;

use super::Chooser;
use crate::core::Now;
use crate::model::{PathId, Reason, RequestId, WorkloadName};
use crate::policy::record::DecisionRecord;
use crate::policy::select::Skipped;

/// How long a request waits for that, in milliseconds: longer than a decision with all its leases
/// takes, and than any probe interval that suits a decision.
const WAIT_MS: u64 = 5_000;
/// Requests that wait at most; beyond it the oldest learns no more.
const MAX_WAITING: usize = 65_536;

/// A request, and what each chooser chose for it.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) at: Now,
    pub(super) request_id: RequestId,
    /// Decided by the recorded rules, and by the changed ones.
    pub(super) seam: Arc<DecisionRecord>,
    /// Where the changed rules refuse the question itself, why.
    pub(super) changed: Option<Result<Arc<DecisionRecord>, String>>,
    pub(super) choices: Vec<(Chooser, Option<PathId>)>,
}

/// How a path did after a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Observed {
    /// The next probe took so long, in milliseconds.
    Took(f64),
    /// The next probe was lost.
    Lost,
}

/// A request of which nothing more is learned.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) tried: Tried,
    /// The decisions that were recorded, attempt by attempt.
    pub(super) recorded: Vec<Arc<DecisionRecord>>,
    observed: Vec<(PathId, Observed)>,
}

/// A request for which the changed rules choose otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When it was decided, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The request.
    pub request_id: RequestId,
    /// Its class.
    pub workload: WorkloadName,
    /// What the recorded rules choose; none if nothing.
    pub from: Option<String>,
    /// What the changed rules choose; none if nothing.
    pub to: Option<String>,
    /// What the changed rules say of what was chosen before, and the recorded ones of what is now, in
    /// words and with the codes. Where the changed rules refuse the question itself, why.
    pub why: String,
    /// The rule by which the changed rules judge what was chosen before; none if nothing was, or it is
    /// no candidate.
    pub now: Option<Rule>,
    /// The rule by which the recorded rules judged what is chosen now; none as above.
    pub then: Option<Rule>,
    /// Another choice had differed before it in the same life: the history would have been another
    /// one.
    pub estimate: bool,
}

/// What rules say of one candidate, as codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Why it is admissible, or why not.
    pub code: Reason,
    /// What it was worse in than the chosen one, where it was admissible and not chosen.
    pub skipped_reason: Option<Skipped>,
}

/// The decisions of one request, as they were and as they would be.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// When it was decided, in milliseconds since the Unix epoch.
    pub at: u64,
    /// As recorded, attempt by attempt.
    pub recorded: Vec<Arc<DecisionRecord>>,
    /// The first choice under the recorded rules.
    pub seam: Arc<DecisionRecord>,
    /// The first choice under the changed rules, where there are any and they do not refuse the question.
    pub changed: Option<Arc<DecisionRecord>>,
    /// Why they do.
    pub refused: Option<String>,
    /// What the other policies choose of the candidates.
    pub others: Vec<Choice>,
}

/// What one policy chooses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The policy.
    pub chooser: Chooser,
    /// The path; none if it chooses nothing.
    pub path: Option<String>,
}

/// The requests that wait, the oldest first.
#[derive(Default)]
pub(super) struct Book {
    now: Now,
    waiting: VecDeque<Closed>,
    /// The number of the first of them.
    first: u64,
    numbers: BTreeMap<RequestId, u64>,
    /// Who waits for the next probe of a path.
    on_path: BTreeMap<PathId, VecDeque<u64>>,
}

impl Book {
    pub(super) fn now(&self) -> Now {
        self.now
    }

    pub(super) fn reach(&mut self, now: Now) {
        if now.mono >= self.now.mono {
            self.now = now;
        }
    }

    pub(super) fn knows(&self, request_id: &RequestId) -> bool {
        self.numbers.contains_key(request_id)
    }

    pub(super) fn add(&mut self, tried: Tried) {
        let number = self.first + self.waiting.len() as u64;
        let mut paths: Vec<&PathId> = tried.choices.iter().filter_map(|(_, path)| path.as_ref()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            self.on_path.entry(path.clone()).or_default().push_back(number);
        }
        self.numbers.insert(tried.request_id.clone(), number);
        self.waiting.push_back(Closed { tried, recorded: Vec::new(), observed: Vec::new() });
    }

    /// What was decided then.
    pub(super) fn decided(&mut self, record: Arc<DecisionRecord>) {
        let number = record.request_id.as_ref().and_then(|id| self.numbers.get(id)).copied();
        if let Some(waiting) = number.and_then(|number| self.waiting.get_mut((number - self.first) as usize)) {
            let path = record.chosen.as_ref().and_then(|chosen| chosen.path.as_ref());
            if let (true, Some(path), Some(number)) = (waiting.recorded.is_empty(), path, number) {
                let on_path = self.on_path.entry(path.clone()).or_default();
                if let (false, Err(place)) = (waiting.observed(path).is_some(), on_path.binary_search(&number)) {
                    on_path.insert(place, number);
                }
            }
            waiting.recorded.push(record);
        }
    }

    /// How a path did; names everyone whose choice it was, once for every request.
    pub(super) fn observe(&mut self, path: &PathId, observed: Observed) -> Vec<Chooser> {
        let mut told = Vec::new();
        for number in self.on_path.remove(path).unwrap_or_default() {
            let Some(index) = number.checked_sub(self.first) else { continue };
            let Some(waiting) = self.waiting.get_mut(index as usize) else { continue };
            waiting.observed.push((path.clone(), observed));
            let choices = waiting.tried.choices.iter();
            told.extend(choices.filter(|(_, chosen)| chosen.as_ref() == Some(path)).map(|(chooser, _)| *chooser));
        }
        told
    }

    /// The oldest request if it need not wait any longer at `now`; any at the end.
    pub(super) fn close(&mut self, now: Option<Now>) -> Option<Closed> {
        let oldest = self.waiting.front()?;
        let waits = now.is_some_and(|now| now.mono.ms_since(oldest.tried.at.mono) < WAIT_MS);
        if waits && self.waiting.len() <= MAX_WAITING {
            return None;
        }
        let closed = self.waiting.pop_front()?;
        self.numbers.remove(&closed.tried.request_id);
        self.first += 1;
        self.forget_paths(&closed);
        Some(closed)
    }
}

impl Book {
    /// Nobody waits any more for what a path shows on behalf of this request or of earlier ones.
    fn forget_paths(&mut self, closed: &Closed) {
        let chosen = closed.recorded.first().and_then(|record| record.chosen.as_ref()?.path.as_ref());
        for path in closed.tried.choices.iter().filter_map(|(_, path)| path.as_ref()).chain(chosen) {
            let Some(on_path) = self.on_path.get_mut(path) else { continue };
            while on_path.front().is_some_and(|number| *number < self.first) {
                on_path.pop_front();
            }
            if on_path.is_empty() {
                self.on_path.remove(path);
            }
        }
    }
}

impl Closed {
    pub(super) fn observed(&self, path: &PathId) -> Option<Observed> {
        self.observed.iter().find(|(seen, _)| seen == path).map(|(_, observed)| *observed)
    }

    pub(super) fn explained(&self) -> Explained {
        Explained {
            at: self.tried.at.wall_ms,
            recorded: self.recorded.clone(),
            seam: Arc::clone(&self.tried.seam),
            changed: self.tried.changed.as_ref().and_then(|changed| changed.as_ref().ok()).cloned(),
            refused: self.tried.changed.as_ref().and_then(|changed| changed.as_ref().err()).cloned(),
            others: self
                .tried
                .choices
                .iter()
                .filter(|(chooser, _)| matches!(chooser, Chooser::Rival(_)))
                .map(|(chooser, path)| Choice { chooser: *chooser, path: path.as_ref().map(ToString::to_string) })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Mono;
    use crate::model::{Profile, builtin_workloads};
    use crate::policy::decide::{Terms, decide};
    use crate::policy::record::Context;

    fn record(chosen: Option<&PathId>) -> Arc<DecisionRecord> {
        let workload = Arc::new(builtin_workloads().remove(0));
        let thresholds = crate::health::Thresholds::of(Profile::Mesh);
        let decision = decide(&Terms::new(Profile::Mesh, &thresholds, &workload), &[]);
        let context = Context::offline("p0.1.1".parse().unwrap(), workload, Profile::Mesh);
        let mut record = DecisionRecord::new(context, &[], &decision);
        record.chosen = chosen.map(|path| crate::policy::record::Chosen {
            pool: "pool".parse().unwrap(),
            node: Some(path.destination.clone()),
            path: Some(path.clone()),
        });
        Arc::new(record)
    }

    fn at(ms: u64) -> Now {
        Now { mono: Mono(ms * 1_000_000), wall_ms: ms }
    }

    fn ask(book: &mut Book, ms: u64, choices: &[&PathId]) -> RequestId {
        let request_id: RequestId = format!("r{ms}").parse().unwrap();
        let choices = choices.iter().map(|path| (Chooser::Seam, Some((*path).clone()))).collect();
        book.add(Tried { at: at(ms), request_id: request_id.clone(), seam: record(None), changed: None, choices });
        request_id
    }

    #[test]
    fn a_path_that_is_never_probed_keeps_nobody_beyond_the_wait() {
        let path: PathId = "p0>d0/r0/quic".parse().unwrap();
        let mut book = Book::default();
        for ms in 0..20_000 {
            ask(&mut book, ms, &[&path]);
            while book.close(Some(at(ms))).is_some() {}
            assert!(book.waiting.len() as u64 <= WAIT_MS && book.on_path[&path].len() as u64 <= WAIT_MS);
        }
        while book.close(None).is_some() {}
        assert!(book.on_path.is_empty() && book.numbers.is_empty());
    }

    #[test]
    fn the_next_probe_of_a_path_tells_each_request_once_also_one_whose_recorded_choice_came_late() {
        let (own, recorded): (PathId, PathId) = ("p0>d0/r0/quic".parse().unwrap(), "p0>d1/r0/quic".parse().unwrap());
        let mut book = Book::default();
        let ids: Vec<RequestId> = (0..3).map(|ms| ask(&mut book, ms, &[&own])).collect();
        // Decided in another order than asked.
        for id in [&ids[2], &ids[0], &ids[0]] {
            let mut record = (*record(Some(&recorded))).clone();
            record.request_id = Some(id.clone());
            book.decided(Arc::new(record));
        }
        assert_eq!(book.on_path[&recorded], [0, 2]);
        assert_eq!(book.observe(&recorded, Observed::Took(2.0)), [], "no chooser chose it");
        assert_eq!(book.observe(&own, Observed::Lost), [Chooser::Seam; 3]);
        assert_eq!(book.observe(&own, Observed::Took(1.0)), []);
        let closed: Vec<Closed> = std::iter::from_fn(|| book.close(None)).collect();
        let seen =
            closed.iter().map(|closed| (closed.recorded.len(), closed.observed(&recorded), closed.observed(&own)));
        let expected = [(2, Some(Observed::Took(2.0))), (0, None), (1, Some(Observed::Took(2.0)))];
        assert!(seen.eq(expected.map(|(decided, then)| (decided, then, Some(Observed::Lost)))));
    }
}
