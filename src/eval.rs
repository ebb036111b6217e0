//! What an evaluation run writes.

pub mod chart;
