//! An operator's word on a path, on all paths to a host, or on nothing any more: recorded, bounded,
//! and expiring, so that no exception outlives its reason unseen.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::Mono;
use crate::model::{InvalidName, NodeName, PathId, PathState};

/// Overrides that hold at the same time at most.
pub const MAX_OVERRIDES: usize = 1_024;
/// The longest life of one, in milliseconds: a week.
pub const MAX_OVERRIDE_TTL_MS: u64 = 7 * 24 * 3_600_000;

/// What an override is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverrideTarget {
    /// One path, written `source>destination/rail/backend`.
    Path(PathId),
    /// Every path to one host, written as its name.
    Node(NodeName),
}

impl fmt::Display for OverrideTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Node(node) => node.fmt(f),
        }
    }
}

impl FromStr for OverrideTarget {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.contains('>') { text.parse().map(Self::Path) } else { NodeName::new(text).map(Self::Node) }
    }
}

impl Serialize for OverrideTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OverrideTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// An operator's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Override {
    /// What it is about.
    pub target: OverrideTarget,
    /// The state that decisions read instead of the measured one.
    pub state: PathState,
    /// Why, in the operator's words.
    pub reason: String,
}

/// The overrides that hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overrides {
    held: BTreeMap<OverrideTarget, (PathState, String, Mono)>,
}

impl Overrides {
    /// The overrides that hold at `now`, each with the milliseconds that it has left.
    pub fn list(&self, now: Mono) -> impl Iterator<Item = (Override, u64)> {
        self.held.iter().map(move |(target, (state, reason, until))| {
            let said = Override { target: target.clone(), state: *state, reason: reason.clone() };
            (said, until.ms_since(now))
        })
    }

    /// Takes an override; a later word on the same target replaces the earlier one. False if the
    /// table is full.
    pub(super) fn set(&mut self, said: Override, until: Mono) -> bool {
        if self.held.len() >= MAX_OVERRIDES && !self.held.contains_key(&said.target) {
            return false;
        }
        self.held.insert(said.target, (said.state, said.reason, until));
        true
    }

    /// Withdraws an override; true if there was one.
    pub(super) fn withdraw(&mut self, target: &OverrideTarget) -> bool {
        self.held.remove(target).is_some()
    }

    /// What holds for a path: the word on it, or else the one on its destination.
    pub(super) fn of(&self, path: &PathId) -> Option<PathState> {
        if self.held.is_empty() {
            return None;
        }
        let on_path = self.held.get(&OverrideTarget::Path(path.clone()));
        let found = on_path.or_else(|| self.held.get(&OverrideTarget::Node(path.destination.clone())));
        found.map(|(state, _, _)| *state)
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        self.held.values().map(|(_, _, until)| *until).min()
    }

    /// Forgets those whose time has come, and says which.
    pub(super) fn expire(&mut self, now: Mono) -> Vec<OverrideTarget> {
        let over: Vec<_> =
            self.held.iter().filter(|(_, (_, _, until))| *until <= now).map(|(target, _)| target.clone()).collect();
        over.iter().for_each(|target| {
            self.held.remove(target);
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(target: &str, state: PathState) -> Override {
        Override { target: target.parse().unwrap(), state, reason: "maintenance".to_owned() }
    }

    #[test]
    fn the_word_on_a_path_goes_before_the_word_on_its_host_and_both_expire() {
        let mut overrides = Overrides::default();
        let path: PathId = "p0>d0/r0/quic".parse().unwrap();
        assert_eq!(overrides.of(&path), None);
        assert!(overrides.set(said("d0", PathState::Quarantined), Mono(20)));
        assert_eq!(overrides.of(&path), Some(PathState::Quarantined));
        assert!(overrides.set(said("p0>d0/r0/quic", PathState::Healthy), Mono(10)));
        assert_eq!(overrides.of(&path), Some(PathState::Healthy));
        assert_eq!(overrides.deadline(), Some(Mono(10)));
        assert_eq!(overrides.expire(Mono(10)), [OverrideTarget::Path(path.clone())]);
        assert_eq!(overrides.of(&path), Some(PathState::Quarantined));
        assert!(overrides.withdraw(&"d0".parse().unwrap()));
        assert_eq!((overrides.of(&path), overrides.deadline()), (None, None));
    }

    #[test]
    fn the_table_is_bounded_and_a_known_target_can_always_be_changed() {
        let mut overrides = Overrides::default();
        for index in 0..MAX_OVERRIDES {
            assert!(overrides.set(said(&format!("d{index}"), PathState::Restored), Mono(1)));
        }
        assert!(!overrides.set(said("one-more", PathState::Restored), Mono(1)));
        assert!(overrides.set(said("d0", PathState::Healthy), Mono(1)));
    }

    #[test]
    fn a_target_reads_back_as_written_and_nonsense_is_refused() {
        for text in ["d0", "p0>d0/r0/quic"] {
            assert_eq!(text.parse::<OverrideTarget>().unwrap().to_string(), text);
        }
        assert!("p0>d0".parse::<OverrideTarget>().is_err());
        assert!("a b".parse::<OverrideTarget>().is_err());
    }
}
