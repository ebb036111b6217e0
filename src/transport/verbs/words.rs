//! What the two ends of a link tell each other, and what of it is believed.

use serde::{Deserialize, Serialize};

use super::sysfs::is_ipv4;
use crate::codec::{self, Wire};
use crate::transport::fabric::FabricError;

/// Numbers of queue pairs and of packets have so many bits.
const NUMBER_BITS: u32 = 24;
/// The largest of the latter.
#[cfg(feature = "verbs")]
pub(super) const MAX_PACKET: u32 = (1 << NUMBER_BITS) - 1;
/// The largest path MTU, as devices number them: 4096 bytes.
const MAX_MTU: u8 = 5;
/// The first LID that is not one port's.
const FIRST_MULTICAST_LID: u16 = 0xc000;

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// The queue pair's number.
    pub(super) queue_pair: u32,
    /// The number of the first packet that it sends.
    pub(super) first_packet: u32,
    /// The most that its port carries in a packet: 1 for 256 bytes, each further one doubles it.
    pub(super) mtu: u8,
    /// Whether its port is one of Ethernet, not of InfiniBand.
    pub(super) ethernet: bool,
    /// The port's number within an InfiniBand subnet.
    pub(super) lid: u16,
    /// The port's address.
    pub(super) gid: [u8; 16],
}

/// Memory that the peer may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// Where it is in its host's memory.
    pub(super) address: u64,
    /// Its size.
    pub(super) bytes: u64,
    /// What a write to it must show.
    pub(super) key: u32,
}

/// The words of whoever wants to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub(super) end: End,
}

/// The words of whoever will be written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Welcome {
    pub(super) end: End,
    pub(super) arena: Memory,
    /// Where probes go.
    pub(super) scratch: Memory,
}

impl Wire for Greeting {
    const NAME: &'static str = "verbs greeting";
    const LIMIT: usize = 128;
}

impl Wire for Welcome {
    const NAME: &'static str = "verbs welcome";
    const LIMIT: usize = 256;
}

/// A greeting, if the peer's end can be one of a link with `own`.
pub(super) fn greeting(bytes: &[u8], own: &End) -> Result<Greeting, FabricError> {
    let greeting: Greeting = decoded(bytes)?;
    fits(&greeting.end, own)?;
    Ok(greeting)
}

/// A welcome, if the peer's end can be one of a link with `own`, and at least `scratch_bytes` are there for
/// probes.
pub(super) fn welcome(bytes: &[u8], own: &End, scratch_bytes: u64) -> Result<Welcome, FabricError> {
    let welcome: Welcome = decoded(bytes)?;
    fits(&welcome.end, own)?;
    let ends = [&welcome.arena, &welcome.scratch].map(|memory| memory.address.checked_add(memory.bytes));
    if ends.contains(&None) {
        return Err(FabricError::Protection("the peer gave memory beyond all addresses".to_owned()));
    }
    if welcome.scratch.bytes < scratch_bytes {
        let found = welcome.scratch.bytes;
        return Err(FabricError::Skew(format!("the peer keeps {found} bytes for probes, {scratch_bytes} are needed")));
    }
    Ok(welcome)
}

fn decoded<T: Wire>(bytes: &[u8]) -> Result<T, FabricError> {
    codec::decode(bytes).map_err(|error| FabricError::Skew(format!("words that no verbs rail wrote: {error}")))
}

fn fits(peer: &End, own: &End) -> Result<(), FabricError> {
    let skew = |words: String| Err(FabricError::Skew(words));
    // 0 and 1 belong to the subnet's own management.
    if !(2..1 << NUMBER_BITS).contains(&peer.queue_pair) || peer.first_packet >= 1 << NUMBER_BITS {
        let End { queue_pair, first_packet, .. } = peer;
        return skew(format!("the peer's queue pair {queue_pair} or first packet {first_packet} cannot be"));
    }
    if !(1..=MAX_MTU).contains(&peer.mtu) {
        return skew(format!("the peer's MTU has the number {}, allowed 1 to {MAX_MTU}", peer.mtu));
    }
    if peer.ethernet != own.ethernet {
        let of = |ethernet| if ethernet { "Ethernet" } else { "InfiniBand" };
        return skew(format!("the peer's port is one of {}, this one of {}", of(peer.ethernet), of(own.ethernet)));
    }
    if !peer.ethernet && !(1..FIRST_MULTICAST_LID).contains(&peer.lid) {
        return skew(format!("the peer's LID {} is no port's", peer.lid));
    }
    let is_multicast = peer.gid.first() == Some(&0xff);
    if peer.gid == [0; 16] || is_multicast {
        return skew("the peer's address is no port's".to_owned());
    }
    if peer.ethernet && is_ipv4(&peer.gid) != is_ipv4(&own.gid) {
        let of = |gid| if is_ipv4(gid) { "IPv4" } else { "IPv6" };
        return skew(format!(
            "the peer's address is one of {}, this one's of {}: choose others by rails.verbs.gid_index",
            of(&peer.gid),
            of(&own.gid)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end() -> End {
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 1, 2];
        End { queue_pair: 17, first_packet: 0xff_ffff, mtu: 5, ethernet: true, lid: 0, gid }
    }

    fn memory(address: u64, bytes: u64) -> Memory {
        Memory { address, bytes, key: 0x1234 }
    }

    fn as_welcome(end: End, arena: Memory) -> Vec<u8> {
        codec::encode(&Welcome { end, arena, scratch: memory(4_096, 1 << 20) }).unwrap()
    }

    #[test]
    fn what_an_honest_peer_says_is_believed() {
        let bytes = codec::encode(&Greeting { end: end() }).unwrap();
        assert_eq!(greeting(&bytes, &end()).unwrap().end, end());
        let bytes = as_welcome(end(), memory(u64::MAX - 5, 5));
        assert_eq!(welcome(&bytes, &end(), 1 << 20).unwrap().arena.bytes, 5);
        let infiniband = End { ethernet: false, lid: 7, ..end() };
        let bytes = codec::encode(&Greeting { end: infiniband.clone() }).unwrap();
        assert!(greeting(&bytes, &infiniband).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        let cases = [
            (End { queue_pair: 0, ..end() }, "queue pair 0"),
            (End { queue_pair: 1 << 24, ..end() }, "queue pair 16777216"),
            (End { first_packet: 1 << 24, ..end() }, "first packet 16777216"),
            (End { mtu: 0, ..end() }, "MTU has the number 0"),
            (End { mtu: 6, ..end() }, "MTU has the number 6, allowed 1 to 5"),
            (End { ethernet: false, lid: 3, ..end() }, "is one of InfiniBand, this one of Ethernet"),
            (End { gid: [0; 16], ..end() }, "address is no port's"),
            (End { gid: [0xff; 16], ..end() }, "address is no port's"),
            (End { gid: [0x20; 16], ..end() }, "is one of IPv6, this one's of IPv4: choose others"),
        ];
        for (peer, words) in cases {
            let bytes = codec::encode(&Greeting { end: peer }).unwrap();
            let error = greeting(&bytes, &end()).unwrap_err();
            assert!(matches!(&error, FabricError::Skew(found) if found.contains(words)), "{error}");
        }
        let infiniband = End { ethernet: false, lid: 7, ..end() };
        for lid in [0, 0xc000] {
            let bytes = codec::encode(&Greeting { end: End { lid, ..infiniband.clone() } }).unwrap();
            assert!(greeting(&bytes, &infiniband).unwrap_err().to_string().contains("LID"));
        }
        let error = welcome(&as_welcome(end(), memory(u64::MAX - 5, 6)), &end(), 1 << 20).unwrap_err();
        assert!(matches!(error, FabricError::Protection(_)), "{error}");
        let error = welcome(&as_welcome(end(), memory(0, 1)), &end(), (1 << 20) + 1).unwrap_err();
        assert!(error.to_string().contains("keeps 1048576 bytes for probes"), "{error}");
    }

    #[test]
    fn the_longest_words_fit() {
        let most = End {
            queue_pair: u32::MAX,
            first_packet: u32::MAX,
            mtu: u8::MAX,
            ethernet: true,
            lid: u16::MAX,
            gid: [0xff; 16],
        };
        codec::encode(&Greeting { end: most.clone() }).unwrap();
        let memory = Memory { address: u64::MAX, bytes: u64::MAX, key: u32::MAX };
        codec::encode(&Welcome { end: most, arena: memory, scratch: memory }).unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_are_words_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (greeting(&bytes, &end()), welcome(&bytes, &end(), 1));
        }
    }
}
