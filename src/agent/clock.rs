//! The only place of an agent that reads clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::core::{Mono, Now};

/// One monotonic origin for all cores of an agent. Follows tokio's clock, so paused tests pause it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time of one turn.
    pub(crate) fn now(&self) -> Now {
        Now { mono: Mono(nanos(self.origin.elapsed())), wall_ms: wall_ms() }
    }

    /// When a core's deadline comes, on the runtime's clock.
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        self.origin + Duration::from_nanos(at.0)
    }
}

/// Milliseconds since the Unix epoch; 0 before it.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
