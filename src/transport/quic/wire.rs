//! The messages on a rail's streams.

use serde::{Deserialize, Serialize};

use crate::codec::Wire;
use crate::model::LeaseId;

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE: usize = 2_048;
/// The longest refusal, in bytes; longer ones are cut.
const MAX_WORDS: usize = 1_024;

/// The first message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// `payload_bytes` follow; send them back.
    Probe { payload_bytes: u32, deadline_ms: u64 },
    /// `bytes` follow, for `lease`, then the 32 bytes of their BLAKE3 hash.
    Write { lease: LeaseId, bytes: u64, deadline_ms: u64 },
    /// The same in parts, as their source writes them: each is its length, 8 bytes, the lowest first,
    /// and so many bytes; after the last the hash of them all.
    Parts { lease: LeaseId, bytes: u64 },
}

/// How many bytes say how long a part is.
pub(super) const PART_HEAD: usize = 8;

/// The answer on the same stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To a probe: its bytes follow.
    Echo,
    /// To a write: all bytes are in memory, with the same hash, and the ledger knows. So many bytes
    /// of other writes came on this rail meanwhile.
    Landed { shared_bytes: u64 },
    /// To a write: the bytes in memory have another hash.
    Corrupt,
    /// No, and why.
    Refused(String),
    /// To a write in parts, once for each: it is in memory.
    Came,
}

impl Reply {
    pub(super) fn refused(words: &str) -> Self {
        Self::Refused(words.chars().take(MAX_WORDS / 4).collect())
    }
}

impl Wire for Request {
    const NAME: &'static str = "rail request";
    const LIMIT: usize = MAX_MESSAGE;
}

impl Wire for Reply {
    const NAME: &'static str = "rail answer";
    const LIMIT: usize = MAX_MESSAGE;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{CodecError, decode, encode};

    #[test]
    fn the_bytes_of_every_message_stay_as_they_are() {
        let write = Request::Write { lease: "d.7.300".parse().unwrap(), bytes: 70_000, deadline_ms: 5 };
        let parts = Request::Parts { lease: "d.7.300".parse().unwrap(), bytes: 70_000 };
        let cases: [(Vec<u8>, &[u8]); 8] = [
            (encode(&Request::Probe { payload_bytes: 64, deadline_ms: 250 }).unwrap(), &[1, 0, 64, 250]),
            (encode(&write).unwrap(), &[1, 1, 7, b'd', b'.', b'7', b'.', b'3', b'0', b'0', 252, 0x70, 0x11, 1, 0, 5]),
            (encode(&parts).unwrap(), &[1, 2, 7, b'd', b'.', b'7', b'.', b'3', b'0', b'0', 252, 0x70, 0x11, 1, 0]),
            (encode(&Reply::Echo).unwrap(), &[1, 0]),
            (encode(&Reply::Landed { shared_bytes: 70_000 }).unwrap(), &[1, 1, 252, 0x70, 0x11, 1, 0]),
            (encode(&Reply::Corrupt).unwrap(), &[1, 2]),
            (encode(&Reply::refused("no")).unwrap(), &[1, 3, 2, b'n', b'o']),
            (encode(&Reply::Came).unwrap(), &[1, 4]),
        ];
        for (found, golden) in cases {
            assert_eq!(found, golden);
        }
    }

    #[test]
    fn a_refusal_of_any_length_fits_a_message() {
        let reply = Reply::refused(&"𝄞".repeat(10_000));
        let bytes = encode(&reply).unwrap();
        assert!(bytes.len() <= MAX_MESSAGE);
        assert_eq!(decode::<Reply>(&bytes).unwrap(), reply);
    }

    #[test]
    fn other_versions_empty_input_and_trailing_bytes_are_refused() {
        assert!(matches!(decode::<Reply>(&[]), Err(CodecError::Empty { .. })));
        assert!(matches!(decode::<Reply>(&[2, 0]), Err(CodecError::Version { found: 2, .. })));
        assert!(matches!(decode::<Reply>(&[1, 0, 0]), Err(CodecError::Trailing { extra: 1, .. })));
        assert!(matches!(decode::<Reply>(&[1; MAX_MESSAGE + 1]), Err(CodecError::TooLong { limit: MAX_MESSAGE, .. })));
        // An announced length of 2^63 is refused before memory is asked for.
        assert!(decode::<Reply>(&[1, 3, 253, 0, 0, 0, 0, 0, 0, 0, 0x80]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(request) = decode::<Request>(&bytes) {
                prop_assert_eq!(decode::<Request>(&encode(&request).unwrap()).unwrap(), request);
            }
            let _ = decode::<Reply>(&bytes);
        }

        #[test]
        fn messages_survive(bytes in any::<u64>(), deadline_ms in any::<u64>(), number in any::<u64>()) {
            let lease = LeaseId { node: "d-1.x".parse().unwrap(), generation: bytes ^ number, number };
            let request = Request::Write { lease, bytes, deadline_ms };
            prop_assert_eq!(decode::<Request>(&encode(&request).unwrap()).unwrap(), request);
        }
    }
}
