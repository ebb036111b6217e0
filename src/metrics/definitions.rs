//! The table of all metrics.

use metrics::Unit;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit, where it has one.
    pub unit: Option<Unit>,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of its buckets; none unless it is a histogram.
    pub buckets: &'static [f64],
    /// What it says.
    pub help: &'static str,
}

/// Work of a processor: microseconds to tens of milliseconds.
const COMPUTING: &[f64] = &[5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 5e-2];

/// Words over a network: tens of microseconds to seconds.
const TALKING: &[f64] = &[5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Bytes over a network: a millisecond to a minute.
const MOVING: &[f64] = &[1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

const PATH: &[&str] = &["peer", "pool", "rail", "backend"];

/// Every metric of an agent.
pub const DEFINITIONS: &[Definition] = &[
    gauge("seam_build_info", None, &["version", "profile"], "Always 1; the labels say what runs."),
    gauge("seam_config_info", None, &["config_hash"], "Always 1; the label says what is configured."),
    counter(
        "seam_config_reloads_total",
        None,
        &["result"],
        "How often the configuration was read anew: ok (taken) or refused (the old one holds).",
    ),
    gauge(
        "seam_node_gfs",
        None,
        &["perspective"],
        "Gray Failure Score of this node: source (session-weighted mean over its paths) or destination (median over its observers).",
    ),
    gauge(
        "seam_node_late_ratio",
        None,
        &[],
        "Share of recent samples that were taken while this host itself was late.",
    ),
    gauge(
        "seam_node_frozen",
        None,
        &[],
        "1 while most samples were taken while this host itself was late, so that no path changes its state; 0 once they are not.",
    ),
    gauge("seam_path_gfs", None, PATH, "Gray Failure Score of a path, 0 to 1."),
    gauge("seam_path_severity", None, PATH, "Severity of a path's state, 0 (healthy) to 1 (quarantined)."),
    gauge(
        "seam_path_latency_p99_seconds",
        Some(Unit::Seconds),
        PATH,
        "99th percentile of a path's size-free latency over its window.",
    ),
    gauge(
        "seam_path_jitter_seconds",
        Some(Unit::Seconds),
        PATH,
        "Standard deviation of a path's size-free latency over its window.",
    ),
    gauge("seam_path_drop_ratio", None, PATH, "Mean share of lost or failed attempts over a path's window, 0 to 1."),
    gauge(
        "seam_path_bandwidth_ratio",
        None,
        PATH,
        "Achieved over expected bandwidth of a path's newest large samples, 0 to 1; absent while there are none.",
    ),
    gauge("seam_paths", None, &["state"], "Paths by state."),
    counter(
        "seam_path_series_omitted_total",
        None,
        &[],
        "Updates of paths beyond metrics.max_paths, which have no series of their own.",
    ),
    counter("seam_state_transitions_total", None, &["from", "to"], "Changes of path states."),
    counter("seam_decisions_total", None, &["workload", "outcome"], "Routing decisions."),
    counter("seam_candidate_rejections_total", None, &["workload", "code"], "Candidates that a decision refused."),
    histogram("seam_decision_seconds", &[], COMPUTING, "Time of the policy for one decision."),
    histogram("seam_route_seconds", &[], TALKING, "Time of one route request, its lease included."),
    counter("seam_lease_requests_total", None, &["result"], "Leases asked of decode hosts, by result."),
    gauge(
        "seam_leases",
        None,
        &["state"],
        "Leases by state: granted, delivered or fenced on a decode host, held on a holder.",
    ),
    gauge(
        "seam_recovering",
        None,
        &[],
        "1 while a decode host grants nothing because it does not know what its earlier life granted, else 0.",
    ),
    gauge("seam_headroom_sessions", None, &["pool"], "Sessions free in a pool, as this node knows it."),
    gauge("seam_headroom_kv_bytes", Some(Unit::Bytes), &["pool"], "KV bytes free in a pool, as this node knows it."),
    gauge("seam_excluded_fraction", None, &["pool"], "Share of a pool's paths that are excluded, 0 to 1."),
    counter("seam_transfers_total", None, &["backend", "result"], "Attempts to move bytes, by result."),
    counter("seam_transfer_bytes_total", Some(Unit::Bytes), &["backend", "direction"], "Bytes of transfers."),
    histogram("seam_transfer_seconds", &["backend"], MOVING, "Time of one attempt to move bytes."),
    counter("seam_probes_total", None, &["backend", "result"], "Probes, by result."),
    histogram("seam_probe_seconds", &["backend"], TALKING, "Time of one small probe."),
    counter("seam_bulk_probe_bytes_total", Some(Unit::Bytes), &["backend"], "Bytes of bulk probes and canaries."),
    counter(
        "seam_rail_refused_total",
        None,
        &["rail", "reason"],
        "What a rail turned away or gave up: requests refused, broken or malformed, connections refused or failed.",
    ),
    counter(
        "seam_rail_device_errors_total",
        None,
        &["rail", "counter"],
        "Errors that a rail's RDMA device has reported or its port has counted since the agent started, by the kernel's name of the counter.",
    ),
    counter("seam_samples_discarded_total", None, &["reason"], "Samples that were not used."),
    gauge("seam_members", None, &["state"], "Members of the mesh by state."),
    counter("seam_gossip_bytes_total", Some(Unit::Bytes), &["direction", "kind"], "Bytes of the mesh."),
    counter(
        "seam_mesh_refused_total",
        None,
        &["reason"],
        "What other members said and this node did not believe, and connections that it turned away, by reason.",
    ),
    gauge("seam_records", None, &["kind"], "Mesh records held."),
    gauge("seam_record_age_seconds", Some(Unit::Seconds), &["kind"], "Age of the oldest mesh record held."),
    counter("seam_journal_bytes_total", Some(Unit::Bytes), &[], "Bytes written to the journal's segments."),
    counter(
        "seam_journal_gaps_total",
        None,
        &[],
        "Places in the journal where turns of a core are missing; seam_queue_dropped_total counts the turns, as queue journal.",
    ),
    counter("seam_queue_dropped_total", None, &["queue"], "What bounded queues and buffers refused."),
];

const fn counter(
    name: &'static str,
    unit: Option<Unit>,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition { name, kind: Kind::Counter, unit, labels, buckets: &[], help }
}

const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition { name, kind: Kind::Gauge, unit, labels, buckets: &[], help }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Definition {
    Definition { name, kind: Kind::Histogram, unit: Some(Unit::Seconds), labels, buckets, help }
}
