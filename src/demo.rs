//! The main job on one machine: real agents on loopback, a request stream, one path turning gray.

mod audit;
mod book;
mod host;
mod plan;
mod report;
mod show;
mod summary;

use std::path::PathBuf;

use crate::trace::KvModel;

pub use report::{
    AgentReport, ClassReport, GrayReport, Interesting, OtherPath, Report, ScaleReport, Share, StateAt, Transfers,
};

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
    /// Requests of the trace to send, 1 to 100,000.
    pub requests: usize,
    /// How much faster than the trace, 0.1 to 10,000.
    pub speedup: f64,
    /// Of every random draw.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        let model = KvModel { name: "llama-3.1-8b", bytes_per_token: 131_072 };
        Self { prefill: 2, decode: 3, trace: None, model, requests: 500, speedup: 50.0, seed: 1 }
    }
}
