//! Time: read, and written.

use super::TimelineError;
use crate::replay::journal::utc;
use crate::replay::timestamp::{self, NoTime};

/// The last millisecond of the year 9999, the last that has a date.
pub(super) const LAST_MS: u64 = 253_402_300_799_999;

/// A point in time, in milliseconds since the Unix epoch: a date such as `2026-05-02T09:00:03.25Z`,
/// also with an offset like `+02:00`, never without either; or a number of milliseconds since the epoch
/// below 10¹⁴. A number below 10¹¹ is one of seconds.
///
/// # Errors
/// Says what was found and what is allowed.
pub fn parse_time(text: &str) -> Result<u64, TimelineError> {
    let refused =
        |fault: NoTime| TimelineError::Time { found: text.chars().take(80).collect(), allowed: fault.allowed() };
    let ms = timestamp::parse_ms(text).map_err(refused)?;
    // In range, so nothing is lost but parts of a millisecond.
    if (0.0..=LAST_MS as f64).contains(&ms) { Ok(ms as u64) } else { Err(refused(NoTime::Other)) }
}

/// The part of [`utc`] from one character to another.
pub(super) fn part(ms: u64, characters: std::ops::Range<usize>) -> String {
    utc(ms).get(characters).unwrap_or_default().to_owned()
}

/// The time of day: `08:00:00.000`.
pub(super) fn clock(ms: u64) -> String {
    part(ms, 11..23)
}

/// A length of time: `850 ms`, `12.5 s`, `4 min 3 s`, `2 h 5 min`.
pub(super) fn length(ms: u64) -> String {
    let (s, min) = (ms / 1_000, ms / 60_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 if ms.is_multiple_of(1_000) => format!("{s} s"),
        1_000..60_000 => format!("{s}.{} s", ms % 1_000 / 100),
        60_000..3_600_000 => format!("{min} min {} s", s % 60),
        3_600_000..86_400_000 => format!("{} h {} min", min / 60, min % 60),
        _ => format!("{} d {} h", min / 1_440, min / 60 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_milliseconds_are_times_and_other_text_is_refused_with_what_is_allowed() {
        assert_eq!(parse_time("2027-01-15T08:00:00Z"), Ok(1_800_000_000_000));
        assert_eq!(parse_time("1800000000000"), Ok(1_800_000_000_000));
        let error = parse_time("noon").unwrap_err().to_string();
        assert!(error.starts_with("found \"noon\", allowed a date like 2026-"), "{error}");
        let error = parse_time("2027-01-15 08:00:00").unwrap_err().to_string();
        assert!(error.contains("without one it is ambiguous"), "{error}");
        let error = parse_time("1800000000000000").unwrap_err().to_string();
        assert!(error.contains("milliseconds from there on and below 100000000000000"), "{error}");
        assert!(parse_time("1970-01-01T00:00:00+02:00").is_err(), "before 1970");
    }

    #[test]
    fn lengths_are_written_in_the_unit_that_fits() {
        let lengths = [0, 999, 12_000, 12_500, 243_000, 7_500_000, 180_000_000].map(length);
        assert_eq!(lengths, ["0 ms", "999 ms", "12 s", "12.5 s", "4 min 3 s", "2 h 5 min", "2 d 2 h"]);
    }
}
