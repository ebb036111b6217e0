//! A fabric over UCX, whose library libucp is loaded at run time: nothing of it is needed to build.
//!
//! UCX's objects belong to one thread, which puts in chunks, flushes, and then announces by an active
//! message. It sleeps on UCX's own descriptor, so that bytes which a peer sends over TCP land while
//! nothing else goes on here. UCX chooses its transports by itself: which it took is said once a
//! link, and loudly where RDMA was to be expected and is not among them.
//!
//! UCX keeps nobody out: a key that was given stays good as long as its memory is registered, and
//! bytes in a socket's buffers land whenever they are read. A put that is given up is flushed before it
//! counts as over, and a closed entry promises nothing.
//!
//! What an operator configures, and where the library is, is known to every build; the rest needs
//! the feature `ucx`.

#[cfg(feature = "ucx")]
mod api;
#[cfg(feature = "ucx")]
mod endpoint;
#[cfg(feature = "ucx")]
mod engine;
#[cfg(feature = "ucx")]
mod fabric;
#[cfg(feature = "ucx")]
mod library;
#[cfg(feature = "ucx")]
mod objects;
#[cfg(feature = "ucx")]
mod transports;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "ucx")]
pub use fabric::{Expected, Ucx, UcxError};
#[cfg(feature = "ucx")]
pub use library::{Found, LibraryError, find};

/// What an operator may have to say about UCX.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UcxConfig {
    /// `libucp.so.0`, or the folder that it is in. Looked for where it usually is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// UCX's settings, without their prefix `UCX_`. They go before the environment's.
    pub params: BTreeMap<String, String>,
}
