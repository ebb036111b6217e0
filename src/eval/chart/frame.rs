//! What stands around the plot of every chart: title, subtitle, legend, label, footnote.

use super::ChartError;
use super::canvas::{Anchor, Canvas, Face, LINE, NAME, PAD, Point, TICK, WIDTH};
use super::ink::Ink;

const TITLE: Face = Face { size: 17.0, bold: true, ink: Ink::Text };
const TITLE_LINE: f64 = 22.0;
const SUBTITLE: Face = Face { size: 13.0, bold: false, ink: Ink::Muted };
const SUBTITLE_LINE: f64 = 18.0;
const LEGEND_LINE: f64 = 21.0;
/// Width left for text.
const ROOM: f64 = WIDTH - 2.0 * PAD;

/// The texts broken into lines, with their places.
pub(super) struct Frame {
    title: Vec<String>,
    subtitle: Vec<String>,
    entries: Vec<Entry>,
    label: Vec<String>,
    footnote: Vec<String>,
    label_top: f64,
    /// Where the head ends and the plot may begin.
    pub(super) head: f64,
}

/// One name in the legend.
struct Entry {
    style: usize,
    name: Vec<String>,
    at: Point,
}

/// The texts as they come.
pub(super) struct Texts<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    pub(super) footnote: &'a str,
    /// Of the vertical axis; it stands above its axis, level, so that it reads without a turn.
    pub(super) label: &'a str,
    /// Name and style of each series.
    pub(super) series: Vec<(&'a str, usize)>,
    /// Width of the legend's samples.
    pub(super) sample: f64,
}

impl Frame {
    pub(super) fn new(texts: &Texts<'_>) -> Self {
        let lines = |face: Face, text: &str| if text.trim().is_empty() { Vec::new() } else { face.wrap(text, ROOM) };
        let title = lines(TITLE, texts.title);
        let subtitle = lines(SUBTITLE, texts.subtitle);
        let mut entries = Vec::new();
        let (mut x, mut y) = (PAD, PAD + height(&title, TITLE_LINE) + height(&subtitle, SUBTITLE_LINE) + 8.0);
        for &(name, style) in &texts.series {
            let name = NAME.wrap(name, ROOM - texts.sample - 8.0);
            let width = texts.sample + 8.0 + name.iter().map(|line| NAME.width(line)).fold(0.0, f64::max);
            if x > PAD && x + width > WIDTH - PAD {
                (x, y) = (PAD, y + LEGEND_LINE);
            }
            let more = height(&name, LINE) - LINE;
            entries.push(Entry { style, name, at: (x, y) });
            x += width + 20.0;
            y += more;
        }
        let label = lines(TICK, texts.label);
        let label_top = y + LEGEND_LINE + 8.0;
        let head = label_top + height(&label, LINE) + 6.0;
        let footnote = lines(TICK, texts.footnote);
        Self { title, subtitle, entries, label, footnote, label_top, head }
    }

    /// The height of the whole chart whose plot, with its axis, ends here.
    pub(super) fn height(&self, plot_end: f64) -> f64 {
        let footnote = if self.footnote.is_empty() { 0.0 } else { 10.0 + height(&self.footnote, LINE + 1.0) };
        (plot_end + footnote + PAD - 4.0).ceil()
    }

    /// Draws all texts; `sample` draws what a style looks like, from a point on its middle line.
    pub(super) fn draw(
        &self,
        canvas: &Canvas<'_>,
        plot_end: f64,
        sample: (f64, impl Fn(&Canvas<'_>, usize, Point) -> Result<(), ChartError>),
    ) -> Result<(), ChartError> {
        let start = Anchor::Start;
        canvas.lines(&self.title, (PAD, PAD + 15.0), TITLE_LINE, TITLE, start)?;
        let below = PAD + height(&self.title, TITLE_LINE);
        canvas.lines(&self.subtitle, (PAD, below + 13.0), SUBTITLE_LINE, SUBTITLE, start)?;
        for entry in &self.entries {
            let (x, y) = entry.at;
            sample.1(canvas, entry.style, (x, y + 10.0))?;
            canvas.lines(&entry.name, (x + sample.0 + 8.0, y + 14.0), LINE, NAME, start)?;
        }
        canvas.lines(&self.label, (PAD, self.label_top + 12.0), LINE, TICK, start)?;
        canvas.lines(&self.footnote, (PAD, plot_end + 22.0), LINE + 1.0, TICK, start)
    }
}

fn height(lines: &[String], line: f64) -> f64 {
    lines.len() as f64 * line
}
