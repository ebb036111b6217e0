//! Journals of simulated nodes, read and played again: whatever is missing, torn or changed is found.
#![cfg(feature = "agent")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "replay_journal/command.rs"]
mod command;
#[path = "world/common.rs"]
#[allow(dead_code, reason = "shared with the tests of whole meshes")]
mod common;
#[path = "replay_journal/damage.rs"]
mod damage;
#[path = "replay_journal/differences.rs"]
mod differences;
#[path = "replay_journal/format.rs"]
mod format;
#[path = "replay_journal/history.rs"]
mod history;
#[path = "replay_journal/random.rs"]
mod random;
#[path = "replay_journal/recorder.rs"]
mod recorder;
#[path = "replay_journal/verified.rs"]
mod verified;
