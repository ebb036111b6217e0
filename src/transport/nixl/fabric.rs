//! NIXL as a fabric.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::put::Job;
use super::worker::{Remote, Worker};
use super::{LibraryError, NixlConfig, find};
use crate::arena::Arena;
use crate::codec::{self, Wire};
use crate::model::NodeName;
use crate::transport::fabric::scratch::{self, HALF};
use crate::transport::fabric::{
    Entry, Fabric, FabricError, Greeting, Link, MAX_GREETING, Opening, Piece, Put, Welcome,
};
use crate::transport::{BoxFuture, MAX_PROBE_BYTES};

/// Why NIXL cannot be used on this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NixlError {
    /// There is no library, or none that fits.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It has no such plugin, or that does not start.
    #[error("NIXL plugin {plugin}: {detail}; it has {available}")]
    Plugin {
        /// The plugin.
        plugin: String,
        /// What it says.
        detail: String,
        /// Those that there are.
        available: String,
    },
    /// One of its calls fails.
    #[error("NIXL: {0}")]
    Call(String),
    /// No thread, or no memory.
    #[error("{0}")]
    System(String),
}

/// What a peer must know to write into this arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    version: String,
    /// NIXL's own word of its agent.
    metadata: Vec<u8>,
    /// Where the arena is in the agent's memory.
    arena: u64,
    arena_bytes: u64,
    /// Where probes go.
    scratch: u64,
}

impl Wire for Words {
    const NAME: &'static str = "NIXL welcome";
    const LIMIT: usize = MAX_GREETING;
}

/// NIXL with an arena registered.
pub struct Nixl {
    worker: Arc<Worker>,
    version: String,
    words: Vec<u8>,
    receives: bool,
}

impl Nixl {
    /// Loads the library and registers the arena. `receives`: peers will put into it.
    ///
    /// # Errors
    /// The library, its plugin or one of its calls.
    pub fn start(node: &NodeName, config: &NixlConfig, receives: bool, arena: Arc<Arena>) -> Result<Self, NixlError> {
        let found = find(config.library.as_deref())?;
        let version = found.version.clone().unwrap_or_else(|| "of unknown version".to_owned());
        let (address, bytes) = (arena.address(), arena.size());
        let (worker, registered) = Worker::start(found, node, config, receives, arena)?;
        let words = Words {
            version: version.clone(),
            metadata: registered.metadata,
            arena: address as u64,
            arena_bytes: bytes,
            scratch: registered.scratch as u64,
        };
        let words = codec::encode(&words).map_err(|error| NixlError::Call(error.to_string()))?;
        Ok(Self { worker: Arc::new(worker), version, words, receives })
    }
}

impl Fabric for Nixl {
    fn name(&self) -> String {
        format!("NIXL {}", self.version)
    }

    fn greet<'a>(&'a self, peer: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>> {
        let opening =
            NixlOpening { worker: Arc::clone(&self.worker), version: self.version.clone(), peer: peer.clone() };
        Box::pin(async { Ok(Greeting { words: Vec::new(), opening: Box::new(opening) }) })
    }

    fn welcome<'a>(&'a self, _peer: &'a NodeName, _greeting: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>> {
        let entry = Arc::new(NixlEntry { worker: Arc::clone(&self.worker) });
        Box::pin(async {
            // Whoever has these words can write into, and read, all of the arena.
            if !self.receives {
                return Err(FabricError::Local("this host receives nothing".to_owned()));
            }
            Ok(Welcome { words: self.words.clone(), entry })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.worker.close())
    }
}

struct NixlOpening {
    worker: Arc<Worker>,
    version: String,
    peer: NodeName,
}

impl Opening for NixlOpening {
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>> {
        Box::pin(async move {
            let words: Words = codec::decode(&welcome)
                .map_err(|error| FabricError::Skew(format!("a welcome that NIXL's peer did not write: {error}")))?;
            let ends = [words.arena.checked_add(words.arena_bytes), words.scratch.checked_add(u64::from(HALF))];
            if ends.contains(&None) {
                return Err(FabricError::Protection("a welcome with memory beyond all addresses".to_owned()));
            }
            let remote = self.worker.load(words.metadata, self.peer).await?;
            let skew = (words.version != self.version)
                .then(|| format!("this side's NIXL is {}, the peer's {}", self.version, words.version));
            let link = NixlLink {
                worker: self.worker,
                remote,
                arena: words.arena,
                arena_bytes: words.arena_bytes,
                scratch: words.scratch,
                skew,
            };
            Ok(Arc::new(link) as Arc<dyn Link>)
        })
    }
}

struct NixlLink {
    worker: Arc<Worker>,
    remote: Remote,
    arena: u64,
    arena_bytes: u64,
    scratch: u64,
    /// What may be the matter where nothing ever ends.
    skew: Option<String>,
}

impl NixlLink {
    /// Old and new libraries are known to wait for each other for ever.
    fn explained(&self, error: FabricError) -> FabricError {
        match (error, &self.skew) {
            (FabricError::TimedOut, Some(skew)) => FabricError::Skew(format!("no end in time; {skew}")),
            (error, _) => error,
        }
    }
}

impl Link for NixlLink {
    fn put<'a>(
        &'a self,
        pieces: Vec<Piece>,
        number: u64,
        deadline: Duration,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Put> {
        Box::pin(async move {
            let outside =
                |piece: &&Piece| piece.remote.checked_add(piece.bytes).is_none_or(|end| end > self.arena_bytes);
            if let Some(piece) = pieces.iter().find(outside) {
                let detail = format!("{} bytes at {} are outside the peer's arena", piece.bytes, piece.remote);
                return Put { result: Err(FabricError::Protection(detail)), over: true };
            }
            let job = Job { pieces, remote_base: self.arena, number: Some(number), deadline };
            let put = self.worker.put(&self.remote, job, cancel.clone()).await;
            Put { result: put.result.map_err(|error| self.explained(error)), over: put.over }
        })
    }

    fn probe(&self, payload_bytes: u32, deadline: Duration) -> BoxFuture<'_, Result<(), FabricError>> {
        Box::pin(async move {
            let pieces = scratch::pieces(payload_bytes.clamp(1, MAX_PROBE_BYTES));
            let job = Job { pieces, remote_base: self.scratch, number: None, deadline };
            // Dropped with this future: what is under way then comes to its end by itself.
            let cancel = CancellationToken::new();
            let _cancelled_when_dropped = cancel.clone().drop_guard();
            self.worker.put(&self.remote, job, cancel).await.result.map_err(|error| self.explained(error))
        })
    }
}

struct NixlEntry {
    worker: Arc<Worker>,
}

impl Entry for NixlEntry {
    fn arrived(&self, number: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.worker.arrived(number))
    }

    fn close(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }
}
