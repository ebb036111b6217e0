//! A host's registered KV memory: a file that the engine and the agent both map.
//!
//! Other processes may read and write it at any time, so no reference into the map ever exists:
//! bytes are copied in and out by bounds-checked calls. Who may touch which extent when is the
//! ledger's business. Other unsafe code is only where a library is called: in `transport`, and where
//! the doctor asks the kernel about the clock.

mod run;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use memmap2::{MmapOptions, MmapRaw};
use serde::{Deserialize, Serialize};

use crate::model::Extent;
pub use run::{BadExtents, Run};

/// Bytes copied at a time where a buffer is needed.
const CHUNK: usize = 64 * 1024;

/// Why there is no arena.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// A size that cannot be mapped.
    #[error("arena size {bytes} is not allowed: 1 byte to {} bytes", isize::MAX)]
    Size {
        /// What was asked for.
        bytes: u64,
    },
    /// The file exists with another size; whoever maps it now would lose its end.
    #[error("{} exists with {found} bytes, configured are {expected}; remove it or change the size", path.display())]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The configured size.
        expected: u64,
    },
    /// The memory is not there, or the file cannot be made or mapped.
    #[error("arena {} of {bytes} bytes: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its intended size.
        bytes: u64,
        /// The system's word.
        source: io::Error,
    },
}

/// A range that is not within the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at offset {offset} are not within the arena's {size}")]
pub struct OutOfArena {
    /// First byte asked for.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// How many the arena has.
    pub size: u64,
}

/// What memory bytes are in, as transports must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Segment {
    /// The host's.
    Dram,
    /// That of one of its GPUs.
    Vram {
        /// Its number on that host.
        device: u32,
    },
}

/// A mapped arena.
#[derive(Debug)]
pub struct Arena {
    map: MmapRaw,
    size: u64,
}

impl Arena {
    /// Maps the file at `path`, of exactly `bytes` bytes; makes it (readable and writable by its
    /// owner only) if it does not exist. All its memory is reserved and touched before this
    /// returns, so that no later access can fail for want of memory or be slow for being first:
    /// that takes about a second for 4 GiB.
    ///
    /// # Errors
    /// [`ArenaError`] says whether the size, an existing file or the system is at fault.
    pub fn open(path: &Path, bytes: u64) -> Result<Self, ArenaError> {
        mappable(bytes)?;
        let io = |source| ArenaError::Io { path: path.to_owned(), bytes, source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        let found = file.metadata().map_err(io)?.len();
        if found != 0 && found != bytes {
            return Err(ArenaError::OtherSize { path: path.to_owned(), found, expected: bytes });
        }
        let arena = Self::map(&file, path, bytes);
        if arena.is_err() && found == 0 {
            // Best effort: what was reserved of a new file goes back.
            let _ = file.set_len(0);
        }
        arena
    }

    /// An arena that no other process can find and that ends with this value.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn anonymous(bytes: u64) -> Result<Self, ArenaError> {
        let shm = Path::new("/dev/shm");
        let file = tempfile::tempfile_in(shm).or_else(|_| tempfile::tempfile()).map_err(|source| ArenaError::Io {
            path: shm.to_owned(),
            bytes,
            source,
        })?;
        Self::map(&file, shm, bytes)
    }

    fn map(file: &File, path: &Path, bytes: u64) -> Result<Self, ArenaError> {
        let length = mappable(bytes)?;
        reserve(file, bytes)
            .and_then(|()| MmapOptions::new().len(length).populate().map_raw(file))
            .map(|map| Self { map, size: bytes })
            .map_err(|source| ArenaError::Io { path: path.to_owned(), bytes, source })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it is in this process's memory, for libraries that read and write it themselves: only
    /// what the ledger has opened, and only as long as this value lives.
    #[cfg(any(feature = "nixl", feature = "ucx", feature = "verbs"))]
    pub(crate) fn address(&self) -> usize {
        self.map.as_ptr() as usize
    }

    /// What memory it is in: host memory, until an engine can hand over a GPU's.
    #[must_use]
    pub fn segment(&self) -> Segment {
        Segment::Dram
    }

    /// Copies the bytes at `offset` into `buffer`.
    ///
    /// # Errors
    /// If they are not all within the arena; nothing is copied then.
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), OutOfArena> {
        let start = self.range(offset, buffer.len())?;
        // SAFETY: `range` has checked that `buffer.len()` bytes from `start` are within the map,
        // which lives as long as `self`. `buffer` is an exclusive reference to other memory: no
        // reference into the map exists anywhere. Another process may write at the same time; the
        // bytes copied are then any mixture, which callers detect by hash where it matters.
        unsafe { std::ptr::copy_nonoverlapping(self.map.as_ptr().add(start), buffer.as_mut_ptr(), buffer.len()) };
        Ok(())
    }

    /// Copies `bytes` into the arena at `offset`.
    ///
    /// # Errors
    /// If they do not all fit there; nothing is copied then.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfArena> {
        let start = self.range(offset, bytes.len())?;
        // SAFETY: as in `read_into`, with the directions exchanged; the map is writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(start), bytes.len()) };
        Ok(())
    }

    /// BLAKE3 of the first `bytes` bytes of `extents`, in order, as they are in memory now.
    ///
    /// # Errors
    /// If the extents are not all within the arena, or hold fewer bytes.
    pub fn hash(&self, extents: &[Extent], bytes: u64) -> Result<[u8; 32], BadExtents> {
        let mut run = Run::new(extents, bytes, self.size)?;
        let mut hasher = blake3::Hasher::new();
        self.hash_run(&mut run, bytes, &mut hasher)?;
        Ok(hasher.finalize().into())
    }

    /// Feeds the next `bytes` bytes of `run` to `hasher`, read from memory now.
    pub(crate) fn hash_run(&self, run: &mut Run, bytes: u64, hasher: &mut blake3::Hasher) -> Result<(), OutOfArena> {
        let mut buffer = [0_u8; CHUNK];
        let mut left = bytes;
        while let Some(piece) = run.next(left.min(CHUNK as u64)) {
            // A piece is at most CHUNK long.
            let part = buffer.get_mut(..usize::try_from(piece.bytes).unwrap_or(CHUNK)).unwrap_or_default();
            self.read_into(piece.offset, part)?;
            hasher.update(part);
            left -= piece.bytes;
        }
        Ok(())
    }

    /// Copies the next bytes of `run` into `buffer`, as many as both have; says how many.
    pub(crate) fn gather(&self, run: &mut Run, buffer: &mut [u8]) -> Result<usize, OutOfArena> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some(piece) = run.next(rest.len() as u64) else { break };
            // A piece is at most as long as the rest.
            let length = usize::try_from(piece.bytes).unwrap_or_default();
            self.read_into(piece.offset, rest.get_mut(..length).unwrap_or_default())?;
            filled += length;
        }
        Ok(filled)
    }

    /// Copies `bytes` to the next places of `run`, as many as it has; says how many.
    pub(crate) fn scatter(&self, run: &mut Run, bytes: &[u8]) -> Result<usize, OutOfArena> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let Some(piece) = run.next(rest.len() as u64) else { break };
            let length = usize::try_from(piece.bytes).unwrap_or_default();
            self.write(piece.offset, rest.get(..length).unwrap_or_default())?;
            done += length;
        }
        Ok(done)
    }

    fn range(&self, offset: u64, length: usize) -> Result<usize, OutOfArena> {
        let bytes = length as u64;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.size);
        usize::try_from(offset).ok().filter(|_| fits).ok_or(OutOfArena { offset, bytes, size: self.size })
    }
}

fn mappable(bytes: u64) -> Result<usize, ArenaError> {
    let length = usize::try_from(bytes).ok().filter(|length| (1..=isize::MAX as usize).contains(length));
    length.ok_or(ArenaError::Size { bytes })
}

/// Gives `file` its size and its memory now: a write into an unreserved page of a full file system
/// would be a fatal signal.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: a plain system call on a descriptor that `file` keeps open; no memory is passed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arena");
        let ours = Arena::open(&path, 10_000).unwrap();
        let theirs = Arena::open(&path, 10_000).unwrap();
        ours.write(9_990, b"0123456789").unwrap();
        let mut read = [0; 10];
        theirs.read_into(9_990, &mut read).unwrap();
        assert_eq!(&read, b"0123456789");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 10_000);
    }

    #[test]
    fn an_existing_file_of_another_size_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arena");
        std::fs::write(&path, b"precious").unwrap();
        assert!(matches!(Arena::open(&path, 16), Err(ArenaError::OtherSize { found: 8, expected: 16, .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(matches!(Arena::anonymous(0), Err(ArenaError::Size { bytes: 0 })));
        assert!(matches!(Arena::anonymous(u64::MAX), Err(ArenaError::Size { .. })));
    }

    #[test]
    fn nothing_outside_the_arena_is_read_or_written() {
        let arena = Arena::anonymous(100).unwrap();
        let mut buffer = [7; 10];
        for offset in [91, 100, 101, u64::MAX, u64::MAX - 5] {
            let error = OutOfArena { offset, bytes: 10, size: 100 };
            assert_eq!(arena.read_into(offset, &mut buffer), Err(error));
            assert_eq!(arena.write(offset, &buffer), Err(error));
        }
        assert_eq!(buffer, [7; 10]);
        assert_eq!(arena.read_into(100, &mut []), Ok(()));
        assert!(arena.hash(&[extent(90, 11)], 11).is_err());
        assert!(arena.hash(&[extent(0, 10)], 11).is_err());
    }

    #[test]
    fn the_hash_of_scattered_extents_is_that_of_their_bytes_in_order() {
        let arena = Arena::anonymous(300_000).unwrap();
        let content: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        arena.write(0, &content).unwrap();
        let extents = [extent(200_000, 99_999), extent(7, 100_000)];
        let mut expected = content[200_000..299_999].to_vec();
        expected.extend_from_slice(&content[7..50_007]);
        assert_eq!(arena.hash(&extents, 149_999).unwrap(), *blake3::hash(&expected).as_bytes());
    }

    #[test]
    fn scatter_and_gather_are_inverse() {
        let arena = Arena::anonymous(1_000).unwrap();
        let extents = [extent(500, 3), extent(10, 1), extent(0, 5)];
        let bytes = *b"abcdefgh";
        let mut run = Run::new(&extents, 8, 1_000).unwrap();
        assert_eq!(arena.scatter(&mut run, &bytes).unwrap(), 8);
        let mut back = [0; 12];
        let mut run = Run::new(&extents, 8, 1_000).unwrap();
        assert_eq!(arena.gather(&mut run, &mut back).unwrap(), 8);
        assert_eq!(&back[..8], &bytes);
    }
}
