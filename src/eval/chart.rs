//! Data in, one SVG picture out, the same bytes on any machine.
//!
//! A chart is plain data: [`LineChart`] or [`BarChart`], and [`LineChart::to_svg`] or
//! [`BarChart::to_svg`] checks it and draws it. plotters maps the data and draws; a second pass then
//! turns its output into text that follows the reader's light or dark scheme. Series differ in
//! colour and also in dashes and markers, or in hatching, so that no reader depends on colour.
//!
//! ```
//! use seam::eval::chart::{Axis, BarChart, BarSeries};
//!
//! let chart = BarChart::new("Right choices", Axis::new("requests (%)").range(0.0, 100.0))
//!     .groups(["gray failure", "flapping"])
//!     .series(BarSeries::new("Seam", 0, [Some(95.5), Some(82.6)]))
//!     .series(BarSeries::new("round robin", 1, [Some(50.0), None]))
//!     .footnote("n = 67 and 23");
//! assert!(chart.to_svg()?.starts_with("<svg"));
//! # Ok::<(), seam::eval::chart::ChartError>(())
//! ```

mod bar;
mod canvas;
mod check;
mod frame;
pub(crate) mod ink;
mod line;
mod marker;
mod restyle;
mod scale;
#[cfg(test)]
mod tests;
pub(crate) mod text;

/// Series of one chart at most: as many as there are styles.
pub const MAX_SERIES: usize = 6;
/// Points of one series at most.
pub const MAX_POINTS: usize = 10_000;
/// Groups of a bar chart at most.
pub const MAX_GROUPS: usize = 32;
/// Named levels of an axis at most.
pub const MAX_LEVELS: usize = 16;
/// Characters of the name of a series, group or level at most.
pub const MAX_NAME_CHARS: usize = 60;
/// Characters of a title, subtitle, axis label or footnote at most.
pub const MAX_TEXT_CHARS: usize = 400;
/// The largest value that can be drawn, above or below zero: larger ones want another unit.
pub const MAX_VALUE: f64 = 1e12;

/// Why a chart cannot be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChartError {
    /// A number that is not finite or too large, lies outside its axis or has no place on it.
    #[error("{field}: found {found}, allowed {allowed}")]
    Value {
        /// The number's place in the chart.
        field: String,
        /// The number.
        found: f64,
        /// What may be there.
        allowed: String,
    },
    /// Too many or too few of something.
    #[error("{field}: found {found}, allowed {allowed}")]
    Count {
        /// What was counted.
        field: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        allowed: String,
    },
    /// Something that does not go with the rest of the chart.
    #[error("{field}: found {found}, allowed {allowed}")]
    Misfit {
        /// Where it is.
        field: String,
        /// What was found.
        found: String,
        /// What may be there.
        allowed: String,
    },
    /// The drawing library failed.
    #[error("drawing: {0}")]
    Drawing(String),
}

/// How the ticks of an axis are placed and written.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ticks {
    /// Round numbers with as many decimals as they need.
    #[default]
    Auto,
    /// Names for the values 0, 1, 2 and so on, the first at the top: vertical axes of a
    /// [`LineChart`] only, 2 to [`MAX_LEVELS`] of them.
    Named(Vec<String>),
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit: `p99 latency (ms)`.
    pub label: String,
    /// From and to. Without it the range follows the data and ends on round numbers.
    pub range: Option<(f64, f64)>,
    /// Its ticks.
    pub ticks: Ticks,
}

impl Axis {
    /// An axis whose range follows the data.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), range: None, ticks: Ticks::Auto }
    }

    /// An axis with a name for each of the values 0, 1, 2 and so on, the first at the top.
    #[must_use]
    pub fn named<S: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = S>) -> Self {
        Self { label: label.into(), range: None, ticks: Ticks::Named(names.into_iter().map(Into::into).collect()) }
    }

    /// With this range; all data must lie inside it.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// By straight lines.
    #[default]
    Straight,
    /// By steps: a value holds until the next point.
    Step,
}

/// One line of a [`LineChart`].
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, dashes and marker, below [`MAX_SERIES`] and its own within the chart: give one
    /// thing the same style in every chart.
    pub style: usize,
    /// The points, 1 to [`MAX_POINTS`].
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    #[must_use]
    pub fn new(name: impl Into<String>, style: usize, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), style, points: points.into_iter().collect() }
    }
}

/// Lines over a numeric axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// What the chart shows.
    pub title: String,
    /// A line below the title; may be empty.
    pub subtitle: String,
    /// A line below the chart, for sample sizes and reservations; may be empty.
    pub footnote: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How points are joined.
    pub join: Join,
    /// The lines, 1 to [`MAX_SERIES`].
    pub series: Vec<Series>,
}

impl LineChart {
    /// A chart of straight lines, without series yet.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, ..Self::default() }
    }

    /// A chart of steps, without series yet: such as a state over the number of samples.
    #[must_use]
    pub fn steps(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, join: Join::Step, ..Self::default() }
    }

    /// With one more series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// With this line below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// With this line below the chart.
    #[must_use]
    pub fn footnote(mut self, text: impl Into<String>) -> Self {
        self.footnote = text.into();
        self
    }

    /// The chart as one SVG document that ends with a line feed.
    ///
    /// # Errors
    /// The data is past a limit, not finite, or outside its axis.
    pub fn to_svg(&self) -> Result<String, ChartError> {
        check::line_chart(self)?;
        line::draw(self)
    }
}

/// The bars of one name, one for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// Its colour and hatching, below [`MAX_SERIES`] and its own within the chart: give one thing
    /// the same style in every chart.
    pub style: usize,
    /// A value for each group; what there is none of is written as `n/a`.
    pub values: Vec<Option<f64>>,
}

impl BarSeries {
    /// A series.
    #[must_use]
    pub fn new(name: impl Into<String>, style: usize, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self { name: name.into(), style, values: values.into_iter().collect() }
    }
}

/// Grouped bars that stand on zero, each with its value. Groups that find no room side by side go
/// on in a further row with the same scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// What the chart shows.
    pub title: String,
    /// A line below the title; may be empty.
    pub subtitle: String,
    /// A line below the chart, for sample sizes and reservations; may be empty.
    pub footnote: String,
    /// The vertical axis; its range holds zero.
    pub y: Axis,
    /// The names of the groups, 1 to [`MAX_GROUPS`].
    pub groups: Vec<String>,
    /// The bars of each group, 1 to [`MAX_SERIES`].
    pub series: Vec<BarSeries>,
}

impl BarChart {
    /// A chart without groups and series yet.
    #[must_use]
    pub fn new(title: impl Into<String>, y: Axis) -> Self {
        Self { title: title.into(), y, ..Self::default() }
    }

    /// With these groups.
    #[must_use]
    pub fn groups<S: Into<String>>(mut self, groups: impl IntoIterator<Item = S>) -> Self {
        self.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// With one more series.
    #[must_use]
    pub fn series(mut self, series: BarSeries) -> Self {
        self.series.push(series);
        self
    }

    /// With this line below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// With this line below the chart.
    #[must_use]
    pub fn footnote(mut self, text: impl Into<String>) -> Self {
        self.footnote = text.into();
        self
    }

    /// The chart as one SVG document that ends with a line feed.
    ///
    /// # Errors
    /// The data is past a limit, not finite, or outside its axis.
    pub fn to_svg(&self) -> Result<String, ChartError> {
        check::bar_chart(self)?;
        bar::draw(self)
    }
}
