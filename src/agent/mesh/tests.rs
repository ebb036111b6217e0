//! Peers that are members of the cluster and misbehave.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use super::actor::Message;
use super::frames::Kind;
use super::peers::Peers;
use super::seeds::{Own, Starting};
use super::{EventSink, LeaseServer, MeshHandle, MeshSettings, MeshStats, TrafficKind, exchange};
use crate::mesh::{Input, MeshSize};
use crate::model::{LeaseCall, LeaseCallReply, NodeName};
use crate::net::{Connection, Endpoint, NodeIdentity, Traffic};

/// Streams that a peer of the mesh may open at once.
const STREAMS: usize = 256;

/// What does not end by then never does.
const PATIENCE: Duration = Duration::from_secs(30);

struct NoLeases;

impl LeaseServer for NoLeases {
    fn call<'a>(&'a self, _: &'a NodeName, _: LeaseCall) -> futures_util::future::BoxFuture<'a, LeaseCallReply> {
        Box::pin(async { LeaseCallReply::Changed(false) })
    }
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn identity(dir: &Path, node: &str) -> NodeIdentity {
    NodeIdentity::dev("faulty", &name(node), dir).unwrap()
}

fn endpoint(dir: &Path, node: &str) -> Endpoint {
    Endpoint::bind(loopback(), &identity(dir, node), Traffic::Mesh).unwrap()
}

async fn start(dir: &Path, node: &str) -> MeshHandle {
    let settings = MeshSettings {
        node: name(node),
        cluster: "faulty".to_owned(),
        bind: loopback(),
        advertise: None,
        seeds: Vec::new(),
        size: MeshSize::Local,
        data_dir: dir.join(node),
        seed: 7,
    };
    let sink: EventSink = Arc::new(|_| {});
    MeshHandle::start(settings, Arc::new(identity(dir, node)), sink, Arc::new(NoLeases)).await.unwrap()
}

#[tokio::test]
async fn a_peer_whose_exchanges_never_come_keeps_nobody_else_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = start(dir.path(), "a").await;
    let faulty = endpoint(dir.path(), "b");
    let connection = faulty.connect(mesh.addr(), Some(&name("a"))).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..STREAMS - 1 {
        let (mut send, receive) = connection.quinn().open_bi().await.unwrap();
        send.write_all(&[Kind::Sync as u8]).await.unwrap();
        idle.push((send, receive));
    }
    // What was sent before it has arrived when the packet has.
    connection.quinn().send_datagram(Bytes::from_static(b"no packet")).unwrap();
    while mesh.stats().bytes_in(TrafficKind::Packet) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    for _ in 0..3 {
        assert_eq!(mesh.members().await.len(), 1);
    }
    let given_up = idle.iter_mut().filter_map(|(send, _)| send.stopped().now_or_never());
    assert_eq!(given_up.count(), 0, "the answer waited for streams that were idle");
    mesh.leave().await;
}

#[tokio::test]
async fn a_node_that_starts_hears_its_seeds_clock() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = start(dir.path(), "a").await;
    let (me, endpoint, seeds) = (name("b"), endpoint(dir.path(), "b"), [mesh.addr().to_string().parse().unwrap()]);
    let own = Own { advertised: endpoint.local_addr(), bound: endpoint.local_addr() };
    let seen = Starting { me: &me, own, endpoint: &endpoint, seeds: &seeds }.seen().await.unwrap();
    assert_eq!(seen.life, None);
    assert!(seen.wall_ms >= mesh.generation(), "{seen:?} is before the seed's own life");
    mesh.leave().await;
}

/// Passes on what the gossip actor would be told.
struct Listener;

impl Actor for Listener {
    type Msg = Message;
    type State = mpsc::UnboundedSender<Message>;
    type Arguments = mpsc::UnboundedSender<Message>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        heard: mpsc::UnboundedSender<Message>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(heard)
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        heard: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        heard.send(message)?;
        Ok(())
    }
}

#[tokio::test]
async fn an_exchange_with_a_peer_that_admits_no_stream_fails_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let faulty = endpoint(dir.path(), "b");
    let stats = Arc::new(MeshStats::default());
    let (opened, _connections) = mpsc::channel::<Connection>(4);
    let peers = Peers::new(name("a"), endpoint(dir.path(), "a"), Arc::clone(&stats), opened);
    let (to, addr) = (name("b"), faulty.local_addr());
    let (connection, _accepted) = tokio::join!(peers.to(&to, addr), faulty.accept());
    let connection = connection.unwrap();
    let mut all = Vec::new();
    for _ in 0..STREAMS {
        all.push(connection.quinn().open_bi().await.unwrap());
    }

    let (heard, mut hears) = mpsc::unbounded_channel();
    let (actor, _) = Actor::spawn(None, Listener, heard).await.unwrap();
    let asked = exchange::ask(Arc::clone(&peers), stats, actor, 9, to, addr, vec![0]);
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    let message = hears.recv().await;
    assert!(matches!(message, Some(Message::Input(Input::SyncFailed { exchange: 9 }, None))), "{message:?}");
    assert!(connection.is_open());
}
