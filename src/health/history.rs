//! A path's health from its samples alone, without a core: what a what-if and a scenario know.

use super::window::Point;
use super::{ProfileTrack, Settings, Thresholds};
use crate::core::Mono;
use crate::model::{PathHealth, Profile};

/// What is now: the largest age that is told apart, a day, and a second for each of 100,000 samples.
const NOW: Mono = Mono(200_000_000_000_000);
/// How far apart samples lie whose times are not known, in milliseconds: agents probe once a second.
pub const SAMPLES_APART_MS: u64 = 1_000;

/// The health that follows from `samples`, fed in order under the rules of `profile`.
///
/// The mesh profile needs times: `ages_ms` are those of the samples, none of them larger than the one
/// before it. A sample without an age lies a second before the next one, the last one now.
#[must_use]
pub fn health_of(profile: Profile, thresholds: &Thresholds, samples: &[Point], ages_ms: Option<&[u64]>) -> PathHealth {
    let settings = Settings { profile, thresholds: thresholds.clone(), ..Settings::default() };
    let mut track = ProfileTrack::new(profile);
    let mut later = samples.len() as u64;
    for (index, point) in samples.iter().enumerate() {
        later -= 1;
        let stated = ages_ms.and_then(|ages| ages.get(index).copied());
        let age_ms = stated.unwrap_or(later * SAMPLES_APART_MS);
        let taken = Mono(NOW.0.saturating_sub(age_ms.saturating_mul(1_000_000)));
        track.feed(&settings, taken, *point);
    }
    track.health(thresholds)
}
