//! The mesh's own counters, carried over into the metrics, and what it holds.

use super::Counted;
use crate::agent::links::Links;
use crate::agent::mesh::{Drops, TrafficKind};
use crate::mesh::{MemberState, RecordKind, Refusal};
use crate::metrics::Direction;

pub(super) async fn keep(links: &Links, counted: &mut Counted<(&'static str, &'static str)>) {
    let Some(mesh) = links.mesh.get() else { return };
    let stats = mesh.stats();
    for kind in TrafficKind::ALL {
        let word = kind.as_str();
        if let Some(bytes) = counted.news(("sent", word), stats.bytes_out(kind)) {
            links.metrics.gossip(Direction::Sent, word, bytes);
        }
        if let Some(bytes) = counted.news(("received", word), stats.bytes_in(kind)) {
            links.metrics.gossip(Direction::Received, word, bytes);
        }
    }
    for place in Drops::ALL {
        if let Some(count) = counted.news(("dropped", place.as_str()), stats.dropped(place)) {
            links.metrics.dropped_many(place.as_str(), count);
        }
    }
    for &reason in Refusal::ALL {
        if let Some(count) = counted.news(("refused", reason.as_str()), stats.refused(reason)) {
            links.metrics.disbelieved(reason.as_str(), count);
        }
    }
    let connections = mesh.connections();
    for (word, total) in [("connection_refused", connections.refused), ("connection_failed", connections.failed)] {
        if let Some(count) = counted.news(("refused", word), total) {
            links.metrics.disbelieved(word, count);
        }
    }
    for state in MemberState::ALL {
        links.metrics.set("seam_members", &[state.as_str()], stats.members(state) as f64);
    }
    let ages = mesh.record_ages_ms().await;
    for kind in [RecordKind::Node, RecordKind::Load, RecordKind::Paths(0)].map(RecordKind::as_str) {
        let of_kind = || ages.iter().filter(|(found, _)| *found == kind).map(|(_, age_ms)| *age_ms);
        links.metrics.set("seam_records", &[kind], of_kind().count() as f64);
        links.metrics.set("seam_record_age_seconds", &[kind], of_kind().max().unwrap_or(0) as f64 / 1000.0);
    }
}
