//! The thread, seen from inside.

#[cfg(test)]
mod tests;

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
/// How long the thread may stand still while something is under way (SIGSTOP, a machine that was suspended).
/// The receiver of a sender that says nothing takes its connection for dead after 5 s, and hands the pages on
/// after `transfer.fence_max`, 10 s at least: this, and what is then waited for by [`Patience`], is over before.
const STILL: Duration = Duration::from_secs(4);

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
    pulse: Pulse,
}

/// Whether the thread has stood still.
struct Pulse {
    last: Instant,
    /// For how long, if it was for longer than [`STILL`].
    stood: Option<Duration>,
}

impl Pulse {
    fn beat(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.last);
        self.last = now;
        if gap > STILL {
            self.stood = Some(gap);
        }
    }
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
        let (patience, pulse) = (Patience::default(), Pulse { last: Instant::now(), stood: None });
        Self { transfers, left, lingers: None, engine, known, memory, members, patience, pulse }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command<E>>, bell: &Bell) {
        let _said_when_dropped = Watched(E::NAME);
        let mut idle_looks = 0;
        let closed = loop {
            // Before the looks: what rings after this is seen by the next turn.
            bell.hush();
            self.wake(Instant::now());
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

    /// A turn begins. Where nothing was under way the thread may have slept for as long as it liked.
    fn wake(&mut self, now: Instant) {
        if self.transfers.is_empty() && self.left.is_empty() {
            self.pulse.last = now;
        }
        self.pulse.beat(now);
    }

    /// Does what was asked for; the error is the end, and who waits for it.
    fn obey(&mut self, commands: &Receiver<Command<E>>) -> Result<bool, Option<oneshot::Sender<()>>> {
        // No more than fit at once: what is under way wants its turn, too.
        for taken in 0..MAX_WAITING {
            match commands.try_recv() {
                Ok(Command::Close(done)) => return Err(Some(done)),
                Ok(command) => {
                    self.take(command);
                    // Many that take their time are no standstill.
                    self.pulse.beat(Instant::now());
                }
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

    /// Takes every transfer a step further, or ends all of them if the thread has stood still.
    fn step(&mut self) -> bool {
        self.pulse.beat(Instant::now());
        let moved = self.pulse.stood.is_none() && self.step_each();
        match self.pulse.stood.take() {
            Some(gap) => {
                self.end_all(gap);
                true
            }
            None => moved,
        }
    }

    fn step_each(&mut self) -> bool {
        let (engine, known, left, mut moved) = (&mut self.engine, &mut self.known, &mut self.left, false);
        let (mut ended, lingers, pulse) = (false, &mut self.lingers, &mut self.pulse);
        left.retain_mut(|(_, request)| {
            let under_way = matches!(engine.progress(request), Progress::UnderWay);
            ended |= !under_way;
            under_way
        });
        if ended {
            unstick::<E>(known, left);
        }
        self.transfers.retain_mut(|transfer| {
            pulse.beat(Instant::now());
            if pulse.stood.is_some() {
                return true;
            }
            match transfer.step(engine) {
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
            }
        });
        if ended {
            let beyond = self.left.len().saturating_sub(MAX_LEFT);
            if beyond > 0 {
                self.left.drain(..beyond);
                unstick::<E>(&mut self.known, &self.left);
            }
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
        if !late.is_empty() {
            self.abandon(&late);
        }
    }

    /// The thread has stood still: the far side may have taken this one for gone, and handed on the pages that
    /// are written to. So nothing that was begun goes on, and no peer of it is spoken to again as before.
    fn end_all(&mut self, gap: Duration) {
        let stood_ms = gap.as_millis();
        let error = FabricError::Local(format!("this host stood still for {stood_ms} ms while {} moved it", E::NAME));
        let (left, mut peers) = (&mut self.left, HashSet::new());
        self.transfers.retain_mut(|transfer| {
            let Some(under_way) = transfer.abandon(&error) else { return true };
            left.extend(under_way.into_iter().map(|request| (transfer.peer.clone(), request)));
            peers.insert(transfer.peer.clone());
            false
        });
        peers.extend(left.iter().map(|(peer, _)| peer.clone()));
        if !peers.is_empty() {
            tracing::warn!(library = E::NAME, stood_ms, "this host stood still: what was being moved fails");
            self.lingers = Some(Instant::now() + LINGER);
            self.abandon(&peers);
        }
    }

    fn abandon(&mut self, peers: &HashSet<E::Peer>) {
        for peer in peers {
            self.engine.give_up(peer);
            if let Some(known) = self.known.get_mut(peer) {
                (known.failed, known.stuck) = (true, None);
            }
        }
        self.left.retain(|(peer, _)| !peers.contains(peer));
        self.forget_unused();
    }

    /// Looks after the library, and for announcements if anybody waits for one.
    fn look(&mut self) -> bool {
        self.lingers.take_if(|until| Instant::now() >= *until);
        let looks = self.members.are_awaited() || self.lingers.is_some();
        self.engine.turn(&self.members, looks)
    }
}

/// Nothing is stuck any more on the way to a peer to whom nothing is left.
fn unstick<E: Engine>(known: &mut HashMap<E::Peer, Acquaintance>, left: &[(E::Peer, E::Request)]) {
    for (peer, known) in known.iter_mut().filter(|(_, known)| known.stuck.is_some()) {
        if !left.iter().any(|(whose, _)| whose == peer) {
            known.stuck = None;
        }
    }
}
