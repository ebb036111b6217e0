//! One axis of time for a life, whatever its wall clock did meanwhile.

use std::time::{Duration, UNIX_EPOCH};

use crate::core::{Mono, Now};
use crate::journal::Header;

const NS_PER_MS: u64 = 1_000_000;

/// The wall time at which a life's first segment was opened, and its monotonic progress since. A wall
/// clock that is set meanwhile moves nothing: a life's entries keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    opened: Now,
}

impl Axis {
    /// The axis of the life whose first segment says this.
    #[must_use]
    pub fn of(first: &Header) -> Self {
        Self { opened: first.opened }
    }

    /// Where a point of the life's monotonic clock lies, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn at_ns(&self, mono: Mono) -> u64 {
        let opened_ns = self.opened.wall_ms.saturating_mul(NS_PER_MS);
        match mono.0.checked_sub(self.opened.mono.0) {
            Some(after) => opened_ns.saturating_add(after),
            None => opened_ns.saturating_sub(self.opened.mono.0.saturating_sub(mono.0)),
        }
    }

    /// The same in milliseconds.
    #[must_use]
    pub fn at_ms(&self, mono: Mono) -> u64 {
        self.at_ns(mono) / NS_PER_MS
    }

    /// The point of the life's monotonic clock that lies at this millisecond.
    #[must_use]
    pub fn mono(&self, at_ms: u64) -> Mono {
        let ns = |ms: u64| ms.saturating_mul(NS_PER_MS);
        match at_ms.checked_sub(self.opened.wall_ms) {
            Some(after) => Mono(self.opened.mono.0.saturating_add(ns(after))),
            None => Mono(self.opened.mono.0.saturating_sub(ns(self.opened.wall_ms.saturating_sub(at_ms)))),
        }
    }
}

/// A point in time as people and machines read it: `2027-01-15T08:00:00.000Z`. What lies beyond the
/// year 9999 is written as its milliseconds.
#[must_use]
pub fn utc(ms: u64) -> String {
    const END_MS: u64 = 253_402_300_800_000;
    if ms >= END_MS {
        return format!("{ms} ms");
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_is_too_far_off_to_be_placed_and_written() {
        assert_eq!(utc(1_800_000_000_250), "2027-01-15T08:00:00.250Z");
        assert_eq!(utc(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(utc(u64::MAX), "18446744073709551615 ms");
        // The last nanosecond that is counted has a date.
        let axis = Axis { opened: Now { mono: Mono(5_000_000), wall_ms: u64::MAX } };
        assert_eq!(utc(axis.at_ms(Mono(u64::MAX))), "2554-07-21T23:34:33.709Z");
        let axis = Axis { opened: Now { mono: Mono(5_000_000), wall_ms: 100 } };
        assert_eq!([0, 5_000_000, 7_999_999].map(|ns| axis.at_ms(Mono(ns))), [95, 100, 102]);
        assert_eq!([94, 95, 102].map(|ms| axis.mono(ms)), [0, 0, 7_000_000].map(Mono));
    }
}
