//! How late this host itself is: a task that should wake every few milliseconds and notes when it
//! did not. Whatever a host measures while its own clockwork stalls says nothing about a path.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often the task wakes.
const BEAT: Duration = Duration::from_millis(5);
/// Oversleeping less than this is the timer's own grain.
const GRAIN: Duration = Duration::from_millis(2);
/// Stalls remembered at most; the oldest go first.
const MAX_STALLS: usize = 256;

/// The stalls of this host.
#[derive(Clone, Default)]
pub(crate) struct Lateness {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// When the next beat is due.
    due: Option<Instant>,
    /// When each stall began and ended.
    stalls: VecDeque<(Instant, Instant)>,
    beats: u64,
    late_beats: u64,
}

impl Lateness {
    /// Notes stalls until it is dropped; runs on the runtime whose lateness matters.
    pub(crate) async fn watch(self) {
        loop {
            let due = Instant::now() + BEAT;
            self.seen().due = Some(due);
            tokio::time::sleep_until(due).await;
            let woke = Instant::now();
            let mut seen = self.seen();
            seen.beats += 1;
            if woke.saturating_duration_since(due) > GRAIN {
                seen.late_beats += 1;
                if seen.stalls.len() == MAX_STALLS {
                    seen.stalls.pop_front();
                }
                seen.stalls.push_back((due, woke));
            }
        }
    }

    /// How long this host stalled between `start` and now, all stalls together, in milliseconds.
    pub(crate) fn since(&self, start: Instant) -> f64 {
        let seen = self.seen();
        let now = Instant::now();
        let past = seen.stalls.iter().rev().take_while(|(_, end)| *end > start);
        let past: Duration = past.map(|(begin, end)| end.saturating_duration_since((*begin).max(start))).sum();
        let present = seen.due.map(|due| now.saturating_duration_since(due.max(start))).filter(|late| *late > GRAIN);
        (past + present.unwrap_or_default()).as_secs_f64() * 1000.0
    }

    /// The share of beats that were late since the last call.
    pub(crate) fn take_ratio(&self) -> f64 {
        let mut seen = self.seen();
        let ratio = if seen.beats == 0 { 0.0 } else { seen.late_beats as f64 / seen.beats as f64 };
        (seen.beats, seen.late_beats) = (0, 0);
        ratio
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_seen_by_what_was_measured_during_it_and_by_nothing_later() {
        let lateness = Lateness::default();
        let task = tokio::spawn(lateness.clone().watch());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = Instant::now();
        assert_eq!(lateness.since(before), 0.0);
        // The clock runs on while nothing is polled: what a descheduled process sees.
        tokio::time::advance(Duration::from_millis(80)).await;
        assert!(lateness.since(before) >= 70.0, "{}", lateness.since(before));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(lateness.since(before) >= 70.0);
        let after = Instant::now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(lateness.since(after), 0.0);
        assert!(lateness.take_ratio() > 0.0);
        task.abort();
    }
}
