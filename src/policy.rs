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
mod core;
pub mod decide;
pub mod explain;
mod messages;
pub mod record;
mod requests;
mod round;
mod routes;
pub mod score;
pub mod select;
mod transfers;
pub mod view;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::core::{Policy, Settings};
pub use messages::{Input, Output, Plan, RouteProblem, TransferProblem};
pub use round::round4;

/// Which set of rules decides. What users write is read with [`FromStr`], which allows only what is
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The published prototype exactly.
    #[default]
    Reference,
    /// The prototype with its weaknesses mended.
    Mesh,
}

impl Profile {
    /// The name in configuration and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Mesh => "mesh",
        }
    }

    /// This profile, if it can decide.
    ///
    /// # Errors
    /// The profile is known, but not available.
    pub fn available(self) -> Result<Self, InvalidProfile> {
        match self {
            Self::Reference => Ok(self),
            Self::Mesh => Err(InvalidProfile::NotAvailable(self)),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = InvalidProfile;
    fn from_str(text: &str) -> Result<Self, InvalidProfile> {
        match text {
            "reference" => Self::Reference.available(),
            "mesh" => Self::Mesh.available(),
            other => Err(InvalidProfile::Unknown(other.chars().take(80).collect())),
        }
    }
}

/// A profile that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    /// It does not exist.
    #[error("profile {0:?}: unknown, allowed: reference")]
    Unknown(String),
    /// It cannot decide yet.
    #[error("profile {0}: not available yet, allowed: reference")]
    NotAvailable(Profile),
}

#[cfg(test)]
mod tests;
