//! Paths over QUIC: any network that carries UDP, with nothing to install.
//!
//! A rail is one endpoint. Towards each peer it keeps two connections, one for small probes and
//! one for bulk, so that bulk does not make probes lie. A probe is echoed on a stream of its own.
//! A write is one stream: the request, the bytes of the blocks in order, their hash; the answer
//! comes back on the same stream and may come early, as a refusal.

mod receive;
mod send;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::dial::Dialer;
use super::listen;
use super::{Backend, BoxFuture, Landing, PathError, Peer, Write, Written};
use crate::arena::Arena;
use crate::net::{Endpoint, EndpointCounters, EndpointOptions, NetError, NodeIdentity, Traffic};

/// How long [`Backend::close`] waits for the streams that it ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// What a rail has served and refused so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RailCounters {
    /// Probes echoed.
    pub probes: u64,
    /// Writes that landed and were verified.
    pub landed: u64,
    /// Bytes of them.
    pub landed_bytes: u64,
    /// Requests refused, in words, to their senders.
    pub refused: u64,
    /// Streams given up or broken half way.
    pub broken: u64,
    /// Streams that carried no request.
    pub malformed: u64,
}

#[derive(Default)]
struct Counters {
    probes: AtomicU64,
    landed: AtomicU64,
    landed_bytes: AtomicU64,
    /// Bytes of writes that came, whatever became of them.
    came_bytes: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    malformed: AtomicU64,
}

/// What the two directions share.
struct Shared {
    arena: Arc<Arena>,
    landing: Arc<dyn Landing>,
    counters: Counters,
}

/// One QUIC rail: probes and writes to its peers, and serves theirs.
pub struct QuicRail {
    endpoint: Endpoint,
    dialer: Dialer,
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

impl QuicRail {
    /// Listens on `bind` and serves at once: writes land in `arena` where `landing` says. Must be
    /// called within a tokio runtime. Peers are told this address, so it must be a definite one;
    /// only its port may be left open.
    ///
    /// # Errors
    /// If the address is 0.0.0.0 or ::, or cannot be had, or the identity is unfit.
    pub fn start(
        bind: SocketAddr,
        identity: &NodeIdentity,
        arena: Arc<Arena>,
        landing: Arc<dyn Landing>,
    ) -> Result<Self, NetError> {
        Self::start_with(bind, identity, EndpointOptions::default(), arena, landing)
    }

    /// As [`start`](Self::start), with an operator's options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        bind: SocketAddr,
        identity: &NodeIdentity,
        options: EndpointOptions,
        arena: Arc<Arena>,
        landing: Arc<dyn Landing>,
    ) -> Result<Self, NetError> {
        let endpoint = listen(bind, identity, Traffic::Rail, options)?;
        let shared = Arc::new(Shared { arena, landing, counters: Counters::default() });
        let tasks = TaskTracker::new();
        tasks.spawn(receive::serve(endpoint.clone(), Arc::clone(&shared), tasks.clone()));
        Ok(Self { dialer: Dialer::new(endpoint.clone()), endpoint, shared, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Its endpoint, for what concerns all connections at once.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// What happened to the connections that its peers opened.
    #[must_use]
    pub fn connections(&self) -> EndpointCounters {
        self.endpoint.counters()
    }

    /// What it has served and refused so far.
    #[must_use]
    pub fn counters(&self) -> RailCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { probes, landed, landed_bytes, refused, broken, malformed, .. } = &self.shared.counters;
        RailCounters {
            probes: of(probes),
            landed: of(landed),
            landed_bytes: of(landed_bytes),
            refused: of(refused),
            broken: of(broken),
            malformed: of(malformed),
        }
    }
}

impl Drop for QuicRail {
    fn drop(&mut self) {
        self.endpoint.close_now();
    }
}

impl Backend for QuicRail {
    fn address(&self) -> String {
        self.local_addr().to_string()
    }

    fn probe<'a>(
        &'a self,
        peer: &'a Peer,
        payload_bytes: u32,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Duration, PathError>> {
        Box::pin(send::probe(&self.dialer, peer, payload_bytes, deadline))
    }

    fn write<'a>(&'a self, peer: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>> {
        Box::pin(send::write(&self.dialer, &self.shared.arena, peer, write))
    }

    fn refusals(&self) -> Vec<(&'static str, u64)> {
        let (streams, connections) = (self.counters(), self.connections());
        vec![
            ("refused", streams.refused),
            ("broken", streams.broken),
            ("malformed", streams.malformed),
            ("connection_refused", connections.refused),
            ("connection_failed", connections.failed),
        ]
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.dialer.clear();
            self.endpoint.close().await;
            self.tasks.close();
            if tokio::time::timeout(CLOSE_LIMIT, self.tasks.wait()).await.is_err() {
                tracing::warn!(streams = self.tasks.len(), "rail closed while streams still wait for the ledger");
            }
        })
    }
}
