//! The view: one merged table of what is known of every path and every decode host, which is the
//! value that a decision reads.
//!
//! Own evidence comes first, another observer's fills in where own is missing. A host's headroom is
//! its newest word, by the host's own count, whether it came by gossip or with a lease's quote,
//! plus this node's own asks that it has not answered yet.

mod peer;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blame::Complaints;
use super::decide::{Candidate, Target};
use crate::core::{Mono, Now};
use crate::health::PathReport;
use crate::model::{
    Blame, Evidence, Generation, LoadRecord, ModelName, NodeName, NodeRecord, ObservedPath, PathHealth, PathId,
    PathSpec, PathState, PathsRecord, PoolName, Quote, RailRecord, Role, paths_between,
};
pub(super) use peer::Demand;
use peer::{Load, Peer};

/// Hosts of a pool that must say their token time for its median to mean anything.
const MEDIAN_HOSTS: usize = 3;
/// Below this share of its bandwidth a path's prediction says only that it is very slow.
const MIN_BANDWIDTH_LEFT: f64 = 0.01;

/// What this node is to its peers; fixed for one life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// This node.
    pub node: NodeName,
    /// Its rails, in order of preference.
    pub rails: Vec<RailRecord>,
    /// The model that it serves.
    pub model: Option<ModelName>,
    /// Nodes of unequal tags never pair.
    pub compat: Option<ModelName>,
}

/// The merged table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    own: Own,
    max_paths: usize,
    peers: BTreeMap<NodeName, Peer>,
    rows: Vec<Row>,
    index: BTreeMap<PathId, usize>,
    observed: BTreeMap<(NodeName, u16), Vec<ObservedPath>>,
    complaints: Complaints,
    /// The median token time of each pool of which enough hosts say theirs.
    token_medians: BTreeMap<PoolName, f64>,
    medians_are_old: bool,
    refused_paths: u64,
}

/// One path from this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    spec: PathSpec,
    target: Arc<Target>,
    health: PathHealth,
    evidence: Evidence,
    heard: Option<Now>,
}

/// A path as the API shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewedPath {
    /// The path.
    pub spec: PathSpec,
    /// Where it leads.
    pub target: Arc<Target>,
    /// What is known of it.
    pub health: PathHealth,
    /// Whose samples they are.
    pub evidence: Evidence,
    /// How old the newest word is, in milliseconds.
    pub age_ms: Option<u64>,
}

impl View {
    /// An empty view of a node; of more than `max_paths` paths the later ones are left out.
    #[must_use]
    pub fn new(own: Own, max_paths: usize) -> Self {
        Self {
            own,
            max_paths,
            peers: BTreeMap::new(),
            rows: Vec::new(),
            index: BTreeMap::new(),
            observed: BTreeMap::new(),
            complaints: Complaints::default(),
            token_medians: BTreeMap::new(),
            medians_are_old: false,
            refused_paths: 0,
        }
    }

    /// A node lives and describes itself. This one too: no path of its own leads to it, but others'
    /// do.
    pub fn peer(&mut self, generation: Generation, record: &NodeRecord) {
        if let Some(peer) = self.peers.get_mut(&record.node) {
            if generation < peer.generation {
                return;
            }
            if generation > peer.generation {
                // Nothing that an earlier life said is believed of this one.
                peer.load = None;
                peer.unanswered = 0;
                peer.silence = None;
                self.drop_rows(&record.node);
            }
        }
        match self.peers.get_mut(&record.node) {
            Some(peer) => {
                peer.generation = generation;
                peer.record = record.clone();
            }
            None => {
                self.peers.insert(record.node.clone(), Peer::new(generation, record.clone()));
            }
        }
        self.pair(record);
        self.medians_are_old = true;
    }

    /// A peer is gone, unless it lives again meanwhile. True if it was known.
    pub fn peer_gone(&mut self, node: &NodeName, generation: Generation) -> bool {
        if self.peers.get(node).is_none_or(|peer| peer.generation > generation) {
            return false;
        }
        self.peers.remove(node);
        self.drop_rows(node);
        self.observed.retain(|(observer, _), _| observer != node);
        self.fill_from_observers();
        self.medians_are_old = true;
        true
    }

    /// A host's headroom, by gossip.
    pub fn load(&mut self, now: Now, node: &NodeName, generation: Generation, record: LoadRecord) {
        if let Some(peer) = self.peers.get_mut(node)
            && peer.generation == generation
            && peer.load.as_ref().is_none_or(|known| known.record.revision < record.revision)
        {
            peer.load = Some(Load { record, heard: now });
            self.medians_are_old = true;
        }
    }

    /// A host's headroom, with the answer to an ask.
    pub fn quoted(&mut self, now: Now, node: &NodeName, quote: Quote) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        peer.silence = None;
        if let Some(load) = &mut peer.load
            && load.record.revision <= quote.revision
        {
            load.heard = now;
            load.record = LoadRecord {
                revision: quote.revision,
                active_sessions: quote.active_sessions,
                max_sessions: quote.max_sessions,
                kv_bytes_free: quote.kv_bytes_free,
                inbound_bytes: quote.inbound_bytes,
                token_time_ms: quote.token_time_ms,
                ..load.record.clone()
            };
            self.medians_are_old = true;
        }
    }

    /// This node asked a host; `answered` takes it back.
    pub(super) fn asked(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.unanswered = peer.unanswered.saturating_add(1);
        }
    }

    pub(super) fn answered(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.unanswered = peer.unanswered.saturating_sub(1);
        }
    }

    /// Nobody waits for an answer any more.
    pub(super) fn forget_asks(&mut self) {
        self.peers.values_mut().for_each(|peer| peer.unanswered = 0);
    }

    /// A host let an ask go unanswered: it is not asked for a while, longer each time.
    pub(super) fn silent(&mut self, now: Now, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.silent(now);
        }
    }

    /// This node's own health report of one of its paths.
    pub fn report(&mut self, now: Now, report: &PathReport) {
        if let Some(row) = self.index.get(&report.path).and_then(|&at| self.rows.get_mut(at)) {
            let changed = (row.evidence, row.health.state) != (Evidence::Own, report.health.state);
            row.health = report.health;
            row.evidence = Evidence::Own;
            // Its age then, and what has passed since, is its age at a decision.
            let taken = Mono(now.mono.0.saturating_sub(report.age_ms.saturating_mul(1_000_000)));
            row.heard = Some(Now { mono: taken, ..now });
            if changed {
                self.collect_complaints();
            }
        }
    }

    /// An observer's paths that are not healthy.
    pub fn observed(&mut self, observer: &NodeName, record: &PathsRecord) {
        let key = (observer.clone(), record.chunk);
        if record.paths.is_empty() {
            self.observed.remove(&key);
        } else {
            self.observed.insert(key, record.paths.clone());
        }
        self.fill_from_observers();
    }

    /// The generation of a peer that is alive.
    #[must_use]
    pub fn generation(&self, node: &NodeName) -> Option<Generation> {
        self.peers.get(node).map(|peer| peer.generation)
    }

    /// The rails and addresses of one of this node's paths.
    #[must_use]
    pub fn spec(&self, path: &PathId) -> Option<&PathSpec> {
        self.index.get(path).and_then(|&at| self.rows.get(at)).map(|row| &row.spec)
    }

    /// How long `bytes` would take on one of this node's paths, in milliseconds, with what its host
    /// says is on the way to it already. A quote counts the lease that it comes with.
    pub(super) fn predict(&self, path: &PathId, bytes: u64, quote: Option<&Quote>) -> Option<f64> {
        let row = self.index.get(path).and_then(|&at| self.rows.get(at))?;
        let all_bytes = match quote {
            Some(quote) => quote.inbound_bytes.max(bytes),
            None => {
                let load = self.peers.get(&path.destination).and_then(|peer| peer.load.as_ref());
                load.map_or(0, |load| load.record.inbound_bytes).saturating_add(bytes)
            }
        };
        Some(predicted_ms(&row.spec, &row.health, all_bytes))
    }

    /// Bytes of the largest transfer that failed on a path while nothing of that size has worked
    /// since; 0 if there is none.
    pub(super) fn failed_bytes(&self, path: &PathId) -> u64 {
        self.index.get(path).and_then(|&at| self.rows.get(at)).map_or(0, |row| row.health.failed_bytes)
    }

    /// Paths that were left out because the table was full.
    #[must_use]
    pub fn refused_paths(&self) -> u64 {
        self.refused_paths
    }

    /// How many paths there are from this node.
    #[must_use]
    pub fn path_count(&self) -> usize {
        self.rows.len()
    }

    /// Every path from this node, in order of first appearance.
    pub fn paths(&self, now: Now) -> impl Iterator<Item = ViewedPath> {
        self.rows.iter().map(move |row| ViewedPath {
            spec: row.spec.clone(),
            target: row.target.clone(),
            health: row.health,
            evidence: row.evidence,
            age_ms: row.heard.map(|heard| now.mono.ms_since(heard.mono)),
        })
    }

    /// Every host's newest headroom, with its age in milliseconds.
    pub fn loads(&self, now: Now) -> impl Iterator<Item = (&NodeName, &LoadRecord, u64)> {
        self.peers.iter().filter_map(move |(node, peer)| {
            peer.load.as_ref().map(|load| (node, &load.record, now.mono.ms_since(load.heard.mono)))
        })
    }

    /// What each sender that is alive says of its paths to `node`: the worst GFS, 0 if it does not
    /// complain.
    #[must_use]
    pub fn observers_of(&self, node: &NodeName) -> Vec<f64> {
        let sends = |peer: &&Peer| peer.record.has_role(Role::Prefill) || peer.record.has_role(Role::Router);
        let says = |observer: &NodeName| {
            let words =
                self.observed.iter().filter(|((said_by, _), _)| said_by == observer).flat_map(|(_, paths)| paths);
            let worst = words.filter(|seen| seen.path.destination == *node).map(|seen| seen.health.gfs);
            worst.fold(0.0, f64::max)
        };
        self.peers.values().filter(sends).map(|peer| says(&peer.record.node)).collect()
    }

    /// The candidates of one request from this node, in order of first appearance.
    pub(super) fn candidates(&self, now: Now, demand: Demand<'_>) -> Vec<Candidate> {
        self.rows
            .iter()
            .filter_map(|row| {
                let peer = self.peers.get(&row.spec.id.destination)?;
                Some(self.candidate(now, demand, peer, &row.spec, &row.target, row.health, row.evidence, row.heard))
            })
            .collect()
    }

    /// The candidates of another source, from what this node knows: observers' words, and health
    /// taken for granted where nobody complains. None if the source is not known.
    pub(super) fn candidates_of(&self, now: Now, source: &NodeName, demand: Demand<'_>) -> Option<Vec<Candidate>> {
        let rails = &self.peers.get(source)?.record.rails;
        let mut found = Vec::new();
        for peer in self.peers.values().filter(|peer| peer.record.has_role(Role::Decode)) {
            for spec in paths_between(source, rails, &peer.record).into_iter().take(self.max_paths - found.len()) {
                // A source says which of its paths are not healthy: its silence says that one is.
                let health = self.observation(&spec.id).unwrap_or(PathHealth::UNKNOWN);
                let Some(target) = target(&spec, &peer.record) else { continue };
                found.push(self.candidate(now, demand, peer, &spec, &target, health, Evidence::Observed, None));
            }
        }
        Some(found)
    }

    #[allow(clippy::too_many_arguments)]
    fn candidate(
        &self,
        now: Now,
        demand: Demand<'_>,
        peer: &Peer,
        spec: &PathSpec,
        target: &Arc<Target>,
        health: PathHealth,
        evidence: Evidence,
        heard: Option<Now>,
    ) -> Candidate {
        let age = |heard: Now| now.mono.ms_since(heard.mono);
        let load = peer.load.as_ref().map(|load| &load.record);
        let inbound_bytes = load.map_or(0, |load| load.inbound_bytes);
        let median = self.token_medians.get(&target.pool).filter(|median| **median > 0.0);
        let token_time_ms = load.and_then(|load| load.token_time_ms);
        Candidate {
            health_age_ms: heard.map(age),
            evidence,
            capacity_age_ms: peer.load.as_ref().map(|load| age(load.heard)),
            risk_group: peer.record.risk_group.clone(),
            predicted_ms: Some(predicted_ms(spec, &health, inbound_bytes.saturating_add(demand.kv_bytes))),
            token_time_ratio: median.zip(token_time_ms).map(|(median, own)| own / median),
            backend_order: self.backend_order(&spec.id),
            blame: degraded(health.state).then(|| self.blame(&spec.id)).flatten(),
            barred: peer.bar(now, &self.own, demand),
            ..Candidate::new(target.clone(), health, peer.capacity())
        }
    }

    fn backend_order(&self, path: &PathId) -> u16 {
        let own = path.source == self.own.node;
        let theirs = || self.peers.get(&path.source).map_or(&[][..], |peer| peer.record.rails.as_slice());
        let rails = if own { self.own.rails.as_slice() } else { theirs() };
        let first = rails.iter().position(|rail| rail.backend == path.backend);
        u16::try_from(first.unwrap_or_default()).unwrap_or(u16::MAX)
    }

    fn blame(&self, path: &PathId) -> Option<Blame> {
        let sends = |peer: &&Peer| peer.record.has_role(Role::Prefill) || peer.record.has_role(Role::Router);
        let this_sends = !self.own.rails.is_empty() && !self.peers.contains_key(&self.own.node);
        let sources = self.peers.values().filter(sends).count() + usize::from(this_sends);
        let destinations = self.peers.values().filter(|peer| peer.record.has_role(Role::Decode)).count();
        self.complaints.blame(&path.source, &path.destination, sources, destinations)
    }

    fn collect_complaints(&mut self) {
        let own = self.rows.iter().filter(|row| row.evidence == Evidence::Own && degraded(row.health.state));
        let others = self.observed.values().flatten().filter(|seen| degraded(seen.health.state));
        let paths = own.map(|row| &row.spec.id).chain(others.map(|seen| &seen.path));
        self.complaints = Complaints::of(paths.map(|path| (&path.source, &path.destination)));
    }

    /// Takes the median token time of every pool anew, if anything has changed since.
    pub(super) fn take_medians(&mut self) {
        if !std::mem::take(&mut self.medians_are_old) {
            return;
        }
        let mut times: BTreeMap<&PoolName, Vec<f64>> = BTreeMap::new();
        for peer in self.peers.values() {
            if let (Some(pool), Some(load)) = (&peer.record.pool, &peer.load)
                && let Some(token_time_ms) = load.record.token_time_ms
            {
                times.entry(pool).or_default().push(token_time_ms);
            }
        }
        let median = |(pool, mut times): (&PoolName, Vec<f64>)| {
            times.sort_by(f64::total_cmp);
            let median = times.get(times.len() / 2).copied().filter(|_| times.len() >= MEDIAN_HOSTS)?;
            Some((pool.clone(), median))
        };
        self.token_medians = times.into_iter().filter_map(median).collect();
    }

    /// Adds the paths to a decode host, and forgets those that its new record no longer has.
    fn pair(&mut self, record: &NodeRecord) {
        let specs = match record.has_role(Role::Decode) {
            true => paths_between(&self.own.node, &self.own.rails, record),
            false => Vec::new(),
        };
        let keep = |row: &Row| row.spec.id.destination != record.node || specs.iter().any(|s| s.id == row.spec.id);
        if !self.rows.iter().all(keep) {
            self.rows.retain(keep);
            self.reindex();
        }
        for spec in specs {
            let Some(target) = target(&spec, record) else { continue };
            if let Some(row) = self.index.get(&spec.id).and_then(|&at| self.rows.get_mut(at)) {
                row.spec = spec;
                row.target = target;
            } else if self.rows.len() < self.max_paths {
                self.index.insert(spec.id.clone(), self.rows.len());
                self.rows.push(Row {
                    spec,
                    target,
                    health: PathHealth::UNKNOWN,
                    evidence: Evidence::None,
                    heard: None,
                });
            } else {
                self.refused_paths += 1;
            }
        }
        self.fill_from_observers();
    }

    fn drop_rows(&mut self, node: &NodeName) {
        self.rows.retain(|row| row.spec.id.destination != *node);
        self.reindex();
    }

    fn reindex(&mut self) {
        self.index = self.rows.iter().enumerate().map(|(at, row)| (row.spec.id.clone(), at)).collect();
    }

    /// Others' words count where this node has none of its own.
    fn fill_from_observers(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        for row in rows.iter_mut().filter(|row| row.evidence != Evidence::Own) {
            match self.observation(&row.spec.id) {
                Some(health) => (row.health, row.evidence) = (health, Evidence::Observed),
                None => (row.health, row.evidence) = (PathHealth::UNKNOWN, Evidence::None),
            }
        }
        self.rows = rows;
        self.collect_complaints();
    }

    /// The worst that any observer says of a path.
    fn observation(&self, path: &PathId) -> Option<PathHealth> {
        self.observed
            .values()
            .flatten()
            .filter(|observed| observed.path == *path)
            .map(|observed| observed.health)
            .max_by(|a, b| a.gfs.total_cmp(&b.gfs))
    }
}

/// How long `bytes` take on a path, in milliseconds: its latency, and their time on what is left of
/// its bandwidth.
fn predicted_ms(spec: &PathSpec, health: &PathHealth, bytes: u64) -> f64 {
    let left = health.bandwidth_ratio.unwrap_or(1.0).clamp(MIN_BANDWIDTH_LEFT, 1.0);
    health.p99_latency_ms + bytes as f64 * 8.0 / (spec.bandwidth_gbps * left * 1e6)
}

/// Whether a path in this state is complained of: RESTORED is on its way back.
fn degraded(state: PathState) -> bool {
    state.severity() >= PathState::DegradedUsable.severity()
}

/// Where a path leads, if its host decodes for a pool at all.
fn target(spec: &PathSpec, record: &NodeRecord) -> Option<Arc<Target>> {
    Some(Arc::new(Target { pool: record.pool.clone()?, node: Some(record.node.clone()), path: Some(spec.id.clone()) }))
}
