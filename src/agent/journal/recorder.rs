//! The tape of one core, at its owner's end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::TURNS;
use super::lost::Lost;
use super::queue::{Message, Place, Resumed, Sender, Taken};
use super::tape::Tape;
use super::weight::Recorded;
use crate::core::Now;
use crate::journal::{Entry, Part, Turn};
use crate::metrics::Metrics;

/// Clones turns and sends them on.
pub(super) struct Recorder<C: Recorded> {
    sender: Sender,
    metrics: Arc<Metrics>,
    /// The segment in which the core's last snapshot stands, or a later one; 0 before the first.
    epoch: u64,
    /// Turns that did not fit the queue: no further one is sent before a snapshot.
    lost: Option<Lost>,
    /// The turn under way. Without room it is lost, unless it panics.
    open: Option<(Now, C::Input, Option<Place>)>,
}

impl<C: Recorded> Recorder<C> {
    pub(super) fn new(sender: Sender, metrics: Arc<Metrics>) -> Self {
        Self { sender, metrics, epoch: 0, lost: None, open: None }
    }

    /// Sends what the core is, where a segment has begun or turns were lost since it was sent last. Says
    /// whether the tape goes on: without the snapshot that a segment must have it does not.
    fn resume(&mut self, core: &C, now: Now) -> bool {
        let epoch = self.sender.epoch.load(Ordering::Acquire);
        if self.epoch == epoch && self.lost.is_none() {
            return true;
        }
        // Whoever goes on as soon as there is room for one turn loses the next one.
        if self.lost.is_some() && !self.sender.has_ample_room() {
            return false;
        }
        let Some(place) = self.sender.reserve(core.core_bytes()) else { return false };
        let resumed = Resumed { snapshot: core.taped_snapshot(), now, lost: self.lost.take() };
        self.epoch = epoch;
        // Where the writer is gone, the turn itself finds out.
        let _ = self.sender.send(place, Message::Snapshot(Box::new(resumed)));
        true
    }

    fn lose(&mut self, now: Now) {
        Lost::add(&mut self.lost, now);
        self.metrics.dropped(TURNS);
    }
}

impl<C: Recorded> Tape<C> for Recorder<C> {
    fn begin(&mut self, core: &C, now: Now, input: &C::Input) {
        let goes_on = self.resume(core, now);
        let place = if goes_on { self.sender.reserve(size_of::<Told<C>>() + C::input_bytes(input)) } else { None };
        self.open = Some((now, input.clone(), place));
    }

    fn end(&mut self, outputs: &[C::Output]) {
        let Some((now, input, place)) = self.open.take() else { return };
        let Some(mut place) = place else { return self.lose(now) };
        place.grow(C::output_bytes(outputs));
        let told = Told::<C> { now, input, outputs: outputs.to_vec() };
        if !self.sender.send(place, Message::Turn(Box::new(told))) {
            self.metrics.dropped(TURNS);
        }
    }

    fn panicked(&mut self) {
        if let Some(lost) = self.lost.take() {
            let _ = self.sender.send(self.sender.take(0), Message::Lost(C::PART, lost));
        }
        if let Some((now, input, place)) = self.open.take() {
            let place = place.unwrap_or_else(|| self.sender.take(0));
            let _ = self.sender.send(place, Message::Panicked(Box::new((C::taped_input(input), now))));
        }
    }
}

impl<C: Recorded> Drop for Recorder<C> {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            let _ = self.sender.send(self.sender.take(0), Message::Lost(C::PART, lost));
        }
    }
}

/// One turn, as it was taken.
struct Told<C: Recorded> {
    now: Now,
    input: C::Input,
    outputs: Vec<C::Output>,
}

impl<C: Recorded> Taken for Told<C> {
    fn part(&self) -> Part {
        C::PART
    }

    fn now(&self) -> Now {
        self.now
    }

    fn entry(self: Box<Self>, scratch: &mut Vec<u8>) -> Entry {
        let Self { now, input, outputs } = *self;
        Entry::Turn(Turn::of::<C>(now, input, &outputs, scratch))
    }
}
