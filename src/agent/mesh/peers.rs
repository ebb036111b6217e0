//! One connection to each other member, dialled before it is needed, usable from any runtime.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::frames::StreamError;
use super::stats::{Drops, MeshStats, TrafficKind};
use crate::model::NodeName;
use crate::net::{Connection, Endpoint, EndpointCounters};

/// Packets that wait for one connection.
const MAX_BACKLOG: usize = 16;
/// Members that are remembered.
const MAX_PEERS: usize = crate::mesh::MAX_MEMBERS;
/// Two nodes that dial each other at once do so within this time.
const DUEL: Duration = Duration::from_secs(2);
/// The connection that is not kept may finish what runs on it.
const GRACE: Duration = Duration::from_secs(3);
/// After a failed dial, the next one waits this long.
const REDIAL: Duration = Duration::from_millis(500);

/// The connections of one node.
pub(super) struct Peers {
    me: NodeName,
    endpoint: Endpoint,
    runtime: Handle,
    stats: Arc<MeshStats>,
    table: Mutex<BTreeMap<NodeName, Peer>>,
    /// Told of every connection, to read from it.
    opened: tokio::sync::mpsc::Sender<Connection>,
}

struct Peer {
    addr: Option<SocketAddr>,
    up: bool,
    connection: watch::Sender<Dial>,
    since: Instant,
    initiator: NodeName,
    backlog: VecDeque<Bytes>,
}

#[derive(Clone)]
enum Dial {
    No { failed: Option<Instant> },
    Under,
    Open(Connection),
}

impl Peers {
    pub(super) fn new(
        me: NodeName,
        endpoint: Endpoint,
        stats: Arc<MeshStats>,
        opened: tokio::sync::mpsc::Sender<Connection>,
    ) -> Arc<Self> {
        let table = Mutex::new(BTreeMap::new());
        Arc::new(Self { me, endpoint, runtime: Handle::current(), stats, table, opened })
    }

    /// A member is there: remember where, and see to it that there is a connection.
    pub(super) fn up(self: &Arc<Self>, name: &NodeName, addr: SocketAddr) {
        let mut table = self.lock();
        if let Some(peer) = entry(&mut table, name) {
            let moved = peer.addr.replace(addr).is_some_and(|old| old != addr);
            peer.up = true;
            if moved && peer.open().is_some_and(|connection| connection.remote() != addr) {
                // That one leads to a life that is over.
                peer.connection.send_replace(Dial::No { failed: None });
            }
            self.dial(name, peer);
        }
    }

    /// A member is gone; it is not called any more.
    pub(super) fn down(&self, name: &NodeName) {
        if let Some(peer) = self.lock().get_mut(name) {
            peer.up = false;
            peer.backlog.clear();
        }
    }

    /// Sends a packet, or keeps it for a moment while a connection is made.
    pub(super) fn send(self: &Arc<Self>, to: &NodeName, addr: SocketAddr, packet: Bytes) {
        let mut table = self.lock();
        let Some(peer) = entry(&mut table, to) else { return self.stats.count_drop(Drops::Dial) };
        if let Some(connection) = peer.open() {
            return self.send_on(&connection, packet);
        }
        peer.addr = Some(addr);
        if peer.backlog.len() >= MAX_BACKLOG {
            peer.backlog.pop_front();
            self.stats.count_drop(Drops::Dial);
        }
        peer.backlog.push_back(packet);
        self.dial(to, peer);
    }

    /// The connection to a member that takes part, if there is one already or one can be made.
    pub(super) async fn to_member(self: &Arc<Self>, to: &NodeName) -> Option<Connection> {
        let opening = {
            let mut table = self.lock();
            let peer = table.get_mut(to).filter(|peer| peer.up)?;
            if let Some(connection) = peer.open() {
                return Some(connection);
            }
            self.dial(to, peer);
            peer.connection.subscribe()
        };
        opened(opening).await
    }

    /// The connection to whoever listens at an address under this name.
    pub(super) async fn to(self: &Arc<Self>, to: &NodeName, addr: SocketAddr) -> Result<Connection, StreamError> {
        let opening = {
            let mut table = self.lock();
            let peer = entry(&mut table, to).ok_or_else(|| StreamError("too many peers".to_owned()))?;
            if let Some(connection) = peer.open() {
                return Ok(connection);
            }
            peer.addr = Some(addr);
            self.dial(to, peer);
            peer.connection.subscribe()
        };
        opened(opening).await.ok_or_else(|| StreamError(format!("no connection to {to} at {addr}")))
    }

    /// What happened to the connections that others opened.
    pub(super) fn accepted(&self) -> EndpointCounters {
        self.endpoint.counters()
    }

    /// The open connection to a peer, if there is one.
    pub(super) fn existing(&self, to: &NodeName) -> Option<Connection> {
        self.lock().get(to)?.open()
    }

    /// Takes a new connection; of two that were made at once, both ends keep the one that the
    /// smaller name made, and otherwise the newer.
    pub(super) fn adopt(&self, connection: Connection, initiator: &NodeName) {
        // The reader of connections lives as long as the mesh; a full queue means that it is far
        // behind, and the peer will dial again.
        if self.opened.try_send(connection.clone()).is_err() {
            self.stats.count_drop(Drops::Dial);
            self.failed(connection.peer());
            return connection.close("too many connections at once");
        }
        let mut table = self.lock();
        let Some(peer) = entry(&mut table, connection.peer()) else { return };
        let old = peer.open();
        let duel = peer.since.elapsed() < DUEL && peer.initiator < *initiator;
        let keep_old = duel && old.as_ref().is_some_and(|old| old.remote() == connection.remote());
        let surplus = if keep_old { Some(connection) } else { peer.replace(connection, initiator) };
        if let Some(connection) = peer.open().filter(|_| !keep_old) {
            for packet in peer.backlog.drain(..) {
                self.send_on(&connection, packet);
            }
        }
        if let Some(surplus) = surplus {
            self.runtime.spawn(async move {
                tokio::time::sleep(GRACE).await;
                surplus.close("another connection is in use");
            });
        }
    }

    fn dial(self: &Arc<Self>, name: &NodeName, peer: &mut Peer) {
        let Some(addr) = peer.addr else { return };
        match &*peer.connection.borrow() {
            Dial::Open(connection) if connection.is_open() => return,
            Dial::Under => return,
            Dial::No { failed: Some(at) } if at.elapsed() < REDIAL => return,
            Dial::No { .. } | Dial::Open(_) => {}
        }
        peer.connection.send_replace(Dial::Under);
        let (peers, name) = (Arc::clone(self), name.clone());
        self.runtime.spawn(async move {
            match peers.endpoint.connect(addr, Some(&name)).await {
                Ok(connection) => peers.adopt(connection, &peers.me),
                Err(error) => {
                    tracing::debug!(peer = %name, %addr, %error, "no connection");
                    peers.failed(&name);
                }
            }
        });
    }

    fn failed(&self, name: &NodeName) {
        if let Some(peer) = self.lock().get_mut(name) {
            peer.backlog.clear();
            peer.connection.send_if_modified(|dial| {
                let failed = matches!(dial, Dial::Under);
                if failed {
                    *dial = Dial::No { failed: Some(Instant::now()) };
                }
                failed
            });
        }
    }

    fn send_on(&self, connection: &Connection, packet: Bytes) {
        let bytes = packet.len();
        // A packet that cannot be sent is a packet lost: membership expects that.
        if connection.quinn().send_datagram(packet).is_ok() {
            self.stats.sent(TrafficKind::Packet, bytes);
        }
    }

    /// Waits, not for long, until the packets that were sent have left this host.
    pub(super) async fn flush(&self) {
        let connections: Vec<_> = self.lock().values().filter_map(Peer::open).collect();
        for _ in 0..20 {
            let empty = |connection: &Connection| {
                connection.quinn().datagram_send_buffer_space() >= DATAGRAM_BUFFER || !connection.is_open()
            };
            if connections.iter().all(empty) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeName, Peer>> {
        // Nothing panics while it holds the table, and a table is whole between two changes.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty send buffer of a mesh connection has this much room.
const DATAGRAM_BUFFER: usize = 256 * 1024;

impl Peer {
    fn open(&self) -> Option<Connection> {
        match &*self.connection.borrow() {
            Dial::Open(connection) if connection.is_open() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Uses `connection` from now on; what was used before comes back.
    fn replace(&mut self, connection: Connection, initiator: &NodeName) -> Option<Connection> {
        let old = self.open();
        self.since = Instant::now();
        self.initiator = initiator.clone();
        self.connection.send_replace(Dial::Open(connection));
        old
    }
}

fn entry<'a>(table: &'a mut BTreeMap<NodeName, Peer>, name: &NodeName) -> Option<&'a mut Peer> {
    if table.len() >= MAX_PEERS && !table.contains_key(name) {
        let gone = table.iter().find(|(_, peer)| !peer.up && peer.open().is_none()).map(|(name, _)| name.clone())?;
        table.remove(&gone);
    }
    let new = || Peer {
        addr: None,
        up: false,
        connection: watch::Sender::new(Dial::No { failed: None }),
        since: Instant::now(),
        initiator: name.clone(),
        backlog: VecDeque::new(),
    };
    Some(table.entry(name.clone()).or_insert_with(new))
}

async fn opened(mut opening: watch::Receiver<Dial>) -> Option<Connection> {
    loop {
        match &*opening.borrow_and_update() {
            Dial::Open(connection) if connection.is_open() => return Some(connection.clone()),
            Dial::Under => {}
            Dial::No { .. } | Dial::Open(_) => return None,
        }
        opening.changed().await.ok()?;
    }
}
