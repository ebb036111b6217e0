//! The way from the recorders to the writer: bounded by entries and by bytes, and never woken.
//!
//! Room is reserved before outputs are cloned and a snapshot is taken. What does not fit costs no more
//! than the clone of its input, which is kept until the turn has ended: it may panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};

use super::control::Control;
use super::lost::Lost;
use super::{Epoch, first_epoch};
use crate::core::Now;
use crate::journal::{Entry, Input, Part, Snapshot};
use crate::policy::record::DecisionRecord;

/// Entries that wait for the writer.
pub(super) const MAX_ENTRIES: usize = 16_384;
/// Bytes that they may have together, as far as they are estimated.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Room beyond the limit for what each core says at most once: that it lost turns, that it panicked.
const SLACK: usize = 16;

/// What the writer is told.
pub(super) enum Message {
    /// A core has taken a turn.
    Turn(Box<dyn Taken>),
    /// A core's tape goes on, or begins, from here.
    Snapshot(Box<Resumed>),
    /// A core panicked in this turn.
    Panicked(Box<(Input, Now)>),
    /// Turns of a core are lost, and no snapshot follows.
    Lost(Part, Lost),
    /// A decision was made.
    Decision(Arc<DecisionRecord>),
}

/// A turn, as it was taken: the writer makes an entry of it.
pub(super) trait Taken: Send {
    fn part(&self) -> Part;
    fn now(&self) -> Now;
    /// `scratch` is overwritten.
    fn entry(self: Box<Self>, scratch: &mut Vec<u8>) -> Entry;
}

/// What a core is before its next turn.
pub(super) struct Resumed {
    pub(super) snapshot: Snapshot,
    pub(super) now: Now,
    /// What was lost before.
    pub(super) lost: Option<Lost>,
}

/// What waits, and the room that it takes until it is dropped.
pub(super) struct Waiting {
    pub(super) message: Message,
    _place: Place,
}

#[derive(Default)]
struct Room {
    entries: AtomicUsize,
    bytes: AtomicUsize,
}

/// Room that has been reserved; given back when dropped.
pub(super) struct Place {
    room: Arc<Room>,
    bytes: usize,
}

/// The sending end.
#[derive(Clone)]
pub(super) struct Sender {
    queue: SyncSender<Waiting>,
    room: Arc<Room>,
    pub(super) epoch: Epoch,
    pub(super) control: Arc<Control>,
}

/// The writer's end.
pub(super) struct Queue(Receiver<Waiting>);

pub(super) fn queue(control: Arc<Control>) -> (Sender, Queue) {
    let (sender, receiver) = mpsc::sync_channel(MAX_ENTRIES + SLACK);
    (Sender { queue: sender, room: Arc::default(), epoch: first_epoch(), control }, Queue(receiver))
}

impl Sender {
    /// Reserves room for one entry; none if it does not fit. An empty queue takes one of any size.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Place> {
        let place = self.take(bytes);
        let (entries, all) = (self.room.entries.load(Ordering::Relaxed), self.room.bytes.load(Ordering::Relaxed));
        (entries <= MAX_ENTRIES && (all <= MAX_BYTES || entries == 1)).then_some(place)
    }

    /// Takes room for one entry whether there is any or not.
    pub(super) fn take(&self, bytes: usize) -> Place {
        self.room.entries.fetch_add(1, Ordering::Relaxed);
        self.room.bytes.fetch_add(bytes, Ordering::Relaxed);
        Place { room: self.room.clone(), bytes }
    }

    /// Whether at least half of the room is free.
    pub(super) fn has_ample_room(&self) -> bool {
        self.room.entries.load(Ordering::Relaxed) <= MAX_ENTRIES / 2
            && self.room.bytes.load(Ordering::Relaxed) <= MAX_BYTES / 2
    }

    /// Sends what room was reserved for. False if that is lost: there is no writer any more, although
    /// nobody has ended it. One that was told to end takes nothing, and nothing of that is lost.
    #[must_use]
    pub(super) fn send(&self, place: Place, message: Message) -> bool {
        match self.queue.try_send(Waiting { message, _place: place }) {
            Ok(()) => true,
            // Whoever has a place has room.
            Err(TrySendError::Full(_)) => false,
            Err(TrySendError::Disconnected(_)) => !self.control.has_died(),
        }
    }
}

impl Place {
    /// It takes more bytes than was thought when it was reserved.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.room.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.entries.fetch_sub(1, Ordering::Relaxed);
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Queue {
    /// The next entry; `Err` when nothing waits, [`Disconnected`](TryRecvError::Disconnected) when
    /// nothing can come any more.
    pub(super) fn next(&self) -> Result<Waiting, TryRecvError> {
        self.0.try_recv()
    }
}
