//! What members said of themselves: the newest version of each record, until it expires.

mod body;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use body::Body;
pub use body::chunk_paths;

use super::identity::{PublicKey, key_of};
use super::summary::{BUCKETS, BucketSet, Entry, Summary};
use super::wire::{Aged, Envelope, MAX_RECORD, MAX_RUMOUR, MAX_SYNC, OriginDigest, RecordKind};
use super::{MAX_CHUNKS, MAX_ORIGINS, Refusal};
use crate::codec;
use crate::core::{Mono, Now};
use crate::model::{Generation, NodeName, NodeRecord};

/// No record holds longer than this after it arrived.
const MAX_TTL_MS: u64 = 600_000;
/// A sequence number may be at most this far beyond the last one seen.
const MAX_SEQ_STEP: u64 = 1 << 32;
/// What an envelope adds to its body at most, in bytes.
const ENVELOPE_OVERHEAD: usize = 192;

/// The names of wanted records may fill this much of a message; the rest waits for the next one.
const WANT_BUDGET: usize = MAX_SYNC / 16;
/// What the name of a wanted record takes beside its origin's at most, in bytes.
const WANT_OVERHEAD: usize = 5;
/// What a version in a digest takes beside its origin's name at most, in bytes.
const VERSION_OVERHEAD: usize = 25;

/// Every record that this node keeps, its own included.
#[derive(Debug)]
pub(crate) struct Records {
    cluster: String,
    ca_der: Vec<u8>,
    origins: BTreeMap<NodeName, Origin>,
    expiries: BTreeSet<(Mono, NodeName, RecordKind)>,
    /// Of the records that hold.
    summary: Summary,
}

/// An origin's key, with the record that brought it.
type Key = (PublicKey, Arc<NodeRecord>);

/// One origin's records, all of one life.
#[derive(Debug)]
struct Origin {
    generation: Generation,
    node: Option<Key>,
    held: BTreeMap<RecordKind, Held>,
}

#[derive(Debug)]
struct Held {
    seq: u64,
    /// Absent once it expired; the number stays, so that nobody brings it back.
    envelope: Option<Envelope>,
    /// When it was written, as far as this node believes.
    written: Mono,
    expires: Option<Mono>,
}

impl Held {
    /// What it counts as, while it holds.
    fn entry(&self) -> Option<Entry> {
        let envelope = self.envelope.as_ref()?;
        Some(Entry::of_record(&envelope.origin, envelope.kind, (envelope.generation, envelope.seq)))
    }
}

impl Records {
    pub(crate) fn new(cluster: String, ca_der: Vec<u8>) -> Self {
        Self { cluster, ca_der, origins: BTreeMap::new(), expiries: BTreeSet::new(), summary: Summary::default() }
    }

    /// Keeps a record of another node if it is newer than what is known and proves its origin.
    /// `life` is the generation in which the origin takes part, if it does. Nothing comes back for
    /// a version that is known already.
    pub(crate) fn accept(&mut self, now: Now, life: Option<Generation>, aged: Aged) -> Result<Option<Body>, Refusal> {
        let Aged { age_ms, envelope } = aged;
        let age_ms = counted_age_ms(age_ms, envelope.ttl_ms)?;
        let life = life.ok_or(Refusal::UnknownOrigin)?;
        if envelope.generation < life {
            return Err(Refusal::Stale);
        }
        if envelope.generation > life {
            return Err(Refusal::UnknownOrigin);
        }
        let known = self.origins.get(&envelope.origin).filter(|origin| origin.generation == life);
        let last = known.and_then(|origin| origin.held.get(&envelope.kind)).map_or(0, |held| held.seq);
        if envelope.seq == last && last > 0 {
            return Ok(None);
        }
        if envelope.seq <= last {
            return Err(Refusal::Stale);
        }
        if envelope.seq - last > MAX_SEQ_STEP {
            return Err(Refusal::SequenceJump);
        }
        let chunks = known.map_or(0, |origin| origin.held.len());
        if matches!(envelope.kind, RecordKind::Paths(_)) && last == 0 && chunks >= MAX_CHUNKS + 2 {
            return Err(Refusal::TooManyChunks);
        }
        if known.is_none() && self.origins.len() >= MAX_ORIGINS && !self.origins.contains_key(&envelope.origin) {
            return Err(Refusal::TooManyOrigins);
        }

        let (body, node) = self.prove(now, known, &envelope)?;
        let written = Mono(now.mono.0.saturating_sub(age_ms.saturating_mul(1_000_000)));
        let expires = written.plus_ms(u64::from(envelope.ttl_ms).min(MAX_TTL_MS));
        self.hold(envelope, written, Some(expires), node);
        Ok(Some(body))
    }

    /// Keeps a record of this node itself, for as long as others do: it is said again before then.
    pub(crate) fn keep_own(&mut self, now: Now, envelope: Envelope) -> Result<(), Refusal> {
        let node = match envelope.kind {
            RecordKind::Node => self.prove(now, None, &envelope)?.1,
            RecordKind::Load | RecordKind::Paths(_) => Body::decode(&envelope).map(|_| None)?,
        };
        let expires = now.mono.plus_ms(u64::from(envelope.ttl_ms));
        self.hold(envelope, now.mono, Some(expires), node);
        Ok(())
    }

    /// Forgets all that `origin` said.
    pub(crate) fn drop_origin(&mut self, name: &NodeName) {
        if let Some(origin) = self.origins.remove(name) {
            for (kind, held) in origin.held {
                if let Some(entry) = held.entry() {
                    self.summary.toggle(entry);
                }
                if let Some(expires) = held.expires {
                    self.expiries.remove(&(expires, name.clone(), kind));
                }
            }
        }
    }

    /// Voids the records whose time is over, and says which.
    pub(crate) fn expire(&mut self, now: Mono) -> Vec<(NodeName, RecordKind)> {
        let mut expired = Vec::new();
        while let Some(first) = self.expiries.first().filter(|(due, ..)| *due <= now).cloned() {
            self.expiries.remove(&first);
            let (_, name, kind) = first;
            if let Some(origin) = self.origins.get_mut(&name) {
                if kind == RecordKind::Node {
                    origin.node = None;
                }
                if let Some(held) = origin.held.get_mut(&kind) {
                    if let Some(entry) = held.entry() {
                        self.summary.toggle(entry);
                    }
                    held.envelope = None;
                    held.expires = None;
                }
            }
            expired.push((name, kind));
        }
        expired
    }

    pub(crate) fn next_expiry(&self) -> Option<Mono> {
        self.expiries.first().map(|(due, ..)| *due)
    }

    /// What `origin` says it is.
    pub(crate) fn node(&self, origin: &NodeName) -> Option<&Arc<NodeRecord>> {
        self.origins.get(origin)?.node.as_ref().map(|(_, record)| record)
    }

    /// Every record that holds, with its age in milliseconds.
    pub(crate) fn iter(&self, now: Mono) -> impl Iterator<Item = (&Envelope, u64)> {
        self.origins.values().flat_map(move |origin| {
            origin.held.values().filter_map(move |held| Some((held.envelope.as_ref()?, now.ms_since(held.written))))
        })
    }

    /// The records that hold, in short.
    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The newest versions known of what is in `buckets`, as long as they fit `budget` bytes; which
    /// buckets those are, beginning with number `first`, comes back.
    pub(crate) fn digest(&self, buckets: BucketSet, first: usize, budget: usize) -> (BucketSet, Vec<OriginDigest>) {
        let entry =
            |name: &NodeName, generation, kind, held: &Held| Entry::of_record(name, kind, (generation, held.seq));
        let mut sizes = [0_usize; BUCKETS];
        for (name, origin) in &self.origins {
            for (kind, held) in &origin.held {
                if let Some(size) = sizes.get_mut(entry(name, origin.generation, *kind, held).bucket()) {
                    *size += name.as_str().len() + VERSION_OVERHEAD;
                }
            }
        }
        let mut left = budget;
        let fits = |one: &BucketSet| {
            let size = usize::try_from(one.0.trailing_zeros()).ok().and_then(|index| sizes.get(index));
            let rest = size.and_then(|size| left.checked_sub(*size));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let chosen = buckets.from(first).take_while(fits).fold(BucketSet::default(), BucketSet::with);
        let digest = |(name, origin): (&NodeName, &Origin)| {
            let chosen = |(kind, held): (&RecordKind, &Held)| {
                entry(name, origin.generation, *kind, held).is_in(chosen).then_some((*kind, held.seq))
            };
            let seqs: Vec<_> = origin.held.iter().filter_map(chosen).collect();
            (!seqs.is_empty()).then(|| OriginDigest { origin: name.clone(), generation: origin.generation, seqs })
        };
        (chosen, self.origins.iter().filter_map(digest).collect())
    }

    /// What the writer of `digest`, which covers `buckets`, lacks, at most `budget` bytes of it, and
    /// what is newer there, at most [`WANT_BUDGET`] bytes of it: what others are proven by, and what
    /// cannot be had any more in the last place.
    pub(crate) fn compare(
        &self,
        now: Mono,
        buckets: BucketSet,
        digest: &[OriginDigest],
        budget: usize,
    ) -> (Vec<Aged>, Vec<(NodeName, RecordKind)>) {
        let mut want = Vec::new();
        let mut theirs = BTreeMap::new();
        for entry in digest.iter().take(MAX_ORIGINS) {
            let mine = self.origins.get(&entry.origin);
            for (kind, seq) in entry.seqs.iter().take(MAX_CHUNKS + 2) {
                theirs.insert((&entry.origin, *kind), (entry.generation, *seq));
                let known = mine.and_then(|origin| Some((origin.generation, origin.held.get(kind)?.seq)));
                if known < Some((entry.generation, *seq)) {
                    want.push((entry.origin.clone(), *kind));
                }
            }
        }
        want.sort_by_key(|(_, kind)| *kind);
        let mut left = WANT_BUDGET;
        let fits = |(name, _): &(NodeName, RecordKind)| {
            let rest = left.checked_sub(name.as_str().len() + WANT_OVERHEAD);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        want = want.into_iter().take_while(fits).collect();
        let newer = self.origins.iter().flat_map(|(name, origin)| {
            origin.held.iter().map(move |(kind, held)| ((name, *kind), (origin.generation, held.seq), held))
        });
        let newer = newer.filter(|((name, kind), version, _)| {
            Entry::of_record(name, *kind, *version).is_in(buckets)
                && theirs.get(&(*name, *kind)).is_none_or(|known| known < version)
        });
        (within(now, newer.map(|(.., held)| held), budget), want)
    }

    /// The records named, at most `budget` bytes of them.
    pub(crate) fn take(&self, now: Mono, wanted: &[(NodeName, RecordKind)], budget: usize) -> Vec<Aged> {
        let held = wanted.iter().filter_map(|(name, kind)| self.origins.get(name)?.held.get(kind));
        within(now, held, budget)
    }

    /// Checks a record's size, content and signature; a node's own record brings its key.
    fn prove(&self, now: Now, known: Option<&Origin>, envelope: &Envelope) -> Result<(Body, Option<Key>), Refusal> {
        let limit = if envelope.kind == RecordKind::Node { MAX_RECORD } else { MAX_RUMOUR };
        if codec::encode(envelope).map_err(|_| Refusal::TooLarge)?.len() > limit {
            return Err(Refusal::TooLarge);
        }
        let body = Body::decode(envelope)?;
        let node = match &body {
            Body::Node(record) => {
                let key = key_of(&self.ca_der, &self.cluster, &envelope.origin, &record.certificate, now.wall_ms);
                Some((key.ok_or(Refusal::BadCertificate)?, Arc::clone(record)))
            }
            Body::Load(_) | Body::Paths(_) => None,
        };
        let key = match &node {
            Some((key, _)) => *key,
            None => known.and_then(|origin| origin.node.as_ref()).ok_or(Refusal::UnknownKey)?.0,
        };
        let bytes = envelope.signed_bytes(&self.cluster).map_err(|_| Refusal::TooLarge)?;
        if key.verifies(&envelope.signature.0, &bytes) { Ok((body, node)) } else { Err(Refusal::BadSignature) }
    }

    fn hold(&mut self, envelope: Envelope, written: Mono, expires: Option<Mono>, node: Option<Key>) {
        let name = envelope.origin.clone();
        if self.origins.get(&name).is_some_and(|origin| origin.generation != envelope.generation) {
            self.drop_origin(&name);
        }
        let generation = envelope.generation;
        let origin = self.origins.entry(name.clone()).or_insert_with(|| Origin {
            generation,
            node: None,
            held: BTreeMap::new(),
        });
        if node.is_some() {
            origin.node = node;
        }
        let kind = envelope.kind;
        let held = Held { seq: envelope.seq, envelope: Some(envelope), written, expires };
        self.summary.toggle(Entry::of_record(&name, kind, (generation, held.seq)));
        if let Some(old) = origin.held.insert(kind, held) {
            if let Some(entry) = old.entry() {
                self.summary.toggle(entry);
            }
            if let Some(expires) = old.expires {
                self.expiries.remove(&(expires, name.clone(), kind));
            }
        }
        if let Some(expires) = expires {
            self.expiries.insert((expires, name, kind));
        }
    }
}

/// How much counts of the age that whoever passes a record on gives it: nothing proves that age.
/// A record that is said to be over is refused before its number is noted, so that it can still
/// come from another. Of any other half its time is left at least, by when its origin has said it
/// again (`core/own.rs`).
fn counted_age_ms(age_ms: u32, ttl_ms: u32) -> Result<u64, Refusal> {
    let ttl_ms = u64::from(ttl_ms).min(MAX_TTL_MS);
    let age_ms = u64::from(age_ms);
    if age_ms >= ttl_ms { Err(Refusal::Stale) } else { Ok(age_ms.min(ttl_ms / 2)) }
}

/// The records in `held` that hold, as long as they fit `budget` bytes together.
fn within<'a>(now: Mono, held: impl Iterator<Item = &'a Held>, budget: usize) -> Vec<Aged> {
    let mut left = budget;
    let mut records = Vec::new();
    for held in held {
        let Some(envelope) = &held.envelope else { continue };
        let Some(rest) = left.checked_sub(envelope.body.0.len() + ENVELOPE_OVERHEAD) else { break };
        left = rest;
        let age_ms = u32::try_from(now.ms_since(held.written)).unwrap_or(u32::MAX);
        records.push(Aged { age_ms, envelope: envelope.clone() });
    }
    records
}

#[cfg(test)]
#[cfg(feature = "agent")]
mod tests;
