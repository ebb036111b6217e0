//! The policy core: what is known in, decisions out.
//!
//! ```text
//! PathReport ─┐                                    ┌─▶ AskLease ──▶ (ledger of another host)
//! LoadRecord ─┼─▶ view ──▶ decide(score, admit, ───┤
//! NodeRecord ─┘            select) per request     └─▶ DecisionRecord
//! ```
//!
//! `score`, `admit`, `select` and `record` are pure functions over one slice of candidates;
//! `view` keeps that slice; `routes` drives a request from its question to its lease.

pub mod admit;
pub mod decide;
pub mod record;
pub mod score;
pub mod select;

use serde::{Deserialize, Serialize};

/// Which set of rules decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The published prototype exactly.
    #[default]
    Reference,
    /// The prototype with its weaknesses mended.
    Mesh,
}
