//! plotters' drawing area, measured in pixels.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Circle, Color, DrawingArea, FontStyle, IntoDrawingArea, IntoFont, PathElement, Polygon,
    Rectangle, SVGBackend, ShapeStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ink::Ink;
use super::{ChartError, restyle, text};

/// The width of every chart in pixels.
pub(super) const WIDTH: f64 = 760.0;
/// Between the card's edge and what is on it.
pub(super) const PAD: f64 = 20.0;
/// Units of plotters' whole-numbered grid to a pixel.
pub(super) const UNITS: f64 = 10.0;

/// A point in pixels from the upper left.
pub(super) type Point = (f64, f64);
type Backend<'a> = SVGBackend<'a>;
/// Data coordinates on a part of the canvas.
pub(super) type Plot<'a> = ChartContext<'a, Backend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What is drawn on.
pub(super) struct Canvas<'a> {
    area: DrawingArea<Backend<'a>, Shift>,
}

/// How a text is set.
#[derive(Clone, Copy)]
pub(super) struct Face {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) ink: Ink,
}

/// Which end of a text its point is at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Numbers at ticks, and names of groups.
pub(super) const TICK: Face = Face { size: 12.0, bold: false, ink: Ink::Muted };
/// Names and values of series.
pub(super) const NAME: Face = Face { size: 12.0, bold: false, ink: Ink::Text };
/// The height of a line of either.
pub(super) const LINE: f64 = 15.0;

impl Face {
    pub(super) fn width(&self, text: &str) -> f64 {
        text::width(text, self.size, self.bold)
    }

    pub(super) fn wrap(&self, text: &str, most: f64) -> Vec<String> {
        text::wrap(&text::clean(text), self.size, self.bold, most)
    }
}

/// Draws on a canvas of this height and hands back the document.
pub(super) fn draw(
    title: &str,
    description: &str,
    height: f64,
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut drawn = String::new();
    let size = (units(WIDTH).unsigned_abs(), units(height).unsigned_abs());
    let canvas = Canvas { area: SVGBackend::with_string(&mut drawn, size).into_drawing_area() };
    paint(&canvas)?;
    canvas.area.present().map_err(failed)?;
    drop(canvas);
    restyle::document(title, description, height, &drawn)
}

impl<'a> Canvas<'a> {
    /// A text whose baseline is at this point.
    pub(super) fn text(&self, text: &str, at: Point, face: Face, anchor: Anchor) -> Result<(), ChartError> {
        let weight = if face.bold { FontStyle::Bold } else { FontStyle::Normal };
        let side = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // The backend divides sizes by 1.24.
        let font = ("sans-serif", face.size * UNITS * 1.24).into_font().style(weight);
        let style = font.color(&face.ink.light()).pos(Pos::new(side, VPos::Bottom));
        self.area.draw_text(&text::clean(text), &style, whole(at)).map_err(failed)
    }

    pub(super) fn lines(
        &self,
        lines: &[String],
        at: Point,
        height: f64,
        face: Face,
        anchor: Anchor,
    ) -> Result<(), ChartError> {
        let mut baseline = at.1;
        for line in lines {
            self.text(line, (at.0, baseline), face, anchor)?;
            baseline += height;
        }
        Ok(())
    }

    /// A level line one pixel wide, on whole pixels so that it is sharp.
    pub(super) fn level(&self, y: f64, from: f64, to: f64, ink: Ink) -> Result<(), ChartError> {
        let y = y.floor() + 0.5;
        self.path(&[(from.floor(), y), (to.ceil(), y)], ink, 1.0)
    }

    /// An upright line one pixel wide, on whole pixels so that it is sharp.
    pub(super) fn upright(&self, x: f64, from: f64, to: f64, ink: Ink) -> Result<(), ChartError> {
        let x = x.floor() + 0.5;
        self.path(&[(x, from.floor()), (x, to.ceil())], ink, 1.0)
    }

    pub(super) fn path(&self, points: &[Point], ink: Ink, width: f64) -> Result<(), ChartError> {
        let points = points.iter().copied().map(whole).collect::<Vec<_>>();
        self.area.draw(&PathElement::new(points, stroke(ink, width))).map_err(failed)
    }

    pub(super) fn rect(&self, from: Point, to: Point, ink: Ink) -> Result<(), ChartError> {
        self.area.draw(&Rectangle::new([whole(from), whole(to)], ink.light().filled())).map_err(failed)?;
        self.area.draw(&Rectangle::new([whole(from), whole(to)], stroke(ink, 1.0))).map_err(failed)
    }

    pub(super) fn polygon(&self, points: &[Point], ink: Ink) -> Result<(), ChartError> {
        let points = points.iter().copied().map(whole).collect::<Vec<_>>();
        self.area.draw(&Polygon::new(points, ink.light().filled())).map_err(failed)
    }

    pub(super) fn circle(&self, at: Point, radius: f64, ink: Ink) -> Result<(), ChartError> {
        self.area.draw(&Circle::new(whole(at), units(radius), ink.light().filled())).map_err(failed)
    }

    /// Data coordinates on the part of the canvas between two corners.
    pub(super) fn plot(
        &self,
        upper_left: Point,
        lower_right: Point,
        x: (f64, f64),
        y: (f64, f64),
    ) -> Result<Plot<'a>, ChartError> {
        let (left, top) = whole(upper_left);
        let (right, bottom) = whole(lower_right);
        let part = self.area.clone().shrink((left, top), (right - left, bottom - top));
        ChartBuilder::on(&part).build_cartesian_2d(x.0..x.1, y.0..y.1).map_err(failed)
    }
}

/// Where data coordinates lie on the canvas.
pub(super) fn position(plot: &Plot<'_>, data: Point) -> Point {
    let (x, y) = plot.backend_coord(&data);
    (f64::from(x) / UNITS, f64::from(y) / UNITS)
}

/// The style of a line.
pub(super) fn stroke(ink: Ink, width: f64) -> ShapeStyle {
    ink.light().stroke_width(units(width).unsigned_abs())
}

fn whole((x, y): Point) -> (i32, i32) {
    (units(x), units(y))
}

fn units(pixels: f64) -> i32 {
    (pixels * UNITS).round() as i32
}

/// What plotters could not draw.
pub(super) fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> ChartError {
    ChartError::Drawing(error.to_string())
}
