//! The daemon: actors that own the cores and everything that does I/O.

pub mod api;
pub mod service;
