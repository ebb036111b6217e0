//! Round ticks and the numbers at them. Only operations that give the same result everywhere.

/// Decimals of a written number at most.
const MAX_DECIMALS: u8 = 9;

/// From and to on an axis, with its ticks in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: String,
}

impl Scale {
    /// The scale of a given range, or of the smallest round range that holds `low` to `high`, with
    /// about `intervals` intervals between ticks.
    pub(super) fn new(range: Option<(f64, f64)>, low: f64, high: f64, intervals: u32) -> Self {
        let (low, high) = match range {
            Some(range) => range,
            None => widened(low, high),
        };
        let step = Step::new(high - low, intervals);
        let first = low / step.width();
        let last = high / step.width();
        // A tick that rounding moved off the range's end by less than this share of a step counts.
        let slack = 1e-6;
        let (first, last, from, to) = match range {
            Some(_) => ((first - slack).ceil(), (last + slack).floor(), low, high),
            None => {
                let first = (first + slack).floor();
                let last = (last - slack).ceil().max(first + 1.0);
                (first, last, step.at(first), step.at(last))
            }
        };
        let count = (last - first).clamp(0.0, 100.0) as u32;
        let ticks = (0..=count)
            .map(|index| step.at(first + f64::from(index)))
            .map(|at| Tick { at, text: fixed(at, step.decimals()) })
            .collect();
        Self { from, to, ticks }
    }
}

/// A range that is wide enough to be drawn: a single value is shown with zero.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > 1e-9_f64.max(size * 1e-9) {
        (low, high)
    } else if size < 1e-9 {
        (0.0, 1.0)
    } else {
        (low.min(0.0), high.max(0.0))
    }
}

/// The range of values on a vertical axis: with zero where that costs at most half of the height.
pub(super) fn with_near_zero(low: f64, high: f64) -> (f64, f64) {
    if low >= 0.0 && low <= high / 2.0 {
        (0.0, high)
    } else if high <= 0.0 && high >= low / 2.0 {
        (low, 0.0)
    } else {
        (low, high)
    }
}

/// The distance of ticks: 1, 2, 2.5 or 5 times a power of ten.
struct Step {
    tenths: u32,
    exponent: i32,
}

impl Step {
    /// The smallest step that cuts `span` into at most `intervals` and that can be written.
    fn new(span: f64, intervals: u32) -> Self {
        let least = span / f64::from(intervals.max(1)) * (1.0 - 1e-9);
        let lowest = -i32::from(MAX_DECIMALS);
        for exponent in lowest..=13 {
            for tenths in [10, 20, 25, 50] {
                let step = Self { tenths, exponent };
                // 2.5 at the units reads badly where only whole numbers occur; 25 and 0.25 do not.
                let written = tenths != 25 || (exponent != 0 && exponent > lowest);
                if written && step.width() >= least {
                    return step;
                }
            }
        }
        Self { tenths: 10, exponent: 14 }
    }

    fn width(&self) -> f64 {
        self.at(1.0)
    }

    /// The tick of this number, which is whole. One rounding: powers of ten up to 22 are exact.
    fn at(&self, index: f64) -> f64 {
        let tenths = index * f64::from(self.tenths);
        let exponent = self.exponent - 1;
        let power = (0..exponent.unsigned_abs()).fold(1.0, |power, _| power * 10.0);
        let at = if exponent < 0 { tenths / power } else { tenths * power };
        // Not -0.
        at + 0.0
    }

    fn decimals(&self) -> u8 {
        let decimals = (-self.exponent).max(0) + i32::from(self.tenths == 25 && self.exponent <= 0);
        u8::try_from(decimals).unwrap_or(MAX_DECIMALS)
    }
}

/// As few decimals as write all these values exactly; where three do not, as many as show three
/// digits of the largest, and one at least below a thousand.
pub(super) fn decimals(values: impl Iterator<Item = f64> + Clone) -> u8 {
    for decimals in 0..=3_u8 {
        let power = (0..decimals).fold(1.0, |power, _| power * 10.0);
        let exact = |value: f64| {
            let scaled = value * power;
            (scaled - scaled.round()).abs() <= 1e-9 * scaled.abs().max(1.0)
        };
        if values.clone().all(exact) && (decimals < 2 || values.clone().all(|value| value.abs() < 10.0)) {
            return decimals;
        }
    }
    match values.map(f64::abs).fold(0.0, f64::max) {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    }
}

/// A number with this many decimals, and commas from 10,000 on.
pub(super) fn fixed(value: f64, decimals: u8) -> String {
    let text = format!("{:.*}", usize::from(decimals), value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    // No minus before what rounds to zero.
    if value < 0.0 && text.contains(|c: char| ('1'..='9').contains(&c)) {
        out.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        let rest = whole.len() - index;
        if index > 0 && whole.len() > 4 && rest % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn a_range_from_the_data_ends_on_round_numbers() {
        let scale = Scale::new(None, 3.2, 97.0, 5);
        assert_eq!((scale.from, scale.to), (0.0, 100.0));
        assert_eq!(texts(&scale), ["0", "20", "40", "60", "80", "100"]);
        let scale = Scale::new(None, -0.13, 0.42, 5);
        assert_eq!(texts(&scale), ["-0.2", "0.0", "0.2", "0.4", "0.6"]);
        let scale = Scale::new(None, 1.0, 67.0, 7);
        assert_eq!((scale.from, scale.to), (0.0, 70.0));
    }

    #[test]
    fn a_given_range_keeps_its_ends_and_has_ticks_inside() {
        let scale = Scale::new(Some((0.0, 67.0)), 0.0, 0.0, 5);
        assert_eq!((scale.from, scale.to), (0.0, 67.0));
        assert_eq!(texts(&scale), ["0", "20", "40", "60"]);
    }

    #[test]
    fn ticks_are_never_closer_than_their_decimals_can_tell_apart() {
        for high in [0.001, 0.07, 1.0, 3.0, 12.5, 999.0, 4.2e6, 1e12] {
            for intervals in 1..10 {
                let scale = Scale::new(None, 0.0, high, intervals);
                let texts = texts(&scale);
                assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "{texts:?}");
                assert!(texts.len() >= 2 && scale.to >= high);
            }
        }
    }

    #[test]
    fn a_single_value_gets_a_range_with_zero() {
        assert_eq!(Scale::new(None, 7.0, 7.0, 5).from, 0.0);
        assert_eq!(Scale::new(None, -7.0, -7.0, 5).to, 0.0);
        let scale = Scale::new(None, 0.0, 0.0, 5);
        assert_eq!((scale.from, scale.to), (0.0, 1.0));
    }

    #[test]
    fn zero_is_shown_where_it_is_near() {
        assert_eq!(with_near_zero(10.0, 100.0), (0.0, 100.0));
        assert_eq!(with_near_zero(90.0, 100.0), (90.0, 100.0));
        assert_eq!(with_near_zero(-100.0, -1.0), (-100.0, 0.0));
        assert_eq!(with_near_zero(-5.0, 5.0), (-5.0, 5.0));
    }

    #[test]
    fn numbers_are_written_with_commas_and_without_a_minus_before_zero() {
        assert_eq!(fixed(1_234_567.0, 0), "1,234,567");
        assert_eq!(fixed(9_999.5, 1), "9999.5");
        assert_eq!(fixed(-12_345.25, 2), "-12,345.25");
        assert_eq!(fixed(-0.04, 1), "0.0");
    }

    #[test]
    fn values_get_the_decimals_that_they_need() {
        assert_eq!(decimals([95.5, 82.6, 100.0, 7.0].into_iter()), 1);
        assert_eq!(decimals([1.0, 20.0].into_iter()), 0);
        assert_eq!(decimals([1.0 / 3.0].into_iter()), 3);
        assert_eq!(decimals([1234.56].into_iter()), 0);
        assert_eq!(decimals([2.75, 1.5].into_iter()), 2);
        assert_eq!(decimals(std::iter::empty()), 0);
    }
}
