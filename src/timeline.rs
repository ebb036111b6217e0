//! An incident as one picture: what became of every path, what was decided on it and moved over it,
//! which members and processes came and went.
//!
//! ```text
//! Header, Entries ─▶ gather ─▶ Facts ─▶ fold ─▶ lanes ─▶ draw ─▶ SVG ─▶ page ─▶ HTML
//!                    bounded            the healthy ones are one lane
//! ```
//!
//! A [`Timeline`] is fed the journals of one node or of many, life by life or mixed, each life's
//! entries in their order. Each life stands on the axis of time at the wall time at which its first
//! segment was opened and moves on with its own monotonic clock, so that a wall clock that is set
//! meanwhile tears nothing apart. The same input gives the same bytes.
//!
//! ```
//! use seam::timeline::{Options, Timeline, TimelineError};
//!
//! let timeline = Timeline::new(Options::default())?;
//! assert!(matches!(timeline.draw(), Err(TimelineError::Nothing { .. })));
//! # Ok::<(), TimelineError>(())
//! ```

mod draw;
mod facts;
mod fold;
mod gather;
mod lack;
mod page;
mod scale;
mod spans;
mod time;

pub use lack::Lack;
pub use time::parse_time;

use crate::journal::{Entry, Header};
use crate::replay::journal::utc;
use facts::Facts;

/// Decisions and transfers kept at most; further ones are counted, and the picture says so.
pub const MAX_EVENTS: usize = 200_000;
/// Changes of paths, members, processes and overrides kept at most; further ones are counted, and
/// the picture says so.
pub const MAX_CHANGES: usize = 200_000;
/// Paths that get a lane of their own at most.
pub const MAX_LANES: usize = 400;
/// The widths that a picture may have, in pixels.
pub const WIDTHS: std::ops::RangeInclusive<u32> = 640..=8_000;
/// The width of a picture unless another is asked for, in pixels.
pub const WIDTH: u32 = 1_200;

/// What to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// From when, in milliseconds since the Unix epoch; from the first entry on if absent.
    pub from_ms: Option<u64>,
    /// Until when; until the last entry if absent.
    pub to_ms: Option<u64>,
    /// Only paths whose name, `source>destination/rail/backend`, has this in it.
    pub paths: Option<String>,
    /// How wide, in pixels: one of [`WIDTHS`].
    pub width: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { from_ms: None, to_ms: None, paths: None, width: WIDTH }
    }
}

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineError {
    /// A picture so wide or so narrow is not drawn.
    #[error("width: found {found}, allowed {} to {} pixels", WIDTHS.start(), WIDTHS.end())]
    Width {
        /// What was asked for.
        found: u32,
    },
    /// No time.
    #[error("found {found:?}, allowed {allowed}")]
    Time {
        /// The text.
        found: String,
        /// What is a time.
        allowed: &'static str,
    },
    /// The time that is asked for ends before it begins.
    #[error("from and to: found {from} to {to}, allowed a time and a later one")]
    Reversed {
        /// Its beginning.
        from: String,
        /// Its end.
        to: String,
    },
    /// Nothing stands in the journals for the time that is asked for.
    #[error("journal entries {asked}: found none, allowed at least one; {there}")]
    Nothing {
        /// The time that was asked for.
        asked: String,
        /// The time that the journals have entries for.
        there: String,
    },
    /// No path has that in its name.
    #[error("paths: found {found:?}, which no path has in its name, allowed a part of one; {there}")]
    NoPath {
        /// What was asked for.
        found: String,
        /// The paths that there are.
        there: String,
    },
}

/// Takes the journals of an incident, and draws it.
#[derive(Debug)]
pub struct Timeline {
    options: Options,
    facts: Facts,
}

/// A picture, and what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The SVG document, which ends with a line feed.
    pub svg: String,
    /// From when, in milliseconds since the Unix epoch.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
    /// The same in words: `2027-01-15T08:00:00.000Z to 2027-01-15T08:00:20.000Z`.
    pub when: String,
    /// Paths with a lane of their own.
    pub lanes: u64,
    /// Paths that were healthy as long as they were known, folded into one lane a node.
    pub folded: u64,
    /// Paths that were not, and that [`MAX_LANES`] left no lane for.
    pub crowded_out: u64,
    /// Decisions.
    pub decisions: u64,
    /// Those of them that found no admissible path.
    pub refused: u64,
    /// Transfers.
    pub transfers: u64,
    /// Attempts of them that failed.
    pub failed: u64,
    /// What [`MAX_EVENTS`] and [`MAX_CHANGES`] have left out.
    pub left_out: u64,
    /// The moment to look at first: when the first path turned bad, if one did.
    pub first_trouble: Option<String>,
    /// A decision to look at, if there was trouble.
    pub example: Option<Example>,
}

/// A decision that shows what the trouble did, as far as there is one: the first that its node made
/// while one of its paths was not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The request that was decided.
    pub request: String,
    /// When: of a request that was decided several times the decision nearest to it is meant.
    pub at: String,
}

impl Picture {
    /// The picture as a web page that needs nothing else. Its script adds a magnifier and details
    /// where the pointer is; without it the picture and its titles are all there.
    #[must_use]
    pub fn html(&self) -> String {
        page::html(&self.svg, &self.when)
    }
}

impl Timeline {
    /// A timeline to which nothing has been fed.
    ///
    /// # Errors
    /// The width is not one of [`WIDTHS`], or the time ends before it begins.
    pub fn new(options: Options) -> Result<Self, TimelineError> {
        if !WIDTHS.contains(&options.width) {
            return Err(TimelineError::Width { found: options.width });
        }
        if let (Some(from), Some(to)) = (options.from_ms, options.to_ms)
            && from >= to
        {
            return Err(TimelineError::Reversed { from: utc(from), to: utc(to) });
        }
        let facts = Facts::new(&options);
        Ok(Self { options, facts })
    }

    /// The entries that follow are of this segment. Entries of a life that was fed before go on where
    /// it was left.
    pub fn life(&mut self, header: &Header) {
        self.facts.life(header);
    }

    /// The next entry of the life named last.
    pub fn entry(&mut self, entry: &Entry) {
        self.facts.entry(entry);
    }

    /// Here something of that life is not there: until its next snapshots nothing is known of its paths.
    pub fn interrupted(&mut self, lack: Lack) {
        self.facts.interrupted(lack);
    }

    /// The picture.
    ///
    /// # Errors
    /// There is nothing to draw.
    pub fn draw(&self) -> Result<Picture, TimelineError> {
        let window = self.facts.window(&self.options)?;
        let folded = fold::fold(&self.facts, &self.options, window)?;
        Ok(draw::draw(&self.facts, &folded, &self.options, window))
    }
}
