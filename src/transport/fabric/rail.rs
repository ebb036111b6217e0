//! The rail: one QUIC endpoint beside one library.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::Fabric;
use super::receive::{self, Session};
use super::send::{self, Outbound};
use crate::arena::Arena;
use crate::model::NodeName;
use crate::net::{Endpoint, EndpointOptions, NetError, NodeIdentity, Traffic};
use crate::transport::dial::Dialer;
use crate::transport::listen;
use crate::transport::slots::Slots;
use crate::transport::{Backend, BoxFuture, Landing, PathError, Peer, Write, Written};

/// Links kept; the least recently used makes room.
const MAX_LINKS: usize = 1_024;
/// Sessions of peers at once; one more is refused.
pub(super) const MAX_SESSIONS: usize = 1_024;
/// Of them of one peer, which needs one, and another while it has not noticed that the first is over.
pub(super) const MAX_PEER_SESSIONS: usize = 8;
/// How long [`Backend::close`] waits for what it ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long it then waits for the library, which may take its time with peers that are gone (UCX 2 s).
const LIBRARY_LIMIT: Duration = Duration::from_secs(4);

/// What happened so far.
#[derive(Default)]
pub(super) struct Counters {
    /// Bytes of writes that came, whatever became of them.
    pub(super) came_bytes: AtomicU64,
    pub(super) landed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) malformed: AtomicU64,
    /// Writes that ended without anybody knowing whether bytes of theirs may still land.
    pub(super) fenced: AtomicU64,
}

/// What both directions share.
pub(super) struct Shared {
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) arena: Arc<Arena>,
    pub(super) landing: Arc<dyn Landing>,
    pub(super) counters: Counters,
    pub(super) dialer: Dialer,
    pub(super) links: Slots<(NodeName, String), Arc<Outbound>>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    next: AtomicU64,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    /// A number that this rail has not given before.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        // Every change of the table is whole before anything can panic.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One rail: a library moves its bytes, and its QUIC endpoint everything else.
pub struct FabricRail {
    endpoint: Endpoint,
    shared: Arc<Shared>,
}

impl FabricRail {
    /// Listens on `bind` and serves at once: puts land in `arena`, which is registered in `fabric`,
    /// where `landing` says. Must be called within a tokio runtime. Peers are told this address, so
    /// it must be a definite one; only its port may be left open.
    ///
    /// # Errors
    /// If the address is 0.0.0.0 or ::, or cannot be had, or the identity is unfit.
    pub fn start(
        bind: SocketAddr,
        identity: &NodeIdentity,
        options: EndpointOptions,
        fabric: Arc<dyn Fabric>,
        arena: Arc<Arena>,
        landing: Arc<dyn Landing>,
    ) -> Result<Self, NetError> {
        let endpoint = listen(bind, identity, Traffic::Fabric, options)?;
        let shared = Arc::new(Shared {
            fabric,
            arena,
            landing,
            counters: Counters::default(),
            dialer: Dialer::new(endpoint.clone()),
            links: Slots::new(MAX_LINKS),
            sessions: Mutex::default(),
            next: AtomicU64::new(1),
            tasks: TaskTracker::new(),
        });
        shared.tasks.spawn(receive::serve(endpoint.clone(), Arc::clone(&shared)));
        Ok(Self { endpoint, shared })
    }

    /// Its endpoint, for what concerns all connections at once.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }
}

impl Drop for FabricRail {
    fn drop(&mut self) {
        self.endpoint.close_now();
    }
}

impl Backend for FabricRail {
    fn address(&self) -> String {
        self.local_addr().to_string()
    }

    fn probe<'a>(
        &'a self,
        peer: &'a Peer,
        payload_bytes: u32,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Duration, PathError>> {
        Box::pin(send::probe(&self.shared, peer, payload_bytes, deadline))
    }

    fn write<'a>(&'a self, peer: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>> {
        Box::pin(send::write(&self.shared, peer, write))
    }

    fn refusals(&self) -> Vec<(&'static str, u64)> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, connections) = (&self.shared.counters, self.endpoint.counters());
        vec![
            ("refused", of(&counters.refused)),
            ("broken", of(&counters.broken)),
            ("malformed", of(&counters.malformed)),
            ("fenced", of(&counters.fenced)),
            ("connection_refused", connections.refused),
            ("connection_failed", connections.failed),
        ]
    }

    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        self.shared.fabric.device_errors()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shared.links.clear();
            self.shared.dialer.clear();
            self.endpoint.close().await;
            self.shared.tasks.close();
            if tokio::time::timeout(CLOSE_LIMIT, self.shared.tasks.wait()).await.is_err() {
                tracing::warn!(left = self.shared.tasks.len(), "rail closed while something of it still waits");
            }
            close(&*self.shared.fabric, &self.address()).await;
        })
    }
}

/// Lets go of the library, as far as it lets go.
async fn close(fabric: &dyn Fabric, rail: &str) {
    if tokio::time::timeout(LIBRARY_LIMIT, fabric.close()).await.is_err() {
        let library = fabric.name();
        tracing::warn!(rail, library, "the library does not let go: its thread is left behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::fabric::{FabricError, Greeting, Welcome};

    struct Hangs;

    impl Fabric for Hangs {
        fn name(&self) -> String {
            "one that hangs".to_owned()
        }

        fn greet<'a>(&'a self, _: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>> {
            Box::pin(std::future::pending())
        }

        fn welcome<'a>(&'a self, _: &'a NodeName, _: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>> {
            Box::pin(std::future::pending())
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_library_that_does_not_let_go_is_left_behind() {
        let begun = tokio::time::Instant::now();
        close(&Hangs, "127.0.0.1:7982").await;
        assert!(begun.elapsed() >= LIBRARY_LIMIT);
    }
}
