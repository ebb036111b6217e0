//! The thread that owns a library's objects, for libraries that are not to be called from two
//! threads: commands go in, puts are taken further chunk by chunk, and announcements come out.

mod arrivals;
mod bell;
mod link;
mod put;

use std::collections::HashMap;
use std::hash::Hash;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::fabric::{FabricError, Piece, Put};
use crate::arena::Arena;
use crate::model::NodeName;
pub(super) use arrivals::{Announcement, Arrivals, Token};
use bell::Bell;
pub(super) use bell::wait;
pub(super) use link::{Target, WorkerEntry, WorkerLink};
use put::{Job, Step, Transfer};

/// Memory for probes, in bytes: one half is read, the other written.
const SCRATCH: usize = 2 * HALF as usize;
const HALF: u32 = 1024 * 1024;
/// What waits for the thread at most; one more is refused.
const MAX_WAITING: usize = 1_024;
/// Puts under way at once; one more is refused.
const MAX_TRANSFERS: usize = 4_096;
/// Chunks that were given up and have not ended, at most; the oldest are let go of.
const MAX_LEFT: usize = 4_096;
/// Looks in a row before the thread sleeps between two.
const BUSY_LOOKS: u32 = 64;
/// How long the library is looked after once nothing is under way any more.
const LINGER: Duration = Duration::from_millis(100);

/// How a request stands.
pub(super) enum Progress {
    UnderWay,
    Done,
    Failed(FabricError),
}

/// Which of the two memories bytes are of, here and at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Arena,
    /// Probes go from one half of the scratch memory to the other.
    Scratch,
}

/// Where bytes are, where they go, and how many: addresses.
pub(super) type Span = (usize, usize, usize);

/// A library, as its thread uses it.
pub(super) trait Engine: Sized + 'static {
    /// A peer that it knows.
    type Peer: Clone + Eq + Hash + Send + Sync + 'static;
    /// What it must be told to know one.
    type Words: Send + 'static;
    /// What is under way. One that is dropped is given up: its bytes may still land.
    type Request;

    /// Its name, for people.
    const NAME: &'static str;
    /// How long the thread sleeps at most while something is under way.
    const NAP: Duration;
    /// The same while it only waits for an announcement.
    const WAIT: Duration;

    /// Makes a peer known.
    fn know(
        &mut self,
        words: &Self::Words,
        node: &NodeName,
        is_used: impl Fn(&Self::Peer) -> bool,
    ) -> Result<Self::Peer, FabricError>;

    /// Forgets a peer and its connections. Nothing to it is under way any more.
    fn forget(&mut self, peer: &Self::Peer);

    /// What is under way to this peer did not come to its end in time.
    fn give_up(&mut self, _peer: &Self::Peer) {}

    /// Begins to write spans into a peer's memory.
    ///
    /// # Safety
    /// Local addresses must be within this host's memory of that place, which stays until the engine
    /// is dropped.
    unsafe fn post(&mut self, peer: &Self::Peer, place: Place, spans: &[Span]) -> Result<Self::Request, FabricError>;

    /// How it stands.
    fn progress(&self, request: &mut Self::Request) -> Progress;

    /// Begins to wait until everything that was written is in the peer's memory; none if a request
    /// that is done says so already.
    fn flush(&mut self, peer: &Self::Peer) -> Result<Option<Self::Request>, FabricError>;

    /// Begins to announce something to a peer; none if that is done.
    fn announce(
        &mut self,
        peer: &Self::Peer,
        announcement: &Announcement,
    ) -> Result<Option<Self::Request>, FabricError>;

    /// Takes the library a step further, and hands on what was announced here. `looks`: somebody waits
    /// for that. Whether something has moved.
    fn turn(&mut self, arrivals: &Arrivals, looks: bool) -> bool;

    /// Whether something of its own has not ended.
    fn is_busy(&self) -> bool {
        false
    }

    /// Sleeps until the bell rings or the time is over, or until there is something to do.
    fn rest(&mut self, bell: BorrowedFd<'_>, limit: Option<Duration>) {
        wait(&[bell], limit);
    }
}

/// Why there is no thread.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ThreadError(String);

/// What is registered in a library; stays where it is as long as this value.
pub(super) struct Memory {
    arena: Arc<Arena>,
    scratch: Box<[u8]>,
}

impl Memory {
    /// Address and length of a place.
    pub(super) fn region(&self, place: Place) -> (usize, usize) {
        match place {
            // The whole arena is mapped, so its size is one of memory.
            Place::Arena => (self.arena.address(), self.arena.size() as usize),
            Place::Scratch => (self.scratch.as_ptr() as usize, SCRATCH),
        }
    }

    /// Where peers' probes go.
    pub(super) fn probed(&self) -> u64 {
        (self.scratch.as_ptr() as usize + HALF as usize) as u64
    }
}

/// A peer that is known to the library; forgotten with the last copy.
struct Remote<E: Engine>(Arc<Known<E>>);

struct Known<E: Engine> {
    peer: E::Peer,
    line: Arc<Line<E>>,
}

impl<E: Engine> Drop for Known<E> {
    fn drop(&mut self) {
        // A thread with too much to do keeps it a little longer: until its next life.
        let _ = self.line.tell(Command::Forget(self.peer.clone()));
    }
}

enum Command<E: Engine> {
    /// A peer's words, and who that must be.
    Know(E::Words, NodeName, oneshot::Sender<Result<E::Peer, FabricError>>),
    Forget(E::Peer),
    Put(E::Peer, Job, CancellationToken, oneshot::Sender<Put>),
    Close(oneshot::Sender<()>),
}

/// The way to the thread, which ends with its last holder.
struct Line<E: Engine> {
    commands: Option<SyncSender<Command<E>>>,
    bell: Arc<Bell>,
}

impl<E: Engine> Line<E> {
    fn tell(&self, command: Command<E>) -> Result<(), FabricError> {
        let commands = self.commands.as_ref().ok_or_else(ended::<E>)?;
        commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => FabricError::Local(format!("{MAX_WAITING} calls wait for {}'s thread", E::NAME)),
            TrySendError::Disconnected(_) => ended::<E>(),
        })?;
        self.bell.ring();
        Ok(())
    }
}

impl<E: Engine> Drop for Line<E> {
    fn drop(&mut self) {
        self.commands = None;
        self.bell.ring();
    }
}

fn ended<E: Engine>() -> FabricError {
    FabricError::Local(format!("{} was closed", E::NAME))
}

/// The thread, seen from outside.
pub(super) struct Worker<E: Engine> {
    line: Arc<Line<E>>,
    arrivals: Arc<Arrivals>,
}

impl<E: Engine> Worker<E> {
    /// Starts the thread; there, `make` loads the library and registers memory in it.
    pub(super) fn start<K: Send + 'static, X: From<ThreadError> + Send + 'static>(
        arena: Arc<Arena>,
        make: impl FnOnce(&Rc<Memory>) -> Result<(E, K), X> + Send + 'static,
    ) -> Result<(Self, K), X> {
        let (commands, received) = sync_channel(MAX_WAITING);
        let bell = Arc::new(Bell::new().map_err(|error| ThreadError(error.to_string()))?);
        let arrivals = Arc::new(Arrivals::default());
        let (ready, started) = std::sync::mpsc::channel();
        let (inner_bell, shared) = (Arc::clone(&bell), Arc::clone(&arrivals));
        let run = move || {
            let memory = Rc::new(Memory { arena, scratch: vec![0; SCRATCH].into_boxed_slice() });
            match make(&memory) {
                Ok((engine, known)) => {
                    // Fails only if the caller is gone; then the channel of commands is, too.
                    let _ = ready.send(Ok(known));
                    Inside::new(engine, memory, shared).run(&received, &inner_bell);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        std::thread::Builder::new()
            .name(format!("seam-{}", E::NAME.to_lowercase()))
            .spawn(run)
            .map_err(|error| ThreadError(error.to_string()))?;
        let ended = |_| ThreadError(format!("the thread for {} has ended", E::NAME));
        let known = started.recv().map_err(ended)??;
        Ok((Self { line: Arc::new(Line { commands: Some(commands), bell }), arrivals }, known))
    }

    /// Makes a peer known.
    async fn know(&self, words: E::Words, node: NodeName) -> Result<Remote<E>, FabricError> {
        let (answer, answered) = oneshot::channel();
        self.line.tell(Command::Know(words, node, answer))?;
        let peer = answered.await.unwrap_or_else(|_| Err(ended::<E>()))?;
        Ok(Remote(Arc::new(Known { peer, line: Arc::clone(&self.line) })))
    }

    async fn put(&self, remote: &Remote<E>, job: Job, cancel: CancellationToken) -> Put {
        let (done, put) = oneshot::channel();
        match self.line.tell(Command::Put(remote.0.peer.clone(), job, cancel, done)) {
            Ok(()) => put.await.unwrap_or_else(|_| Put { result: Err(ended::<E>()), over: false }),
            Err(error) => Put { result: Err(error), over: true },
        }
    }

    /// Puts so many bytes from this side's scratch memory to the peer's, which is there.
    async fn probe(&self, remote: &Remote<E>, bytes: u32, scratch: u64, deadline: Duration) -> Result<(), FabricError> {
        let job = Job {
            pieces: scratch_pieces(bytes),
            remote_base: scratch,
            place: Place::Scratch,
            announcement: None,
            deadline,
        };
        // Dropped with this future: what is under way then comes to its end by itself.
        let cancel = CancellationToken::new();
        let _cancelled_when_dropped = cancel.clone().drop_guard();
        self.put(remote, job, cancel).await.result
    }

    /// Waits for an announcement.
    async fn arrived(&self, announcement: Announcement) {
        self.arrivals.arrived(announcement, || self.line.bell.ring()).await;
    }

    /// Lets everything go.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.line.tell(Command::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }
}

/// Says when the thread ends by a panic: every call fails from then on.
struct Watched(&'static str);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the thread for {} panicked: its rail moves nothing until the agent is restarted", self.0);
        }
    }
}

/// The pieces of a probe, from one half of the scratch memory to the other.
fn scratch_pieces(bytes: u32) -> Vec<Piece> {
    let whole = (0..bytes / HALF).map(|_| HALF);
    let rest = Some(bytes % HALF).filter(|rest| *rest > 0);
    whole.chain(rest).map(|bytes| Piece { local: 0, remote: 0, bytes: u64::from(bytes) }).collect()
}

/// The thread, seen from inside. Fields are let go of in this order.
struct Inside<E: Engine> {
    transfers: Vec<Transfer<E>>,
    /// What was given up and has not ended: whose it is, too.
    left: Vec<(E::Peer, E::Request)>,
    /// Until when the library is looked after though nothing is under way: what it was told to announce may
    /// still be on its way out.
    lingers: Option<Instant>,
    engine: E,
    /// How many use each peer, and whether it has failed them.
    known: HashMap<E::Peer, (usize, bool)>,
    memory: Rc<Memory>,
    arrivals: Arc<Arrivals>,
}

impl<E: Engine> Inside<E> {
    fn new(engine: E, memory: Rc<Memory>, arrivals: Arc<Arrivals>) -> Self {
        let (transfers, left, known) = (Vec::new(), Vec::new(), HashMap::new());
        Self { transfers, left, lingers: None, engine, known, memory, arrivals }
    }

    fn run(mut self, commands: &Receiver<Command<E>>, bell: &Bell) {
        let _said_when_dropped = Watched(E::NAME);
        let mut idle_looks = 0;
        let closed = loop {
            // Before the looks: what rings after this is seen by the next turn.
            bell.hush();
            let mut moved = match self.obey(commands) {
                Ok(moved) => moved,
                Err(closed) => break closed,
            };
            moved |= self.step();
            moved |= self.look();
            idle_looks = if moved { 0 } else { idle_looks + 1 };
            let waits =
                self.arrivals.are_awaited() || self.lingers.is_some() || !self.left.is_empty() || self.engine.is_busy();
            if moved || !self.transfers.is_empty() && idle_looks < BUSY_LOOKS {
                continue;
            }
            let limit = match (self.transfers.is_empty(), waits) {
                (false, _) => Some(E::NAP),
                (true, true) => Some(E::WAIT),
                (true, false) => None,
            };
            self.engine.rest(bell.as_fd(), limit);
        };
        drop(self);
        if let Some(done) = closed {
            // Fails only if nobody waits.
            let _ = done.send(());
        }
    }

    /// Does what was asked for; the error is the end, and who waits for it.
    fn obey(&mut self, commands: &Receiver<Command<E>>) -> Result<bool, Option<oneshot::Sender<()>>> {
        // No more than fit at once: what is under way wants its turn, too.
        for taken in 0..MAX_WAITING {
            match commands.try_recv() {
                Ok(Command::Close(done)) => return Err(Some(done)),
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => return Ok(taken > 0),
                Err(TryRecvError::Disconnected) => return Err(None),
            }
        }
        Ok(true)
    }

    fn take(&mut self, command: Command<E>) {
        match command {
            Command::Know(words, node, answer) => {
                let known = self.know(&words, &node);
                // Nobody waits any more: nobody will let go of it either.
                if let Err(Ok(peer)) = answer.send(known) {
                    self.forget(&peer);
                }
            }
            Command::Forget(peer) => self.forget(&peer),
            Command::Put(peer, job, cancel, done) => {
                if self.transfers.len() >= MAX_TRANSFERS {
                    let error = FabricError::Local(format!("{MAX_TRANSFERS} puts are under way"));
                    // Fails only if nobody waits.
                    let _ = done.send(Put { result: Err(error), over: true });
                    return;
                }
                self.transfers.push(Transfer::new(peer, job, &self.memory, cancel, done));
            }
            Command::Close(_) => {}
        }
    }

    fn know(&mut self, words: &E::Words, node: &NodeName) -> Result<E::Peer, FabricError> {
        let peer = self.engine.know(words, node, |peer| self.known.contains_key(peer))?;
        let is_used = self.is_used(&peer);
        let (users, failed) = self.known.entry(peer.clone()).or_default();
        if *failed && !is_used {
            // Its connections are of no use: it is made known anew.
            *failed = false;
            self.engine.forget(&peer);
            self.engine.know(words, node, |_| true)?;
        }
        *users += 1;
        Ok(peer)
    }

    fn forget(&mut self, peer: &E::Peer) {
        if let Some((users, _)) = self.known.get_mut(peer) {
            *users = users.saturating_sub(1);
        }
        self.forget_unused();
    }

    /// Forgets peers that nobody uses any more. What is under way needs the library's idea of its peer.
    fn forget_unused(&mut self) {
        let unused = self.known.iter().filter(|(peer, (users, _))| *users == 0 && !self.is_used(peer));
        let unused: Vec<E::Peer> = unused.map(|(peer, _)| peer.clone()).collect();
        for peer in unused {
            self.known.remove(&peer);
            self.engine.forget(&peer);
        }
    }

    fn is_used(&self, peer: &E::Peer) -> bool {
        self.transfers.iter().any(|transfer| transfer.peer == *peer) || self.left.iter().any(|(whose, _)| whose == peer)
    }

    /// Takes every transfer a step further.
    fn step(&mut self) -> bool {
        let (engine, known, left, mut moved) = (&mut self.engine, &mut self.known, &mut self.left, false);
        let (mut ended, lingers) = (false, &mut self.lingers);
        left.retain_mut(|(_, request)| {
            let under_way = matches!(engine.progress(request), Progress::UnderWay);
            ended |= !under_way;
            under_way
        });
        self.transfers.retain_mut(|transfer| match transfer.step(engine) {
            Step::Waits => true,
            Step::Moved => {
                moved = true;
                true
            }
            Step::Ended { peer_gone, left: under_way } => {
                (moved, ended) = (true, true);
                *lingers = Some(Instant::now() + LINGER);
                if !under_way.is_empty() {
                    engine.give_up(&transfer.peer);
                }
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

    /// Looks after the library, and for announcements if anybody waits for one.
    fn look(&mut self) -> bool {
        self.lingers.take_if(|until| Instant::now() >= *until);
        let looks = self.arrivals.are_awaited() || self.lingers.is_some();
        self.engine.turn(&self.arrivals, looks)
    }
}
