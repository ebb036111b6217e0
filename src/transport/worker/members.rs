//! Who may announce here, and by what.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::transport::fabric::{Arrivals, FabricError};

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

/// The peers that may announce.
#[derive(Default)]
pub(crate) struct Members {
    all: Mutex<HashMap<Token, Arc<Arrivals>>>,
    awaited: Arc<AtomicUsize>,
}

impl Members {
    /// Lets a peer announce.
    pub(super) fn admit(&self) -> Result<(Token, Arc<Arrivals>), FabricError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| FabricError::Local(error.to_string()))?;
        let arrivals = Arc::new(Arrivals::counted(&self.awaited));
        self.lock().insert(Token(random), Arc::clone(&arrivals));
        Ok((Token(random), arrivals))
    }

    /// Whoever still waits for something of it waits for ever.
    pub(super) fn dismiss(&self, token: &Token) {
        self.lock().remove(token);
    }

    /// Whether anybody waits.
    pub(super) fn are_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// It has come. One of nobody who may announce is ignored.
    pub(crate) fn come(&self, announcement: Announcement) {
        let arrivals = self.lock().get(&announcement.token).cloned();
        if let Some(arrivals) = arrivals {
            arrivals.come(announcement.number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, Arc<Arrivals>>> {
        // Every change is whole before anything can panic.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_announces_for_another_and_whoever_was_dismissed_for_nobody() {
        let members = Members::default();
        let ((one, of_one), (other, of_other)) = (members.admit().unwrap(), members.admit().unwrap());
        members.come(Announcement { token: one, number: 7 });
        assert!(!of_other.has_come(7).await && of_one.has_come(7).await);
        let awaited = of_other.arrived(8, || {
            assert!(members.are_awaited());
            members.come(Announcement { token: one, number: 8 });
            members.come(Announcement { token: other, number: 8 });
        });
        awaited.await;
        assert!(!members.are_awaited());
        members.dismiss(&one);
        members.come(Announcement { token: one, number: 9 });
        assert!(of_one.has_come(8).await && !of_one.has_come(9).await);
    }

    #[test]
    fn an_announcement_is_its_bytes_and_nothing_else_is_one() {
        let announcement = Announcement { token: Members::default().admit().unwrap().0, number: 0x0102_0304 };
        let bytes = announcement.to_bytes();
        assert_eq!(Announcement::from_bytes(&bytes), Some(announcement));
        assert_eq!((Announcement::from_bytes(&bytes[1..]), Announcement::from_bytes(&[])), (None, None));
        assert_eq!(Announcement::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
