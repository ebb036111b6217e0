//! Session capacity of a decode host and what follows from it.

use serde::{Deserialize, Serialize};

/// Sessions in use and sessions that fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Sessions in use.
    pub active_sessions: u32,
    /// Sessions that fit, at least 1.
    pub max_capacity: u32,
    /// The share of `max_capacity` from which the host counts as soft saturated, in (0, 1].
    pub soft_fraction: f64,
}

impl Capacity {
    /// `max(1, max_capacity · soft_fraction rounded half to even)`.
    #[must_use]
    pub fn soft_limit(&self) -> u32 {
        let limit = libm::rint(f64::from(self.max_capacity) * self.soft_fraction);
        // The range is checked first, so the conversion is exact.
        if limit >= 1.0 && limit <= f64::from(u32::MAX) { limit as u32 } else { 1 }
    }

    /// Sessions in use as a share of those that fit.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        f64::from(self.active_sessions) / f64::from(self.max_capacity.max(1))
    }

    /// Sessions that still fit.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.max_capacity.saturating_sub(self.active_sessions)
    }

    /// At or above the soft limit.
    #[must_use]
    pub fn soft_saturated(&self) -> bool {
        self.active_sessions >= self.soft_limit()
    }

    /// Full.
    #[must_use]
    pub fn hard_saturated(&self) -> bool {
        self.active_sessions >= self.max_capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_rounds_half_to_even_and_is_at_least_one() {
        let limit =
            |max_capacity, soft_fraction| Capacity { active_sessions: 0, max_capacity, soft_fraction }.soft_limit();
        assert_eq!(limit(8, 0.75), 6);
        assert_eq!(limit(10, 0.25), 2);
        assert_eq!(limit(10, 0.35), 4);
        assert_eq!(limit(1, 0.1), 1);
    }
}
