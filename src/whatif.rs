//! What-if: one line of JSON that describes pools and their samples in, one decision record out.
//!
//! ```
//! use seam::model::Profile;
//! use seam::whatif::decide_line;
//!
//! let line = r#"{"workload": "interactive", "pools": [
//!     {"pool_id": "a", "samples": [[2.1, 0.0], [2.0, 0.0]]},
//!     {"pool_id": "b", "samples": [[90.0, 0.0], [2.0, 0.0]], "active_sessions": 3}
//! ]}"#;
//! let record = decide_line(line, Profile::Reference, 1)?;
//! assert_eq!(record.chosen.unwrap().pool.as_str(), "a");
//! # Ok::<(), seam::whatif::WhatIfError>(())
//! ```

mod fields;
mod read;

use std::sync::Arc;

use crate::health::window::Point;
use crate::health::{Thresholds, health_of};
use crate::model::{Capacity, DecisionId, Evidence, NodeName, Profile, RiskGroup, Workload};
use crate::policy::decide::{Candidate, MAX_EXCLUDED_FRACTION, Target, Terms, decide};
use crate::policy::record::{Context, DecisionRecord};

/// Bytes of a line at most.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Pools of a line at most.
pub const MAX_POOLS: usize = 4096;
/// Samples of a line at most, all pools together.
pub const MAX_SAMPLES: usize = 100_000;

/// Why a line was not decided.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    /// The line is longer than [`MAX_LINE_BYTES`].
    #[error("line: found {found} bytes, allowed at most {MAX_LINE_BYTES}")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// The line is no JSON.
    #[error("line: not JSON: {0}")]
    NotJson(String),
    /// A field is wrong.
    #[error("{field}: found {found}, allowed {allowed}")]
    Field {
        /// The field, from the line's start: `pools[1].samples[3][0]`.
        field: String,
        /// What was found, cut to a printable length.
        found: String,
        /// What is allowed instead.
        allowed: String,
    },
}

/// Decides one line. `number` names the record: `what-if.0.NUMBER`.
///
/// `thresholds` (any subset) and `workload` (a class name or its fields) say what is asked,
/// `pools` what is known: each pool's samples are fed in order, then one route is decided. What a
/// line cannot know (time, node, request, lease) is null in the record.
///
/// # Errors
/// Names the field at fault, what was found and what is allowed.
pub fn decide_line(line: &str, profile: Profile, number: u64) -> Result<DecisionRecord, WhatIfError> {
    let question = read::line(line, profile)?;
    let candidates: Vec<Candidate> =
        question.pools.into_iter().map(|pool| pool.candidate(profile, &question.thresholds)).collect();
    let terms = Terms {
        max_excluded_fraction: MAX_EXCLUDED_FRACTION,
        ..Terms::new(profile, &question.thresholds, &question.workload)
    };
    let decision = decide(&terms, &candidates);
    let node = NodeName::new("what-if").map_err(fields::name_error("id"))?;
    let id = DecisionId { node, generation: 0, input: number };
    let context = Context::offline(id, Arc::new(question.workload), profile);
    Ok(DecisionRecord::new(context, &candidates, &decision))
}

/// What a line asks.
struct Question {
    thresholds: Thresholds,
    workload: Workload,
    pools: Vec<Pool>,
}

/// What a line knows of one pool.
struct Pool {
    target: Target,
    risk_group: Option<RiskGroup>,
    capacity: Capacity,
    samples: Vec<Point>,
    /// The age of each sample, none of them larger than the one before it, in whole milliseconds.
    ages_ms: Option<Vec<u64>>,
}

impl Pool {
    fn candidate(self, profile: Profile, thresholds: &Thresholds) -> Candidate {
        let evidence = if self.samples.is_empty() { Evidence::None } else { Evidence::Own };
        let health = health_of(profile, thresholds, &self.samples, self.ages_ms.as_deref());
        Candidate {
            risk_group: self.risk_group,
            health_age_ms: self.ages_ms.and_then(|ages| ages.last().copied()),
            evidence,
            ..Candidate::new(Arc::new(self.target), health, self.capacity)
        }
    }
}
