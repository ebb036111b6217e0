//! Processes: their lives, when they were frozen, and what is missing of their journals.

use std::collections::BTreeMap;

use super::sheet::{Mark, Shape, Sheet};
use crate::eval::chart::ink::{self, Ink};
use crate::model::NodeName;
use crate::timeline::facts::{End, Facts, Life};
use crate::timeline::time::{clock, length};

/// So many processes are all drawn; of more, only those with something to be seen.
const ALL_UP_TO: usize = 8;
/// Processes drawn at most.
const MOST: usize = 60;
const HEIGHT: f64 = 22.0;

pub(super) fn draw(sheet: &mut Sheet, facts: &Facts) {
    let mut nodes: BTreeMap<&NodeName, Vec<&Life>> = BTreeMap::new();
    for life in &facts.lives {
        nodes.entry(&life.node).or_default().push(life);
    }
    nodes.values_mut().for_each(|lives| lives.sort_by_key(|life| life.generation));
    let all = nodes.len();
    if all > ALL_UP_TO {
        nodes.retain(|_, lives| is_remarkable(lives));
    }
    let shown = nodes.len().min(MOST);
    let more = match all - shown {
        0 => String::new(),
        1 => "1 more ran throughout".to_owned(),
        more => format!("{more} more, of which nothing has to be said"),
    };
    sheet.heading("Processes", &more);
    for (node, lives) in nodes.into_iter().take(MOST) {
        process(sheet, node, &lives);
    }
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
        [life] => match life.end {
            End::Open => String::new(),
            End::Closed => "closed in order".to_owned(),
            End::Panicked(_) => "panicked".to_owned(),
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
        if life.opened > window.to || life.last < window.from {
            continue;
        }
        let ends = match life.end {
            End::Open => "the journal ends here without a word: killed, or it still ran".to_owned(),
            End::Closed => "closed in order".to_owned(),
            End::Panicked(part) => format!("the {part} core panicked"),
        };
        let ran = length(life.last.saturating_sub(life.opened));
        let title =
            format!("{node}, life {}: {} to {} ({ran}); {ends}", life.generation, clock(life.opened), clock(life.last));
        let across = (sheet.scale.x(life.opened), sheet.scale.x(life.last));
        sheet.rect(across, (middle - 3.0, 6.0), &Ink::Axis.fill(), &title);
        over(sheet, life, middle);
        if within(life.opened) {
            let words = format!("{node} started, life {}", life.generation);
            marks.push(Mark { at: life.opened, shape: Shape::Up, words });
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
    let frozen = life.frozen.iter().copied().chain(life.frozen_since.map(|since| (since, life.last)));
    for (from, to) in frozen {
        let Some(across) = across(sheet, from, to) else { continue };
        let long = length(to.saturating_sub(from));
        let title =
            format!("{} frozen from {} for {long}: it was late itself, so no state changed", life.node, clock(from));
        sheet.rect(across, (middle - 5.0, 10.0), &Ink::Series(4).fill(), &title);
        if let Some(hatch) = ink::hatch(3) {
            sheet.rect(across, (middle - 5.0, 10.0), &format!(r#"fill="{hatch}" pointer-events="none""#), "");
        }
    }
    let missing = "something after this cannot be read".to_owned();
    let unread = life.interrupted.map(|since| (since, life.last.max(since.saturating_add(1)), missing));
    for (from, to, what) in life.gaps.iter().cloned().chain(unread) {
        let Some(across) = across(sheet, from, to) else { continue };
        let title = format!("{}: {what}, {} to {}", life.node, clock(from), clock(to));
        sheet.rect(across, (middle - 6.0, 12.0), &Ink::Card.fill(), "");
        let paint = format!(r#"fill="url(#seam-unknown)" stroke-width="1" {}"#, Ink::Series(5).stroke());
        sheet.rect(across, (middle - 6.0, 12.0), &paint, &title);
    }
}

/// Where a time is drawn, two pixels wide at least; none outside the window.
fn across(sheet: &Sheet, from: u64, to: u64) -> Option<(f64, f64)> {
    let window = sheet.scale.window;
    if from > window.to || to < window.from {
        return None;
    }
    let (left, right) = (sheet.scale.x(from), sheet.scale.x(to));
    let left = left.min(sheet.scale.right - 2.0);
    Some((left, right.max(left + 2.0)))
}
