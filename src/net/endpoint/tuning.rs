//! What is set differently for control traffic and for bulk, and by how far the peer is.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// The largest datagram sent over the loopback device. Larger ones only pay without segmentation
/// offload, whose batches must stay under 64 KiB.
const LOOPBACK_MTU: u16 = 65_000;

/// What a round trip is taken for before the first is measured. A lost first datagram costs three
/// of them; the usual 333 ms would be a second.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// What an operator may have to change for a network or a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// Whether batches of datagrams are cut up by the kernel or the network card, which is four
    /// times as fast where it works. The loopback device does without in any case.
    pub segmentation_offload: bool,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { segmentation_offload: true }
    }
}

/// What an endpoint carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Small and urgent: membership, records, leases. Datagrams are enabled; a silent peer is
    /// given up after five seconds.
    Mesh,
    /// KV bytes and the probes of their path: large windows.
    Rail,
    /// What is said of KV bytes that a library of its own moves: as small and urgent as the mesh.
    Fabric,
}

impl Traffic {
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Mesh => b"seam-mesh/1",
            Self::Rail => b"seam-rail/1",
            Self::Fabric => b"seam-fabric/1",
        }
    }

    /// The largest datagram that is taken in.
    pub(super) fn max_payload(self) -> u16 {
        match self {
            Self::Mesh | Self::Fabric => 1_472,
            Self::Rail => LOOPBACK_MTU,
        }
    }

    pub(super) fn socket(self, addr: SocketAddr) -> io::Result<UdpSocket> {
        let buffer = match self {
            Self::Mesh | Self::Fabric => MIB,
            Self::Rail => 4 * MIB,
        };
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        // Wishes: the system caps the buffers, and not every system has dual-stack sockets.
        let _ = socket.set_recv_buffer_size(buffer as usize);
        let _ = socket.set_send_buffer_size(buffer as usize);
        if addr.is_ipv6() {
            let _ = socket.set_only_v6(false);
        }
        socket.bind(&addr.into())?;
        Ok(socket.into())
    }

    /// The configuration of a connection to `peer`.
    pub(super) fn transport(self, peer: IpAddr, options: EndpointOptions) -> TransportConfig {
        let mut config = TransportConfig::default();
        config.initial_rtt(INITIAL_RTT).enable_segmentation_offload(options.segmentation_offload);
        match self {
            Self::Mesh | Self::Fabric => {
                idle(&mut config, 5_000);
                config
                    .keep_alive_interval(Some(Duration::from_millis(1_500)))
                    .max_concurrent_bidi_streams(VarInt::from_u32(256))
                    .max_concurrent_uni_streams(VarInt::from_u32(256))
                    .stream_receive_window(VarInt::from_u32(256 * KIB))
                    .receive_window(VarInt::from_u32(2 * MIB))
                    .send_window(u64::from(2 * MIB))
                    .datagram_receive_buffer_size(Some((256 * KIB) as usize))
                    .datagram_send_buffer_size((256 * KIB) as usize);
            }
            Self::Rail => {
                idle(&mut config, 10_000);
                let mut cubic = CubicConfig::default();
                cubic.initial_window(u64::from(MIB));
                // The connection takes in several streams' worth: one that its ledger keeps waiting
                // must not hold up the others.
                config
                    .keep_alive_interval(Some(Duration::from_secs(3)))
                    .max_concurrent_bidi_streams(VarInt::from_u32(64))
                    .max_concurrent_uni_streams(VarInt::from_u32(1))
                    .stream_receive_window(VarInt::from_u32(8 * MIB))
                    .receive_window(VarInt::from_u32(32 * MIB))
                    .send_window(u64::from(8 * MIB))
                    .datagram_receive_buffer_size(None)
                    .congestion_controller_factory(Arc::new(cubic));
                if is_loopback(peer) {
                    let mut discovery = MtuDiscoveryConfig::default();
                    discovery.upper_bound(LOOPBACK_MTU);
                    config.mtu_discovery_config(Some(discovery)).enable_segmentation_offload(false);
                }
            }
        }
        config
    }
}

/// The server's two configurations: for peers on this machine, and for all others.
pub(super) struct ServerConfigs {
    near: Arc<ServerConfig>,
    far: Arc<ServerConfig>,
}

impl ServerConfigs {
    pub(super) fn new(server: &ServerConfig, traffic: Traffic, options: EndpointOptions) -> Self {
        let with = |peer: IpAddr| {
            let mut config = server.clone();
            let mut transport = traffic.transport(peer, options);
            if traffic != Traffic::Mesh {
                // The only one-way stream of a rail is the server's greeting.
                transport.max_concurrent_uni_streams(VarInt::from_u32(0));
            }
            config.transport_config(Arc::new(transport));
            Arc::new(config)
        };
        Self { near: with(IpAddr::from([127, 0, 0, 1])), far: with(IpAddr::from([0, 0, 0, 0])) }
    }

    pub(super) fn for_peer(&self, peer: IpAddr) -> Arc<ServerConfig> {
        Arc::clone(if is_loopback(peer) { &self.near } else { &self.far })
    }
}

/// Whether `peer` is this machine; an IPv4 address may come in its IPv6 form from a dual socket.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

fn idle(config: &mut TransportConfig, limit_ms: u32) {
    config.max_idle_timeout(Some(VarInt::from_u32(limit_ms).into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_can_do_without_segmentation_offload_and_loopback_always_does() {
        let far = IpAddr::from([10, 0, 0, 1]);
        let near = IpAddr::from([127, 0, 0, 1]);
        let offloads = |peer, segmentation_offload| {
            let config = Traffic::Rail.transport(peer, EndpointOptions { segmentation_offload });
            format!("{config:?}").contains("enable_segmentation_offload: true")
        };
        assert!(offloads(far, true));
        assert!(!offloads(far, false));
        assert!(!offloads(near, true));
    }
}
