//! Journals, read life by life into a timeline.

use std::path::PathBuf;

use seam::replay::journal::What;
use seam::timeline::Timeline;

use crate::exit::Failure;

/// Feeds all segments, those of one life in their order, and says what of them could not be read.
pub(super) fn feed(paths: &[PathBuf], timeline: &mut Timeline) -> Result<Vec<String>, Failure> {
    let history = crate::replay::journals(paths)?;
    let strays = history.strays().iter().map(|stray| format!("{}: {}", stray.path.display(), stray.error));
    let mut damaged: Vec<String> = strays.collect();
    for item in history.lives().iter().flat_map(seam::replay::journal::Life::items) {
        match item.what {
            What::Segment(header) => timeline.life(&header),
            What::Entry(entry) => timeline.entry(&entry),
            What::Missing(_) => timeline.interrupted(),
            What::Broken(broken) => {
                damaged.push(format!("{}: {}", item.place.path.display(), broken.fault));
                timeline.interrupted();
            }
        }
    }
    Ok(damaged)
}
