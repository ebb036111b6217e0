//! The ledger core.
