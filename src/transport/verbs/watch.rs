//! The port, watched: whether it carries, and what it counts of errors. In a thread of its own, since reading
//! counters may take a device's firmware milliseconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::device::{Device, VerbsError};
use super::sysfs;
use crate::transport::bell::{Bell, wait};

/// How often the port is looked at, whatever the device says of it by itself.
const INTERVAL: Duration = Duration::from_secs(1);
/// Events taken in one turn.
const EVENTS_AT_ONCE: usize = 64;

/// What is known of the port, and the thread's end.
pub(super) struct Watch {
    seen: Arc<Seen>,
}

struct Seen {
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Why nothing goes over the port now.
    down: Option<String>,
    errors: BTreeMap<&'static str, u64>,
    /// Nobody asks any more.
    over: bool,
}

impl Watch {
    pub(super) fn start(device: Arc<Device>) -> Result<Self, VerbsError> {
        let bell = Bell::new().map_err(|error| VerbsError::System(format!("eventfd: {error}")))?;
        let seen = Arc::new(Seen { bell, state: Mutex::default() });
        let inside = Arc::clone(&seen);
        let thread = std::thread::Builder::new().name("seam-verbs-port".to_owned());
        thread.spawn(move || inside.run(&device)).map_err(|error| VerbsError::System(error.to_string()))?;
        Ok(Self { seen })
    }

    /// Why nothing goes over the port now, if so.
    pub(super) fn down(&self) -> Option<String> {
        self.seen.state().down.clone()
    }

    /// What was counted since the start.
    pub(super) fn errors(&self) -> Vec<(&'static str, u64)> {
        self.seen.state().errors.iter().map(|(name, count)| (*name, *count)).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.state().over = true;
        self.seen.bell.ring();
    }
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, device: &Device) {
        let port = &device.chosen.port;
        let before: BTreeMap<&str, u64> = port.errors().into_iter().collect();
        let mut failed = false;
        while !self.state().over {
            let [_, says] = wait([self.bell.as_fd(), device.events()], Some(INTERVAL));
            self.bell.hush();
            let mut kinds = Vec::new();
            while says && kinds.len() < EVENTS_AT_ONCE {
                // One at a time, and only if there is one: asking for it waits.
                let Some(kind) = device.event() else { break };
                kinds.push(kind);
                if wait([device.events()], Some(Duration::ZERO)) == [false] {
                    break;
                }
            }
            if says && kinds.is_empty() {
                // A device that is gone has always something to say, and never says it.
                std::thread::sleep(INTERVAL);
            }
            let state = port.state_now();
            let errors = port.errors();
            let mut seen = self.state();
            for kind in kinds {
                let (name, words) = event(kind);
                failed |= kind == DEVICE_FATAL;
                if let Some(name) = name {
                    *seen.errors.entry(name).or_default() += 1;
                    tracing::warn!(
                        device = port.device,
                        port = port.number,
                        event = words,
                        "the device tells of a fault"
                    );
                }
            }
            for (name, count) in errors {
                let base = before.get(name).copied().unwrap_or_default();
                // A device that was reset counts from 0 again.
                let counted = seen.errors.entry(name).or_default();
                *counted = (*counted).max(count.saturating_sub(base));
            }
            let down = match (failed, sysfs::is_active(&state)) {
                (true, _) => Some(format!("{} has failed", port.device)),
                (false, true) => None,
                (false, false) => Some(format!("port {} of {} is in the state {state}", port.number, port.device)),
            };
            if seen.down != down {
                match &down {
                    Some(words) => tracing::error!(words, "the port carries nothing: its paths fail until it does"),
                    None => tracing::info!(device = port.device, port = port.number, "the port carries again"),
                }
                seen.down = down;
            }
        }
    }
}

const DEVICE_FATAL: i32 = 8;

/// The word that an event is counted by, if it is one of a fault, and its own words.
fn event(kind: i32) -> (Option<&'static str>, &'static str) {
    match kind {
        0 => (Some("event_queue"), "a queue of completions has failed"),
        1 => (Some("event_queue_pair"), "a queue pair has failed"),
        2 => (Some("event_request"), "a peer sent what a queue pair does not take"),
        3 => (Some("event_access"), "a peer wrote where it may not"),
        DEVICE_FATAL => (Some("event_device"), "the device has failed"),
        10 => (Some("event_port"), "the port went down"),
        4..=7 | 9 | 11..=18 => (None, "nothing is wrong"),
        _ => (Some("event_unknown"), "something that this version of Seam does not know"),
    }
}
