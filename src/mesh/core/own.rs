//! What this node says of itself: numbered, signed, and said again before it expires.

use std::collections::BTreeMap;

use super::super::wire::{Envelope, MAX_RECORD, MAX_RUMOUR, RecordKind};
use super::super::{MAX_CHUNKS, Output, Refusal};
use super::MeshCore;
use crate::codec::{self, Blob, Wire};
use crate::core::{Mono, Now};
use crate::model::{Generation, LoadRecord, NodeRecord, PathsRecord};

/// A node record holds this long, in milliseconds.
const NODE_TTL_MS: u32 = 300_000;
/// A load or paths record holds this long, in milliseconds.
const RUMOUR_TTL_MS: u32 = 60_000;
/// A name that two nodes claim changes hands at most this often, in milliseconds.
const OUTRANK_EVERY_MS: u64 = 1_000;

/// This node's records.
#[derive(Debug, Default)]
pub(super) struct Own {
    records: BTreeMap<RecordKind, OwnRecord>,
    outranked: Option<Mono>,
}

#[derive(Debug)]
struct OwnRecord {
    body: Vec<u8>,
    seq: u64,
    /// When it must be said again; never for a chunk that has become empty.
    again: Option<Mono>,
}

impl Own {
    pub(super) fn due(&self) -> Option<Mono> {
        self.records.values().filter_map(|record| record.again).min()
    }

    /// Whether this node wrote a record in its own name.
    pub(super) fn wrote(&self, envelope: &Envelope, generation: Generation) -> bool {
        let newest = self.records.get(&envelope.kind).map_or(0, |record| record.seq);
        (envelope.generation, envelope.seq) <= (generation, newest)
    }

    pub(super) fn may_outrank(&mut self, now: Now) -> bool {
        let may = self.outranked.is_none_or(|last| now.mono.ms_since(last) >= OUTRANK_EVERY_MS);
        if may {
            self.outranked = Some(now.mono);
        }
        may
    }
}

impl MeshCore {
    pub(super) fn publish_node(&mut self, now: Now, record: &NodeRecord, out: &mut Vec<Output>) {
        let known = self.records.node(&self.settings.node);
        let new_key = known.is_some_and(|known| known.certificate != record.certificate);
        self.publish(now, RecordKind::Node, record, out);
        if new_key {
            // Nobody could prove by the new certificate what the old key has signed.
            self.publish_again(now, out);
        }
    }

    pub(super) fn publish_load(&mut self, now: Now, record: &LoadRecord, out: &mut Vec<Output>) {
        self.publish(now, RecordKind::Load, record, out);
    }

    pub(super) fn publish_paths(&mut self, now: Now, chunks: &[PathsRecord], out: &mut Vec<Output>) {
        let mut said = Vec::new();
        for chunk in chunks {
            if usize::from(chunk.chunk) >= MAX_CHUNKS {
                out.push(Output::Refused { reason: Refusal::TooManyChunks, from: None });
                continue;
            }
            said.push(RecordKind::Paths(chunk.chunk));
            self.publish(now, RecordKind::Paths(chunk.chunk), chunk, out);
        }
        let over = |(kind, record): (&RecordKind, &OwnRecord)| match kind {
            RecordKind::Paths(chunk) if record.again.is_some() && !said.contains(kind) => Some(*chunk),
            _ => None,
        };
        let over: Vec<_> = self.own.records.iter().filter_map(over).collect();
        for chunk in over {
            let kind = RecordKind::Paths(chunk);
            self.publish(now, kind, &PathsRecord { chunk, paths: Vec::new() }, out);
            if let Some(record) = self.own.records.get_mut(&kind) {
                record.again = None;
            }
        }
    }

    /// Says everything again, as after a change of this node's generation.
    pub(super) fn publish_again(&mut self, now: Now, out: &mut Vec<Output>) {
        let kinds: Vec<_> = self.own.records.keys().copied().collect();
        for kind in kinds {
            self.say(now, kind, out);
        }
    }

    /// Says again what is about to expire.
    pub(super) fn refresh(&mut self, now: Now, out: &mut Vec<Output>) {
        let due = |(kind, record): (&RecordKind, &OwnRecord)| {
            record.again.is_some_and(|again| again <= now.mono).then_some(*kind)
        };
        let due: Vec<_> = self.own.records.iter().filter_map(due).collect();
        for kind in due {
            self.say(now, kind, out);
        }
    }

    pub(super) fn signed(&mut self, now: Now, kind: RecordKind, seq: u64, signature: Blob, out: &mut Vec<Output>) {
        // A newer version is being signed already, or nothing is.
        let Some(envelope) = self.draft(kind).filter(|draft| draft.seq == seq) else { return };
        let envelope = Envelope { signature, ..envelope };
        let Ok(bytes) = codec::encode(&envelope) else { return };
        match self.records.keep_own(now, envelope) {
            Ok(()) if kind == RecordKind::Node => self.syncs.soon(now, &self.beat),
            Ok(()) => {
                self.membership.spread(&bytes);
            }
            Err(reason) => out.push(Output::Refused { reason, from: None }),
        }
    }

    fn publish<T: Wire>(&mut self, now: Now, kind: RecordKind, record: &T, out: &mut Vec<Output>) {
        let Ok(body) = codec::encode(record) else {
            return out.push(Output::Refused { reason: Refusal::TooLarge, from: None });
        };
        let entry = self.own.records.entry(kind).or_insert(OwnRecord { body: Vec::new(), seq: 0, again: None });
        if entry.body == body && entry.again.is_some_and(|again| again > now.mono) {
            // It is said already, and will be again.
            return;
        }
        let before = std::mem::replace(&mut entry.body, body);
        let envelope = self.draft(kind);
        let limit = if kind == RecordKind::Node { MAX_RECORD } else { MAX_RUMOUR };
        if envelope.is_none_or(|draft| codec::encode(&draft).map_or(usize::MAX, |b| b.len()) + SIGNATURE > limit) {
            if before.is_empty() {
                self.own.records.remove(&kind);
            } else if let Some(entry) = self.own.records.get_mut(&kind) {
                entry.body = before;
            }
            return out.push(Output::Refused { reason: Refusal::TooLarge, from: None });
        }
        self.say(now, kind, out);
    }

    fn say(&mut self, now: Now, kind: RecordKind, out: &mut Vec<Output>) {
        if let Some(record) = self.own.records.get_mut(&kind) {
            record.seq += 1;
            record.again = Some(now.mono.plus_ms(u64::from(ttl_ms(kind)) * 2 / 5));
        }
        if let Some(draft) = self.draft(kind)
            && let Ok(bytes) = draft.signed_bytes(&self.settings.cluster)
        {
            out.push(Output::Sign { kind, seq: draft.seq, bytes });
        }
    }

    fn draft(&self, kind: RecordKind) -> Option<Envelope> {
        let record = self.own.records.get(&kind)?;
        Some(Envelope {
            origin: self.settings.node.clone(),
            kind,
            generation: self.membership.identity().generation,
            seq: record.seq,
            ttl_ms: ttl_ms(kind),
            body: Blob(record.body.clone()),
            signature: Blob::default(),
        })
    }
}

/// What a signature adds to a draft at most, with longer numbers than it has yet.
const SIGNATURE: usize = 64 + 8;

fn ttl_ms(kind: RecordKind) -> u32 {
    match kind {
        RecordKind::Node => NODE_TTL_MS,
        RecordKind::Load | RecordKind::Paths(_) => RUMOUR_TTL_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Input, MeshSize, Settings};
    use super::*;
    use crate::core::Core;
    use crate::model::{NodeName, ObservedPath, PathHealth};

    fn chunk(chunk: u16, gfs: f64) -> PathsRecord {
        let path = format!("p0>d{chunk}/r0/quic").parse().unwrap();
        PathsRecord { chunk, paths: vec![ObservedPath { path, health: PathHealth { gfs, ..PathHealth::UNKNOWN } }] }
    }

    #[test]
    fn only_what_changed_or_would_expire_is_said_again() {
        let mut core = MeshCore::new(Settings {
            node: NodeName::new("p0").unwrap(),
            cluster: "c".to_owned(),
            ca_der: Vec::new(),
            addr: "127.0.0.1:1".parse().unwrap(),
            generation: 7,
            size: MeshSize::Lan,
            seed: 1,
        });
        let mut said = |ms: u64, input: Input| -> Vec<(RecordKind, u64)> {
            let mut out = Vec::new();
            core.step(Now { mono: Mono(0).plus_ms(ms), wall_ms: 1_800_000_000_000 }, input, &mut out);
            let sign = |output| match output {
                Output::Sign { kind, seq, .. } => Some((kind, seq)),
                _ => None,
            };
            out.into_iter().filter_map(sign).collect()
        };
        let publish = |chunks: &[PathsRecord]| Input::PublishPaths(chunks.to_vec());
        let (first, second) = (RecordKind::Paths(0), RecordKind::Paths(1));
        assert_eq!(said(0, publish(&[chunk(0, 0.3), chunk(1, 0.3)])), [(first, 1), (second, 1)]);
        assert_eq!(said(10, publish(&[chunk(0, 0.3), chunk(1, 0.3)])), []);
        assert_eq!(said(20, publish(&[chunk(0, 0.3), chunk(1, 0.5)])), [(second, 2)]);
        assert_eq!(said(30, publish(&[chunk(0, 0.3)])), [(second, 3)], "it is void");
        assert_eq!(said(40, publish(&[chunk(0, 0.3)])), []);
        assert_eq!(said(50, publish(&[chunk(0, 0.3), chunk(1, 0.5)])), [(second, 4)]);
        assert_eq!(said(24_010, Input::Tick), [(first, 2)], "it would expire");
        assert_eq!(said(24_020, publish(&[chunk(0, 0.3), chunk(1, 0.5)])), []);
    }
}
