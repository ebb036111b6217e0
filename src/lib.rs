//! Seam decides, on every prefill host, whether *this path* should carry *this workload* right now.
//!
//! # Layers
//!
//! ```text
//! agent, demo, bin                sockets, time, tasks, files (from here down to the line: feature `agent`)
//! eval, timeline                  the published evidence, made again; an incident as a picture
//! replay                          a recorded history, decided again
//! journal                         what the cores were told, in files
//! net, transport, arena, metrics, config, trace
//! ------------------------------------------------------------------------
//! whatif, sim, rivals             one line decided; whole meshes in virtual time; other policies
//! health, policy, ledger, mesh    cores: pure state machines
//! codec, api                      bytes and JSON on the wire
//! model, core, fault, causes      words, the `Core` trait, what a faulty path draws, errors as text
//! ```
//!
//! Imports point downward only. A core reads no clock, draws no random number, opens no socket and
//! iterates no hash map: everything it learns arrives through [`core::Core::step`], so a recorded
//! tape of inputs gives the same outputs again. `cargo check --lib --no-default-features` compiles
//! the lower half alone, which keeps it honest.
//!
//! # Deliberately absent
//!
//! No central server, no consensus, no discovery service, no prefill scheduling and no eviction of
//! KV blocks: Seam chooses paths, and leaves the rest to the engine.

pub mod api;
pub mod causes;
pub mod codec;
pub mod core;
pub mod fault;
pub mod health;
pub mod ledger;
pub mod mesh;
pub mod model;
pub mod policy;
pub mod rivals;
pub mod sim;
pub mod whatif;

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod arena;
#[cfg(feature = "agent")]
pub mod client;
#[cfg(feature = "agent")]
pub mod config;
#[cfg(feature = "agent")]
pub mod demo;
#[cfg(feature = "agent")]
pub mod doctor;
#[cfg(feature = "agent")]
pub mod eval;
#[cfg(feature = "agent")]
pub mod journal;
#[cfg(feature = "agent")]
pub mod metrics;
#[cfg(feature = "agent")]
pub mod net;
#[cfg(feature = "agent")]
pub mod replay;
#[cfg(feature = "agent")]
pub mod timeline;
#[cfg(feature = "agent")]
pub mod trace;
#[cfg(feature = "agent")]
pub mod transport;
