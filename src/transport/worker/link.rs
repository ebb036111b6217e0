//! Both ends of a link whose bytes such a thread moves.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{Announcement, Engine, Job, Place, Remote, Token, Worker};
use crate::arena::{Arena, Segment};
use crate::model::NodeName;
use crate::transport::fabric::scratch::HALF;
use crate::transport::fabric::{Arrivals, Entry, FabricError, Link, Piece, Put};
use crate::transport::{BoxFuture, MAX_PROBE_BYTES};

/// Where a peer writes, whatever its library, and what it announces by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// The library's version on that side.
    pub(crate) version: String,
    /// Where the arena is in its memory, and in which.
    pub(crate) segment: Segment,
    pub(crate) arena: u64,
    pub(crate) arena_bytes: u64,
    /// Where probes go.
    pub(crate) scratch: u64,
    pub(crate) token: Token,
}

impl Target {
    /// What this side's peers are told.
    pub(crate) fn of(arena: &Arena, version: &str, scratch: u64, token: Token) -> Self {
        let (segment, address, arena_bytes) = (arena.segment(), arena.address() as u64, arena.size());
        Self { version: version.to_owned(), segment, arena: address, arena_bytes, scratch, token }
    }
}

/// The sending end.
pub(crate) struct WorkerLink<E: Engine> {
    worker: Arc<Worker<E>>,
    remote: Remote<E>,
    target: Target,
    /// What may be the matter where nothing ever ends.
    skew: Option<String>,
}

impl<E: Engine> WorkerLink<E> {
    /// Makes the peer known to the library, which is of `version` here.
    pub(crate) async fn connect(
        worker: Arc<Worker<E>>,
        version: &str,
        words: E::Words,
        target: Target,
        peer: NodeName,
    ) -> Result<Arc<dyn Link>, FabricError> {
        let ends = [target.arena.checked_add(target.arena_bytes), target.scratch.checked_add(u64::from(HALF))];
        if ends.contains(&None) {
            return Err(FabricError::Protection("a welcome with memory beyond all addresses".to_owned()));
        }
        let skew = (target.version != version)
            .then(|| format!("this side's {} is {version}, the peer's {}", E::NAME, target.version));
        if let Some(skew) = &skew {
            worker.warn_of(&peer, skew);
        }
        let remote = worker.know(words, peer).await.map_err(|error| match &skew {
            Some(skew) => FabricError::Skew(format!("{error}; {skew}")),
            None => error,
        })?;
        Ok(Arc::new(Self { worker, remote, target, skew }))
    }
}

impl<E: Engine> Link for WorkerLink<E> {
    fn put<'a>(
        &'a self,
        pieces: Vec<Piece>,
        number: Option<u64>,
        deadline: Duration,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Put> {
        Box::pin(async move {
            if let Some(refused) = Put::outside(&pieces, self.target.arena_bytes) {
                return refused;
            }
            let announcement = number.map(|number| Announcement { token: self.target.token, number });
            let job = Job {
                pieces,
                remote: (self.target.segment, self.target.arena),
                place: Place::Arena,
                announcement,
                deadline,
            };
            self.worker.put(&self.remote, job, cancel.clone()).await
        })
    }

    fn probe(&self, payload_bytes: u32, deadline: Duration) -> BoxFuture<'_, Result<(), FabricError>> {
        Box::pin(async move {
            let bytes = payload_bytes.clamp(1, MAX_PROBE_BYTES);
            self.worker.probe(&self.remote, bytes, self.target.scratch, deadline).await
        })
    }

    /// Old and new libraries are known to wait for each other for ever.
    fn doubt(&self) -> Option<String> {
        self.skew.clone()
    }

    fn is_over(&self) -> bool {
        self.remote.is_over()
    }
}

/// The receiving end, of a library that keeps nobody out.
pub(crate) struct WorkerEntry<E: Engine> {
    worker: Arc<Worker<E>>,
    token: Token,
    arrivals: Arc<Arrivals>,
}

impl<E: Engine> WorkerEntry<E> {
    /// Lets a peer announce its puts; the token is for it alone.
    pub(crate) fn admit(worker: &Arc<Worker<E>>) -> Result<(Arc<Self>, Token), FabricError> {
        let (token, arrivals) = worker.members.admit()?;
        Ok((Arc::new(Self { worker: Arc::clone(worker), token, arrivals }), token))
    }
}

impl<E: Engine> Drop for WorkerEntry<E> {
    fn drop(&mut self) {
        self.worker.members.dismiss(&self.token);
    }
}

impl<E: Engine> Entry for WorkerEntry<E> {
    fn arrived(&self, number: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.arrivals.arrived(number, || self.worker.line.bell.ring()))
    }

    fn close(&self) -> BoxFuture<'_, bool> {
        // Who has a key keeps it, and what was posted lands. Other puts of the session may still announce
        // themselves, so the token stays until it ends.
        Box::pin(std::future::ready(false))
    }
}
