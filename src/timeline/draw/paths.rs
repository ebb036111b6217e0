//! Paths: their states, what was decided on them, and what was moved over them.

use std::fmt::Write as _;

use super::sheet::{Mark, Shape, Sheet};
use super::words::many;
use crate::eval::chart::ink::Ink;
use crate::eval::chart::text;
use crate::timeline::MAX_LANES;
use crate::timeline::facts::{Decision, Ended, Facts, Lane, Transfer};
use crate::timeline::fold::{Folded, Group, Shown};
use crate::timeline::scale::tenth;
use crate::timeline::spans::{COLUMN, Column, Drawn, columns, legible};
use crate::timeline::time::{clock, length};

const HEIGHT: f64 = 42.0;
/// From the top of a lane to the line between strict and tolerant work.
const DIVIDE: f64 = 12.0;
/// The longest tick of either.
const TICK: f64 = 8.0;
/// From the top of a lane to the floor that states stand on.
const FLOOR: f64 = 33.0;
/// Spans drawn in all lanes together, about; beyond it short ones are drawn together.
const MAX_SPANS: usize = 10_000;

pub(super) fn draw(sheet: &mut Sheet, facts: &Facts, folded: &Folded<'_>) {
    let least = least_width(sheet, folded);
    let none = Vec::new();
    for (node, group) in &folded.groups {
        let refused = facts.refused.get(*node).unwrap_or(&none);
        sheet.heading(&format!("Paths of {node}"), &what_of(group, refused));
        if !refused.is_empty() {
            decisions_only(sheet, "refused", "no admissible path", refused.iter(), "refused");
        }
        for shown in &group.shown {
            lane(sheet, shown, least);
        }
        let [crowded_out, healthy] = names(group);
        if !group.crowded_out.is_empty() {
            together(sheet, "crowded-out", &crowded_out, &group.crowded_out);
        }
        if !group.healthy.is_empty() {
            together(sheet, "folded", &healthy, &group.healthy);
        }
    }
}

/// The names of the lanes that stand for many paths.
pub(super) fn names(group: &Group<'_>) -> [String; 2] {
    let crowded_out = format!("{} with trouble", many(group.crowded_out.len() as u64, "more path"));
    [crowded_out, format!("{} healthy throughout", many(group.healthy.len() as u64, "path"))]
}

fn what_of(group: &Group<'_>, refused: &[Decision]) -> String {
    let bad = group.shown.len() + group.crowded_out.len();
    let all = bad + group.healthy.len();
    let decided = |lanes: &mut dyn Iterator<Item = &Lane>| lanes.map(|lane| lane.decisions.len()).sum::<usize>();
    let mut lanes = group.shown.iter().map(|shown| shown.lane).chain(group.healthy.iter().copied());
    let decisions = decided(&mut lanes) + decided(&mut group.crowded_out.iter().copied()) + refused.len();
    let mut words =
        format!("{bad} of {} with trouble; {}", many(all as u64, "path"), many(decisions as u64, "decision"));
    if !refused.is_empty() {
        let _ = write!(words, ", {} refused", refused.len());
    }
    words
}

/// The least width of a span: a pixel, or more where there would be too many of them.
fn least_width(sheet: &Sheet, folded: &Folded<'_>) -> f64 {
    let shown = folded.groups.values().flat_map(|group| &group.shown);
    let spans: usize = shown.clone().map(|shown| shown.spans.len()).sum();
    if spans <= MAX_SPANS {
        return 1.0;
    }
    let lanes = shown.count().clamp(1, MAX_LANES);
    tenth(sheet.scale.width() * lanes as f64 / MAX_SPANS as f64).max(1.0)
}

fn lane(sheet: &mut Sheet, shown: &Shown<'_>, least: f64) {
    let lane = shown.lane;
    let window = sheet.scale.window;
    let within = |transfer: &&Transfer| transfer.from <= window.to && transfer.to >= window.from;
    let transfers: Vec<&Transfer> = lane.transfers.iter().filter(within).collect();
    let failed = transfers.iter().filter(|transfer| matches!(transfer.end, Ended::Failed(_))).count();
    let name = lane.path.to_string();
    let mut behind = many(lane.decisions.len() as u64, "decision");
    if failed > 0 {
        behind = format!("{} chose, {failed} failed", lane.decisions.len());
    }
    let moved = many(transfers.len() as u64, "transfer");
    let title =
        format!("{name}: chosen by {}; {moved}, {failed} failed", many(lane.decisions.len() as u64, "decision"));
    sheet.begin("path", HEIGHT, &title);
    sheet.divide();
    let top = sheet.y;
    sheet.names(top + FLOOR - 1.0, &name, &behind);
    for Drawn { left, right, span } in legible(&shown.spans, &sheet.scale, least) {
        let long = length(span.to.saturating_sub(span.from));
        let state = span.state.map_or("not known", |state| state.as_str());
        let worst = if span.states > 1 { format!(", the worst of {} states", span.states) } else { String::new() };
        let title = format!("{state}{worst}, {} to {} ({long})", clock(span.from), clock(span.to));
        sheet.state((left, right), top + FLOOR, span.state, &title);
    }
    ticks(sheet, top, lane.decisions.iter());
    moves(sheet, top + FLOOR + 2.0, &transfers);
    let fail = |transfer: &&Transfer| match &transfer.end {
        Ended::Failed(why) => {
            let words = format!("a transfer failed on {name}: {why}");
            Some(Mark { at: transfer.to, shape: Shape::Cross, words })
        }
        Ended::Unknown | Ended::Delivered | Ended::Cancelled => None,
    };
    sheet.marks(top + FLOOR + 3.0, transfers.iter().filter_map(fail).collect());
    let gone = lane.gone.iter().filter(|at| (window.from..=window.to).contains(at));
    let gone = gone.map(|at| Mark { at: *at, shape: Shape::Down, words: format!("{name} exists no longer") });
    sheet.marks(top + FLOOR - 4.0, gone.collect());
    sheet.end();
    sheet.y += HEIGHT;
}

/// Many paths in one lane: only what was decided on them.
fn together(sheet: &mut Sheet, class: &str, name: &str, lanes: &[&Lane]) {
    let top = sheet.y;
    let decisions = lanes.iter().flat_map(|lane| &lane.decisions);
    if class == "folded" {
        let (floor, scale) = (top + DIVIDE + TICK + 6.0, sheet.scale);
        sheet.state((scale.left, scale.right), floor, Some(crate::model::PathState::Healthy), "");
    }
    decisions_only(sheet, class, name, decisions, "decision");
}

fn decisions_only<'a>(
    sheet: &mut Sheet,
    class: &str,
    name: &str,
    decisions: impl Iterator<Item = &'a Decision> + Clone,
    what: &str,
) {
    const LOW: f64 = 30.0;
    let count = decisions.clone().count() as u64;
    let behind = if what == "refused" { format!("{count} refused") } else { many(count, what) };
    sheet.begin(class, LOW, &format!("{name}: {behind}"));
    sheet.divide();
    let top = sheet.y;
    sheet.names(top + DIVIDE + 4.0, name, &behind);
    ticks(sheet, top, decisions);
    sheet.end();
    sheet.y += LOW;
}

/// Decisions as ticks: strict work above a line, tolerant work below it, the longer the more.
fn ticks<'a>(sheet: &mut Sheet, top: f64, decisions: impl Iterator<Item = &'a Decision>) {
    let columns = columns(decisions, &sheet.scale);
    if columns.is_empty() {
        return;
    }
    let most = columns.iter().map(|column| column.strict.max(column.tolerant)).max().unwrap_or(1);
    // One decision can be seen, and the most fill the height.
    let long = |count: u32| tenth(4.5 + (TICK - 4.5) * f64::from(count - 1) / f64::from(most.max(2) - 1));
    let divide = tenth(top + DIVIDE);
    let detailed = columns.len() * 2 <= sheet.details();
    for (ink, up) in [(Ink::Text, true), (Ink::Axis, false)] {
        let count = |column: &Column<'_>| if up { column.strict } else { column.tolerant };
        let of_kind = || columns.iter().filter(|column| count(column) > 0);
        if of_kind().next().is_none() {
            continue;
        }
        let begin = if up { divide - 0.5 } else { divide + 0.5 };
        let left = sheet.scale.left;
        let x = |column: &Column<'_>| tenth(left + (f64::from(column.index) + 0.5) * COLUMN);
        let sign = if up { "-" } else { "" };
        let stroke = ink.stroke();
        if detailed {
            let mut lines = format!("<g stroke-width=\"2\" {stroke}>\n");
            for column in of_kind() {
                let title = text::escape(&column_words(column, up));
                let (x, long) = (x(column), long(count(column)));
                let _ = writeln!(lines, r#"<path d="M{x} {begin}v{sign}{long}"><title>{title}</title></path>"#);
                sheet.detail();
            }
            sheet.line(format_args!("{lines}</g>"));
        } else {
            let mut d = String::new();
            for column in of_kind() {
                let _ = write!(d, "M{} {begin}v{sign}{}", x(column), long(count(column)));
            }
            sheet.line(format_args!(r#"<path d="{d}" fill="none" stroke-width="2" {stroke}/>"#));
        }
    }
}

fn column_words(column: &Column<'_>, strict: bool) -> String {
    let (count, kind) = if strict { (column.strict, "strict") } else { (column.tolerant, "tolerant") };
    let when = match column.first == column.last {
        true => clock(column.first),
        false => format!("{} to {}", clock(column.first), clock(column.last)),
    };
    let named = column.named.iter().filter(|decision| decision.strict == strict);
    let names: Vec<String> = named.map(|decision| decision_words(decision)).collect();
    let more = (count as usize).saturating_sub(names.len());
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    format!("{when}: {count} {kind}: {}{more}", names.join("; "))
}

fn decision_words(decision: &Decision) -> String {
    let request = decision.request.as_ref().map(|request| format!(" {request}")).unwrap_or_default();
    format!("{}{request} {}", decision.class, decision.outcome)
}

/// When bytes were under way: a line for as long as there was at least one transfer.
fn moves(sheet: &mut Sheet, y: f64, transfers: &[&Transfer]) {
    let mut spans: Vec<(f64, f64)> = transfers
        .iter()
        .map(|transfer| {
            (sheet.scale.x(transfer.from), sheet.scale.x(transfer.to).max(sheet.scale.x(transfer.from) + 2.0))
        })
        .collect();
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lines: Vec<(f64, f64)> = Vec::new();
    for (left, right) in spans {
        match lines.last_mut() {
            Some(last) if left <= last.1 + 0.5 => last.1 = last.1.max(right),
            _ => lines.push((left, right)),
        }
    }
    if lines.is_empty() {
        return;
    }
    let y = tenth(y + 1.3);
    let mut d = String::new();
    for (left, right) in lines {
        let _ = write!(d, "M{left} {y}H{}", tenth(right));
    }
    sheet.line(format_args!(r#"<path d="{d}" fill="none" stroke-width="2.5" {}/>"#, Ink::Series(0).stroke()));
}
