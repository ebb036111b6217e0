//! A folder that one agent has for itself: made where it is missing, and locked for as long as the
//! agent lives.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::model::NodeName;

/// The file that is locked; it says who holds the folder.
const FILE: &str = "lock";
/// So many bytes of it are shown.
const MAX_SHOWN: u64 = 120;

/// Why an agent cannot have a folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another agent has it.
    #[error("{key}: {} is in use by {holder}; allowed a folder that no other agent uses", dir.display())]
    Held {
        /// The key that names it.
        key: &'static str,
        /// The folder.
        dir: PathBuf,
        /// Who has it, in its own words.
        holder: String,
    },
    /// It cannot be used.
    #[error("{key}: {}: {source}", path.display())]
    Io {
        /// The key that names it.
        key: &'static str,
        /// The folder, or the file in it that cannot be written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A folder, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    key: &'static str,
    dir: PathBuf,
    node: NodeName,
    lock: Arc<File>,
}

impl Folder {
    /// Makes the folder where it is missing, for this user alone, and locks it. `key` is what
    /// errors call it by.
    pub(crate) fn hold(key: &'static str, dir: &Path, node: &NodeName) -> Result<Self, FolderError> {
        make(dir).map_err(|source| FolderError::Io { key, path: dir.to_owned(), source })?;
        let path = dir.join(FILE);
        let failed = |source| FolderError::Io { key, path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(&path).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(FolderError::Held { key, dir: dir.to_owned(), holder: holder(&mut lock) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        sign(&mut lock, node).map_err(failed)?;
        Ok(Self { key, dir: dir.to_owned(), node: node.clone(), lock: Arc::new(lock) })
    }

    /// As [`hold`](Self::hold), for another purpose of the same agent: the folder may be this one.
    pub(crate) fn hold_also(&self, key: &'static str, dir: &Path) -> Result<Self, FolderError> {
        match self.is_locked_in(dir) {
            true => Ok(Self { key, dir: dir.to_owned(), node: self.node.clone(), lock: Arc::clone(&self.lock) }),
            false => Self::hold(key, dir, &self.node),
        }
    }

    /// Makes sure that the folder is still there and still held: it may have been removed or
    /// replaced.
    pub(crate) fn renew(&mut self) -> Result<(), FolderError> {
        if !self.is_locked_in(&self.dir) {
            *self = Self::hold(self.key, &self.dir, &self.node)?;
        }
        Ok(())
    }

    /// Whether the file that is locked is the one in `dir`, by whatever name that goes.
    fn is_locked_in(&self, dir: &Path) -> bool {
        let held = self.lock.metadata().map(|held| (held.dev(), held.ino())).ok();
        let found = dir.join(FILE).metadata().map(|found| (found.dev(), found.ino())).ok();
        held.is_some() && held == found
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

/// Makes a folder for this user alone, unless it is there.
pub(crate) fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn sign(lock: &mut File, node: &NodeName) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{node}, process {}", std::process::id())
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    // Whoever cannot be read is still there.
    let _ = lock.take(MAX_SHOWN).read_to_string(&mut text);
    match text.trim() {
        "" => "another process".to_owned(),
        holder => holder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone_and_belongs_to_one_agent_until_it_lets_go() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        let held = Folder::hold("journal.dir", &dir, &node("p0")).unwrap();
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
        let error = Folder::hold("journal.dir", &dir, &node("p1")).unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(
            error,
            format!(
                "journal.dir: {} is in use by p0, process {own}; allowed a folder that no other agent uses",
                dir.display()
            )
        );
        drop(held);
        Folder::hold("journal.dir", &dir, &node("a-longer-name")).unwrap();
        let held = Folder::hold("journal.dir", &dir, &node("p1")).unwrap();
        let error = Folder::hold("journal.dir", &dir, &node("p0")).unwrap_err().to_string();
        assert!(error.contains(&format!("in use by p1, process {own};")), "{error}");
        drop(held);
    }

    #[test]
    fn one_agent_may_have_a_folder_for_two_purposes_and_it_is_free_when_both_have_let_go() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a");
        let data = Folder::hold("node.data_dir", &dir, &node("p0")).unwrap();
        std::os::unix::fs::symlink(&dir, root.path().join("link")).unwrap();
        let mut journal = data.hold_also("journal.dir", &root.path().join("link")).unwrap();
        journal.renew().unwrap();
        let other = data.hold_also("journal.dir", &root.path().join("b")).unwrap();
        let taken = |name| {
            matches!(Folder::hold("journal.dir", &root.path().join(name), &node("p1")), Err(FolderError::Held { .. }))
        };
        assert!(taken("a") && taken("b"));
        drop((data, other));
        assert!(taken("a") && !taken("b"));
        drop(journal);
        assert!(!taken("a"));
    }

    #[test]
    fn a_folder_that_was_removed_is_held_anew() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a");
        let mut held = Folder::hold("journal.dir", &dir, &node("p0")).unwrap();
        held.renew().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        held.renew().unwrap();
        assert!(matches!(Folder::hold("journal.dir", &dir, &node("p1")), Err(FolderError::Held { .. })));
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::write(&dir, "no folder").unwrap();
        assert!(matches!(held.renew(), Err(FolderError::Io { .. })));
    }
}
