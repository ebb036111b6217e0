//! What a decode host remembers of its earlier life: whether that granted leases and did not end
//! cleanly, and for how long the longest of them could live.
//!
//! A file in `node.data_dir` that is there from the first lease of a life until its clean end. It
//! need not survive the machine, only the process: an engine that is gone with the machine holds
//! nothing either.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::agent::settings::MAX_LEASE_TTL_MS;

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

    /// The longest time to live that the earlier life granted, in milliseconds; none if it left
    /// nothing behind. What cannot be read is taken for the longest there is.
    pub(crate) fn longest_ttl_ms(&self) -> Option<u64> {
        let detail = match std::fs::read_to_string(&self.path) {
            Ok(text) => match text.trim().parse() {
                Ok(ttl_ms) => return Some(ttl_ms),
                Err(_) => "holds no number".to_owned(),
            },
            Err(missing) if missing.kind() == ErrorKind::NotFound => return None,
            Err(other) => other.to_string(),
        };
        tracing::warn!(file = %self.path.display(), %detail, "what the earlier life granted is not known");
        Some(MAX_LEASE_TTL_MS)
    }

    /// Notes, whole or not at all, that leases live for `ttl_ms` at most. Where that fails the host
    /// goes on: only if it is killed too would the next life take that for a clean end.
    pub(crate) fn note(&self, ttl_ms: u64) {
        let write = || {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            writeln!(file, "{ttl_ms}")?;
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

    #[test]
    fn a_first_life_and_one_after_a_clean_end_have_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let past = Past::of(dir.path());
        assert_eq!(past.longest_ttl_ms(), None);
        past.note(16_384);
        past.note(32_768);
        assert_eq!(past.longest_ttl_ms(), Some(32_768));
        past.forget();
        past.forget();
        assert_eq!(past.longest_ttl_ms(), None);
    }

    #[test]
    fn a_file_that_holds_no_number_stands_for_the_longest_lease() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "x").unwrap();
        assert_eq!(Past::of(dir.path()).longest_ttl_ms(), Some(MAX_LEASE_TTL_MS));
    }

    #[test]
    fn a_folder_that_takes_no_file_stops_nothing() {
        let past = Past::of(Path::new("/proc/self/no-such-folder"));
        past.note(1_000);
        assert_eq!(past.longest_ttl_ms(), None);
    }
}
