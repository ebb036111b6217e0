//! The network: identities, mutually authenticated QUIC endpoints, bounded frames.
//!
//! Nothing else in the crate names quinn or rustls; what the layers above need of them is
//! re-exported here. Every connection of this module is TLS 1.3 with certificates on both sides
//! that chain to the cluster's CA, and carries the peer's name, read from that certificate.

pub mod certs;
mod endpoint;
pub(crate) mod frame;
mod host_port;
mod reset;
mod tls;

pub use endpoint::{Connection, Endpoint, EndpointCounters, EndpointOptions, NetError, RenewError, Traffic};
pub use host_port::{DEFAULT_MESH_PORT, HostPort, InvalidHostPort};
pub use reset::ResetSecret;
pub use tls::{NodeIdentity, TlsError};

pub(crate) use quinn::{ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
