//! Finding the others: what a starting node asks of its seeds, and how it keeps in touch with them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use ractor::ActorRef;
use tokio::time::timeout;

use super::MeshStartError;
use super::actor::Message;
use super::frames::{Hello, HelloReply, Kind, PATIENCE, StreamError, read_message, write_question};
use super::mailbox::Mailbox;
use super::peers::Peers;
use crate::codec;
use crate::mesh::Input;
use crate::model::{Generation, NodeName};
use crate::net::{Connection, Endpoint, HostPort, NetError};

/// A node that starts waits this long for what its seeds know of it.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// Whoever holds this node's name already has this long to say so.
const HOLDER_PATIENCE: Duration = Duration::from_millis(400);
/// Between two attempts at a seed that does not answer.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Between two looks at a seed that does.
const LOOK: Duration = Duration::from_secs(10);
/// Addresses of one seed that are tried.
const MAX_ADDRS: usize = 8;

/// Where this node itself listens, so that it does not take itself for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) advertised: SocketAddr,
    pub(super) bound: SocketAddr,
}

impl Own {
    pub(super) fn is(&self, addr: SocketAddr) -> bool {
        let here = |ip: IpAddr| std::net::UdpSocket::bind((ip, 0)).is_ok();
        let listens = self.bound.ip() == addr.ip() || self.bound.ip().is_unspecified() && here(addr.ip());
        addr == self.advertised || addr.port() == self.bound.port() && listens
    }
}

/// What others told a node that starts. Any of it may be false.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// The latest life of its name.
    pub(super) life: Option<Generation>,
    /// The latest of their clocks, in milliseconds since the Unix epoch.
    pub(super) wall_ms: u64,
}

/// Who is starting.
pub(super) struct Starting<'a> {
    pub(super) me: &'a NodeName,
    pub(super) own: Own,
    pub(super) endpoint: &'a Endpoint,
    pub(super) seeds: &'a [HostPort],
}

impl Starting<'_> {
    /// What others know of this node's name and of the time, as far as they answer in time.
    ///
    /// # Errors
    /// A process of the same name is running.
    pub(super) async fn seen(&self) -> Result<Seen, MeshStartError> {
        let nothing = || Ok(Seen::default());
        let ask = async |seed: &HostPort| timeout(START_PATIENCE, self.ask(seed)).await.unwrap_or_else(|_| nothing());
        let mut seen = Seen::default();
        for answer in join_all(self.seeds.iter().map(ask)).await {
            let Seen { life, wall_ms } = answer?;
            seen = Seen { life: seen.life.max(life), wall_ms: seen.wall_ms.max(wall_ms) };
        }
        Ok(seen)
    }

    /// Whether no seed is anyone else.
    pub(super) async fn alone(&self) -> bool {
        for seed in self.seeds {
            let addrs = timeout(START_PATIENCE, resolve(seed)).await.unwrap_or_default();
            if addrs.is_empty() || !addrs.into_iter().all(|addr| self.own.is(addr)) {
                return false;
            }
        }
        true
    }

    async fn ask(&self, seed: &HostPort) -> Result<Seen, MeshStartError> {
        for addr in resolve(seed).await {
            if self.own.is(addr) {
                continue;
            }
            let Ok(connection) = self.endpoint.connect(addr, None).await else { continue };
            if connection.peer() == self.me {
                return Err(self.taken(addr));
            }
            let Ok(HelloReply { known, wall_ms, .. }) = hello(&connection, self.me).await else { continue };
            let Some((generation, holder)) = known else { return Ok(Seen { life: None, wall_ms }) };
            let dial = timeout(HOLDER_PATIENCE, self.endpoint.connect(holder, Some(self.me)));
            if !self.own.is(holder) && matches!(dial.await, Ok(Ok(_))) {
                return Err(self.taken(holder));
            }
            return Ok(Seen { life: Some(generation), wall_ms });
        }
        Ok(Seen::default())
    }

    fn taken(&self, addr: SocketAddr) -> MeshStartError {
        MeshStartError::NameTaken { node: self.me.clone(), addr }
    }
}

/// What following a seed needs of the world.
pub(super) trait Seek: Send + Sync + 'static {
    /// Where the seed is by now; nowhere, if its name is not known.
    fn resolve<'a>(&'a self, seed: &'a HostPort) -> BoxFuture<'a, Vec<SocketAddr>>;
    /// Connects to whoever is there. Nothing comes back if that is this node itself.
    fn connect(&self, addr: SocketAddr) -> BoxFuture<'_, Result<Option<NodeName>, NetError>>;
    /// Whether there is a connection to a node.
    fn connected(&self, node: &NodeName) -> bool;
    /// Tells the mesh that a seed is there; false once nobody listens any more.
    fn seen(&self, node: NodeName, addr: SocketAddr) -> BoxFuture<'_, bool>;
}

/// Keeps in touch with one seed for as long as anybody listens.
pub(super) async fn follow(seed: HostPort, world: impl Seek) {
    let mut retry = RETRY.0;
    let mut known: Option<(NodeName, SocketAddr)> = None;
    // Said once until the seed has answered again: it is tried for ever.
    let mut warned = false;
    loop {
        if known.as_ref().is_none_or(|(name, _)| !world.connected(name)) {
            known = find(&seed, &world, &mut warned).await;
        }
        let Some((node, addr)) = known.clone() else {
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY.1);
            continue;
        };
        retry = RETRY.0;
        if !world.seen(node, addr).await {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Looks a seed up and connects to it, whoever it is, unless it is this node itself.
async fn find(seed: &HostPort, world: &impl Seek, warned: &mut bool) -> Option<(NodeName, SocketAddr)> {
    let addrs = world.resolve(seed).await;
    if addrs.is_empty() && !std::mem::replace(warned, true) {
        tracing::warn!(%seed, "seed has no address; it is looked up again until it has");
    }
    for addr in addrs {
        match world.connect(addr).await {
            Ok(Some(name)) => {
                *warned = false;
                return Some((name, addr));
            }
            Ok(None) => {}
            Err(error) if !std::mem::replace(warned, true) => {
                tracing::warn!(%seed, %addr, %error, "seed does not answer; it is tried again until it does");
            }
            Err(error) => tracing::debug!(%seed, %addr, %error, "seed does not answer"),
        }
    }
    None
}

/// The network, the resolver of this host, and the mesh of this node.
pub(super) struct World {
    pub(super) own: Own,
    pub(super) me: NodeName,
    pub(super) endpoint: Endpoint,
    pub(super) peers: Arc<Peers>,
    pub(super) actor: ActorRef<Message>,
    pub(super) mailbox: Mailbox,
}

impl Seek for World {
    fn resolve<'a>(&'a self, seed: &'a HostPort) -> BoxFuture<'a, Vec<SocketAddr>> {
        Box::pin(resolve(seed))
    }

    fn connect(&self, addr: SocketAddr) -> BoxFuture<'_, Result<Option<NodeName>, NetError>> {
        Box::pin(async move {
            if self.own.is(addr) {
                return Ok(None);
            }
            let connection = self.endpoint.connect(addr, None).await?;
            if *connection.peer() == self.me {
                return Ok(None);
            }
            let name = connection.peer().clone();
            self.peers.adopt(connection, &self.me);
            Ok(Some(name))
        })
    }

    fn connected(&self, node: &NodeName) -> bool {
        self.peers.existing(node).is_some()
    }

    fn seen(&self, node: NodeName, addr: SocketAddr) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(permit) = self.mailbox.room().await else { return false };
            self.actor.cast(Message::Input(Input::SeedSeen { node, addr }, Some(permit))).is_ok()
        })
    }
}

async fn resolve(seed: &HostPort) -> Vec<SocketAddr> {
    match timeout(PATIENCE, tokio::net::lookup_host((seed.host.as_str(), seed.port))).await {
        Ok(Ok(addrs)) => addrs.take(MAX_ADDRS).collect(),
        Ok(Err(error)) => {
            tracing::debug!(%seed, %error, "seed not found");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

pub(super) async fn hello(connection: &Connection, name: &NodeName) -> Result<HelloReply, StreamError> {
    let ask = async {
        let (mut send, mut receive) = connection.quinn().open_bi().await.map_err(StreamError::broken)?;
        let bytes = codec::encode(&Hello { name: name.clone() }).map_err(StreamError::broken)?;
        write_question(&mut send, Kind::Hello, &bytes).await?;
        read_message(&mut receive).await
    };
    timeout(PATIENCE, ask).await.map_err(StreamError::broken)?
}

#[cfg(test)]
mod tests;
