//! A disk that takes nothing: said once, tried again later and later.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long after a failure the next attempt is made; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The condition of one kind of file.
#[derive(Debug)]
pub(super) struct Outage {
    /// What is written, for the log.
    what: &'static str,
    /// What was wrong last; none when all is well.
    said: Option<String>,
    pause: Duration,
    until: Option<Instant>,
}

impl Outage {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, said: None, pause: FIRST_PAUSE, until: None }
    }

    /// Something could not be written. One line of the log for each change of the condition.
    pub(super) fn failed(&mut self, path: &Path, error: &dyn Display, now: Instant) {
        let text = error.to_string();
        if self.said.as_ref() != Some(&text) {
            tracing::error!(
                path = %path.display(), %error,
                "the {} cannot be written: what comes meanwhile is lost and counted, and it is tried again", self.what
            );
            self.said = Some(text);
        }
        self.until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// What was written has reached the disk.
    pub(super) fn over(&mut self, path: &Path) {
        if self.said.take().is_some() {
            tracing::info!(path = %path.display(), "the {} is written again", self.what);
        }
        self.pause = FIRST_PAUSE;
        self.until = None;
    }

    /// Whether it is too early to try again.
    pub(super) fn waits(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_grow_rare_until_one_succeeds() {
        let (mut outage, path, start) = (Outage::new("journal"), Path::new("x"), Instant::now());
        let mut now = start;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            outage.failed(path, &"full", now);
            assert!(outage.waits(now + Duration::from_secs(pause) - Duration::from_millis(1)));
            now += Duration::from_secs(pause);
            assert!(!outage.waits(now));
        }
        outage.over(path);
        outage.failed(path, &"full", now);
        assert!(!outage.waits(now + Duration::from_secs(1)));
    }
}
