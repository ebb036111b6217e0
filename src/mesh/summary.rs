//! A set in short: what two members compare before they tell each other anything.

use super::Member;
use super::wire::RecordKind;
use crate::model::{Generation, NodeName};

/// Into how many buckets a set falls; one bit each in a `u64`.
pub(crate) const BUCKETS: usize = 64;

/// For each bucket the exclusive or of its entries' hashes. Equal sets have equal summaries; that
/// unequal ones do is as likely as two equal random numbers of 64 bits. Whoever contrives such a
/// case can hide its own entries, and nobody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary([u64; BUCKETS]);

/// Which buckets, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketSet(pub(crate) u64);

/// Where an entry is counted, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    bucket: usize,
    hash: u64,
}

impl Entry {
    /// A version of a record. All versions of one record are in the same bucket.
    pub(crate) fn of_record(origin: &NodeName, kind: RecordKind, version: (Generation, u64)) -> Self {
        let number = match kind {
            RecordKind::Node => 0,
            RecordKind::Load => 1,
            RecordKind::Paths(chunk) => 2 + u64::from(chunk),
        };
        let key = fnv(fnv(FNV_BASIS, origin.as_str().as_bytes()), &number.to_le_bytes());
        let hash = fnv(fnv(key, &version.0.to_le_bytes()), &version.1.to_le_bytes());
        Self { bucket: bucket(key), hash: mix(hash) }
    }

    /// A member that is not down. How often it refuted a suspicion is left out, since a member does
    /// not count its own refutations where this could be compared.
    pub(crate) fn of_member(member: &Member, state: foca::State) -> Self {
        let key = fnv(FNV_BASIS, member.name.as_str().as_bytes());
        let ip = match member.addr.ip() {
            std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(ip) => ip.octets(),
        };
        let hash = fnv(fnv(key, &ip), &member.addr.port().to_le_bytes());
        let hash = fnv(fnv(hash, &member.generation.to_le_bytes()), &member.renewals.to_le_bytes());
        Self { bucket: bucket(key), hash: mix(fnv(hash, &[u8::from(state == foca::State::Suspect)])) }
    }

    pub(crate) fn bucket(self) -> usize {
        self.bucket
    }

    pub(crate) fn is_in(self, buckets: BucketSet) -> bool {
        buckets.0 & (1 << self.bucket) != 0
    }
}

impl Default for Summary {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Summary {
    /// Puts an entry in, or takes it out again.
    pub(crate) fn toggle(&mut self, entry: Entry) {
        if let Some(bucket) = self.0.get_mut(entry.bucket) {
            *bucket ^= entry.hash;
        }
    }

    /// One number for all of it.
    pub(crate) fn root(&self) -> u64 {
        self.0.iter().fold(FNV_BASIS, |hash, bucket| fnv(hash, &bucket.to_le_bytes()))
    }

    pub(crate) fn buckets(&self) -> Vec<u64> {
        self.0.to_vec()
    }

    /// In which buckets another's set differs.
    pub(crate) fn differing(&self, theirs: &[u64]) -> BucketSet {
        let differs = |(index, (mine, theirs)): (usize, (&u64, &u64))| (mine != theirs).then_some(1 << index);
        BucketSet(self.0.iter().zip(theirs).enumerate().filter_map(differs).fold(0, |set, bit: u64| set | bit))
    }
}

impl FromIterator<Entry> for Summary {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        let mut summary = Self::default();
        entries.into_iter().for_each(|entry| summary.toggle(entry));
        summary
    }
}

impl BucketSet {
    /// The buckets in it one by one, from `first` on and around.
    pub(crate) fn from(self, first: usize) -> impl Iterator<Item = Self> {
        (0..BUCKETS).map(move |step| Self(1 << ((first + step) % BUCKETS))).filter(move |one| self.0 & one.0 != 0)
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Where FNV-1a begins.
pub(crate) const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, continued from `hash`.
pub(crate) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Spreads what FNV leaves in the low bits over all of them (the finaliser of `MurmurHash3`).
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn bucket(key: u64) -> usize {
    usize::try_from(mix(key) % BUCKETS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: usize, seq: u64) -> Entry {
        let name = NodeName::new(&format!("n{index}")).unwrap();
        Entry::of_record(&name, RecordKind::Load, (7, seq))
    }

    #[test]
    fn a_set_has_one_summary_however_it_came_about_and_a_change_shows_in_its_bucket_alone() {
        let all: Summary = (0..500).map(|index| entry(index, 1)).collect();
        let mut other: Summary = (0..500).rev().map(|index| entry(index, 1)).collect();
        assert_eq!(other, all);
        assert_eq!(all.differing(&other.buckets()), BucketSet(0));
        other.toggle(entry(3, 1));
        other.toggle(entry(3, 2));
        assert_ne!(other.root(), all.root());
        let differing = all.differing(&other.buckets());
        assert_eq!(differing.0.count_ones(), 1);
        assert!(entry(3, 9).is_in(differing), "all versions share a bucket");
        other.toggle(entry(3, 2));
        other.toggle(entry(3, 1));
        assert_eq!(other.root(), all.root());
    }

    #[test]
    fn entries_spread_over_all_buckets_and_every_part_of_a_version_counts() {
        let mut sizes = [0; BUCKETS];
        for index in 0..6_400 {
            sizes[entry(index, 1).bucket] += 1;
        }
        assert!(sizes.iter().all(|size| (50..200).contains(size)), "{sizes:?}");
        let name = NodeName::new("n1").unwrap();
        let of = |kind, generation, seq| Entry::of_record(&name, kind, (generation, seq)).hash;
        let one = of(RecordKind::Load, 7, 1);
        assert!(
            [of(RecordKind::Node, 7, 1), of(RecordKind::Load, 8, 1), of(RecordKind::Load, 7, 2)]
                .iter()
                .all(|h| *h != one)
        );

        let member = Member { name, addr: "10.0.0.1:7".parse().unwrap(), generation: 5, renewals: 1 };
        let of = |member: &Member, state| Entry::of_member(member, state).hash;
        let alive = of(&member, foca::State::Alive);
        let changes: [fn(&mut Member); 4] = [
            |m| m.addr.set_port(8),
            |m| m.addr.set_ip("10.0.0.2".parse().unwrap()),
            |m| m.generation += 1,
            |m| m.renewals += 1,
        ];
        for change in changes {
            let mut other = member.clone();
            change(&mut other);
            assert_ne!(of(&other, foca::State::Alive), alive);
        }
        assert_ne!(of(&member, foca::State::Suspect), alive);
    }

    #[test]
    fn the_buckets_of_a_set_come_one_by_one_from_anywhere_on() {
        let set = BucketSet(1 | 1 << 5 | 1 << 63);
        assert_eq!(set.from(6).map(|one| one.0).collect::<Vec<_>>(), [1 << 63, 1, 1 << 5]);
        assert_eq!(set.from(0).fold(BucketSet::default(), BucketSet::with), set);
    }
}
