//! Waiting for a library's thread to begin.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long a library may take to start.
const LIMIT: Duration = Duration::from_secs(30);
/// How long it may take beyond that for so much of an arena: registering memory that was never touched makes
/// the kernel clear it.
const LIMIT_PER_GIB: Duration = Duration::from_secs(1);

/// What the thread of `library` says once it has started, or why it never will.
pub(super) fn started<T>(said: &Receiver<T>, library: &str, arena_bytes: u64) -> Result<T, String> {
    within(said, library, limit(arena_bytes))
}

fn limit(arena_bytes: u64) -> Duration {
    let gib = u32::try_from(arena_bytes >> 30).unwrap_or(u32::MAX);
    LIMIT.saturating_add(LIMIT_PER_GIB.saturating_mul(gib))
}

/// One that is late ends once it finds nobody waiting.
fn within<T>(said: &Receiver<T>, library: &str, limit: Duration) -> Result<T, String> {
    said.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => {
            format!("{library} has not started within {}: its thread is left behind", humantime::format_duration(limit))
        }
        RecvTimeoutError::Disconnected => format!("the thread for {library} has ended"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_library_that_does_not_start_is_waited_for_no_longer_than_the_limit() {
        let (ready, said) = channel::<u32>();
        let late = within(&said, "NIXL", Duration::from_millis(1)).unwrap_err();
        assert_eq!(late, "NIXL has not started within 1ms: its thread is left behind");
        ready.send(7).unwrap();
        assert_eq!(started(&said, "NIXL", 0), Ok(7));
        drop(ready);
        assert_eq!(started(&said, "NIXL", 0).unwrap_err(), "the thread for NIXL has ended");
    }

    #[test]
    fn a_large_arena_may_take_longer() {
        assert_eq!([1 << 29, 8 << 30].map(limit), [30, 38].map(Duration::from_secs));
        assert!(limit(u64::MAX) > LIMIT);
    }
}
