//! The daemon: actors that own the cores and everything that does I/O.

pub mod api;
pub mod service;

use std::net::SocketAddr;

use crate::config::Config;

/// One agent in this process. Its face only; nothing starts yet.
pub struct Agent {
    api: SocketAddr,
}

impl Agent {
    /// Starts an agent.
    ///
    /// # Errors
    /// Always, until there is one.
    #[allow(clippy::unused_async)]
    pub async fn start(config: Config) -> Result<Self, std::io::Error> {
        let _ = config;
        Err(std::io::Error::other("no agent is built into this version"))
    }

    /// Where its API listens.
    #[must_use]
    pub fn api_addr(&self) -> SocketAddr {
        self.api
    }

    /// Stops it.
    #[allow(clippy::unused_async)]
    pub async fn shutdown(self) {}
}
