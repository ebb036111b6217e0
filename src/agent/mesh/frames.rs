//! Questions on streams: one kind byte, then length-prefixed messages of a bounded size, each
//! awaited for a bounded time.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::codec::{self, Wire};
use crate::model::{Generation, LeaseCall, LeaseCallReply, LeaseReply, NodeName};
use crate::net::frame::{FrameError, read_frame, write_frame};

/// How long one message may take to arrive.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What a stream is opened for; its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hello = 1,
    Sync = 2,
    Lease = 3,
}

impl Kind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Hello, Self::Sync, Self::Lease].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What a node that starts asks of its seeds, and of whoever holds its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Whose life the answer is about.
    pub(super) name: NodeName,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HelloReply {
    /// The latest life known of that name, and where it listened.
    pub(super) known: Option<(Generation, SocketAddr)>,
    /// The clock of whoever answers, in milliseconds since the Unix epoch.
    pub(super) wall_ms: u64,
    /// For how long it has been running, in milliseconds.
    pub(super) age_ms: u64,
}

impl Wire for Hello {
    const NAME: &'static str = "hello";
    const LIMIT: usize = 128;
}

impl Wire for HelloReply {
    const NAME: &'static str = "hello answer";
    const LIMIT: usize = 128;
}

impl Wire for LeaseCall {
    const NAME: &'static str = "lease call";
    const LIMIT: usize = 2 * 1024;
}

impl Wire for LeaseCallReply {
    const NAME: &'static str = "lease answer";
    const LIMIT: usize = 256 * 1024;
}

/// Writes a question's kind and first message in one piece.
pub(super) async fn write_question(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    message: &[u8],
) -> Result<(), StreamError> {
    let mut bytes = Vec::with_capacity(message.len() + 5);
    bytes.push(kind as u8);
    write_frame(&mut bytes, message).await.map_err(StreamError::broken)?;
    stream.write_all(&bytes).await.map_err(StreamError::broken)
}

pub(super) async fn read_kind(stream: &mut (impl AsyncRead + Unpin)) -> Result<Kind, StreamError> {
    let byte = within(async { stream.read_u8().await.map_err(StreamError::broken) }).await?;
    Kind::from_byte(byte).ok_or_else(|| StreamError(format!("a question of the unknown kind {byte}")))
}

pub(super) async fn write_message(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), StreamError> {
    within(async { write_frame(stream, bytes).await.map_err(StreamError::broken) }).await
}

pub(super) async fn read_bytes(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> Result<Vec<u8>, StreamError> {
    within(async { read_frame(stream, limit).await.map_err(StreamError::broken) }).await
}

/// As [`read_bytes`]; nothing if the stream ends instead.
pub(super) async fn read_bytes_or_end(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> Result<Option<Vec<u8>>, StreamError> {
    within(async {
        match read_frame(stream, limit).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FrameError::Ended) => Ok(None),
            Err(error) => Err(StreamError::broken(error)),
        }
    })
    .await
}

pub(super) async fn read_message<T: Wire>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, StreamError> {
    codec::decode(&read_bytes(stream, T::LIMIT).await?).map_err(StreamError::broken)
}

/// Checks that `node` may answer `call` so: what it grants is its own and what was asked for, and
/// its numbers can be true.
pub(super) fn check_reply(node: &NodeName, call: &LeaseCall, reply: &LeaseCallReply) -> Result<(), StreamError> {
    let (LeaseCall::Ask(ask), LeaseCallReply::Lease(reply)) = (call, reply) else { return Ok(()) };
    let quote = match reply {
        LeaseReply::Granted { lease, .. } if lease.id.node != *node => {
            return Err(StreamError(format!("lease.id: found {}, allowed only a lease of {node}", lease.id)));
        }
        LeaseReply::Granted { lease, .. } if lease.kv_bytes != ask.kv_bytes => {
            let (found, allowed) = (lease.kv_bytes, ask.kv_bytes);
            return Err(StreamError(format!("lease.kv_bytes: found {found}, allowed {allowed}, as was asked")));
        }
        LeaseReply::Granted { quote, .. } => Some(quote),
        LeaseReply::Refused { quote, .. } => quote.as_ref(),
    };
    match quote.and_then(|quote| quote.token_time_ms).filter(|ms| !(ms.is_finite() && *ms >= 0.0)) {
        Some(found) => Err(StreamError(format!("quote.token_time_ms: found {found}, allowed a finite number from 0"))),
        None => Ok(()),
    }
}

/// Why a question came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct StreamError(pub(super) String);

impl StreamError {
    pub(super) fn broken(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// What comes within [`PATIENCE`].
pub(super) async fn within<T>(what: impl Future<Output = Result<T, StreamError>>) -> Result<T, StreamError> {
    tokio::time::timeout(PATIENCE, what).await.unwrap_or_else(|_| Err(StreamError("it took too long".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extent, Lease, LeaseAsk, LeaseId, LeaseRefusal, Quote};

    fn lease_id() -> LeaseId {
        "d0.5.7".parse().unwrap()
    }

    #[test]
    fn the_form_of_every_message_is_fixed() {
        let node = |text: &str| NodeName::new(text).unwrap();
        let golden = |bytes: Result<Vec<u8>, codec::CodecError>, expected: &[&[u8]]| {
            assert_eq!(bytes.unwrap(), expected.concat());
        };
        golden(codec::encode(&Hello { name: node("d0") }), &[&[1, 2], b"d0"]);
        let known = Some((5, SocketAddr::from(([10, 0, 0, 1], 7))));
        golden(
            codec::encode(&HelloReply { known, wall_ms: 300, age_ms: 8 }),
            &[&[1, 1, 5, 0, 10, 0, 0, 1, 7, 251, 44, 1, 8]],
        );
        golden(codec::encode(&HelloReply { known: None, wall_ms: 9, age_ms: 0 }), &[&[1, 0, 9, 0]]);

        let ask = LeaseAsk {
            holder: node("p0"),
            holder_generation: 4,
            ask: 3,
            request_id: "r".parse().unwrap(),
            kv_bytes: 300,
            ttl_ms: 250,
            model: None,
        };
        golden(codec::encode(&LeaseCall::Ask(ask)), &[&[1, 0, 2], b"p0", &[4, 3, 1], b"r", &[251, 44, 1, 250, 0]]);
        golden(codec::encode(&LeaseCall::Release(lease_id())), &[&[1, 1, 6], b"d0.5.7"]);
        let renew = LeaseCall::Renew { lease: lease_id(), ttl_ms: 1 };
        golden(codec::encode(&renew), &[&[1, 2, 6], b"d0.5.7", &[1]]);
        golden(codec::encode(&LeaseCall::GiveUp(lease_id())), &[&[1, 3, 6], b"d0.5.7"]);

        golden(codec::encode(&LeaseCallReply::Changed(true)), &[&[1, 1, 1]]);
        let refused = LeaseReply::Refused { refusal: LeaseRefusal::KvBytes, quote: None };
        golden(codec::encode(&LeaseCallReply::Lease(refused)), &[&[1, 0, 1, 1, 0]]);
        let quote = Quote {
            revision: 9,
            active_sessions: 1,
            max_sessions: 2,
            kv_bytes_free: 3,
            inbound_bytes: 4,
            token_time_ms: None,
        };
        let extents = vec![Extent { offset: 0, bytes: 9 }];
        let lease = Lease { id: lease_id(), kv_bytes: 8, extents, ttl_ms: 7 };
        golden(
            codec::encode(&LeaseCallReply::Lease(LeaseReply::Granted { lease, quote })),
            &[&[1, 0, 0, 6], b"d0.5.7", &[8, 1, 0, 9, 7, 9, 1, 2, 3, 4, 0]],
        );
    }

    #[test]
    fn a_lease_answer_that_cannot_be_true_is_refused_and_says_what_was_found() {
        let node = NodeName::new("d0").unwrap();
        let ask = LeaseCall::Ask(LeaseAsk {
            holder: NodeName::new("p0").unwrap(),
            holder_generation: 4,
            ask: 3,
            request_id: "r".parse().unwrap(),
            kv_bytes: 8,
            ttl_ms: 250,
            model: None,
        });
        let quote = |token_time_ms| Quote {
            revision: 9,
            active_sessions: 1,
            max_sessions: 2,
            kv_bytes_free: 3,
            inbound_bytes: 4,
            token_time_ms,
        };
        let granted = |id: &str, kv_bytes, token_time_ms| {
            let lease = Lease { id: id.parse().unwrap(), kv_bytes, extents: Vec::new(), ttl_ms: 7 };
            LeaseCallReply::Lease(LeaseReply::Granted { lease, quote: quote(token_time_ms) })
        };
        let refused = |quote| LeaseCallReply::Lease(LeaseReply::Refused { refusal: LeaseRefusal::Sessions, quote });
        let fine = [
            granted("d0.5.7", 8, None),
            granted("d0.5.7", 8, Some(0.0)),
            refused(None),
            refused(Some(quote(Some(3.5)))),
            LeaseCallReply::Changed(true),
        ];
        for reply in fine {
            check_reply(&node, &ask, &reply).unwrap();
        }
        let wrong = [
            (granted("d0.5.7", 8, Some(f64::NAN)), "quote.token_time_ms: found NaN"),
            (granted("d0.5.7", 8, Some(f64::INFINITY)), "quote.token_time_ms: found inf"),
            (refused(Some(quote(Some(-1.0)))), "quote.token_time_ms: found -1"),
            (granted("d1.5.7", 8, None), "lease.id: found d1.5.7"),
            (granted("d0.5.7", 9, None), "lease.kv_bytes: found 9, allowed 8"),
        ];
        for (reply, words) in wrong {
            let error = check_reply(&node, &ask, &reply).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[tokio::test]
    async fn a_question_of_an_unknown_kind_or_an_endless_message_is_refused() {
        let mut unknown: &[u8] = &[9];
        assert!(read_kind(&mut unknown).await.unwrap_err().to_string().contains("unknown kind 9"));
        let mut question = Vec::new();
        write_question(&mut question, Kind::Hello, &[0; 200]).await.unwrap();
        let mut stream = &question[..];
        assert_eq!(read_kind(&mut stream).await.unwrap(), Kind::Hello);
        assert!(read_message::<Hello>(&mut stream).await.is_err());
    }
}
