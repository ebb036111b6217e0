//! Where a degradation is placed: on the host that sends, on the one that receives, or on the
//! network between them. One observer cannot tell; several can.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Blame, NodeName};

/// Of what one host is at, or between: more than half of it.
const MOST: (usize, usize) = (1, 2);

/// Which sources say of which destinations that a path between them is degraded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Complaints {
    by_destination: BTreeMap<NodeName, Vec<NodeName>>,
    by_source: BTreeMap<NodeName, usize>,
}

impl Complaints {
    /// One entry for each pair of a source and a destination with a degraded path.
    pub(super) fn of<'a>(pairs: impl Iterator<Item = (&'a NodeName, &'a NodeName)>) -> Self {
        let mut complaints = Self::default();
        for (source, destination) in pairs {
            let by = complaints.by_destination.entry(destination.clone()).or_default();
            if !by.contains(source) {
                by.push(source.clone());
                *complaints.by_source.entry(source.clone()).or_default() += 1;
            }
        }
        complaints
    }

    /// Places the degradation of a path from `source` to `destination`, which degrades. Of the
    /// `sources` and `destinations` that are alive, those beside these two are the witnesses.
    pub(super) fn blame(
        &self,
        source: &NodeName,
        destination: &NodeName,
        sources: usize,
        destinations: usize,
    ) -> Option<Blame> {
        let other_sources = sources.saturating_sub(1);
        let other_destinations = destinations.saturating_sub(1);
        let also_from =
            self.by_destination.get(destination).map_or(0, |by| by.iter().filter(|by| *by != source).count());
        let from_here = self.by_source.get(source).copied().unwrap_or(0);
        let here = self.by_destination.get(destination).is_some_and(|by| by.contains(source));
        let also_to = from_here.saturating_sub(usize::from(here));
        let most = |part: usize, whole: usize| whole > 0 && part * MOST.1 > whole * MOST.0;
        if most(also_from, other_sources) {
            Some(Blame::Destination)
        } else if most(also_to, other_destinations) {
            Some(Blame::Source)
        } else if other_sources > 0 && other_destinations > 0 {
            Some(Blame::Between)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(pairs: &[(&str, &str)]) -> Complaints {
        let names: Vec<(NodeName, NodeName)> =
            pairs.iter().map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap())).collect();
        Complaints::of(names.iter().map(|(from, to)| (from, to)))
    }

    fn blame(pairs: &[(&str, &str)], sources: usize, destinations: usize) -> Option<Blame> {
        complaints(pairs).blame(&"p0".parse().unwrap(), &"d0".parse().unwrap(), sources, destinations)
    }

    #[test]
    fn what_most_witnesses_share_is_to_blame() {
        type Row = (&'static [(&'static str, &'static str)], usize, usize, Option<Blame>);
        let table: [Row; 8] = [
            // Only this path.
            (&[("p0", "d0")], 3, 3, Some(Blame::Between)),
            // Two rails to one host are one pair.
            (&[("p0", "d0"), ("p0", "d0")], 2, 2, Some(Blame::Between)),
            // All paths of the source.
            (&[("p0", "d0"), ("p0", "d1"), ("p0", "d2")], 3, 3, Some(Blame::Source)),
            (&[("p0", "d0"), ("p0", "d1")], 3, 3, Some(Blame::Between)),
            // Every observer sees the destination.
            (&[("p0", "d0"), ("p1", "d0"), ("p2", "d0")], 3, 3, Some(Blame::Destination)),
            (&[("p0", "d0"), ("p1", "d0")], 3, 3, Some(Blame::Between)),
            // Nobody else can be asked.
            (&[("p0", "d0")], 1, 1, None),
            (&[("p0", "d0")], 1, 4, None),
        ];
        for (pairs, sources, destinations, expected) in table {
            assert_eq!(blame(pairs, sources, destinations), expected, "{pairs:?} of {sources} and {destinations}");
        }
    }

    #[test]
    fn a_source_without_witnesses_is_blamed_only_if_most_of_its_paths_are_bad() {
        assert_eq!(blame(&[("p0", "d0"), ("p0", "d1"), ("p0", "d2")], 1, 4), Some(Blame::Source));
    }
}
