//! The marker of each style: a shape that is told apart without its colour.

use super::ChartError;
use super::canvas::{Canvas, Point};
use super::ink::Ink;

/// Draws the marker of a style around a point.
pub(super) fn draw(canvas: &Canvas<'_>, style: usize, (x, y): Point) -> Result<(), ChartError> {
    let ink = Ink::Series(style);
    let around = |shape: &[Point]| {
        let points = shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
        canvas.polygon(&points, ink)
    };
    match style {
        0 => canvas.circle((x, y), 3.7, ink),
        1 => around(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => around(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]),
        3 => around(&[(0.0, -5.2), (4.4, 0.0), (0.0, 5.2), (-4.4, 0.0)]),
        4 => around(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]),
        _ => {
            let (long, thin) = (4.6, 1.3);
            around(&[
                (-thin, -long),
                (thin, -long),
                (thin, -thin),
                (long, -thin),
                (long, thin),
                (thin, thin),
                (thin, long),
                (-thin, long),
                (-thin, thin),
                (-long, thin),
                (-long, -thin),
                (-thin, -thin),
            ])
        }
    }
}
