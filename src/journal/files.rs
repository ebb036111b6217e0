//! The segments of a folder.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Generation, NodeName};

/// How a segment's name ends.
const EXTENSION: &str = "journal";

/// One segment by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Whose.
    pub node: NodeName,
    /// Of which life.
    pub generation: Generation,
    /// Its number in that life.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// The name of a segment's file: the node, its generation, the segment's number.
#[must_use]
pub fn segment_name(node: &NodeName, generation: Generation, number: u64) -> String {
    format!("{node}-{generation}-{number:06}.{EXTENSION}")
}

/// The segments in a folder, by node, life and number. Files of other names are not looked at.
///
/// # Errors
/// The folder cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in dir.read_dir()? {
        segments.extend(named(entry?.path()));
    }
    segments.sort();
    Ok(segments)
}

/// What a file's name says of it; none if it is no segment's name.
#[must_use]
pub fn named(path: PathBuf) -> Option<Segment> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let (rest, number) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    let (node, generation) = rest.rsplit_once('-')?;
    let (node, generation, number) = (NodeName::new(node).ok()?, generation.parse().ok()?, number.parse().ok()?);
    Some(Segment { node, generation, number, path })
}
