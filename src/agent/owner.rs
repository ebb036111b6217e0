//! The actor that owns one core: the only caller of its `step`, the order of its mailbox the order
//! of its tape.
//!
//! ```text
//! tell, ask, read ──permit──▶ mailbox ──▶ Now::read ──▶ core.step ──▶ tape ──▶ effects.perform (each output)
//!                                ▲                          │
//!                                └── Tick ◀── alarm ◀── deadline
//! ```

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::clock::Clock;
use super::journal::{TapeOf, Turn};
use crate::core::{Core, Mono, Now};

/// What is done with a core's outputs.
pub(crate) trait Effects: Send + 'static {
    /// The core.
    type Core: Core<Input: Send + 'static, Output: Send + 'static> + Send + 'static;
    /// An answer to a question that was put with [`Owner::ask`].
    type Answer: Send + 'static;

    /// The input that says only that time has passed.
    fn tick() -> <Self::Core as Core>::Input;

    /// How long the core took for the turn whose outputs follow.
    fn took(&mut self, _: Duration) {}

    /// Acts on one output; an answer to a question is returned with the question's key.
    fn perform(
        &mut self,
        core: &Self::Core,
        now: Now,
        output: <Self::Core as Core>::Output,
    ) -> Option<(u64, Self::Answer)>;
}

type Question<E> = Box<dyn FnOnce(u64) -> <<E as Effects>::Core as Core>::Input + Send>;
type Hearing<E> = Box<dyn FnOnce(&[<<E as Effects>::Core as Core>::Output]) + Send>;
type Reading<E> = Box<dyn FnOnce(&<E as Effects>::Core, Now) + Send>;

/// What the actor is sent.
pub(crate) enum Message<E: Effects> {
    Tell(<E::Core as Core>::Input),
    Hear(<E::Core as Core>::Input, Hearing<E>),
    Ask(Question<E>, oneshot::Sender<E::Answer>),
    Read(Reading<E>),
    Tick,
}

/// The mailbox is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) limit: usize,
}

/// A handle on the actor: admission is bounded before every message, since mailboxes are not.
pub(crate) struct Owner<E: Effects> {
    actor: ActorRef<Message<E>>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl<E: Effects> Clone for Owner<E> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), waiting: self.waiting.clone(), limit: self.limit }
    }
}

impl<E: Effects> Owner<E> {
    /// Starts the actor under `supervisor`; at most `limit` messages wait for it. Each turn of the
    /// core goes on its tape.
    pub(crate) async fn spawn(
        supervisor: ActorCell,
        clock: Clock,
        (core, tape): (E::Core, TapeOf<E::Core>),
        effects: E,
        limit: usize,
    ) -> Result<Self, ractor::SpawnErr> {
        let waiting = Arc::new(AtomicUsize::new(0));
        let start = State {
            core,
            tape,
            effects,
            clock,
            waiting: waiting.clone(),
            asked: HashMap::new(),
            next_key: 0,
            out: Vec::new(),
            alarm: watch::channel(None).0,
        };
        let (actor, _) = Actor::spawn_linked(None, CoreActor(PhantomData), start, supervisor).await?;
        Ok(Self { actor, waiting, limit })
    }

    /// Tells the core what it must know. Not refused when the mailbox is full: what is told this
    /// way is bounded where it comes from (leases, transfers, members).
    pub(crate) fn tell(&self, input: <E::Core as Core>::Input) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.deliver(Message::Tell(input));
    }

    /// Offers the core something that it can do without.
    pub(crate) fn offer(&self, input: <E::Core as Core>::Input) -> Result<(), Full> {
        self.send(Message::Tell(input))
    }

    /// Offers the core something and hears what it says to it; `None` when the actor is gone.
    pub(crate) async fn hear<T: Send + 'static>(
        &self,
        input: <E::Core as Core>::Input,
        hearing: impl FnOnce(&[<E::Core as Core>::Output]) -> T + Send + 'static,
    ) -> Result<Option<T>, Full> {
        let (sender, receiver) = oneshot::channel();
        let hearing = move |said: &[<E::Core as Core>::Output]| {
            // The one who offered may have gone away.
            let _ = sender.send(hearing(said));
        };
        self.send(Message::Hear(input, Box::new(hearing)))?;
        Ok(receiver.await.ok())
    }

    /// Puts a question and waits for its answer; `None` when the actor is gone.
    pub(crate) async fn ask(
        &self,
        question: impl FnOnce(u64) -> <E::Core as Core>::Input + Send + 'static,
    ) -> Result<Option<E::Answer>, Full> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Ask(Box::new(question), sender))?;
        Ok(receiver.await.ok())
    }

    /// Reads the core between two turns.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&E::Core, Now) -> T + Send + 'static,
    ) -> Result<Option<T>, Full> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Read(Box::new(move |core, now| {
            let _ = sender.send(reading(core, now));
        })))?;
        Ok(receiver.await.ok())
    }

    /// Waits for the actor's next turn, however many messages wait before it; false when the actor
    /// is gone. One caller at a time: it is not counted.
    pub(crate) async fn turn(&self) -> bool {
        let (sender, receiver) = oneshot::channel();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.deliver(Message::Read(Box::new(move |_, _| {
            let _ = sender.send(());
        })));
        receiver.await.is_ok()
    }

    fn send(&self, message: Message<E>) -> Result<(), Full> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Full { limit: self.limit });
        }
        self.deliver(message);
        Ok(())
    }

    fn deliver(&self, message: Message<E>) {
        // A stopped actor takes nothing; whoever asks learns it from the closed answer channel.
        if self.actor.send_message(message).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct CoreActor<E>(PhantomData<fn() -> E>);

struct State<E: Effects> {
    core: E::Core,
    tape: TapeOf<E::Core>,
    effects: E,
    clock: Clock,
    waiting: Arc<AtomicUsize>,
    asked: HashMap<u64, oneshot::Sender<E::Answer>>,
    next_key: u64,
    out: Vec<<E::Core as Core>::Output>,
    alarm: watch::Sender<Option<Instant>>,
}

impl<E: Effects> Actor for CoreActor<E> {
    type Msg = Message<E>;
    type State = State<E>;
    type Arguments = State<E>;

    async fn pre_start(&self, myself: ActorRef<Message<E>>, state: State<E>) -> Result<State<E>, ActorProcessingErr> {
        tokio::spawn(ring(myself, state.alarm.subscribe()));
        state.arm();
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Message<E>>,
        message: Message<E>,
        state: &mut State<E>,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.clock.now();
        match message {
            Message::Tell(input) => {
                state.waiting.fetch_sub(1, Ordering::Relaxed);
                state.turn(now, input, None);
            }
            Message::Hear(input, hearing) => {
                state.waiting.fetch_sub(1, Ordering::Relaxed);
                state.turn(now, input, Some(hearing));
            }
            Message::Ask(question, sender) => {
                // A question counts until it is answered, so that open questions are bounded too.
                state.next_key += 1;
                state.asked.insert(state.next_key, sender);
                state.turn(now, question(state.next_key), None);
            }
            Message::Read(reading) => {
                state.waiting.fetch_sub(1, Ordering::Relaxed);
                reading(&state.core, now);
            }
            Message::Tick => {
                // The alarm has rung: it must be armed anew even for the same deadline.
                state.alarm.send_replace(None);
                state.turn(now, E::tick(), None);
            }
        }
        Ok(())
    }
}

impl<E: Effects> State<E> {
    fn turn(&mut self, now: Now, input: <E::Core as Core>::Input, hearing: Option<Hearing<E>>) {
        let mut out = std::mem::take(&mut self.out);
        let turn = Turn::begin(&mut self.tape, &self.core, now, &input);
        let start = std::time::Instant::now();
        self.core.step(now, input, &mut out);
        self.effects.took(start.elapsed());
        turn.end(&out);
        if let Some(hearing) = hearing {
            hearing(&out);
        }
        for output in out.drain(..) {
            if let Some((key, answer)) = self.effects.perform(&self.core, now, output)
                && let Some(sender) = self.asked.remove(&key)
            {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                // The asker may have gone away.
                let _ = sender.send(answer);
            }
        }
        self.out = out;
        self.arm();
    }

    /// Sets the alarm if it would ring too late. One that rings too early only costs a turn, and
    /// deadlines mostly move away.
    fn arm(&self) {
        let Some(deadline) = self.core.deadline().map(|at: Mono| self.clock.instant(at)) else { return };
        self.alarm.send_if_modified(|armed| {
            let late = armed.is_none_or(|armed| deadline < armed);
            if late {
                *armed = Some(deadline);
            }
            late
        });
    }
}

/// Sends a tick when the alarm's time comes.
async fn ring<E: Effects>(actor: ActorRef<Message<E>>, mut alarm: watch::Receiver<Option<Instant>>) {
    loop {
        let armed = *alarm.borrow_and_update();
        let changed = match armed {
            None => alarm.changed().await,
            Some(at) => tokio::select! {
                changed = alarm.changed() => changed,
                () = tokio::time::sleep_until(at) => {
                    if actor.send_message(Message::Tick).is_err() {
                        return;
                    }
                    // The actor takes the alarm down before it arms it anew.
                    alarm.changed().await
                }
            },
        };
        if changed.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
