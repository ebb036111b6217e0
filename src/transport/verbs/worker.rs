//! The thread that owns the queue pairs, seen from outside.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::device::Device;
use super::inside::Inside;
use super::pair::Job;
use super::plan::Limits;
use super::watch::Watch;
use super::words::{End, Memory};
use super::{VerbsConfig, VerbsError};
use crate::arena::Arena;
use crate::transport::bell::Bell;
use crate::transport::fabric::{Arrivals, FabricError, Put};
use crate::transport::starting;

/// What waits for the thread at most; one more is refused.
const MAX_WAITING: usize = 1_024;

/// What there is to know once everything is registered.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) arena: Memory,
    pub(super) arena_key: u32,
    pub(super) scratch: Memory,
    pub(super) scratch_key: u32,
    pub(super) limits: Limits,
    pub(super) name: String,
}

pub(super) enum Command {
    /// A queue pair to send from.
    Greet(Arc<AtomicBool>, oneshot::Sender<Result<(u64, End), FabricError>>),
    /// Its peer.
    Connect(u64, End, oneshot::Sender<Result<(), FabricError>>),
    /// A queue pair that receives from a peer.
    Welcome(End, Arc<Arrivals>, oneshot::Sender<Result<(u64, End), FabricError>>),
    Put(u64, Job),
    /// Destroy one that receives.
    Close(u64, oneshot::Sender<bool>),
}

/// What nobody wants any more; as long as what there is of it.
#[derive(Default)]
pub(super) struct Unwanted {
    pub(super) pairs: Vec<u64>,
    pub(super) puts: Vec<(u64, u64)>,
    pub(super) all: bool,
}

pub(super) struct Shared {
    pub(super) bell: Bell,
    unwanted: Mutex<Unwanted>,
    stuck: Mutex<BTreeSet<u64>>,
}

impl Shared {
    pub(super) fn unwanted(&self) -> MutexGuard<'_, Unwanted> {
        // Every change is whole before anything can panic.
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue pairs that the device would not destroy; it has only so many.
    pub(super) fn stuck(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // As above.
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, seen from outside.
pub(super) struct Worker {
    commands: SyncSender<Command>,
    shared: Arc<Shared>,
    puts: AtomicU64,
    ended: watch::Receiver<()>,
    pub(super) device: Arc<Device>,
    pub(super) port: Watch,
}

impl Worker {
    /// Opens the device, registers the arena, and starts the threads. `receives`: peers will put into it.
    pub(super) fn start(config: &VerbsConfig, receives: bool, arena: Arc<Arena>) -> Result<(Self, Ready), VerbsError> {
        let arena_bytes = arena.size();
        let device = Arc::new(Device::open(config)?);
        let port = Watch::start(Arc::clone(&device))?;
        let bell = Bell::new().map_err(|error| VerbsError::System(format!("eventfd: {error}")))?;
        let shared = Arc::new(Shared { bell, unwanted: Mutex::default(), stuck: Mutex::default() });
        let (commands, received) = sync_channel(MAX_WAITING);
        let (ready, started) = std::sync::mpsc::channel();
        let (alive, ended) = watch::channel(());
        let (opened, told) = (Arc::clone(&device), Arc::clone(&shared));
        let run = move || {
            let _ended_when_dropped = alive;
            match Inside::new(&opened, receives, arena, told) {
                Ok((inside, known)) => {
                    // Fails only if the caller is gone; then the channel of commands is, too.
                    let _ = ready.send(Ok(known));
                    inside.run(&received);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name("seam-verbs".to_owned());
        thread.spawn(run).map_err(|error| VerbsError::System(error.to_string()))?;
        let ready = starting::started(&started, "verbs", arena_bytes).map_err(VerbsError::System)??;
        Ok((Self { commands, shared, puts: AtomicU64::new(1), ended, device, port }, ready))
    }

    pub(super) async fn greet(&self, over: Arc<AtomicBool>) -> Result<(u64, End), FabricError> {
        self.ask(|answer| Command::Greet(over, answer)).await
    }

    pub(super) async fn connect(&self, pair: u64, peer: End) -> Result<(), FabricError> {
        self.ask(|answer| Command::Connect(pair, peer, answer)).await
    }

    pub(super) async fn welcome(&self, peer: End, arrivals: Arc<Arrivals>) -> Result<(u64, End), FabricError> {
        self.ask(|answer| Command::Welcome(peer, arrivals, answer)).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, FabricError>>) -> Command,
    ) -> Result<T, FabricError> {
        self.carries()?;
        let (answer, answered) = oneshot::channel();
        self.tell(command(answer))?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// A number for a put.
    pub(super) fn number(&self) -> u64 {
        self.puts.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) async fn put(&self, pair: u64, job: Job, put: oneshot::Receiver<Put>) -> Put {
        match self.carries().and_then(|()| self.tell(Command::Put(pair, job))) {
            Ok(()) => put.await.unwrap_or_else(|_| Put { result: Err(ended()), over: false }),
            Err(error) => Put { result: Err(error), over: true },
        }
    }

    /// Nothing more is to be written of a put.
    pub(super) fn cancel(&self, pair: u64, put: u64) {
        self.shared.unwanted().puts.push((pair, put));
        self.shared.bell.ring();
    }

    /// Destroys a queue pair that receives; true if nothing can come over it any more.
    pub(super) async fn close_entry(&self, pair: u64) -> bool {
        let (answer, closed) = oneshot::channel();
        match self.commands.try_send(Command::Close(pair, answer)) {
            Ok(()) => {
                self.shared.bell.ring();
                // Without an answer the thread has ended, and let go of all pairs before.
                closed.await.unwrap_or_else(|_| !self.shared.stuck().contains(&pair))
            }
            Err(TrySendError::Disconnected(_)) => !self.shared.stuck().contains(&pair),
            Err(TrySendError::Full(_)) => false,
        }
    }

    /// Nobody needs this queue pair any more.
    pub(super) fn forget(&self, pair: u64) {
        self.shared.unwanted().pairs.push(pair);
        self.shared.bell.ring();
    }

    /// Lets everything go.
    pub(super) async fn close(&self) {
        self.end();
        let mut ended = self.ended.clone();
        // Nothing is ever sent: it ends with the thread.
        while ended.changed().await.is_ok() {}
    }

    fn end(&self) {
        self.shared.unwanted().all = true;
        self.shared.bell.ring();
    }

    /// Whether the port carries anything now.
    fn carries(&self) -> Result<(), FabricError> {
        self.port.down().map_or(Ok(()), |words| Err(FabricError::PeerGone(words)))
    }

    fn tell(&self, command: Command) -> Result<(), FabricError> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => FabricError::Local(format!("{MAX_WAITING} calls wait for the thread for verbs")),
            TrySendError::Disconnected(_) => ended(),
        })?;
        self.shared.bell.ring();
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn ended() -> FabricError {
    FabricError::Local("the verbs rail was closed".to_owned())
}
