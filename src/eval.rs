//! The published evidence, reproduced and set beside what the mesh profile makes of it: everything
//! here is offline, seeded and the same bytes on any machine.

pub mod episode;
pub mod experiments;
