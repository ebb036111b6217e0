//! Where else the work could go: the candidates that others may count on, in all and by what fails
//! together.

use std::collections::BTreeMap;

use super::decide::Candidate;
use super::rules::Rules;

/// Where else the work could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternates {
    /// Every other candidate.
    pub total: u32,
    /// Those of them that could take it.
    pub available: u32,
}

impl Alternates {
    /// Nothing else could take it.
    #[must_use]
    pub fn sole_route(&self) -> bool {
        self.available == 0
    }
}

/// The candidates that others may count on, in all and by what fails together.
pub(super) struct WaysOut<'a> {
    rules: &'a Rules<'a>,
    others: u32,
    available: u32,
    by_group: BTreeMap<&'a str, u32>,
    /// Nobody can vouch for any candidate that this request may use.
    pub(super) dark: bool,
}

impl<'a> WaysOut<'a> {
    pub(super) fn among(rules: &'a Rules<'a>, candidates: &'a [Candidate]) -> Self {
        let others = u32::try_from(candidates.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let dark = rules.mesh.is_some_and(|mesh| mesh.blackout(candidates));
        let mut ways = Self { rules, others, available: 0, by_group: BTreeMap::new(), dark };
        for candidate in candidates {
            if ways.is_available(candidate) {
                ways.available += 1;
                if rules.mesh.is_some() {
                    *ways.by_group.entry(fails_with(candidate)).or_default() += 1;
                }
            }
        }
        ways
    }

    /// What `candidate` could be replaced by. What fails together with it is no way out.
    pub(super) fn beside(&self, candidate: &Candidate) -> Alternates {
        let same = match self.rules.mesh {
            Some(_) => self.by_group.get(fails_with(candidate)).copied().unwrap_or(0),
            None => u32::from(self.is_available(candidate)),
        };
        Alternates { total: self.others, available: self.available.saturating_sub(same) }
    }

    /// Whether other candidates may count on this one. One that is barred for this request is no
    /// way out, nor is one that nobody can vouch for while others are known.
    fn is_available(&self, candidate: &Candidate) -> bool {
        candidate.health.state.carries()
            && !candidate.capacity.hard_saturated()
            && candidate.barred.is_none()
            && (self.dark || self.rules.mesh.is_none_or(|mesh| mesh.unknown(candidate).is_none()))
    }
}

/// The name of what fails together with a candidate: its risk group, or else itself.
fn fails_with(candidate: &Candidate) -> &str {
    match (&candidate.risk_group, &candidate.target.node) {
        (Some(group), _) => group.as_str(),
        (None, Some(node)) => node.as_str(),
        (None, None) => candidate.target.pool.as_str(),
    }
}
