//! The agent's metrics, Prometheus text. One [`Metrics`] an agent, with a recorder of its own: many
//! agents live in one process of the demo.
//!
//! Every metric is declared once, in [`DEFINITIONS`]. Handles of the hot ones are kept by enum, so
//! that recording neither looks a name up nor allocates. Series that come and go (paths, pools) are
//! kept as values and written out as gauges when somebody asks, so that a path that is gone leaves
//! nothing behind.

mod definitions;
mod family;
mod gauges;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Histogram, Key, Label, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::health::Discard;
use crate::model::{BackendKind, LeaseRefusal, Outcome, PathId, PathState, PoolName, RailName, Reason, WorkloadName};
use family::{Durations, Family, Grid};
use gauges::Gauges;

pub use definitions::{DEFINITIONS, Definition, Kind};
pub use family::{Direction, MoveResult, ProbeResult};
pub use gauges::PathSeries;

/// Classes with series of their own at most; decisions of further ones count as `other`.
const MAX_WORKLOADS: usize = 300;

/// Words (queues, kinds of gossip) with series of their own at most.
const MAX_WORDS: usize = 64;

/// What the whole process is called in `seam_build_info`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The metrics of one agent.
pub struct Metrics {
    registry: Arc<Registry>,
    gauges: Gauges,
    workloads: RwLock<BTreeMap<WorkloadName, Arc<WorkloadMetrics>>>,
    other: Arc<WorkloadMetrics>,
    transitions: Grid<PathState, PathState>,
    decision_seconds: Histogram,
    route_seconds: Histogram,
    lease_requests: Family<Option<LeaseRefusal>>,
    transfers: Grid<BackendKind, MoveResult>,
    transfer_bytes: Grid<BackendKind, Direction>,
    transfer_seconds: Durations,
    probes: Grid<BackendKind, ProbeResult>,
    probe_seconds: Durations,
    bulk_probe_bytes: Family<BackendKind>,
    discarded: Family<Discard>,
    gossip_bytes: RwLock<BTreeMap<(Direction, &'static str), Counter>>,
    dropped: RwLock<BTreeMap<&'static str, Counter>>,
    disbelieved: RwLock<BTreeMap<&'static str, Counter>>,
    reloads: RwLock<BTreeMap<&'static str, Counter>>,
    omitted: Counter,
    journal_bytes: Counter,
    journal_gaps: Counter,
}

/// The counters of one class.
pub struct WorkloadMetrics {
    decisions: Family<Outcome>,
    rejections: Family<Reason>,
}

impl WorkloadMetrics {
    fn new(registry: &Arc<Registry>, name: &str) -> Arc<Self> {
        let label = vec![Label::new("workload", name.to_owned())];
        Arc::new(Self {
            decisions: Family::new(registry, "seam_decisions_total", label.clone(), "outcome"),
            rejections: Family::new(registry, "seam_candidate_rejections_total", label, "code"),
        })
    }

    /// A request of this class was decided.
    pub fn decided(&self, outcome: Outcome) {
        self.decisions.of(outcome).increment(1);
    }

    /// A candidate was refused for a request of this class.
    pub fn rejected(&self, code: Reason) {
        self.rejections.of(code).increment(1);
    }
}

impl Metrics {
    /// Metrics that give at most `max_paths` paths series of their own.
    #[must_use]
    pub fn new(profile: &str, max_paths: usize) -> Self {
        let registry = Arc::new(Registry::new());
        let counter = |name| registry.counter(name, Vec::new());
        let histogram = |name| registry.histogram(name, Vec::new());
        Self {
            gauges: Gauges::new(profile, max_paths),
            workloads: RwLock::default(),
            other: WorkloadMetrics::new(&registry, "other"),
            transitions: Grid::new(&registry, "seam_state_transitions_total", "from", "to"),
            decision_seconds: histogram("seam_decision_seconds"),
            route_seconds: histogram("seam_route_seconds"),
            lease_requests: Family::new(&registry, "seam_lease_requests_total", Vec::new(), "result"),
            transfers: Grid::new(&registry, "seam_transfers_total", "backend", "result"),
            transfer_bytes: Grid::new(&registry, "seam_transfer_bytes_total", "backend", "direction"),
            transfer_seconds: Durations::new(&registry, "seam_transfer_seconds"),
            probes: Grid::new(&registry, "seam_probes_total", "backend", "result"),
            probe_seconds: Durations::new(&registry, "seam_probe_seconds"),
            bulk_probe_bytes: Family::new(&registry, "seam_bulk_probe_bytes_total", Vec::new(), "backend"),
            discarded: Family::new(&registry, "seam_samples_discarded_total", Vec::new(), "reason"),
            gossip_bytes: RwLock::default(),
            dropped: RwLock::default(),
            disbelieved: RwLock::default(),
            reloads: RwLock::default(),
            omitted: counter("seam_path_series_omitted_total"),
            journal_bytes: counter("seam_journal_bytes_total"),
            journal_gaps: counter("seam_journal_gaps_total"),
            registry,
        }
    }

    /// The counters of one class; keep them where requests of one class repeat.
    #[must_use]
    pub fn workload(&self, name: &WorkloadName) -> Arc<WorkloadMetrics> {
        if let Some(found) = self.workloads.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(found);
        }
        let mut workloads = self.workloads.write().unwrap_or_else(PoisonError::into_inner);
        if workloads.len() >= MAX_WORKLOADS && !workloads.contains_key(name) {
            return Arc::clone(&self.other);
        }
        Arc::clone(workloads.entry(name.clone()).or_insert_with(|| WorkloadMetrics::new(&self.registry, name.as_str())))
    }

    /// A path changed its state.
    pub fn transition(&self, from: PathState, to: PathState) {
        self.transitions.of(from, to).increment(1);
    }

    /// The policy took this long for one decision.
    pub fn decision_took(&self, elapsed: Duration) {
        self.decision_seconds.record(elapsed.as_secs_f64());
    }

    /// A route took this long, its lease included.
    pub fn route_took(&self, elapsed: Duration) {
        self.route_seconds.record(elapsed.as_secs_f64());
    }

    /// A lease was asked for, with this result.
    pub fn lease_requested(&self, refusal: Option<LeaseRefusal>) {
        self.lease_requests.of(refusal).increment(1);
    }

    /// An attempt to move bytes ended.
    pub fn transfer_ended(&self, backend: BackendKind, result: MoveResult, elapsed: Duration) {
        self.transfers.of(backend, result).increment(1);
        self.transfer_seconds.record(backend, elapsed);
    }

    /// Bytes of transfers were sent or received.
    pub fn moved(&self, backend: BackendKind, direction: Direction, bytes: u64) {
        self.transfer_bytes.of(backend, direction).increment(bytes);
    }

    /// A probe ended; `elapsed` where an answer came.
    pub fn probed(&self, backend: BackendKind, result: ProbeResult, elapsed: Option<Duration>) {
        self.probes.of(backend, result).increment(1);
        if let Some(elapsed) = elapsed {
            self.probe_seconds.record(backend, elapsed);
        }
    }

    /// A bulk probe of this many bytes ended.
    pub fn bulk_probed(&self, backend: BackendKind, bytes: u64) {
        self.bulk_probe_bytes.of(backend).increment(bytes);
    }

    /// A sample was not used.
    pub fn discarded(&self, reason: Discard) {
        self.discarded.of(reason).increment(1);
    }

    /// Bytes of gossip; `kind` is one of a few words of the mesh.
    pub fn gossip(&self, direction: Direction, kind: &'static str, bytes: u64) {
        let labels = || vec![Label::new("direction", direction.as_str()), Label::new("kind", kind)];
        self.worded(&self.gossip_bytes, (direction, kind), "seam_gossip_bytes_total", labels).increment(bytes);
    }

    /// A bounded queue or buffer refused something.
    pub fn dropped(&self, queue: &'static str) {
        self.dropped_many(queue, 1);
    }

    /// A bounded queue or buffer refused `count` things.
    pub fn dropped_many(&self, queue: &'static str, count: u64) {
        let labels = || vec![Label::new("queue", queue)];
        self.worded(&self.dropped, queue, "seam_queue_dropped_total", labels).increment(count);
    }

    /// The configuration was read anew, with this result.
    pub fn reloaded(&self, result: &'static str) {
        let labels = || vec![Label::new("result", result)];
        self.worded(&self.reloads, result, "seam_config_reloads_total", labels).increment(1);
    }

    /// So many bytes of the journal were written, and so many gaps in them.
    pub fn journal_written(&self, bytes: u64, gaps: u64) {
        self.journal_bytes.increment(bytes);
        self.journal_gaps.increment(gaps);
    }

    /// What is configured from now on.
    pub fn configured(&self, profile: &str, config_hash: &str) {
        self.gauges.configured(profile);
        self.clear("seam_config_info");
        self.set("seam_config_info", &[config_hash], 1.0);
    }

    /// The mesh did not believe `count` things, for one reason.
    pub fn disbelieved(&self, reason: &'static str, count: u64) {
        let labels = || vec![Label::new("reason", reason)];
        self.worded(&self.disbelieved, reason, "seam_mesh_refused_total", labels).increment(count);
    }

    /// A rail turned away or gave up `count` things, for one reason. There are as many series as the
    /// configuration has rails, times the words of their backends.
    pub fn rail_refused(&self, rail: &RailName, reason: &'static str, count: u64) {
        let labels = vec![Label::new("rail", rail.as_str().to_owned()), Label::new("reason", reason)];
        self.registry.counter("seam_rail_refused_total", labels).increment(count);
    }

    /// Errors that a rail's device has counted.
    pub fn rail_device_errors(&self, rail: &RailName, counter: &'static str, count: u64) {
        let labels = vec![Label::new("rail", rail.as_str().to_owned()), Label::new("counter", counter)];
        self.registry.counter("seam_rail_device_errors_total", labels).increment(count);
    }

    /// The newest values of one path. Beyond `max_paths` paths it is counted instead.
    pub fn path(&self, path: &PathId, pool: Option<&PoolName>, series: PathSeries) {
        if !self.gauges.path(path, pool, series) {
            self.omitted.increment(1);
        }
    }

    /// A path is gone, and its series with it.
    pub fn path_gone(&self, path: &PathId) {
        self.gauges.path_gone(path);
    }

    /// A gauge by its name and the values of its labels, in the order of its definition. The series
    /// stays until it is set again, or [`Metrics::clear`]ed. A name that is no gauge, or another
    /// number of labels, is refused and counted as `seam_queue_dropped_total{queue="metrics"}`.
    pub fn set(&self, name: &'static str, labels: &[&str], value: f64) {
        if !self.gauges.set(name, labels, value) {
            self.dropped("metrics");
        }
    }

    /// Removes every series of a gauge, before those that still exist are set.
    pub fn clear(&self, name: &'static str) {
        self.gauges.clear(name);
    }

    /// Moves recorded durations into their buckets; to be called every few seconds, so that they do
    /// not pile up while nobody scrapes.
    pub fn run_upkeep(&self) {
        self.registry.handle.run_upkeep();
    }

    /// The Prometheus text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.registry.handle.render();
        text.push_str(&self.gauges.render());
        text
    }

    fn worded<K: Ord + Copy>(
        &self,
        counters: &RwLock<BTreeMap<K, Counter>>,
        key: K,
        name: &'static str,
        labels: impl Fn() -> Vec<Label>,
    ) -> Counter {
        if let Some(counter) = counters.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return counter.clone();
        }
        let mut counters = counters.write().unwrap_or_else(PoisonError::into_inner);
        if counters.len() >= MAX_WORDS {
            return Counter::noop();
        }
        counters.entry(key).or_insert_with(|| self.registry.counter(name, labels())).clone()
    }
}

/// A recorder with every metric described.
pub(crate) struct Registry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Registry {
    fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for definition in DEFINITIONS.iter().filter(|definition| definition.kind == Kind::Histogram) {
            // Refused are only empty buckets, and none of the table's are.
            builder = builder
                .set_buckets_for_metric(Matcher::Full(definition.name.to_owned()), definition.buckets)
                .unwrap_or_else(|_| PrometheusBuilder::new());
        }
        let recorder = builder.build_recorder();
        for definition in DEFINITIONS {
            let (name, help) = (definition.name.into(), definition.help.into());
            match definition.kind {
                Kind::Counter => recorder.describe_counter(name, definition.unit, help),
                Kind::Gauge => recorder.describe_gauge(name, definition.unit, help),
                Kind::Histogram => recorder.describe_histogram(name, definition.unit, help),
            }
        }
        Self { handle: recorder.handle(), recorder }
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    fn gauge(&self, name: &'static str, labels: Vec<Label>) -> metrics::Gauge {
        self.recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
    }

    fn histogram(&self, name: &'static str, labels: Vec<Label>) -> Histogram {
        self.recorder.register_histogram(&Key::from_parts(name, labels), &METADATA)
    }
}

const METADATA: Metadata<'static> = Metadata::new("seam", metrics::Level::INFO, None);

#[cfg(test)]
mod tests;
