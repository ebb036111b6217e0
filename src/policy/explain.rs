//! A decision in words.
