//! Time: read, written, and the clocks of a life.

use std::time::{Duration, UNIX_EPOCH};

use super::TimelineError;
use crate::core::{Mono, Now};
use crate::replay::timestamp;

/// The last millisecond of the year 9999, the last that has a date.
pub(super) const LAST_MS: u64 = 253_402_300_799_999;

/// A point in time, in milliseconds since the Unix epoch: a date such as `2026-05-02T09:00:03.25Z`,
/// also with an offset like `+02:00`, or a number of milliseconds since the epoch. A number below
/// 10¹¹ is one of seconds.
///
/// # Errors
/// Says what was found and what is allowed.
pub fn parse_time(text: &str) -> Result<u64, TimelineError> {
    match timestamp::parse_ms(text).filter(|ms| (0.0..=LAST_MS as f64).contains(ms)) {
        // In range, so nothing is lost but parts of a millisecond.
        Some(ms) => Ok(ms as u64),
        None => Err(TimelineError::Time {
            found: text.chars().take(80).collect(),
            allowed: "a date like \
             2026-05-02T09:00:03.25Z or with an offset like +02:00, or milliseconds since 1970",
        }),
    }
}

/// A point in time as people and machines read it: `2027-01-15T08:00:00.000Z`.
pub(super) fn utc(ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(at).to_string()
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

/// Where a life's monotonic clock stands on the axis: at the wall time at which its first segment was
/// opened, and its own progress since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    opened: Now,
}

impl Axis {
    pub(super) fn of(opened: Now) -> Self {
        Self { opened }
    }

    /// The millisecond that a point of the monotonic clock lies in.
    pub(super) fn at_ms(&self, mono: Mono) -> u64 {
        let opened = self.opened.wall_ms.min(LAST_MS);
        let at = match mono.0.checked_sub(self.opened.mono.0) {
            Some(after) => opened.saturating_add(after / 1_000_000),
            None => opened.saturating_sub(self.opened.mono.0.saturating_sub(mono.0).div_ceil(1_000_000)),
        };
        at.min(LAST_MS)
    }

    /// A point of the monotonic clock that lies at this millisecond.
    pub(super) fn mono(&self, at_ms: u64) -> Mono {
        let ns = |ms: u64| ms.saturating_mul(1_000_000);
        let opened = self.opened.wall_ms.min(LAST_MS);
        match at_ms.checked_sub(opened) {
            Some(after) => Mono(self.opened.mono.0.saturating_add(ns(after))),
            None => Mono(self.opened.mono.0.saturating_sub(ns(opened.saturating_sub(at_ms)))),
        }
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
        assert!(parse_time("1e300").is_err());
    }

    #[test]
    fn no_clock_is_too_far_off_to_be_written() {
        assert_eq!(utc(1_800_000_000_250), "2027-01-15T08:00:00.250Z");
        assert_eq!(utc(u64::MAX), "9999-12-31T23:59:59.999Z");
        let axis = Axis::of(Now { mono: Mono(5_000_000), wall_ms: u64::MAX });
        assert_eq!(axis.at_ms(Mono(u64::MAX)), LAST_MS);
        let axis = Axis::of(Now { mono: Mono(5_000_000), wall_ms: 100 });
        assert_eq!([0, 5_000_000, 7_999_999].map(|ns| axis.at_ms(Mono(ns))), [95, 100, 102]);
    }

    #[test]
    fn lengths_are_written_in_the_unit_that_fits() {
        let lengths = [0, 999, 12_000, 12_500, 243_000, 7_500_000, 180_000_000].map(length);
        assert_eq!(lengths, ["0 ms", "999 ms", "12 s", "12.5 s", "4 min 3 s", "2 h 5 min", "2 d 2 h"]);
    }
}
