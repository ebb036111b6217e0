//! The thread, seen from inside.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::put::{Patience, Step, Transfer};
use super::{Command, Engine, MAX_WAITING, Members, Memory, Progress};
use crate::model::NodeName;
use crate::transport::bell::Bell;
use crate::transport::fabric::{FabricError, Put};

/// Puts under way at once; one more is refused.
const MAX_TRANSFERS: usize = 4_096;
/// Chunks that were given up and have not ended, at most; the oldest are let go of.
const MAX_LEFT: usize = 4_096;
/// Looks in a row before the thread sleeps between two.
const BUSY_LOOKS: u32 = 64;
/// How long the library is looked after once nothing is under way any more.
const LINGER: Duration = Duration::from_millis(100);

/// Says when the thread ends by a panic: every call fails from then on.
struct Watched(&'static str);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the thread for {} panicked: its rail moves nothing until the agent is restarted", self.0);
        }
    }
}

/// The thread, seen from inside. Fields are let go of in this order.
pub(super) struct Inside<E: Engine> {
    transfers: Vec<Transfer<E>>,
    /// What was given up and has not ended: whose it is, too.
    left: Vec<(E::Peer, E::Request)>,
    /// Until when the library is looked after though nothing is under way: what it was told to announce may
    /// still be on its way out.
    lingers: Option<Instant>,
    engine: E,
    known: HashMap<E::Peer, Acquaintance>,
    memory: Rc<Memory>,
    members: Arc<Members>,
    patience: Patience,
}

/// What there is to know of a peer that is known.
#[derive(Default)]
struct Acquaintance {
    users: usize,
    /// Its connections have failed: it is made known anew before it is spoken to again.
    failed: bool,
    /// Since when something has not ended that was given up.
    stuck: Option<Instant>,
}

impl<E: Engine> Inside<E> {
    pub(super) fn new(engine: E, memory: Rc<Memory>, members: Arc<Members>) -> Self {
        let (transfers, left, known) = (Vec::new(), Vec::new(), HashMap::new());
        Self { transfers, left, lingers: None, engine, known, memory, members, patience: Patience::default() }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command<E>>, bell: &Bell) {
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
                self.members.are_awaited() || self.lingers.is_some() || !self.left.is_empty() || self.engine.is_busy();
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
            Command::Put(peer, job, mut asker) => {
                if self.transfers.len() >= MAX_TRANSFERS {
                    let error = FabricError::Local(format!("{MAX_TRANSFERS} puts are under way"));
                    if let Some(done) = asker.done.take() {
                        // Fails only if nobody waits.
                        let _ = done.send(Put { result: Err(error), over: true });
                    }
                    return;
                }
                self.transfers.push(Transfer::new(peer, job, &self.memory, asker, self.patience.drain));
            }
            Command::Close(_) => {}
        }
    }

    fn know(&mut self, words: &E::Words, node: &NodeName) -> Result<E::Peer, FabricError> {
        let peer = self.engine.know(words, node, |peer| self.known.contains_key(peer))?;
        let is_used = self.is_used(&peer);
        let known = self.known.entry(peer.clone()).or_default();
        if known.failed && !is_used {
            known.failed = false;
            self.engine.forget(&peer);
            self.engine.know(words, node, |_| true)?;
        }
        known.users += 1;
        Ok(peer)
    }

    fn forget(&mut self, peer: &E::Peer) {
        if let Some(known) = self.known.get_mut(peer) {
            known.users = known.users.saturating_sub(1);
        }
        self.forget_unused();
    }

    /// Forgets peers that nobody uses any more. What is under way needs the library's idea of its peer.
    fn forget_unused(&mut self) {
        let unused = self.known.iter().filter(|(peer, known)| known.users == 0 && !self.is_used(peer));
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
                if let Some(known) = known.get_mut(&transfer.peer) {
                    known.failed |= peer_gone;
                    if !under_way.is_empty() {
                        known.stuck.get_or_insert_with(Instant::now);
                    }
                }
                left.extend(under_way.into_iter().map(|request| (transfer.peer.clone(), request)));
                false
            }
        });
        if ended {
            let beyond = self.left.len().saturating_sub(MAX_LEFT);
            self.left.drain(..beyond);
            self.forget_unused();
        }
        if !self.left.is_empty() {
            self.give_up();
        }
        moved
    }

    /// Gives up peers to whom something has not ended in time: at once where nothing else moves to them, which may
    /// well come to its end, and soon in any case.
    fn give_up(&mut self) {
        let moves: HashSet<&E::Peer> =
            self.transfers.iter().filter(|transfer| transfer.moves()).map(|transfer| &transfer.peer).collect();
        let is_late = |known: &Acquaintance| known.stuck.is_none_or(|since| since.elapsed() >= self.patience.stuck);
        let late = |peer: &E::Peer| !moves.contains(peer) || self.known.get(peer).is_none_or(is_late);
        let late: HashSet<E::Peer> =
            self.left.iter().map(|(peer, _)| peer).filter(|peer| late(peer)).cloned().collect();
        if late.is_empty() {
            return;
        }
        for peer in &late {
            self.engine.give_up(peer);
            if let Some(known) = self.known.get_mut(peer) {
                (known.failed, known.stuck) = (true, None);
            }
        }
        self.left.retain(|(peer, _)| !late.contains(peer));
        self.forget_unused();
    }

    /// Looks after the library, and for announcements if anybody waits for one.
    fn look(&mut self) -> bool {
        self.lingers.take_if(|until| Instant::now() >= *until);
        let looks = self.members.are_awaited() || self.lingers.is_some();
        self.engine.turn(&self.members, looks)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::arena::{Arena, Segment};
    use crate::transport::fabric::{Piece, scratch};
    use crate::transport::worker::put::{Asker, Job};
    use crate::transport::worker::{Announcement, Ends, Place, Span};

    /// Long enough for a few steps on a busy machine, and waited for by stepping until it is over.
    const SHORT: Patience = Patience { drain: Duration::from_millis(20), stuck: Duration::from_millis(60) };

    const AMPLE: Duration = Duration::from_secs(600);

    /// What becomes of the posts to each peer: none if they are refused.
    type Script = Rc<RefCell<HashMap<u32, Option<bool>>>>;

    struct Scripted {
        ends: Script,
        given_up: Rc<RefCell<Vec<u32>>>,
    }

    impl Engine for Scripted {
        type Peer = u32;
        type Words = u32;
        /// Whose it is.
        type Request = u32;

        const NAME: &'static str = "Scripted";
        const NAP: Duration = Duration::from_millis(1);
        const WAIT: Duration = Duration::from_millis(1);

        fn know(&mut self, words: &u32, _: &NodeName, _: impl Fn(&u32) -> bool) -> Result<u32, FabricError> {
            Ok(*words)
        }

        fn forget(&mut self, _: &u32) {}

        fn give_up(&mut self, peer: &u32) {
            self.given_up.borrow_mut().push(*peer);
        }

        unsafe fn post(&mut self, peer: &u32, _: Ends, _: &[Span]) -> Result<u32, FabricError> {
            match self.ends.borrow().get(peer) {
                Some(None) => Err(FabricError::PeerGone("refused".to_owned())),
                _ => Ok(*peer),
            }
        }

        fn progress(&self, request: &mut u32) -> Progress {
            match self.ends.borrow().get(request) {
                Some(Some(true)) => Progress::Done,
                _ => Progress::UnderWay,
            }
        }

        fn flush(&mut self, _: &u32) -> Result<Option<u32>, FabricError> {
            Ok(None)
        }

        fn announce(&mut self, _: &u32, _: &Announcement) -> Result<Option<u32>, FabricError> {
            Ok(None)
        }

        fn turn(&mut self, _: &Members, _: bool) -> bool {
            false
        }
    }

    struct Bench {
        inside: Inside<Scripted>,
        ends: Script,
        given_up: Rc<RefCell<Vec<u32>>>,
    }

    /// A put that was asked for.
    struct Asked {
        cancel: CancellationToken,
        over: Arc<std::sync::atomic::AtomicBool>,
        put: oneshot::Receiver<Put>,
    }

    impl Asked {
        fn is_over(&self) -> bool {
            self.over.load(std::sync::atomic::Ordering::Relaxed)
        }
    }

    impl Bench {
        fn new() -> Self {
            let memory = Memory { arena: Arc::new(Arena::anonymous(64).unwrap()), scratch: scratch::map().unwrap() };
            let (ends, given_up) = (Script::default(), Rc::default());
            let engine = Scripted { ends: Rc::clone(&ends), given_up: Rc::clone(&given_up) };
            let mut inside = Inside::new(engine, Rc::new(memory), Arc::default());
            inside.patience = SHORT;
            for peer in [1, 2] {
                let (answer, _known) = oneshot::channel();
                inside.take(Command::Know(peer, "d".parse().unwrap(), answer));
                inside.known.entry(peer).or_default().users = 1;
            }
            Self { inside, ends, given_up }
        }

        fn put(&mut self, peer: u32) -> Asked {
            let (done, put) = oneshot::channel();
            let (cancel, over) = (CancellationToken::new(), Arc::default());
            let pieces = vec![Piece { local: 0, remote: 0, bytes: 64 }];
            let remote = (Segment::Dram, 0);
            let job = Job { pieces, remote, place: Place::Arena, announcement: None, deadline: AMPLE };
            let asker = Asker { cancel: cancel.clone(), over: Arc::clone(&over), done: Some(done) };
            self.inside.take(Command::Put(peer, job, asker));
            Asked { cancel, over, put }
        }

        /// Steps until `put` has ended.
        fn end(&mut self, put: &mut oneshot::Receiver<Put>) -> Put {
            loop {
                self.inside.step();
                if let Ok(put) = put.try_recv() {
                    return put;
                }
            }
        }
    }

    #[test]
    fn a_put_that_was_refused_at_once_is_over_and_so_is_its_link() {
        let mut bench = Bench::new();
        bench.ends.borrow_mut().insert(1, None);
        let mut asked = bench.put(1);
        let put = bench.end(&mut asked.put);
        assert!(put.over && asked.is_over(), "{put:?}");
        assert_eq!(put.result, Err(FabricError::PeerGone("refused".to_owned())));
        assert!(!bench.put(2).is_over());
    }

    #[test]
    fn a_put_that_hangs_after_its_cancellation_gives_up_its_peer_and_no_other() {
        let mut bench = Bench::new();
        let mut asked = bench.put(1);
        bench.inside.step();
        asked.cancel.cancel();
        let put = bench.end(&mut asked.put);
        assert!(!put.over && put.result == Err(FabricError::Cancelled) && asked.is_over(), "{put:?}");
        while bench.given_up.borrow().is_empty() {
            bench.inside.step();
        }
        assert_eq!((bench.given_up.borrow().as_slice(), bench.inside.left.len()), ([1].as_slice(), 0));
    }

    #[test]
    fn what_moves_to_a_peer_that_hangs_is_let_end_for_a_while_and_then_given_up_too() {
        let mut bench = Bench::new();
        let (mut hangs, mut other) = (bench.put(1), bench.put(1));
        bench.inside.step();
        hangs.cancel.cancel();
        let put = bench.end(&mut hangs.put);
        assert_eq!((put.result, put.over), (Err(FabricError::Cancelled), false));
        // It has stood still for as long as the one that was given up, so nothing speaks for waiting.
        while bench.given_up.borrow().is_empty() {
            bench.inside.step();
        }
        assert!(!other.is_over());
        // The library ends what is left of a peer that was given up.
        bench.ends.borrow_mut().insert(1, Some(true));
        assert_eq!(bench.end(&mut other.put).result, Ok(()));
    }

    #[test]
    fn a_put_that_ends_is_over_and_leaves_its_link_alone() {
        let mut bench = Bench::new();
        bench.ends.borrow_mut().insert(1, Some(true));
        let mut asked = bench.put(1);
        let put = bench.end(&mut asked.put);
        assert!(put.result == Ok(()) && put.over && !asked.is_over(), "{put:?}");
        assert!(bench.given_up.borrow().is_empty() && bench.inside.left.is_empty());
    }
}
