//! The policy core: what is known in, decisions out.
//!
//! ```text
//! PathReport ─┐                                   ┌─▶ Ask ──▶ (ledger of another host) ──┐
//! LoadRecord ─┼─▶ view ──▶ decide(score, admit, ──┤                                      │
//! NodeRecord ─┘            select) per request    └─▶ DecisionRecord ◀── LeaseAnswer ◀───┘
//! ```
//!
//! `score`, `admit`, `select`, `decide` and `record` are pure functions over one slice of
//! candidates; `view` keeps that slice; `routes` drives a request from its question to its lease
//! and its transfer to its last attempt.

pub mod admit;
pub mod alternates;
mod asking;
mod blame;
mod core;
pub mod decide;
mod exclude;
pub mod explain;
mod messages;
pub mod overrides;
pub mod record;
mod requests;
mod round;
mod routes;
pub mod rules;
pub mod score;
pub mod select;
mod tie;
mod transfers;
pub mod view;

pub use self::core::{Policy, Settings};
pub use messages::{Input, Output, Plan, RouteProblem, TransferProblem};
pub use round::round4;

#[cfg(test)]
mod tests;
