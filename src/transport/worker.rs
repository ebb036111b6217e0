//! The thread that owns a library's objects, for libraries that are not to be called from two
//! threads: commands go in, puts are taken further chunk by chunk, and announcements come out.

mod inside;
mod link;
mod members;
mod put;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memmap2::MmapRaw;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::bell::{Bell, wait};
use super::fabric::scratch;
use super::fabric::{FabricError, Put};
use super::starting;
use crate::arena::{Arena, Segment};
use crate::model::NodeName;
use inside::Inside;
pub(super) use link::{Target, WorkerEntry, WorkerLink};
pub(super) use members::{Announcement, Members, Token};
use put::{Asker, Job};

/// What waits for the thread at most; one more is refused.
const MAX_WAITING: usize = 1_024;

/// Peers of another version that are remembered as told of; beyond that all are told of once more.
const MAX_SKEWS: usize = 1_024;

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

/// What bytes are written between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) place: Place,
    pub(super) from: Segment,
    pub(super) to: Segment,
}

/// Memory that is registered: where it is, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) segment: Segment,
    pub(super) address: usize,
    pub(super) bytes: usize,
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

    /// Something to this peer did not come to its end in time. What is left of it is dropped next.
    fn give_up(&mut self, _peer: &Self::Peer) {}

    /// Begins to write spans into a peer's memory. An error says that nothing was begun: what fails later is a
    /// request that has failed.
    ///
    /// # Safety
    /// Local addresses must be within this host's memory of that place, which stays until the engine
    /// is dropped.
    unsafe fn post(&mut self, peer: &Self::Peer, ends: Ends, spans: &[Span]) -> Result<Self::Request, FabricError>;

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
    fn turn(&mut self, members: &Members, looks: bool) -> bool;

    /// Whether something of its own has not ended.
    fn is_busy(&self) -> bool {
        false
    }

    /// Sleeps until the bell rings or the time is over, or until there is something to do.
    fn rest(&mut self, bell: BorrowedFd<'_>, limit: Option<Duration>) {
        wait([bell], limit);
    }
}

/// Why there is no thread.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ThreadError(String);

/// What is registered in a library; stays where it is as long as this value.
pub(super) struct Memory {
    arena: Arc<Arena>,
    scratch: MmapRaw,
}

impl Memory {
    pub(super) fn region(&self, place: Place) -> Region {
        let Self { arena, scratch } = self;
        match place {
            // The whole arena is mapped, so its size is one of memory.
            Place::Arena => Region { segment: arena.segment(), address: arena.address(), bytes: arena.size() as usize },
            Place::Scratch => {
                Region { segment: Segment::Dram, address: scratch.as_mut_ptr() as usize, bytes: scratch.len() }
            }
        }
    }

    /// Where peers' probes go.
    pub(super) fn probed(&self) -> u64 {
        self.scratch.as_mut_ptr() as u64 + u64::from(scratch::HALF)
    }
}

/// A peer that is known to the library; forgotten with the last copy.
struct Remote<E: Engine>(Arc<Known<E>>);

struct Known<E: Engine> {
    peer: E::Peer,
    /// It can be spoken to no more.
    over: Arc<AtomicBool>,
    line: Arc<Line<E>>,
}

impl<E: Engine> Remote<E> {
    fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }
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
    Put(E::Peer, Job, Asker),
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
    members: Arc<Members>,
    /// What was said last of each peer's version: said once, however often it is dialled.
    skews: Mutex<BTreeMap<NodeName, String>>,
}

impl<E: Engine> Worker<E> {
    /// Starts the thread; there, `make` loads the library and registers memory in it.
    pub(super) fn start<K: Send + 'static, X: From<ThreadError> + Send + 'static>(
        arena: Arc<Arena>,
        make: impl FnOnce(&Rc<Memory>) -> Result<(E, K), X> + Send + 'static,
    ) -> Result<(Self, K), X> {
        let arena_bytes = arena.size();
        let (commands, received) = sync_channel(MAX_WAITING);
        let bell = Arc::new(Bell::new().map_err(|error| ThreadError(error.to_string()))?);
        let members = Arc::new(Members::default());
        let (ready, started) = std::sync::mpsc::channel();
        let (inner_bell, shared) = (Arc::clone(&bell), Arc::clone(&members));
        let run = move || {
            let scratch = scratch::map().map_err(|error| ThreadError(format!("memory for probes: {error}")));
            let made = scratch.map_err(X::from).and_then(|scratch| {
                let memory = Rc::new(Memory { arena, scratch });
                Ok((make(&memory)?, memory))
            });
            match made {
                Ok(((engine, known), memory)) => {
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
        let known = starting::started(&started, E::NAME, arena_bytes).map_err(ThreadError)??;
        let line = Arc::new(Line { commands: Some(commands), bell });
        Ok((Self { line, members, skews: Mutex::default() }, known))
    }

    /// Tells the operator, who sees nothing of a probe but that it fails.
    pub(super) fn warn_of(&self, peer: &NodeName, skew: &str) {
        // Every change of the table is whole before anything can panic.
        let mut skews = self.skews.lock().unwrap_or_else(PoisonError::into_inner);
        if skews.len() >= MAX_SKEWS {
            skews.clear();
        }
        if skews.insert(peer.clone(), skew.to_owned()).is_none_or(|said| said != skew) {
            tracing::warn!(%peer, skew, "the peer's library is of another version: they may not understand each other");
        }
    }

    /// Makes a peer known.
    async fn know(&self, words: E::Words, node: NodeName) -> Result<Remote<E>, FabricError> {
        let (answer, answered) = oneshot::channel();
        self.line.tell(Command::Know(words, node, answer))?;
        let peer = answered.await.unwrap_or_else(|_| Err(ended::<E>()))?;
        let over = Arc::new(AtomicBool::new(false));
        Ok(Remote(Arc::new(Known { peer, over, line: Arc::clone(&self.line) })))
    }

    async fn put(&self, remote: &Remote<E>, job: Job, cancel: CancellationToken) -> Put {
        let (done, put) = oneshot::channel();
        let asker = Asker { cancel, over: Arc::clone(&remote.0.over), done: Some(done) };
        match self.line.tell(Command::Put(remote.0.peer.clone(), job, asker)) {
            Ok(()) => put.await.unwrap_or_else(|_| Put { result: Err(ended::<E>()), over: false }),
            Err(error) => Put { result: Err(error), over: true },
        }
    }

    /// Puts so many bytes from this side's scratch memory to the peer's, which is there.
    async fn probe(&self, remote: &Remote<E>, bytes: u32, scratch: u64, deadline: Duration) -> Result<(), FabricError> {
        let job = Job {
            pieces: scratch::pieces(bytes),
            remote: (Segment::Dram, scratch),
            place: Place::Scratch,
            announcement: None,
            deadline,
        };
        // Dropped with this future: what is under way then comes to its end by itself.
        let cancel = CancellationToken::new();
        let _cancelled_when_dropped = cancel.clone().drop_guard();
        self.put(remote, job, cancel).await.result
    }

    /// Lets everything go.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.line.tell(Command::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }
}
