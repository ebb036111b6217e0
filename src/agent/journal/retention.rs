//! How many bytes of old files are kept.

use std::path::{Path, PathBuf};

/// Deletes the oldest of `files`, which come oldest first, until those that are left have at most
/// `limit` bytes. `kept` is never deleted.
pub(super) fn trim(files: impl IntoIterator<Item = PathBuf>, kept: &Path, limit: u64) {
    let size = |path: PathBuf| path.metadata().ok().map(|found| (path, found.len()));
    let sized: Vec<(PathBuf, u64)> = files.into_iter().filter(|path| path != kept).filter_map(size).collect();
    let mut total: u64 = sized.iter().map(|(_, bytes)| bytes).sum();
    for (path, bytes) in sized {
        if total <= limit {
            return;
        }
        match std::fs::remove_file(&path) {
            Ok(()) => tracing::debug!(path = %path.display(), bytes, "deleted: older than what is retained"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot be deleted"),
        }
        total -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_until_the_rest_fits_and_the_one_being_written_stays() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b", "c", "d"].iter().map(|name| dir.path().join(name)).collect();
        let left = || files.iter().filter(|path| path.exists()).count();
        files.iter().for_each(|path| std::fs::write(path, [0; 10]).unwrap());
        trim(files.clone(), &files[3], 30);
        assert_eq!(left(), 4);
        trim(files.clone(), &files[3], 29);
        assert!(!files[0].exists() && left() == 3);
        trim(files.clone(), &files[3], 0);
        assert!(files[3].exists() && left() == 1);
    }
}
