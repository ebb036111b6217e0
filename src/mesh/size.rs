//! How fast the mesh beats, by the size of the network it spans.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Config, PeriodicParams};
use serde::{Deserialize, Serialize};

/// A packet of membership has at most this many bytes: what a QUIC datagram carries from the first
/// round trip on, over any network.
pub const MAX_PACKET: usize = 1150;

/// The network that the mesh spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeshSize {
    /// One machine: a demo or a test.
    Local,
    /// One data centre. A dead member is known everywhere after about 5 seconds.
    #[default]
    Lan,
    /// Several data centres.
    Wan,
}

/// The periods that follow from a size, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beat {
    probe: u64,
    probe_rtt: u64,
    suspicion: u64,
    gossip: u64,
    announce_down: u64,
    /// Between two exchanges of everything with one other member.
    pub(crate) sync: u64,
    /// Silence from everybody after which this node takes itself for deaf.
    pub(crate) deaf: u64,
}

impl MeshSize {
    pub(crate) fn beat(self) -> Beat {
        match self {
            Self::Local => Beat {
                probe: 200,
                probe_rtt: 80,
                suspicion: 2_000,
                gossip: 50,
                announce_down: 2_000,
                sync: 500,
                deaf: 3_000,
            },
            Self::Lan => Beat {
                probe: 500,
                probe_rtt: 200,
                suspicion: 4_000,
                gossip: 100,
                announce_down: 5_000,
                sync: 2_000,
                deaf: 3_000,
            },
            Self::Wan => Beat {
                probe: 2_000,
                probe_rtt: 700,
                suspicion: 12_000,
                gossip: 250,
                announce_down: 15_000,
                sync: 5_000,
                deaf: 12_000,
            },
        }
    }
}

impl Beat {
    /// How old a suspicion must be before this node takes another's word that a member is down: a
    /// quarter of the time that whoever raised it waits itself, since it takes time to spread.
    pub(crate) fn doubt_ms(&self) -> u64 {
        self.suspicion / 4
    }

    /// What foca is told.
    pub(crate) fn config(&self) -> Config {
        let every =
            |ms, members| Some(PeriodicParams { frequency: Duration::from_millis(ms), num_members: count(members) });
        Config {
            probe_period: Duration::from_millis(self.probe),
            probe_rtt: Duration::from_millis(self.probe_rtt),
            num_indirect_probes: count(5),
            max_transmissions: NonZeroU8::MIN.saturating_add(3),
            suspect_to_down_after: Duration::from_millis(self.suspicion),
            remove_down_after: Some(Duration::from_secs(24 * 3600)),
            max_packet_size: count(MAX_PACKET),
            notify_down_members: true,
            periodic_announce: None,
            periodic_announce_to_down_members: every(self.announce_down, 3),
            periodic_gossip: every(self.gossip, 4),
        }
    }
}

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(n.saturating_sub(1))
}
