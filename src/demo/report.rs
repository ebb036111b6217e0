//! What a run found, as `seamctl demo --json` prints it.

use std::collections::BTreeMap;

use serde::Serialize;

/// The whole result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests sent.
    pub requests: u64,
    /// Decisions by outcome. `no_answer` counts requests that got none.
    pub decisions: BTreeMap<String, u64>,
    /// Where nothing was admissible: the candidates' reasons, by how many candidates had them.
    pub refusals: BTreeMap<String, u64>,
    /// What became of the bytes.
    pub transfers: Transfers,
    /// Grants that gave a host more sessions than it has, or memory twice; 0 unless Seam is broken.
    pub over_commits: u64,
    /// By class.
    pub classes: BTreeMap<String, ClassReport>,
    /// The path that turned gray, `source>destination/rail/backend`.
    pub gray_path: Option<String>,
    /// Every agent and where its API listened.
    pub agents: Vec<AgentReport>,
    /// What happened on and around the gray path.
    pub gray: Option<GrayReport>,
    /// Other paths that were not healthy for a while.
    pub other_paths: Vec<OtherPath>,
    /// How the trace was fitted to this machine.
    pub scale: ScaleReport,
    /// From the first request to the last answer, in milliseconds.
    pub stream_ms: f64,
    /// What went wrong on the way, the first few in words.
    pub errors: Vec<String>,
    /// A decision worth explaining, and the API that knows it.
    pub interesting: Option<Interesting>,
}

impl Report {
    /// Whether the run showed what it must: every delivered byte verified, nothing over-committed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.over_commits == 0 && self.transfers.verified == self.transfers.ok
    }
}

/// What became of the transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Delivered, as Seam reports.
    pub ok: u64,
    /// Not delivered.
    pub failed: u64,
    /// Delivered, and read back from the decode host's arena with the hash that was written.
    pub verified: u64,
    /// Bytes delivered.
    pub bytes: u64,
}

/// One class's share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassReport {
    /// Requests of the class.
    pub requests: u64,
    /// Decisions by outcome.
    pub decisions: BTreeMap<String, u64>,
    /// Of the placed requests of a strict class, the percentage on a healthy path.
    pub strict_on_healthy_pct: Option<f64>,
    /// Of the placed requests of a tolerant class that had a degraded candidate, the percentage on
    /// a degraded path.
    pub tolerant_on_degraded_pct: Option<f64>,
    /// The counts behind the percentage: how many, and of how many.
    pub placement: Share,
    /// Delivered transfers.
    pub ok: u64,
    /// Delivered and verified transfers.
    pub verified: u64,
    /// The median of the time from the route request to the delivery, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of that time, in milliseconds.
    pub p99_ms: Option<f64>,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
}

impl Share {
    pub(crate) fn add(&mut self, counts: bool) {
        self.count += u64::from(counts);
        self.of += 1;
    }

    /// The share in percent; none of nothing.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.count as f64 / self.of as f64)
    }
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    /// Its name.
    pub name: String,
    /// The URL of its API.
    pub api: String,
}

/// The gray path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GrayReport {
    /// When it turned gray, in milliseconds from the stream's start.
    pub at_ms: f64,
    /// How long its source took to see it, in milliseconds.
    pub detected_after_ms: Option<f64>,
    /// When the fault was cleared, in milliseconds from the stream's start.
    pub cleared_at_ms: Option<f64>,
    /// How long the path took from then to healthy, in milliseconds.
    pub healthy_after_ms: Option<f64>,
    /// The states that its source saw.
    pub timeline: Vec<StateAt>,
    /// By class: of the source's placed requests before the path was seen gray, those on the path.
    pub before: BTreeMap<String, Share>,
    /// The same from then on.
    pub after: BTreeMap<String, Share>,
}

/// A state and since when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateAt {
    /// In milliseconds from the stream's start; 0 for the first state.
    pub at_ms: f64,
    /// The state.
    pub state: String,
}

/// Another path that was not healthy for a while.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherPath {
    /// Which.
    pub path: String,
    /// Its states.
    pub timeline: Vec<StateAt>,
}

/// How the trace was fitted to this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScaleReport {
    /// Where the requests came from.
    pub source: String,
    /// The model that turned tokens into bytes.
    pub model: String,
    /// True KV bytes for each byte moved.
    pub shrink: f64,
    /// The largest request's true KV bytes.
    pub largest_true_bytes: u64,
    /// How much faster than the trace.
    pub speedup: f64,
    /// Sessions that fit a decode host.
    pub max_sessions: u32,
    /// Sessions that a decode host was expected to have on average.
    pub mean_sessions: f64,
}

/// A decision worth explaining.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interesting {
    /// Its id.
    pub decision: String,
    /// The URL of the agent that made it.
    pub api: String,
    /// Why it is worth a look.
    pub why: String,
}
