//! What Seam does with bytes that others wrote, one module a target.
//!
//! A target takes any bytes and must not panic, hang or grow. Beyond that each one states what
//! holds of everything that was accepted. `fuzz_targets/` gives them to libFuzzer; the program
//! `smoke` runs them all for a while with seeded mutations, on any machine that builds Seam.

pub mod api;
pub mod codec;
pub mod config;
pub mod journal;
pub mod mesh;
pub mod rail;
pub mod record;
pub mod replay;
pub mod trace;
pub mod whatif;

// `rail` compiles a source file of Seam, which finds its names here.
use seam::model;

/// One target.
pub struct Target {
    /// Its name, also that of its program.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Bytes worth starting from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 10] = [
    Target { name: "api", run: api::run, seeds: api::seeds },
    Target { name: "codec", run: codec::run, seeds: codec::seeds },
    Target { name: "config", run: config::run, seeds: config::seeds },
    Target { name: "journal", run: journal::run, seeds: journal::seeds },
    Target { name: "mesh", run: mesh::run, seeds: mesh::seeds },
    Target { name: "rail", run: rail::run, seeds: rail::seeds },
    Target { name: "record", run: record::run, seeds: record::seeds },
    Target { name: "replay", run: replay::run, seeds: replay::seeds },
    Target { name: "trace", run: trace::run, seeds: trace::seeds },
    Target { name: "whatif", run: whatif::run, seeds: whatif::seeds },
];

/// `choice` before each of `bodies`: targets with several forms are told which by the first byte.
fn chosen(choice: u8, bodies: &[&[u8]]) -> Vec<Vec<u8>> {
    bodies.iter().map(|body| [&[choice], *body].concat()).collect()
}
