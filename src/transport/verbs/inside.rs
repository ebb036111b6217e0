//! The thread that owns the queue pairs, seen from inside.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use memmap2::MmapRaw;
use tokio::sync::oneshot;

use super::VerbsError;
use super::device::{Device, Region};
use super::pair::{Receiving, Sending};
use super::plan::Limits;
use super::queue_pair::{Channel, Patience, QueuePair};
use super::window::MAX_WRITES;
use super::words::{self, End};
use super::worker::{Command, Ready, Shared, Unwanted};
use crate::arena::Arena;
use crate::transport::bell::wait;
use crate::transport::fabric::{Arrivals, FabricError, Put, scratch};

/// Queue pairs at once; one more is refused.
const MAX_PAIRS: usize = 4_096;
/// Commands carried out in one turn: completions want theirs.
const COMMANDS_AT_ONCE: usize = 64;
/// Bytes of one write at most: few enough that puts take turns.
const MAX_WRITE_BYTES: u64 = 256 * 1024;
/// Places that one write is gathered from at most.
const MAX_PLACES: usize = 16;
/// Receives that wait for announcements: many times what comes between two looks.
const RECEIVES: u32 = 256;
/// How long a device is left alone that calls and has nothing to say.
const EMPTY_PAUSE: Duration = Duration::from_millis(10);
/// A device must hold so many requests in a queue.
pub(super) const MIN_REQUESTS: u32 = if RECEIVES > MAX_WRITES { RECEIVES } else { MAX_WRITES };
/// A peer that is gone is known to be after 5 times 134 ms, two thirds of a second, with Soft-RoCE; the InfiniBand
/// specification lets a device wait up to four times as long, 2.7 s. Never again and again for ever, which 7 retries
/// mean to some devices. Not sooner: where a host stands still for a moment packets are sent again, and
/// Soft-RoCE of Linux 6.1 begins a message anew in its middle then, which its own far end takes for an invalid request.
/// A peer whose receives are used up is waited for a quarter of a second.
const PATIENCE: Patience = Patience { timeout: 15, retries: 4, receive_retries: 6, receive_pause: 24 };

/// Says when the thread ends by a panic: every call fails from then on.
struct Watched;

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the thread for verbs panicked: its rail moves nothing until the agent is restarted");
        }
    }
}

/// Whose fault an error is.
pub(super) fn fault(error: VerbsError) -> FabricError {
    match error {
        VerbsError::Unreachable { .. } => FabricError::PeerGone(error.to_string()),
        error => FabricError::Local(error.to_string()),
    }
}

enum Pair {
    Sending(Sending),
    Receiving(Receiving),
}

/// The thread, seen from inside. Fields are let go of in this order.
pub(super) struct Inside {
    pairs: BTreeMap<u64, Pair>,
    /// Those that send something.
    busy: BTreeSet<u64>,
    /// Those that have more to say.
    ready: BTreeSet<u64>,
    next: u64,
    channel: Rc<Channel>,
    _regions: [Region; 2],
    device: Arc<Device>,
    receives: bool,
    limits: Limits,
    _arena: Arc<Arena>,
    _scratch: MmapRaw,
    shared: Arc<Shared>,
}

impl Inside {
    pub(super) fn new(
        device: &Arc<Device>,
        receives: bool,
        arena: Arc<Arena>,
        shared: Arc<Shared>,
    ) -> Result<(Self, Ready), VerbsError> {
        let scratch = scratch::map().map_err(|error| VerbsError::System(format!("memory for probes: {error}")))?;
        let scratch_bytes = scratch.len() as u64;
        let all = arena.size() + scratch_bytes;
        // SAFETY: both are fields of the same value, which lets go of the regions first; neither is ever referred to.
        let (of_arena, of_scratch) = unsafe {
            let of_arena = Region::new(device, arena.address(), arena.size(), receives, all)?;
            (of_arena, Region::new(device, scratch.as_mut_ptr() as usize, scratch_bytes, receives, all)?)
        };
        let limits =
            Limits { bytes: device.max_message.min(MAX_WRITE_BYTES), places: device.max_places.min(MAX_PLACES) };
        let sysfs = &device.chosen.port;
        let ready = Ready {
            arena: of_arena.memory(),
            arena_key: of_arena.local_key(),
            scratch: of_scratch.memory(),
            scratch_key: of_scratch.local_key(),
            limits,
            name: format!("verbs on port {} of {}", sysfs.number, sysfs.device),
        };
        let inside = Self {
            pairs: BTreeMap::new(),
            busy: BTreeSet::new(),
            ready: BTreeSet::new(),
            next: 1,
            channel: Rc::new(Channel::new(device)?),
            _regions: [of_arena, of_scratch],
            device: Arc::clone(device),
            receives,
            limits,
            _arena: arena,
            _scratch: scratch,
            shared,
        };
        Ok((inside, ready))
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let _said_when_dropped = Watched;
        let mut says = false;
        loop {
            let now = Instant::now();
            if !self.obey(commands, now) {
                return;
            }
            let heard = self.hear();
            if says && !heard {
                // A device that is gone has always something to say, and never says it.
                std::thread::sleep(EMPTY_PAUSE);
            }
            let busy: Vec<u64> = self.busy.iter().copied().collect();
            for number in busy {
                if let Some(Pair::Sending(sending)) = self.pairs.get_mut(&number) {
                    sending.step(now);
                    if !sending.is_idle() {
                        continue;
                    }
                }
                self.busy.remove(&number);
            }
            [_, says] = wait([self.shared.bell.as_fd(), self.channel.events()], self.rest());
            // Before the looks: what rings after this is seen by the next turn.
            self.shared.bell.hush();
        }
    }

    /// How long nothing is to be done by itself.
    fn rest(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let of = |number: &u64| match self.pairs.get(number) {
            Some(Pair::Sending(sending)) => sending.wakes(),
            _ => None,
        };
        self.busy.iter().filter_map(of).min().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// What the device has to say; false if that was nothing.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        while let Some(number) = self.channel.event() {
            heard = true;
            self.ready.insert(number);
            if let Some(Err(error)) = self.pairs.get_mut(&number).map(|pair| pair.queue_pair().arm()) {
                tracing::error!(%error, "a queue of completions tells nothing any more");
            }
        }
        let pairs = &mut self.pairs;
        self.ready.retain(|number| match pairs.get_mut(number) {
            Some(Pair::Sending(sending)) => sending.take(),
            Some(Pair::Receiving(receiving)) => receiving.take(),
            None => false,
        });
        heard
    }

    /// What others want; false if nobody wants anything any more.
    fn obey(&mut self, commands: &Receiver<Command>, now: Instant) -> bool {
        for _ in 0..COMMANDS_AT_ONCE {
            match commands.try_recv() {
                Ok(command) => self.carry_out(command),
                Err(TryRecvError::Empty) => return self.let_go(now),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        // There may be more, and nobody wakes this thread for it again.
        self.shared.bell.ring();
        true
    }

    /// Lets go of what is unwanted. Only after all commands: it was asked for before.
    fn let_go(&mut self, now: Instant) -> bool {
        let Unwanted { pairs, puts, all } = std::mem::take(&mut *self.shared.unwanted());
        for (pair, put) in puts {
            if let Some(Pair::Sending(sending)) = self.pairs.get_mut(&pair) {
                sending.cancel(put, now);
            }
        }
        pairs.into_iter().for_each(|pair| self.destroy(pair));
        !all
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Greet(over, answer) => {
                let made = self.sending(over);
                self.answer(answer, made);
            }
            Command::Welcome(peer, arrivals, answer) => {
                let made = self.receiving(&peer, arrivals);
                self.answer(answer, made);
            }
            Command::Connect(number, peer, answer) => {
                let connected = self.connect(number, &peer).map_err(fault);
                // Fails only if nobody waits any more: then the pair is forgotten as well.
                let _ = answer.send(connected);
            }
            Command::Put(number, job) => match self.pairs.get_mut(&number) {
                Some(Pair::Sending(sending)) => {
                    sending.put(job);
                    self.busy.insert(number);
                }
                _ => {
                    let error = FabricError::PeerGone("the link is closed".to_owned());
                    let _ = job.done.send(Put { result: Err(error), over: true });
                }
            },
            Command::Close(number, answer) => {
                self.destroy(number);
                // Also of one that was closed before. Fails only if nobody waits any more.
                let _ = answer.send(!self.shared.stuck().contains(&number));
            }
        }
    }

    fn answer(
        &mut self,
        answer: oneshot::Sender<Result<(u64, End), FabricError>>,
        made: Result<(u64, End), FabricError>,
    ) {
        // Nobody waits any more: nobody will let go of it either.
        if let Err(Ok((number, _))) = answer.send(made) {
            self.destroy(number);
        }
    }

    fn destroy(&mut self, number: u64) {
        if let Some(Pair::Receiving(receiving)) = self.pairs.remove(&number)
            && !receiving.close()
        {
            self.shared.stuck().insert(number);
        }
    }

    fn sending(&mut self, over: Arc<AtomicBool>) -> Result<(u64, End), FabricError> {
        // Receives nothing; the device wants room for one.
        let (number, queue_pair, end) = self.queue_pair(MAX_WRITES, 1, self.limits.places, false)?;
        self.pairs.insert(number, Pair::Sending(Sending::new(queue_pair, end.first_packet, over)));
        Ok((number, end))
    }

    fn receiving(&mut self, peer: &End, arrivals: Arc<Arrivals>) -> Result<(u64, End), FabricError> {
        let (number, mut queue_pair, end) = self.queue_pair(1, RECEIVES, 1, self.receives)?;
        // Before the first announcement can come.
        (0..RECEIVES).try_for_each(|_| queue_pair.receive()).map_err(fault)?;
        queue_pair.receive_from(peer, PATIENCE).map_err(fault)?;
        self.pairs.insert(number, Pair::Receiving(Receiving::new(queue_pair, arrivals)));
        Ok((number, end))
    }

    fn connect(&mut self, number: u64, peer: &End) -> Result<(), VerbsError> {
        let Some(Pair::Sending(sending)) = self.pairs.get_mut(&number) else {
            return Err(VerbsError::System("the link is closed".to_owned()));
        };
        sending.connect(peer, PATIENCE)
    }

    fn queue_pair(
        &mut self,
        sends: u32,
        receives: u32,
        places: usize,
        written: bool,
    ) -> Result<(u64, QueuePair, End), FabricError> {
        if self.pairs.len() >= MAX_PAIRS {
            return Err(FabricError::Local(format!("{MAX_PAIRS} queue pairs are open")));
        }
        let number = self.next;
        self.next += 1;
        let mut queue_pair = QueuePair::new(&self.channel, number, sends, receives, places).map_err(fault)?;
        queue_pair.initialise(written).map_err(fault)?;
        queue_pair.arm().map_err(fault)?;
        // By chance: what is still on its way of an earlier pair of this number is then taken for nothing.
        let mut first_packet = [0; 4];
        getrandom::fill(&mut first_packet).map_err(|error| FabricError::Local(error.to_string()))?;
        let end = self.device.end(queue_pair.number(), u32::from_le_bytes(first_packet) & words::MAX_PACKET);
        Ok((number, queue_pair, end))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let numbers: Vec<u64> = self.pairs.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.destroy(number));
    }
}

impl Pair {
    fn queue_pair(&mut self) -> &mut QueuePair {
        match self {
            Self::Sending(sending) => sending.queue_pair(),
            Self::Receiving(receiving) => receiving.queue_pair(),
        }
    }
}
