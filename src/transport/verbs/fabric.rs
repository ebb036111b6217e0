//! Verbs as a fabric.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::pair::Job;
use super::plan::Plan;
use super::words::{self, End, Memory};
use super::worker::{Ready, Worker};
use super::{VerbsConfig, VerbsError};
use crate::arena::Arena;
use crate::codec;
use crate::model::NodeName;
use crate::transport::fabric::scratch::{self, HALF};
use crate::transport::fabric::{Arrivals, Entry, Fabric, FabricError, Greeting, Link, Opening, Piece, Put, Welcome};
use crate::transport::{BoxFuture, MAX_PROBE_BYTES};

/// A port of a device with an arena registered.
pub struct Verbs {
    worker: Arc<Worker>,
    ready: Arc<Ready>,
    receives: bool,
}

impl Verbs {
    /// Loads the library, opens the device and registers the arena. `receives`: peers will put into it.
    ///
    /// # Errors
    /// The library, the device, its port, or how much memory may be locked.
    pub fn start(config: &VerbsConfig, receives: bool, arena: Arc<Arena>) -> Result<Self, VerbsError> {
        let (worker, ready) = Worker::start(config, receives, arena)?;
        Ok(Self { worker: Arc::new(worker), ready: Arc::new(ready), receives })
    }
}

impl Fabric for Verbs {
    fn name(&self) -> String {
        self.ready.name.clone()
    }

    fn greet<'a>(&'a self, _peer: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>> {
        Box::pin(async {
            let over = Arc::new(AtomicBool::new(false));
            let (pair, end) = self.worker.greet(Arc::clone(&over)).await?;
            let pair = Pair { worker: Arc::clone(&self.worker), number: pair };
            let words = encoded(&words::Greeting { end: end.clone() })?;
            let opening = VerbsOpening { pair, end, over, ready: Arc::clone(&self.ready) };
            Ok(Greeting { words, opening: Box::new(opening) })
        })
    }

    fn welcome<'a>(&'a self, _peer: &'a NodeName, greeting: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>> {
        Box::pin(async move {
            // Whoever has these words can write into all of the arena.
            if !self.receives {
                return Err(FabricError::Local("this host receives nothing".to_owned()));
            }
            let own = self.worker.device.end(0, 0);
            let greeting = words::greeting(&greeting, &own)?;
            let arrivals = Arc::new(Arrivals::default());
            let (pair, end) = self.worker.welcome(greeting.end, Arc::clone(&arrivals)).await?;
            let pair = Pair { worker: Arc::clone(&self.worker), number: pair };
            let scratch = half(&self.ready.scratch);
            let words = encoded(&words::Welcome { end, arena: self.ready.arena, scratch })?;
            Ok(Welcome { words, entry: Arc::new(VerbsEntry { pair, arrivals }) })
        })
    }

    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        self.worker.port.errors()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.worker.close())
    }
}

fn encoded<T: codec::Wire>(words: &T) -> Result<Vec<u8>, FabricError> {
    codec::encode(words).map_err(|error| FabricError::Local(error.to_string()))
}

/// The part of the memory for probes that peers write to.
fn half(scratch: &Memory) -> Memory {
    let half = u64::from(HALF);
    Memory { address: scratch.address + half, bytes: half, ..*scratch }
}

/// A queue pair, destroyed when nobody has it any more.
struct Pair {
    worker: Arc<Worker>,
    number: u64,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.worker.forget(self.number);
    }
}

struct VerbsOpening {
    pair: Pair,
    end: End,
    over: Arc<AtomicBool>,
    ready: Arc<Ready>,
}

impl Opening for VerbsOpening {
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>> {
        Box::pin(async move {
            let Self { pair, end, over, ready } = *self;
            let words::Welcome { end, arena, scratch } = words::welcome(&welcome, &end, u64::from(HALF))?;
            pair.worker.connect(pair.number, end).await?;
            Ok(Arc::new(VerbsLink { pair, arena, scratch, over, ready }) as Arc<dyn Link>)
        })
    }
}

struct VerbsLink {
    pair: Pair,
    /// The peer's.
    arena: Memory,
    scratch: Memory,
    over: Arc<AtomicBool>,
    ready: Arc<Ready>,
}

/// A put that nobody wants any more is given up.
struct Wanted<'a> {
    pair: &'a Pair,
    put: u64,
}

impl Wanted<'_> {
    fn give_up(&self) {
        self.pair.worker.cancel(self.pair.number, self.put);
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl VerbsLink {
    async fn carry(
        &self,
        pieces: Vec<Piece>,
        ends: [(u64, u32); 2],
        announces: Option<u32>,
        deadline: Duration,
        cancel: &CancellationToken,
    ) -> Put {
        let [source, target] = ends;
        let worker = &self.pair.worker;
        let (done, ended) = oneshot::channel();
        let (id, plan) = (worker.number(), Plan::new(pieces, self.ready.limits));
        let deadline = Instant::now() + deadline;
        let job = Job { id, plan, source, target, announces, deadline, done };
        let wanted = Wanted { pair: &self.pair, put: id };
        let mut put = std::pin::pin!(worker.put(self.pair.number, job, ended));
        let put = tokio::select! {
            biased;
            put = &mut put => put,
            () = cancel.cancelled() => {
                wanted.give_up();
                put.await
            }
        };
        // It has ended: there is nothing to give up.
        std::mem::forget(wanted);
        put
    }
}

impl Link for VerbsLink {
    fn put<'a>(
        &'a self,
        pieces: Vec<Piece>,
        number: Option<u64>,
        deadline: Duration,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Put> {
        Box::pin(async move {
            if let Some(refused) = Put::outside(&pieces, self.arena.bytes) {
                return refused;
            }
            let ends = [(self.ready.arena.address, self.ready.arena_key), (self.arena.address, self.arena.key)];
            self.carry(pieces, ends, number.map(announced), deadline, cancel).await
        })
    }

    fn probe(&self, payload_bytes: u32, deadline: Duration) -> BoxFuture<'_, Result<(), FabricError>> {
        Box::pin(async move {
            let pieces = scratch::pieces(payload_bytes.clamp(1, MAX_PROBE_BYTES));
            let ends = [(self.ready.scratch.address, self.ready.scratch_key), (self.scratch.address, self.scratch.key)];
            self.carry(pieces, ends, None, deadline, &CancellationToken::new()).await.result
        })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What is announced of an arrival's number: a device carries 32 bits beside a write. They are compared with those
/// of the numbers that are waited for on the same queue pair, and a receiver counts its arrivals up: two of them
/// have the same bits only if four thousand million others lie between. Were they mistaken for one another, the
/// hash of what is in the arena would tell.
fn announced(number: u64) -> u32 {
    number as u32
}

struct VerbsEntry {
    pair: Pair,
    arrivals: Arc<Arrivals>,
}

impl Entry for VerbsEntry {
    fn arrived(&self, number: u64) -> BoxFuture<'_, ()> {
        // Whatever comes wakes the thread by itself.
        Box::pin(self.arrivals.arrived(u64::from(announced(number)), || {}))
    }

    /// Destroys the queue pair. The device takes a packet only for a queue pair that there is, and says that one is
    /// gone only after the last write that it took for it is in memory: so nothing of the peer lands after that. Of
    /// another session of the same peer nothing can be left behind, since it has a queue pair of its own.
    fn close(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.pair.worker.close_entry(self.pair.number))
    }
}
