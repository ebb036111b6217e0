//! What a record says, and whether it can be true.

use std::sync::Arc;

use super::super::wire::{Envelope, MAX_RECORD, MAX_RUMOUR, RecordKind};
use super::super::{MAX_CHUNKS, Refusal};
use crate::codec::{self, CodecError, Wire};
use crate::model::{LoadRecord, NodeRecord, ObservedPath, PathHealth, PathId, PathsRecord, RailRecord};

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

/// The content of a paths record may have this many bytes: what the longest envelope leaves.
const MAX_PATHS_BODY: usize = MAX_RUMOUR - 168;
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
                let rail_is_fine = |rail: &RailRecord| {
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
                    && record.token_time_ms.is_none_or(is_measure);
                if fine { Ok(Self::Load(record)) } else { Err(Refusal::Malformed) }
            }
            RecordKind::Paths(chunk) => {
                let record: PathsRecord = codec::decode(bytes).map_err(refusal)?;
                if record.chunk != chunk || !record.paths.iter().all(|observed| possible(&observed.health)) {
                    return Err(Refusal::Malformed);
                }
                let own = |path: &PathId| path.source == envelope.origin || path.destination == envelope.origin;
                let own = record.paths.iter().all(|observed| own(&observed.path));
                if own { Ok(Self::Paths(record)) } else { Err(Refusal::ForeignPath) }
            }
        }
    }
}

fn possible(health: &PathHealth) -> bool {
    let share = |x: f64| is_measure(x) && x <= 1.0;
    share(health.gfs)
        && share(health.mean_drop_rate)
        && is_measure(health.p99_latency_ms)
        && is_measure(health.jitter_ms)
        && health.bandwidth_ratio.is_none_or(share)
}

fn is_measure(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

fn refusal(error: CodecError) -> Refusal {
    if matches!(error, CodecError::TooLong { .. }) { Refusal::TooLarge } else { Refusal::Malformed }
}

/// Cuts an observer's paths that are not healthy into chunks that fit their records, in order. What
/// does not fit [`MAX_CHUNKS`] of them is left out.
#[must_use]
pub fn chunk_paths(paths: &[ObservedPath]) -> Vec<PathsRecord> {
    let mut chunks: Vec<PathsRecord> = Vec::new();
    for path in paths {
        if let Some(chunk) = chunks.last_mut() {
            chunk.paths.push(path.clone());
            if codec::encode(chunk).is_ok_and(|bytes| bytes.len() <= MAX_PATHS_BODY) {
                continue;
            }
            chunk.paths.pop();
        }
        match u16::try_from(chunks.len()) {
            Ok(chunk) if usize::from(chunk) < MAX_CHUNKS => {
                chunks.push(PathsRecord { chunk, paths: vec![path.clone()] });
            }
            _ => break,
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BackendKind, NodeName, PathId, RailName};

    #[test]
    fn health_that_nobody_can_have_measured_is_malformed() {
        let said = |health: PathHealth| {
            let path: PathId = "p0>d0/r0/quic".parse().unwrap();
            let record = PathsRecord { chunk: 0, paths: vec![ObservedPath { path, health }] };
            let envelope = Envelope {
                origin: NodeName::new("p0").unwrap(),
                kind: RecordKind::Paths(0),
                generation: 1,
                seq: 1,
                ttl_ms: 1,
                body: codec::Blob(codec::encode(&record).unwrap()),
                signature: codec::Blob::default(),
            };
            Body::decode(&envelope).map(|body| assert_eq!(body, Body::Paths(record)))
        };
        for ratio in [None, Some(0.0), Some(0.4), Some(1.0)] {
            assert_eq!(said(PathHealth { bandwidth_ratio: ratio, ..PathHealth::UNKNOWN }), Ok(()), "{ratio:?}");
        }
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.000_001] {
            for health in [
                PathHealth { bandwidth_ratio: Some(wrong), ..PathHealth::UNKNOWN },
                PathHealth { gfs: wrong, ..PathHealth::UNKNOWN },
                PathHealth { mean_drop_rate: wrong, ..PathHealth::UNKNOWN },
            ] {
                assert_eq!(said(health), Err(Refusal::Malformed), "{health:?}");
            }
        }
        for wrong in [f64::NAN, f64::INFINITY, -0.1] {
            for health in [
                PathHealth { p99_latency_ms: wrong, ..PathHealth::UNKNOWN },
                PathHealth { jitter_ms: wrong, ..PathHealth::UNKNOWN },
            ] {
                assert_eq!(said(health), Err(Refusal::Malformed), "{health:?}");
            }
        }
    }

    #[test]
    fn chunks_hold_every_path_in_order_and_fit_with_the_longest_names() {
        let name = |index: usize| NodeName::new(&format!("{index:0>64}")).unwrap();
        let path = |index| ObservedPath {
            path: PathId {
                source: name(0),
                destination: name(index),
                rail: RailName::new(&"r".repeat(32)).unwrap(),
                backend: BackendKind::Quic,
            },
            health: PathHealth { sample_count: u32::MAX, ..PathHealth::UNKNOWN },
        };
        let paths: Vec<_> = (1..100).map(path).collect();
        let chunks = chunk_paths(&paths);
        assert!(chunks.len() > 10 && chunks.len() <= MAX_CHUNKS);
        let all: Vec<_> = chunks.iter().flat_map(|chunk| chunk.paths.clone()).collect();
        assert_eq!(all, paths);
        for (index, chunk) in chunks.iter().enumerate() {
            assert_eq!(usize::from(chunk.chunk), index);
            let envelope = Envelope {
                origin: name(0),
                kind: RecordKind::Paths(chunk.chunk),
                generation: u64::MAX,
                seq: u64::MAX,
                ttl_ms: u32::MAX,
                body: codec::Blob(codec::encode(chunk).unwrap()),
                signature: codec::Blob(vec![0; 64]),
            };
            assert!(codec::encode(&envelope).unwrap().len() <= MAX_RUMOUR);
        }
        assert_eq!(chunk_paths(&(1..2_000).map(path).collect::<Vec<_>>()).len(), MAX_CHUNKS);
        assert!(chunk_paths(&[]).is_empty());
    }
}
