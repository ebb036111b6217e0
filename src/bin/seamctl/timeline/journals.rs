//! Journals, read life by life into a timeline.

use seam::replay::journal::{History, Item, Life, What, missing};
use seam::timeline::{Lack, Timeline};

/// Feeds all segments, those of one life in their order, and says what of them is not there or could
/// not be read.
pub(super) fn feed(history: &History, timeline: &mut Timeline) -> Vec<String> {
    let strays = history.strays().iter().map(|stray| format!("{}: {}", stray.path.display(), stray.error));
    let mut lacks: Vec<String> = strays.collect();
    history.lives().iter().for_each(|life| feed_life(life, timeline, &mut lacks));
    lacks
}

fn feed_life(life: &Life, timeline: &mut Timeline, lacks: &mut Vec<String>) {
    // What is damaged before the first head that can be read interrupts nothing that is drawn.
    let mut begun = false;
    for Item { place, what } in life.items() {
        let mut says = |words: String| lacks.push(format!("{}: {words}", place.path.display()));
        match what {
            What::Segment(header) => {
                if !begun && header.segment > 0 {
                    says(format!("begins at segment {}: those before it are not there", header.segment));
                }
                timeline.life(&header);
                begun = true;
            }
            What::Entry(entry) => timeline.entry(&entry),
            What::Missing(numbers) => {
                says(format!("before this one {}", missing(&numbers)));
                let segments = numbers.end().saturating_sub(*numbers.start()).saturating_add(1);
                if begun {
                    timeline.interrupted(Lack::Missing(segments));
                }
            }
            What::Broken(broken) => {
                says(broken.fault.to_string());
                // A torn end is how a process leaves its journal that was killed while it wrote.
                if begun && !broken.is_torn_end() {
                    timeline.interrupted(Lack::Damaged);
                }
            }
        }
    }
}
