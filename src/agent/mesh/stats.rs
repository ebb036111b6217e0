//! What the mesh counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::mesh::{MemberState, Refusal};

/// What goes over the network for the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficKind {
    /// Packets of membership and rumours.
    Packet,
    /// Exchanges of everything.
    Sync,
    /// Lease calls and their answers.
    Lease,
}

impl TrafficKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Packet, Self::Sync, Self::Lease];

    /// The name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Sync => "sync",
            Self::Lease => "lease",
        }
    }
}

/// Where something was dropped because too much was waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// The gossip actor's mailbox.
    Mailbox,
    /// Packets that waited for a connection.
    Dial,
    /// Questions of others, waiting for an answer.
    Questions,
}

impl Drops {
    /// All places.
    pub const ALL: [Self; 3] = [Self::Mailbox, Self::Dial, Self::Questions];

    /// The name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mailbox => "mesh_mailbox",
            Self::Dial => "mesh_dial",
            Self::Questions => "mesh_questions",
        }
    }
}

/// Counters and gauges of one node's mesh; each may be read at any time.
#[derive(Debug, Default)]
pub struct MeshStats {
    messages: [[AtomicU64; 3]; 2],
    bytes: [[AtomicU64; 3]; 2],
    refused: [AtomicU64; Refusal::ALL.len()],
    dropped: [AtomicU64; 3],
    members: [AtomicU64; 3],
}

impl MeshStats {
    /// Messages sent, of one kind.
    #[must_use]
    pub fn messages_out(&self, kind: TrafficKind) -> u64 {
        read(&self.messages, OUT, kind)
    }

    /// Messages received, of one kind.
    #[must_use]
    pub fn messages_in(&self, kind: TrafficKind) -> u64 {
        read(&self.messages, IN, kind)
    }

    /// Payload bytes sent, of one kind.
    #[must_use]
    pub fn bytes_out(&self, kind: TrafficKind) -> u64 {
        read(&self.bytes, OUT, kind)
    }

    /// Payload bytes received, of one kind.
    #[must_use]
    pub fn bytes_in(&self, kind: TrafficKind) -> u64 {
        read(&self.bytes, IN, kind)
    }

    /// What was not believed, for one reason.
    #[must_use]
    pub fn refused(&self, reason: Refusal) -> u64 {
        load(self.refused.get(reason as usize))
    }

    /// What was dropped, in one place.
    #[must_use]
    pub fn dropped(&self, place: Drops) -> u64 {
        load(self.dropped.get(place as usize))
    }

    /// Members in one state, this node included.
    #[must_use]
    pub fn members(&self, state: MemberState) -> u64 {
        load(self.members.get(state as usize))
    }

    pub(super) fn sent(&self, kind: TrafficKind, bytes: usize) {
        self.moved(OUT, kind, bytes);
    }

    pub(super) fn received(&self, kind: TrafficKind, bytes: usize) {
        self.moved(IN, kind, bytes);
    }

    pub(super) fn count_refusal(&self, reason: Refusal) {
        add(self.refused.get(reason as usize), 1);
    }

    pub(super) fn count_drop(&self, place: Drops) {
        add(self.dropped.get(place as usize), 1);
    }

    pub(super) fn set_members(&self, counts: [u64; 3]) {
        for (gauge, count) in self.members.iter().zip(counts) {
            gauge.store(count, Ordering::Relaxed);
        }
    }

    fn moved(&self, direction: usize, kind: TrafficKind, bytes: usize) {
        add(self.messages.get(direction).and_then(|kinds| kinds.get(kind as usize)), 1);
        add(self.bytes.get(direction).and_then(|kinds| kinds.get(kind as usize)), bytes as u64);
    }
}

const OUT: usize = 0;
const IN: usize = 1;

fn read(counters: &[[AtomicU64; 3]; 2], direction: usize, kind: TrafficKind) -> u64 {
    load(counters.get(direction).and_then(|kinds| kinds.get(kind as usize)))
}

fn load(counter: Option<&AtomicU64>) -> u64 {
    counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
}

fn add(counter: Option<&AtomicU64>, amount: u64) {
    if let Some(counter) = counter {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
