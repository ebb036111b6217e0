//! Processes: their lives, when they were frozen, and what is missing of their journals.
//!
//! A start is told only where the journal has it: of a life whose oldest segments are gone it has none.

use std::collections::BTreeMap;

use super::sheet::{Mark, Shape, Sheet};
use crate::eval::chart::ink::{self, Ink};
use crate::model::NodeName;
use crate::timeline::facts::{End, Facts, Life, Window};
use crate::timeline::time::{clock, length};

/// So many processes are all drawn; of more, only those with something to be seen.
const ALL_UP_TO: usize = 8;
/// Processes drawn at most.
const MOST: usize = 60;
const HEIGHT: f64 = 22.0;
/// So wide at least is what lies over a life.
const LEAST: f64 = 2.0;
/// So wide at least is what lacks at the end of a journal, since nothing else marks that end.
const END: f64 = 6.0;

/// The processes that are drawn, and how many are not.
pub(super) struct Shown<'a> {
    nodes: BTreeMap<&'a NodeName, Vec<&'a Life>>,
    more: usize,
}

pub(super) fn shown(facts: &Facts) -> Shown<'_> {
    let mut nodes: BTreeMap<&NodeName, Vec<&Life>> = BTreeMap::new();
    for life in &facts.lives {
        nodes.entry(&life.node).or_default().push(life);
    }
    nodes.values_mut().for_each(|lives| lives.sort_by_key(|life| life.generation));
    let all = nodes.len();
    if all > ALL_UP_TO {
        nodes.retain(|_, lives| is_remarkable(lives));
    }
    let nodes: BTreeMap<_, _> = nodes.into_iter().take(MOST).collect();
    Shown { more: all - nodes.len(), nodes }
}

impl Shown<'_> {
    pub(super) fn draw(&self, sheet: &mut Sheet) {
        let more = match self.more {
            0 => String::new(),
            1 => "1 more ran throughout".to_owned(),
            more => format!("{more} more, of which nothing has to be said"),
        };
        sheet.heading("Processes", &more);
        self.nodes.iter().for_each(|(node, lives)| process(sheet, node, lives));
    }

    /// What the legend explains only where it is drawn.
    pub(super) fn has(&self, window: Window) -> Has {
        let lives = || self.nodes.values().flatten().filter(|life| is_within(life, window));
        let meets = |from: u64, to: u64| from <= window.to && to >= window.from;
        Has {
            frozen: lives().any(|life| frozen(life).any(|(from, to)| meets(from, to))),
            hole: lives().any(|life| holes(life).any(|(from, to, ..)| meets(from, to))),
            late: lives().any(|life| life.begins_late && window.from <= life.opened),
        }
    }
}

/// What there is of what is seldom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Has {
    /// A process was frozen.
    pub(super) frozen: bool,
    /// Something of a journal is not there.
    pub(super) hole: bool,
    /// A journal begins later than its process.
    pub(super) late: bool,
}

fn is_within(life: &Life, window: Window) -> bool {
    life.opened <= window.to && life.last >= window.from
}

/// From when to when it was frozen.
fn frozen(life: &Life) -> impl Iterator<Item = (u64, u64)> {
    life.frozen.iter().copied().chain(life.frozen_since.map(|since| (since, life.last)))
}

/// From when to when something is not in its journal, what, and how wide that is at least.
fn holes(life: &Life) -> impl Iterator<Item = (u64, u64, String, f64)> {
    let gaps = life.gaps.iter().map(|(from, to, what)| (*from, *to, what.clone(), LEAST));
    let end = life.interrupted.map(|(since, lacks)| {
        let words = format!("{}, and nothing after this can be read", lacks.words());
        (since, life.last.max(since), words, END)
    });
    gaps.chain(end)
}

/// More than one life, a panic, a freeze, or something missing.
fn is_remarkable(lives: &[&Life]) -> bool {
    let of_life = |life: &&Life| {
        matches!(life.end, End::Panicked(_))
            || !life.gaps.is_empty()
            || !life.frozen.is_empty()
            || life.frozen_since.is_some()
            || life.interrupted.is_some()
            || !life.renewed.is_empty()
    };
    lives.len() > 1 || lives.iter().any(of_life)
}

fn process(sheet: &mut Sheet, node: &NodeName, lives: &[&Life]) {
    let behind = match lives {
        [life] => match (&life.end, life.interrupted) {
            (End::Open, Some((_, lacks))) => lacks.short().to_owned(),
            (End::Open, None) => String::new(),
            (End::Closed, _) => "closed in order".to_owned(),
            (End::Panicked(_), _) => "panicked".to_owned(),
        },
        lives => format!("{} lives", lives.len()),
    };
    sheet.begin("process", HEIGHT, &format!("process {node}"));
    let middle = sheet.y + 11.0;
    sheet.names(middle + 4.0, node.as_str(), &behind);
    let window = sheet.scale.window;
    let within = |at: u64| (window.from..=window.to).contains(&at);
    let mut marks = Vec::new();
    for life in lives {
        if !is_within(life, window) {
            continue;
        }
        let ends = match (&life.end, life.interrupted) {
            (End::Open, Some((_, lacks))) => lacks.words(),
            (End::Open, None) => "the journal ends here without a word: killed, or it still ran".to_owned(),
            (End::Closed, _) => "closed in order".to_owned(),
            (End::Panicked(part), _) => format!("the {part} core panicked"),
        };
        let ran = length(life.last.saturating_sub(life.opened));
        let begins = if life.begins_late { "the segments before this are not there; " } else { "" };
        let title = format!(
            "{node}, life {}: {} to {} ({ran}); {begins}{ends}",
            life.generation,
            clock(life.opened),
            clock(life.last)
        );
        let across = (sheet.scale.x(life.opened), sheet.scale.x(life.last));
        sheet.rect(across, (middle - 3.0, 6.0), &Ink::Axis.fill(), &title);
        over(sheet, life, middle);
        if within(life.opened) {
            let (shape, what) = match life.begins_late {
                true => (Shape::From, "is recorded from here on"),
                false => (Shape::Up, "started"),
            };
            let words = format!("{node} {what}, life {}", life.generation);
            marks.push(Mark { at: life.opened, shape, words });
        }
        for at in life.renewed.iter().filter(|at| within(**at)) {
            let words = format!("{node} appeared anew: others had taken it for down");
            marks.push(Mark { at: *at, shape: Shape::Up, words });
        }
        match life.end {
            _ if !within(life.last) => {}
            End::Closed => marks.push(Mark { at: life.last, shape: Shape::Square, words: format!("{node} {ends}") }),
            End::Panicked(_) => {
                marks.push(Mark { at: life.last, shape: Shape::Cross, words: format!("{node}: {ends}") })
            }
            // What lacks there is drawn, and says so.
            End::Open if life.interrupted.is_some() => {}
            // Where the picture ends with the journal there is nothing to say.
            End::Open if across.1 + 8.0 < sheet.scale.right => {
                let words = format!("{node}: {ends}");
                marks.push(Mark { at: life.last, shape: Shape::Down, words });
            }
            End::Open => {}
        }
    }
    sheet.marks(middle, marks);
    sheet.end();
    sheet.y += HEIGHT;
}

/// What lies over a life: times at which it was frozen, and what is missing.
fn over(sheet: &mut Sheet, life: &Life, middle: f64) {
    for (from, to) in frozen(life) {
        let Some(across) = across(sheet, from, to, LEAST) else { continue };
        let long = length(to.saturating_sub(from));
        let title =
            format!("{} frozen from {} for {long}: it was late itself, so no state changed", life.node, clock(from));
        draw_frozen(sheet, across, middle, &title);
    }
    for (from, to, what, least) in holes(life) {
        let Some(across) = across(sheet, from, to, least) else { continue };
        let title = format!("{}: {what}, {} to {}", life.node, clock(from), clock(to));
        draw_hole(sheet, across, middle, &title);
    }
}

/// A time at which a process was frozen.
pub(super) fn draw_frozen(sheet: &mut Sheet, across: (f64, f64), middle: f64, title: &str) {
    sheet.rect(across, (middle - 5.0, 10.0), &Ink::Series(4).fill(), title);
    if let Some(hatch) = ink::hatch(3) {
        sheet.rect(across, (middle - 5.0, 10.0), &format!(r#"fill="{hatch}" pointer-events="none""#), "");
    }
}

/// A time of which the journal lacks something.
pub(super) fn draw_hole(sheet: &mut Sheet, across: (f64, f64), middle: f64, title: &str) {
    sheet.rect(across, (middle - 6.0, 12.0), &Ink::Card.fill(), "");
    let paint = format!(r#"fill="url(#seam-unknown)" stroke-width="1" {}"#, Ink::Series(5).stroke());
    sheet.rect(across, (middle - 6.0, 12.0), &paint, title);
}

/// Where a time is drawn, so many pixels wide at least; none outside the window.
fn across(sheet: &Sheet, from: u64, to: u64, least: f64) -> Option<(f64, f64)> {
    let window = sheet.scale.window;
    if from > window.to || to < window.from {
        return None;
    }
    let (left, right) = (sheet.scale.x(from), sheet.scale.x(to));
    let left = left.min(sheet.scale.right - least);
    Some((left, right.max(left + least)))
}
