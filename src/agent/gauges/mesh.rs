//! The mesh's own counters, carried over into the metrics, and what it holds.

use std::collections::BTreeMap;

use crate::agent::links::Links;
use crate::agent::mesh::{Drops, TrafficKind};
use crate::mesh::{MemberState, RecordKind, Refusal};
use crate::metrics::Direction;

/// What the metrics have been told already.
#[derive(Default)]
pub(super) struct Counted(BTreeMap<(&'static str, &'static str), u64>);

impl Counted {
    /// What came on top since the last time.
    fn news(&mut self, family: &'static str, word: &'static str, total: u64) -> u64 {
        let told = self.0.entry((family, word)).or_default();
        total.saturating_sub(std::mem::replace(told, total))
    }
}

pub(super) async fn keep(links: &Links, counted: &mut Counted) {
    let Some(mesh) = links.mesh.get() else { return };
    let stats = mesh.stats();
    for kind in TrafficKind::ALL {
        let word = kind.as_str();
        links.metrics.gossip(Direction::Sent, word, counted.news("sent", word, stats.bytes_out(kind)));
        links.metrics.gossip(Direction::Received, word, counted.news("received", word, stats.bytes_in(kind)));
    }
    for place in Drops::ALL {
        let count = counted.news("dropped", place.as_str(), stats.dropped(place));
        if count > 0 {
            links.metrics.dropped_many(place.as_str(), count);
        }
    }
    for &reason in Refusal::ALL {
        let count = counted.news("refused", reason.as_str(), stats.refused(reason));
        if count > 0 {
            links.metrics.disbelieved(reason.as_str(), count);
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
