//! What a write moves: blocks of the local arena, all at once or one after the other as their source
//! writes them, and deadlines in which waiting for that source does not count.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::PathError;
use crate::arena::{Arena, Run};
use crate::model::Extent;

/// How long a deadline that stands still, with next to nothing left, is not looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// Blocks of the local arena, in order.
#[derive(Clone, Debug)]
pub struct Blocks {
    bytes: u64,
    given: watch::Receiver<Given>,
    /// How long their source was waited for; none if all were there from the beginning.
    waits: Option<Arc<Waits>>,
}

#[derive(Debug)]
struct Given {
    extents: Vec<Extent>,
    bytes: u64,
    whole: bool,
}

fn sum(extents: &[Extent]) -> u64 {
    extents.iter().fold(0, |sum, block| sum.saturating_add(block.bytes))
}

/// Where the blocks come from that are not there yet.
#[derive(Debug)]
pub struct Feed {
    given: watch::Sender<Given>,
}

impl Blocks {
    /// Blocks of `bytes` bytes in all, the first of which are there. A write of them waits for the rest;
    /// it fails if the feed is dropped before it has given the last.
    #[must_use]
    pub fn coming(bytes: u64, first: Vec<Extent>) -> (Feed, Self) {
        let (sender, given) = watch::channel(Given { bytes: sum(&first), extents: first, whole: false });
        let waits = Arc::new(Waits::default());
        (Feed { given: sender }, Self { bytes, given, waits: Some(waits) })
    }

    /// How many bytes they hold.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Those that have come so far.
    #[must_use]
    pub fn so_far(&self) -> Vec<Extent> {
        self.given.borrow().extents.clone()
    }

    /// Bytes of those that have come so far.
    #[must_use]
    pub fn bytes_so_far(&self) -> u64 {
        self.given.borrow().bytes
    }

    /// Tells of every time that a write begins or ends to wait for its source; nothing if all blocks were
    /// there from the beginning.
    #[must_use]
    pub fn waits(&self) -> Option<watch::Receiver<bool>> {
        self.waits.as_ref().map(|waits| waits.told.subscribe())
    }

    /// How long writes have waited for their source so far.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waits.as_ref().map_or(Duration::ZERO, |waits| waits.so_far())
    }

    /// How long one has been waiting for it now, if one is.
    #[must_use]
    pub fn waiting(&self) -> Option<Duration> {
        self.waits.as_ref()?.now()
    }

    /// Whether all of them were there from the beginning.
    pub(super) fn at_once(&self) -> bool {
        self.waits.is_none()
    }

    /// Reads them from the beginning.
    pub(super) fn read(&self) -> Reader {
        Reader { given: self.given.clone(), taken: 0, left: self.bytes, waits: self.waits.clone() }
    }
}

impl From<Vec<Extent>> for Blocks {
    fn from(extents: Vec<Extent>) -> Self {
        let bytes = sum(&extents);
        let (_, given) = watch::channel(Given { extents, bytes, whole: true });
        Self { bytes, given, waits: None }
    }
}

impl Feed {
    /// The next blocks are there, and no more will come if they are the last.
    pub fn give(&self, extents: &[Extent], last: bool) {
        self.given.send_modify(|given| {
            given.extents.extend_from_slice(extents);
            given.bytes = given.bytes.saturating_add(sum(extents));
            given.whole = last;
        });
    }
}

/// A reader of blocks.
pub(super) struct Reader {
    given: watch::Receiver<Given>,
    taken: usize,
    /// Bytes of those that it has not read.
    left: u64,
    waits: Option<Arc<Waits>>,
}

/// Blocks that came together. There may be none where they are the last.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) run: Run,
    /// None come after them.
    pub(super) last: bool,
}

impl Reader {
    /// Those that have come meanwhile; waits if there are none.
    ///
    /// # Errors
    /// They are not within `arena`, or not as many bytes in all as was said, or their source has
    /// withdrawn the rest.
    pub(super) async fn next(&mut self, arena: &Arena) -> Result<Part, PathError> {
        let taken = self.taken;
        let is_there = |given: &Given| given.whole || given.extents.len() > taken;
        let waits = self.waits.as_deref().filter(|_| !is_there(&self.given.borrow()));
        let _until_it_is_there = waits.map(Waits::begin);
        let withdrawn = |_| PathError::Local("the rest of what was to be moved was withdrawn".to_owned());
        let given = self.given.wait_for(is_there).await.map_err(withdrawn)?;
        let (extents, last) = (given.extents.get(taken..).unwrap_or_default(), given.whole);
        let bytes = sum(extents);
        let run = Run::new(extents, bytes, arena.size()).map_err(|error| PathError::Local(error.to_string()))?;
        let left = self.left.checked_sub(bytes).filter(|left| *left == 0 || !last);
        self.taken = given.extents.len();
        self.left =
            left.ok_or_else(|| PathError::Local("the blocks do not hold as many bytes as was said".to_owned()))?;
        Ok(Part { run, last })
    }

    /// Whether [`next`](Self::next) would not wait.
    pub(super) fn is_ready(&self) -> bool {
        let given = self.given.borrow();
        given.whole || given.extents.len() > self.taken
    }
}

/// How long something was waited for, by anybody.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waited: Mutex<Waited>,
    /// Whether it is waited for.
    told: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Waited {
    before: Duration,
    since: Option<Instant>,
    /// A write that was stopped may wait on until it hears of that.
    waiters: usize,
}

impl Waits {
    fn so_far(&self) -> Duration {
        let waited = self.lock();
        waited.before + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn now(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    fn begin(&self) -> Waiting<'_> {
        let mut waited = self.lock();
        waited.waiters += 1;
        waited.since.get_or_insert_with(Instant::now);
        drop(waited);
        let _ = self.told.send_replace(true);
        Waiting(self)
    }

    fn end(&self) {
        let mut waited = self.lock();
        waited.waiters -= 1;
        if waited.waiters == 0 {
            let ended = waited.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            waited.before += ended;
            drop(waited);
            let _ = self.told.send_replace(false);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waited> {
        // Every change is whole before anything can panic.
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait that ends when it is dropped.
struct Waiting<'a>(&'a Waits);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The end of the time that something may take, not counting what it waits for its source.
#[derive(Clone)]
pub(super) struct Deadline {
    begun: Instant,
    /// As the caller gave it.
    pub(super) limit: Duration,
    waits: Option<(Arc<Waits>, Duration)>,
}

impl From<Duration> for Deadline {
    fn from(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit, waits: None }
    }
}

/// It was not done in time.
#[derive(Debug)]
pub(super) struct Late;

impl Deadline {
    /// The deadline of a write of `blocks` that begins now.
    pub(super) fn of_write(limit: Duration, blocks: &Blocks) -> Self {
        let waits = blocks.waits.clone().map(|waits| (Arc::clone(&waits), waits.so_far()));
        Self { begun: Instant::now(), limit, waits }
    }

    /// Time that counts, since the beginning.
    pub(super) fn spent(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.waited())
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.spent())
    }

    /// Does `work`, which may take `grace` longer than this.
    pub(super) async fn within<T>(&self, grace: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
        let mut work = std::pin::pin!(work);
        loop {
            let glance = if self.waits() { GLANCE } else { Duration::ZERO };
            let until = self.begun + self.limit + grace + self.waited() + glance;
            tokio::select! {
                // Work that ends at the same deadline knows better what that means.
                biased;
                done = &mut work => return Ok(done),
                // The source may have been waited for meanwhile: then there is time left.
                () = sleep_until(until) => {
                    if self.spent() >= self.limit + grace {
                        return Err(Late);
                    }
                }
            }
        }
    }

    /// Whether the source is being waited for.
    fn waits(&self) -> bool {
        self.waits.as_ref().is_some_and(|(waits, _)| waits.now().is_some())
    }

    fn waited(&self) -> Duration {
        self.waits.as_ref().map_or(Duration::ZERO, |(waits, before)| waits.so_far().saturating_sub(*before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    fn arena() -> Arena {
        Arena::anonymous(100).unwrap()
    }

    fn pieces(part: Part) -> (Vec<Extent>, bool) {
        let mut run = part.run;
        (std::iter::from_fn(|| run.next(u64::MAX)).collect(), part.last)
    }

    #[tokio::test(start_paused = true)]
    async fn blocks_are_read_as_they_come_from_the_beginning_by_every_reader() {
        let (feed, blocks) = Blocks::coming(9, vec![extent(0, 4)]);
        assert_eq!((blocks.bytes(), blocks.at_once()), (9, false));
        let (mut reader, arena) = (blocks.read(), arena());
        assert!(reader.is_ready());
        assert_eq!(pieces(reader.next(&arena).await.unwrap()), (vec![extent(0, 4)], false));
        assert!(!reader.is_ready());
        let give = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            feed.give(&[extent(10, 2), extent(20, 3)], true);
        };
        let (next, ()) = tokio::join!(reader.next(&arena), give);
        assert_eq!(pieces(next.unwrap()), (vec![extent(10, 2), extent(20, 3)], true));
        assert_eq!(blocks.waited(), Duration::from_secs(5));
        let all = vec![extent(0, 4), extent(10, 2), extent(20, 3)];
        assert_eq!(pieces(blocks.read().next(&arena).await.unwrap()), (all.clone(), true));
        assert_eq!(blocks.so_far(), all);
        assert_eq!(blocks.waited(), Duration::from_secs(5), "what is there is not waited for");
    }

    #[tokio::test]
    async fn blocks_that_are_withdrawn_outside_or_not_as_many_as_was_said_end_a_read() {
        let (feed, blocks) = Blocks::coming(9, vec![extent(0, 4)]);
        let (mut reader, arena) = (blocks.read(), arena());
        reader.next(&arena).await.unwrap();
        drop(feed);
        let words = |part: Result<Part, PathError>| part.unwrap_err().to_string();
        assert_eq!(words(reader.next(&arena).await), "local fault: the rest of what was to be moved was withdrawn");
        for (first, more) in [(extent(0, 10), None), (extent(0, 4), Some(extent(5, 4))), (extent(99, 2), None)] {
            let (feed, blocks) = Blocks::coming(9, vec![first]);
            if let Some(more) = more {
                feed.give(&[more], true);
            }
            blocks.read().next(&arena).await.unwrap_err();
        }
        let whole = Blocks::from(vec![extent(0, 4), extent(7, 1)]);
        assert_eq!((whole.bytes(), whole.at_once()), (5, true));
        assert_eq!(pieces(whole.read().next(&arena).await.unwrap()), (vec![extent(0, 4), extent(7, 1)], true));
    }

    #[tokio::test(start_paused = true)]
    async fn two_who_wait_at_once_are_one_wait_and_no_time_is_lost_or_counted_twice() {
        let (_feed, blocks) = Blocks::coming(2, vec![extent(0, 1)]);
        let (waits, second) = (blocks.waits.clone().unwrap(), Duration::from_secs(1));
        let old = waits.begin();
        tokio::time::advance(second).await;
        let new = waits.begin();
        drop(old);
        assert_eq!(blocks.waiting(), Some(second), "the other one waits on");
        tokio::time::advance(second).await;
        drop(new);
        tokio::time::advance(second).await;
        assert_eq!((blocks.waited(), blocks.waiting()), (second * 2, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_does_not_run_while_the_source_is_waited_for() {
        let (feed, blocks) = Blocks::coming(2, vec![extent(0, 1)]);
        let (deadline, arena) = (Deadline::of_write(Duration::from_secs(1), &blocks), arena());
        let give = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            feed.give(&[extent(1, 1)], true);
        };
        let work = async {
            let mut reader = blocks.read();
            reader.next(&arena).await.unwrap();
            tokio::time::sleep(Duration::from_millis(900)).await;
            reader.next(&arena).await.unwrap();
            let left = deadline.left();
            tokio::time::sleep(left - Duration::from_millis(1)).await;
            left
        };
        let (left, ()) = tokio::join!(deadline.within(Duration::ZERO, work), give);
        // The source is ready 30 s after the beginning: it was waited for from 0.9 s on.
        assert_eq!(left.unwrap(), Duration::from_millis(100));
        let never = std::future::pending::<()>();
        let before = Instant::now();
        assert!(deadline.within(Duration::from_millis(50), never).await.is_err());
        assert_eq!(before.elapsed(), Duration::from_millis(51));
    }
}
