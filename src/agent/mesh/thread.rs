//! The mesh's own thread: everything of it runs on one current-thread runtime, so that neither
//! policy nor bulk transfers delay membership.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorRef};
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::{Gossip, Message, Parts, Shared};
use super::mailbox::{Latest, Mailbox};
use super::peers::Peers;
use super::rivals::Watch;
use super::seeds::{self, Own, Starting, World};
use super::serve::Server;
use super::stats::MeshStats;
use super::views::View;
use super::{EventSink, Inner, LeaseServer, Life, MeshHandle, MeshSettings, MeshStartError, generation};
use crate::agent::clock::wall_ms;
use crate::mesh::{MeshCore, RecordSigner, Settings};
use crate::net::{Endpoint, HostPort, NodeIdentity, Traffic};

/// New connections that wait for a reader.
const MAX_OPENED: usize = 256;
/// Between two counts of the members.
const COUNT_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn start(
    settings: MeshSettings,
    identity: Arc<NodeIdentity>,
    events: EventSink,
    leases: Arc<dyn LeaseServer>,
    life: Life,
) -> Result<MeshHandle, MeshStartError> {
    let (started, start) = oneshot::channel();
    let failed = |error: std::io::Error| MeshStartError::Thread(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let body = move || {
        runtime.block_on(run(settings, identity, events, (leases, life), started));
        // Questions under way end unanswered.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("seam-mesh".to_owned()).spawn(body).map_err(failed)?;
    start.await.unwrap_or_else(|_| Err(MeshStartError::Thread("it ended at once".to_owned())))
}

async fn run(
    settings: MeshSettings,
    identity: Arc<NodeIdentity>,
    events: EventSink,
    (leases, life): (Arc<dyn LeaseServer>, Life),
    started: oneshot::Sender<Result<MeshHandle, MeshStartError>>,
) {
    let (running, mut stop) = oneshot::channel();
    let (ended_tx, ended) = watch::channel(false);
    let mesh = match Mesh::start(&settings, &identity, events, leases, life).await {
        Ok(mesh) => mesh,
        // Whoever asked may be gone.
        Err(error) => return drop(started.send(Err(error))),
    };
    let Mesh { addr, actor, mut stopped, peers, mailbox, latest, shared, stats, endpoint } = mesh;
    let left = Arc::clone(&shared);
    let inner = Inner {
        addr,
        actor: actor.clone(),
        peers: Arc::clone(&peers),
        mailbox,
        latest,
        shared,
        stats,
        endpoint: endpoint.clone(),
        ended,
        _running: running,
    };
    let handle = MeshHandle { inner: Arc::new(inner) };
    if started.send(Ok(handle)).is_ok() {
        tokio::select! {
            _ = &mut stop => {}
            _ = &mut stopped => {
                if !left.left.load(Ordering::Relaxed) && left.fault.get().is_none() {
                    tracing::error!("the mesh ended unasked");
                }
                peers.flush().await;
            }
        }
    }
    actor.stop(None);
    endpoint.close().await;
    // Nobody may be waiting.
    let _ = ended_tx.send(true);
}

struct Mesh {
    addr: SocketAddr,
    actor: ActorRef<Message>,
    stopped: tokio::task::JoinHandle<()>,
    peers: Arc<Peers>,
    mailbox: Mailbox,
    latest: Arc<Latest>,
    shared: Arc<Shared>,
    stats: Arc<MeshStats>,
    endpoint: Endpoint,
}

impl Mesh {
    async fn start(
        settings: &MeshSettings,
        identity: &NodeIdentity,
        events: EventSink,
        leases: Arc<dyn LeaseServer>,
        life: Life,
    ) -> Result<Self, MeshStartError> {
        let started = Instant::now();
        let seeds = parse_seeds(&settings.seeds)?;
        let signer = RecordSigner::from_pkcs8(identity.private_key_pkcs8())?;
        let endpoint = Endpoint::bind(settings.bind, identity, Traffic::Mesh)?;
        let bound = endpoint.local_addr();
        let mut addr = settings.advertise.unwrap_or(bound);
        if addr.port() == 0 {
            addr.set_port(bound.port());
        }
        let own = Own { advertised: addr, bound };
        let me = &settings.node;
        let starting = Starting { me, own, endpoint: &endpoint, seeds: &seeds };
        let (seen, alone) = tokio::join!(starting.seen(), starting.alone());
        let seen = seen?;
        let generation = generation::next(&settings.data_dir, wall_ms(), seen)?;
        let tape = (life.tape)(generation).map_err(MeshStartError::Journal)?;

        let stats = Arc::new(MeshStats::default());
        let mailbox = Mailbox::new(Arc::clone(&stats));
        let latest = Arc::new(Latest::default());
        let shared = Arc::new(Shared::default());
        shared.generation.store(generation, Ordering::Relaxed);
        let (opened, connections) = mpsc::channel(MAX_OPENED);
        let peers = Peers::new(me.clone(), endpoint.clone(), Arc::clone(&stats), opened);
        let core = MeshCore::new(Settings {
            node: me.clone(),
            cluster: settings.cluster.clone(),
            ca_der: identity.ca_der().to_vec(),
            addr,
            generation,
            size: settings.size,
            seed: settings.seed,
        });
        let data_dir = settings.data_dir.clone();
        let persist = move |generation| {
            if let Err(error) = generation::write(&data_dir, generation) {
                tracing::error!(%error, "the new generation is not kept");
            }
        };
        let (rivals, claims) = mpsc::channel(1);
        let parts = Parts {
            core,
            tape,
            clock: life.clock,
            signer,
            certificate: identity.certificate_der().to_vec(),
            peers: Arc::clone(&peers),
            latest: Arc::clone(&latest),
            shared: Arc::clone(&shared),
            stats: Arc::clone(&stats),
            events,
            rivals,
            alone,
            persist: Box::new(persist),
        };
        let failed = |error: ractor::SpawnErr| MeshStartError::Thread(error.to_string());
        let (actor, stopped) = Gossip::spawn(None, Gossip, parts).await.map_err(failed)?;

        let server = Server::new(me.clone(), actor.clone(), mailbox.clone(), Arc::clone(&stats), leases, started);
        tokio::spawn(server.clone().accept(endpoint.clone(), Arc::clone(&peers)));
        tokio::spawn(server.read(connections));
        for seed in seeds {
            let world = World {
                own,
                me: me.clone(),
                endpoint: endpoint.clone(),
                peers: Arc::clone(&peers),
                actor: actor.clone(),
                mailbox: mailbox.clone(),
            };
            tokio::spawn(seeds::follow(seed, world));
        }
        let watch = Watch {
            me: me.clone(),
            own,
            started,
            endpoint: endpoint.clone(),
            actor: actor.clone(),
            shared: Arc::clone(&shared),
        };
        tokio::spawn(watch.run(claims));
        tokio::spawn(count(actor.clone(), Arc::clone(&stats)));
        Ok(Self { addr, actor, stopped, peers, mailbox, latest, shared, stats, endpoint })
    }
}

fn parse_seeds(seeds: &[String]) -> Result<Vec<HostPort>, MeshStartError> {
    let parse = |(index, seed): (usize, &String)| seed.parse().map_err(|source| MeshStartError::Seed { index, source });
    seeds.iter().enumerate().map(parse).collect()
}

/// Keeps the gauges of members by state.
async fn count(actor: ActorRef<Message>, stats: Arc<MeshStats>) {
    loop {
        let (reply, counts) = oneshot::channel();
        if actor.cast(Message::View(View::Counts(reply), None)).is_err() {
            return;
        }
        let Ok(counts) = counts.await else { return };
        stats.set_members(counts);
        tokio::time::sleep(COUNT_EVERY).await;
    }
}
