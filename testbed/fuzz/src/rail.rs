//! The messages on a rail's streams.

use seam::codec;

// The messages are private to the backend; this compiles their source as it is.
#[path = "../../../src/transport/quic/wire.rs"]
#[allow(dead_code)]
mod wire;

/// A question or an answer, whichever the bytes are.
pub fn run(data: &[u8]) {
    if let Ok(request) = codec::decode::<wire::Request>(data) {
        let sent = codec::encode(&request).expect("what was received can be sent");
        assert_eq!(codec::decode::<wire::Request>(&sent).expect("and received again"), request);
    }
    if let Ok(reply) = codec::decode::<wire::Reply>(data) {
        let sent = codec::encode(&reply).expect("what was received can be sent");
        assert_eq!(codec::decode::<wire::Reply>(&sent).expect("and received again"), reply);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let lease = "d.7.300".parse().expect("a lease");
    let messages = [
        codec::encode(&wire::Request::Probe { payload_bytes: 64, deadline_ms: 250 }),
        codec::encode(&wire::Request::Write { lease, bytes: 70_000, deadline_ms: 5 }),
        codec::encode(&wire::Reply::Echo),
        codec::encode(&wire::Reply::refused("no such lease")),
    ];
    messages.into_iter().map(|bytes| bytes.expect("small")).collect()
}
