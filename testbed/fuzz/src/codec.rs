//! The messages of the mesh and of leases.

use std::net::SocketAddr;

// `rail` compiles a source file of Seam, which finds this name here.
pub(crate) use seam::codec::Wire;
use seam::codec::{self, Blob};
use seam::mesh::{Aged, Envelope, OriginDigest, RecordKind, SyncAsk, SyncPush, SyncReply};
use seam::model::{
    Generation, LeaseAsk, LeaseCall, LeaseCallReply, LoadRecord, NodeName, NodeRecord, PathsRecord, Role,
};
use serde::{Deserialize, Serialize};

/// Has the form of what a node that starts asks; Seam keeps the type itself to itself.
#[derive(Serialize, Deserialize)]
struct Hello(NodeName);

/// The form of its answer.
#[derive(Serialize, Deserialize)]
struct HelloReply(Option<(Generation, SocketAddr)>, u64);

impl Wire for Hello {
    const NAME: &'static str = "hello";
    const LIMIT: usize = 128;
}

impl Wire for HelloReply {
    const NAME: &'static str = "hello answer";
    const LIMIT: usize = 128;
}

/// The first byte says which message the rest is.
pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    match choice % 11 {
        0 => decode::<Envelope>(bytes),
        1 => decode::<SyncAsk>(bytes),
        2 => decode::<SyncReply>(bytes),
        3 => decode::<SyncPush>(bytes),
        4 => decode::<NodeRecord>(bytes),
        5 => decode::<LoadRecord>(bytes),
        6 => decode::<PathsRecord>(bytes),
        7 => decode::<LeaseCall>(bytes),
        8 => decode::<LeaseCallReply>(bytes),
        9 => decode::<Hello>(bytes),
        _ => decode::<HelloReply>(bytes),
    }
}

/// What is accepted can be sent again, in no more bytes, and means the same.
fn decode<T: Wire>(bytes: &[u8]) {
    let Ok(value) = codec::decode::<T>(bytes) else { return };
    let sent = codec::encode(&value).expect("what was received can be sent");
    assert!(sent.len() <= bytes.len(), "{} grew from {} to {} bytes", T::NAME, bytes.len(), sent.len());
    let again: T = codec::decode(&sent).expect("what was sent can be received");
    assert_eq!(codec::encode(&again).expect("and sent again"), sent);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let node = |name: &str| NodeName::new(name).expect("a name");
    let envelope = Envelope {
        origin: node("d0"),
        kind: RecordKind::Load,
        generation: 7,
        seq: 3,
        ttl_ms: 60_000,
        body: Blob(codec::encode(&load()).expect("small")),
        signature: Blob(vec![7; 64]),
    };
    let digest = OriginDigest {
        origin: node("d0"),
        generation: 7,
        seqs: vec![(RecordKind::Node, 1), (RecordKind::Load, 300), (RecordKind::Paths(2), 70_000)],
    };
    let entries = SyncAsk::Entries { member_buckets: 1, members: Vec::new(), record_buckets: 6, digest: vec![digest] };
    let aged = Aged { age_ms: 12, envelope: envelope.clone() };
    let want = vec![(node("d0"), RecordKind::Node)];
    let delta = SyncReply::Delta { members: Vec::new(), records: vec![aged.clone()], want };
    let ask = LeaseAsk {
        holder: node("p0"),
        holder_generation: 4,
        ask: 3,
        request_id: "r".parse().expect("a name"),
        kv_bytes: 300,
        ttl_ms: 250,
        model: None,
    };
    let lease = "d0.7.300".parse().expect("a lease");
    let bytes = [
        (0, codec::encode(&envelope)),
        (1, codec::encode(&SyncAsk::Roots { members: 1, records: u64::MAX })),
        (1, codec::encode(&entries)),
        (2, codec::encode(&SyncReply::Buckets { members: Vec::new(), records: vec![300; 64] })),
        (2, codec::encode(&delta)),
        (3, codec::encode(&SyncPush { records: vec![aged] })),
        (4, codec::encode(&node_record(node("d0"), vec![1; 40]))),
        (5, codec::encode(&load())),
        (6, codec::encode(&PathsRecord { chunk: 1, paths: Vec::new() })),
        (7, codec::encode(&LeaseCall::Ask(ask))),
        (7, codec::encode(&LeaseCall::Renew { lease, ttl_ms: 9 })),
        (8, codec::encode(&LeaseCallReply::Changed(true))),
        (9, codec::encode(&Hello(node("d0")))),
        (10, codec::encode(&HelloReply(Some((5, SocketAddr::from(([10, 0, 0, 1], 7)))), 300))),
    ];
    bytes.into_iter().flat_map(|(choice, bytes)| crate::chosen(choice, &[&bytes.expect("small")])).collect()
}

pub(crate) fn load() -> LoadRecord {
    LoadRecord {
        revision: 1,
        active_sessions: 3,
        max_sessions: 64,
        soft_fraction: 0.75,
        kv_bytes_free: 1 << 30,
        inbound_bytes: 0,
        token_time_ms: Some(12.5),
        draining: false,
    }
}

pub(crate) fn node_record(node: NodeName, certificate: Vec<u8>) -> NodeRecord {
    NodeRecord {
        node,
        roles: vec![Role::Decode],
        pool: None,
        model: None,
        compat: None,
        risk_group: None,
        rails: Vec::new(),
        certificate,
    }
}
