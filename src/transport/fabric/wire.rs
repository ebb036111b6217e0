//! The messages of a fabric rail. Each stream begins with a [`Request`].

use serde::{Deserialize, Serialize};

use super::MAX_GREETING;
use crate::codec::Wire;
use crate::model::{Extent, LeaseId};

/// The longest refusal, in characters; longer ones are cut.
const MAX_WORDS: usize = 256;

/// The first message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Open a session; it lives as long as this stream.
    Hello {
        /// The fabric's word, for the peer's.
        greeting: Vec<u8>,
    },
    /// `bytes` are to be put into `lease` on an open session.
    Offer {
        /// Which.
        session: u64,
        /// Into which lease.
        lease: LeaseId,
        /// How many.
        bytes: u64,
        /// How long the sender waits, in milliseconds.
        deadline_ms: u64,
    },
}

/// The first answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To a hello.
    Welcome {
        /// The session's number.
        session: u64,
        /// The fabric's word, for the peer's.
        welcome: Vec<u8>,
    },
    /// To an offer: put them there, in order, and announce `number`.
    Place {
        /// Where.
        extents: Vec<Extent>,
        /// What to announce.
        number: u64,
    },
    /// To an offer: there is no such session any more.
    NoSession,
    /// No, and why.
    Refused(String),
}

/// The sender's word that its put is done. One that is given up resets its stream instead, by a code
/// that says whether bytes of it may still land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// BLAKE3 of what was put.
    pub(super) hash: [u8; 32],
}

/// The last answer to an offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// All bytes are in memory, with the same hash, and the ledger knows. So many bytes of other
    /// writes came on this rail meanwhile.
    Landed {
        /// How many.
        shared_bytes: u64,
    },
    /// The bytes in memory have another hash.
    Corrupt,
    /// No, and why.
    Refused(String),
}

/// Words that fit a message.
pub(super) fn cut(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}

impl Wire for Request {
    const NAME: &'static str = "fabric request";
    const LIMIT: usize = MAX_GREETING + 64;
}

impl Wire for Reply {
    const NAME: &'static str = "fabric answer";
    const LIMIT: usize = MAX_GREETING + 64;
}

impl Wire for Done {
    const NAME: &'static str = "fabric put";
    const LIMIT: usize = 64;
}

impl Wire for Outcome {
    const NAME: &'static str = "fabric outcome";
    const LIMIT: usize = 2_048;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{decode, encode};

    #[test]
    fn the_bytes_of_every_message_stay_as_they_are() {
        let offer = Request::Offer { session: 3, lease: "d.7.300".parse().unwrap(), bytes: 70_000, deadline_ms: 5 };
        let place = Reply::Place { extents: vec![Extent { offset: 4_096, bytes: 9 }], number: 2 };
        let cases: [(Vec<u8>, &[u8]); 7] = [
            (encode(&Request::Hello { greeting: vec![9, 8] }).unwrap(), &[1, 0, 2, 9, 8]),
            (
                encode(&offer).unwrap(),
                &[1, 1, 3, 7, b'd', b'.', b'7', b'.', b'3', b'0', b'0', 252, 0x70, 0x11, 1, 0, 5],
            ),
            (encode(&Reply::Welcome { session: 3, welcome: vec![5] }).unwrap(), &[1, 0, 3, 1, 5]),
            (encode(&place).unwrap(), &[1, 1, 1, 251, 0, 0x10, 9, 2]),
            (encode(&Reply::NoSession).unwrap(), &[1, 2]),
            (encode(&Reply::Refused("no".to_owned())).unwrap(), &[1, 3, 2, b'n', b'o']),
            (encode(&Outcome::Landed { shared_bytes: 4 }).unwrap(), &[1, 0, 4]),
        ];
        for (found, golden) in cases {
            assert_eq!(found, golden);
        }
        assert_eq!(encode(&Done { hash: [7; 32] }).unwrap(), [&[1][..], &[7; 32]].concat());
    }

    #[test]
    fn the_longest_messages_fit() {
        let long = vec![7; MAX_GREETING];
        encode(&Request::Hello { greeting: long.clone() }).unwrap();
        encode(&Reply::Welcome { session: u64::MAX, welcome: long }).unwrap();
        encode(&Outcome::Refused(cut(&"𝄞".repeat(10_000)))).unwrap();
        let extents = vec![Extent { offset: u64::from(u32::MAX), bytes: 65_536 }; crate::ledger::MAX_EXTENTS];
        encode(&Reply::Place { extents, number: u64::MAX }).unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(request) = decode::<Request>(&bytes) {
                prop_assert_eq!(decode::<Request>(&encode(&request).unwrap()).unwrap(), request);
            }
            let _ = (decode::<Reply>(&bytes), decode::<Done>(&bytes), decode::<Outcome>(&bytes));
        }
    }
}
