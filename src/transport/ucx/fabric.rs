//! UCX as a fabric.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::UcxEngine;
use super::{LibraryError, UcxConfig, find};
use crate::arena::Arena;
use crate::codec::{self, Wire};
use crate::model::NodeName;
use crate::transport::BoxFuture;
use crate::transport::fabric::{Fabric, FabricError, Greeting, Link, MAX_GREETING, Opening, Welcome};
use crate::transport::worker::{Target, ThreadError, Token, Worker, WorkerEntry, WorkerLink};

/// Why UCX cannot be used on this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UcxError {
    /// There is no library, or none that fits.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It does not take a setting.
    #[error("UCX_{key}={value}: {detail}; ucx_info -c lists what it takes")]
    Setting {
        /// The setting, without its prefix.
        key: String,
        /// What it was to be.
        value: String,
        /// What it says.
        detail: String,
    },
    /// One of its calls fails.
    #[error("UCX: {0}")]
    Call(String),
    /// No thread, or no memory.
    #[error("{0}")]
    System(String),
}

impl From<ThreadError> for UcxError {
    fn from(error: ThreadError) -> Self {
        Self::System(error.to_string())
    }
}

/// What is to be expected of a link, to be held against what UCX chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The rail, for messages.
    pub rail: String,
    /// What it promises.
    pub bandwidth_gbps: f64,
}

/// What peers must know of the library on this side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keys {
    /// Where the worker is.
    pub(super) address: Vec<u8>,
    pub(super) arena: Vec<u8>,
    pub(super) scratch: Vec<u8>,
}

/// What a peer must know to write into this arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    keys: Keys,
    target: Target,
}

impl Wire for Words {
    const NAME: &'static str = "UCX welcome";
    const LIMIT: usize = MAX_GREETING;
}

/// UCX with an arena mapped.
pub struct Ucx {
    worker: Arc<Worker<UcxEngine>>,
    version: String,
    keys: Keys,
    arena: Arc<Arena>,
    scratch: u64,
    receives: bool,
}

impl Ucx {
    /// Loads the library and maps the arena. `receives`: peers will put into it.
    ///
    /// # Errors
    /// The library, its settings or one of its calls.
    pub fn start(config: &UcxConfig, receives: bool, expected: Expected, arena: Arc<Arena>) -> Result<Self, UcxError> {
        let version = find(config.library.as_deref())?.version;
        let config = config.clone();
        let (worker, (keys, scratch)) = Worker::start(Arc::clone(&arena), move |memory| {
            let (engine, keys) = UcxEngine::new(&config, receives, expected, memory)?;
            Ok::<_, UcxError>((engine, (keys, memory.probed())))
        })?;
        Ok(Self { worker: Arc::new(worker), version, keys, arena, scratch, receives })
    }

    fn words(&self, token: Token) -> Result<Vec<u8>, FabricError> {
        let target = Target::of(&self.arena, &self.version, self.scratch, token);
        let words = Words { keys: self.keys.clone(), target };
        codec::encode(&words).map_err(|error| FabricError::Local(error.to_string()))
    }
}

impl Fabric for Ucx {
    fn name(&self) -> String {
        format!("UCX {}", self.version)
    }

    fn greet<'a>(&'a self, peer: &'a NodeName) -> BoxFuture<'a, Result<Greeting, FabricError>> {
        let opening =
            UcxOpening { worker: Arc::clone(&self.worker), version: self.version.clone(), peer: peer.clone() };
        // The peer connects to nobody: it answers where it is written from.
        Box::pin(async { Ok(Greeting { words: Vec::new(), opening: Box::new(opening) }) })
    }

    fn welcome<'a>(&'a self, _peer: &'a NodeName, _greeting: Vec<u8>) -> BoxFuture<'a, Result<Welcome, FabricError>> {
        Box::pin(async {
            // Whoever has these words can write into all of the arena.
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

struct UcxOpening {
    worker: Arc<Worker<UcxEngine>>,
    version: String,
    peer: NodeName,
}

impl Opening for UcxOpening {
    fn connect(self: Box<Self>, welcome: Vec<u8>) -> BoxFuture<'static, Result<Arc<dyn Link>, FabricError>> {
        Box::pin(async move {
            let words: Words = codec::decode(&welcome).map_err(|error| {
                FabricError::Skew(format!("not a welcome that this version of Seam knows: {error}"))
            })?;
            let theirs = &words.target.version;
            if !are_alike(&self.version, theirs) {
                let detail = format!(
                    "this side's UCX is {}, the peer's {theirs}; allowed are two of the same minor version",
                    self.version
                );
                self.worker.warn_of(&self.peer, &detail);
                return Err(FabricError::Skew(detail));
            }
            WorkerLink::connect(self.worker, &self.version, words.keys, words.target, self.peer).await
        })
    }
}

/// Whether two versions may be connected. Two that do not understand each other find out too late: 1.13
/// aborts its process when 1.23 connects to it.
fn are_alike(ours: &str, theirs: &str) -> bool {
    fn minor(version: &str) -> Option<(&str, &str)> {
        let mut parts = version.split('.');
        Some((parts.next()?, parts.next()?))
    }
    minor(ours).is_some_and(|ours| Some(ours) == minor(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_one_minor_are_connected() {
        assert!(are_alike("1.13.1", "1.13.0") && are_alike("1.23.0", "1.23.0"));
        for (ours, theirs) in
            [("1.13.1", "1.23.0"), ("1.23.0", "1.13.1"), ("1.1.0", "1.13.0"), ("1.13.1", ""), ("", "")]
        {
            assert!(!are_alike(ours, theirs), "{ours}, {theirs}");
        }
    }
}
