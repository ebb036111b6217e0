//! QUIC endpoints whose every connection is between two verified nodes of the cluster.

mod tuning;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ConnectionError, EndpointConfig, ServerConfig, TransportErrorCode, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

use super::NodeIdentity;
use super::tls::Expected;
use crate::model::NodeName;
pub use tuning::{EndpointOptions, Traffic};

/// Connections of one endpoint, both directions together.
const MAX_CONNECTIONS: usize = 4_096;
/// Incoming handshakes under way at once; half of them may be from unvalidated addresses.
const MAX_HANDSHAKES: usize = 256;
/// Verified connections that nobody has accepted yet.
const MAX_UNACCEPTED: usize = 256;
/// How long a handshake may take, greeting included.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// The server's first byte to a verified client: until it comes, the client does not know whether
/// its own certificate was accepted.
const GREETING: [u8; 1] = [1];

const CODE_CLOSING: VarInt = VarInt::from_u32(0);
const CODE_FULL: VarInt = VarInt::from_u32(1);
const CODE_IDENTITY: VarInt = VarInt::from_u32(2);

/// Why there is no connection, or no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address could not be bound.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// The identity makes no TLS configuration.
    #[error("TLS: {0}")]
    Tls(String),
    /// Nothing answered there in time, or it went away, or it is full.
    #[error("no connection to {addr}: {detail}")]
    Unreachable {
        /// The address.
        addr: SocketAddr,
        /// The transport's own words.
        detail: String,
    },
    /// One side did not accept the other's certificate.
    #[error("no connection to {addr}: identity refused: {detail}")]
    Identity {
        /// The address.
        addr: SocketAddr,
        /// What was found.
        detail: String,
    },
    /// This endpoint holds as many connections as it may.
    #[error("{limit} connections are open already")]
    Full {
        /// How many it may hold.
        limit: usize,
    },
    /// This endpoint is closed.
    #[error("the endpoint is closed")]
    Closed,
}

/// What happened to incoming connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Verified and handed out.
    pub accepted: u64,
    /// Turned away because a limit was reached.
    pub refused: u64,
    /// Handshakes that failed, for a wrong certificate among other things.
    pub failed: u64,
}

/// A connection to a verified node. Clones share it; it closes when the last is dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    peer: NodeName,
    quinn: quinn::Connection,
}

impl Connection {
    /// The peer's name, from its certificate.
    #[must_use]
    pub fn peer(&self) -> &NodeName {
        &self.peer
    }

    /// Whether the connection can still be used.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.quinn.close_reason().is_none()
    }

    /// Where the peer is.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.quinn.remote_address()
    }

    /// Ends the connection at once; `reason` reaches the peer.
    pub fn close(&self, reason: &str) {
        self.quinn.close(CODE_CLOSING, reason.as_bytes());
    }

    pub(crate) fn quinn(&self) -> &quinn::Connection {
        &self.quinn
    }
}

/// A UDP socket that speaks QUIC both ways. Clones share it; it closes when the last is dropped.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    quinn: quinn::Endpoint,
    local: SocketAddr,
    identity: NodeIdentity,
    traffic: Traffic,
    options: EndpointOptions,
    counters: Arc<Counters>,
    accepted: Mutex<mpsc::Receiver<Connection>>,
}

#[derive(Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.quinn.close(CODE_CLOSING, b"endpoint dropped");
    }
}

impl Endpoint {
    /// Listens on `addr` (port 0: any) as `identity`. Must be called within a tokio runtime, which
    /// then drives the endpoint.
    ///
    /// # Errors
    /// [`NetError::Bind`] if the address cannot be had, [`NetError::Tls`] if the identity is unfit.
    pub fn bind(addr: SocketAddr, identity: &NodeIdentity, traffic: Traffic) -> Result<Self, NetError> {
        Self::bind_with(addr, identity, traffic, EndpointOptions::default())
    }

    /// As [`bind`](Self::bind), with an operator's options.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_with(
        addr: SocketAddr,
        identity: &NodeIdentity,
        traffic: Traffic,
        options: EndpointOptions,
    ) -> Result<Self, NetError> {
        let tls = identity.server_config(traffic.alpn()).map_err(|error| NetError::Tls(error.to_string()))?;
        let crypto = Arc::new(QuicServerConfig::try_from(tls).map_err(|error| NetError::Tls(error.to_string()))?);
        let mut server = ServerConfig::with_crypto(crypto);
        server.migration(false).max_incoming(MAX_HANDSHAKES);
        let servers = tuning::ServerConfigs::new(&server, traffic, options);

        let bind = |source| NetError::Bind { addr, source };
        let socket = traffic.socket(addr).map_err(bind)?;
        let runtime = quinn::default_runtime().ok_or_else(|| bind(io::Error::other("no tokio runtime")))?;
        let mut config = EndpointConfig::default();
        config
            .max_udp_payload_size(traffic.max_payload())
            .map_err(|error| bind(io::Error::other(error.to_string())))?;
        let quinn = quinn::Endpoint::new(config, Some(server), socket, runtime).map_err(bind)?;
        let local = quinn.local_addr().map_err(bind)?;
        let counters = Arc::new(Counters::default());
        let (sender, receiver) = mpsc::channel(MAX_UNACCEPTED);
        tokio::spawn(accept_loop(quinn.clone(), identity.clone(), servers, Arc::clone(&counters), sender));
        let accepted = Mutex::new(receiver);
        let inner = Inner { quinn, local, identity: identity.clone(), traffic, options, counters, accepted };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Connects to `addr` and waits until both sides have accepted each other. With `expected`,
    /// only that node may answer; without, any node of the cluster. Gives up after five seconds;
    /// dropping the future gives up at once.
    ///
    /// # Errors
    /// [`NetError::Identity`] if a certificate was refused, [`NetError::Unreachable`] if nobody
    /// useful answered, [`NetError::Full`] and [`NetError::Closed`] for this side's own state.
    pub async fn connect(&self, addr: SocketAddr, expected: Option<&NodeName>) -> Result<Connection, NetError> {
        if self.inner.quinn.open_connections() >= MAX_CONNECTIONS {
            return Err(NetError::Full { limit: MAX_CONNECTIONS });
        }
        let config = self.client_config(addr, expected)?;
        let dial = async {
            let connecting =
                self.inner.quinn.connect_with(config, addr, "seam.invalid").map_err(|error| match error {
                    quinn::ConnectError::EndpointStopping => NetError::Closed,
                    other => NetError::Unreachable { addr, detail: other.to_string() },
                })?;
            let quinn = connecting.await.map_err(|error| connect_error(addr, error))?;
            let mut greeting = [0; GREETING.len()];
            let mut stream = quinn.accept_uni().await.map_err(|error| connect_error(addr, error))?;
            stream.read_exact(&mut greeting).await.map_err(|error| match error {
                quinn::ReadExactError::ReadError(quinn::ReadError::ConnectionLost(error)) => connect_error(addr, error),
                other => NetError::Unreachable { addr, detail: other.to_string() },
            })?;
            verified(&self.inner.identity, quinn).map_err(|detail| NetError::Identity { addr, detail })
        };
        timeout(HANDSHAKE_LIMIT, dial).await.unwrap_or_else(|_| {
            Err(NetError::Unreachable { addr, detail: format!("no answer within {} s", HANDSHAKE_LIMIT.as_secs()) })
        })
    }

    /// The next verified incoming connection; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Connection> {
        self.inner.accepted.lock().await.recv().await
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local
    }

    /// What happened to incoming connections so far.
    #[must_use]
    pub fn counters(&self) -> EndpointCounters {
        let counters = &self.inner.counters;
        EndpointCounters {
            accepted: counters.accepted.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        }
    }

    /// Closes every connection, accepts no more, and waits (a second at most) until the peers can
    /// have heard of it.
    pub async fn close(&self) {
        self.close_now();
        // Peers that do not hear it find out by their idle timeout.
        let _ = timeout(Duration::from_secs(1), self.inner.quinn.wait_idle()).await;
    }

    /// Closes every connection and accepts no more, without waiting.
    pub(crate) fn close_now(&self) {
        self.inner.quinn.close(CODE_CLOSING, b"closing");
    }

    fn client_config(&self, addr: SocketAddr, expected: Option<&NodeName>) -> Result<ClientConfig, NetError> {
        let expected = expected.map_or(Expected::AnyMember, |node| Expected::Node(node.clone()));
        let Inner { identity, traffic, options, .. } = &*self.inner;
        let tls = identity.client_config(traffic.alpn(), expected).map_err(|error| NetError::Tls(error.to_string()))?;
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| NetError::Tls(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(traffic.transport(addr.ip(), *options)));
        Ok(config)
    }
}

/// Takes incoming connections until the endpoint closes; handshakes run side by side.
async fn accept_loop(
    endpoint: quinn::Endpoint,
    identity: NodeIdentity,
    servers: tuning::ServerConfigs,
    counters: Arc<Counters>,
    accepted: mpsc::Sender<Connection>,
) {
    let slots = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    while let Some(incoming) = endpoint.accept().await {
        let slot = Arc::clone(&slots).try_acquire_owned();
        let Ok(slot) = slot else {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            incoming.refuse();
            continue;
        };
        if endpoint.open_connections() >= MAX_CONNECTIONS {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            incoming.refuse();
            continue;
        }
        if !incoming.remote_address_validated() && slots.available_permits() < MAX_HANDSHAKES / 2 {
            // Costs the client a round trip, and a forged address its connection. Cannot fail: the
            // address is not validated.
            let _ = incoming.retry();
            continue;
        }
        let server = servers.for_peer(incoming.remote_address().ip());
        let (identity, counters, accepted) = (identity.clone(), Arc::clone(&counters), accepted.clone());
        tokio::spawn(async move {
            let _slot = slot;
            match timeout(HANDSHAKE_LIMIT, greet(incoming, server, &identity)).await {
                Ok(Ok(connection)) => match accepted.try_send(connection) {
                    Ok(()) => _ = counters.accepted.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        counters.refused.fetch_add(1, Ordering::Relaxed);
                        error.into_inner().quinn.close(CODE_FULL, b"too many connections wait here");
                    }
                },
                Ok(Err(detail)) => {
                    counters.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%detail, "incoming connection failed");
                }
                Err(_) => _ = counters.failed.fetch_add(1, Ordering::Relaxed),
            }
        });
    }
}

async fn greet(
    incoming: quinn::Incoming,
    server: Arc<ServerConfig>,
    identity: &NodeIdentity,
) -> Result<Connection, String> {
    let quinn =
        incoming.accept_with(server).map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    let connection = verified(identity, quinn)?;
    let mut stream = connection.quinn.open_uni().await.map_err(|error| error.to_string())?;
    stream.write_all(&GREETING).await.map_err(|error| error.to_string())?;
    // Nothing was reset, so there is nothing to fail.
    let _ = stream.finish();
    Ok(connection)
}

/// Names a connection whose handshake, and so the verifier, has succeeded.
fn verified(identity: &NodeIdentity, quinn: quinn::Connection) -> Result<Connection, String> {
    let name = quinn
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok())
        .and_then(|chain| chain.first().cloned())
        .ok_or_else(|| "no certificate".to_owned())
        .and_then(|cert| identity.member_name(&cert));
    match name {
        Ok(peer) => Ok(Connection { peer, quinn }),
        Err(detail) => {
            quinn.close(CODE_IDENTITY, detail.as_bytes());
            Err(detail)
        }
    }
}

fn connect_error(addr: SocketAddr, error: ConnectionError) -> NetError {
    match error {
        ConnectionError::TransportError(error) if is_tls(error.code) => {
            NetError::Identity { addr, detail: error.reason }
        }
        ConnectionError::ConnectionClosed(close) if is_tls(close.error_code) => {
            let reason = String::from_utf8_lossy(&close.reason);
            NetError::Identity { addr, detail: format!("it did not accept this node ({reason})") }
        }
        ConnectionError::LocallyClosed => NetError::Closed,
        other => NetError::Unreachable { addr, detail: other.to_string() },
    }
}

/// TLS alerts are the transport error codes 0x100 to 0x1ff.
fn is_tls(code: TransportErrorCode) -> bool {
    (0x100..=0x1ff).contains(&u64::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn mtu_after_bulk(traffic: Traffic, enough: u16, at_most: usize) -> u16 {
        let dir = tempfile::tempdir().unwrap();
        let bind = |name: &str| {
            let identity = NodeIdentity::dev("c", &NodeName::new(name).unwrap(), dir.path()).unwrap();
            Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity, traffic).unwrap()
        };
        let (client, server) = (bind("a"), bind("b"));
        let connection = client.connect(server.local_addr(), None).await.unwrap();
        let accepted = server.accept().await.unwrap();
        let mtu = || connection.quinn().stats().path.current_mtu;
        for _ in 0..at_most {
            if mtu() >= enough {
                break;
            }
            let (mut out, _) = connection.quinn().open_bi().await.unwrap();
            out.write_all(&[7; 100_000]).await.unwrap();
            out.finish().unwrap();
            let (_, mut back) = accepted.quinn().accept_bi().await.unwrap();
            back.read_to_end(100_000).await.unwrap();
        }
        mtu()
    }

    #[tokio::test]
    async fn only_rails_over_loopback_grow_datagrams_beyond_what_any_network_carries() {
        assert!(mtu_after_bulk(Traffic::Rail, 60_000, 1_000).await >= 60_000);
        assert!(mtu_after_bulk(Traffic::Mesh, 1_473, 50).await <= 1_472);
    }

    #[tokio::test]
    async fn a_client_that_accepts_the_server_still_hears_that_its_own_certificate_was_refused() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = |name: &str, dir: &tempfile::TempDir| {
            NodeIdentity::dev("c", &NodeName::new(name).unwrap(), dir.path()).unwrap()
        };
        let server_identity = identity("b", &ours);
        let client_identity = server_identity.presenting(&identity("a", &theirs));
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::bind(any, &server_identity, Traffic::Mesh).unwrap();
        let client = Endpoint::bind(any, &client_identity, Traffic::Mesh).unwrap();
        let error = client.connect(server.local_addr(), None).await.unwrap_err();
        assert!(
            matches!(&error, NetError::Identity { detail, .. } if detail.contains("did not accept this node")),
            "{error}"
        );
        assert_eq!(server.counters().accepted, 0);
    }
}
