//! A history of journals: the segments of one life of a node or of many, read in order, and verified by
//! playing every core's tape again.
//!
//! ```text
//! files and folders ─▶ History ─▶ Life, by node and generation ─▶ Items: entries, and what is missing
//!                                                                     │
//!                        Merged: all lives on one axis of time ◀──────┤
//!                        Overview: what is there, counted      ◀──────┤
//!                        Verifier: every turn played again     ◀──────┘
//! ```
//!
//! Memory is bounded by one entry a life that is being read, and by the states of its cores.

mod axis;
mod difference;
mod follow;
mod history;
mod json;
mod life;
mod merge;
mod note;
mod outputs;
mod report;
mod tally;
mod verify;

pub use axis::{Axis, utc};
pub use difference::{Difference, FieldDifference, MAX_FIELDS, Wrong};
pub use follow::{Lost, in_step};
pub use history::{History, HistoryError, Life, SegmentFile, Stray};
pub use json::to_json;
pub use life::{Broken, Fault, Item, LifeReader, Place, What, segment_items};
pub use merge::{Merged, MergedItem};
pub use note::{MAX_NOTES, Note, Noted, Overview, missing};
pub use report::{CoreReport, LifeReport, Report, StrayReport};
pub use tally::Tally;
pub use verify::Verifier;
