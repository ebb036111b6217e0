//! The published evidence, reproduced and set beside what the mesh profile makes of it: everything
//! here is offline, seeded and the same bytes on any machine.
//!
//! ```text
//! data/ ──▶ episode ──▶ experiments ─┐
//!           scenario ────────────────┼──▶ sheet, chart ──▶ artifacts ──▶ outputs/
//!           history (a replay) ──────┘                     summary
//! ```

pub mod artifacts;
pub mod chart;
pub mod episode;
pub mod experiments;
pub mod history;
pub mod scenario;
pub mod sheet;
mod summary;
