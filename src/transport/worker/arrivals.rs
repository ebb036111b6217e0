//! Announcements that somebody waits for, and those that came before.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::FabricError;

/// Announcements of one peer that came before anybody waited for them, at most; the oldest is
/// forgotten.
const MAX_EARLY: usize = 1_024;

/// What a peer announces by: given to it alone, so that nobody announces for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Token([u8; 16]);

/// That a put is there: by whom, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    pub(crate) token: Token,
    pub(crate) number: u64,
}

impl Announcement {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (token, number) = bytes.split_at_mut(16);
        token.copy_from_slice(&self.token.0);
        number.copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// None of anything else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (token, number) = bytes.split_first_chunk()?;
        Some(Self { token: Token(*token), number: u64::from_le_bytes(number.try_into().ok()?) })
    }
}

/// By peer: who waits for which number, and which have come.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    peers: HashMap<Token, Numbers>,
    awaited: usize,
}

#[derive(Default)]
struct Numbers {
    waiting: HashMap<u64, oneshot::Sender<()>>,
    early: BTreeSet<u64>,
}

impl Arrivals {
    pub(super) fn admit(&self) -> Result<Token, FabricError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| FabricError::Local(error.to_string()))?;
        self.lock().peers.insert(Token(random), Numbers::default());
        Ok(Token(random))
    }

    /// Whoever still waits for something of it waits for ever.
    pub(super) fn dismiss(&self, token: &Token) {
        let mut inner = self.lock();
        if let Some(numbers) = inner.peers.remove(token) {
            inner.awaited -= numbers.waiting.len();
        }
    }

    /// Waits for an announcement; `ring` is called once that is known.
    pub(super) async fn arrived(&self, announcement: Announcement, ring: impl FnOnce()) {
        let Announcement { token, number } = announcement;
        let (come, comes) = oneshot::channel();
        {
            let mut inner = self.lock();
            if let Some(numbers) = inner.peers.get_mut(&token) {
                if numbers.early.remove(&number) {
                    return;
                }
                if numbers.waiting.insert(number, come).is_none() {
                    inner.awaited += 1;
                }
            }
        }
        let _no_longer = Waiting { arrivals: self, announcement };
        ring();
        if comes.await.is_err() {
            // Nothing will come any more. Whoever waits has a deadline.
            std::future::pending::<()>().await;
        }
    }

    /// Whether anybody waits.
    pub(super) fn are_awaited(&self) -> bool {
        self.lock().awaited > 0
    }

    /// It has come. One of nobody who may announce is ignored.
    pub(crate) fn come(&self, announcement: Announcement) {
        let mut inner = self.lock();
        let Some(numbers) = inner.peers.get_mut(&announcement.token) else { return };
        match numbers.waiting.remove(&announcement.number) {
            Some(come) => {
                inner.awaited -= 1;
                // Fails only if whoever waited has just given up.
                let _ = come.send(());
            }
            None => {
                numbers.early.insert(announcement.number);
                if numbers.early.len() > MAX_EARLY {
                    numbers.early.pop_first();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the place back when nobody waits any more.
struct Waiting<'a> {
    arrivals: &'a Arrivals,
    announcement: Announcement,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inner = self.arrivals.lock();
        let numbers = inner.peers.get_mut(&self.announcement.token);
        if numbers.is_some_and(|numbers| numbers.waiting.remove(&self.announcement.number).is_some()) {
            inner.awaited -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(token: Token, number: u64) -> Announcement {
        Announcement { token, number }
    }

    /// Whether it has come, without waiting for it.
    async fn is_here(arrivals: &Arrivals, announcement: Announcement) -> bool {
        tokio::select! {
            biased;
            () = arrivals.arrived(announcement, || {}) => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_number_is_heard_once_be_it_early_or_awaited_and_only_of_whose_it_is() {
        let arrivals = Arrivals::default();
        let (one, other) = (arrivals.admit().unwrap(), arrivals.admit().unwrap());
        arrivals.come(of(one, 7));
        assert!(!is_here(&arrivals, of(other, 7)).await, "announced by another");
        assert!(is_here(&arrivals, of(one, 7)).await);
        assert!(!is_here(&arrivals, of(one, 7)).await, "heard twice");
        let awaited = arrivals.arrived(of(other, 8), || {
            assert!(arrivals.are_awaited());
            arrivals.come(of(one, 8));
            arrivals.come(of(other, 8));
        });
        awaited.await;
        assert!(!arrivals.are_awaited());
        assert!(is_here(&arrivals, of(one, 8)).await);
    }

    #[tokio::test]
    async fn whoever_was_dismissed_announces_nothing() {
        let arrivals = Arrivals::default();
        let token = arrivals.admit().unwrap();
        arrivals.come(of(token, 1));
        arrivals.dismiss(&token);
        arrivals.come(of(token, 2));
        assert!(!is_here(&arrivals, of(token, 1)).await && !is_here(&arrivals, of(token, 2)).await);
        assert!(!arrivals.are_awaited());
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_is_forgotten() {
        let arrivals = Arrivals::default();
        let token = arrivals.admit().unwrap();
        (0..=MAX_EARLY as u64).for_each(|number| arrivals.come(of(token, number)));
        assert!(!is_here(&arrivals, of(token, 0)).await && is_here(&arrivals, of(token, 1)).await);
    }

    #[test]
    fn an_announcement_is_its_bytes_and_nothing_else_is_one() {
        let announcement = of(Arrivals::default().admit().unwrap(), 0x0102_0304);
        let bytes = announcement.to_bytes();
        assert_eq!(Announcement::from_bytes(&bytes), Some(announcement));
        assert_eq!((Announcement::from_bytes(&bytes[1..]), Announcement::from_bytes(&[])), (None, None));
        assert_eq!(Announcement::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
