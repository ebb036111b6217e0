//! The pace at which paths are probed: what the prober of an agent and the one of a simulated mesh
//! share, so that what is simulated is what runs.

use super::mesh::MIN_BULK_WIRE_MS;

/// A probe is due this far from its interval at most, either way, as a share of it.
pub const JITTER: f64 = 0.2;
/// A probe is given up after this many intervals, within the bounds below.
pub const DEADLINE_INTERVALS: u32 = 4;
/// The shortest deadline of a probe, in milliseconds.
pub const MIN_DEADLINE_MS: u64 = 250;
/// The longest, and that of a bulk probe, in milliseconds.
pub const MAX_DEADLINE_MS: u64 = 2_000;
/// A path that is not proven yet is probed this many times as often, but not more often than
/// [`MIN_SPACING_MS`] allows.
pub const UNPROVEN_RATE: u32 = 4;
/// The shortest time between two probes of a path that is not proven yet, in milliseconds.
pub const MIN_SPACING_MS: u64 = 250;
/// A bulk probe takes this long on the wire at most, in milliseconds: twice what makes it evidence.
pub const BULK_WIRE_MS: f64 = 2.0 * MIN_BULK_WIRE_MS;
