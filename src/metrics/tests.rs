use super::*;
use crate::model::PathHealth;

fn path(text: &str) -> PathId {
    text.parse().unwrap()
}

fn series(gfs: f64) -> PathSeries {
    PathSeries { health: PathHealth { gfs, ..PathHealth::UNKNOWN } }
}

#[test]
fn what_was_counted_is_in_the_text_with_its_help() {
    let metrics = Metrics::new("reference", 8);
    let batch = metrics.workload(&WorkloadName::new("batch").unwrap());
    batch.decided(Outcome::Admitted);
    batch.decided(Outcome::Admitted);
    batch.rejected(Reason::RejectedCapacity);
    metrics.transition(PathState::Healthy, PathState::DegradedUsable);
    metrics.probed(BackendKind::Quic, ProbeResult::Ok, Some(Duration::from_micros(300)));
    metrics.gossip(Direction::Sent, "swim", 1000);
    metrics.rail_refused(&RailName::new("r0").unwrap(), "malformed", 2);
    metrics.rail_refused(&RailName::new("r0").unwrap(), "malformed", 1);
    metrics.set("seam_paths", &["healthy"], 3.0);
    let text = metrics.render();
    for line in [
        "# HELP seam_decisions_total Routing decisions.",
        "# TYPE seam_decisions_total counter",
        "seam_decisions_total{workload=\"batch\",outcome=\"admitted\"} 2",
        "seam_candidate_rejections_total{workload=\"batch\",code=\"rejected_capacity\"} 1",
        "seam_state_transitions_total{from=\"healthy\",to=\"degraded_usable\"} 1",
        "seam_probe_seconds_bucket{backend=\"quic\",le=\"0.00025\"} 0",
        "seam_probe_seconds_bucket{backend=\"quic\",le=\"0.0005\"} 1",
        "seam_gossip_bytes_total{direction=\"sent\",kind=\"swim\"} 1000",
        "seam_rail_refused_total{rail=\"r0\",reason=\"malformed\"} 3",
        "seam_paths{state=\"healthy\"} 3",
        &format!("seam_build_info{{version=\"{VERSION}\",profile=\"reference\"}} 1"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("to=\"quarantined\""), "a series that was never counted must not appear");
}

#[test]
fn paths_are_bounded_counted_beyond_and_leave_nothing_behind() {
    let metrics = Metrics::new("reference", 2);
    for destination in ["d0", "d1", "d2"] {
        metrics.path(&path(&format!("p0>{destination}/r0/quic")), None, series(0.5));
    }
    metrics.path(&path("p0>d0/r0/quic"), Some(&PoolName::new("a").unwrap()), series(0.25));
    let text = metrics.render();
    assert!(text.contains("seam_path_gfs{peer=\"d0\",pool=\"a\",rail=\"r0\",backend=\"quic\"} 0.25"), "{text}");
    assert!(!text.contains("peer=\"d2\""));
    assert!(!text.contains("seam_path_bandwidth_ratio{"), "absent while unknown");
    let health = PathHealth { bandwidth_ratio: Some(0.5), ..PathHealth::UNKNOWN };
    metrics.path(&path("p0>d0/r0/quic"), None, PathSeries { health });
    assert!(
        metrics.render().contains("seam_path_bandwidth_ratio{peer=\"d0\",pool=\"\",rail=\"r0\",backend=\"quic\"} 0.5")
    );
    assert!(text.contains("seam_path_series_omitted_total 1"));

    metrics.path_gone(&path("p0>d0/r0/quic"));
    metrics.path(&path("p0>d2/r0/quic"), None, series(0.5));
    let text = metrics.render();
    assert!(!text.contains("peer=\"d0\"") && text.contains("peer=\"d2\""), "{text}");
}

#[test]
fn agents_of_one_process_do_not_mix() {
    let (one, other) = (Metrics::new("reference", 2), Metrics::new("reference", 2));
    one.dropped("events");
    assert!(one.render().contains("seam_queue_dropped_total{queue=\"events\"} 1"));
    assert!(!other.render().contains("seam_queue_dropped_total{"));
}

#[test]
fn a_gauge_that_is_not_in_the_table_is_refused_and_counted() {
    let metrics = Metrics::new("reference", 2);
    metrics.set("seam_surprise", &[], 1.0);
    metrics.set("seam_paths", &[], 1.0);
    metrics.set("seam_decisions_total", &["a", "b"], 1.0);
    let text = metrics.render();
    assert!(text.contains("seam_queue_dropped_total{queue=\"metrics\"} 3"), "{text}");
    assert!(!text.contains("seam_surprise"));
    metrics.set("seam_members", &["alive"], 1.0);
    metrics.clear("seam_members");
    assert!(!metrics.render().contains("seam_members{"));
}

#[test]
fn classes_beyond_the_bound_count_as_other() {
    let metrics = Metrics::new("reference", 2);
    for index in 0..MAX_WORKLOADS + 5 {
        metrics.workload(&WorkloadName::new(&format!("w{index}")).unwrap()).decided(Outcome::Admitted);
    }
    let text = metrics.render();
    assert!(text.contains("seam_decisions_total{workload=\"other\",outcome=\"admitted\"} 5"));
}

#[test]
fn the_table_names_each_metric_once_and_every_histogram_has_rising_buckets() {
    let mut names: Vec<_> = DEFINITIONS.iter().map(|definition| definition.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), DEFINITIONS.len());
    for definition in DEFINITIONS {
        assert_eq!(definition.kind == Kind::Histogram, !definition.buckets.is_empty(), "{}", definition.name);
        assert!(definition.buckets.is_sorted(), "{}", definition.name);
        assert_eq!(definition.kind == Kind::Counter, definition.name.ends_with("_total"), "{}", definition.name);
    }
}

#[test]
fn the_documentation_lists_every_metric_with_its_labels() {
    let text = std::fs::read_to_string("docs/metrics.md").unwrap();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `seam_")).map(str::to_owned).collect();
    let expected: Vec<_> = DEFINITIONS
        .iter()
        .map(|definition| {
            let kind = match definition.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels = definition.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            format!("| `{}` | {kind} | {labels} | {} |", definition.name, definition.help)
        })
        .collect();
    assert_eq!(rows, expected, "the rows that should be there:\n{}\n", expected.join("\n"));
}
