//! The axis of time: where a moment is, and round ticks.

use super::facts::Window;
use super::time;

/// Pixels between two ticks at least, beside the width of a tick's text.
const BETWEEN: f64 = 28.0;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Distances of ticks, in milliseconds: all of them divide a day, or are days.
const STEPS: [u64; 35] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    10 * DAY,
    30 * DAY,
    100 * DAY,
    1_000 * DAY,
    10_000 * DAY,
    100_000 * DAY,
];

/// A window of time laid over some pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) window: Window,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// One tick.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) text: String,
}

impl Scale {
    /// Where a moment is, to a tenth of a pixel; what lies outside is at the edge.
    pub(super) fn x(&self, ms: u64) -> f64 {
        let Window { from, to } = self.window;
        let share = ms.clamp(from, to).saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
        tenth(self.left + share * self.width())
    }

    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Round ticks inside the window.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let Window { from, to } = self.window;
        let days = from / DAY != to / DAY;
        let fits = |step: &&u64| {
            let room = **step as f64 / to.saturating_sub(from).max(1) as f64 * self.width();
            room >= BETWEEN + 6.8 * text(from, **step, days).len() as f64
        };
        let step = STEPS.iter().find(fits).copied().unwrap_or(u64::MAX);
        let first = from.div_ceil(step).saturating_mul(step);
        let tick = |at: u64| Tick { x: self.x(at), text: text(at, step, days) };
        let more = |at: &u64| at.checked_add(step);
        std::iter::successors(Some(first), more).take_while(|at| *at <= to).map(tick).collect()
    }
}

/// What stands at a tick.
fn text(at: u64, step: u64, days: bool) -> String {
    let to = match step {
        DAY.. => return time::part(at, 0..10),
        MINUTE.. => 16,
        SECOND.. => 19,
        _ => 23,
    };
    let of_day = time::part(at, 11..to);
    if days { format!("{} {of_day}", time::part(at, 5..10)) } else { of_day }
}

/// A length to a tenth of a pixel.
pub(super) fn tenth(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_777_723_200_000;

    fn scale(from: u64, to: u64) -> Scale {
        Scale { window: Window { from, to }, left: 100.0, right: 1_000.0 }
    }

    fn texts(from: u64, to: u64) -> Vec<String> {
        scale(from, to).ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn ticks_are_round_and_as_exact_as_they_must_be() {
        assert_eq!(texts(NOON, NOON + 40)[..2], ["12:00:00.000", "12:00:00.005"]);
        assert_eq!(texts(NOON + 300, NOON + 20_300)[..2], ["12:00:02", "12:00:04"]);
        assert_eq!(texts(NOON, NOON + 10 * MINUTE)[..3], ["12:00", "12:01", "12:02"]);
        assert_eq!(texts(NOON, NOON + 20 * HOUR)[..2], ["05-02 12:00", "05-02 15:00"]);
        assert_eq!(texts(NOON, NOON + 9 * DAY)[0], "2026-05-03");
    }

    #[test]
    fn ticks_never_touch_and_there_are_some_in_any_window() {
        for length in [1, 3, 70, 999, 12_345, 600_000, 5 * HOUR, 40 * DAY, 9_000 * DAY] {
            let ticks = scale(NOON, NOON + length).ticks();
            assert!((1..=20).contains(&ticks.len()), "{length}: {ticks:?}");
            let apart = |pair: &[Tick]| pair[1].x - pair[0].x >= 6.8 * pair[0].text.len() as f64 + 20.0;
            assert!(ticks.windows(2).all(apart), "{length}: {ticks:?}");
        }
    }

    #[test]
    fn what_is_outside_the_window_is_at_its_edge() {
        let scale = scale(NOON, NOON + 900);
        assert_eq!([NOON - 5, NOON, NOON + 450, NOON + 2_000].map(|at| scale.x(at)), [100.0, 100.0, 550.0, 1_000.0]);
    }
}
