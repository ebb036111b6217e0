//! The writer's thread.

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use super::control::{Control, Wish};
use super::lines::Lines;
use super::queue::{MAX_ENTRIES, Message, Queue};
use super::segments::Segments;

/// How long the writer sleeps after it has written, and how long at most, twice as long each time,
/// while nothing comes: long enough to cost next to nothing at rest, and short enough that the queue
/// does not fill when hundreds of thousands of turns a second begin.
const POLL: Duration = Duration::from_millis(10);
const LONGEST_POLL: Duration = Duration::from_millis(40);

/// Takes what waits, and writes it.
pub(super) struct Writer {
    queue: Queue,
    segments: Option<Segments>,
    lines: Option<Lines>,
    control: Arc<Control>,
}

/// What one look at the queue has shown.
pub(super) enum Found {
    /// Nothing waits.
    Nothing,
    /// More may wait.
    Something,
    /// Nobody can say anything any more.
    Nobody,
}

/// Wishes that are still to be met, with the rounds since they were heard.
#[derive(Default)]
struct Pending {
    /// The flush that was asked for first.
    flush: Option<(u64, u32)>,
    close: Option<u32>,
}

/// After so many rounds everything has been taken that waited before the first of them, however much
/// comes meanwhile: a round takes as much as the queue holds, but for what is said without room.
const ROUNDS: u32 = 2;

impl Pending {
    /// A round has passed, before which there was this wish: which flush is met, and whether the end is.
    fn round(&mut self, wish: &Wish, found: &Found) -> (Option<u64>, bool) {
        if wish.close {
            self.close.get_or_insert(0);
        }
        if !matches!(found, Found::Something) {
            self.flush = None;
            return (wish.due.then_some(wish.flush), wish.close);
        }
        let passed = |rounds: &mut u32| {
            *rounds += 1;
            *rounds >= ROUNDS
        };
        if wish.due {
            self.flush.get_or_insert((wish.flush, 0));
        }
        let flush = self.flush.take_if(|(_, rounds)| passed(rounds)).map(|(flush, _)| flush);
        (flush, self.close.as_mut().is_some_and(passed))
    }
}

impl Writer {
    pub(super) fn new(queue: Queue, segments: Option<Segments>, lines: Option<Lines>, control: Arc<Control>) -> Self {
        Self { queue, segments, lines, control }
    }

    /// Writes until it is told to end, or nobody is left who could say anything.
    pub(super) fn run(mut self) {
        let control = self.control.clone();
        let (mut pause, mut pending) = (POLL, Pending::default());
        loop {
            // Read before the queue is: what was said before the wish is written when it is fulfilled.
            let wish = control.wish();
            let (found, took) = self.round(Instant::now());
            let (flush, close) = pending.round(&wish, &found);
            if let Some(flush) = flush {
                self.sync();
                control.flushed(flush);
            }
            match found {
                Found::Something | Found::Nothing if close => break,
                Found::Something => {}
                Found::Nothing => {
                    pause = if took { POLL } else { (pause * 2).min(LONGEST_POLL) };
                    std::thread::sleep(pause);
                }
                Found::Nobody => {
                    self.sync();
                    drop(self);
                    return control.ended();
                }
            }
        }
        self.close();
        control.ended();
    }

    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: std::fs::File) {
        self.segments.as_mut().unwrap().replace_file(file);
    }

    /// Takes the first that waits, if the first segment can be begun.
    #[cfg(test)]
    pub(super) fn take_one(&mut self) {
        self.segments.iter_mut().for_each(|segments| segments.tick(Instant::now()));
        let waiting = self.queue.next().ok().unwrap();
        self.take(waiting.message, Instant::now());
    }

    /// Takes what waits, at most as much as the queue holds, and does what time asks for. Says, too,
    /// whether anything was taken.
    pub(super) fn round(&mut self, now: Instant) -> (Found, bool) {
        // First, so that a first segment is there for what is taken.
        self.segments.iter_mut().for_each(|segments| segments.tick(now));
        self.lines.iter_mut().for_each(|lines| lines.tick(now));
        let (mut found, mut took) = (Found::Something, false);
        for _ in 0..MAX_ENTRIES {
            match self.queue.next() {
                Ok(waiting) => {
                    self.take(waiting.message, now);
                    took = true;
                }
                Err(TryRecvError::Empty) => {
                    found = Found::Nothing;
                    break;
                }
                Err(TryRecvError::Disconnected) => {
                    found = Found::Nobody;
                    break;
                }
            }
        }
        self.segments.iter_mut().for_each(Segments::write_out);
        self.lines.iter_mut().for_each(Lines::write_out);
        (found, took)
    }

    fn take(&mut self, message: Message, now: Instant) {
        if let Message::Decision(record) = message {
            return self.lines.iter_mut().for_each(|lines| lines.decided(&record, now));
        }
        let Some(segments) = &mut self.segments else { return };
        match message {
            Message::Turn(turn) => segments.turn(turn),
            Message::Snapshot(resumed) => segments.snapshot(*resumed),
            Message::Panicked(panicked) => segments.panicked(panicked.0, panicked.1),
            Message::Lost(part, lost) => segments.lost(part, lost),
            Message::Decision(_) => {}
        }
    }

    fn sync(&mut self) {
        self.segments.iter_mut().for_each(Segments::sync);
        self.lines.iter_mut().for_each(Lines::sync);
    }

    /// Ends the life in order.
    fn close(mut self) {
        self.lines.iter_mut().for_each(Lines::sync);
        if let Some(segments) = self.segments.take() {
            segments.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_met_when_nothing_waits_or_after_two_rounds() {
        let wish = |flush, due, close| Wish { flush, due, close };
        let mut pending = Pending::default();
        assert_eq!(pending.round(&wish(0, false, false), &Found::Something), (None, false));
        assert_eq!(pending.round(&wish(1, true, false), &Found::Nothing), (Some(1), false));
        // More comes all the time, and another flush is asked for meanwhile.
        assert_eq!(pending.round(&wish(2, true, false), &Found::Something), (None, false));
        assert_eq!(pending.round(&wish(3, true, false), &Found::Something), (Some(2), false));
        assert_eq!(pending.round(&wish(3, true, false), &Found::Something), (None, false));
        assert_eq!(pending.round(&wish(3, true, true), &Found::Something), (Some(3), false));
        assert_eq!(pending.round(&wish(3, false, true), &Found::Something), (None, true));
        assert_eq!(Pending::default().round(&wish(3, false, true), &Found::Nothing), (None, true));
    }
}
