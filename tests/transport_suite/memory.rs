//! A fabric within this process: puts are copies between arenas, piece by piece, and can be held up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use seam::arena::Arena;
use seam::model::NodeName;
use seam::transport::BoxFuture;
use seam::transport::fabric::{Entry, Fabric, FabricError, Greeting, Link, Opening, Piece, Put, Welcome};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const COPIED_AT_ONCE: u64 = 64 * 1024;
/// What a link says of itself where something is late.
pub(crate) const DOUBT: &str = "this side's memory may be held";

/// Who may be written to, by number.
static OPEN: LazyLock<Mutex<BTreeMap<u64, Arc<Inside>>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

struct Inside {
    arena: Arc<Arena>,
    arrived: watch::Sender<BTreeSet<u64>>,
}

/// What holds puts up, at all senders of one fabric.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<watch::Sender<Option<u64>>>, Arc<AtomicU64>);

impl Held {
    /// From now on a put stops after so many bytes, until it is let go.
    pub(crate) fn after(&self, bytes: Option<u64>) {
        let _ = self.0.send_replace(bytes);
    }

    /// A put that is given up takes so long to come to its end.
    pub(crate) fn drains(&self, time: Duration) {
        self.1.store(time.as_millis().try_into().unwrap(), Ordering::Relaxed);
    }
}

pub(crate) struct Memory {
    pub(crate) arena: Arc<Arena>,
    pub(crate) held: Held,
    /// Whether an entry that is closed keeps out what was put before.
    pub(crate) fences: bool,
    /// Entries are gone with the fabric that made them, as memory is with its process.
    pub(crate) entries: Mutex<Vec<u64>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap();
        self.entries.lock().unwrap().iter().for_each(|number| drop(open.remove(number)));
    }
}

struct Inlet {
    number: u64,
    inside: Arc<Inside>,
    fences: bool,
}

struct Outlet {
    arena: Arc<Arena>,
    held: Held,
    number: u64,
}

struct Beginning(Arc<Arena>, Held);

impl Fabric for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn greet<'a>(&'a self, _peer: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>> {
        let opening = Box::new(Beginning(Arc::clone(&self.arena), self.held.clone()));
        Box::pin(async { Ok(Greeting { words: Vec::new(), opening }) })
    }

    fn welcome<'a>(&'a self, _peer: &'a NodeName, _greeting: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>> {
        Box::pin(async {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let inside =
                Arc::new(Inside { arena: Arc::clone(&self.arena), arrived: watch::Sender::new(BTreeSet::new()) });
            OPEN.lock().unwrap().insert(number, Arc::clone(&inside));
            self.entries.lock().unwrap().push(number);
            let entry = Arc::new(Inlet { number, inside, fences: self.fences });
            Ok(Welcome { words: number.to_le_bytes().to_vec(), entry })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Opening for Beginning {
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>> {
        Box::pin(async move {
            let number = welcome.try_into().map_err(|_| FabricError::Skew("not a number".to_owned()))?;
            Ok(Arc::new(Outlet { arena: self.0, held: self.1, number: u64::from_le_bytes(number) }) as Arc<dyn Link>)
        })
    }
}

impl Outlet {
    fn far(&self) -> Result<Arc<Inside>, FabricError> {
        let open = OPEN.lock().unwrap();
        open.get(&self.number).cloned().ok_or_else(|| FabricError::PeerGone("the peer's memory is gone".to_owned()))
    }

    async fn copy(&self, pieces: Vec<Piece>, number: Option<u64>) -> Result<(), FabricError> {
        let mut copied = 0;
        let mut held = self.held.0.subscribe();
        for piece in pieces {
            let mut done = 0;
            while done < piece.bytes {
                held.wait_for(|most| most.is_none_or(|most| copied < most)).await.unwrap();
                let bytes = (piece.bytes - done).min(COPIED_AT_ONCE);
                let mut buffer = vec![0; usize::try_from(bytes).unwrap()];
                self.arena.read_into(piece.local + done, &mut buffer).unwrap();
                let far = self.far()?;
                let written = far.arena.write(piece.remote + done, &buffer);
                written.map_err(|error| FabricError::Protection(error.to_string()))?;
                done += bytes;
                copied += bytes;
                tokio::task::yield_now().await;
            }
        }
        self.far()?.arrived.send_modify(|arrived| {
            arrived.extend(number);
        });
        Ok(())
    }
}

impl Link for Outlet {
    fn put<'a>(
        &'a self,
        pieces: Vec<Piece>,
        number: Option<u64>,
        deadline: Duration,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Put> {
        Box::pin(async move {
            let result = tokio::select! {
                () = cancel.cancelled() => Err(FabricError::Cancelled),
                copied = tokio::time::timeout(deadline, self.copy(pieces, number)) =>
                    copied.unwrap_or(Err(FabricError::TimedOut)),
            };
            if result.is_err() {
                tokio::time::sleep(Duration::from_millis(self.held.1.load(Ordering::Relaxed))).await;
            }
            Put { result, over: true }
        })
    }

    fn probe(&self, payload_bytes: u32, deadline: Duration) -> BoxFuture<'_, Result<(), FabricError>> {
        Box::pin(async move {
            let mut held = self.held.0.subscribe();
            let free = held.wait_for(|most| most.is_none_or(|most| u64::from(payload_bytes) < most));
            tokio::time::timeout(deadline, free).await.map_err(|_| FabricError::TimedOut)?.unwrap();
            self.far().map(drop)
        })
    }

    fn doubt(&self) -> Option<String> {
        Some(DOUBT.to_owned())
    }
}

impl Entry for Inlet {
    fn arrived(&self, number: u64) -> BoxFuture<'_, ()> {
        let mut arrived = self.inside.arrived.subscribe();
        Box::pin(async move {
            arrived.wait_for(|arrived| arrived.contains(&number)).await.unwrap();
        })
    }

    fn close(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            OPEN.lock().unwrap().remove(&self.number);
            self.fences
        })
    }
}
