//! What wakes the thread.

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

/// Waits until one of these can be read, or the time is over. May end earlier.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>], limit: Option<Duration>) {
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // A signal ends it early: then there is one look for nothing.
    let _ = poll(&mut polled, limit.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_was_rung_is_heard_once() {
        let bell = Bell::new().unwrap();
        bell.hush();
        for _ in 0..3 {
            bell.ring();
        }
        // Would wait for ever.
        wait(&[bell.as_fd()], None);
        bell.hush();
        let before = std::time::Instant::now();
        wait(&[bell.as_fd()], Some(Duration::from_millis(20)));
        assert!(before.elapsed() >= Duration::from_millis(20), "it still rings");
    }
}
