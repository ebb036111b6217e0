//! What is drawn on: a body of SVG elements, and how far down it goes.

use std::fmt::Write as _;

use crate::eval::chart::ink::{self, Ink};
use crate::eval::chart::text;
use crate::model::PathState;
use crate::timeline::scale::{Scale, tenth};
use crate::timeline::time;

/// Between the card's edge and what is on it.
pub(super) const PAD: f64 = 20.0;
/// Elements with a title of their own at most, so that a picture stays small.
const MAX_DETAILS: usize = 4_000;
/// Marks named in one title at most.
const NAMED: usize = 4;
/// Marks nearer than this many pixels are one.
const MARKS_APART: f64 = 6.0;

/// How a text is set.
#[derive(Clone, Copy)]
pub(super) struct Face {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) ink: Ink,
}

pub(super) const TITLE: Face = Face { size: 17.0, bold: true, ink: Ink::Text };
pub(super) const HEADING: Face = Face { size: 13.0, bold: true, ink: Ink::Text };
pub(super) const LABEL: Face = Face { size: 12.0, bold: false, ink: Ink::Text };
pub(super) const SIDE: Face = Face { size: 11.0, bold: false, ink: Ink::Muted };
pub(super) const AXIS: Face = Face { size: 12.0, bold: false, ink: Ink::Muted };

/// What is drawn on.
pub(super) struct Sheet {
    pub(super) body: String,
    /// How far down it goes.
    pub(super) y: f64,
    pub(super) scale: Scale,
    pub(super) width: f64,
    details: usize,
}

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Up,
    Down,
    Square,
    Cross,
    /// A bracket that opens.
    From,
}

/// Something that happened.
pub(super) struct Mark {
    pub(super) at: u64,
    pub(super) shape: Shape,
    pub(super) words: String,
}

impl Shape {
    /// Its outline around a point, and how it is painted.
    pub(super) fn at(self, x: f64, y: f64) -> (String, String) {
        let corner = (tenth(x - 3.5), tenth(y - 3.5));
        match self {
            Self::Up => (format!("M{x} {}l4.5 8h-9z", tenth(y - 4.0)), Ink::Series(0).fill()),
            Self::Down => (format!("M{x} {}l-4.5-8h9z", tenth(y + 4.0)), Ink::Text.fill()),
            Self::Square => (format!("M{} {}h7v7h-7z", corner.0, corner.1), Ink::Muted.fill()),
            Self::From => {
                let paint = format!(r#"fill="none" stroke-width="2.2" {}"#, Ink::Series(0).stroke());
                (format!("M{} {}h-4.5v9h4.5", tenth(x + 4.0), tenth(y - 4.5)), paint)
            }
            Self::Cross => {
                let paint = format!(r#"fill="none" stroke-width="2.2" {}"#, Ink::Series(5).stroke());
                (format!("M{} {}l7 7m0-7l-7 7", corner.0, corner.1), paint)
            }
        }
    }
}

impl Sheet {
    pub(super) fn new(scale: Scale, width: f64) -> Self {
        Self { body: String::new(), y: PAD, scale, width, details: MAX_DETAILS }
    }

    /// Whether one more element may have a title of its own.
    pub(super) fn detail(&mut self) -> bool {
        let may = self.details > 0;
        self.details -= usize::from(may);
        may
    }

    /// How many more may.
    pub(super) fn details(&self) -> usize {
        self.details
    }

    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(line);
        self.body.push('\n');
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), face: Face, words: &str) {
        let bold = if face.bold { r#" font-weight="600""# } else { "" };
        let (y, size, ink) = (tenth(y), face.size, face.ink.fill());
        self.line(format_args!(
            r#"<text x="{x}" y="{y}" font-size="{size}"{bold} {ink}>{}</text>"#,
            text::escape(words)
        ));
    }

    /// A heading over a group of lanes, and what it says of them.
    pub(super) fn heading(&mut self, name: &str, more: &str) {
        self.y += 8.0;
        let (y, right) = (self.y + 14.0, self.width - PAD);
        self.text((PAD, y), HEADING, name);
        let x = tenth(PAD + text::width(name, HEADING.size, true) + 10.0);
        let more = shortened(more, AXIS, right - x);
        self.text((x, y), AXIS, &more);
        self.y += 22.0;
    }

    /// The name of a lane whose text stands on `y`, whole in its title, and what stands behind the lane.
    pub(super) fn names(&mut self, y: f64, name: &str, behind: &str) {
        let short = shortened(name, LABEL, self.scale.left - PAD - 10.0);
        self.text((PAD, y), LABEL, &short);
        if !behind.is_empty() {
            let x = tenth(self.scale.right + 8.0);
            let behind = shortened(behind, SIDE, self.width - PAD - x + 8.0);
            self.text((x, y), SIDE, &behind);
        }
    }

    /// Begins a lane of this height; `title` shows where nothing more detailed does.
    pub(super) fn begin(&mut self, class: &str, height: f64, title: &str) {
        self.line(format_args!("<g class=\"{class}\"><title>{}</title>", text::escape(title)));
        // Something for the pointer between the marks.
        let (y, width) = (tenth(self.y), tenth(self.width - 2.0 * PAD));
        self.line(format_args!(
            r#"<rect x="{PAD}" y="{y}" width="{width}" height="{height}" fill="none" pointer-events="all"/>"#
        ));
    }

    /// A faint line above a lane.
    pub(super) fn divide(&mut self) {
        let (y, right) = (tenth(self.y + 0.5), self.scale.right);
        self.line(format_args!(r#"<path d="M{PAD} {y}H{right}" fill="none" {}/>"#, Ink::Grid.stroke()));
    }

    pub(super) fn end(&mut self) {
        self.line(format_args!("</g>"));
    }

    /// A rectangle from one x to another, with a title if there is one and room for it.
    pub(super) fn rect(&mut self, (left, right): (f64, f64), (top, height): (f64, f64), paint: &str, title: &str) {
        let (top, width) = (tenth(top), tenth(right - left));
        let shape = format!(r#"<rect x="{left}" y="{top}" width="{width}" height="{height}" {paint}"#);
        match !title.is_empty() && self.detail() {
            true => self.line(format_args!("{shape}><title>{}</title></rect>", text::escape(title))),
            false => self.line(format_args!("{shape}/>")),
        }
    }

    /// A path's state between two x, on the baseline `floor`.
    pub(super) fn state(&mut self, across: (f64, f64), floor: f64, state: Option<PathState>, title: &str) {
        let Some(state) = state else {
            self.rect(across, (floor - 6.0, 6.0), r#"class="unknown" fill="url(#seam-unknown)""#, title);
            return;
        };
        let (ink, height, hatch) = look(state);
        self.rect(across, (floor - height, height), &ink.fill(), title);
        if let Some(hatch) = hatch {
            self.rect(across, (floor - height, height), &format!(r#"fill="{hatch}" pointer-events="none""#), "");
        }
    }

    /// Marks on a line; those on nearly the same spot and of the same shape are one.
    pub(super) fn marks(&mut self, y: f64, mut marks: Vec<Mark>) {
        marks.sort_by(|one, other| (one.at, &one.words).cmp(&(other.at, &other.words)));
        let mut together: Vec<(f64, Shape, Vec<String>, usize)> = Vec::new();
        for mark in marks {
            let x = self.scale.x(mark.at);
            let words = format!("{} {}", time::clock(mark.at), mark.words);
            let near =
                together.iter_mut().rev().take(4).find(|(at, shape, ..)| *shape == mark.shape && x - at < MARKS_APART);
            match near {
                Some((_, _, all, more)) if all.len() >= NAMED => *more += 1,
                Some((_, _, all, _)) => all.push(words),
                None => together.push((x, mark.shape, vec![words], 0)),
            }
        }
        for (x, shape, words, more) in together {
            let mut title = words.join("; ");
            if more > 0 {
                let _ = write!(title, "; and {more} more");
            }
            let (d, paint) = shape.at(x, tenth(y));
            match self.detail() {
                true => {
                    self.line(format_args!(r#"<path d="{d}" {paint}><title>{}</title></path>"#, text::escape(&title)))
                }
                false => self.line(format_args!(r#"<path d="{d}" {paint}/>"#)),
            }
        }
    }
}

/// What a state looks like: the worse, the taller, so that it can be told without colour too.
pub(super) fn look(state: PathState) -> (Ink, f64, Option<String>) {
    match state {
        PathState::Healthy => (Ink::Series(3), 3.0, None),
        PathState::Restored => (Ink::Series(4), 5.0, None),
        PathState::DegradedUsable => (Ink::Series(1), 7.0, None),
        PathState::DegradedRestricted => (Ink::Series(5), 9.0, ink::hatch(1)),
        PathState::QuarantineCandidate => (Ink::Series(2), 11.0, ink::hatch(4)),
        PathState::Quarantined => (Ink::Text, 13.0, None),
    }
}

/// The hatching of what is not known.
pub(super) fn unknown_pattern() -> String {
    format!(
        "<defs><pattern id=\"seam-unknown\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(-45)\"><rect width=\"1.4\" height=\"6\" {}/></pattern></defs>\n",
        Ink::Axis.fill()
    )
}

/// A text that is at most so wide, the middle of a longer one left out.
pub(super) fn shortened(words: &str, face: Face, most: f64) -> String {
    let width = |text: &str| text::width(text, face.size, face.bold);
    if width(words) <= most {
        return words.to_owned();
    }
    let letters: Vec<char> = words.chars().collect();
    let cut = |kept: usize| -> String {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let head: String = letters.iter().take(head).collect();
        let tail: String = letters.iter().skip(letters.len() - tail).collect();
        format!("{head}…{tail}")
    };
    (0..letters.len()).rev().map(cut).find(|text| width(text) <= most).unwrap_or_default()
}
