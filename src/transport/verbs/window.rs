//! What is under way on one queue pair, and which of it the device is asked to tell the end of.
//!
//! Writes of a queue pair end in the order in which they were posted, so that the end of one is the end of
//! all before it: only every so many are signalled, which spares the device and this host most completions.

use std::collections::VecDeque;

/// Writes under way at most.
pub(super) const MAX_WRITES: u32 = 128;
/// Bytes under way from which on no further write is posted: what a probe waits for at most behind a put, and what
/// is left to end once a put is given up.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Every so many writes one is signalled, or one after so many bytes: both well below what may be under way, so
/// that a full window always holds one whose end is told.
const SIGNAL_WRITES: u64 = 16;
const SIGNAL_BYTES: u64 = MAX_BYTES / 4;

/// A write's number and whether its end is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) number: u64,
    pub(super) signalled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    posted: u64,
    ended: u64,
    signalled: u64,
    bytes: u64,
    /// Since the last that was signalled.
    silent_bytes: u64,
    sizes: VecDeque<u64>,
}

impl Window {
    pub(super) fn has_room(&self) -> bool {
        self.posted - self.ended < u64::from(MAX_WRITES) && self.bytes < MAX_BYTES
    }

    /// Takes room for a write. The `last` of its put is always signalled.
    pub(super) fn post(&mut self, bytes: u64, last: bool) -> Ticket {
        self.posted += 1;
        self.bytes += bytes;
        self.silent_bytes += bytes;
        self.sizes.push_back(bytes);
        let signalled = last || self.posted - self.signalled >= SIGNAL_WRITES || self.silent_bytes >= SIGNAL_BYTES;
        if signalled {
            (self.signalled, self.silent_bytes) = (self.posted, 0);
        }
        Ticket { number: self.posted, signalled }
    }

    /// The write of this number has ended, and all before it.
    pub(super) fn end(&mut self, number: u64) {
        while self.ended < number.min(self.posted) {
            self.ended += 1;
            self.bytes -= self.sizes.pop_front().unwrap_or_default();
        }
    }

    /// Whether the end of this write has come.
    pub(super) fn has_ended(&self, number: u64) -> bool {
        number <= self.ended
    }

    /// Whether the end of this write will be told.
    pub(super) fn is_told(&self, number: u64) -> bool {
        number <= self.signalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_always_holds_a_write_whose_end_is_told() {
        for bytes in [0, 1, 4_096, 65_536, 524_288, MAX_BYTES * 2] {
            let (mut window, mut told) = (Window::default(), VecDeque::new());
            for _ in 0..5_000 {
                while !window.has_room() {
                    window.end(told.pop_front().expect("nothing will ever be told"));
                }
                let ticket = window.post(bytes, false);
                assert!(window.posted - window.ended <= u64::from(MAX_WRITES));
                if ticket.signalled {
                    told.push_back(ticket.number);
                }
            }
            assert!(told.len() as u64 * SIGNAL_WRITES <= u64::from(MAX_WRITES) * SIGNAL_WRITES);
        }
    }

    #[test]
    fn the_end_of_one_is_the_end_of_all_before_it() {
        let mut window = Window::default();
        let tickets: Vec<Ticket> = (0..5).map(|at| window.post(10, at == 3)).collect();
        let signalled: Vec<bool> = tickets.iter().map(|ticket| ticket.signalled).collect();
        assert_eq!(signalled, [false, false, false, true, false]);
        assert!(window.is_told(4) && !window.is_told(5));
        window.end(4);
        assert!(window.has_ended(4) && !window.has_ended(5));
        assert_eq!(window.bytes, 10);
        // What a device may never say changes nothing.
        window.end(u64::MAX);
        assert_eq!((window.bytes, window.ended), (0, 5));
    }
}
