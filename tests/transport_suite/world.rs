//! What the suite runs in: nodes with a backend, an arena and a small ledger, on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seam::arena::Arena;
use seam::model::{Extent, LeaseId, NodeName};
use seam::net::{EndpointOptions, NodeIdentity};
use seam::transport::fabric::{Fabric, FabricRail};
use seam::transport::mock::{FaultSwitch, Faulty};
use seam::transport::quic::QuicRail;
use seam::transport::{Backend, BoxFuture, Landing, PathError, Peer, Write, Written};
use tempfile::TempDir;
use tokio::sync::watch;

use super::memory::{Held, Memory};

/// Long enough for a busy machine; only a fault runs into it.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);
/// What an arena holds where nothing was written.
pub(crate) const CANARY: u8 = 0xA5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Quic,
    /// The decorator with its faults off.
    Mock,
    /// A fabric rail on memory of this process, whose closed entries keep everything out.
    Memory,
    /// The same, whose closed entries do not.
    Unfenced,
    /// A fabric rail on NIXL.
    #[cfg(feature = "nixl")]
    Nixl,
    /// A fabric rail on UCX.
    #[cfg(feature = "ucx")]
    Ucx,
    /// The same on another UCX, from where `SEAM_UCX_OLD_LIBRARY` says.
    #[cfg(feature = "ucx")]
    OldUcx,
    /// A fabric rail on RDMA verbs.
    #[cfg(feature = "verbs")]
    Verbs,
}

impl Kind {
    /// Whether what it needs is here; what is not is printed.
    pub(crate) fn is_here(self) -> bool {
        match self {
            #[cfg(feature = "nixl")]
            Self::Nixl => {
                let (library, found) = (nixl().library, seam::transport::nixl::find(nixl().library.as_deref()));
                assert!(library.is_none() || found.is_ok(), "SEAM_NIXL_LIBRARY: {found:?}");
                found.inspect_err(|error| println!("skipped: {error}")).is_ok()
            }
            #[cfg(feature = "verbs")]
            Self::Verbs => {
                let chosen = seam::transport::verbs::sysfs::choose("/".as_ref(), &verbs("p"));
                assert!(std::env::var_os(DEVICES).is_none() || chosen.is_ok(), "{DEVICES}: {chosen:?}");
                chosen.inspect_err(|error| println!("skipped: {error}")).is_ok()
            }
            #[cfg(feature = "ucx")]
            Self::OldUcx => {
                let is_named = std::env::var_os("SEAM_UCX_OLD_LIBRARY").is_some();
                if !is_named {
                    println!("skipped: SEAM_UCX_OLD_LIBRARY is not set");
                }
                is_named && Self::Ucx.is_here()
            }
            #[cfg(feature = "ucx")]
            Self::Ucx => {
                let found = seam::transport::ucx::find(None);
                let named = std::env::var_os("SEAM_UCX_LIBRARY");
                assert!(named.is_none() || found.is_ok(), "SEAM_UCX_LIBRARY: {found:?}");
                found.inspect_err(|error| println!("skipped: {error}")).is_ok()
            }
            _ => true,
        }
    }
}

/// NIXL as the environment says where it is.
#[cfg(feature = "nixl")]
fn nixl() -> seam::transport::nixl::NixlConfig {
    let library = std::env::var_os("SEAM_NIXL_LIBRARY").map(Into::into);
    seam::transport::nixl::NixlConfig { library, ..Default::default() }
}

/// The device of senders, a comma, and that of receivers; more may follow, for other tests.
#[cfg(feature = "verbs")]
const DEVICES: &str = "SEAM_VERBS_DEVICES";

#[cfg(feature = "verbs")]
fn verbs(node: &str) -> seam::transport::verbs::VerbsConfig {
    let devices = std::env::var(DEVICES).ok();
    let mut devices = devices.iter().flat_map(|devices| devices.split(',')).map(str::to_owned);
    let (first, second) = (devices.next(), devices.next());
    let device = if node.starts_with('d') { second.or(first) } else { first };
    seam::transport::verbs::VerbsConfig { device, ..Default::default() }
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

pub(crate) fn lease(number: u64) -> LeaseId {
    LeaseId { node: name("d"), generation: 1, number }
}

pub(crate) fn extent(offset: u64, bytes: u64) -> Extent {
    Extent { offset, bytes }
}

/// Makes nodes of one cluster.
pub(crate) struct World {
    kind: Kind,
    dir: Arc<TempDir>,
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, dir: Arc::new(tempfile::tempdir().unwrap()) }
    }

    /// Nodes of the same cluster, with another backend.
    pub(crate) fn of(kind: Kind, other: &Self) -> Self {
        Self { kind, dir: Arc::clone(&other.dir) }
    }

    /// Nodes with the same backend, of a cluster whose CA nobody here knows.
    pub(crate) fn elsewhere(&self) -> Self {
        Self::new(self.kind)
    }

    pub(crate) fn identity(&self, node: &str) -> NodeIdentity {
        NodeIdentity::dev("c", &name(node), self.dir.path()).unwrap()
    }

    pub(crate) fn node(&self, node: &str, arena_bytes: u64) -> Node {
        self.node_at("127.0.0.1:0".parse().unwrap(), node, arena_bytes)
    }

    pub(crate) fn node_at(&self, bind: SocketAddr, node: &str, arena_bytes: u64) -> Node {
        let arena = Arc::new(Arena::anonymous(arena_bytes).unwrap());
        arena.write(0, &vec![CANARY; usize::try_from(arena_bytes).unwrap()]).unwrap();
        let ledger = Arc::new(Ledger::default());
        let landing: Arc<dyn Landing> = ledger.clone();
        let (identity, held) = (self.identity(node), Held::default());
        let (addr, rail, backend): Started = match self.kind {
            Kind::Quic | Kind::Mock => {
                let rail = Arc::new(QuicRail::start(bind, &identity, Arc::clone(&arena), landing).unwrap());
                let backend: Arc<dyn Backend> = match self.kind {
                    Kind::Mock => Arc::new(Faulty::new(rail.clone(), FaultSwitch::new())),
                    _ => rail.clone(),
                };
                (rail.local_addr(), Some(rail), backend)
            }
            Kind::Memory | Kind::Unfenced => {
                let fabric = Arc::new(Memory {
                    arena: Arc::clone(&arena),
                    held: held.clone(),
                    fences: self.kind == Kind::Memory,
                    entries: Mutex::default(),
                });
                fabric_rail(bind, &identity, fabric, &arena, landing)
            }
            #[cfg(feature = "nixl")]
            Kind::Nixl => {
                let started = seam::transport::nixl::Nixl::start(&name(node), &nixl(), true, Arc::clone(&arena));
                fabric_rail(bind, &identity, Arc::new(started.unwrap()), &arena, landing)
            }
            #[cfg(feature = "verbs")]
            Kind::Verbs => {
                let started = seam::transport::verbs::Verbs::start(&verbs(node), true, Arc::clone(&arena));
                fabric_rail(bind, &identity, Arc::new(started.unwrap()), &arena, landing)
            }
            #[cfg(feature = "ucx")]
            Kind::Ucx | Kind::OldUcx => {
                let old = std::env::var_os("SEAM_UCX_OLD_LIBRARY").filter(|_| self.kind == Kind::OldUcx);
                let config = seam::transport::ucx::UcxConfig { library: old.map(Into::into), ..Default::default() };
                let expected = seam::transport::ucx::Expected { rail: "r0".to_owned(), bandwidth_gbps: 1.0 };
                let started = seam::transport::ucx::Ucx::start(&config, true, expected, Arc::clone(&arena));
                fabric_rail(bind, &identity, Arc::new(started.unwrap()), &arena, landing)
            }
        };
        Node { peer: Peer { node: name(node), address: addr.to_string() }, addr, arena, ledger, backend, rail, held }
    }
}

type Started = (SocketAddr, Option<Arc<QuicRail>>, Arc<dyn Backend>);

fn fabric_rail(
    bind: SocketAddr,
    identity: &NodeIdentity,
    fabric: Arc<dyn Fabric>,
    arena: &Arc<Arena>,
    landing: Arc<dyn Landing>,
) -> Started {
    let options = EndpointOptions::default();
    let rail = FabricRail::start(bind, identity, options, fabric, Arc::clone(arena), landing).unwrap();
    (rail.local_addr(), None, Arc::new(rail))
}

pub(crate) struct Node {
    pub(crate) peer: Peer,
    pub(crate) addr: SocketAddr,
    pub(crate) arena: Arc<Arena>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) backend: Arc<dyn Backend>,
    rail: Option<Arc<QuicRail>>,
    /// Holds up what it puts, where it is of a memory fabric.
    pub(crate) held: Held,
}

/// A library's thread that still runs when the process ends would run into the library's own end.
#[cfg(any(feature = "nixl", feature = "ucx"))]
impl Drop for Node {
    fn drop(&mut self) {
        if self.rail.is_none() {
            let backend = Arc::clone(&self.backend);
            let close = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(backend.close());
            };
            std::thread::spawn(close).join().unwrap();
        }
    }
}

impl Node {
    /// Its rail over QUIC.
    pub(crate) fn quic(&self) -> &QuicRail {
        self.rail.as_ref().unwrap()
    }

    /// How often it has turned something away, or given it up, for this reason.
    pub(crate) fn refusals(&self, reason: &str) -> u64 {
        self.backend.refusals().into_iter().find(|(word, _)| *word == reason).unwrap().1
    }

    pub(crate) fn bytes(&self, extents: &[Extent]) -> Vec<u8> {
        let mut all = Vec::new();
        for extent in extents {
            let mut part = vec![0; usize::try_from(extent.bytes).unwrap()];
            self.arena.read_into(extent.offset, &mut part).unwrap();
            all.extend_from_slice(&part);
        }
        all
    }

    /// Fills the arena with bytes that follow from `seed`.
    pub(crate) fn fill(&self, seed: u64) {
        let mut bytes = vec![0; usize::try_from(self.arena.size()).unwrap()];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        self.arena.write(0, &bytes).unwrap();
    }

    /// Whether every byte outside `extents` is as it was at the start.
    pub(crate) fn untouched_outside(&self, extents: &[Extent]) -> bool {
        let mut bytes = self.bytes(&[extent(0, self.arena.size())]);
        for extent in extents {
            let start = usize::try_from(extent.offset).unwrap();
            bytes[start..start + usize::try_from(extent.bytes).unwrap()].fill(CANARY);
        }
        bytes == vec![CANARY; bytes.len()]
    }

    pub(crate) async fn probe(&self, peer: &Peer, bytes: u32) -> Result<Duration, PathError> {
        self.backend.probe(peer, bytes, AMPLE).await
    }

    pub(crate) async fn write(&self, peer: &Peer, lease: LeaseId, blocks: &[Extent]) -> Result<Written, PathError> {
        self.write_within(AMPLE, peer, lease, blocks).await
    }

    pub(crate) async fn write_within(
        &self,
        deadline: Duration,
        peer: &Peer,
        lease: LeaseId,
        blocks: &[Extent],
    ) -> Result<Written, PathError> {
        self.backend.write(peer, Write { lease, blocks: blocks.to_vec().into(), deadline }).await
    }
}

/// Leases in memory; the suite grants them by hand and watches what becomes of them.
pub(crate) struct Ledger {
    leases: Mutex<BTreeMap<LeaseId, Granted>>,
    changes: watch::Sender<u64>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { leases: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    holder: NodeName,
    extents: Vec<Extent>,
    held: bool,
    void: bool,
    pub(crate) is_open: bool,
    pub(crate) delivered: Option<(u64, [u8; 32])>,
    pub(crate) ended: bool,
    pub(crate) opened: u32,
    pub(crate) quiet: u32,
    pub(crate) unfinished: u32,
}

impl Ledger {
    pub(crate) fn grant(&self, id: LeaseId, holder: &str, extents: &[Extent]) {
        let granted = Granted {
            holder: name(holder),
            extents: extents.to_vec(),
            held: false,
            void: false,
            is_open: false,
            delivered: None,
            ended: false,
            opened: 0,
            quiet: 0,
            unfinished: 0,
        };
        self.leases.lock().unwrap().insert(id, granted);
    }

    /// From now on the lease counts as ended, like one that has expired.
    pub(crate) fn end(&self, id: &LeaseId) {
        self.change(id, |granted| granted.ended = true);
    }

    /// From now on what is open of the lease must stop.
    pub(crate) fn void(&self, id: &LeaseId) {
        self.change(id, |granted| granted.void = true);
    }

    /// The lease is over, and nobody asks for it any more.
    pub(crate) fn forget(&self, id: &LeaseId) {
        self.leases.lock().unwrap().remove(id);
    }

    /// While held, whoever wants to open the lease must wait.
    pub(crate) fn hold(&self, id: &LeaseId, held: bool) {
        self.change(id, |granted| granted.held = held);
    }

    pub(crate) fn of(&self, id: &LeaseId) -> Granted {
        self.leases.lock().unwrap()[id].clone()
    }

    pub(crate) async fn until(&self, id: &LeaseId, condition: impl Fn(&Granted) -> bool) {
        let mut changes = self.changes.subscribe();
        let reached = async {
            while !condition(&self.of(id)) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(AMPLE, reached).await.expect("the lease never got there");
    }

    fn change<T>(&self, id: &LeaseId, change: impl FnOnce(&mut Granted) -> T) -> Option<T> {
        let changed = self.leases.lock().unwrap().get_mut(id).map(change);
        self.changes.send_modify(|count| *count += 1);
        changed
    }
}

impl Landing for Ledger {
    fn open<'a>(
        &'a self,
        lease: &'a LeaseId,
        sender: &'a NodeName,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Vec<Extent>, String>> {
        Box::pin(async move {
            if self.leases.lock().unwrap().contains_key(lease) {
                self.until(lease, |granted| !granted.held).await;
            }
            let opened = self.change(lease, |granted| {
                let room: u64 = granted.extents.iter().map(|extent| extent.bytes).sum();
                if granted.holder != *sender {
                    return Err(format!("{lease} is not held by {sender}"));
                }
                if granted.is_open || granted.delivered.is_some() {
                    return Err(format!("{lease} is in use"));
                }
                if bytes > room {
                    return Err(format!("{bytes} bytes, {lease} has {room}"));
                }
                granted.is_open = true;
                granted.opened += 1;
                Ok(granted.extents.clone())
            });
            opened.unwrap_or_else(|| Err(format!("{lease} is unknown")))
        })
    }

    fn delivered<'a>(&'a self, lease: &'a LeaseId, bytes: u64, hash: [u8; 32]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let delivered = self.change(lease, |granted| {
                assert!(granted.is_open);
                if granted.ended {
                    return Err(format!("{lease} has ended"));
                }
                granted.delivered = Some((bytes, hash));
                Ok(())
            });
            delivered.unwrap()
        })
    }

    fn voided<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut changes = self.changes.subscribe();
            while !self.of(lease).void {
                changes.changed().await.unwrap();
            }
        })
    }

    fn unfinished<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.change(lease, |granted| granted.unfinished += 1);
        })
    }

    fn quiet<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.change(lease, |granted| {
                assert!(granted.is_open, "quiet without open");
                granted.is_open = false;
                granted.quiet += 1;
            });
        })
    }
}
