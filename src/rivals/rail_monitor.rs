//! A rail that fails too often pauses; among the others, one after another.
//!
//! The rule of Mooncake's transfer engine (TENT, `RailMonitor`, 2025): 3 errors within 10 s pause a
//! rail for 30 s, each further pause is twice as long, to 300 s at most. It is what a transport does
//! by itself: it sees errors, and neither slowness nor load.
//!
//! Choices where its versions differ: a success at or after the end of a pause makes the next pause
//! 30 s again; one before it, of a request placed earlier, changes nothing, and no more does an error
//! during a pause. A success between errors does not take them back, so that a rail that loses every
//! third request is noticed. After a pause the rail has its share at once, and needs 3 errors anew.
//! If all are paused, the one whose pause ends first is taken, the first in the order given on a tie.

use super::recent::{MAX_POOLS, Recent};
use super::round_robin::Rotation;
use super::{Ask, Finished, Rival, Sight};

/// Errors that pause a rail.
const ERRORS: usize = 3;
/// Within which they must come.
const WINDOW_MS: f64 = 10_000.0;
/// The first pause.
const PAUSE_MS: f64 = 30_000.0;
/// The longest pause.
const MAX_PAUSE_MS: f64 = 300_000.0;

pub(super) struct RailMonitor {
    rotation: Rotation,
    /// Those that have failed.
    rails: Recent<String, Rail>,
}

struct Rail {
    /// When its last errors came, since its last pause: fewer than [`ERRORS`].
    errors: Vec<f64>,
    paused_until_ms: f64,
    next_pause_ms: f64,
}

impl RailMonitor {
    pub(super) fn new() -> Self {
        Self { rotation: Rotation::default(), rails: Recent::new(MAX_POOLS) }
    }

    fn paused_until_ms(&self, name: &str) -> f64 {
        self.rails.get(name).map_or(f64::NEG_INFINITY, |rail| rail.paused_until_ms)
    }
}

impl Rival for RailMonitor {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let ends: Vec<f64> = pools.iter().map(|sight| self.paused_until_ms(sight.name)).collect();
        let unpaused = pools.iter().enumerate().zip(&ends).filter(|(_, end)| **end <= ask.at_ms);
        let next = self.rotation.next(unpaused.map(|(pool, _)| pool));
        next.or_else(|| {
            let first = ends.iter().enumerate().min_by(|(_, left), (_, right)| left.total_cmp(right));
            first.map(|(index, _)| index)
        })
    }

    fn finished(&mut self, outcome: &Finished<'_>) {
        let at_ms = outcome.at_ms;
        if at_ms < self.paused_until_ms(outcome.name) {
            return;
        }
        if outcome.ok {
            if let Some(rail) = self.rails.get_mut(outcome.name) {
                rail.next_pause_ms = PAUSE_MS;
            }
            return;
        }
        let rail = self.rails.used(outcome.name, || Rail {
            errors: Vec::new(),
            paused_until_ms: f64::NEG_INFINITY,
            next_pause_ms: PAUSE_MS,
        });
        rail.errors.retain(|error_ms| at_ms - error_ms <= WINDOW_MS);
        rail.errors.push(at_ms);
        if rail.errors.len() >= ERRORS {
            rail.errors.clear();
            rail.paused_until_ms = at_ms + rail.next_pause_ms;
            rail.next_pause_ms = (2.0 * rail.next_pause_ms).min(MAX_PAUSE_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, finished, sight};
    use super::*;

    fn fail(rival: &mut RailMonitor, name: &str, times_ms: &[f64]) {
        for at_ms in times_ms {
            rival.finished(&Finished { ok: false, ..finished(name, *at_ms, 1.0) });
        }
    }

    /// The pause that three errors at `at_ms` begin, if they begin one.
    fn pause_from(rival: &mut RailMonitor, at_ms: f64) -> Option<f64> {
        fail(rival, "a", &[at_ms; 3]);
        Some(rival.paused_until_ms("a") - at_ms).filter(|pause_ms| *pause_ms > 0.0)
    }

    #[test]
    fn the_third_error_within_ten_seconds_pauses_for_thirty() {
        let pools = [sight("a", 1.0, 0), sight("b", 1.0, 0)];
        let mut rival = RailMonitor::new();
        fail(&mut rival, "a", &[0.0, 9_000.0]);
        assert_eq!(rival.choose(&ask(9_000.0), &pools), Some(0));
        fail(&mut rival, "a", &[10_000.0]);
        let chosen = [10_000.0, 20_000.0, 39_999.0, 40_000.0].map(|at_ms| rival.choose(&ask(at_ms), &pools).unwrap());
        assert_eq!(chosen, [1, 1, 1, 0]);
    }

    #[test]
    fn three_errors_over_more_than_ten_seconds_pause_nothing() {
        let mut rival = RailMonitor::new();
        fail(&mut rival, "a", &[0.0, 5_000.0, 10_001.0]);
        assert_eq!(rival.paused_until_ms("a"), f64::NEG_INFINITY);
        // A success between them takes none back.
        rival.finished(&finished("a", 11_000.0, 1.0));
        fail(&mut rival, "a", &[12_000.0]);
        assert_eq!(rival.paused_until_ms("a"), 42_000.0);
    }

    #[test]
    fn pauses_double_to_three_hundred_seconds() {
        let mut rival = RailMonitor::new();
        let pauses = [0.0, 1e6, 2e6, 3e6, 4e6, 5e6].map(|at_ms| pause_from(&mut rival, at_ms).unwrap());
        assert_eq!(pauses, [30e3, 60e3, 120e3, 240e3, 300e3, 300e3]);
    }

    #[test]
    fn only_a_success_past_the_pause_makes_the_next_one_short_again() {
        let mut rival = RailMonitor::new();
        assert_eq!(pause_from(&mut rival, 0.0), Some(30e3));
        rival.finished(&finished("a", 29_999.0, 1.0));
        assert_eq!(pause_from(&mut rival, 30e3), Some(60e3));
        rival.finished(&finished("a", 90e3, 1.0));
        assert_eq!(pause_from(&mut rival, 91e3), Some(30e3));
    }

    #[test]
    fn errors_during_a_pause_change_nothing() {
        let mut rival = RailMonitor::new();
        assert_eq!(pause_from(&mut rival, 0.0), Some(30e3));
        fail(&mut rival, "a", &[29e3, 29.5e3, 29.9e3, 30e3, 30.1e3]);
        assert_eq!(rival.paused_until_ms("a"), 30e3);
        fail(&mut rival, "a", &[30.2e3]);
        assert_eq!(rival.paused_until_ms("a"), 90.2e3);
    }

    #[test]
    fn if_all_are_paused_the_one_that_ends_first_is_taken() {
        let mut rival = RailMonitor::new();
        fail(&mut rival, "a", &[2_000.0; 3]);
        fail(&mut rival, "b", &[1_000.0; 3]);
        fail(&mut rival, "c", &[3_000.0; 3]);
        let pools = [sight("a", 1.0, 0), sight("b", 1.0, 0), sight("c", 1.0, 0)];
        assert_eq!(rival.choose(&ask(4_000.0), &pools), Some(1));
    }

    #[test]
    fn the_unpaused_take_turns() {
        let mut rival = RailMonitor::new();
        fail(&mut rival, "b", &[0.0; 3]);
        let pools = ["a", "b", "c"].map(|name| sight(name, 1.0, 0));
        let chosen = [1.0; 4].map(|at_ms| rival.choose(&ask(at_ms), &pools).unwrap());
        assert_eq!(chosen, [0, 2, 0, 2]);
    }

    #[test]
    fn no_more_rails_are_remembered_than_the_bound_and_none_that_never_failed() {
        let mut rival = RailMonitor::new();
        rival.finished(&finished("sound", 0.0, 1.0));
        assert_eq!(rival.rails.len(), 0);
        for rail in 0..MAX_POOLS + 10 {
            fail(&mut rival, &format!("rail-{rail}"), &[0.0]);
        }
        assert_eq!(rival.rails.len(), MAX_POOLS);
        fail(&mut rival, "a", &[0.0, 1.0]);
        assert_eq!(rival.rails.get("a").unwrap().errors.len(), 2);
    }
}
