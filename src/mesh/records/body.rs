//! What a record says, and whether it can be true.

use std::sync::Arc;

use super::super::Refusal;
use super::super::wire::{Envelope, MAX_RECORD, MAX_RUMOUR, RecordKind};
use crate::codec::{self, CodecError, Wire};
use crate::model::{LoadRecord, NodeRecord, PathHealth, PathsRecord};

/// A record's content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Node(Arc<NodeRecord>),
    Load(LoadRecord),
    Paths(PathsRecord),
}

impl Wire for NodeRecord {
    const NAME: &'static str = "node record";
    const LIMIT: usize = MAX_RECORD;
}

impl Wire for LoadRecord {
    const NAME: &'static str = "load record";
    const LIMIT: usize = MAX_RUMOUR;
}

impl Wire for PathsRecord {
    const NAME: &'static str = "paths record";
    const LIMIT: usize = MAX_RUMOUR;
}

/// A node has at most this many rails.
const MAX_RAILS: usize = 64;
/// A rail's address has at most this many bytes.
const MAX_ADDRESS: usize = 256;

impl Body {
    /// The content of a record, if its origin may say so.
    pub(crate) fn decode(envelope: &Envelope) -> Result<Self, Refusal> {
        let bytes = &envelope.body.0;
        match envelope.kind {
            RecordKind::Node => {
                let record: NodeRecord = codec::decode(bytes).map_err(refusal)?;
                let rail_is_fine = |rail: &crate::model::RailRecord| {
                    rail.address.len() <= MAX_ADDRESS && rail.bandwidth_gbps.is_finite() && rail.bandwidth_gbps > 0.0
                };
                let fine = record.node == envelope.origin
                    && record.rails.len() <= MAX_RAILS
                    && record.rails.iter().all(rail_is_fine);
                if fine { Ok(Self::Node(Arc::new(record))) } else { Err(Refusal::Malformed) }
            }
            RecordKind::Load => {
                let record: LoadRecord = codec::decode(bytes).map_err(refusal)?;
                let fine = record.soft_fraction > 0.0
                    && record.soft_fraction <= 1.0
                    && record.token_time_ms.is_none_or(not_negative);
                if fine { Ok(Self::Load(record)) } else { Err(Refusal::Malformed) }
            }
            RecordKind::Paths(chunk) => {
                let record: PathsRecord = codec::decode(bytes).map_err(refusal)?;
                if record.chunk != chunk || !record.paths.iter().all(|observed| possible(&observed.health)) {
                    return Err(Refusal::Malformed);
                }
                let own =
                    |path: &crate::model::PathId| path.source == envelope.origin || path.destination == envelope.origin;
                let own = record.paths.iter().all(|observed| own(&observed.path));
                if own { Ok(Self::Paths(record)) } else { Err(Refusal::ForeignPath) }
            }
        }
    }
}

fn possible(health: &PathHealth) -> bool {
    let share = |x: f64| not_negative(x) && x <= 1.0;
    share(health.gfs)
        && share(health.mean_drop_rate)
        && not_negative(health.p99_latency_ms)
        && not_negative(health.jitter_ms)
}

fn not_negative(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

fn refusal(error: CodecError) -> Refusal {
    if matches!(error, CodecError::TooLong { .. }) { Refusal::TooLarge } else { Refusal::Malformed }
}
