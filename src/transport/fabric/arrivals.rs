//! Announcements of one peer that somebody waits for, and those that came before.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Announcements that came before anybody waited for them, at most; the oldest is forgotten.
const MAX_EARLY: usize = 1_024;

/// Who waits for which number, and which have come.
#[derive(Default)]
pub(crate) struct Arrivals {
    inner: Mutex<Inner>,
    /// How many wait, of all who share this count.
    awaited: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<u64, oneshot::Sender<()>>,
    early: VecDeque<u64>,
}

impl Arrivals {
    /// Whoever waits is counted in `awaited`.
    #[cfg(any(feature = "nixl", feature = "ucx"))]
    pub(crate) fn counted(awaited: &Arc<AtomicUsize>) -> Self {
        Self { inner: Mutex::default(), awaited: Arc::clone(awaited) }
    }

    /// Waits for a number, which nobody else does; `known` is called once whoever brings announcements can see that.
    pub(crate) async fn arrived(&self, number: u64, known: impl FnOnce()) {
        let (come, comes) = oneshot::channel();
        {
            let mut inner = self.lock();
            if let Some(at) = inner.early.iter().position(|early| *early == number) {
                inner.early.remove(at);
                return;
            }
            if inner.waiting.insert(number, come).is_none() {
                self.awaited.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _no_longer = Waiting { arrivals: self, number };
        known();
        if comes.await.is_err() {
            // Nothing will come any more. Whoever waits has a deadline.
            std::future::pending::<()>().await;
        }
    }

    /// It has come.
    pub(crate) fn come(&self, number: u64) {
        let mut inner = self.lock();
        match inner.waiting.remove(&number) {
            Some(come) => {
                self.awaited.fetch_sub(1, Ordering::Relaxed);
                // Fails only if whoever waited has just given up.
                let _ = come.send(());
            }
            None => {
                if inner.early.len() >= MAX_EARLY {
                    inner.early.pop_front();
                }
                inner.early.push_back(number);
            }
        }
    }

    /// Whether it has come, without waiting for it.
    #[cfg(test)]
    pub(crate) async fn has_come(&self, number: u64) -> bool {
        tokio::select! {
            biased;
            () = self.arrived(number, || {}) => true,
            () = std::future::ready(()) => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is whole before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the place back when nobody waits any more.
struct Waiting<'a> {
    arrivals: &'a Arrivals,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.arrivals.lock().waiting.remove(&self.number).is_some() {
            self.arrivals.awaited.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaited(arrivals: &Arrivals) -> usize {
        arrivals.awaited.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_number_is_heard_once_be_it_early_or_awaited() {
        let arrivals = Arrivals::default();
        arrivals.come(7);
        assert!(arrivals.has_come(7).await);
        assert!(!arrivals.has_come(7).await, "heard twice");
        assert_eq!(awaited(&arrivals), 0);
        let waits = arrivals.arrived(8, || {
            assert_eq!(awaited(&arrivals), 1);
            arrivals.come(8);
        });
        waits.await;
        assert_eq!(awaited(&arrivals), 0);
        assert!(!arrivals.has_come(8).await, "heard twice");
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_is_forgotten_whatever_its_number() {
        let arrivals = Arrivals::default();
        (0..=MAX_EARLY as u64).rev().for_each(|number| arrivals.come(number));
        assert!(!arrivals.has_come(MAX_EARLY as u64).await && arrivals.has_come(0).await);
    }
}
