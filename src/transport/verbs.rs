//! A fabric over RDMA verbs: one queue pair a link, and writes straight into the peer's arena.
//!
//! libibverbs is loaded at run time, so that a host without it starts all the same. Its objects belong to
//! one thread, which sleeps until the device has something to say; a second one watches the port. Unlike
//! other libraries a device keeps peers out: each session has a queue pair of its own at the receiving
//! side, and nothing that came over it can land once that is destroyed.
//!
//! What an operator configures, and what the kernel says of the devices of this host, is known to every
//! build; the rest needs the feature `verbs`.

#[cfg(feature = "verbs")]
mod api;
#[cfg(feature = "verbs")]
mod device;
#[cfg(feature = "verbs")]
mod fabric;
#[cfg(feature = "verbs")]
mod inside;
#[cfg(feature = "verbs")]
mod pair;
#[cfg(any(test, feature = "verbs"))]
mod plan;
#[cfg(feature = "verbs")]
mod queue_pair;
#[cfg(any(test, feature = "verbs"))]
mod status;
pub mod sysfs;
#[cfg(feature = "verbs")]
mod watch;
#[cfg(any(test, feature = "verbs"))]
mod window;
#[cfg(any(test, feature = "verbs"))]
mod words;
#[cfg(feature = "verbs")]
mod worker;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "verbs")]
pub use device::{VerbsError, try_load};
#[cfg(feature = "verbs")]
pub use fabric::Verbs;

/// What an operator may have to say about the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerbsConfig {
    /// Its name; the first that can be used if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its port, 1 to 255; the first that can be used if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// Which of the port's addresses; the first of a fitting type if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
    /// `libibverbs.so.1`, or the folder that it is in. The system's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
}
