//! The daemon: actors that own the cores, and everything that does I/O. The only code that knows
//! ractor.
//!
//! ```text
//!              HTTP ── api ── service
//!                               │
//!   ┌──────────┬────────────────┼──────────────┐
//! health ──▶ policy ──Ask──▶ (mesh) ──▶ ledger of another host
//!   ▲          │ Plan                       ▲
//! probe     transfer ──▶ rails ──bytes──▶ rails of another host ──▶ landing ──▶ its ledger
//!   ▲          ▲
//!   └────── directory ◀── mesh events
//! ```
//!
//! `owner` is the one actor that all cores run in; `supervisor` watches.

pub mod api;
mod clock;
mod directory;
mod exit;
mod folder;
mod gauges;
mod health;
pub mod journal;
mod lateness;
mod ledger;
mod links;
pub mod mesh;
mod owner;
mod policy;
mod probe;
mod rails;
pub mod reload;
pub mod service;
mod settings;
mod store;
mod supervisor;
mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use futures_util::future::OptionFuture;
use ractor::ActorRef;
use ractor::concurrency::JoinHandle;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::arena::{Arena, ArenaError};
use crate::config::{Config, Credentials};
use crate::core::Core as _;
use crate::health::HealthCore;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::model::{Generation, LeaseCall, NodeName, NodeRecord, PAGE_BYTES, RailRecord};
use crate::net::{NetError, NodeIdentity, ResetSecret, TlsError};
use crate::policy::Policy;
use crate::transport::mock::InvalidFaults;
use api::{ApiError, ApiServer, Limits};
use directory::{Directory, MAX_EVENTS};
pub use exit::exit;
use folder::{Folder, FolderError};
use health::HealthEffects;
use journal::Prepared;
use ledger::{LedgerDoor, LedgerEffects, Past};
use links::Links;
use mesh::{Life, MeshHandle, MeshSettings, MeshStartError};
use owner::Owner;
use policy::PolicyEffects;
use service::{Agency, Service};
use transfer::Transfers;

/// Messages that may wait for one core, open questions included.
const MAX_WAITING: usize = 16_384;
/// How long it may take to hand back leases then.
const HAND_BACK_LIMIT: Duration = Duration::from_secs(2);
/// How long transfers under way may go on after a stop was asked for.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// How long it may take to bring the journal to the disk at the end.
const JOURNAL_LIMIT: Duration = Duration::from_secs(5);

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its certificate cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// A folder of it cannot be had: another agent has it, or it cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its arena cannot be had.
    #[error("arena: {0}")]
    Arena(#[from] ArenaError),
    /// It cannot join.
    #[error("mesh: {0}")]
    Mesh(#[from] MeshStartError),
    /// A rail cannot be had.
    #[error("rails.{rail}: {source}")]
    Rail {
        /// Which.
        rail: String,
        /// Why.
        source: NetError,
    },
    /// A rail's faults make no sense.
    #[error("rails.{rail}: {source}")]
    Faults {
        /// Which.
        rail: String,
        /// Why.
        source: InvalidFaults,
    },
    /// No rail's backend starts.
    #[error("rails.{rail}.backend: {detail}; no other rail started")]
    Backend {
        /// Which rail, of several the last.
        rail: String,
        /// Why.
        detail: String,
    },
    /// The HTTP API cannot be served.
    #[error("api: {0}")]
    Api(#[from] ApiError),
    /// An actor did not start.
    #[error("actor: {0}")]
    Actor(#[from] ractor::SpawnErr),
    /// The system gives no random numbers.
    #[error("random numbers: {0}")]
    Random(getrandom::Error),
}

/// A running agent.
pub struct Agent {
    node: NodeName,
    links: Arc<Links>,
    service: Service,
    api: ApiServer,
    supervisor: ActorRef<supervisor::Message>,
    tasks: JoinSet<()>,
    watch: AbortHandle,
    config: watch::Sender<Arc<Config>>,
    reloads: Arc<AtomicU64>,
    /// Held until the agent has ended.
    _data_dir: Folder,
}

impl Agent {
    /// Starts everything; when this returns, the agent is a member or waits to be joined, and
    /// answers on its API.
    ///
    /// # Errors
    /// [`StartError`] names the part of the configuration that is at fault.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new(config.policy.profile.as_str(), config.metrics.max_paths));
        let links = Arc::new(Links::new(metrics));
        let (supervisor, ended) = supervisor::start().await?;
        match Self::assemble(Arc::new(config), links.clone(), supervisor.clone(), ended).await {
            Ok(agent) => Ok(agent),
            Err(error) => {
                take_down(&links, &supervisor).await;
                Err(error)
            }
        }
    }

    async fn assemble(
        config: Arc<Config>,
        links: Arc<Links>,
        supervisor: ActorRef<supervisor::Message>,
        supervisor_ended: JoinHandle<()>,
    ) -> Result<Self, StartError> {
        let node = config.node.name.clone();
        let data_dir = Folder::hold("node.data_dir", &config.node.data_dir, &node)?;
        let identity = Arc::new(identity(&config)?);
        let arena = match &config.arena {
            Some(arena) => Arc::new(Arena::open(&arena.path, arena.size)?),
            // An engine moves the bytes: probes alone need no memory to land in.
            None => Arc::new(Arena::anonymous(PAGE_BYTES)?),
        };
        let (running, current) = watch::channel(config.clone());
        links.metrics.configured(config.policy.profile.as_str(), &config.hash());
        let mut tasks = JoinSet::new();
        tasks.spawn(supervisor::vital("lateness", links.lateness.clone().watch()));

        let (events, heard) = mpsc::channel(MAX_EVENTS);
        let kept = prepare_journal(&config, current.clone(), &links, &data_dir)?;
        let mesh = start_mesh(&config, &identity, &links, events, kept).await?;
        let generation = mesh.generation();
        let _ = links.mesh.set(mesh);
        let rails = rails::start(&config, &identity, &arena, &links)?;
        let _ = links.rails.set(rails.clone());
        let records = rails::records(&config, &rails);
        let own_record = node_record(&config, &identity, records.clone());
        start_cores(&config, &links, generation, &own_record, &supervisor).await?;

        let directory = Directory::new(links.clone(), node.clone(), settings::own(&config, &records).rails);
        let paths = directory.paths();
        tasks.spawn(supervisor::vital("directory", directory.follow(heard)));
        let transfers = Transfers::default();
        keep(&supervisor, "transfer", transfers.starter(links.clone()))?;
        let _ = links.transfers.set(transfers);
        let prober = probe::Settings { config: current.clone(), seed: random()? };
        keep(&supervisor, "probe", probe::starter(links.clone(), prober, paths.clone()))?;
        tasks.spawn(supervisor::vital("gauges", gauges::keep(links.clone(), node.clone())));
        if let Some(mesh) = links.mesh.get() {
            mesh.publish_node(own_record);
        }

        let reloads = Arc::new(AtomicU64::new(0));
        let service = Service::new(Agency {
            links: links.clone(),
            arena_bytes: config.arena.as_ref().map(|_| arena.size()),
            node: node.clone(),
            generation,
            paths,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            made_up_ids: AtomicU64::new(1),
            config: current,
            reloads: reloads.clone(),
        });
        let api = api::serve(&config.api, service.clone(), links.metrics.clone(), Limits::default()).await?;
        let watch = tasks.spawn(supervisor::watch(supervisor_ended, links.clone()));
        tracing::info!(%node, generation, api = %api.address(), config = %config.hash(), "started");
        Ok(Self { node, links, service, api, supervisor, tasks, watch, config: running, reloads, _data_dir: data_dir })
    }

    /// Its name.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Where its API listens.
    #[must_use]
    pub fn api_addr(&self) -> SocketAddr {
        self.api.address()
    }

    /// Where its mesh endpoint listens.
    #[must_use]
    pub fn mesh_addr(&self) -> Option<SocketAddr> {
        self.links.mesh.get().map(MeshHandle::addr)
    }

    /// Its metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.links.metrics
    }

    /// Its use cases, without HTTP.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Takes no new work, lets transfers end, hands back leases, leaves the mesh and stops.
    pub async fn shutdown(mut self) {
        self.service.close();
        // A node that is no decode host has nothing to drain.
        let _ = self.service.drain(true).await;
        let ended = Instant::now() + DRAIN_LIMIT;
        while self.links.transfers.get().is_some_and(|transfers| transfers.running() > 0) && Instant::now() < ended {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.api.shutdown().await;
        // What is not handed back within the limit ends by its time to live.
        let _ = tokio::time::timeout(HAND_BACK_LIMIT, hand_back(&self.links, &self.service, &self.node)).await;
        self.watch.abort();
        if let Some(rails) = self.links.rails.get() {
            rails.close().await;
        }
        let data_dir = self.config.borrow().node.data_dir.clone();
        end_life(&self.links, &Past::of(&data_dir)).await;
        self.tasks.shutdown().await;
        take_down(&self.links, &self.supervisor).await;
    }

    /// Whether every core still takes its turns. Waits for them; whoever asks sets a limit.
    pub async fn alive(&self) -> bool {
        let Links { health, policy, ledger, .. } = &*self.links;
        let health = async { OptionFuture::from(health.get().map(Owner::turn)).await != Some(false) };
        let policy = async { OptionFuture::from(policy.get().map(Owner::turn)).await != Some(false) };
        let ledger = async { OptionFuture::from(ledger.get().map(Owner::turn)).await != Some(false) };
        let (health, policy, ledger) = tokio::join!(health, policy, ledger);
        health && policy && ledger
    }
}

/// Notes, once no stream writes any more, that this life leaves no lease behind, if it is so.
async fn end_life(links: &Links, past: &Past) {
    let Some(ledger) = links.ledger.get() else { return };
    if let Ok(Some(true)) = ledger.read(|ledger, _| ledger.leaves_nothing()).await {
        past.forget();
    }
}

/// Ends whatever has been started.
async fn take_down(links: &Links, supervisor: &ActorRef<supervisor::Message>) {
    if let Some(rails) = links.rails.get() {
        rails.close().await;
    }
    if let Some(mesh) = links.mesh.get() {
        mesh.leave().await;
    }
    supervisor.stop(None);
    if let Some(journal) = links.journal.get().cloned() {
        let closed = tokio::task::spawn_blocking(move || journal.close(JOURNAL_LIMIT)).await;
        if !matches!(closed, Ok(true)) {
            tracing::error!("the journal is not closed in time");
        }
    }
}

fn prepare_journal(
    config: &Config,
    current: watch::Receiver<Arc<Config>>,
    links: &Links,
    data_dir: &Folder,
) -> Result<Option<Prepared>, FolderError> {
    let settings = journal::Settings {
        node: config.node.name.clone(),
        journal: config.journal.clone(),
        records: config.records.clone(),
        config_hash: Box::new(move || current.borrow().hash()),
    };
    journal::prepare_with(settings, links.metrics.clone(), links.clock, Some(data_dir))
}

/// Releases every lease that this node holds on others, all at once.
async fn hand_back(links: &Arc<Links>, service: &Service, node: &NodeName) {
    let Ok(leases) = service.leases().await else { return };
    let held = leases.into_iter().map(|lease| lease.id).filter(|lease| lease.node != *node);
    let each = held.map(async |lease| policy::tell(links, &LeaseCall::Release(lease.clone()), &lease).await);
    futures_util::future::join_all(each).await;
}

fn identity(config: &Config) -> Result<NodeIdentity, TlsError> {
    let (cluster, node) = (config.node.cluster.as_str(), &config.node.name);
    let identity = match config.credentials() {
        Credentials::Files { ca, cert, key } => NodeIdentity::load(cluster, node, &ca, &cert, &key),
        Credentials::Dev { dir } => NodeIdentity::dev(cluster, node, &dir),
    };
    Ok(identity?.with_reset_secret(ResetSecret::load_or_create(&config.node.data_dir)?))
}

async fn start_mesh(
    config: &Config,
    identity: &Arc<NodeIdentity>,
    links: &Arc<Links>,
    events: mpsc::Sender<crate::mesh::MeshEvent>,
    kept: Option<Prepared>,
) -> Result<MeshHandle, StartError> {
    let settings = MeshSettings {
        node: config.node.name.clone(),
        cluster: config.node.cluster.clone(),
        bind: config.mesh.bind,
        advertise: config.mesh.advertise,
        seeds: config.mesh.seeds.clone(),
        size: config.mesh.size,
        data_dir: config.node.data_dir.clone(),
        seed: random()?,
    };
    let metrics = links.metrics.clone();
    let hear = move |event| {
        if events.try_send(event).is_err() {
            metrics.dropped("mesh_events");
        }
    };
    let door = Arc::new(LedgerDoor(links.clone()));
    let shared = links.clone();
    let tape = move |generation| {
        let Some(kept) = kept else { return Ok(None) };
        let journal = kept.begin(generation)?;
        let tape = journal.tape();
        // Set once: this is called once.
        let _ = shared.journal.set(journal);
        Ok(tape)
    };
    let life = Life { clock: links.clock, tape: Box::new(tape) };
    Ok(MeshHandle::start_life(settings, identity.clone(), Arc::new(hear), door, life).await?)
}

fn node_record(config: &Config, identity: &NodeIdentity, rails: Vec<RailRecord>) -> NodeRecord {
    let decode = settings::ledger(config).and(config.decode.as_ref());
    NodeRecord {
        node: config.node.name.clone(),
        roles: config.node.roles.clone(),
        pool: decode.map(|decode| decode.pool.clone()),
        model: config.node.model.clone(),
        compat: config.node.compat.clone(),
        risk_group: decode.and_then(|decode| decode.risk_group.clone()),
        rails,
        certificate: identity.certificate_der().to_vec(),
    }
}

async fn start_cores(
    config: &Config,
    links: &Arc<Links>,
    generation: Generation,
    own: &NodeRecord,
    supervisor: &ActorRef<supervisor::Message>,
) -> Result<(), StartError> {
    let (clock, cell) = (links.clock, supervisor.get_cell());
    let policy = Policy::new(generation, settings::own(config, &own.rails), settings::policy(config));
    let policy =
        Owner::spawn(cell.clone(), clock, (policy, links.tape()), PolicyEffects::new(links.clone()), MAX_WAITING)
            .await?;
    policy.tell(crate::policy::Input::Peer { generation, record: Arc::new(own.clone()) });
    let _ = links.policy.set(policy);
    if let Some(terms) = settings::ledger(config) {
        let ledger = Ledger::new(config.node.name.clone(), generation, terms);
        let past = Past::of(&config.node.data_dir);
        let lost = past.longest_lease();
        let effects = LedgerEffects::new(links.clone(), config.node.name.clone(), generation, past);
        let ledger = Owner::spawn(cell.clone(), clock, (ledger, links.tape()), effects, MAX_WAITING).await?;
        if let Some(longest) = lost {
            tracing::warn!(
                "the earlier life did not end cleanly: no lease is granted until its engine reports or its leases are over"
            );
            ledger.tell(crate::ledger::Input::Recover(longest));
        }
        // The first turn tells the mesh what there is.
        ledger.tell(crate::ledger::Input::Tick);
        let _ = links.ledger.set(ledger);
    }
    let mut health = HealthCore::default();
    health.step(links.clock.now(), crate::health::Input::Configure(settings::health(config)), &mut Vec::new());
    let health =
        Owner::spawn(cell, clock, (health, links.tape()), HealthEffects::new(links.clone()), MAX_WAITING).await?;
    let _ = links.health.set(health);
    Ok(())
}

fn keep(
    supervisor: &ActorRef<supervisor::Message>,
    name: &'static str,
    starter: supervisor::Starter,
) -> Result<(), StartError> {
    supervisor
        .send_message(supervisor::Message::Keep(name, starter))
        .map_err(|error| StartError::Actor(ractor::SpawnErr::StartupFailed(error.to_string().into())))
}

fn random() -> Result<u64, StartError> {
    getrandom::u64().map_err(StartError::Random)
}
