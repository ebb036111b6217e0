//! The network between hosts: one for gossip, leases and rails alike.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::settings::Link;

/// A datagram of a stream that was lost is sent again after this long, in milliseconds.
const RESEND_MS: f64 = 25.0;
/// Losses in a row of one message at most.
const MAX_LOSSES: u32 = 8;

/// The network between hosts, directed edge by directed edge.
#[derive(Debug)]
pub struct Network {
    link: Link,
    cut: BTreeSet<(usize, usize)>,
    loss: BTreeMap<(usize, usize), f64>,
    slow_ms: BTreeMap<(usize, usize), f64>,
    muted: BTreeSet<usize>,
    rng: ChaCha8Rng,
}

impl Network {
    pub(super) fn new(link: Link, seed: u64) -> Self {
        Self {
            link,
            cut: BTreeSet::new(),
            loss: BTreeMap::new(),
            slow_ms: BTreeMap::new(),
            muted: BTreeSet::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Whether anything gets from one host to the other.
    #[must_use]
    pub fn connects(&self, from: usize, to: usize) -> bool {
        from == to || !self.cut.contains(&(from, to))
    }

    /// Whether both hear each other.
    #[must_use]
    pub fn connects_both(&self, one: usize, other: usize) -> bool {
        self.connects(one, other) && self.connects(other, one)
    }

    /// Whether the two edges between two hosts are as the network's others.
    #[must_use]
    pub fn is_plain(&self, one: usize, other: usize) -> bool {
        [(one, other), (other, one)]
            .iter()
            .all(|edge| !self.cut.contains(edge) && !self.loss.contains_key(edge) && !self.slow_ms.contains_key(edge))
    }

    /// Whether any edge is cut.
    #[must_use]
    pub fn any_cut(&self) -> bool {
        !self.cut.is_empty()
    }

    /// Whether a host's load records are held back.
    #[must_use]
    pub fn is_muted(&self, node: usize) -> bool {
        self.muted.contains(&node)
    }

    pub(super) fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        if cut && from != to {
            self.cut.insert((from, to));
        } else {
            self.cut.remove(&(from, to));
        }
    }

    pub(super) fn set_loss(&mut self, from: usize, to: usize, loss: Option<f64>) {
        match loss {
            Some(loss) => self.loss.insert((from, to), loss.clamp(0.0, 1.0)),
            None => self.loss.remove(&(from, to)),
        };
    }

    pub(super) fn set_slow(&mut self, from: usize, to: usize, ms: Option<f64>) {
        match ms {
            Some(ms) => self.slow_ms.insert((from, to), ms.max(0.0)),
            None => self.slow_ms.remove(&(from, to)),
        };
    }

    pub(super) fn set_muted(&mut self, node: usize, muted: bool) {
        if muted {
            self.muted.insert(node);
        } else {
            self.muted.remove(&node);
        }
    }

    /// How long a datagram takes, in nanoseconds; none if it is lost.
    pub(super) fn datagram(&mut self, from: usize, to: usize) -> Option<u64> {
        let arrives = self.connects(from, to) && !self.loses(from, to);
        let delay = self.delay_ms(from, to);
        arrives.then(|| nanos(delay))
    }

    /// How long a message on a stream takes, in nanoseconds; none while the edge is cut.
    pub(super) fn message(&mut self, from: usize, to: usize) -> Option<u64> {
        let mut delay = self.delay_ms(from, to);
        let mut losses = 0;
        while losses < MAX_LOSSES && self.loses(from, to) {
            losses += 1;
            delay += RESEND_MS;
        }
        self.connects(from, to).then(|| nanos(delay))
    }

    fn delay_ms(&mut self, from: usize, to: usize) -> f64 {
        let slow = self.slow_ms.get(&(from, to)).copied().unwrap_or(0.0);
        self.link.latency_ms + slow + self.link.jitter_ms * self.rng.random::<f64>()
    }

    fn loses(&mut self, from: usize, to: usize) -> bool {
        let loss = self.loss.get(&(from, to)).copied().unwrap_or(self.link.loss);
        loss > 0.0 && self.rng.random::<f64>() < loss
    }
}

pub(super) fn nanos(ms: f64) -> u64 {
    // Below 2^53 in every use: a whole number of nanoseconds.
    libm::round(ms.max(0.0) * 1e6) as u64
}
