//! The gossip actor: it owns the mesh core, and is the only one that steps it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::EventSink;
use super::exchange;
use super::mailbox::Latest;
use super::peers::Peers;
use super::stats::MeshStats;
use super::views::{self, View};
use crate::agent::clock::Clock;
use crate::agent::journal::{TapeOf, Turn};
use crate::codec::Blob;
use crate::core::{Core, Mono};
use crate::mesh::{Input, MemberState, MeshCore, Output, RecordSigner};
use crate::model::{Generation, NodeName, NodeRecord};

/// What the gossip actor is told.
#[derive(Debug)]
pub(super) enum Message {
    /// An input of the core, and the permit that admitted it.
    Input(Input, Option<OwnedSemaphorePermit>),
    /// Another member opened an exchange and waits for the answer.
    SyncAsked { from: NodeName, bytes: Vec<u8>, reply: oneshot::Sender<Vec<u8>>, permit: OwnedSemaphorePermit },
    /// An exchange of this node was answered; its end goes where `push` leads.
    SyncReplied { exchange: u64, from: NodeName, bytes: Vec<u8>, push: oneshot::Sender<Vec<u8>> },
    /// Something new to publish waits in the mailbox.
    Publish,
    /// The node's certificate was renewed: sign with its key from now on.
    Renewed { signer: Box<RecordSigner>, certificate: Vec<u8> },
    /// Somebody wants to know something; the permit admitted the question.
    View(View, Option<OwnedSemaphorePermit>),
    /// The last message: leave, and say when it is done.
    Leave(oneshot::Sender<()>),
}

/// What the handle shares with the actor.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) generation: AtomicU64,
    pub(super) joined: AtomicBool,
    /// The end was asked for.
    pub(super) left: AtomicBool,
    /// Why the mesh ended unasked, where that is known.
    pub(super) fault: OnceLock<String>,
}

/// What the gossip actor is made of.
pub(super) struct Parts {
    pub(super) core: MeshCore,
    pub(super) tape: TapeOf<MeshCore>,
    pub(super) clock: Clock,
    pub(super) signer: RecordSigner,
    /// The certificate of the key that the signer has, DER.
    pub(super) certificate: Vec<u8>,
    pub(super) peers: Arc<Peers>,
    pub(super) latest: Arc<Latest>,
    pub(super) shared: Arc<Shared>,
    pub(super) stats: Arc<MeshStats>,
    pub(super) events: EventSink,
    /// Told where others say that this node's name takes part.
    pub(super) rivals: mpsc::Sender<SocketAddr>,
    /// This node knows nobody it could join.
    pub(super) alone: bool,
    /// Writes a generation down.
    pub(super) persist: Box<dyn Fn(Generation) + Send>,
}

pub(super) struct Gossip;

pub(super) struct State {
    parts: Parts,
    myself: ActorRef<Message>,
    deadline: watch::Sender<Option<Mono>>,
    asked: u64,
    /// What this node said last that it is.
    node: Option<NodeRecord>,
}

/// Where the answers of one turn's exchanges go.
#[derive(Default)]
struct Answers {
    reply: Option<oneshot::Sender<Vec<u8>>>,
    push: Option<oneshot::Sender<Vec<u8>>>,
}

impl Actor for Gossip {
    type Msg = Message;
    type State = State;
    type Arguments = Parts;

    async fn pre_start(&self, myself: ActorRef<Message>, parts: Parts) -> Result<State, ActorProcessingErr> {
        let deadline = watch::Sender::new(None);
        tokio::spawn(wake(parts.clock, deadline.subscribe(), myself.clone()));
        parts.shared.joined.store(parts.alone, Ordering::Relaxed);
        Ok(State { parts, myself, deadline, asked: 0, node: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            // The permit is given back when the input has been dealt with.
            Message::Input(input, _permit) => state.turn(input, Answers::default()),
            Message::SyncAsked { from, bytes, reply, permit: _permit } => {
                state.asked += 1;
                let input = Input::SyncAsked { exchange: state.asked, from, bytes: Blob(bytes) };
                state.turn(input, Answers { reply: Some(reply), push: None });
            }
            Message::SyncReplied { exchange, from, bytes, push } => {
                let input = Input::SyncReplied { exchange, from, bytes: Blob(bytes) };
                state.turn(input, Answers { reply: None, push: Some(push) });
            }
            Message::Publish => {
                for input in state.parts.latest.take() {
                    match input {
                        Input::PublishNode(record) => state.publish_node(record),
                        other => state.turn(other, Answers::default()),
                    }
                }
            }
            Message::Renewed { signer, certificate } => {
                state.parts.signer = *signer;
                state.parts.certificate = certificate;
                if let Some(record) = state.node.take() {
                    state.publish_node(record);
                }
            }
            Message::View(view, _permit) => views::answer(&state.parts.core, state.parts.clock.now(), view),
            Message::Leave(done) => {
                state.turn(Input::Leave, Answers::default());
                state.parts.shared.left.store(true, Ordering::Relaxed);
                // Whoever waited may be gone.
                let _ = done.send(());
                myself.stop(None);
            }
        }
        Ok(())
    }
}

impl State {
    /// Says what this node is, with the certificate that proves what is signed now.
    fn publish_node(&mut self, record: NodeRecord) {
        let record = NodeRecord { certificate: self.parts.certificate.clone(), ..record };
        self.node = Some(record.clone());
        self.turn(Input::PublishNode(record), Answers::default());
    }

    fn turn(&mut self, input: Input, mut answers: Answers) {
        let now = self.parts.clock.now();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Vec::new();
            let turn = Turn::begin(&mut self.parts.tape, &self.parts.core, now, &input);
            self.parts.core.step(now, input, &mut outputs);
            turn.end(&outputs);
            for output in outputs {
                inputs.extend(self.carry_out(output, &mut answers));
            }
        }
        if self.parts.core.live_count() > 0 {
            self.parts.shared.joined.store(true, Ordering::Relaxed);
        }
        let next = self.parts.core.deadline();
        self.deadline.send_if_modified(|deadline| std::mem::replace(deadline, next) != next);
    }

    /// Does what the core wants; a signature is the core's next input.
    fn carry_out(&mut self, output: Output, answers: &mut Answers) -> Option<Input> {
        let parts = &self.parts;
        match output {
            Output::Packet { to, addr, bytes } => parts.peers.send(&to, addr, Bytes::from(bytes)),
            Output::SyncAsk { exchange, to, addr, bytes } => {
                let peers = Arc::clone(&parts.peers);
                let stats = Arc::clone(&parts.stats);
                tokio::spawn(exchange::ask(peers, stats, self.myself.clone(), exchange, to, addr, bytes));
            }
            // Whoever waited for the answer may have given up.
            Output::SyncReply { bytes, .. } => _ = answers.reply.take().map(|reply| reply.send(bytes)),
            Output::SyncPush { bytes, .. } => _ = answers.push.take().map(|push| push.send(bytes)),
            Output::Sign { kind, seq, bytes } => {
                return Some(Input::Signed { kind, seq, signature: Blob(parts.signer.sign(&bytes)) });
            }
            Output::Event(event) => (parts.events)(event),
            Output::Member { member, state } => {
                match state {
                    MemberState::Alive | MemberState::Suspect => parts.peers.up(&member.name, member.addr),
                    MemberState::Down => parts.peers.down(&member.name),
                }
                tracing::info!(node = %member.name, generation = member.generation, state = state.as_str(), "member");
            }
            Output::Renewed(identity) => {
                tracing::warn!(generation = identity.generation, renewals = identity.renewals, "rejoined the mesh");
                let before = parts.shared.generation.swap(identity.generation, Ordering::Relaxed);
                if before != identity.generation {
                    (parts.persist)(identity.generation);
                }
            }
            // One look at a time is enough; nobody looks any more once the start is long over.
            Output::Rival { addr } => _ = parts.rivals.try_send(addr),
            Output::Refused { reason, from } => {
                parts.stats.count_refusal(reason);
                tracing::debug!(%reason, from = from.as_ref().map(NodeName::as_str), "refused");
            }
        }
        None
    }
}

/// Tells the actor when time has passed.
async fn wake(clock: Clock, mut deadline: watch::Receiver<Option<Mono>>, actor: ActorRef<Message>) {
    let one = Arc::new(Semaphore::new(1));
    loop {
        let due = *deadline.borrow_and_update();
        let sleep = async {
            match due {
                Some(due) => tokio::time::sleep_until(clock.instant(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = deadline.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep => {
                // One tick at a time: the next one waits until this one has been dealt with.
                let Ok(permit) = Arc::clone(&one).acquire_owned().await else { return };
                if actor.cast(Message::Input(Input::Tick, Some(permit))).is_err() {
                    return;
                }
                let Ok(_dealt_with) = one.acquire().await else { return };
            }
        }
    }
}
