//! The daemon: actors that own the cores and everything that does I/O.

pub mod mesh;
pub mod service;
