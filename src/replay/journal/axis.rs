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
