//! Lines and steps.

use plotters::series::LineSeries;

use super::canvas::{
    Anchor, Canvas, LINE, NAME, PAD, Plot, Point, TICK, WIDTH, draw as canvas, failed, position, stroke,
};
use super::frame::{Frame, Texts};
use super::ink::Ink;
use super::scale::{Scale, Tick, decimals, fixed, with_near_zero};
use super::{ChartError, Join, LineChart, Series, Ticks, marker};

const SAMPLE: f64 = 38.0;
const STROKE: f64 = 2.2;
/// Height of the plot of a numeric axis, and least height of one level of a named one.
const PLOT: f64 = 260.0;
const LEVEL: f64 = 40.0;
/// The width that the name of a level may take.
const LEVEL_NAME: f64 = 150.0;
/// Between the lines of two series on the same level, so that neither hides the other.
const APART: f64 = 6.5;
/// The longest name that is written at the end of a line too.
const END_NAME: f64 = 130.0;

/// Where everything is.
struct Layout {
    frame: Frame,
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_label: Vec<String>,
    /// The end of each line that has its name there, as shown.
    ends: Vec<f64>,
}

pub(super) fn draw(chart: &LineChart) -> Result<String, ChartError> {
    let layout = Layout::new(chart);
    let end = layout.bottom + 22.0 + LINE * layout.x_label.len() as f64;
    canvas(&chart.title, &describe(chart), layout.frame.height(end), |canvas| {
        layout.frame.draw(canvas, end, (SAMPLE, sample))?;
        layout.draw_axes(canvas)?;
        let plot = canvas.plot(
            (layout.left, layout.top),
            (layout.right, layout.bottom),
            (layout.x.from, layout.x.to),
            (layout.y.from, layout.y.to),
        )?;
        draw_series(canvas, plot, chart, &layout)
    })
}

impl Layout {
    fn new(chart: &LineChart) -> Self {
        let frame = Frame::new(&Texts {
            title: &chart.title,
            subtitle: &chart.subtitle,
            footnote: &chart.footnote,
            label: &chart.y.label,
            series: chart.series.iter().map(|series| (series.name.as_str(), series.style)).collect(),
            sample: SAMPLE,
        });
        let top = frame.head + 8.0;
        let (y, bottom) = match &chart.y.ticks {
            Ticks::Named(names) => (levels(names), top + level_height(chart, names) * names.len() as f64),
            Ticks::Auto => {
                let (low, high) = bounds(chart, |point| point.1);
                let (low, high) = with_near_zero(low, high);
                (Scale::new(chart.y.range, low, high, 6), top + PLOT)
            }
        };
        let widest = y.ticks.iter().flat_map(|tick| TICK.wrap(&tick.text, LEVEL_NAME)).map(|line| TICK.width(&line));
        let left = (PAD + widest.fold(0.0, f64::max) + 8.0).ceil();
        let ends = ends(chart, |value| bottom - (shown(chart, value) - y.from) / (y.to - y.from) * (bottom - top));
        let names = chart.series.iter().map(|series| NAME.width(&series.name)).fold(0.0, f64::max);
        let right = WIDTH - PAD - if ends.is_empty() { 8.0 } else { names.ceil() + 12.0 };
        let x = x_scale(chart, left, right);
        let x_label = TICK.wrap(&chart.x.label, right - left);
        Self { frame, x, y, left, right, top, bottom, x_label, ends }
    }

    fn draw_axes(&self, canvas: &Canvas<'_>) -> Result<(), ChartError> {
        for tick in &self.y.ticks {
            let y = self.bottom - (tick.at - self.y.from) / (self.y.to - self.y.from) * (self.bottom - self.top);
            canvas.level(y, self.left, self.right, Ink::Grid)?;
            let lines = TICK.wrap(&tick.text, LEVEL_NAME);
            let first = y + 4.5 - (lines.len() as f64 - 1.0) * LINE / 2.0;
            canvas.lines(&lines, (self.left - 8.0, first), LINE, TICK, Anchor::End)?;
        }
        canvas.level(self.bottom, self.left, self.right, Ink::Axis)?;
        for (at, label, text) in x_labels(&self.x, self.left, self.right) {
            canvas.upright(at, self.bottom, self.bottom + 4.0, Ink::Axis)?;
            canvas.text(&text, (label, self.bottom + 18.0), TICK, Anchor::Middle)?;
        }
        let middle = (self.left + self.right) / 2.0;
        canvas.lines(&self.x_label, (middle, self.bottom + 36.0), LINE, TICK, Anchor::Middle)
    }
}

fn draw_series(canvas: &Canvas<'_>, mut plot: Plot<'_>, chart: &LineChart, layout: &Layout) -> Result<(), ChartError> {
    let named = matches!(chart.y.ticks, Ticks::Named(_));
    let level = (layout.bottom - layout.top) / (layout.y.to - layout.y.from);
    let middle = (chart.series.len() as f64 - 1.0) / 2.0;
    for (index, series) in chart.series.iter().enumerate() {
        // In units of the axis, where one level is one.
        let shift = if named { (middle - index as f64) * APART / level } else { 0.0 };
        let points = series.points.iter().map(|&(x, y)| (x, shown(chart, y) + shift)).collect::<Vec<_>>();
        let mut line = if chart.join == Join::Step { steps(&points) } else { points.clone() };
        line.dedup_by_key(|point| plot.backend_coord(point));
        plot.draw_series(LineSeries::new(line, stroke(Ink::Series(series.style), STROKE))).map_err(failed)?;
        let places = points.iter().map(|point| position(&plot, *point)).collect::<Vec<_>>();
        for at in marked(&places, series.style) {
            marker::draw(canvas, series.style, at)?;
        }
    }
    for (series, y) in chart.series.iter().zip(&layout.ends) {
        if let Some(&last) = series.points.last() {
            let (x, _) = position(&plot, last);
            canvas.text(&series.name, (x + 10.0, y + 4.0), NAME, Anchor::Start)?;
        }
    }
    Ok(())
}

/// What a line of this style looks like.
fn sample(canvas: &Canvas<'_>, style: usize, (x, y): Point) -> Result<(), ChartError> {
    canvas.path(&[(x, y), (x + SAMPLE, y)], Ink::Series(style), STROKE)?;
    marker::draw(canvas, style, (x + SAMPLE / 2.0, y))
}

/// Where a value stands on the axis: named levels go from the top down.
fn shown(chart: &LineChart, value: f64) -> f64 {
    match &chart.y.ticks {
        Ticks::Named(names) => names.len() as f64 - 1.0 - value,
        _ => value,
    }
}

/// High enough for the longest name and for all series side by side.
fn level_height(chart: &LineChart, names: &[String]) -> f64 {
    let lines = names.iter().map(|name| TICK.wrap(name, LEVEL_NAME).len()).max().unwrap_or(1);
    LEVEL.max(lines as f64 * LINE + 8.0).max(chart.series.len() as f64 * APART + 18.0)
}

fn levels(names: &[String]) -> Scale {
    let ticks = (0..).zip(names.iter().rev()).map(|(at, name)| Tick { at: f64::from(at), text: name.clone() });
    Scale { from: -0.5, to: names.len() as f64 - 0.5, ticks: ticks.collect() }
}

fn bounds(chart: &LineChart, of: impl Fn(&Point) -> f64) -> (f64, f64) {
    let values = chart.series.iter().flat_map(|series| &series.points).map(of);
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// The horizontal axis with as many ticks as have room. Where all that is drawn is whole, so are they:
/// half a host is none.
fn x_scale(chart: &LineChart, left: f64, right: f64) -> Scale {
    let (low, high) = bounds(chart, |point| point.0);
    let scale = |intervals| Scale::new(chart.x.range, low, high, intervals);
    let fits = |scale: &Scale| {
        let labels = x_labels(scale, left, right);
        let half = |text: &str| TICK.width(text) / 2.0;
        let mut pairs = labels.iter().zip(labels.iter().skip(1));
        pairs.all(|(one, next)| one.1 + half(&one.2) + 10.0 <= next.1 - half(&next.2))
    };
    let whole = |value: f64| value.fract() == 0.0;
    let whole_points = chart.series.iter().flat_map(|series| &series.points).all(|point| whole(point.0));
    let suits = |scale: &Scale| !whole_points || scale.ticks.iter().all(|tick| whole(tick.at));
    let fitting = || (2..=8).rev().map(scale).filter(fits);
    fitting().find(suits).or_else(|| fitting().next()).unwrap_or_else(|| scale(1))
}

/// Each tick with its place, the middle of its text, and the text, which stays on the card.
fn x_labels(scale: &Scale, left: f64, right: f64) -> Vec<(f64, f64, String)> {
    let place = |tick: &Tick| {
        let at = left + (tick.at - scale.from) / (scale.to - scale.from) * (right - left);
        let half = TICK.width(&tick.text) / 2.0;
        (at, at.min(WIDTH - PAD / 2.0 - half).max(PAD / 2.0 + half), tick.text.clone())
    };
    scale.ticks.iter().map(place).collect()
}

/// Where the names at the ends of the lines go: nowhere unless all lines end together, and their
/// names are short and find room close to them.
fn ends(chart: &LineChart, y_of: impl Fn(f64) -> f64) -> Vec<f64> {
    let lasts = chart.series.iter().filter_map(|series| series.points.last()).collect::<Vec<_>>();
    let together = lasts.iter().all(|last| lasts.first().is_some_and(|first| first.0 == last.0));
    let farthest = bounds(chart, |point| point.0).1;
    let short = chart.series.iter().all(|series| NAME.width(&series.name) <= END_NAME);
    if chart.series.len() < 2 || !together || !short || lasts.iter().any(|last| last.0 < farthest) {
        return Vec::new();
    }
    let mut places = lasts.iter().map(|last| y_of(last.1)).enumerate().collect::<Vec<_>>();
    places.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut lowest = f64::NEG_INFINITY;
    let mut moved = vec![0.0; places.len()];
    for (index, y) in places {
        let to = y.max(lowest + LINE);
        if to - y > 6.0 {
            return Vec::new();
        }
        if let Some(place) = moved.get_mut(index) {
            *place = to;
        }
        lowest = to;
    }
    moved
}

/// A value holds until the next point.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut line = Vec::with_capacity(points.len() * 2);
    let mut before: Option<f64> = None;
    for &(x, y) in points {
        line.extend(before.filter(|last| *last != y).map(|last| (x, last)));
        line.push((x, y));
        before = Some(y);
    }
    line
}

/// The points that carry a marker: the first, the last, and between them all where they are wide
/// apart, else some along the way, at other places for each style.
fn marked(points: &[Point], style: usize) -> Vec<Point> {
    let apart = |one: Point, other: Point| libm::hypot(one.0 - other.0, one.1 - other.1);
    let all = points.iter().zip(points.iter().skip(1)).all(|(one, next)| apart(*one, *next) >= 16.0);
    let mut marked: Vec<Point> = Vec::new();
    let mut gap = 30.0 + 9.0 * style as f64;
    for (index, &point) in points.iter().enumerate() {
        let far = marked.last().is_none_or(|last| apart(*last, point) >= gap);
        let last = index + 1 == points.len();
        if all || far || last {
            if marked.len() > 1 {
                gap = 60.0;
            }
            if last && !all && marked.len() > 1 && !far {
                marked.pop();
            }
            marked.push(point);
        }
    }
    marked
}

/// The chart in words, for those who hear it.
fn describe(chart: &LineChart) -> String {
    let mut parts = Vec::new();
    if !chart.subtitle.trim().is_empty() {
        parts.push(chart.subtitle.trim().to_owned());
    }
    let kind = if chart.join == Join::Step { "Step chart" } else { "Line chart" };
    parts.push(format!("{kind}. Horizontal axis: {}. Vertical axis: {}.", chart.x.label, chart.y.label));
    parts.extend(chart.series.iter().map(|series| describe_series(chart, series)));
    if !chart.footnote.trim().is_empty() {
        parts.push(chart.footnote.trim().to_owned());
    }
    parts.join(" ")
}

fn describe_series(chart: &LineChart, series: &Series) -> String {
    let values = || series.points.iter().map(|point| point.1);
    let auto = decimals(values());
    let word = |value: f64| match &chart.y.ticks {
        Ticks::Named(names) => names.get(value as usize).cloned().unwrap_or_default(),
        Ticks::Auto => fixed(value, auto),
    };
    let (first, last) = (values().next().unwrap_or_default(), values().next_back().unwrap_or_default());
    let count = match series.points.len() {
        1 => "1 point".to_owned(),
        count => format!("{count} points"),
    };
    let mut text = format!("{}: {count}, first {}, last {}", series.name, word(first), word(last));
    if !matches!(chart.y.ticks, Ticks::Named(_)) {
        let (low, high) = values().fold((first, first), |(low, high), value| (low.min(value), high.max(value)));
        text += &format!(", lowest {}, highest {}", word(low), word(high));
    }
    text + "."
}
