//! One file that only grows: bytes are gathered, written whole or taken back, and forced to the disk
//! now and then.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// So many bytes are gathered before they are written.
const GATHERED: usize = 256 * 1024;

/// A file and what is still to be written to it.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: File,
    gathered: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    /// Not all of them have been forced to the disk.
    unsynced: bool,
    /// When they were last.
    synced: Instant,
    opened: Instant,
}

impl Output {
    /// Makes the file, for this user alone, and its name durable. Where that fails there is none, so that
    /// it can be tried again.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        Self::create_with(path, sync_folder)
    }

    fn create_with(path: PathBuf, durable: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Self> {
        let file = open_new(&path)?;
        durable(&path).inspect_err(|_| discard(&path))?;
        let now = Instant::now();
        Ok(Self { path, file, gathered: Vec::new(), written: 0, unsynced: false, synced: now, opened: now })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Since when it is there.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Since when nothing has been forced to the disk.
    pub(super) fn synced(&self) -> Instant {
        self.synced
    }

    /// Whether enough has been gathered to be written.
    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= GATHERED
    }

    /// Bytes so far, the gathered ones included.
    pub(super) fn len(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    /// Writes what was gathered and says how many bytes that is. If that fails the file ends where
    /// it ended before, as far as the system allows.
    pub(super) fn write_out(&mut self) -> io::Result<u64> {
        if self.gathered.is_empty() {
            return Ok(0);
        }
        if let Err(error) = self.file.write_all(&self.gathered) {
            // A disk that is full still lets a file shrink; if not, the file's end is torn.
            let _ = self.file.set_len(self.written);
            return Err(error);
        }
        let bytes = self.gathered.len() as u64;
        self.written += bytes;
        self.unsynced = true;
        self.gathered.clear();
        self.gathered.shrink_to(GATHERED);
        Ok(bytes)
    }

    /// Forces what was written to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync_data()?;
            self.unsynced = false;
        }
        self.synced = Instant::now();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) {
        self.file = file;
    }

    /// Whether the file is still where it was made, and has what was written: an operator may have deleted,
    /// moved or truncated it.
    pub(super) fn is_in_place(&self) -> bool {
        let Ok(own) = self.file.metadata() else { return false };
        if own.len() < self.written {
            return false;
        }
        let found = self.path.symlink_metadata();
        own.nlink() > 0 && found.is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()))
    }
}

/// Removes a file that is of no use to anybody. One that cannot be removed is taken again.
pub(super) fn discard(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Makes a file that is not there, or takes an empty one, which only an attempt that failed can have left.
fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Appended: were the file cut meanwhile, what is written elsewhere would come after a hole of zeros.
    options.append(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match path.symlink_metadata()? {
            found if found.is_file() && found.len() == 0 => options.open(path),
            _ => Err(error),
        },
        opened => opened,
    }
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_could_not_be_made_whole_is_gone_or_taken_again_and_another_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let refused = |path: &Path| {
            assert!(path.exists());
            Err(io::Error::other("refused"))
        };
        assert_eq!(Output::create_with(path.clone(), refused).unwrap_err().to_string(), "refused");
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        let mut output = Output::create(path.clone()).unwrap();
        output.write_all(b"abc").unwrap();
        output.write_out().unwrap();
        assert_eq!(Output::create(path.clone()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert_eq!(Output::create(link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_that_was_moved_deleted_replaced_or_cut_is_not_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut output = Output::create(path.clone()).unwrap();
        output.write_all(b"abc").unwrap();
        assert_eq!((output.len(), output.write_out().unwrap()), (3, 3));
        assert!(output.is_in_place());
        std::fs::rename(&path, dir.path().join("b")).unwrap();
        assert!(!output.is_in_place());
        std::fs::write(&path, "another").unwrap();
        assert!(!output.is_in_place());
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(dir.path().join("b"), &path).unwrap();
        assert!(output.is_in_place());
        // Copied away and emptied.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert!(!output.is_in_place());
        output.write_all(b"de").unwrap();
        output.write_out().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"de", "without a hole");
        assert!(!output.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!output.is_in_place());
        assert_eq!(output.len(), 5);
    }
}
