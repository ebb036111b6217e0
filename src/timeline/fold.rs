//! Which paths get a lane of their own: those in which something went wrong, ordered by when.

use std::collections::BTreeMap;

use super::facts::{Ended, Facts, Lane, Window};
use super::spans::{Span, spans};
use super::{MAX_LANES, Options, TimelineError};
use crate::model::{NodeName, PathState};

/// Paths named where none has what is asked for.
const NAMED: usize = 5;

/// All paths, by who observes them.
pub(super) struct Folded<'a> {
    pub(super) groups: BTreeMap<&'a NodeName, Group<'a>>,
    /// When the first path turned bad.
    pub(super) first_trouble: Option<u64>,
}

/// The paths that one node observes.
#[derive(Default)]
pub(super) struct Group<'a> {
    /// Those with a lane of their own.
    pub(super) shown: Vec<Shown<'a>>,
    /// Those that were healthy as long as they were known.
    pub(super) healthy: Vec<&'a Lane>,
    /// Those that were not, and find no room.
    pub(super) crowded_out: Vec<&'a Lane>,
}

/// One path with its states.
pub(super) struct Shown<'a> {
    pub(super) lane: &'a Lane,
    pub(super) spans: Vec<Span>,
    /// When something first went wrong.
    pub(super) trouble: u64,
}

pub(super) fn fold<'a>(facts: &'a Facts, options: &Options, window: Window) -> Result<Folded<'a>, TimelineError> {
    let wanted = |lane: &&Lane| options.paths.as_ref().is_none_or(|part| lane.path.to_string().contains(part));
    if let Some(part) = &options.paths
        && !facts.lanes.iter().any(|lane| wanted(&lane))
    {
        return Err(TimelineError::NoPath { found: part.chars().take(80).collect(), there: there(&facts.lanes) });
    }
    let mut groups: BTreeMap<&NodeName, Group<'_>> = BTreeMap::new();
    for node in facts.refused.keys() {
        groups.entry(node).or_default();
    }
    let mut bad = Vec::new();
    for lane in facts.lanes.iter().filter(wanted) {
        let end = facts.lives.get(lane.life).map_or(window.to, |life| life.last);
        let spans = spans(lane, end, window);
        let known = spans.iter().any(|span| span.state.is_some());
        match trouble(lane, &spans, window) {
            Some(trouble) => bad.push(Shown { lane, spans, trouble }),
            None if known || !lane.decisions.is_empty() => {
                groups.entry(&lane.observer).or_default().healthy.push(lane);
            }
            None => {}
        }
    }
    bad.sort_by(|one, other| (one.trouble, &one.lane.path).cmp(&(other.trouble, &other.lane.path)));
    let first_trouble = bad.first().map(|shown| shown.trouble);
    for (index, shown) in bad.into_iter().enumerate() {
        let group = groups.entry(&shown.lane.observer).or_default();
        match index < MAX_LANES {
            true => group.shown.push(shown),
            false => group.crowded_out.push(shown.lane),
        }
    }
    groups.values_mut().for_each(|group| group.healthy.sort_by_key(|lane| &lane.path));
    Ok(Folded { groups, first_trouble })
}

/// When something first went wrong with a path: it was not healthy, it ceased to exist, or a transfer
/// failed on it.
fn trouble(lane: &Lane, spans: &[Span], window: Window) -> Option<u64> {
    let bad = |span: &&Span| span.state.is_some_and(|state| state != PathState::Healthy);
    let state = spans.iter().find(bad).map(|span| span.from);
    let within = |at: &u64| (window.from..=window.to).contains(at);
    let gone = lane.gone.iter().copied().find(within);
    let failed = lane.transfers.iter().filter(|transfer| matches!(transfer.end, Ended::Failed(_)));
    let failed = failed.map(|transfer| transfer.to).filter(within).min();
    [state, gone, failed].into_iter().flatten().min()
}

fn there(lanes: &[Lane]) -> String {
    let mut names: Vec<String> = lanes.iter().map(|lane| lane.path.to_string()).collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    match (names.is_empty(), more) {
        (true, _) => "there are none".to_owned(),
        (false, 0) => format!("there are {}", names.join(", ")),
        (false, more) => format!("there are {} and {more} more", names.join(", ")),
    }
}
