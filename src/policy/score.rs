//! score.
