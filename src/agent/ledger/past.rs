//! What a decode host remembers of its earlier life: whether that granted leases and did not end
//! cleanly, and for how long the longest of them could last.
//!
//! A file in `node.data_dir` that is there from the first lease of a life until its clean end. It
//! need not survive the machine, only the process: an engine that is gone with the machine holds
//! nothing either. It holds two numbers, in milliseconds: the longest time to live, and the longest
//! fence after it. Earlier versions wrote the first one only.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::agent::settings::MAX_LEASE_TTL_MS;
use crate::ledger::LongestLease;

const FILE: &str = "leases";

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    path: PathBuf,
}

impl Past {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// The longest lease that the earlier life granted; none if it left nothing behind. What cannot
    /// be read is taken for the longest time to live that there is.
    pub(crate) fn longest_lease(&self) -> Option<LongestLease> {
        let detail = match std::fs::read_to_string(&self.path) {
            Ok(text) => {
                let mut numbers = text.split_whitespace().map(str::parse);
                match (numbers.next(), numbers.next().unwrap_or(Ok(0)), numbers.next()) {
                    (Some(Ok(ttl_ms)), Ok(fence_max_ms), None) => return Some(LongestLease { ttl_ms, fence_max_ms }),
                    _ => "holds neither one number nor two".to_owned(),
                }
            }
            Err(missing) if missing.kind() == ErrorKind::NotFound => return None,
            Err(other) => other.to_string(),
        };
        tracing::warn!(file = %self.path.display(), %detail, "what the earlier life granted is not known");
        Some(LongestLease { ttl_ms: MAX_LEASE_TTL_MS, fence_max_ms: 0 })
    }

    /// Notes, whole or not at all, for how long leases last at most. Where that fails the host
    /// goes on: only if it is killed too would the next life take that for a clean end.
    pub(crate) fn note(&self, longest: LongestLease) {
        let write = || {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            writeln!(file, "{} {}", longest.ttl_ms, longest.fence_max_ms)?;
            file.persist(&self.path).map_err(|persist| persist.error)
        };
        if let Err(error) = write() {
            tracing::error!(file = %self.path.display(), %error, "leases cannot be noted: a life after a kill would not know of them");
        }
    }

    /// This life ends and leaves nothing behind.
    pub(crate) fn forget(&self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(file = %self.path.display(), %error, "a clean end cannot be noted");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(ttl_ms: u64, fence_max_ms: u64) -> LongestLease {
        LongestLease { ttl_ms, fence_max_ms }
    }

    #[test]
    fn a_first_life_and_one_after_a_clean_end_have_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let past = Past::of(dir.path());
        assert_eq!(past.longest_lease(), None);
        past.note(longest(16_384, 30_000));
        past.note(longest(32_768, 40_000));
        assert_eq!(past.longest_lease(), Some(longest(32_768, 40_000)));
        past.forget();
        past.forget();
        assert_eq!(past.longest_lease(), None);
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read_and_its_fence_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "16384\n").unwrap();
        assert_eq!(Past::of(dir.path()).longest_lease(), Some(longest(16_384, 0)));
    }

    #[test]
    fn a_file_that_holds_no_numbers_stands_for_the_longest_lease() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "x", "5 x", "5 6 7", "-1", "5 -6"] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            assert_eq!(Past::of(dir.path()).longest_lease(), Some(longest(MAX_LEASE_TTL_MS, 0)), "{text:?}");
        }
    }

    #[test]
    fn a_folder_that_takes_no_file_stops_nothing() {
        let past = Past::of(Path::new("/proc/self/no-such-folder"));
        past.note(longest(1_000, 1_000));
        assert_eq!(past.longest_lease(), None);
    }
}
