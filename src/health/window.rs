//! The sample window.
