//! What is asked of a writer beside the queue: to force everything to the disk, and to end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Every writer of this process that has not ended: whoever ends the process flushes all of them,
/// whichever agent has failed.
static RUNNING: Mutex<Vec<Weak<Control>>> = Mutex::new(Vec::new());

/// Shared by a writer and whoever asks something of it.
#[derive(Default)]
pub(super) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Flushes asked for so far, and done.
    asked: u64,
    done: u64,
    closing: bool,
    ended: bool,
    /// It was said that the writer is gone.
    missed: bool,
}

/// What the writer is asked for at the moment.
pub(super) struct Wish {
    /// The number of the last flush that was asked for.
    pub(super) flush: u64,
    /// Whether that is still to be done.
    pub(super) due: bool,
    /// Whether it is to end.
    pub(super) close: bool,
}

/// Flushes the journals of every agent in this process, for the process is about to end.
pub(crate) fn flush_all(limit: Duration) {
    let writers: Vec<Arc<Control>> = running().iter().filter_map(Weak::upgrade).collect();
    let numbers: Vec<u64> = writers.iter().map(|writer| writer.ask()).collect();
    let end = Instant::now() + limit;
    for (writer, number) in writers.iter().zip(numbers) {
        if !writer.wait(end, |state| state.done >= number) {
            tracing::error!(limit_ms = limit.as_millis() as u64, "the journal is not flushed in time");
        }
    }
}

fn running() -> MutexGuard<'static, Vec<Weak<Control>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// The writer is about to run: from now on it is among those that are flushed.
    pub(super) fn begun(self: &Arc<Self>) {
        let mut running = running();
        running.retain(|writer| writer.strong_count() > 0);
        running.push(Arc::downgrade(self));
    }

    pub(super) fn flush(&self, limit: Duration) -> bool {
        let number = self.ask();
        self.wait(Instant::now() + limit, |state| state.done >= number)
    }

    pub(super) fn close(&self, limit: Duration) -> bool {
        self.state().closing = true;
        self.wait(Instant::now() + limit, |state| state.ended)
    }

    /// What the writer is asked for.
    pub(super) fn wish(&self) -> Wish {
        let state = self.state();
        Wish { flush: state.asked, due: state.done < state.asked, close: state.closing }
    }

    /// Everything said before the flush of this number was asked for is on the disk.
    pub(super) fn flushed(&self, number: u64) {
        self.state().done = number;
        self.changed.notify_all();
    }

    /// The writer writes no more.
    pub(super) fn ended(&self) {
        let mut state = self.state();
        state.ended = true;
        state.done = u64::MAX;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether a writer that is not there any more was not told to end; the first time the log says so.
    pub(super) fn has_died(&self) -> bool {
        let mut state = self.state();
        if state.closing || std::mem::replace(&mut state.missed, true) {
            return !state.closing;
        }
        drop(state);
        tracing::error!("the journal's writer has ended: what comes from now on is lost and counted");
        true
    }

    fn ask(&self) -> u64 {
        let mut state = self.state();
        state.asked += 1;
        state.asked
    }

    fn wait(&self, end: Instant, met: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        while !met(&state) {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
