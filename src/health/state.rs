//! The path state machine.
