//! Title, legend and notes.

use super::processes::{Has, draw_frozen, draw_hole};
use super::sheet::{AXIS, Face, LABEL, PAD, Shape, Sheet, TITLE};
use crate::eval::chart::ink::Ink;
use crate::eval::chart::text;
use crate::model::{PathState, STRICT_FROM};
use crate::timeline::scale::tenth;

const LINE: f64 = 18.0;
/// Width of a sample in the legend.
const SAMPLE: f64 = 24.0;

/// Title, what is on the picture, and the legend.
pub(super) fn draw(sheet: &mut Sheet, title: &str, counts: &str, has: Has) {
    sheet.y += 15.0;
    lines(sheet, TITLE, 22.0, title);
    sheet.y += 1.0;
    lines(sheet, AXIS, LINE, counts);
    sheet.y += 8.0;
    legend(sheet, has);
    sheet.y += 14.0;
}

/// What has to be said of the picture itself.
pub(super) fn notes(sheet: &mut Sheet, notes: &[String]) {
    sheet.y += 10.0;
    for note in notes {
        lines(sheet, AXIS, LINE - 2.0, note);
    }
}

fn lines(sheet: &mut Sheet, face: Face, line: f64, words: &str) {
    for words in text::wrap(words, face.size, face.bold, sheet.width - 2.0 * PAD) {
        sheet.text((PAD, sheet.y), face, &words);
        sheet.y += line;
    }
}

/// A sample and what it means.
enum Sample {
    State(PathState),
    Unknown,
    Strict,
    Tolerant,
    Transfer,
    Frozen,
    Hole,
    Mark(Shape),
}

fn legend(sheet: &mut Sheet, has: Has) {
    let states = PathState::ALL.iter().map(|state| (Sample::State(*state), state.as_str().to_owned()));
    let marks = [
        (Sample::Unknown, "not known".to_owned()),
        (Sample::Strict, format!("chosen by strict work (criticality from {STRICT_FROM:.2} on)")),
        (Sample::Tolerant, "chosen by tolerant work".to_owned()),
        (Sample::Transfer, "transfers".to_owned()),
        (Sample::Mark(Shape::Cross), "a transfer failed, a panic".to_owned()),
        (Sample::Mark(Shape::Up), "came, started".to_owned()),
        (Sample::Mark(Shape::Down), "went".to_owned()),
        (Sample::Mark(Shape::Square), "closed in order".to_owned()),
    ];
    let seldom = [
        (has.frozen, Sample::Frozen, "a process was frozen"),
        (has.hole, Sample::Hole, "missing in the journal"),
        (has.late, Sample::Mark(Shape::From), "recorded from here on"),
    ];
    let seldom = seldom.into_iter().filter(|(there, ..)| *there).map(|(_, sample, name)| (sample, name.to_owned()));
    sheet.line(format_args!("<g class=\"legend\">"));
    let mut x = PAD;
    for (sample, name) in states.chain(marks).chain(seldom) {
        let width = SAMPLE + 6.0 + text::width(&name, LABEL.size, false);
        if x > PAD && x + width > sheet.width - PAD {
            (x, sheet.y) = (PAD, sheet.y + 20.0);
        }
        draw_sample(sheet, &sample, x, sheet.y);
        sheet.text((tenth(x + SAMPLE + 6.0), sheet.y), LABEL, &name);
        x = tenth(x + width + 16.0);
    }
    sheet.end();
}

fn draw_sample(sheet: &mut Sheet, sample: &Sample, x: f64, y: f64) {
    let across = (x, tenth(x + SAMPLE));
    let middle = tenth(x + SAMPLE / 2.0);
    match sample {
        Sample::State(state) => sheet.state(across, y, Some(*state), ""),
        Sample::Unknown => sheet.state(across, y, None, ""),
        Sample::Strict => ticks(sheet, Ink::Text, &format!("M{} {y}v-6m5 6v-9m5 9v-4", middle - 5.0)),
        Sample::Tolerant => ticks(sheet, Ink::Axis, &format!("M{} {}v6m5-6v9m5-9v4", middle - 5.0, y - 9.0)),
        Sample::Transfer => {
            sheet.rect(across, (y - 5.0, 2.5), &Ink::Series(0).fill(), "");
        }
        Sample::Frozen => draw_frozen(sheet, across, y - 4.0, ""),
        Sample::Hole => draw_hole(sheet, across, y - 4.0, ""),
        Sample::Mark(shape) => {
            let (d, paint) = shape.at(middle, tenth(y - 4.0));
            sheet.line(format_args!(r#"<path d="{d}" {paint}/>"#));
        }
    }
}

fn ticks(sheet: &mut Sheet, ink: Ink, d: &str) {
    sheet.line(format_args!(r#"<path d="{d}" fill="none" stroke-width="2" {}/>"#, ink.stroke()));
}
