//! QUIC endpoints whose every connection is between two verified nodes of the cluster.

mod tuning;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
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

/// Why a running endpoint keeps the certificate it has.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// A running endpoint keeps its name, its cluster and its CA.
    #[error("{field}: the new certificate has {found}, this node runs with {expected}; that takes a restart")]
    OtherIdentity {
        /// Which part of the identity differs.
        field: &'static str,
        /// What it has.
        found: String,
        /// What it must have.
        expected: String,
    },
    /// The identity makes no TLS configuration.
    #[error(transparent)]
    Unfit(#[from] NetError),
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

    /// The certificate that the peer presented, DER.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<Vec<u8>> {
        certificate_of(&self.quinn).map(|cert| cert.to_vec())
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
    credentials: Credentials,
    traffic: Traffic,
    options: EndpointOptions,
    counters: Arc<Counters>,
    accepted: Mutex<mpsc::Receiver<Connection>>,
}

/// What new connections are made with.
#[derive(Clone)]
struct Credentials(Arc<RwLock<Arc<Presented>>>);

struct Presented {
    identity: NodeIdentity,
    server: ServerConfig,
    servers: tuning::ServerConfigs,
}

impl Credentials {
    fn get(&self) -> Arc<Presented> {
        // Nothing panics while it holds the lock, and the value is replaced as a whole.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, presented: Presented) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(presented);
    }
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
        let mut server = ServerConfig::with_crypto(server_crypto(identity, traffic)?);
        server.migration(false).max_incoming(MAX_HANDSHAKES);
        let servers = tuning::ServerConfigs::new(&server, traffic, options);
        let presented = Presented { identity: identity.clone(), server: server.clone(), servers };
        let credentials = Credentials(Arc::new(RwLock::new(Arc::new(presented))));

        let bind = |source| NetError::Bind { addr, source };
        let socket = traffic.socket(addr).map_err(bind)?;
        let runtime = quinn::default_runtime().ok_or_else(|| bind(io::Error::other("no tokio runtime")))?;
        let mut config = EndpointConfig::default();
        config
            .max_udp_payload_size(traffic.max_payload())
            .map_err(|error| bind(io::Error::other(error.to_string())))?;
        let local = socket.local_addr().map_err(bind)?;
        if let Some(secret) = identity.reset_secret() {
            secret.apply(&mut config, traffic.alpn(), local);
        }
        let quinn = quinn::Endpoint::new(config, Some(server), socket, runtime).map_err(bind)?;
        let counters = Arc::new(Counters::default());
        let (sender, receiver) = mpsc::channel(MAX_UNACCEPTED);
        tokio::spawn(accept_loop(quinn.clone(), credentials.clone(), Arc::clone(&counters), sender));
        let accepted = Mutex::new(receiver);
        let inner = Inner { quinn, local, credentials, traffic, options, counters, accepted };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Presents `identity` in every handshake from now on: a renewed certificate of the same node,
    /// of the same CA. Connections that are open stay as they are. May be called from any thread,
    /// outside a runtime too.
    ///
    /// # Errors
    /// See [`RenewError`]; nothing changed then.
    pub fn set_identity(&self, identity: &NodeIdentity) -> Result<(), RenewError> {
        let Inner { credentials, traffic, options, .. } = &*self.inner;
        let current = credentials.get();
        same_node(&current.identity, identity)?;
        let mut server = current.server.clone();
        server.crypto = server_crypto(identity, *traffic)?;
        let servers = tuning::ServerConfigs::new(&server, *traffic, *options);
        credentials.set(Presented { identity: identity.clone(), server, servers });
        Ok(())
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
        let identity = &self.inner.credentials.get().identity;
        let config = self.client_config(identity, addr, expected)?;
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
            verified(identity, quinn).map_err(|detail| NetError::Identity { addr, detail })
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

    fn client_config(
        &self,
        identity: &NodeIdentity,
        addr: SocketAddr,
        expected: Option<&NodeName>,
    ) -> Result<ClientConfig, NetError> {
        let expected = expected.map_or(Expected::AnyMember, |node| Expected::Node(node.clone()));
        let Inner { traffic, options, .. } = &*self.inner;
        let tls = identity.client_config(traffic.alpn(), expected).map_err(|error| NetError::Tls(error.to_string()))?;
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| NetError::Tls(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(traffic.transport(addr.ip(), *options)));
        Ok(config)
    }
}

fn server_crypto(identity: &NodeIdentity, traffic: Traffic) -> Result<Arc<QuicServerConfig>, NetError> {
    let tls = identity.server_config(traffic.alpn()).map_err(|error| NetError::Tls(error.to_string()))?;
    QuicServerConfig::try_from(tls).map(Arc::new).map_err(|error| NetError::Tls(error.to_string()))
}

/// Whether `new` is another certificate of the same node.
fn same_node(current: &NodeIdentity, new: &NodeIdentity) -> Result<(), RenewError> {
    let same = |field, found: &str, expected: &str| {
        if found == expected {
            return Ok(());
        }
        Err(RenewError::OtherIdentity { field, found: format!("{found:?}"), expected: format!("{expected:?}") })
    };
    same("node.cluster", new.cluster(), current.cluster())?;
    same("node.name", new.node().as_str(), current.node().as_str())?;
    if new.ca_der() == current.ca_der() {
        return Ok(());
    }
    let (found, expected) = ("another CA".to_owned(), "the one it was started with".to_owned());
    Err(RenewError::OtherIdentity { field: "tls.ca", found, expected })
}

/// Takes incoming connections until the endpoint closes; handshakes run side by side.
async fn accept_loop(
    endpoint: quinn::Endpoint,
    credentials: Credentials,
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
        let presented = credentials.get();
        let (counters, accepted) = (Arc::clone(&counters), accepted.clone());
        tokio::spawn(async move {
            let _slot = slot;
            match timeout(HANDSHAKE_LIMIT, greet(incoming, &presented)).await {
                Ok(Ok(connection)) => match accepted.try_reserve() {
                    Ok(place) => {
                        counters.accepted.fetch_add(1, Ordering::Relaxed);
                        place.send(connection);
                    }
                    Err(_) => {
                        counters.refused.fetch_add(1, Ordering::Relaxed);
                        connection.quinn.close(CODE_FULL, b"too many connections wait here");
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

async fn greet(incoming: quinn::Incoming, presented: &Presented) -> Result<Connection, String> {
    let server = presented.servers.for_peer(incoming.remote_address().ip());
    let quinn =
        incoming.accept_with(server).map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    let connection = verified(&presented.identity, quinn)?;
    let mut stream = connection.quinn.open_uni().await.map_err(|error| error.to_string())?;
    stream.write_all(&GREETING).await.map_err(|error| error.to_string())?;
    // Nothing was reset, so there is nothing to fail.
    let _ = stream.finish();
    Ok(connection)
}

/// Names a connection whose handshake, and so the verifier, has succeeded.
fn verified(identity: &NodeIdentity, quinn: quinn::Connection) -> Result<Connection, String> {
    let name =
        certificate_of(&quinn).ok_or_else(|| "no certificate".to_owned()).and_then(|cert| identity.member_name(&cert));
    match name {
        Ok(peer) => Ok(Connection { peer, quinn }),
        Err(detail) => {
            quinn.close(CODE_IDENTITY, detail.as_bytes());
            Err(detail)
        }
    }
}

fn certificate_of(quinn: &quinn::Connection) -> Option<CertificateDer<'static>> {
    let chain = quinn.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    chain.into_iter().next()
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
mod tests;
