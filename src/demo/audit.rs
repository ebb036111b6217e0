//! Over-commits, found from outside: from the leases as an engine learns of them.

use std::collections::BTreeMap;

use crate::model::{Extent, LeaseId, NodeName};

/// One lease as the demo knows it: held for certain from `from_ns` to `until_ns`.
///
/// The demo learns of a grant after it was made, and says before it asks for a release that the
/// lease ended; so what it takes for held is held, and an over-commit found here is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) lease: LeaseId,
    pub(crate) extents: Vec<Extent>,
    /// From the run's start.
    pub(crate) from_ns: u64,
    /// From the run's start; the end itself is not included.
    pub(crate) until_ns: u64,
}

/// Counts grants that gave a host more sessions than it has, or an extent twice.
pub(crate) fn over_commits(held: &[Held], max_sessions: u32) -> u64 {
    let mut hosts: BTreeMap<&NodeName, Vec<&Held>> = BTreeMap::new();
    for lease in held.iter().filter(|lease| lease.from_ns < lease.until_ns) {
        hosts.entry(&lease.lease.node).or_default().push(lease);
    }
    hosts.into_values().map(|leases| of_host(leases, max_sessions)).sum()
}

fn of_host(mut leases: Vec<&Held>, max_sessions: u32) -> u64 {
    leases.sort_by_key(|lease| lease.from_ns);
    let mut found = 0;
    let mut live: Vec<&Held> = Vec::new();
    for lease in leases {
        live.retain(|other| other.until_ns > lease.from_ns);
        let too_many = live.len() >= max_sessions as usize;
        let twice = live.iter().any(|other| overlap(&other.extents, &lease.extents));
        found += u64::from(too_many || twice);
        live.push(lease);
    }
    found
}

fn overlap(left: &[Extent], right: &[Extent]) -> bool {
    let end = |extent: &Extent| extent.end().unwrap_or(u64::MAX);
    left.iter().any(|a| right.iter().any(|b| a.offset < end(b) && b.offset < end(a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(lease: &str, extents: &[(u64, u64)], from_ns: u64, until_ns: u64) -> Held {
        let extents = extents.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect();
        Held { lease: lease.parse().unwrap(), extents, from_ns, until_ns }
    }

    #[test]
    fn one_session_too_many_is_one_over_commit() {
        let leases = [held("d0.1.1", &[], 0, 10), held("d0.1.2", &[], 1, 10), held("d0.1.3", &[], 9, 20)];
        assert_eq!(over_commits(&leases, 3), 0);
        assert_eq!(over_commits(&leases, 2), 1);
    }

    #[test]
    fn a_session_that_ended_makes_room_and_hosts_do_not_share() {
        let leases = [held("d0.1.1", &[], 0, 10), held("d0.1.2", &[], 10, 20), held("d1.1.1", &[], 5, 15)];
        assert_eq!(over_commits(&leases, 1), 0);
    }

    #[test]
    fn extents_handed_out_twice_are_found_whatever_the_order() {
        let first = held("d0.1.1", &[(0, 10), (40, 10)], 0, 10);
        for (extents, expected) in [(&[(10, 30)], 0), (&[(49, 1)], 1), (&[(30, 11)], 1), (&[(0, 100)], 1)] {
            let second = held("d0.1.2", extents, 5, 6);
            assert_eq!(over_commits(&[second, first.clone()], 8), expected, "{extents:?}");
        }
        let later = held("d0.1.2", &[(0, 100)], 10, 20);
        assert_eq!(over_commits(&[first, later], 8), 0);
    }

    #[test]
    fn a_lease_that_was_never_certain_counts_for_nothing() {
        assert_eq!(over_commits(&[held("d0.1.1", &[], 5, 5), held("d0.1.2", &[], 5, 9)], 1), 0);
    }
}
