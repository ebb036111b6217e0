//! How far a replay is: one line on a terminal, in place.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::paint::rewrites;

/// How often the line is written at most.
const EVERY: Duration = Duration::from_millis(250);
/// Rows or entries between two looks at the clock.
const LOOK_ROWS: u64 = 1_024;

/// How far a replay is.
pub(super) struct Progress {
    shown: bool,
    /// What is counted: `rows`.
    unit: &'static str,
    /// Bytes of all files as they lie on disk, where that is known.
    size: Option<u64>,
    read: Arc<AtomicU64>,
    rows: u64,
    looked_at_rows: u64,
    started: Instant,
    written: Instant,
}

impl Progress {
    pub(super) fn of(files: &[PathBuf]) -> Self {
        let size = |path: &PathBuf| path.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        Self::new("rows", files.iter().map(size).sum())
    }

    /// Of so many bytes of journals, whose entries are counted.
    pub(super) fn of_journals(bytes: u64) -> Self {
        Self::new("entries", Some(bytes))
    }

    fn new(unit: &'static str, size: Option<u64>) -> Self {
        let started = Instant::now();
        Self {
            shown: rewrites(),
            unit,
            size,
            read: Arc::default(),
            rows: 0,
            looked_at_rows: 0,
            started,
            written: started,
        }
    }

    /// One entry more, with so many bytes behind it.
    pub(super) fn passed(&mut self, bytes: u64) {
        self.read.store(bytes, Ordering::Relaxed);
        self.advance(1);
    }

    pub(super) fn advance(&mut self, rows: usize) {
        self.rows += rows as u64;
        if !self.shown || self.rows - self.looked_at_rows < LOOK_ROWS {
            return;
        }
        self.looked_at_rows = self.rows;
        let now = Instant::now();
        if now - self.written >= EVERY {
            self.written = now;
            let line = line(self.unit, self.rows, self.read.load(Ordering::Relaxed), self.size, now - self.started);
            let mut out = std::io::stderr().lock();
            // Progress that nobody can read is no reason to stop.
            let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
        }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        if self.shown && self.written > self.started {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(unit: &str, rows: u64, read: u64, size: Option<u64>, elapsed: Duration) -> String {
    let Some(size) = size.filter(|size| *size > 0 && read > 0) else { return format!("{rows} {unit}") };
    let share = (read as f64 / size as f64).min(1.0);
    let left_s = elapsed.as_secs_f64() * (1.0 - share) / share;
    format!("{rows} {unit}, {:.0} % of the input, {left_s:.0} s left", share * 100.0)
}

/// An input whose bytes are counted.
pub(super) struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Counted {
    pub(super) fn new(input: Box<dyn Read + Send>, progress: &Progress) -> Self {
        Self { input, read: Arc::clone(&progress.read) }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_is_left_where_that_can_be_said() {
        let after = Duration::from_secs(3);
        assert_eq!(line("rows", 3_000, 250, Some(1_000), after), "3000 rows, 25 % of the input, 9 s left");
        assert_eq!(line("rows", 3_000, 250, None, after), "3000 rows");
        assert_eq!(line("rows", 3_000, 0, Some(1_000), after), "3000 rows");
    }
}
