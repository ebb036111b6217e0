//! A candidate's record as it is written: flat, its numbers rounded where people read them. Tapes
//! and snapshots keep every number as it was computed.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CandidateRecord, CapacityRecord, HealthRecord, TopologyRecord, path_text};
use crate::model::{BackendKind, Blame, NodeName, PathId, PathState, PoolName, Reason};
use crate::policy::decide::Target;
use crate::policy::round::round4;
use crate::policy::select::{SelectionPolicy, SelectionVector, Skipped};

/// [`CandidateRecord`], field by field: borrowed to be written, owned once read.
#[derive(Serialize, Deserialize)]
pub(super) struct Written<'a> {
    pool: Cow<'a, PoolName>,
    node: Cow<'a, Option<NodeName>>,
    #[serde(serialize_with = "path_text::serialize", deserialize_with = "owned_path")]
    path: Cow<'a, Option<PathId>>,
    backend: Option<BackendKind>,
    path_state: PathState,
    #[serde(serialize_with = "four_decimals")]
    gfs: f64,
    #[serde(serialize_with = "four_decimals")]
    prs: f64,
    #[serde(serialize_with = "four_decimals")]
    fae: f64,
    admissible: bool,
    code: Reason,
    observed: Option<f64>,
    limit: Option<f64>,
    predicted_ms: Option<f64>,
    blame: Option<Blame>,
    capacity: CapacityRecord,
    topology: Cow<'a, TopologyRecord>,
    health: HealthRecord,
    selection_policy: Option<SelectionPolicy>,
    selection_vector: SelectionVector,
    chosen: bool,
    #[serde(default)]
    detail: Cow<'a, Option<Arc<str>>>,
    skipped_reason: Option<Skipped>,
}

impl<'a> From<&'a CandidateRecord> for Written<'a> {
    fn from(record: &'a CandidateRecord) -> Self {
        let target = &record.target;
        Self {
            pool: Cow::Borrowed(&target.pool),
            node: Cow::Borrowed(&target.node),
            path: Cow::Borrowed(&target.path),
            backend: target.path.as_ref().map(|path| path.backend),
            path_state: record.path_state,
            gfs: record.gfs,
            prs: record.prs,
            fae: record.fae,
            admissible: record.admissible,
            code: record.code,
            observed: record.observed,
            limit: record.limit,
            predicted_ms: record.predicted_ms,
            blame: record.blame,
            capacity: record.capacity,
            topology: Cow::Borrowed(&record.topology),
            health: record.health,
            selection_policy: record.selection_policy,
            selection_vector: record.selection_vector,
            chosen: record.chosen,
            detail: Cow::Borrowed(&record.detail),
            skipped_reason: record.skipped_reason,
        }
    }
}

impl From<Written<'_>> for CandidateRecord {
    fn from(written: Written<'_>) -> Self {
        Self {
            target: Arc::new(Target {
                pool: written.pool.into_owned(),
                node: written.node.into_owned(),
                path: written.path.into_owned(),
            }),
            path_state: written.path_state,
            gfs: written.gfs,
            prs: written.prs,
            fae: written.fae,
            admissible: written.admissible,
            code: written.code,
            observed: written.observed,
            limit: written.limit,
            predicted_ms: written.predicted_ms,
            blame: written.blame,
            capacity: written.capacity,
            topology: written.topology.into_owned(),
            health: written.health,
            selection_policy: written.selection_policy,
            selection_vector: written.selection_vector,
            chosen: written.chosen,
            detail: written.detail.into_owned(),
            skipped_reason: written.skipped_reason,
        }
    }
}

fn owned_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, Option<PathId>>, D::Error> {
    path_text::deserialize(deserializer).map(Cow::Owned)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn four_decimals<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let written = if serializer.is_human_readable() { round4(*value) } else { *value };
    serializer.serialize_f64(written)
}
