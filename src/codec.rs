//! Bytes: bounded bincode with a version byte, for wire, gossip and tape.
