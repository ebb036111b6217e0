//! A whole mesh in virtual time: every node has the real cores, and one queue of events drives them.
//!
//! ```text
//!  arrivals ─▶ policy ◀─ reports ─ health ◀─ samples ─ prober, rails
//!                │  ▲                │                    ▲
//!           asks │  │ answers        │ paths              │ faults of directed paths
//!                ▼  │                ▼                    │
//!  engines ◀─▶ ledger ── loads ──▶ mesh ◀── network (latency, loss, cuts) ── schedule
//! ```
//!
//! Nothing here reads a clock or draws an unseeded number: the same [`Settings`] and the same calls
//! give the same run. The wiring is that of the agent: what a core puts out becomes another's
//! input, at once on the same node, after the network's delay on another.
//!
//! What is simplified: a process is one thread that runs, is stopped, or is dead; a rail shares its
//! bandwidth equally among its transfers; the membership is either the real one
//! ([`Gossip::Cores`]) or a direct delivery of records with a delay ([`Gossip::Direct`]), which
//! knows no suspicion, no refutation and no lost rumour.

mod arrivals;
mod audit;
mod directory;
mod engines;
mod event;
mod fault;
mod gossip;
mod lease_calls;
mod mesh;
mod network;
mod node;
mod prober;
mod queue;
mod rails;
mod schedule;
mod settings;
mod tape;
mod transfers;
mod wiring;
mod world;

pub use arrivals::{Arrivals, Then};
pub use audit::{Asked, Audit, Fate, Moved, Placed};
pub use fault::Fault;
pub use network::Network;
pub use node::Process;
pub use schedule::Action;
pub use settings::{Gossip, Key, Link, Probing, Settings};
pub use tape::Tapes;
pub use world::World;

/// The wall time at which every run begins, in milliseconds since the Unix epoch.
pub const START_MS: u64 = 1_800_000_000_000;
