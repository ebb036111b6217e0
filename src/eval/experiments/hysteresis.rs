//! One noisy path, with hysteresis and without.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Trials;
use crate::eval::episode::BadEpisode;
use crate::model::PathState;

/// States of the series that are listed one by one.
const LISTED: usize = 24;
/// HEALTHY that is left within so many samples was entered in vain.
const HEALTHY_SAMPLES: usize = 3;

/// The same latency series under two sets of thresholds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hysteresis {
    /// With the persistence and the clean windows of the profile.
    pub default: Stability,
    /// With one bad window to escalate and one clean window to restore.
    pub no_hysteresis_baseline: Stability,
    /// Oscillations of the second less those of the first.
    pub oscillations_avoided: i64,
}

/// How steady the state was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stability {
    /// Changes of state.
    pub transition_count: usize,
    /// HEALTHY entered and left within the next three samples, or RESTORED entered and left at the
    /// next sample.
    pub oscillation_count: usize,
    /// Samples in each state.
    pub state_distribution: BTreeMap<PathState, usize>,
    /// The state after each of the first samples.
    pub first_24_states: Vec<PathState>,
    /// The state after every sample, for charts.
    #[serde(skip)]
    pub states: Vec<PathState>,
}

pub(super) fn run(trials: &Trials) -> Result<Hysteresis, BadEpisode> {
    let mut played = trials.of("hysteresis_stability")?.into_iter().map(|played| Stability::of(played.states));
    let mut next = || played.next().ok_or(BadEpisode { line: 0, what: "hysteresis_stability: missing".to_owned() });
    let (default, no_hysteresis_baseline) = (next()?, next()?);
    let count = |stability: &Stability| i64::try_from(stability.oscillation_count).unwrap_or(i64::MAX);
    let oscillations_avoided = count(&no_hysteresis_baseline) - count(&default);
    Ok(Hysteresis { default, no_hysteresis_baseline, oscillations_avoided })
}

impl Stability {
    fn of(states: Vec<PathState>) -> Self {
        let mut state_distribution = BTreeMap::new();
        states.iter().for_each(|state| *state_distribution.entry(*state).or_default() += 1);
        Self {
            transition_count: states.windows(2).filter(|pair| pair.first() != pair.last()).count(),
            oscillation_count: oscillations(&states),
            state_distribution,
            first_24_states: states.iter().take(LISTED).copied().collect(),
            states,
        }
    }
}

fn oscillations(states: &[PathState]) -> usize {
    let in_vain = |at: usize| {
        let (Some(before), Some(state)) = (at.checked_sub(1).and_then(|before| states.get(before)), states.get(at))
        else {
            return false;
        };
        let within = match state {
            PathState::Healthy => HEALTHY_SAMPLES,
            PathState::Restored => 1,
            _ => return false,
        };
        before != state && states.iter().skip(at + 1).take(within).any(|later| later != state)
    };
    (0..states.len()).filter(|&at| in_vain(at)).count()
}

#[cfg(test)]
mod tests {
    use PathState::{DegradedUsable as D, Healthy as H, Restored as R};

    use super::*;

    #[test]
    fn a_state_that_is_left_too_soon_was_entered_in_vain() {
        for (states, expected) in [
            (&[D, R, R, H, H, H, H, D][..], 0),
            (&[D, R, H, H, H, H], 1),
            (&[D, H, H, H, D], 1),
            (&[D, R, D, R, D], 2),
            (&[H, D, D], 0),
        ] {
            assert_eq!(oscillations(states), expected, "{states:?}");
        }
    }
}
