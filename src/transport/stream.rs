//! Exchanges on streams: messages, and what broken ones say about the path.

use std::ops::{Deref, DerefMut};

use super::PathError;
use crate::codec::{self, Wire};
use crate::model::NodeName;
use crate::net::frame::{FrameError, read_frame, write_frame};
use crate::net::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};

/// The stream was given up by its owner, and nothing of what it is about will be written any more.
pub(super) const CODE_CANCELLED: VarInt = VarInt::from_u32(1);
/// What came on the stream is no request.
pub(super) const CODE_MALFORMED: VarInt = VarInt::from_u32(2);
/// Nothing more of the stream is wanted; the answer says why.
pub(super) const CODE_ANSWERED: VarInt = VarInt::from_u32(3);
/// The stream was given up while what it is about was being written by other means.
pub(super) const CODE_UNFINISHED: VarInt = VarInt::from_u32(4);

/// A stream that is reset when it is dropped before the peer has answered all of it, so that
/// nothing that was cut short looks finished to the peer.
pub(super) struct Outgoing {
    stream: SendStream,
    /// The peer has answered all of it.
    pub(super) answered: bool,
    /// What it is reset with.
    pub(super) code: VarInt,
}

impl Outgoing {
    /// Nothing more will be sent.
    pub(super) fn done(&mut self) {
        // Fails only if the peer wants no more; its answer says why.
        let _ = self.stream.finish();
    }
}

impl Deref for Outgoing {
    type Target = SendStream;
    fn deref(&self) -> &SendStream {
        &self.stream
    }
}

impl DerefMut for Outgoing {
    fn deref_mut(&mut self) -> &mut SendStream {
        &mut self.stream
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.answered {
            // Fails only if there is nothing left to reset.
            let _ = self.stream.reset(self.code);
        }
    }
}

/// A stream of its own.
pub(super) async fn open(peer: &NodeName, connection: &Connection) -> Result<(Outgoing, RecvStream), PathError> {
    let (out, back) = connection.quinn().open_bi().await.map_err(|error| connection_error(peer, error))?;
    Ok((Outgoing { stream: out, answered: false, code: CODE_CANCELLED }, back))
}

/// Sends one message.
pub(super) async fn say(peer: &NodeName, out: &mut SendStream, message: &impl Wire) -> Result<(), PathError> {
    let message = codec::encode(message).map_err(|error| PathError::Local(error.to_string()))?;
    write_frame(out, &message).await.map_err(|error| gone(peer, error.to_string()))
}

/// Receives one message.
pub(super) async fn hear<M: Wire>(peer: &NodeName, back: &mut RecvStream) -> Result<M, PathError> {
    let frame = read_frame(back, M::LIMIT).await.map_err(|error| match error {
        FrameError::Ended => gone(peer, "ended the stream without an answer".to_owned()),
        other => gone(peer, other.to_string()),
    })?;
    codec::decode(&frame).map_err(|error| gone(peer, format!("answered something else: {error}")))
}

pub(super) fn gone(peer: &NodeName, detail: String) -> PathError {
    PathError::PeerGone { peer: peer.clone(), detail }
}

pub(super) fn connection_error(peer: &NodeName, error: ConnectionError) -> PathError {
    match error {
        ConnectionError::LocallyClosed => PathError::Local("the rail is closed".to_owned()),
        other => gone(peer, other.to_string()),
    }
}

pub(super) fn write_error(peer: &NodeName, error: WriteError) -> PathError {
    match error {
        WriteError::ConnectionLost(error) => connection_error(peer, error),
        other => gone(peer, other.to_string()),
    }
}

pub(super) fn read_error(peer: &NodeName, error: ReadError) -> PathError {
    match error {
        ReadError::ConnectionLost(error) => connection_error(peer, error),
        other => gone(peer, other.to_string()),
    }
}
