//! What the mesh knows, as others ask for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::api::MemberLine;
use crate::codec;
use crate::core::Now;
use crate::mesh::{Envelope, Member, MemberState, MeshCore, RecordKind, RecordView};
use crate::model::{Generation, LoadRecord, NodeName, NodeRecord, PathsRecord};

/// A question to the gossip actor.
#[derive(Debug)]
pub(super) enum View {
    /// Everyone.
    Members(oneshot::Sender<Vec<MemberLine>>),
    /// Every record that holds.
    Records(oneshot::Sender<Vec<Value>>),
    /// The kind of every record that holds, and its age in milliseconds.
    Ages(oneshot::Sender<Vec<(&'static str, u64)>>),
    /// How many are in each state.
    Counts(oneshot::Sender<[u64; 3]>),
    /// The latest life of a name, and where it listened.
    Life(NodeName, oneshot::Sender<Option<(Generation, SocketAddr)>>),
}

pub(super) fn answer(core: &MeshCore, now: Now, view: View) {
    // Whoever asked may be gone.
    match view {
        View::Members(reply) => _ = reply.send(members(core, now)),
        View::Records(reply) => _ = reply.send(core.records(now).filter_map(|record| to_json(&record)).collect()),
        View::Ages(reply) => {
            let age = |record: RecordView<'_>| (record.envelope.kind.as_str(), record.age_ms);
            _ = reply.send(core.records(now).map(age).collect());
        }
        View::Counts(reply) => _ = reply.send(counts(core)),
        View::Life(name, reply) => {
            let all = core.members().map(|(member, _)| member).chain([core.identity()]);
            let life = all.filter(|member| member.name == name).map(|member| (member.generation, member.addr)).next();
            _ = reply.send(life);
        }
    }
}

fn members(core: &MeshCore, now: Now) -> Vec<MemberLine> {
    let loads: BTreeMap<_, _> = core
        .records(now)
        .filter(|record| record.envelope.kind == RecordKind::Load)
        .filter_map(|record| {
            Some((&record.envelope.origin, codec::decode::<LoadRecord>(&record.envelope.body.0).ok()?))
        })
        .collect();
    let line = |(member, state): (&Member, MemberState)| {
        let record = core.node_record(&member.name);
        let load = loads.get(&member.name);
        MemberLine {
            node: member.name.clone(),
            generation: member.generation,
            state: state.as_str().to_owned(),
            mesh_addr: member.addr.to_string(),
            roles: record.map(|record| record.roles.clone()).unwrap_or_default(),
            pool: record.and_then(|record| record.pool.clone()),
            sessions: load.map(|load| (load.active_sessions, load.max_sessions)),
            kv_bytes_free: load.map(|load| load.kv_bytes_free),
            draining: load.is_some_and(|load| load.draining),
        }
    };
    let me = (core.identity(), MemberState::Alive);
    let own_earlier_lives = |(member, _): &(&Member, MemberState)| member.name != core.identity().name;
    let mut lines: Vec<_> = core.members().filter(own_earlier_lives).chain([me]).map(line).collect();
    lines.sort_by(|a, b| a.node.cmp(&b.node));
    lines
}

fn counts(core: &MeshCore) -> [u64; 3] {
    let mut counts = [1, 0, 0];
    for (member, state) in core.members() {
        if let Some(count) = counts.get_mut(state as usize).filter(|_| member.name != core.identity().name) {
            *count += 1;
        }
    }
    counts
}

fn to_json(record: &RecordView<'_>) -> Option<Value> {
    let Envelope { origin, kind, generation, seq, ttl_ms, body, .. } = record.envelope;
    let content = match kind {
        RecordKind::Node => serde_json::to_value(codec::decode::<NodeRecord>(&body.0).ok()?),
        RecordKind::Load => serde_json::to_value(codec::decode::<LoadRecord>(&body.0).ok()?),
        RecordKind::Paths(_) => serde_json::to_value(codec::decode::<PathsRecord>(&body.0).ok()?),
    };
    let mut content = content.ok()?;
    // The certificate is long, and nobody reads it here.
    if let Some(object) = content.as_object_mut() {
        object.remove("certificate");
    }
    Some(json!({
        "origin": origin,
        "kind": kind.as_str(),
        "generation": generation,
        "seq": seq,
        "age_ms": record.age_ms,
        "ttl_ms": ttl_ms,
        "record": content,
    }))
}
