//! Members, as those saw them whose journals there are; and what operators said.

use std::collections::BTreeSet;

use super::sheet::{Mark, Shape, Sheet};
use crate::eval::chart::ink::{self, Ink};
use crate::model::NodeName;
use crate::timeline::facts::{Facts, Member, Move, Moved, Window};
use crate::timeline::time::{clock, length};

/// Members with a lane at most.
const MOST: usize = 60;
/// Overridden paths and hosts with a lane at most.
const MOST_OVERRIDES: usize = 40;
/// Who is heard of so soon after an observer's start was there before it, in milliseconds.
const SETTLED_MS: u64 = 10_000;
const HEIGHT: f64 = 22.0;

pub(super) fn draw(sheet: &mut Sheet, facts: &Facts) {
    let window = sheet.scale.window;
    let moved: Vec<_> = facts.members.iter().filter(|(_, member)| has_moved(facts, member, window)).collect();
    if facts.members.is_empty() {
        return;
    }
    let still = facts.members.len() - moved.len();
    let left_out = moved.len().saturating_sub(MOST);
    let mut more = if still == 0 { String::new() } else { format!("{still} there throughout") };
    if left_out > 0 {
        more += &format!("; {left_out} more that came or went are not drawn");
    }
    sheet.heading("Members", &more);
    for (name, member) in moved.into_iter().take(MOST) {
        draw_member(sheet, facts, name, member);
    }
}

/// Whether it went, came anew, or came once those who saw it were settled.
fn has_moved(facts: &Facts, member: &Member, window: Window) -> bool {
    let start = |observer: &NodeName, at: u64| {
        let lives = facts.lives.iter().filter(|life| life.node == *observer && life.opened <= at);
        lives.map(|life| life.opened).max().unwrap_or(0)
    };
    let counts = |moved: &Move| match moved.kind {
        Moved::Went | Moved::Restarted => true,
        Moved::Came => moved.at.saturating_sub(start(&moved.observer, moved.at)) > SETTLED_MS,
    };
    member.moves.iter().any(|moved| (window.from..=window.to).contains(&moved.at) && counts(moved))
}

fn draw_member(sheet: &mut Sheet, facts: &Facts, name: &NodeName, member: &Member) {
    let window = sheet.scale.window;
    let went = member.moves.iter().filter(|moved| moved.kind == Moved::Went).map(|moved| &moved.observer);
    let (went, all) = (went.collect::<BTreeSet<_>>().len(), member.seen.len());
    let behind = if went == 0 { String::new() } else { format!("{went} of {all} saw it go") };
    let seen = format!("known to {all} of the nodes whose journals these are");
    sheet.begin("member", HEIGHT, &format!("member {name}, {seen}"));
    let middle = sheet.y + 11.0;
    sheet.names(middle + 4.0, name.as_str(), &behind);
    for (from, to, here, gone) in presence(facts, member, window) {
        let across = (sheet.scale.x(from), sheet.scale.x(to));
        if across.0 >= across.1 {
            continue;
        }
        let title = format!("{name} from {} to {}: a member to {here}, gone to {gone}", clock(from), clock(to));
        match (here, gone) {
            (0, 0) => {}
            (0, _) => {
                sheet.rect(across, (middle - 0.5, 1.0), &Ink::Axis.fill(), &title);
            }
            (_, 0) => sheet.rect(across, (middle - 3.0, 6.0), &Ink::Series(0).fill(), &title),
            (_, _) => {
                sheet.rect(across, (middle - 3.0, 6.0), &Ink::Series(0).fill(), &title);
                if let Some(hatch) = ink::hatch(1) {
                    sheet.rect(across, (middle - 3.0, 6.0), &format!(r#"fill="{hatch}" pointer-events="none""#), "");
                }
            }
        }
    }
    let mark = |moved: &Move| {
        let (shape, did) = match moved.kind {
            Moved::Came => (Shape::Up, "came"),
            Moved::Restarted => (Shape::Up, "came in a new life"),
            Moved::Went => (Shape::Down, "went"),
        };
        Mark { at: moved.at, shape, words: format!("{name} {did}, says {}", moved.observer) }
    };
    let within = |moved: &&Move| (window.from..=window.to).contains(&moved.at);
    sheet.marks(middle, member.moves.iter().filter(within).map(mark).collect());
    sheet.end();
    sheet.y += HEIGHT;
}

/// From, to, how many observers have it as a member, and to how many it is gone.
fn presence(facts: &Facts, member: &Member, window: Window) -> Vec<(u64, u64, usize, usize)> {
    let mut turns: Vec<u64> = vec![window.from, window.to];
    for seen in member.seen.values() {
        let end = facts.lives.get(seen.life).map_or(window.to, |life| life.last);
        turns.extend(seen.changes.iter().map(|(at, _)| *at).chain([end]));
    }
    turns.retain(|at| (window.from..=window.to).contains(at));
    turns.sort_unstable();
    turns.dedup();
    // One pass over each observer's changes, beside the turns.
    let mut said: Vec<(usize, usize)> = vec![(0, 0); turns.len()];
    for seen in member.seen.values() {
        let end = facts.lives.get(seen.life).map_or(window.to, |life| life.last);
        let mut changes = seen.changes.iter().peekable();
        let mut state = None;
        for (at, said) in turns.iter().zip(&mut said) {
            while let Some((_, then)) = changes.next_if(|(change, _)| change <= at) {
                state = *then;
            }
            match state.filter(|_| *at < end) {
                Some(true) => said.0 += 1,
                Some(false) => said.1 += 1,
                None => {}
            }
        }
    }
    let ends = turns.iter().skip(1);
    let mut all: Vec<(u64, u64, usize, usize)> = Vec::new();
    for ((from, to), (here, gone)) in turns.iter().zip(ends).zip(said) {
        match all.last_mut() {
            Some(last) if (last.2, last.3) == (here, gone) => last.1 = *to,
            _ => all.push((*from, *to, here, gone)),
        }
    }
    all
}

/// What operators said, for as long as it held.
pub(super) fn overrides(sheet: &mut Sheet, facts: &Facts) {
    let window = sheet.scale.window;
    let end = |life: usize| facts.lives.get(life).map_or(window.to, |life| life.last);
    let mut lanes = Vec::new();
    for ((node, target), spans) in &facts.overrides {
        let held =
            spans.iter().map(|span| (span.from, if span.open { span.to.min(end(span.life)) } else { span.to }, span));
        let held: Vec<_> = held.filter(|(from, to, _)| *from <= window.to && *to >= window.from).collect();
        if !held.is_empty() {
            lanes.push((node, target, held));
        }
    }
    if lanes.is_empty() {
        return;
    }
    let left_out = lanes.len().saturating_sub(MOST_OVERRIDES);
    let more = if left_out == 0 { String::new() } else { format!("{left_out} more are not drawn") };
    sheet.heading("Overrides", &more);
    for (node, target, held) in lanes.into_iter().take(MOST_OVERRIDES) {
        sheet.begin("override", HEIGHT, &format!("override of {target} at {node}"));
        let floor = sheet.y + 16.0;
        sheet.names(sheet.y + 15.0, &target.to_string(), &format!("at {node}"));
        for (from, to, span) in held {
            let left = sheet.scale.x(from).min(sheet.scale.right - 2.0);
            let across = (left, sheet.scale.x(to).max(left + 2.0));
            let long = length(to.saturating_sub(from));
            let title = format!(
                "{target} is {} by override at {node} from {} for {long}: {}",
                span.state,
                clock(from),
                span.reason
            );
            sheet.state(across, floor, Some(span.state), &title);
        }
        sheet.end();
        sheet.y += HEIGHT;
    }
}
