//! The five published experiments, one file each, from the episodes of
//! [`crate::eval::episode`]. Field names and rounding are those of the published aggregates.

mod baselines;
mod boundary;
mod charts;
mod hysteresis;
mod scarcity;
mod sheets;
mod tradeoff;

use serde::Serialize;

pub use baselines::{Baselines, Standing};
pub use boundary::{Boundary, BoundaryPoint};
pub use charts::charts;
pub use hysteresis::{Hysteresis, Stability};
pub use scarcity::{Scarcity, ScarcityPoint};
pub use sheets::sheets;
pub use tradeoff::{Tradeoff, TradeoffPoint};

use super::episode::{BadEpisode, Chooser, Episode, Played, published};
use crate::model::{PathState, Profile};
use crate::rivals::Policy;

/// What every experiment came to under one profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How degraded a path may be before each class avoids it.
    pub admissibility_boundary: Boundary,
    /// Who goes where as the healthy pool fills.
    pub capacity_tradeoff: Tradeoff,
    /// One noisy path, with hysteresis and without.
    pub hysteresis_stability: Hysteresis,
    /// Risk as alternates run out.
    pub alternate_scarcity: Scarcity,
    /// Seam beside other policies.
    pub baseline_comparison: Baselines,
}

/// Plays every published episode under `profile`.
///
/// # Errors
/// Names the episode that cannot be played.
pub fn run(profile: Profile) -> Result<Report, BadEpisode> {
    let trials = Trials { episodes: published()?, profile };
    Ok(Report {
        admissibility_boundary: boundary::run(&trials)?,
        capacity_tradeoff: tradeoff::run(&trials)?,
        hysteresis_stability: hysteresis::run(&trials)?,
        alternate_scarcity: scarcity::run(&trials)?,
        baseline_comparison: baselines::run(&trials)?,
    })
}

/// The episodes, and the profile that plays them.
struct Trials {
    episodes: Vec<Episode>,
    profile: Profile,
}

impl Trials {
    /// Every episode of an experiment as Seam plays it.
    fn of(&self, experiment: &str) -> Result<Vec<Played>, BadEpisode> {
        self.under(experiment, Policy::Seam, 0)
    }

    /// Every episode of an experiment as `policy` plays it with `seed`.
    fn under(&self, experiment: &str, policy: Policy, seed: u64) -> Result<Vec<Played>, BadEpisode> {
        let episodes = self.episodes.iter().enumerate().filter(|(_, episode)| episode.experiment == experiment);
        let mut chooser = Chooser::new(policy, seed);
        let play = |(index, episode): (usize, &Episode)| {
            episode.play(self.profile, &mut chooser).map_err(|what| BadEpisode { line: index + 1, what })
        };
        episodes.map(play).collect()
    }
}

/// Of so many, so many.
#[derive(Clone, Copy, Default)]
struct Share {
    of: u32,
    met: u32,
}

impl Share {
    fn count(&mut self, met: bool) {
        self.of += 1;
        self.met += u32::from(met);
    }

    fn of(items: impl IntoIterator<Item = bool>) -> Self {
        let mut share = Self::default();
        items.into_iter().for_each(|met| share.count(met));
        share
    }

    /// In percent, with one decimal; 0 of none.
    fn pct(self) -> f64 {
        if self.of == 0 { 0.0 } else { rounded(f64::from(self.met) * 100.0 / f64::from(self.of), 1) }
    }
}

/// The mean of `values`; 0 of none.
fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        sum += value;
        count += 1;
    }
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// `value` with so many decimals, half to even as it is written.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

/// The state found most often; of two, the less severe.
fn dominant(states: impl IntoIterator<Item = PathState>) -> Option<PathState> {
    let mut counts = std::collections::BTreeMap::<PathState, u32>::new();
    states.into_iter().for_each(|state| *counts.entry(state).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(state, _)| state)
}
