//! Numbers as options take them: a refusal says the range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A whole number in a range.
pub(crate) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    within(range, "a whole number")
}

/// A number in a range.
pub(crate) fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    within(range, "a number")
}

/// NaN is within nothing.
fn within<T>(range: RangeInclusive<T>, kind: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let read = text.parse().ok().filter(|read| range.contains(read));
        read.ok_or_else(|| format!("allowed {kind}, {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_in_the_range_is_answered_with_the_range() {
        let count = whole(1..=8_usize);
        assert_eq!((count("1"), count("8")), (Ok(1), Ok(8)));
        for text in ["0", "9", "-1", "1.5", "", "many", "99999999999999999999999"] {
            assert_eq!(count(text).unwrap_err(), "allowed a whole number, 1 to 8", "{text}");
        }
        assert_eq!(whole(0..=u64::MAX)("-1").unwrap_err(), "allowed a whole number, 0 to 18446744073709551615");
        let speed = number(0.1..=10_000.0);
        assert_eq!(speed("0.1"), Ok(0.1));
        for text in ["0", "-1", "NaN", "inf", "fast"] {
            assert_eq!(speed(text).unwrap_err(), "allowed a number, 0.1 to 10000", "{text}");
        }
    }
}
