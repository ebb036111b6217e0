//! Journals, read life by life into a timeline.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use seam::journal::{self, Header, Reader};
use seam::model::{Generation, NodeName};
use seam::timeline::Timeline;

use crate::exit::Failure;

/// Feeds all segments, those of one life in their order, and says what of them could not be read.
pub(super) fn feed(paths: &[PathBuf], timeline: &mut Timeline) -> Result<Vec<String>, Failure> {
    let mut damaged = Vec::new();
    for segments in lives(paths)?.into_values() {
        let mut expected = None;
        for (number, path) in segments {
            if expected.is_some_and(|expected| expected != number) {
                timeline.interrupted();
            }
            expected = Some(number + 1);
            let mut reader = open(&path)?;
            timeline.life(reader.header());
            loop {
                match reader.next_entry() {
                    Ok(Some(entry)) => timeline.entry(&entry),
                    Ok(None) => break,
                    Err(damage) => {
                        damaged.push(format!("{}: {damage}", path.display()));
                        timeline.interrupted();
                        break;
                    }
                }
            }
        }
    }
    Ok(damaged)
}

/// The segments of each life, by number.
type Lives = BTreeMap<(NodeName, Generation), BTreeMap<u64, PathBuf>>;

fn lives(paths: &[PathBuf]) -> Result<Lives, Failure> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            false => files.push(path.clone()),
            true => {
                let listed = journal::list(path).map_err(|error| cannot(path, &error))?;
                if listed.is_empty() {
                    return Err(cannot(path, &"found no journal in this folder, allowed at least one *.journal"));
                }
                files.extend(listed.into_iter().map(|segment| segment.path));
            }
        }
    }
    let mut lives = Lives::new();
    for file in files {
        let Header { node, generation, segment, .. } = open(&file)?.header().clone();
        lives.entry((node, generation)).or_default().insert(segment, file);
    }
    Ok(lives)
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let file = File::open(path).map_err(|error| cannot(path, &error))?;
    Reader::open(BufReader::new(file)).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(anyhow::anyhow!("{}: {error}", path.display()))
}
