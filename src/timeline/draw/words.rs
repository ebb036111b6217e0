//! What the picture says in words.

use std::fmt::Write as _;

use crate::replay::journal::utc;
use crate::timeline::facts::{Ended, Facts, Window};
use crate::timeline::fold::{Folded, Group, Shown};
use crate::timeline::time::{clock, length};
use crate::timeline::{MAX_CHANGES, MAX_EVENTS};

/// Nodes named in the title at most.
const NODES: usize = 8;
/// Paths described in words at most, and states of each.
const DESCRIBED: usize = 12;
const STATES: usize = 12;

/// What there is on the picture.
pub(super) struct Counts {
    pub(super) lanes: u64,
    pub(super) folded: u64,
    pub(super) crowded_out: u64,
    pub(super) decisions: u64,
    pub(super) refused: u64,
    pub(super) transfers: u64,
    pub(super) failed: u64,
}

impl Counts {
    pub(super) fn of(facts: &Facts, folded: &Folded<'_>, window: Window) -> Self {
        let groups = || folded.groups.values();
        let of_group = |group: &Group<'_>| group.shown.len() + group.healthy.len() + group.crowded_out.len();
        let lanes = || groups().flat_map(lanes_of);
        let refused =
            folded.groups.keys().filter_map(|node| facts.refused.get(*node)).map(Vec::len).sum::<usize>() as u64;
        let within = lanes().flat_map(|lane| &lane.transfers);
        let within = within.filter(|transfer| transfer.from <= window.to && transfer.to >= window.from);
        let within: Vec<_> = within.collect();
        let failed = within.iter().filter(|transfer| matches!(transfer.end, Ended::Failed(_))).count() as u64;
        let (shown, crowded_out) = groups().fold((0, 0), |(shown, out), group| {
            (shown + group.shown.len() as u64, out + group.crowded_out.len() as u64)
        });
        let all: u64 = groups().map(|group| of_group(group) as u64).sum();
        Self {
            lanes: shown,
            folded: all - shown - crowded_out,
            crowded_out,
            decisions: refused + lanes().map(|lane| lane.decisions.len() as u64).sum::<u64>(),
            refused,
            transfers: within.len() as u64,
            failed,
        }
    }

    /// The line below the title.
    pub(super) fn line(&self, window: Window) -> String {
        let Self { lanes, folded, crowded_out, decisions, refused, transfers, failed } = self;
        format!(
            "{} ({}) · {} of {} with trouble · {}, {refused} refused · {}, {failed} failed",
            when(window),
            length(window.to - window.from),
            lanes + crowded_out,
            many(lanes + crowded_out + folded, "path"),
            many(*decisions, "decision"),
            many(*transfers, "transfer"),
        )
    }
}

fn lanes_of<'a>(group: &'a Group<'a>) -> impl Iterator<Item = &'a crate::timeline::facts::Lane> {
    let shown = group.shown.iter().map(|shown| shown.lane);
    shown.chain(group.healthy.iter().copied()).chain(group.crowded_out.iter().copied())
}

/// How many of what.
pub(super) fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

pub(super) fn when(window: Window) -> String {
    format!("{} to {}", utc(window.from), utc(window.to))
}

pub(super) fn title(facts: &Facts) -> String {
    let mut nodes: Vec<&str> = facts.lives.iter().map(|life| life.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let more = nodes.len().saturating_sub(NODES);
    nodes.truncate(NODES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("Timeline of {}{more}", nodes.join(", "))
}

/// What has to be said of the picture itself.
pub(super) fn notes(facts: &Facts, counts: &Counts) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.left_out > 0 {
        notes.push(format!(
            "Not complete: {} beyond the first {MAX_EVENTS} decisions and transfers and {MAX_CHANGES} changes; draw a \
             shorter time to see them.",
            many(facts.left_out, "fact")
        ));
    }
    if facts.unknown_leases > 0 {
        let words = many(facts.unknown_leases, "word");
        notes.push(format!("{words} of transfers on leases whose decision is not in the journals: not drawn."));
    }
    if counts.crowded_out > 0 {
        let paths = many(counts.crowded_out, "path");
        notes.push(format!("{paths} with trouble without a lane: draw a part of the paths to see them."));
    }
    notes
}

/// The picture for those who cannot see it.
pub(super) fn description(counts: &Counts, folded: &Folded<'_>, window: Window) -> String {
    let mut words = counts.line(window) + ".";
    let mut shown: Vec<&Shown<'_>> = folded.groups.values().flat_map(|group| &group.shown).collect();
    shown.sort_by(|one, other| (one.trouble, &one.lane.path).cmp(&(other.trouble, &other.lane.path)));
    for shown in shown.iter().take(DESCRIBED) {
        // Writing to a string cannot fail.
        let _ = write!(words, " {}:", shown.lane.path);
        for (number, span) in shown.spans.iter().take(STATES).enumerate() {
            let state = span.state.map_or("not known", |state| state.as_str());
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(words, "{comma} {state} from {}", clock(span.from));
        }
        words.push_str(match shown.spans.len() > STATES {
            true => ", and so on.",
            false => ".",
        });
    }
    if let Some(more) = shown.len().checked_sub(DESCRIBED).filter(|more| *more > 0) {
        let _ = write!(words, " {} more with trouble.", many(more as u64, "path"));
    }
    words
}
