//! Whole meshes in virtual time: bursts, deaths, gray paths, blackouts, and what must never happen.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

#[path = "world/common.rs"]
mod common;
#[path = "world/deaths.rs"]
mod deaths;
#[path = "world/load.rs"]
mod load;
#[path = "world/paths.rs"]
mod paths;
#[path = "world/placing.rs"]
mod placing;
#[path = "world/same.rs"]
mod same;
#[path = "world/soak.rs"]
mod soak;
