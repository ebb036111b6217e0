//! Journals, read life by life into a timeline.

use seam::replay::journal::{History, Life, What};
use seam::timeline::Timeline;

/// Feeds all segments, those of one life in their order, and says what of them could not be read.
pub(super) fn feed(history: &History, timeline: &mut Timeline) -> Vec<String> {
    let strays = history.strays().iter().map(|stray| format!("{}: {}", stray.path.display(), stray.error));
    let mut damaged: Vec<String> = strays.collect();
    for item in history.lives().iter().flat_map(Life::items) {
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
    damaged
}
