//! Which classes the requests of a trace have: traces do not say.

use std::fmt;
use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::model::WorkloadName;

/// Classes of one mix at most.
pub const MAX_CLASSES: usize = 64;
/// The largest share.
pub const MAX_SHARE: u32 = 1_000_000;

/// Shares by class: a request has a class as often as its share of the sum says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(WorkloadName, u32)>);

impl Mix {
    /// The classes and their shares, in the order in which they were given.
    pub fn shares(&self) -> impl Iterator<Item = (&WorkloadName, u32)> {
        self.0.iter().map(|(class, share)| (class, *share))
    }

    /// The class of the next request.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Option<&WorkloadName> {
        let sum: u64 = self.0.iter().map(|(_, share)| u64::from(*share)).sum();
        // The bias of a remainder of 2^64 by so small a number is far below what any run could show.
        let mut rest = rng.next_u64().checked_rem(sum)?;
        for (class, share) in &self.0 {
            match rest.checked_sub(u64::from(*share)) {
                Some(less) => rest = less,
                None => return Some(class),
            }
        }
        None
    }
}

impl Default for Mix {
    /// 45 % batch, 40 % interactive, 15 % release.
    fn default() -> Self {
        let shares = [("batch", 45), ("interactive", 40), ("release", 15)];
        Self(shares.into_iter().filter_map(|(class, share)| Some((class.parse().ok()?, share))).collect())
    }
}

/// Why a text is no mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, allowed: CLASS=SHARE, … with each class once and shares from 1 to {MAX_SHARE}, {MAX_CLASSES} classes at most"
)]
pub struct MixError {
    /// The part at fault, cut to a printable length.
    pub found: String,
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut shares: Vec<(WorkloadName, u32)> = Vec::new();
        for part in text.split(',') {
            let wrong = || MixError { found: part.trim().chars().take(80).collect() };
            let (class, share) = part.split_once('=').ok_or_else(wrong)?;
            let class: WorkloadName = class.trim().parse().map_err(|_| wrong())?;
            let share = share.trim().parse().ok().filter(|share| (1..=MAX_SHARE).contains(share)).ok_or_else(wrong)?;
            if shares.len() >= MAX_CLASSES || shares.iter().any(|(known, _)| *known == class) {
                return Err(wrong());
            }
            shares.push((class, share));
        }
        Ok(Self(shares))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<String> = self.0.iter().map(|(class, share)| format!("{class}={share}")).collect();
        f.pad(&shares.join(","))
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn classes_come_as_often_as_their_shares_say() {
        let mix: Mix = "batch=3, interactive=1".parse().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let drawn = (0..10_000).filter(|_| mix.draw(&mut rng).unwrap().as_str() == "batch").count();
        assert!(drawn.abs_diff(7_500) < 150, "{drawn}");
    }

    #[test]
    fn a_mix_is_said_as_it_is_read() {
        assert_eq!(Mix::default().to_string(), "batch=45,interactive=40,release=15");
        assert_eq!(Mix::default().to_string().parse(), Ok(Mix::default()));
    }

    #[test]
    fn what_is_no_mix_is_named() {
        let many = (0..=MAX_CLASSES).map(|number| format!("c{number}=1")).collect::<Vec<_>>().join(",");
        let cases = [
            ("", ""),
            ("batch", "batch"),
            ("batch=0", "batch=0"),
            ("batch=-1", "batch=-1"),
            ("batch=1000001", "batch=1000001"),
            ("batch=1,batch=2", "batch=2"),
            ("batch=1,", ""),
            ("a b=1", "a b=1"),
            (&*many, "c64=1"),
        ];
        for (text, found) in cases {
            assert_eq!(text.parse::<Mix>(), Err(MixError { found: found.to_owned() }), "{text}");
        }
    }
}
