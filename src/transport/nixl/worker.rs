//! The thread that owns the library's objects.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::NixlConfig;
use super::api::Api;
use super::fabric::NixlError;
use super::library::{Found, LibraryError};
use super::objects::{Agent, Progress, Registered, Request};
use super::put::{Job, Step, Transfer};
use crate::arena::Arena;
use crate::model::NodeName;
use crate::transport::fabric::scratch::HALF;
use crate::transport::fabric::{FabricError, Put};

/// Memory for probes, in bytes.
const SCRATCH: usize = 2 * HALF as usize;
/// What waits for the thread at most; one more is refused.
const MAX_WAITING: usize = 1_024;
/// Puts under way at once; one more is refused.
const MAX_TRANSFERS: usize = 4_096;
/// Chunks that were given up and have not ended, at most; the oldest are let go of.
const MAX_LEFT: usize = 4_096;
/// Announcements that came before anybody waited for them, at most; the oldest is forgotten.
const MAX_EARLY: usize = 65_536;
/// Looks in a row before the thread sleeps between two.
const BUSY_LOOKS: u32 = 64;
/// How long the library is looked after once nothing is under way any more.
const LINGER: Duration = Duration::from_millis(100);
/// How long it sleeps while something is under way.
const NAP: Duration = Duration::from_micros(50);
/// The same while it only waits for an announcement.
const WAIT: Duration = Duration::from_micros(200);

/// A peer that is known to the library; forgotten with the last copy.
#[derive(Clone)]
pub(super) struct Remote(Arc<Known>);

struct Known {
    name: CString,
    commands: SyncSender<Command>,
}

impl Drop for Known {
    fn drop(&mut self) {
        // A thread with too much to do keeps it a little longer: until its next life.
        let _ = self.commands.try_send(Command::Forget(self.name.clone()));
    }
}

/// What there is to know about the arena once it is registered.
pub(super) struct Ready {
    pub(super) metadata: Vec<u8>,
    /// Where peers' probes go.
    pub(super) scratch: usize,
}

enum Command {
    /// A peer's metadata, and who that must be.
    Load(Vec<u8>, NodeName, oneshot::Sender<Result<CString, FabricError>>),
    Forget(CString),
    Put(CString, Job, CancellationToken, oneshot::Sender<Put>),
    /// Somebody waits for an announcement.
    Look,
    Close(oneshot::Sender<()>),
}

/// Who waits for which announcement.
#[derive(Default)]
struct Arrivals {
    waiting: HashMap<u64, oneshot::Sender<()>>,
    early: BTreeSet<u64>,
}

/// The thread, seen from outside.
pub(super) struct Worker {
    commands: SyncSender<Command>,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Worker {
    /// Starts the thread; it loads the library and registers the arena.
    pub(super) fn start(
        found: Found,
        node: &NodeName,
        config: &NixlConfig,
        receives: bool,
        arena: Arc<Arena>,
    ) -> Result<(Self, Ready), NixlError> {
        let (commands, received) = sync_channel(MAX_WAITING);
        let arrivals = Arc::new(Mutex::new(Arrivals::default()));
        let (ready, started) = std::sync::mpsc::channel();
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| NixlError::System(error.to_string()))?;
        // Each life has a name of its own: what peers know of an earlier one is of no use to them.
        let name = format!("{node}.{:016x}", u64::from_le_bytes(random));
        let (config, shared) = (config.clone(), Arc::clone(&arrivals));
        let run = move || match Inside::new(&found, &name, receives, &config, arena, shared) {
            Ok((inside, known)) => {
                // Fails only if the caller is gone; then the channel of commands is, too.
                let _ = ready.send(Ok(known));
                inside.run(&received);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        std::thread::Builder::new()
            .name("seam-nixl".to_owned())
            .spawn(run)
            .map_err(|error| NixlError::System(error.to_string()))?;
        let ended = |_| NixlError::System("the thread for NIXL has ended".to_owned());
        let ready = started.recv().map_err(ended)??;
        Ok((Self { commands, arrivals }, ready))
    }

    /// Makes a peer known.
    pub(super) async fn load(&self, metadata: Vec<u8>, peer: NodeName) -> Result<Remote, FabricError> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Load(metadata, peer, answer))?;
        let name = answered.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(Remote(Arc::new(Known { name, commands: self.commands.clone() })))
    }

    pub(super) async fn put(&self, remote: &Remote, job: Job, cancel: CancellationToken) -> Put {
        let (done, put) = oneshot::channel();
        match self.tell(Command::Put(remote.0.name.clone(), job, cancel, done)) {
            Ok(()) => put.await.unwrap_or_else(|_| Put { result: Err(ended()), over: false }),
            Err(error) => Put { result: Err(error), over: true },
        }
    }

    /// Waits for an announcement.
    pub(super) async fn arrived(&self, number: u64) {
        let (come, comes) = oneshot::channel();
        {
            let mut arrivals = lock(&self.arrivals);
            if arrivals.early.remove(&number) {
                return;
            }
            arrivals.waiting.insert(number, come);
        }
        // One that is full of commands looks by itself.
        let _ = self.tell(Command::Look);
        let _no_longer = Waiting { arrivals: &self.arrivals, number };
        if comes.await.is_err() {
            // The thread has ended: nothing will come. Whoever waits has a deadline.
            std::future::pending::<()>().await;
        }
    }

    /// Lets everything go.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.tell(Command::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }

    fn tell(&self, command: Command) -> Result<(), FabricError> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => FabricError::Local(format!("{MAX_WAITING} calls wait for NIXL's thread")),
            TrySendError::Disconnected(_) => ended(),
        })
    }
}

/// Takes the place back when nobody waits any more.
struct Waiting<'a> {
    arrivals: &'a Mutex<Arrivals>,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(self.arrivals).waiting.remove(&self.number);
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    // Every change is whole before anything can panic.
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended() -> FabricError {
    FabricError::Local("NIXL was closed".to_owned())
}

/// Says when the thread ends by a panic: every call fails from then on.
struct Watched;

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the thread for NIXL panicked: its rail moves nothing until the agent is restarted");
        }
    }
}

/// The thread, seen from inside. Fields are let go of in this order.
struct Inside {
    transfers: Vec<Transfer>,
    /// What was given up and has not ended: whose it is, too.
    left: Vec<(CString, Request)>,
    /// Until when the library is looked after though nothing is under way: what it was told to announce may
    /// still be on its way out.
    lingers: Option<Instant>,
    _registered: Registered,
    agent: Rc<Agent>,
    /// How many use each peer, and whether it has failed them.
    known: HashMap<CString, (usize, bool)>,
    arena: Arc<Arena>,
    scratch: Box<[u8]>,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Inside {
    fn new(
        found: &Found,
        name: &str,
        receives: bool,
        config: &NixlConfig,
        arena: Arc<Arena>,
        arrivals: Arc<Mutex<Arrivals>>,
    ) -> Result<(Self, Ready), NixlError> {
        let unusable = |detail| LibraryError::Unusable { path: found.path.clone(), detail };
        let api = Rc::new(Api::load(&found.path).map_err(unusable)?);
        let agent = Rc::new(Agent::new(api, name, receives, config)?);
        let scratch = vec![0; SCRATCH].into_boxed_slice();
        let size = usize::try_from(arena.size()).map_err(|error| NixlError::System(error.to_string()))?;
        let regions = [(arena.address(), size), (scratch.as_ptr() as usize, SCRATCH)];
        // SAFETY: the arena and the boxed scratch are fields of the same value and outlive it.
        let registered = unsafe { Registered::new(&agent, &regions)? };
        let ready = Ready { metadata: agent.metadata()?, scratch: scratch.as_ptr() as usize + HALF as usize };
        let inside = Self {
            transfers: Vec::new(),
            left: Vec::new(),
            lingers: None,
            _registered: registered,
            agent,
            known: HashMap::new(),
            arena,
            scratch,
            arrivals,
        };
        Ok((inside, ready))
    }

    fn run(mut self, commands: &Receiver<Command>) {
        let _said_when_dropped = Watched;
        let mut idle_looks = 0;
        let closed = loop {
            let moved = self.step() | self.look();
            let waits = !lock(&self.arrivals).waiting.is_empty() || self.lingers.is_some() || !self.left.is_empty();
            idle_looks = if moved { 0 } else { idle_looks + 1 };
            let next = if !self.transfers.is_empty() && idle_looks < BUSY_LOOKS {
                commands.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            } else if !self.transfers.is_empty() {
                commands.recv_timeout(NAP)
            } else if waits {
                commands.recv_timeout(WAIT)
            } else {
                commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match next {
                Ok(Command::Close(done)) => break Some(done),
                Ok(command) => {
                    idle_looks = 0;
                    self.take(command);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        drop(self);
        if let Some(done) = closed {
            // Fails only if nobody waits.
            let _ = done.send(());
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Load(metadata, peer, answer) => {
                let loaded = self.load(&metadata, &peer);
                // Nobody waits any more: nobody will let go of it either.
                if let Err(Ok(name)) = answer.send(loaded) {
                    self.forget(&name);
                }
            }
            Command::Forget(name) => self.forget(&name),
            Command::Put(peer, job, cancel, done) => {
                // Probes have no number, and are made of scratch memory.
                let base = match job.number {
                    Some(_) => self.arena.address() as u64,
                    None => self.scratch.as_ptr() as u64,
                };
                if self.transfers.len() >= MAX_TRANSFERS {
                    let error = FabricError::Local(format!("{MAX_TRANSFERS} puts are under way"));
                    // Fails only if nobody waits.
                    let _ = done.send(Put { result: Err(error), over: true });
                    return;
                }
                self.transfers.push(Transfer::new(peer, job, base, cancel, done));
            }
            Command::Look | Command::Close(_) => {}
        }
    }

    fn load(&mut self, metadata: &[u8], peer: &NodeName) -> Result<CString, FabricError> {
        let name = self.agent.load(metadata)?;
        // Metadata says by itself whose it is; only the peer's certificate says who the peer is.
        let node = name.to_str().ok().and_then(|name| name.rsplit_once('.')).map(|(node, _)| node);
        if node != Some(peer.as_str()) {
            if !self.known.contains_key(&name) {
                self.agent.forget(&name);
            }
            return Err(FabricError::Protection(format!("{peer} gave the metadata of {}", name.to_string_lossy())));
        }
        let is_used = self.is_used(&name);
        let (users, failed) = self.known.entry(name.clone()).or_default();
        if *failed && !is_used {
            // Its connections are of no use: it is made known anew.
            *failed = false;
            self.agent.forget(&name);
            self.agent.load(metadata)?;
        }
        *users += 1;
        Ok(name)
    }

    fn forget(&mut self, name: &CString) {
        if let Some((users, _)) = self.known.get_mut(name) {
            *users = users.saturating_sub(1);
        }
        self.forget_unused();
    }

    /// Forgets peers that nobody uses any more. What is under way needs the library's idea of its peer.
    fn forget_unused(&mut self) {
        let unused = self.known.iter().filter(|(name, (users, _))| *users == 0 && !self.is_used(name));
        let names: Vec<CString> = unused.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.known.remove(&name);
            self.agent.forget(&name);
        }
    }

    fn is_used(&self, name: &CString) -> bool {
        self.transfers.iter().any(|transfer| transfer.peer == *name) || self.left.iter().any(|(peer, _)| peer == name)
    }

    /// Takes every transfer a step further.
    fn step(&mut self) -> bool {
        let (agent, known, left, mut moved) = (&self.agent, &mut self.known, &mut self.left, false);
        let (mut ended, lingers) = (false, &mut self.lingers);
        left.retain(|(_, request)| matches!(request.progress(), Progress::UnderWay));
        self.transfers.retain_mut(|transfer| match transfer.step(agent) {
            Step::Waits => true,
            Step::Moved => {
                moved = true;
                true
            }
            Step::Ended { peer_gone, left: under_way } => {
                (moved, ended) = (true, true);
                *lingers = Some(Instant::now() + LINGER);
                left.extend(under_way.into_iter().map(|request| (transfer.peer.clone(), request)));
                if let Some((_, failed)) = known.get_mut(&transfer.peer) {
                    *failed |= peer_gone;
                }
                false
            }
        });
        if ended {
            let beyond = self.left.len().saturating_sub(MAX_LEFT);
            self.left.drain(..beyond);
            self.forget_unused();
        }
        moved
    }

    /// Looks for announcements, if anybody waits for one.
    fn look(&mut self) -> bool {
        self.lingers.take_if(|until| Instant::now() >= *until);
        if lock(&self.arrivals).waiting.is_empty() && self.lingers.is_none() {
            return false;
        }
        let announced = self.agent.announced();
        let mut arrivals = lock(&self.arrivals);
        for words in &announced {
            let Ok(number) = <[u8; 8]>::try_from(words.as_slice()).map(u64::from_le_bytes) else { continue };
            match arrivals.waiting.remove(&number) {
                // Fails only if whoever waited has just given up.
                Some(come) => drop(come.send(())),
                None => {
                    arrivals.early.insert(number);
                    if arrivals.early.len() > MAX_EARLY {
                        arrivals.early.pop_first();
                    }
                }
            }
        }
        !announced.is_empty()
    }
}
