//! Risk as alternates run out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Share, Trials, mean, rounded};
use crate::eval::episode::{BadEpisode, Routed};

/// The degraded path, the first of every trial.
const PRIMARY: usize = 0;

/// One point a number of alternates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scarcity {
    /// From none up.
    pub points: Vec<ScarcityPoint>,
}

/// What 12 trials came to; every score is that of the degraded path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScarcityPoint {
    /// Other pools.
    pub alternate_count: usize,
    /// Mean PRS of a batch request.
    pub batch_prs: f64,
    /// Mean FAE of a batch request.
    pub batch_fae: f64,
    /// The share of trials in which the degraded path is admissible for it, in percent.
    pub batch_admissible_rate_pct: f64,
    /// The share of trials in which it is chosen, in percent.
    pub batch_chosen_rate_pct: f64,
    /// Mean PRS of a release request.
    pub release_prs: f64,
    /// Mean FAE of a release request.
    pub release_fae: f64,
}

pub(super) fn run(trials: &Trials) -> Result<Scarcity, BadEpisode> {
    let played = trials.of("alternate_scarcity")?;
    let mut by_count = BTreeMap::<usize, Vec<&Routed>>::new();
    for routed in played.iter().flat_map(|played| &played.routes) {
        by_count.entry(routed.candidates.len().saturating_sub(1)).or_default().push(routed);
    }
    let points = by_count.into_iter().map(|(count, routes)| point(count, &routes)).collect();
    Ok(Scarcity { points })
}

fn point(alternate_count: usize, routes: &[&Routed]) -> ScarcityPoint {
    let of = |class: &'static str| routes.iter().filter(move |routed| routed.workload.name.as_str() == class);
    let assessed = |class| of(class).filter_map(|routed| routed.decision.assessments.get(PRIMARY));
    ScarcityPoint {
        alternate_count,
        batch_prs: rounded(mean(assessed("batch").map(|found| found.prs)), 3),
        batch_fae: rounded(mean(assessed("batch").map(|found| found.fae)), 2),
        batch_admissible_rate_pct: Share::of(assessed("batch").map(|found| found.verdict.admits())).pct(),
        batch_chosen_rate_pct: Share::of(of("batch").map(|routed| routed.chosen == Some(PRIMARY))).pct(),
        release_prs: rounded(mean(assessed("release").map(|found| found.prs)), 3),
        release_fae: rounded(mean(assessed("release").map(|found| found.fae)), 2),
    }
}
