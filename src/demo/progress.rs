//! What happens while a run runs, one line each.

use std::fmt;

use super::report::{AgentReport, ScaleReport};

/// One piece of news.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The plan stands; the agents are being started.
    Planned {
        /// Prefill hosts.
        prefill: usize,
        /// Decode hosts.
        decode: usize,
        /// How the trace was fitted.
        scale: ScaleReport,
    },
    /// Every agent runs and has measured its paths.
    Up {
        /// Where to reach them.
        agents: Vec<AgentReport>,
    },
    /// Once a second while requests are served.
    Stream {
        /// Since the stream's start, in milliseconds.
        elapsed_ms: f64,
        /// Requests in all.
        requests: usize,
        /// Requests served, whatever their outcome.
        finished: u64,
        /// Requests under way.
        in_flight: u64,
        /// Transfers delivered.
        delivered: u64,
        /// Transfers read back with the right hash.
        verified: usize,
    },
    /// A path turned gray.
    Gray {
        /// Which.
        path: String,
        /// Since the stream's start, in milliseconds.
        at_ms: f64,
    },
    /// Its fault was cleared; its return is being watched.
    Cleared {
        /// Which.
        path: String,
        /// Since the stream's start, in milliseconds.
        at_ms: f64,
    },
}

impl Progress {
    /// Whether the line may be overwritten by the next.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Stream { .. })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned { prefill, decode, scale } => {
                write!(
                    f,
                    "starting {prefill} prefill and {decode} decode agents of {} sessions each",
                    scale.max_sessions
                )
            }
            Self::Up { agents } => write!(f, "{} agents are up and have measured their paths", agents.len()),
            Self::Stream { elapsed_ms, requests, finished, in_flight, delivered, verified } => write!(
                f,
                "{:6.1} s  {finished}/{requests} requests served, {in_flight} under way, {delivered} delivered, \
                 {verified} verified",
                elapsed_ms / 1_000.0
            ),
            Self::Gray { path, at_ms } => write!(f, "{:6.1} s  {path} turns gray", at_ms / 1_000.0),
            Self::Cleared { path, at_ms } => {
                write!(f, "{:6.1} s  {path} is mended; watching its return", at_ms / 1_000.0)
            }
        }
    }
}
