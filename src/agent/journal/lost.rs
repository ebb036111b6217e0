//! Turns that are missing.

use crate::core::Now;
use crate::journal::{Gap, Part};

/// Turns of one core that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    count: u64,
    /// When the first of them was.
    since: Now,
}

/// What each core has lost.
#[derive(Debug, Default)]
pub(super) struct Losses([Option<Lost>; 4]);

impl Lost {
    /// One more turn is lost.
    pub(super) fn add(lost: &mut Option<Self>, now: Now) {
        Self::merge(lost, Self { count: 1, since: now });
    }

    /// As the journal says it, when a tape goes on.
    pub(super) fn gap(self, part: Part, until: Now) -> Gap {
        Gap { part, lost: self.count, since: self.since, until }
    }

    fn merge(lost: &mut Option<Self>, more: Self) {
        *lost = Some(match *lost {
            None => more,
            Some(Self { count, since }) => Self {
                count: count.saturating_add(more.count),
                since: if more.since.mono < since.mono { more.since } else { since },
            },
        });
    }
}

impl Losses {
    /// A turn is lost.
    pub(super) fn add(&mut self, part: Part, now: Now) {
        Lost::add(self.of(part), now);
    }

    /// More turns are lost.
    pub(super) fn merge(&mut self, part: Part, more: Option<Lost>) {
        if let Some(more) = more {
            Lost::merge(self.of(part), more);
        }
    }

    /// Moves everything into `other`, and says how many turns that is.
    pub(super) fn move_into(&mut self, other: &mut Self) -> u64 {
        let mut count = 0;
        for &part in Part::ALL {
            let lost = self.of(part).take();
            count += lost.map_or(0, |lost| lost.count);
            other.merge(part, lost);
        }
        count
    }

    /// Whether turns of a core are missing.
    pub(super) fn has(&mut self, part: Part) -> bool {
        self.of(part).is_some()
    }

    /// What is missing of a core; it is accounted for then.
    pub(super) fn take(&mut self, part: Part) -> Option<Lost> {
        self.of(part).take()
    }

    fn of(&mut self, part: Part) -> &mut Option<Lost> {
        let [health, policy, ledger, mesh] = &mut self.0;
        match part {
            Part::Health => health,
            Part::Policy => policy,
            Part::Ledger => ledger,
            Part::Mesh => mesh,
        }
    }
}
