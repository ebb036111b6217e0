//! The connections that a rail opens: kept, dialed once at a time, given up when silent.

use std::net::SocketAddr;
use std::time::Duration;

use super::blocks::{Deadline, Late};
use super::slots::{Slot, Slots};
use super::{PathError, Peer};
use crate::model::NodeName;
use crate::net::{Connection, Endpoint, NetError};

/// Connections kept; the least recently used makes room.
const MAX_KEPT: usize = 2_048;

/// What a connection is for. Each purpose has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// Small messages and probes, which bulk must not delay.
    Small,
    Bulk,
}

type Key = (NodeName, SocketAddr, Purpose);

pub(super) struct Dialer {
    endpoint: Endpoint,
    kept: Slots<Key, Connection>,
}

impl Dialer {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, kept: Slots::new(MAX_KEPT) }
    }

    /// Runs `work` on the connection to `peer` for `purpose`, dialing it first if there is none;
    /// all of it within `deadline`. A connection on which nothing at all arrived while `work` ran
    /// into its deadline is forgotten: the peer may have restarted without it.
    pub(super) async fn run<T>(
        &self,
        peer: &Peer,
        purpose: Purpose,
        deadline: &Deadline,
        work: impl AsyncFnOnce(Connection) -> Result<T, PathError>,
    ) -> Result<T, PathError> {
        let addr = peer
            .address
            .parse()
            .map_err(|_| PathError::Local(format!("address of {}: {:?} is not IP:PORT", peer.node, peer.address)))?;
        let slot = self.kept.slot((peer.node.clone(), addr, purpose));
        let mut used = None;
        let attempt = async {
            let connection = self.connection(&slot, peer, addr).await?;
            used = Some((connection.clone(), arrived(&connection)));
            work(connection).await
        };
        let result = deadline.within(Duration::ZERO, attempt).await;
        result.unwrap_or_else(|Late| {
            if let Some((connection, before)) = used
                && arrived(&connection) == before
                && let Ok(mut kept) = slot.try_lock()
            {
                kept.take_if(|kept| kept.quinn().stable_id() == connection.quinn().stable_id());
            }
            Err(PathError::TimedOut { peer: peer.node.clone(), limit_ms: millis(deadline.limit), doubt: None })
        })
    }

    /// Forgets every connection.
    pub(super) fn clear(&self) {
        self.kept.clear();
    }

    async fn connection(
        &self,
        slot: &Slot<Connection>,
        peer: &Peer,
        addr: SocketAddr,
    ) -> Result<Connection, PathError> {
        let mut kept = slot.lock().await;
        if let Some(connection) = kept.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        *kept = None;
        let connection = self.endpoint.connect(addr, Some(&peer.node)).await.map_err(|error| match error {
            NetError::Unreachable { detail, .. } => PathError::PeerGone { peer: peer.node.clone(), detail },
            NetError::Identity { detail, .. } => PathError::Refused { peer: peer.node.clone(), detail },
            NetError::Bind { .. } | NetError::Tls(_) | NetError::Full { .. } | NetError::Closed => {
                PathError::Local(error.to_string())
            }
        })?;
        *kept = Some(connection.clone());
        Ok(connection)
    }
}

/// Datagrams that have arrived on a connection.
fn arrived(connection: &Connection) -> u64 {
    connection.quinn().stats().udp_rx.datagrams
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
