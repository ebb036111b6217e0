//! What the simulated engines and the gateway know together: hashes written and read back, and
//! the life of every lease, for the audit.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::audit::Held;
use crate::model::{Lease, LeaseId, RequestId};

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// Errors kept in words; later ones are only counted.
const MAX_ERRORS: usize = 32;

/// One for the whole run.
pub(crate) struct Book {
    start: Instant,
    seed: u64,
    pages: Mutex<Pages>,
    changed: Notify,
}

#[derive(Default)]
struct Pages {
    written: BTreeMap<usize, Hash>,
    verified: BTreeMap<usize, bool>,
    held: BTreeMap<LeaseId, Held>,
    errors: Vec<String>,
}

impl Book {
    /// Opens the book; its clock starts.
    pub(crate) fn new(seed: u64) -> Self {
        Self { start: Instant::now(), seed, pages: Mutex::default(), changed: Notify::new() }
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1_000.0
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The name of the run's n-th request.
    pub(crate) fn request_id(&self, index: usize) -> Option<RequestId> {
        RequestId::new(&format!("demo-{}-{index}", self.seed)).ok()
    }

    /// Which request has this name.
    pub(crate) fn index(&self, id: &RequestId) -> Option<usize> {
        id.as_str().strip_prefix(&format!("demo-{}-", self.seed))?.parse().ok()
    }

    /// The prefill engine has written the request's bytes.
    pub(crate) fn wrote(&self, index: usize, hash: Hash) {
        self.pages().written.insert(index, hash);
    }

    /// A lease was granted; known from now on.
    pub(crate) fn granted(&self, lease: &Lease) {
        let from_ns = self.now_ns();
        let held = Held { lease: lease.id.clone(), extents: lease.extents.clone(), from_ns, until_ns: u64::MAX };
        self.pages().held.entry(lease.id.clone()).or_insert(held);
    }

    /// The lease may end from now on without our doing; called before what ends it.
    pub(crate) fn ending(&self, lease: &LeaseId) {
        let now_ns = self.now_ns();
        self.end_at(lease, now_ns);
    }

    /// The lease ended during a call that began at `since`, who knows when.
    pub(crate) fn ended_since(&self, lease: &LeaseId, since: Instant) {
        let since_ns = u64::try_from(since.duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        self.end_at(lease, since_ns);
    }

    fn end_at(&self, lease: &LeaseId, at_ns: u64) {
        if let Some(held) = self.pages().held.get_mut(lease) {
            held.until_ns = held.until_ns.min(at_ns);
        }
    }

    /// A decode engine read `hash` out of its arena where the request's bytes landed, and Seam
    /// said that it is `claimed`.
    pub(crate) fn arrived(&self, index: usize, hash: Hash, claimed: &str) {
        let mut pages = self.pages();
        let same = pages.written.get(&index) == Some(&hash) && claimed == hex(&hash);
        // Bytes that landed twice must be right both times.
        let verified = pages.verified.entry(index).or_insert(true);
        *verified &= same;
        drop(pages);
        self.changed.notify_waiters();
    }

    /// Whether the request's bytes were read back right; `None` if nobody has read them.
    pub(crate) fn verified(&self, index: usize) -> Option<bool> {
        self.pages().verified.get(&index).copied()
    }

    /// How many requests' bytes were read back right.
    pub(crate) fn verified_count(&self) -> usize {
        self.pages().verified.values().filter(|verified| **verified).count()
    }

    /// Waits until the bytes of all these requests have been read back, however long it takes.
    pub(crate) async fn all_read(&self, indices: &[usize]) {
        loop {
            let changed = self.changed.notified();
            if indices.iter().all(|index| self.verified(*index).is_some()) {
                return;
            }
            changed.await;
        }
    }

    /// Notes what went wrong.
    pub(crate) fn error(&self, error: impl std::fmt::Display) {
        let mut pages = self.pages();
        if pages.errors.len() < MAX_ERRORS {
            pages.errors.push(error.to_string());
        }
    }

    /// What went wrong.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.pages().errors.clone()
    }

    /// Every lease that was seen.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.pages().held.values().cloned().collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // Every change is one insert: a panic elsewhere leaves nothing half done.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash as the API writes it.
pub(crate) fn hex(hash: &Hash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Extent;

    fn lease(id: &str) -> Lease {
        let extents = vec![Extent { offset: 0, bytes: 65_536 }];
        Lease { id: id.parse().unwrap(), kv_bytes: 1, extents, ttl_ms: 1 }
    }

    #[tokio::test]
    async fn bytes_are_verified_only_if_both_hashes_are_what_was_written() {
        let book = Book::new(7);
        let (good, bad) = ([1; 32], [2; 32]);
        for index in 0..3 {
            book.wrote(index, good);
        }
        book.arrived(0, good, &hex(&good));
        book.arrived(1, bad, &hex(&bad));
        book.arrived(2, good, &hex(&bad));
        assert_eq!([0, 1, 2, 3].map(|index| book.verified(index)), [Some(true), Some(false), Some(false), None]);
        book.arrived(0, bad, &hex(&bad));
        assert_eq!(book.verified(0), Some(false));
    }

    #[tokio::test]
    async fn a_request_name_leads_back_to_its_number_in_this_run_only() {
        let book = Book::new(7);
        let id = book.request_id(12).unwrap();
        assert_eq!(book.index(&id), Some(12));
        assert_eq!(Book::new(8).index(&id), None);
        assert_eq!(book.index(&RequestId::new("demo-7-x").unwrap()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_certain_from_its_grant_to_the_first_moment_it_may_have_ended() {
        let book = Book::new(7);
        tokio::time::advance(std::time::Duration::from_nanos(5)).await;
        book.granted(&lease("d0.1.1"));
        let since = Instant::now();
        tokio::time::advance(std::time::Duration::from_nanos(5)).await;
        book.granted(&lease("d0.1.1"));
        book.ending(&lease("d0.1.1").id);
        book.ended_since(&lease("d0.1.1").id, since);
        book.ending(&lease("d0.1.9").id);
        let held = book.held();
        assert_eq!((held.len(), held[0].from_ns, held[0].until_ns), (1, 5, 5));
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_reading() {
        let book = std::sync::Arc::new(Book::new(7));
        let waiting = tokio::spawn({
            let book = book.clone();
            async move { book.all_read(&[0, 1]).await }
        });
        book.arrived(0, [0; 32], "");
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        book.arrived(1, [0; 32], "");
        waiting.await.unwrap();
    }
}
