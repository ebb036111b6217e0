//! Grouped bars.

use super::canvas::{Anchor, Canvas, LINE, NAME, PAD, Point, TICK, WIDTH, draw as canvas};
use super::frame::{Frame, Texts};
use super::ink::Ink;
use super::scale::{Scale, decimals, fixed};
use super::{BarChart, ChartError, text};

const SAMPLE: f64 = 18.0;
/// Height of the plot, alone and as one row of several.
const PLOT: f64 = 240.0;
const PLOT_ROW: f64 = 150.0;
/// Room above and below for the values of the longest bars.
const VALUE_ROOM: f64 = 18.0;
/// The widest bar, and the least distance of two groups.
const WIDEST: f64 = 46.0;
const APART: f64 = 22.0;
/// A part of a group's name wider than this breaks inside.
const PIECE: f64 = 120.0;

/// Where everything is.
struct Layout<'a> {
    chart: &'a BarChart,
    frame: Frame,
    y: Scale,
    left: f64,
    right: f64,
    /// Width of one bar with its value, and of one group with the space around it.
    slot: f64,
    group: f64,
    rows: Vec<Row>,
    decimals: u8,
}

/// Groups side by side.
struct Row {
    /// The first group's index.
    first: usize,
    /// The groups' names, broken into lines.
    names: Vec<Vec<String>>,
    top: f64,
    bottom: f64,
    /// Where the names end.
    end: f64,
}

pub(super) fn draw(chart: &BarChart) -> Result<String, ChartError> {
    let layout = Layout::new(chart)?;
    let end = layout.rows.last().map_or(layout.frame.head, |row| row.end);
    canvas(&chart.title, &layout.describe(), layout.frame.height(end), |canvas| {
        layout.frame.draw(canvas, end, (SAMPLE, sample))?;
        layout.rows.iter().try_for_each(|row| layout.draw_row(canvas, row))
    })
}

impl<'a> Layout<'a> {
    fn new(chart: &'a BarChart) -> Result<Self, ChartError> {
        let frame = Frame::new(&Texts {
            title: &chart.title,
            subtitle: &chart.subtitle,
            footnote: &chart.footnote,
            label: &chart.y.label,
            series: chart.series.iter().map(|series| (series.name.as_str(), series.style)).collect(),
            sample: SAMPLE,
        });
        let values = || chart.series.iter().flat_map(|series| &series.values).filter_map(|value| *value);
        let (low, high) = values().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let decimals = decimals(values());
        // One row is high enough for more ticks than each of several.
        let [one, several] = [6, 4].map(|intervals| Scale::new(chart.y.range, low, high, intervals));
        let ticks = one.ticks.iter().chain(&several.ticks).map(|tick| TICK.width(&tick.text));
        let left = (PAD + ticks.fold(0.0, f64::max) + 8.0).ceil();
        let right = WIDTH - PAD;

        let texts = values().map(|value| fixed(value, decimals)).chain(["n/a".to_owned()]);
        let (widest_value, text) = texts
            .map(|text| (NAME.width(&text) + 5.0, text))
            .fold((0.0, String::new()), |widest, next| if next.0 > widest.0 { next } else { widest });
        let names = chart.groups.iter().map(|name| text::widest_piece(&text::clean(name), TICK.size, TICK.bold));
        let widest_name = names.fold(0.0, f64::max).min(PIECE);
        let bars = chart.series.len() as f64;
        let least = (bars * widest_value + APART).max(widest_name + 12.0);
        if least > right - left {
            return Err(ChartError::Misfit {
                field: "values, as text".to_owned(),
                found: format!("{text:?}"),
                allowed: format!("what fits above a bar of {bars} series: another unit or fewer decimals"),
            });
        }
        let room = ((right - left) / least).floor().max(1.0) as usize;
        let rows = chart.groups.len().div_ceil(room);
        let each = chart.groups.len().div_ceil(rows);
        let group = (right - left) / each as f64;
        let slot = ((group - APART) / bars).min((WIDEST + 6.0).max(widest_value));
        let (y, height) = if rows == 1 { (one, PLOT) } else { (several, PLOT_ROW) };
        let mut start = frame.head;
        let mut placed = Vec::new();
        for (index, groups) in chart.groups.chunks(each).enumerate() {
            let names = groups.iter().map(|name| TICK.wrap(name, group - 10.0)).collect::<Vec<_>>();
            let lines = names.iter().map(Vec::len).max().unwrap_or(1) as f64;
            let top = start + VALUE_ROOM;
            let bottom = top + height + if y.from < 0.0 { VALUE_ROOM } else { 0.0 };
            let end = bottom + 6.0 + lines * LINE;
            placed.push(Row { first: index * each, names, top, bottom, end });
            start = end + 10.0;
        }
        Ok(Self { chart, frame, y, left, right, slot, group, rows: placed, decimals })
    }

    fn draw_row(&self, canvas: &Canvas<'_>, row: &Row) -> Result<(), ChartError> {
        let low = if self.y.from < 0.0 { row.bottom - VALUE_ROOM } else { row.bottom };
        let plot = canvas.plot((self.left, row.top), (self.right, low), (0.0, 1.0), (self.y.from, self.y.to))?;
        let y_of = |value: f64| super::canvas::position(&plot, (0.0, value)).1;
        for tick in &self.y.ticks {
            canvas.level(y_of(tick.at), self.left, self.right, Ink::Grid)?;
            canvas.text(&tick.text, (self.left - 8.0, y_of(tick.at) + 4.5), TICK, Anchor::End)?;
        }
        for (index, name) in row.names.iter().enumerate() {
            let middle = self.left + (index as f64 + 0.5) * self.group;
            canvas.lines(name, (middle, row.bottom + 17.0), LINE, TICK, Anchor::Middle)?;
            self.draw_group(canvas, row.first + index, middle, &y_of)?;
        }
        // Last, so that the bars stand on it.
        canvas.level(y_of(0.0), self.left, self.right, Ink::Axis)
    }

    fn draw_group(
        &self,
        canvas: &Canvas<'_>,
        group: usize,
        middle: f64,
        y_of: &impl Fn(f64) -> f64,
    ) -> Result<(), ChartError> {
        let zero = y_of(0.0).floor() + 0.5;
        let width = (self.slot - 6.0).clamp(4.0, WIDEST).floor();
        let start = middle - self.slot * self.chart.series.len() as f64 / 2.0;
        for (index, series) in self.chart.series.iter().enumerate() {
            let at = start + (index as f64 + 0.5) * self.slot;
            let Some(value) = series.values.get(group).copied().flatten() else {
                canvas.text("n/a", (at, zero - 5.0), TICK, Anchor::Middle)?;
                continue;
            };
            let left = (at - width / 2.0).floor() + 0.5;
            let end = y_of(value);
            canvas.rect((left, zero.min(end)), (left + width, zero.max(end)), Ink::Series(series.style))?;
            // What rounds to zero stands above, where an axis without negative values has room.
            let below = value < 0.0 && self.y.from < 0.0;
            let baseline = if below { end + 14.0 } else { end.min(zero) - 5.0 };
            let text = self.value(value);
            // No gridline runs through a value.
            let half = NAME.width(&text) / 2.0;
            canvas.rect((at - half, baseline - 10.0), (at + half, baseline + 1.5), Ink::Card)?;
            canvas.text(&text, (at, baseline), NAME, Anchor::Middle)?;
        }
        Ok(())
    }

    fn value(&self, value: f64) -> String {
        fixed(value, self.decimals)
    }

    /// The chart in words, for those who hear it.
    fn describe(&self) -> String {
        let chart = self.chart;
        let mut parts = Vec::new();
        if !chart.subtitle.trim().is_empty() {
            parts.push(chart.subtitle.trim().to_owned());
        }
        parts.push(format!("Bar chart. Vertical axis: {}.", chart.y.label));
        for (index, group) in chart.groups.iter().enumerate() {
            let bars = chart.series.iter().map(|series| {
                let value = series.values.get(index).copied().flatten();
                format!("{} {}", series.name, value.map_or("n/a".to_owned(), |value| self.value(value)))
            });
            parts.push(format!("{group}: {}.", bars.collect::<Vec<_>>().join(", ")));
        }
        if !chart.footnote.trim().is_empty() {
            parts.push(chart.footnote.trim().to_owned());
        }
        parts.join(" ")
    }
}

/// What a bar of this style looks like.
fn sample(canvas: &Canvas<'_>, style: usize, (x, y): Point) -> Result<(), ChartError> {
    canvas.rect((x + 0.5, y - 6.5), (x + SAMPLE - 0.5, y + 6.5), Ink::Series(style))
}
