//! NIXL as a fabric.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::NixlEngine;
use super::{LibraryError, NixlConfig, find};
use crate::arena::Arena;
use crate::codec::{self, Wire};
use crate::model::NodeName;
use crate::transport::BoxFuture;
use crate::transport::fabric::{Fabric, FabricError, Greeting, Link, MAX_GREETING, Opening, Welcome};
use crate::transport::worker::{Target, ThreadError, Token, Worker, WorkerEntry, WorkerLink};

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

impl From<ThreadError> for NixlError {
    fn from(error: ThreadError) -> Self {
        Self::System(error.to_string())
    }
}

/// What a peer must know to write into this arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    /// NIXL's own word of its agent.
    metadata: Vec<u8>,
    target: Target,
}

impl Wire for Words {
    const NAME: &'static str = "NIXL welcome";
    const LIMIT: usize = MAX_GREETING;
}

/// NIXL with an arena registered.
pub struct Nixl {
    worker: Arc<Worker<NixlEngine>>,
    version: String,
    metadata: Vec<u8>,
    arena: Arc<Arena>,
    scratch: u64,
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
        let (node, config) = (node.clone(), config.clone());
        let (worker, (metadata, scratch)) = Worker::start(Arc::clone(&arena), move |memory| {
            let (engine, metadata) = NixlEngine::new(&found, &node, receives, &config, memory)?;
            Ok::<_, NixlError>((engine, (metadata, memory.probed())))
        })?;
        Ok(Self { worker: Arc::new(worker), version, metadata, arena, scratch, receives })
    }

    fn words(&self, token: Token) -> Result<Vec<u8>, FabricError> {
        let target = Target::of(&self.arena, &self.version, self.scratch, token);
        let words = Words { metadata: self.metadata.clone(), target };
        codec::encode(&words).map_err(|error| FabricError::Local(error.to_string()))
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
        Box::pin(async {
            // Whoever has these words can write into, and read, all of the arena.
            if !self.receives {
                return Err(FabricError::Local("this host receives nothing".to_owned()));
            }
            let (entry, token) = WorkerEntry::admit(&self.worker)?;
            Ok(Welcome { words: self.words(token)?, entry })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.worker.close())
    }
}

struct NixlOpening {
    worker: Arc<Worker<NixlEngine>>,
    version: String,
    peer: NodeName,
}

impl Opening for NixlOpening {
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>> {
        Box::pin(async move {
            let words: Words = codec::decode(&welcome).map_err(|error| {
                FabricError::Skew(format!("not a welcome that this version of Seam knows: {error}"))
            })?;
            WorkerLink::connect(self.worker, &self.version, words.metadata, words.target, self.peer).await
        })
    }
}
