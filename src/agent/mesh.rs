//! The gossip actor and the network around it, on a thread of its own.
//!
//! ```text
//! connections ──▶ packets ─────▶ mailbox ──▶ gossip actor (mesh core) ──▶ events
//!      │                            ▲              │
//!      ├──▶ exchanges ──────────────┘              └──▶ peers (connections)
//!      └──▶ lease calls ──▶ LeaseServer
//! ```
//!
//! Lease calls never pass through the actor: they go straight to the connection of the peer that
//! is asked, from whichever runtime asks.

mod actor;
mod exchange;
mod frames;
mod generation;
mod mailbox;
mod peers;
mod rivals;
mod seeds;
mod serve;
mod stats;
mod thread;
mod views;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::ActorRef;
use tokio::sync::{oneshot, watch};

use self::actor::{Message, Shared};
use self::frames::{Kind, StreamError, check_reply, read_bytes, write_question};
use self::mailbox::{Latest, Mailbox};
use self::peers::Peers;
use self::views::View;
use super::clock::Clock;
use super::journal::TapeOf;
use crate::api::MemberLine;
use crate::codec::{self, Wire as _};
use crate::mesh::{MeshCore, MeshEvent, MeshSize, NotEd25519, RecordSigner};
use crate::model::{Generation, LeaseCall, LeaseCallReply, LoadRecord, NodeName, NodeRecord, PathsRecord};
use crate::net::{Endpoint, EndpointCounters, InvalidHostPort, NetError, NodeIdentity, RenewError};
pub use stats::{Drops, MeshStats, TrafficKind};

/// Called with every event, in order, on the mesh's own thread: it must not wait.
pub type EventSink = Arc<dyn Fn(MeshEvent) + Send + Sync>;

/// The mesh's part of the configuration.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// This node; the name in its certificate.
    pub node: NodeName,
    /// Its cluster.
    pub cluster: String,
    /// Where to listen; port 0 takes any.
    pub bind: SocketAddr,
    /// Where others reach this node, if not at `bind`; port 0 stands for the bound one.
    pub advertise: Option<SocketAddr>,
    /// Addresses or host names with ports of some of the others.
    pub seeds: Vec<String>,
    /// How fast the mesh beats.
    pub size: MeshSize,
    /// Where the generation is kept.
    pub data_dir: PathBuf,
    /// Seeds every random choice of the mesh core.
    pub seed: u64,
}

/// Answers the lease calls of others.
pub trait LeaseServer: Send + Sync + 'static {
    /// Answers one call; `from` is the name in the caller's certificate, and the holder that an
    /// ask names. Runs on the mesh's own thread.
    fn call<'a>(&'a self, from: &'a NodeName, call: LeaseCall) -> BoxFuture<'a, LeaseCallReply>;
}

/// Why the mesh did not start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum MeshStartError {
    /// Others could not reach this node.
    #[error("mesh.advertise: missing; mesh.bind = {bind} is no address that others can reach")]
    NoAddress {
        /// What it would listen on.
        bind: SocketAddr,
    },
    /// Nor could they at the address that they would be told.
    #[error("mesh.advertise: found {advertise}, allowed a concrete address that others can reach")]
    Unspecified {
        /// What they would be told.
        advertise: SocketAddr,
    },
    /// A seed is no address and no name.
    #[error("mesh.seeds[{index}]: {source}")]
    Seed {
        /// Which one, counted from 0.
        index: usize,
        /// What is wrong with it.
        source: InvalidHostPort,
    },
    /// The identity is not the one configured.
    #[error("{field}: {configured:?} is configured, the certificate says {certificate:?}")]
    OtherIdentity {
        /// Which part of it.
        field: &'static str,
        /// What is configured.
        configured: String,
        /// What the certificate says.
        certificate: String,
    },
    /// The node's key cannot sign records.
    #[error(transparent)]
    Key(#[from] NotEd25519),
    /// The endpoint could not be made.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The generation could not be kept.
    #[error("node.data_dir {}: {detail}", dir.display())]
    DataDir {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Another process of the same name takes part in the mesh.
    #[error("node.name: {node} takes part already, at {addr}")]
    NameTaken {
        /// The name.
        node: NodeName,
        /// Where the other one listens.
        addr: SocketAddr,
    },
    /// The journal could not begin.
    #[error("cannot start the journal's thread: {0}")]
    Journal(std::io::Error),
    /// The system refused a thread or a runtime.
    #[error("cannot start the mesh's thread: {0}")]
    Thread(String),
}

/// What the mesh core shares with the other cores of one life.
pub(crate) struct Life {
    pub(crate) clock: Clock,
    /// Called once, when the number of the life is known, before the core's first turn.
    pub(crate) tape: Box<dyn FnOnce(Generation) -> std::io::Result<TapeOf<MeshCore>> + Send>,
}

/// One node's place in the mesh. Clones share it; the mesh ends with the last one.
#[derive(Clone)]
pub struct MeshHandle {
    inner: Arc<Inner>,
}

struct Inner {
    addr: SocketAddr,
    actor: ActorRef<Message>,
    peers: Arc<Peers>,
    mailbox: Mailbox,
    latest: Arc<Latest>,
    shared: Arc<Shared>,
    stats: Arc<MeshStats>,
    endpoint: Endpoint,
    ended: watch::Receiver<bool>,
    /// Its end is the thread's sign to stop.
    _running: oneshot::Sender<()>,
}

impl MeshHandle {
    /// Listens, finds out which life this is, and starts to join; with seeds that do not answer
    /// this takes about a second. The join itself goes on in the background, for ever if need be.
    ///
    /// # Errors
    /// See [`MeshStartError`]; nothing runs then.
    pub async fn start(
        settings: MeshSettings,
        identity: Arc<NodeIdentity>,
        events: EventSink,
        leases: Arc<dyn LeaseServer>,
    ) -> Result<Self, MeshStartError> {
        let life = Life { clock: Clock::start(), tape: Box::new(|_| Ok(None)) };
        Self::start_life(settings, identity, events, leases, life).await
    }

    /// As [`start`](Self::start), as part of a larger life.
    pub(crate) async fn start_life(
        settings: MeshSettings,
        identity: Arc<NodeIdentity>,
        events: EventSink,
        leases: Arc<dyn LeaseServer>,
        life: Life,
    ) -> Result<Self, MeshStartError> {
        check(&settings, &identity)?;
        thread::start(settings, identity, events, leases, life).await
    }

    /// This life. It grows if a later life of this node's name turns up.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.inner.shared.generation.load(Ordering::Relaxed)
    }

    /// Where others reach this node.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
    }

    /// Whether this node has met another, or was told of no other.
    #[must_use]
    pub fn joined(&self) -> bool {
        self.inner.shared.joined.load(Ordering::Relaxed)
    }

    /// What this node says it is, from now on.
    pub fn publish_node(&self, record: NodeRecord) {
        self.publish(self.inner.latest.node(record));
    }

    /// Its headroom, from now on. Of several that are published at once only the last counts.
    pub fn publish_load(&self, record: LoadRecord) {
        self.publish(self.inner.latest.load(record));
    }

    /// Its paths that are not healthy, from now on, all of them; see [`crate::mesh::MAX_CHUNKS`]
    /// and [`crate::mesh::MAX_RUMOUR`] for how many fit.
    pub fn publish_paths(&self, chunks: Vec<PathsRecord>) {
        self.publish(self.inner.latest.paths(chunks));
    }

    /// Asks another node's ledger. Nothing comes back if it could not be asked, or did not answer
    /// in time; it may have done what was asked all the same.
    pub async fn call_lease(&self, node: &NodeName, call: LeaseCall, deadline: Duration) -> Option<LeaseCallReply> {
        tokio::time::timeout(deadline, self.inner.call(node, &call)).await.ok()?
    }

    /// Presents `identity`, a renewed certificate of this node, from now on: new connections prove
    /// it, and every record of this node is signed anew with its key. Open connections stay. Until
    /// the new node record has reached everyone, which takes a few exchanges, others may refuse
    /// and count what the new key signed.
    ///
    /// # Errors
    /// See [`RenewError`]; nothing changed then.
    pub fn set_identity(&self, identity: &NodeIdentity) -> Result<(), RenewError> {
        let signer =
            RecordSigner::from_pkcs8(identity.private_key_pkcs8()).map_err(|error| NetError::Tls(error.to_string()))?;
        self.inner.endpoint.set_identity(identity)?;
        let certificate = identity.certificate_der().to_vec();
        // An actor that is gone signs nothing.
        let _ = self.inner.actor.cast(Message::Renewed { signer: Box::new(signer), certificate });
        Ok(())
    }

    /// Everyone known, this node included.
    pub async fn members(&self) -> Vec<MemberLine> {
        self.view(View::Members).await.unwrap_or_default()
    }

    /// Every record that holds, as JSON.
    pub async fn records(&self) -> Vec<serde_json::Value> {
        self.view(View::Records).await.unwrap_or_default()
    }

    /// The kind of every record that this node holds, and its age in milliseconds.
    pub(crate) async fn record_ages_ms(&self) -> Vec<(&'static str, u64)> {
        self.view(View::Ages).await.unwrap_or_default()
    }

    /// What the mesh counts.
    #[must_use]
    pub fn stats(&self) -> &MeshStats {
        &self.inner.stats
    }

    /// What happened to the connections that others opened.
    #[must_use]
    pub fn connections(&self) -> EndpointCounters {
        self.inner.peers.accepted()
    }

    /// Tells the others that this node leaves, and ends its mesh.
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        // An actor that is gone has left.
        if self.inner.actor.cast(Message::Leave(done)).is_ok() {
            let _ = left.await;
        }
        self.ended().await;
    }

    /// Waits until the mesh has ended. If nobody asked it to, something is wrong with it.
    pub async fn ended(&self) {
        // The sender is gone once the thread is.
        let _ = self.inner.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Why the mesh ended unasked, where that is known: an older process of the same name was found.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.inner.shared.fault.get().map(String::as_str)
    }

    fn publish(&self, wake: bool) {
        if wake {
            // An actor that is gone publishes nothing.
            let _ = self.inner.actor.cast(Message::Publish);
        }
    }

    async fn view<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> View) -> Option<T> {
        let permit = self.inner.mailbox.room().await;
        let (reply, answer) = oneshot::channel();
        self.inner.actor.cast(Message::View(question(reply), permit)).ok()?;
        answer.await.ok()
    }
}

impl Inner {
    async fn call(&self, node: &NodeName, call: &LeaseCall) -> Option<LeaseCallReply> {
        let bytes = codec::encode(call).ok()?;
        let connection = self.peers.to_member(node).await?;
        let (mut send, mut receive) = connection.quinn().open_bi().await.ok()?;
        write_question(&mut send, Kind::Lease, &bytes).await.ok()?;
        send.finish().ok()?;
        self.stats.sent(TrafficKind::Lease, bytes.len());
        let reply = read_bytes(&mut receive, LeaseCallReply::LIMIT).await.and_then(|bytes| {
            self.stats.received(TrafficKind::Lease, bytes.len());
            let reply = codec::decode(&bytes).map_err(StreamError::broken)?;
            check_reply(node, call, &reply).map(|()| reply)
        });
        reply.inspect_err(|error| tracing::debug!(%node, %error, "lease call failed")).ok()
    }
}

fn check(settings: &MeshSettings, identity: &NodeIdentity) -> Result<(), MeshStartError> {
    if settings.advertise.is_none() && settings.bind.ip().is_unspecified() {
        return Err(MeshStartError::NoAddress { bind: settings.bind });
    }
    if let Some(advertise) = settings.advertise.filter(|advertise| advertise.ip().is_unspecified()) {
        return Err(MeshStartError::Unspecified { advertise });
    }
    let same = |field, configured: &str, certificate: &str| {
        if configured == certificate {
            return Ok(());
        }
        let (configured, certificate) = (configured.to_owned(), certificate.to_owned());
        Err(MeshStartError::OtherIdentity { field, configured, certificate })
    };
    same("node.name", settings.node.as_str(), identity.node().as_str())?;
    same("node.cluster", &settings.cluster, identity.cluster())
}

#[cfg(test)]
mod tests;
