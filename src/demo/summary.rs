//! From observations to the report. Pure.

use std::collections::BTreeMap;

use super::plan::Class;
use super::report::{ClassReport, GrayReport, OtherPath, Report, Share, StateAt, Transfers};
use crate::model::{Outcome, PathId, PathState, Reason};

/// The key of requests that got no decision.
const NO_ANSWER: &str = "no_answer";
/// Errors shown in words.
const MAX_ERRORS: usize = 5;

/// What was seen of one request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) class: Class,
    pub(crate) routed: Option<Routed>,
    pub(crate) moved: Option<Moved>,
    pub(crate) error: Option<String>,
}

/// What was decided, read from the decision record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routed {
    pub(crate) decision: String,
    /// When the answer came, in milliseconds from the stream's start.
    pub(crate) at_ms: f64,
    pub(crate) outcome: Outcome,
    /// The chosen path and the state in which it was chosen.
    pub(crate) chosen: Option<(PathId, PathState)>,
    /// Whether any candidate was in a degraded state.
    pub(crate) degraded_candidate: bool,
    /// The source that decided.
    pub(crate) source: String,
    /// Where nothing was admissible: why, candidate by candidate.
    pub(crate) refusals: Vec<Reason>,
}

/// What became of the bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moved {
    pub(crate) delivered: bool,
    pub(crate) verified: bool,
    pub(crate) bytes: u64,
    /// From the route request to the delivery.
    pub(crate) elapsed_ms: f64,
}

/// A change of a path's state as its source saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) path: PathId,
    /// In milliseconds from the stream's start.
    pub(crate) at_ms: f64,
    pub(crate) state: PathState,
}

/// The fault that the run made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) path: PathId,
    pub(crate) on_ms: f64,
    pub(crate) off_ms: Option<f64>,
}

/// Everything that the observations say; the caller adds agents, scale and over-commits.
pub(crate) fn summarise(observations: &[Observation], seen: &[Seen], fault: Option<&Fault>) -> Report {
    let mut report = Report { requests: observations.len() as u64, ..Report::default() };
    for class in Class::ALL {
        let of_class: Vec<_> = observations.iter().filter(|seen| seen.class == class).collect();
        if of_class.is_empty() {
            continue;
        }
        let summary = summarise_class(class, &of_class);
        for (outcome, count) in &summary.decisions {
            *report.decisions.entry(outcome.clone()).or_default() += count;
        }
        report.classes.insert(class.as_str().to_owned(), summary);
    }
    for reason in observations.iter().filter_map(|seen| seen.routed.as_ref()).flat_map(|routed| &routed.refusals) {
        *report.refusals.entry(reason.as_str().to_owned()).or_default() += 1;
    }
    report.transfers = transfers(observations);
    report.errors = observations.iter().filter_map(|seen| seen.error.clone()).take(MAX_ERRORS).collect();
    report.gray_path = fault.map(|fault| fault.path.to_string());
    report.gray = fault.map(|fault| gray(observations, seen, fault));
    report.other_paths = other_paths(seen, fault);
    report
}

/// The observation that shows best what Seam does, and why: a strict request that kept away from a
/// degraded path, else one that bore it, else any that was decided.
pub(crate) fn interesting<'a>(
    observations: &'a [Observation],
    fault: Option<&Fault>,
) -> Option<(&'a Routed, &'static str)> {
    let source = fault.map(|fault| fault.path.source.as_str());
    let decided = || observations.iter().filter_map(|seen| seen.routed.as_ref().map(|routed| (seen.class, routed)));
    let with_gray = |routed: &Routed| routed.degraded_candidate && Some(routed.source.as_str()) == source;
    let kept_away = decided().find(|(class, routed)| class.is_strict() && with_gray(routed) && on(routed, is_healthy));
    let bore = || decided().find(|(class, routed)| !class.is_strict() && on(routed, is_degraded));
    kept_away
        .map(|(_, routed)| (routed, "a strict request that kept away from a degraded path"))
        .or_else(|| bore().map(|(_, routed)| (routed, "a tolerant request on a degraded path")))
        .or_else(|| decided().next_back().map(|(_, routed)| (routed, "the last decision")))
}

fn summarise_class(class: Class, observations: &[&Observation]) -> ClassReport {
    let mut report = ClassReport { requests: observations.len() as u64, ..ClassReport::default() };
    let mut elapsed = Vec::new();
    for seen in observations {
        let outcome = seen.routed.as_ref().map_or(NO_ANSWER, |routed| routed.outcome.as_str());
        *report.decisions.entry(outcome.to_owned()).or_default() += 1;
        match &seen.routed {
            Some(routed) if routed.chosen.is_none() => {}
            Some(routed) if class.is_strict() => report.placement.add(on(routed, is_healthy)),
            Some(routed) if routed.degraded_candidate => report.placement.add(on(routed, is_degraded)),
            _ => {}
        }
        if let Some(moved) = seen.moved.as_ref().filter(|moved| moved.delivered) {
            report.ok += 1;
            report.verified += u64::from(moved.verified);
            elapsed.push(moved.elapsed_ms);
        }
    }
    let share = report.placement.percent();
    if class.is_strict() {
        report.strict_on_healthy_pct = share;
    } else {
        report.tolerant_on_degraded_pct = share;
    }
    elapsed.sort_by(f64::total_cmp);
    report.p50_ms = percentile(&elapsed, 0.50);
    report.p99_ms = percentile(&elapsed, 0.99);
    report
}

fn transfers(observations: &[Observation]) -> Transfers {
    let mut transfers = Transfers::default();
    for moved in observations.iter().filter_map(|seen| seen.moved.as_ref()) {
        if moved.delivered {
            transfers.ok += 1;
            transfers.verified += u64::from(moved.verified);
            transfers.bytes += moved.bytes;
        } else {
            transfers.failed += 1;
        }
    }
    transfers
}

fn gray(observations: &[Observation], seen: &[Seen], fault: &Fault) -> GrayReport {
    let of_path: Vec<_> = seen.iter().filter(|change| change.path == fault.path).collect();
    let detected = of_path.iter().find(|change| change.at_ms >= fault.on_ms && change.state != PathState::Healthy);
    let split_ms = detected.map_or(fault.on_ms, |change| change.at_ms);
    let healthy_after_ms = fault.off_ms.and_then(|off_ms| {
        let back = of_path.last().filter(|change| change.state == PathState::Healthy && detected.is_some())?;
        Some((back.at_ms - off_ms).max(0.0))
    });
    let mut report = GrayReport {
        at_ms: fault.on_ms,
        detected_after_ms: detected.map(|change| change.at_ms - fault.on_ms),
        cleared_at_ms: fault.off_ms,
        healthy_after_ms,
        timeline: of_path.iter().map(|change| state_at(change)).collect(),
        ..GrayReport::default()
    };
    for observation in observations {
        let Some(routed) = &observation.routed else { continue };
        let Some((path, _)) = &routed.chosen else { continue };
        if routed.source != fault.path.source.as_str() {
            continue;
        }
        let side = if routed.at_ms < split_ms { &mut report.before } else { &mut report.after };
        side.entry(observation.class.as_str().to_owned()).or_insert_with(Share::default).add(*path == fault.path);
    }
    report
}

fn other_paths(seen: &[Seen], fault: Option<&Fault>) -> Vec<OtherPath> {
    let mut paths: BTreeMap<&PathId, Vec<&Seen>> = BTreeMap::new();
    for change in seen.iter().filter(|change| fault.is_none_or(|fault| fault.path != change.path)) {
        paths.entry(&change.path).or_default().push(change);
    }
    paths
        .into_iter()
        .filter(|(_, changes)| changes.iter().any(|change| change.state != PathState::Healthy))
        .map(|(path, changes)| OtherPath {
            path: path.to_string(),
            timeline: changes.into_iter().map(state_at).collect(),
        })
        .collect()
}

fn state_at(change: &Seen) -> StateAt {
    StateAt { at_ms: change.at_ms, state: change.state.as_str().to_owned() }
}

fn on(routed: &Routed, is: fn(PathState) -> bool) -> bool {
    routed.chosen.as_ref().is_some_and(|(_, state)| is(*state))
}

fn is_healthy(state: PathState) -> bool {
    state == PathState::Healthy
}

/// In one of the two states that still carry what tolerates them.
pub(crate) fn is_degraded(state: PathState) -> bool {
    matches!(state, PathState::DegradedUsable | PathState::DegradedRestricted)
}

/// Linear interpolation at index (n - 1) · `q` of sorted numbers.
fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = (sorted.len().checked_sub(1)?) as f64 * q;
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests;
