//! Real meshes on loopback: joining, records, leases, leaving, and who is kept out.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use seam::agent::mesh::{LeaseServer, MeshHandle, MeshSettings, MeshStartError, TrafficKind};
use seam::mesh::{MemberState, MeshEvent, MeshSize};
use seam::model::{
    LeaseAsk, LeaseCall, LeaseCallReply, LeaseRefusal, LeaseReply, LoadRecord, NodeName, NodeRecord, ObservedPath,
    PathHealth, PathsRecord, Role,
};
use seam::net::NodeIdentity;

const PATIENCE: Duration = Duration::from_secs(30);

struct Node {
    mesh: MeshHandle,
    events: Arc<Mutex<Vec<MeshEvent>>>,
}

/// Grants nothing, and says who asked.
struct Echo;

impl LeaseServer for Echo {
    fn call<'a>(&'a self, from: &'a NodeName, call: LeaseCall) -> BoxFuture<'a, LeaseCallReply> {
        Box::pin(async move {
            match call {
                LeaseCall::Ask(_) => {
                    LeaseCallReply::Lease(LeaseReply::Refused { refusal: LeaseRefusal::Draining, quote: None })
                }
                LeaseCall::Release(lease) | LeaseCall::GiveUp(lease) => LeaseCallReply::Changed(lease.node == *from),
                LeaseCall::Renew { .. } => LeaseCallReply::Changed(false),
            }
        })
    }
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn settings(dir: &Path, node: &str, seeds: &[SocketAddr]) -> MeshSettings {
    MeshSettings {
        node: name(node),
        cluster: "live".to_owned(),
        bind: loopback(),
        advertise: None,
        seeds: seeds.iter().map(SocketAddr::to_string).collect(),
        size: MeshSize::Local,
        data_dir: dir.join(node),
        seed: 7,
    }
}

async fn start_with(dir: &Path, settings: MeshSettings) -> Result<Node, MeshStartError> {
    let identity = Arc::new(NodeIdentity::dev("live", &settings.node, dir).unwrap());
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let node = settings.node.clone();
    let sink = Arc::new(move |event| sink.lock().unwrap().push(event));
    let mesh = MeshHandle::start(settings, Arc::clone(&identity), sink, Arc::new(Echo)).await?;
    mesh.publish_node(NodeRecord {
        node,
        roles: vec![Role::Decode],
        pool: None,
        model: None,
        compat: None,
        risk_group: None,
        rails: Vec::new(),
        certificate: identity.certificate_der().to_vec(),
    });
    Ok(Node { mesh, events })
}

async fn start(dir: &Path, node: &str, seeds: &[SocketAddr]) -> Node {
    start_with(dir, settings(dir, node, seeds)).await.unwrap()
}

/// Three nodes that know each other.
async fn three(dir: &Path) -> [Node; 3] {
    let a = start(dir, "a", &[]).await;
    let b = start(dir, "b", &[a.mesh.addr()]).await;
    let c = start(dir, "c", &[a.mesh.addr()]).await;
    let nodes = [a, b, c];
    until("all know all", || nodes.iter().all(|node| node.knows().len() == 2)).await;
    nodes
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

impl Node {
    fn events(&self) -> Vec<MeshEvent> {
        self.events.lock().unwrap().clone()
    }

    /// The last load that this node heard of another.
    fn load_of(&self, of: &str) -> Option<LoadRecord> {
        let heard = |event: &MeshEvent| match event {
            MeshEvent::Load { node, record, .. } if *node == name(of) => Some(record.clone()),
            _ => None,
        };
        self.events().iter().rev().find_map(heard)
    }

    /// The others whose record this node has and that are not gone.
    fn knows(&self) -> Vec<(NodeName, u64)> {
        let mut known = Vec::new();
        for event in self.events() {
            match event {
                MeshEvent::Node { generation, record } => {
                    known.retain(|(name, _)| *name != record.node);
                    known.push((record.node.clone(), generation));
                }
                MeshEvent::Gone { node, .. } => known.retain(|(name, _)| *name != node),
                MeshEvent::Load { .. } | MeshEvent::Paths { .. } => {}
            }
        }
        known
    }
}

fn load(active_sessions: u32) -> LoadRecord {
    LoadRecord {
        revision: u64::MAX,
        active_sessions,
        max_sessions: 8,
        soft_fraction: 0.75,
        kv_bytes_free: 1 << 20,
        inbound_bytes: 0,
        token_time_ms: None,
        draining: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_join_see_each_others_records_and_notice_who_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = three(dir.path()).await;
    assert!(a.mesh.joined() && b.mesh.joined() && c.mesh.joined());

    c.mesh.publish_load(load(3));
    let path = "b>c/r0/quic".parse().unwrap();
    let paths = vec![ObservedPath { path, health: PathHealth { gfs: 0.4, ..PathHealth::UNKNOWN } }];
    b.mesh.publish_paths(vec![PathsRecord { chunk: 0, paths: paths.clone() }]);
    until("a and b hear c's load", || {
        [&a, &b].iter().all(|node| {
            let heard = |event: &MeshEvent| matches!(event, MeshEvent::Load { record, .. } if *record == load(3));
            node.events().iter().any(heard)
        })
    })
    .await;
    until("a hears b's paths", || {
        let heard = |event: &MeshEvent| matches!(event, MeshEvent::Paths { record, .. } if record.paths == paths);
        a.events().iter().any(heard)
    })
    .await;

    let line = a.mesh.members().await.into_iter().find(|line| line.node == name("c")).unwrap();
    assert_eq!((line.sessions, line.state.as_str(), line.generation), (Some((3, 8)), "alive", c.mesh.generation()));
    assert!(a.mesh.records().await.iter().any(|record| record["origin"] == "c" && record["kind"] == "load"));
    assert!(a.mesh.stats().bytes_in(TrafficKind::Packet) > 0 && a.mesh.stats().bytes_out(TrafficKind::Sync) > 0);

    c.mesh.leave().await;
    let gone = MeshEvent::Gone { node: name("c"), generation: c.mesh.generation() };
    until("a and b notice", || a.events().contains(&gone) && b.events().contains(&gone)).await;
    until("it is counted", || a.mesh.stats().members(MemberState::Down) == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_call_reaches_the_other_nodes_ledger_and_names_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, _c] = three(dir.path()).await;
    let deadline = Duration::from_secs(10);
    let release = |node: &str| LeaseCall::Release(format!("{node}.1.1").parse().unwrap());
    assert_eq!(a.mesh.call_lease(&name("b"), release("a"), deadline).await, Some(LeaseCallReply::Changed(true)));
    assert_eq!(b.mesh.call_lease(&name("c"), release("a"), deadline).await, Some(LeaseCallReply::Changed(false)));
    let (sent, received) =
        (a.mesh.stats().messages_out(TrafficKind::Lease), a.mesh.stats().messages_in(TrafficKind::Lease));
    assert_eq!((sent, received), (1, 1), "the answer counts as the question does");

    let ask = |holder: &str| LeaseAsk {
        holder: name(holder),
        holder_generation: a.mesh.generation(),
        ask: 1,
        request_id: "r1".parse().unwrap(),
        kv_bytes: 1,
        ttl_ms: 1_000,
        model: None,
    };
    let refused = LeaseReply::Refused { refusal: LeaseRefusal::Draining, quote: None };
    let reply = a.mesh.call_lease(&name("b"), LeaseCall::Ask(ask("a")), deadline).await;
    assert_eq!(reply, Some(LeaseCallReply::Lease(refused)));
    assert_eq!(a.mesh.call_lease(&name("b"), LeaseCall::Ask(ask("c")), deadline).await, None, "in another's name");
    assert_eq!(a.mesh.call_lease(&name("nobody"), release("a"), deadline).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_proves_new_connections_and_every_record_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, _c] = three(dir.path()).await;
    b.mesh.publish_load(load(1));
    until("the load is known", || a.load_of("b") == Some(load(1))).await;
    let renewed = NodeIdentity::dev("live", &name("b"), dir.path()).unwrap();
    b.mesh.set_identity(&renewed).unwrap();
    let holds = |events: &[MeshEvent]| {
        let certificate = |event: &MeshEvent| match event {
            MeshEvent::Node { record, .. } => record.certificate == renewed.certificate_der(),
            _ => false,
        };
        events.iter().any(certificate)
    };
    until("the new certificate is known", || holds(&a.events())).await;
    b.mesh.publish_load(load(2));
    until("what the new key signs is believed", || a.load_of("b") == Some(load(2))).await;
    // Whoever joins now has only the new certificate to go by.
    let d = start(dir.path(), "d", &[b.mesh.addr()]).await;
    until("a newcomer believes it too", || d.load_of("b") == Some(load(2))).await;
    for node in [&a, &b, &d] {
        assert!(!node.events().iter().any(|event| matches!(event, MeshEvent::Gone { .. })));
    }
    let other = NodeIdentity::dev("live", &name("c"), dir.path()).unwrap();
    assert!(b.mesh.set_identity(&other).unwrap_err().to_string().starts_with("node.name: "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_authority_is_kept_out() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [a, b, c] = three(dir.path()).await;
    let stranger = start(other.path(), "x", &[a.mesh.addr()]).await;
    // Long enough for it to try several times: what must not happen has no moment to wait for.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!stranger.mesh.joined());
    assert!(a.mesh.connections().failed > 0, "{:?}", a.mesh.connections());
    assert_eq!(stranger.mesh.members().await.len(), 1);
    for node in [&a, &b, &c] {
        assert_eq!(node.mesh.members().await.len(), 3);
        assert_eq!(node.knows().len(), 2);
        assert!(!node.events().iter().any(|event| matches!(event, MeshEvent::Gone { .. })));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_of_a_live_name_does_not_start_and_says_who_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, _c] = three(dir.path()).await;
    for seed in [a.mesh.addr(), b.mesh.addr()] {
        let error = start_with(dir.path(), settings(dir.path(), "b", &[seed])).await.err().unwrap();
        let text = error.to_string();
        assert!(text.contains("b takes part already") && text.contains(&b.mesh.addr().to_string()), "{text}");
    }
    assert_eq!(a.knows().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_of_a_live_name_ends_when_its_seed_answers_late_and_the_first_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, _c] = three(dir.path()).await;
    // Of two that started within a second of each other, the address decides who stays.
    let known = std::time::Instant::now();
    until("the first one is the older one", || known.elapsed() > Duration::from_secs(1)).await;
    // Nobody answers there yet, so it starts.
    let late = std::net::UdpSocket::bind(loopback()).unwrap();
    let at = late.local_addr().unwrap();
    let other_data = MeshSettings { data_dir: dir.path().join("b2"), ..settings(dir.path(), "b", &[at]) };
    let second = start_with(dir.path(), other_data).await.unwrap();
    assert!(!second.mesh.joined() && second.mesh.fault().is_none());

    drop(late);
    let seed = MeshSettings { bind: at, ..settings(dir.path(), "d", &[a.mesh.addr()]) };
    let _seed = start_with(dir.path(), seed).await.unwrap();
    tokio::time::timeout(PATIENCE, second.mesh.ended()).await.expect("the younger one ends");
    let fault = second.mesh.fault().expect("it says why").to_owned();
    assert!(fault.contains("b takes part already") && fault.contains(&b.mesh.addr().to_string()), "{fault}");
    assert!(b.mesh.fault().is_none());
    until("the first one is in its place", || {
        let life = b.mesh.generation();
        a.knows().contains(&(name("b"), life))
    })
    .await;
    let reply = a.mesh.call_lease(&name("b"), LeaseCall::Release("a.1.1".parse().unwrap()), PATIENCE).await;
    assert_eq!(reply, Some(LeaseCallReply::Changed(true)), "and is used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_again_at_its_address_is_not_taken_for_a_second_process() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = three(dir.path()).await;
    let (addr, before) = (c.mesh.addr(), c.mesh.generation());
    // It ends without leaving, so the others go on saying that it takes part.
    drop(c);
    let again = MeshSettings { bind: addr, ..settings(dir.path(), "c", &[a.mesh.addr()]) };
    let mut started = start_with(dir.path(), again.clone()).await;
    for _ in 0..200 {
        if !matches!(started, Err(MeshStartError::Net(_))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        started = start_with(dir.path(), again.clone()).await;
    }
    let c = started.unwrap();
    assert!(c.mesh.generation() > before);
    let later = (name("c"), c.mesh.generation());
    until("all know the later life", || [&a, &b].iter().all(|node| node.knows().contains(&later))).await;
    let reply = a.mesh.call_lease(&name("c"), LeaseCall::Release("a.1.1".parse().unwrap()), PATIENCE).await;
    assert_eq!(reply, Some(LeaseCallReply::Changed(true)));
    assert_eq!(c.mesh.fault(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_crashed_comes_back_in_a_later_life_even_if_it_forgot_the_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = three(dir.path()).await;
    let before = c.mesh.generation();
    drop(c);
    std::fs::remove_dir_all(dir.path().join("c")).unwrap();
    let c = start(dir.path(), "c", &[b.mesh.addr()]).await;
    assert!(c.mesh.generation() > before);
    let later = (name("c"), c.mesh.generation());
    until("all know the later life", || [&a, &b].iter().all(|node| node.knows().contains(&later))).await;
    let gone = MeshEvent::Gone { node: name("c"), generation: before };
    assert!(a.events().contains(&gone) && b.events().contains(&gone));
    let reply = a.mesh.call_lease(&name("c"), LeaseCall::Release("a.1.1".parse().unwrap()), PATIENCE).await;
    assert_eq!(reply, Some(LeaseCallReply::Changed(true)));
}

#[tokio::test]
async fn a_node_that_others_could_not_reach_or_that_is_its_own_only_seed() {
    let dir = tempfile::tempdir().unwrap();
    let everywhere = MeshSettings { bind: SocketAddr::from(([0, 0, 0, 0], 0)), ..settings(dir.path(), "a", &[]) };
    let error = start_with(dir.path(), everywhere.clone()).await.err().unwrap();
    assert!(error.to_string().starts_with("mesh.advertise: missing"), "{error}");
    for advertise in ["0.0.0.0:7981", "[::]:7981"] {
        let nowhere = MeshSettings { advertise: Some(advertise.parse().unwrap()), ..settings(dir.path(), "a", &[]) };
        let error = start_with(dir.path(), nowhere).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("mesh.advertise: found {advertise}, allowed a concrete")), "{error}");
    }
    let bad = MeshSettings { seeds: vec!["[::1".to_owned()], ..settings(dir.path(), "a", &[]) };
    let error = start_with(dir.path(), bad).await.err().unwrap().to_string();
    assert!(error.starts_with("mesh.seeds[0]: found \"[::1\", allowed HOST"), "{error}");

    let port = std::net::UdpSocket::bind(loopback()).unwrap().local_addr().unwrap().port();
    let seeds = vec![format!("127.0.0.1:{port}")];
    let bind = SocketAddr::from(([0, 0, 0, 0], port));
    let itself = MeshSettings { bind, seeds, advertise: Some(SocketAddr::from(([10, 1, 1, 1], 0))), ..everywhere };
    let node = start_with(dir.path(), itself).await.unwrap();
    assert_eq!(node.mesh.addr(), SocketAddr::from(([10, 1, 1, 1], port)));
    assert!(node.mesh.joined());
    node.mesh.leave().await;
}
