//! The main job on one machine: real agents on loopback, a request stream, one path turning gray.
//!
//! ```text
//! trace ─▶ plan ─▶ mesh (agents) ─▶ stream ──▶ gateway, source ──HTTP──▶ prefill agents
//!                                     │                                       │ QUIC
//!                                     ▼                                       ▼
//!                       summary ◀── book, watch ◀── engine ◀──HTTP── decode agents
//! ```
//!
//! Everything goes through the agents' HTTP API and the arenas' files, as engines and gateways do;
//! what is reported was seen from outside.

mod audit;
mod book;
mod engine;
mod gateway;
mod host;
mod input;
mod mesh;
mod plan;
mod progress;
mod report;
mod run;
mod show;
mod source;
mod summary;
mod watch;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::client::ClientError;
use crate::trace::{KvModel, TraceError};

pub use progress::Progress;
pub use report::{
    AgentReport, ClassReport, GrayReport, Interesting, OtherPath, Report, ScaleReport, Share, StateAt, Transfers,
};
pub use run::Run;

pub use crate::trace::SPEEDUP;

/// How many prefill hosts there may be.
pub const PREFILL: RangeInclusive<usize> = 1..=8;
/// How many decode hosts there may be.
pub const DECODE: RangeInclusive<usize> = 1..=16;
/// How many requests may be sent.
pub const REQUESTS: RangeInclusive<usize> = 1..=100_000;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Prefill hosts, 1 to 8.
    pub prefill: usize,
    /// Decode hosts, 1 to 16.
    pub decode: usize,
    /// A trace file; the built-in stream if absent.
    pub trace: Option<PathBuf>,
    /// Turns tokens into KV bytes.
    pub model: KvModel,
    /// Requests to send, 1 to 100,000; fewer if the trace has fewer.
    pub requests: usize,
    /// How much faster than the trace, 0.1 to 10,000.
    pub speedup: f64,
    /// Of every random draw.
    pub seed: u64,
    /// One folder of journals for every host goes in here; none are kept if absent.
    pub journal_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefill: 2,
            decode: 3,
            trace: None,
            model: KvModel::default(),
            requests: 500,
            speedup: 50.0,
            seed: 1,
            journal_dir: None,
        }
    }
}

impl Options {
    /// Checks every number against its range.
    ///
    /// # Errors
    /// Names the option, what was found and what is allowed.
    pub fn check(&self) -> Result<(), DemoError> {
        within("--prefill", self.prefill, &PREFILL)?;
        within("--decode", self.decode, &DECODE)?;
        within("--requests", self.requests, &REQUESTS)?;
        within("--speedup", self.speedup, &SPEEDUP)
    }
}

fn within<T: PartialOrd + Display>(option: &'static str, found: T, range: &RangeInclusive<T>) -> Result<(), DemoError> {
    if range.contains(&found) {
        return Ok(());
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(DemoError::BadOption { option, found: found.to_string(), allowed })
}

/// Why a run did not get to its end. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// An option is out of its range.
    #[error("{option}: found {found}, allowed {allowed}")]
    BadOption {
        /// Which.
        option: &'static str,
        /// What was given.
        found: String,
        /// What may be given.
        allowed: String,
    },
    /// The trace cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The folder for the agents' files cannot be made.
    #[error("a folder for the agents' files: {0}")]
    Folder(#[source] std::io::Error),
    /// An agent does not work.
    #[error("agent {name}: {detail}")]
    Agent {
        /// Which.
        name: String,
        /// Why.
        detail: String,
    },
    /// An agent does not answer as it must.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// The run was ended early.
    #[error("ended early; nothing is left behind")]
    Interrupted,
}

impl DemoError {
    fn start(name: &str, detail: impl Into<String>) -> Self {
        Self::Agent { name: name.to_owned(), detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_range_is_named() {
        let default = Options::default;
        assert!(default().check().is_ok());
        for (options, option) in [
            (Options { prefill: 0, ..default() }, "--prefill: found 0, allowed 1 to 8"),
            (Options { decode: 17, ..default() }, "--decode: found 17"),
            (Options { requests: 0, ..default() }, "--requests: found 0"),
            (Options { speedup: f64::NAN, ..default() }, "--speedup: found NaN"),
            (Options { speedup: 0.0, ..default() }, "--speedup: found 0, allowed 0.1 to 10000"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
    }
}
