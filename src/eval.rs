//! What Seam does in situations that are known: everything here is regenerated from seeds, byte for
//! byte.

pub mod scenario;
