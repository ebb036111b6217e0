//! A decode host as its peers know it: what it says of itself, its headroom, and whether it answers.

use serde::{Deserialize, Serialize};

use super::Own;
use crate::api::RouteRequest;
use crate::core::{Mono, Now};
use crate::model::{Capacity, Generation, LoadRecord, ModelName, NodeName, NodeRecord, Reason};
use crate::policy::decide::Verdict;

/// How long a host that let an ask go unanswered is not asked again, in milliseconds; doubles each
/// time, up to the maximum.
const SILENCE_MS: u64 = 1_000;
const MAX_SILENCE_MS: u64 = 30_000;

/// What one request demands of a host, whatever its path.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Demand<'a> {
    pub(in crate::policy) kv_bytes: u64,
    pub(in crate::policy) model: Option<&'a ModelName>,
    pub(in crate::policy) exclude: &'a [NodeName],
}

impl<'a> Demand<'a> {
    pub(in crate::policy) fn of(request: &'a RouteRequest) -> Self {
        Self { kv_bytes: request.kv_bytes, model: request.model.as_ref(), exclude: &request.exclude }
    }
}

/// A peer, as it describes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) generation: Generation,
    pub(super) record: NodeRecord,
    pub(super) load: Option<Load>,
    /// Asks of this node that the peer has not answered.
    pub(super) unanswered: u32,
    pub(super) silence: Option<Silence>,
}

/// A host that let asks go unanswered, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Silence {
    times: u32,
    until: Mono,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// A host's newest word on its headroom.
pub(super) struct Load {
    pub(super) record: LoadRecord,
    pub(super) heard: Now,
}

impl Peer {
    pub(super) fn new(generation: Generation, record: NodeRecord) -> Self {
        Self { generation, record, load: None, unanswered: 0, silence: None }
    }

    /// It let an ask go unanswered: it is not asked for a while, longer each time.
    pub(super) fn silent(&mut self, now: Now) {
        let times = self.silence.map_or(0, |silence| silence.times);
        let hold_ms = (SILENCE_MS << times.min(16)).min(MAX_SILENCE_MS);
        self.silence = Some(Silence { times: times.saturating_add(1), until: now.mono.plus_ms(hold_ms) });
    }

    pub(super) fn capacity(&self) -> Capacity {
        match &self.load {
            Some(Load { record, .. }) => Capacity {
                active_sessions: record.active_sessions.saturating_add(self.unanswered),
                max_capacity: record.max_sessions.max(1),
                soft_fraction: record.soft_fraction,
            },
            None => Capacity { active_sessions: self.unanswered, max_capacity: 1, soft_fraction: 1.0 },
        }
    }

    /// Why this host cannot serve a request whatever its path's health.
    pub(super) fn bar(&self, now: Now, own: &Own, demand: Demand<'_>) -> Option<Verdict> {
        let plain = |code| Some(Verdict { code, observed: None, limit: None });
        let record = &self.record;
        if demand.exclude.contains(&record.node) {
            return plain(Reason::RejectedOverride);
        }
        let wanted = demand.model.or(own.model.as_ref());
        if record.compat != own.compat
            || (wanted.is_some() && record.model.is_some() && record.model.as_ref() != wanted)
        {
            return plain(Reason::RejectedIncompatible);
        }
        let Some(Load { record: load, .. }) = &self.load else {
            return plain(Reason::RejectedUnproven);
        };
        if load.draining {
            return plain(Reason::RejectedDraining);
        }
        if self.silence.is_some_and(|silence| silence.until > now.mono) {
            return plain(Reason::RejectedLeaseRefused);
        }
        if load.kv_bytes_free < demand.kv_bytes {
            let (observed, limit) = (Some(load.kv_bytes_free as f64), Some(demand.kv_bytes as f64));
            return Some(Verdict { code: Reason::RejectedCapacity, observed, limit });
        }
        None
    }
}
