//! Who goes where as the healthy pool fills.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Share, Trials};
use crate::eval::episode::{BadEpisode, Routed};
use crate::model::Outcome;

/// The healthy pool that fills, and the degraded one that stays roomy.
const HEALTHY: &str = "pool-healthy-tight";
const DEGRADED: &str = "pool-degraded-roomy";
/// The class that goes round the healthy pool, if any does.
const TOLERANT: &str = "batch";

/// One point a fill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tradeoff {
    /// From the emptiest healthy pool to the fullest.
    pub points: Vec<TradeoffPoint>,
}

/// What 18 trials of three requests each came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TradeoffPoint {
    /// Sessions in use on the healthy pool, of 8.
    pub healthy_active_sessions: u32,
    /// The share of batch requests on the degraded pool, in percent.
    pub batch_on_degraded_rate_pct: f64,
    /// The share of the stricter requests on the healthy pool, in percent.
    pub strict_on_healthy_rate_pct: f64,
    /// The share of all requests that did not go to the healthiest admissible pool, in percent.
    pub reroute_rate_pct: f64,
}

pub(super) fn run(trials: &Trials) -> Result<Tradeoff, BadEpisode> {
    let played = trials.of("capacity_tradeoff")?;
    let mut by_fill = BTreeMap::<u32, Vec<&Routed>>::new();
    for routed in played.iter().flat_map(|played| &played.routes) {
        let healthy = routed.candidates.iter().find(|candidate| candidate.target.pool.as_str() == HEALTHY);
        if let Some(healthy) = healthy {
            by_fill.entry(healthy.capacity.active_sessions).or_default().push(routed);
        }
    }
    let points = by_fill.into_iter().map(|(fill, routes)| point(fill, &routes)).collect();
    Ok(Tradeoff { points })
}

fn point(healthy_active_sessions: u32, routes: &[&Routed]) -> TradeoffPoint {
    let on = |routed: &Routed, pool: &str| routed.on().is_some_and(|one| one.target.pool.as_str() == pool);
    let of =
        |tolerant: bool| routes.iter().filter(move |routed| (routed.workload.name.as_str() == TOLERANT) == tolerant);
    TradeoffPoint {
        healthy_active_sessions,
        batch_on_degraded_rate_pct: Share::of(of(true).map(|routed| on(routed, DEGRADED))).pct(),
        strict_on_healthy_rate_pct: Share::of(of(false).map(|routed| on(routed, HEALTHY))).pct(),
        reroute_rate_pct: Share::of(
            routes.iter().map(|routed| routed.decision.choice.outcome == Outcome::ReroutedToAlternate),
        )
        .pct(),
    }
}
