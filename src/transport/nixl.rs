//! A fabric over NIXL, whose C library is loaded at run time: nothing of it is needed to build.
//!
//! NIXL's objects belong to one thread, which posts what is to be put in chunks, so that no copy is
//! so long that nothing else gets its turn, and looks after what is under way. NIXL keeps nobody
//! out: what was posted lands, also after the memory was deregistered. A put that is given up is
//! therefore waited for until its last chunk has ended, and a closed entry promises nothing.
//!
//! What an operator configures, and where the library is, is known to every build; the rest needs
//! the feature `nixl`.

#[cfg(feature = "nixl")]
mod api;
#[cfg(feature = "nixl")]
mod engine;
#[cfg(feature = "nixl")]
mod fabric;
mod library;
#[cfg(feature = "nixl")]
mod objects;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "nixl")]
pub use fabric::{Nixl, NixlError};
#[cfg(feature = "nixl")]
pub use library::try_load;
pub use library::{Found, LibraryError, find};

/// What an operator may have to say about NIXL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NixlConfig {
    /// `libnixl_capi.so`, or the folder that it is in. Looked for where it usually is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// The plugin that moves the bytes.
    pub plugin: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
}

impl Default for NixlConfig {
    fn default() -> Self {
        Self { library: None, plugin: "UCX".to_owned(), params: BTreeMap::new() }
    }
}
