//! How degraded a path may be before each class avoids it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Share, Trials, dominant, mean, rounded};
use crate::eval::episode::{BadEpisode, Played, Routed};
use crate::model::PathState;

/// Trials of one severity.
const TRIALS: usize = 18;
/// The path that gets worse.
const DEGRADED: &str = "pool-degraded";

/// One point a severity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Boundary {
    /// From the mildest to the worst.
    pub points: Vec<BoundaryPoint>,
}

/// What 18 trials of one severity came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundaryPoint {
    /// From 1.
    pub severity: usize,
    /// Mean GFS of the degraded path.
    pub mean_gfs: f64,
    /// Mean p99 latency of the degraded path in milliseconds.
    pub mean_p99_latency_ms: f64,
    /// Mean jitter of the degraded path in milliseconds.
    pub mean_jitter_ms: f64,
    /// The state that the degraded path had most often.
    pub dominant_path_state: Option<PathState>,
    /// The share of trials in which the degraded path was admissible, per class, in percent.
    pub admissibility_rate_pct: BTreeMap<String, f64>,
    /// The share of trials in which it was chosen, per class, in percent.
    pub chosen_rate_pct: BTreeMap<String, f64>,
}

pub(super) fn run(trials: &Trials) -> Result<Boundary, BadEpisode> {
    let played = trials.of("admissibility_boundary")?;
    let points = played.chunks(TRIALS).enumerate().map(|(index, chunk)| point(index + 1, chunk)).collect();
    Ok(Boundary { points })
}

fn point(severity: usize, played: &[Played]) -> BoundaryPoint {
    let routes = || played.iter().flat_map(|played| &played.routes);
    let mut admissible = BTreeMap::<String, Share>::new();
    let mut chosen = BTreeMap::<String, Share>::new();
    for routed in routes() {
        let (admits, takes) = degraded(routed).map_or((false, false), |index| {
            let admits = routed.decision.assessments.get(index).is_some_and(|found| found.verdict.admits());
            (admits, routed.chosen == Some(index))
        });
        admissible.entry(routed.workload.name.to_string()).or_default().count(admits);
        chosen.entry(routed.workload.name.to_string()).or_default().count(takes);
    }
    // The path is the same for every request of a trial.
    let health = || {
        let first = played.iter().filter_map(|played| played.routes.first());
        first.filter_map(|routed| routed.candidates.get(degraded(routed)?)).map(|candidate| candidate.health)
    };
    let pct = |shares: BTreeMap<String, Share>| shares.into_iter().map(|(name, share)| (name, share.pct())).collect();
    BoundaryPoint {
        severity,
        mean_gfs: rounded(mean(health().map(|health| health.gfs)), 3),
        mean_p99_latency_ms: rounded(mean(health().map(|health| health.p99_latency_ms)), 1),
        mean_jitter_ms: rounded(mean(health().map(|health| health.jitter_ms)), 1),
        dominant_path_state: dominant(health().map(|health| health.state)),
        admissibility_rate_pct: pct(admissible),
        chosen_rate_pct: pct(chosen),
    }
}

fn degraded(routed: &Routed) -> Option<usize> {
    routed.candidates.iter().position(|candidate| candidate.target.pool.as_str() == DEGRADED)
}
