//! The picture: rows from top to bottom, and the document around them.

mod example;
mod head;
mod members;
mod paths;
mod processes;
mod sheet;
mod words;

use std::fmt::Write as _;

use super::facts::{Facts, Window};
use super::fold::Folded;
use super::scale::Scale;
use super::{Options, Picture};
use crate::eval::chart::ink::{self, Ink};
use crate::eval::chart::text;
use sheet::{AXIS, HEADING, LABEL, PAD, Sheet};
use words::Counts;

/// The widest that names of lanes may be, as a share of the width.
const LABELS: f64 = 0.24;
/// Room for what stands behind a lane.
const BEHIND: f64 = 118.0;

pub(super) fn draw(facts: &Facts, folded: &Folded<'_>, options: &Options, window: Window) -> Picture {
    let width = f64::from(options.width);
    let counts = Counts::of(facts, folded, window);
    let left = PAD + names(facts, folded).min(width * LABELS).ceil() + 12.0;
    let scale = Scale { window, left, right: width - PAD - BEHIND };
    let mut sheet = Sheet::new(scale, width);
    let title = words::title(facts);
    let incomplete = if facts.left_out > 0 { " · not complete: see below" } else { "" };
    let shown = processes::shown(facts);
    head::draw(&mut sheet, &title, &(counts.line(window) + incomplete), shown.has(window));
    let top = sheet.y;
    sheet.y += 22.0;
    shown.draw(&mut sheet);
    members::draw(&mut sheet, facts);
    members::overrides(&mut sheet, facts);
    paths::draw(&mut sheet, facts, folded);
    let bottom = sheet.y + 4.0;
    sheet.y = bottom + 24.0;
    head::notes(&mut sheet, &words::notes(facts, &counts));
    let height = (sheet.y + PAD - 6.0).ceil();

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"seam-chart\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n\
         <title>{}</title>\n<desc>{}</desc>\n",
        text::escape(&title),
        text::escape(&words::description(&counts, folded, window))
    );
    svg += &ink::style_sheet();
    svg += &ink::hatches();
    svg += &sheet::unknown_pattern();
    let card = format!(r#"x="0.5" y="0.5" width="{}" height="{}" rx="8""#, width - 1.0, height - 1.0);
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<rect {card} {}/>", Ink::Card.fill());
    let _ = writeln!(svg, r#"<rect {card} fill="none" {}/>"#, Ink::Edge.stroke());
    svg += &axis(&scale, top, bottom);
    svg += &sheet.body;
    svg += "</svg>\n";
    let (from_ms, to_ms, when) = (window.from, window.to, words::when(window));
    let first_trouble = folded.first_trouble.map(crate::replay::journal::utc);
    let example = folded.first_trouble.and_then(|_| example::example(facts, folded));
    let Counts { lanes, folded, crowded_out, decisions, refused, transfers, failed } = counts;
    let left_out = facts.left_out;
    #[rustfmt::skip]
    let picture = Picture {
        svg, from_ms, to_ms, when, lanes, folded, crowded_out, decisions, refused, transfers, failed, left_out,
        first_trouble, example,
    };
    picture
}

/// The width of the longest name of a lane.
fn names(facts: &Facts, folded: &Folded<'_>) -> f64 {
    let shown = folded.groups.values().flat_map(|group| &group.shown).map(|shown| shown.lane.path.to_string());
    let others = facts.lives.iter().map(|life| life.node.to_string());
    let overrides = facts.overrides.keys().map(|(_, target)| target.to_string());
    let names = shown.chain(others).chain(overrides).chain(folded.groups.values().flat_map(paths::names));
    names.map(|name| text::width(&name, LABEL.size, false)).fold(130.0, f64::max)
}

/// The axis above and below the lanes, and the lines between them.
fn axis(scale: &Scale, top: f64, bottom: f64) -> String {
    let mut out = String::new();
    let (above, below) = (top + 12.0, bottom + 16.0);
    let mut line = String::new();
    let mut words = String::new();
    for tick in scale.ticks() {
        let _ = write!(line, "M{} {}V{bottom}", tick.x, top + 18.0);
        for y in [above, below] {
            let _ = writeln!(words, r#"<text x="{}" y="{y}">{}</text>"#, tick.x, text::escape(&tick.text));
        }
    }
    let _ = writeln!(out, r#"<path d="{line}" fill="none" {}/>"#, Ink::Grid.stroke());
    let (left, right) = (scale.left, scale.right);
    let _ = writeln!(
        out,
        r#"<path d="M{left} {y}H{right}M{left} {bottom}H{right}" fill="none" {}/>"#,
        Ink::Axis.stroke(),
        y = top + 18.0
    );
    let _ = writeln!(out, "<g font-size=\"{}\" text-anchor=\"middle\" {}>\n{words}</g>", AXIS.size, AXIS.ink.fill());
    let _ = writeln!(out, r#"<text x="{PAD}" y="{above}" font-size="{}" {}>UTC</text>"#, AXIS.size, HEADING.ink.fill());
    out
}
