//! Which segments there are, by node and life.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::axis::Axis;
use super::life::LifeReader;
use super::merge::Merged;
use crate::journal::{self, Header, JournalError, Reader};
use crate::model::{Generation, NodeName};

/// Files opened for one history at most.
const MAX_SEGMENTS: usize = 1_000_000;

/// Segments of one life of a node or of many.
#[derive(Debug, Default)]
pub struct History {
    lives: Vec<Life>,
    strays: Vec<Stray>,
}

/// One life of a node: its segments, by number.
#[derive(Clone, Debug)]
pub struct Life {
    /// Whose.
    pub node: NodeName,
    /// Which life.
    pub generation: Generation,
    /// Its segments in order; each number once, and not all numbers need be there.
    pub segments: Vec<SegmentFile>,
}

/// One segment's file.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Where it is.
    pub path: Arc<Path>,
    /// Its number in its life: from its head, or from its name where the head cannot be read.
    pub number: u64,
    /// Its size in bytes when the history was opened.
    pub bytes: u64,
    /// What it says of itself; none if that cannot be read.
    pub header: Option<Header>,
}

/// A file that is a journal, and says neither inside nor by its name of which life.
#[derive(Debug)]
pub struct Stray {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What is wrong with its head.
    pub error: JournalError,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no journal.
    #[error("{}: {source}", path.display())]
    NoJournal {
        /// Which.
        path: PathBuf,
        /// What it is.
        source: JournalError,
    },
    /// There is no segment in a folder, nor in the folders in it.
    #[error("{}: no journal in this folder: found no file NODE-GENERATION-NUMBER.journal", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// One segment was given twice.
    #[error(
        "segment {number} of {node}, life {generation}, is given twice: {} and {}",
        first.display(), second.display()
    )]
    Duplicate {
        /// Whose.
        node: NodeName,
        /// Which life.
        generation: Generation,
        /// Which segment.
        number: u64,
        /// One file of it.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// More files than any history may have.
    #[error("{found} segments, at most {MAX_SEGMENTS} are allowed")]
    TooMany {
        /// How many.
        found: usize,
    },
}

impl History {
    /// Finds the segments of files and folders; of a folder those that lie in it, or in a folder in it.
    /// Only the heads are read.
    ///
    /// # Errors
    /// Something cannot be read, is no journal, or is there twice.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self, HistoryError> {
        let mut files = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let io = |source| HistoryError::Io { path: path.to_owned(), source };
            if path.metadata().map_err(io)?.is_dir() {
                let found = in_folder(path).map_err(io)?;
                if found.is_empty() {
                    return Err(HistoryError::Empty { path: path.to_owned() });
                }
                files.extend(found.into_iter().map(|path| (path, true)));
            } else {
                files.push((path.to_owned(), false));
            }
        }
        if files.len() > MAX_SEGMENTS {
            return Err(HistoryError::TooMany { found: files.len() });
        }
        let mut lives: BTreeMap<(NodeName, Generation), BTreeMap<u64, SegmentFile>> = BTreeMap::new();
        let mut strays = Vec::new();
        for (path, listed) in files {
            let ((node, generation), segment) = match head(&path) {
                Ok(Ok(segment)) => segment,
                Ok(Err(stray)) => {
                    strays.push(stray);
                    continue;
                }
                // An agent that runs has deleted it since it was listed.
                Err(HistoryError::Io { source, .. }) if listed && source.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let number = segment.number;
            let life = lives.entry((node.clone(), generation)).or_default();
            if let Some(first) = life.insert(number, segment) {
                let (first, second) = (first.path.to_path_buf(), path);
                return Err(HistoryError::Duplicate { node, generation, number, first, second });
            }
        }
        let life = |((node, generation), segments): (_, BTreeMap<_, _>)| Life {
            node,
            generation,
            segments: segments.into_values().collect(),
        };
        Ok(Self { lives: lives.into_iter().map(life).collect(), strays })
    }

    /// The lives, by node and generation.
    #[must_use]
    pub fn lives(&self) -> &[Life] {
        &self.lives
    }

    /// Files that are damaged so early that nobody knows where they belong.
    #[must_use]
    pub fn strays(&self) -> &[Stray] {
        &self.strays
    }

    /// Bytes of all segments of all lives.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lives.iter().map(Life::bytes).sum()
    }

    /// Whether any segment can be read at all.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.lives.iter().flat_map(|life| &life.segments).any(|segment| segment.header.is_some())
    }

    /// The items of all lives on one axis of time.
    #[must_use]
    pub fn merged(&self) -> Merged<'_> {
        Merged::new(&self.lives)
    }
}

impl Life {
    /// Bytes of all its segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Its axis of time; none if no segment's head can be read.
    #[must_use]
    pub fn axis(&self) -> Option<Axis> {
        self.segments.iter().find_map(|segment| segment.header.as_ref()).map(Axis::of)
    }

    /// Everything in it, in order.
    #[must_use]
    pub fn items(&self) -> LifeReader<'_> {
        LifeReader::new(&self.segments)
    }
}

/// The segments in a folder and in the folders in it.
fn in_folder(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![dir.to_owned()];
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    let mut files = Vec::new();
    for folder in folders {
        files.extend(journal::list(&folder)?.into_iter().map(|segment| segment.path));
    }
    Ok(files)
}

type Placed = ((NodeName, Generation), SegmentFile);

/// Where a file belongs.
fn head(path: &Path) -> Result<Result<Placed, Stray>, HistoryError> {
    let io = |source| HistoryError::Io { path: path.to_owned(), source };
    let named = journal::named(path.to_owned());
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (bytes, read) = match opened {
        Ok((bytes, file)) => (bytes, Reader::open(BufReader::new(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(io(error)),
        Err(error) => (0, Err(JournalError::Io(error))),
    };
    let path: Arc<Path> = path.into();
    let error = match read {
        Ok(reader) => {
            let header = reader.header().clone();
            let life = (header.node.clone(), header.generation);
            return Ok(Ok((life, SegmentFile { path, number: header.segment, bytes, header: Some(header) })));
        }
        Err(error) => error,
    };
    match (named, error) {
        // Whatever keeps it from being read is found again, and told, when its turn comes.
        (Some(named), _) => {
            let life = (named.node, named.generation);
            Ok(Ok((life, SegmentFile { path, number: named.number, bytes, header: None })))
        }
        (None, JournalError::Io(source)) => Err(HistoryError::Io { path: path.to_path_buf(), source }),
        (None, source @ JournalError::Magic { .. }) => {
            Err(HistoryError::NoJournal { path: path.to_path_buf(), source })
        }
        (None, error) => Ok(Err(Stray { path: path.to_path_buf(), bytes, error })),
    }
}
