//! The transfer actor: moves a caller's blocks into its lease, and on failure wherever the policy
//! says next, until the bytes have landed or nothing is left to try.

mod chunks;
mod run;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::clock::wall_ms;
use super::links::Links;
use super::service::ServiceError;
use super::store::Event;
use super::supervisor::Starter;
use crate::api::{Chunk, TransferAnswer, TransferReport, TransferRequest};
use crate::model::{Extent, Lease, LeaseId};
use crate::policy::TransferProblem;
use crate::transport::{Blocks, Feed};
use chunks::Chunks;

/// Transfers under way at most.
const MAX_RUNNING: usize = 256;
/// Reports of ended transfers kept; the oldest go first.
const MAX_REPORTS: usize = 10_000;

type Reply = oneshot::Sender<Result<TransferAnswer, ServiceError>>;

/// What the actor is sent.
pub(crate) enum Message {
    Start(Move, OwnedSemaphorePermit, Reply),
    /// The first chunk of a transfer is under way.
    Begun {
        asked: Asked,
        kv_bytes: u64,
        feed: Feed,
        first: Vec<Extent>,
    },
    /// A further chunk.
    Chunk(LeaseId, Chunk, Vec<Extent>, Reply),
    Stop {
        transfer: LeaseId,
        lease: LeaseId,
        cancelled: bool,
    },
    Find(LeaseId, oneshot::Sender<Option<TransferReport>>),
    Ended(Asked, Box<Result<TransferReport, ServiceError>>),
}

/// One caller's wish to move bytes into a lease. Several may name the same lease: the policy says
/// which of them may.
type Asked = (LeaseId, u64);

/// A handle on the actor that outlives its restarts.
#[derive(Clone)]
pub(crate) struct Transfers {
    actor: Arc<RwLock<Option<ActorRef<Message>>>>,
    /// One permit a transfer, for as long as its task runs.
    room: Arc<Semaphore>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { actor: Arc::default(), room: Arc::new(Semaphore::new(MAX_RUNNING)) }
    }
}

impl Transfers {
    /// Starts the actor, as often as it must be.
    pub(crate) fn starter(&self, links: Arc<Links>) -> Starter {
        let handle = self.clone();
        Arc::new(move |supervisor: ActorCell| {
            let (links, handle) = (links.clone(), handle.clone());
            Box::pin(async move {
                let (actor, _) = Actor::spawn_linked(None, TransferActor, (links, handle.clone()), supervisor).await?;
                *handle.actor.write().unwrap_or_else(PoisonError::into_inner) = Some(actor.clone());
                Ok(actor.get_cell())
            })
        })
    }

    /// Moves the bytes and reports; the transfer goes on if the caller goes away. A chunk that is not the
    /// final one is answered once it is on its way. `silence_max`: how long the next chunk may take to come.
    pub(crate) async fn start(
        &self,
        request: TransferRequest,
        silence_max: Duration,
    ) -> Result<TransferAnswer, ServiceError> {
        let TransferRequest { lease, blocks, chunk } = request;
        let (sender, receiver) = oneshot::channel();
        let message = match chunk {
            Some(chunk) if chunk.index > 0 => Message::Chunk(lease, chunk, blocks, sender),
            _ => {
                let Ok(permit) = self.room.clone().try_acquire_owned() else {
                    return Err(ServiceError::Overloaded { what: "transfers", limit: MAX_RUNNING });
                };
                let chunks = chunk.filter(|chunk| !chunk.is_final).map(|_| self.clone());
                Message::Start(Move { lease, blocks, chunks, silence_max, asked: 0 }, permit, sender)
            }
        };
        self.send(message);
        receiver.await.unwrap_or(Err(ServiceError::ShuttingDown))
    }

    /// Stops the attempt of a transfer that writes, or is about to write, into `lease`.
    pub(crate) fn stop(&self, transfer: LeaseId, lease: LeaseId, cancelled: bool) {
        self.send(Message::Stop { transfer, lease, cancelled });
    }

    pub(crate) async fn find(&self, id: LeaseId) -> Option<TransferReport> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Find(id, sender));
        receiver.await.ok().flatten()
    }

    pub(crate) fn running(&self) -> usize {
        MAX_RUNNING - self.room.available_permits().min(MAX_RUNNING)
    }

    /// Whoever waits for an answer of an actor that is gone learns it from the closed channel.
    fn send(&self, message: Message) {
        let actor = self.actor.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(actor) = actor.as_ref() {
            let _ = actor.send_message(message);
        }
    }
}

/// What a caller wants moved.
pub(crate) struct Move {
    lease: LeaseId,
    blocks: Vec<Extent>,
    /// If further blocks come in chunks: who takes them.
    chunks: Option<Transfers>,
    silence_max: Duration,
    /// Which of the wishes for its lease it is.
    asked: u64,
}

impl Move {
    /// Bytes of the blocks that are there.
    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    /// All blocks; those that are not there yet go into `lease` as well.
    fn blocks(self, lease: &Lease) -> Blocks {
        let Some(actor) = self.chunks else { return self.blocks.into() };
        let (feed, blocks) = Blocks::coming(lease.kv_bytes, self.blocks.clone());
        let (asked, kv_bytes) = ((self.lease, self.asked), lease.kv_bytes);
        actor.send(Message::Begun { asked, kv_bytes, feed, first: self.blocks });
        blocks
    }
}

struct TransferActor;

struct State {
    links: Arc<Links>,
    handle: Transfers,
    /// Each with whoever waits for its end, or for the word that its first chunk is under way.
    running: BTreeMap<Asked, (Control, Option<Reply>)>,
    /// Those that further chunks may come for.
    chunks: BTreeMap<LeaseId, (Asked, Chunks)>,
    asked: u64,
    reports: BTreeMap<LeaseId, TransferReport>,
    oldest_first: VecDeque<LeaseId>,
}

/// How a running transfer is told to stop: the lease of the attempt, and whether its request is
/// cancelled. It stays said, so that an attempt that is only about to start hears it too.
type Control = watch::Sender<Option<(LeaseId, bool)>>;

impl Actor for TransferActor {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<Links>, Transfers);

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (links, handle): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let (running, chunks, reports) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(State { links, handle, running, chunks, asked: 0, reports, oldest_first: VecDeque::new() })
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Start(moves, permit, reply) => state.start(moves, permit, reply),
            Message::Begun { asked, kv_bytes, feed, first } => state.begun(asked, kv_bytes, feed, first),
            Message::Chunk(lease, chunk, blocks, reply) => state.chunk(&lease, chunk, blocks, reply),
            Message::Stop { transfer, lease, cancelled } => {
                // Those that the policy has refused, or will, do not listen.
                for (_, (control, _)) in state.running.range((transfer.clone(), 0)..=(transfer, u64::MAX)) {
                    control.send_replace(Some((lease.clone(), cancelled)));
                }
            }
            Message::Find(id, reply) => {
                // The asker may have gone away.
                let _ = reply.send(state.reports.get(&id).cloned());
            }
            Message::Ended(id, result) => state.ended(id, *result),
        }
        Ok(())
    }
}

impl State {
    fn start(&mut self, moves: Move, permit: OwnedSemaphorePermit, reply: Reply) {
        if moves.chunks.is_some() && self.chunks.contains_key(&moves.lease) {
            let first = Chunk { index: 0, is_final: false };
            return self.chunk(&moves.lease, first, moves.blocks, reply);
        }
        self.asked += 1;
        let id = (moves.lease.clone(), self.asked);
        let moves = Move { asked: self.asked, ..moves };
        let (control, stop) = watch::channel(None);
        self.running.insert(id.clone(), (control, Some(reply)));
        let (links, handle) = (self.links.clone(), self.handle.clone());
        tokio::spawn(async move {
            // In a task of its own: one that panics must be answered, too.
            let run = tokio::spawn(async move { run::run(&links, moves, stop).await });
            let panicked =
                |_| Err(ServiceError::Conflict("the transfer failed inside this agent; see its log".to_owned()));
            let result = run.await.unwrap_or_else(panicked);
            drop(permit);
            handle.send(Message::Ended(id, Box::new(result)));
        });
    }

    fn begun(&mut self, asked: Asked, kv_bytes: u64, feed: Feed, first: Vec<Extent>) {
        let Some((_, reply)) = self.running.get_mut(&asked) else { return };
        let chunks = Chunks::begun(asked.0.clone(), kv_bytes, feed, first);
        if let Some(reply) = reply.take() {
            // The caller may have gone away; the next chunk tells.
            let _ = reply.send(Ok(TransferAnswer::Taken(chunks.so_far())));
        }
        self.chunks.insert(asked.0.clone(), (asked, chunks));
    }

    fn chunk(&mut self, lease: &LeaseId, chunk: Chunk, blocks: Vec<Extent>, reply: Reply) {
        let answer = match self.chunks.get_mut(lease) {
            Some((asked, chunks)) => match chunks.take(chunk, blocks) {
                Ok(()) if chunk.is_final => {
                    if let Some((_, waits)) = self.running.get_mut(asked)
                        && let Some(before) = waits.replace(reply)
                    {
                        let detail =
                            format!("chunk {} of {lease} was sent again, and that call is answered", chunk.index);
                        // It may have gone away, which is why it was sent again.
                        let _ = before.send(Err(ServiceError::Conflict(detail)));
                    }
                    return;
                }
                Ok(()) => Ok(TransferAnswer::Taken(chunks.so_far())),
                Err(error) => Err(error),
            },
            // It ended before all of it was there.
            None => match self.reports.get(lease) {
                Some(report) => Ok(TransferAnswer::Ended(report.clone())),
                None => Err(ServiceError::NotFound(format!(
                    "no transfer in chunks into {lease} is under way: it begins with chunk 0, and once that is answered"
                ))),
            },
        };
        // The caller may have gone away.
        let _ = reply.send(answer);
    }

    fn ended(&mut self, asked: Asked, result: Result<TransferReport, ServiceError>) {
        if let Ok(report) = &result {
            self.links.store.tell(&Event::Transfer { ts: wall_ms(), report });
            if self.oldest_first.len() == MAX_REPORTS
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.reports.remove(&oldest);
            }
            self.oldest_first.push_back(asked.0.clone());
            self.reports.insert(asked.0.clone(), report.clone());
        }
        if self.chunks.get(&asked.0).is_some_and(|(whose, _)| *whose == asked) {
            self.chunks.remove(&asked.0);
        }
        if let Some((_, Some(reply))) = self.running.remove(&asked) {
            // The caller may have gone away.
            let _ = reply.send(result.map(TransferAnswer::Ended));
        }
    }
}

/// Blocks that a transfer can move.
pub(crate) fn check_blocks(blocks: &[Extent], chunk: Option<Chunk>, arena_bytes: u64) -> Result<u64, ServiceError> {
    let bad = |detail: String| ServiceError::BadInput { field: "blocks", detail };
    if blocks.is_empty() && !chunk.is_some_and(|chunk| chunk.is_final && chunk.index > 0) {
        return Err(bad("found none, allowed at least 1".to_owned()));
    }
    let mut sorted: Vec<(usize, Extent)> = blocks.iter().copied().enumerate().collect();
    sorted.sort_unstable_by_key(|(_, block)| block.offset);
    let mut sum = 0u64;
    let mut before: Option<(usize, u64)> = None;
    for (index, block) in sorted {
        let within = block.end().filter(|&end| block.bytes > 0 && end <= arena_bytes);
        let Some(end) = within else {
            return Err(bad(format!(
                "block {index}: found {} bytes at offset {}, allowed 1 byte or more within the arena's {arena_bytes}",
                block.bytes, block.offset
            )));
        };
        if let Some((other, _)) = before.filter(|&(_, other_end)| other_end > block.offset) {
            return Err(bad(format!("blocks {other} and {index} overlap at offset {}", block.offset)));
        }
        before = Some((index, end));
        // Blocks do not overlap, so their sum is at most the arena's size.
        sum += block.bytes;
    }
    Ok(sum)
}

impl From<TransferProblem> for ServiceError {
    fn from(problem: TransferProblem) -> Self {
        let detail = problem.to_string();
        match problem {
            TransferProblem::Unknown(_) => Self::NotFound(detail),
            TransferProblem::Ended { .. } | TransferProblem::Exhausted(_) | TransferProblem::Cancelled => {
                Self::Conflict(detail)
            }
            TransferProblem::Size { .. } => Self::BadInput { field: "blocks", detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect()
    }

    #[test]
    fn blocks_must_lie_within_the_arena_and_apart() {
        assert_eq!(check_blocks(&blocks(&[(10, 5), (0, 10), (95, 5)]), None, 100).unwrap(), 20);
        let last = |index| Some(Chunk { index, is_final: true });
        assert_eq!(check_blocks(&[], last(1), 100).unwrap(), 0);
        assert!(check_blocks(&[], last(0), 100).is_err());
        let error = |list: &[(u64, u64)]| check_blocks(&blocks(list), None, 100).unwrap_err().to_string();
        assert!(error(&[]).contains("found none"));
        assert!(error(&[(0, 0)]).contains("block 0: found 0 bytes"));
        assert!(error(&[(0, 1), (96, 5)]).contains("block 1: found 5 bytes at offset 96"));
        assert!(error(&[(u64::MAX, 2)]).contains("block 0"));
        assert!(error(&[(10, 5), (0, 11)]).contains("blocks 1 and 0 overlap at offset 10"));
    }
}
