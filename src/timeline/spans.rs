//! What is drawn along a lane: its states without holes, and its decisions by column.

use super::facts::{Decision, Lane, Window};
use super::scale::{Scale, tenth};
use crate::model::PathState;

/// Width of a column of decisions in pixels.
pub(super) const COLUMN: f64 = 3.0;
/// Decisions named of a column at most.
const NAMED: usize = 3;

/// One state from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    /// None where nothing is known.
    pub(super) state: Option<PathState>,
    /// States in it: more than one where they are too short to be drawn, and the worst is shown.
    pub(super) states: u32,
}

/// The decisions that fall on the same few pixels.
#[derive(Clone, Debug)]
pub(super) struct Column<'a> {
    /// Counted from the left.
    pub(super) index: u32,
    pub(super) strict: u32,
    pub(super) tolerant: u32,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) named: Vec<&'a Decision>,
}

/// The states of a lane over the whole window, one after the other. `end` is when its observer's life
/// ends, from when on nothing is known.
pub(super) fn spans(lane: &Lane, end: u64, window: Window) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut push = |from: u64, to: u64, state| {
        let (from, to) = (from.clamp(window.from, window.to), to.clamp(window.from, window.to));
        match spans.last_mut() {
            _ if from == to => {}
            Some(last) if last.state == state => last.to = to,
            _ => spans.push(Span { from, to, state, states: 1 }),
        }
    };
    let (mut at, mut state) = (0, None);
    for (next, then) in &lane.changes {
        push(at, *next, state);
        (at, state) = (*next, *then);
    }
    let end = end.max(at);
    let end = lane.cut.map_or(end, |cut| end.min(cut.max(at)));
    push(at, end, state);
    push(end, window.to, None);
    spans
}

/// A span where it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawn {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) span: Span,
}

/// The spans side by side, none narrower than `least` pixels: what is shorter is widened at the cost
/// of what follows, and what finds no room at all is one with what stands before it, the worst of
/// them shown.
pub(super) fn legible(spans: &[Span], scale: &Scale, least: f64) -> Vec<Drawn> {
    let mut all: Vec<Drawn> = Vec::new();
    for span in spans {
        let edge = all.last().map_or(scale.left, |last| last.right);
        let right = scale.x(span.to);
        match all.last_mut() {
            Some(last) if right <= edge || edge + least > scale.right => {
                last.span.to = span.to;
                last.span.state = last.span.state.max(span.state);
                last.span.states = last.span.states.saturating_add(1);
            }
            _ => {
                let right = tenth(right.max(edge + least).min(scale.right));
                all.push(Drawn { left: edge, right, span: *span });
            }
        }
    }
    if let Some(last) = all.last_mut() {
        last.right = scale.right;
    }
    all.dedup_by(|next, last| {
        let same = next.span.state == last.span.state;
        if same {
            (last.right, last.span.to) = (next.right, next.span.to);
            last.span.states = last.span.states.saturating_add(next.span.states);
        }
        same
    });
    all
}

/// Decisions, which come in any order, by column from the left.
pub(super) fn columns<'a>(decisions: impl Iterator<Item = &'a Decision>, scale: &Scale) -> Vec<Column<'a>> {
    let mut by_column = std::collections::BTreeMap::<u32, Column<'a>>::new();
    for decision in decisions {
        // The conversion saturates, and no picture is that wide.
        let index = ((scale.x(decision.at) - scale.left) / COLUMN) as u32;
        let column = by_column.entry(index).or_insert_with(|| Column {
            index,
            strict: 0,
            tolerant: 0,
            first: decision.at,
            last: decision.at,
            named: Vec::new(),
        });
        *(if decision.strict { &mut column.strict } else { &mut column.tolerant }) += 1;
        column.first = column.first.min(decision.at);
        column.last = column.last.max(decision.at);
        if column.named.len() < NAMED {
            column.named.push(decision);
        }
    }
    by_column.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(changes: &[(u64, Option<PathState>)]) -> Lane {
        Lane {
            observer: "p0".parse().unwrap(),
            path: "p0>d0/r0/quic".parse().unwrap(),
            life: 0,
            changes: changes.to_vec(),
            cut: None,
            gone: Vec::new(),
            decisions: Vec::new(),
            transfers: Vec::new(),
        }
    }

    fn span(from: u64, to: u64, state: Option<PathState>) -> Span {
        Span { from, to, state, states: 1 }
    }

    const HEALTHY: Option<PathState> = Some(PathState::Healthy);
    const USABLE: Option<PathState> = Some(PathState::DegradedUsable);

    #[test]
    fn spans_cover_the_window_and_nothing_is_known_before_the_first_word_and_after_the_life() {
        let window = Window { from: 100, to: 200 };
        let known = lane(&[(110, HEALTHY), (150, USABLE), (150, HEALTHY)]);
        assert_eq!(spans(&known, 190, window), [span(100, 110, None), span(110, 190, HEALTHY), span(190, 200, None)]);
        assert_eq!(spans(&lane(&[(5, USABLE)]), 500, window), [span(100, 200, USABLE)]);
        let cut = Lane { cut: Some(120), ..lane(&[(5, USABLE)]) };
        assert_eq!(spans(&cut, 500, window), [span(100, 120, USABLE), span(120, 200, None)]);
        assert_eq!(spans(&lane(&[]), 500, window), [span(100, 200, None)]);
        assert_eq!(spans(&lane(&[(300, USABLE)]), 500, window), [span(100, 200, None)]);
    }

    #[test]
    fn what_is_too_short_to_be_seen_is_widened_and_what_has_no_room_is_one_with_the_worst() {
        let scale = Scale { window: Window { from: 0, to: 1_000 }, left: 0.0, right: 100.0 };
        let drawn = |spans: &[Span]| legible(spans, &scale, 1.0);
        let all = [span(0, 500, HEALTHY), span(500, 501, USABLE), span(501, 1_000, HEALTHY)];
        let edges: Vec<_> = drawn(&all).iter().map(|drawn| (drawn.left, drawn.right, drawn.span.state)).collect();
        assert_eq!(edges, [(0.0, 50.0, HEALTHY), (50.0, 51.0, USABLE), (51.0, 100.0, HEALTHY)]);
        let blinks: Vec<Span> = (0..6).map(|at| span(at, at + 1, if at == 3 { USABLE } else { HEALTHY })).collect();
        let [first, rest] = &drawn(&[&blinks[..], &[span(6, 1_000, HEALTHY)]].concat())[..] else { panic!() };
        assert_eq!((first.left, first.right, first.span.state, first.span.states), (0.0, 1.0, USABLE, 6));
        assert_eq!((rest.left, rest.right, rest.span.state), (1.0, 100.0, HEALTHY));
        let last = drawn(&[span(0, 999, HEALTHY), span(999, 1_000, USABLE)]);
        assert_eq!(last.last().unwrap().right, 100.0);
    }
}
