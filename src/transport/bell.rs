//! What wakes a thread that waits for a library or a device.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Rung by anybody, heard by one thread.
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(super) fn ring(&self) {
        // Fails only if it rings so loudly already that one more cannot be counted.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// It rings no more until it is rung again.
    pub(super) fn hush(&self) {
        // Fails if it does not ring.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of these can be read, or the time is over; says which. May end earlier.
pub(super) fn wait<const N: usize>(descriptors: [BorrowedFd<'_>; N], limit: Option<Duration>) -> [bool; N] {
    let mut polled = descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // A signal ends it early: then there is one look for nothing.
    let _ = poll(&mut polled, limit.as_ref());
    polled.map(|descriptor| !descriptor.revents().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_was_rung_is_heard_once() {
        let (bell, other) = (Bell::new().unwrap(), Bell::new().unwrap());
        bell.hush();
        for _ in 0..3 {
            bell.ring();
        }
        // Would wait for ever.
        assert_eq!(wait([other.as_fd(), bell.as_fd()], None), [false, true]);
        bell.hush();
        let before = std::time::Instant::now();
        assert_eq!(wait([bell.as_fd()], Some(Duration::from_millis(20))), [false], "it still rings");
        assert!(before.elapsed() >= Duration::from_millis(20));
    }
}
