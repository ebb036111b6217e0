//! Bytes: bounded bincode with a version byte, for wire, gossip and tape.
//!
//! This is the only module that knows bincode. A message is one version byte followed by the
//! value. Its type fixes how many bytes it may have ([`Wire::LIMIT`]); a longer one is refused
//! before it is looked at, and so is one with bytes left over after the value. A length inside a
//! message never leads to an allocation of more than eight times the message's own size (one MiB
//! for lists of small messages), whatever it claims.

mod blob;
mod packet;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use blob::Blob;
pub(crate) use packet::{PacketCodec, PacketReader};

/// The version of every format of this crate; the first byte of every message.
pub const VERSION: u8 = 1;

/// A message that may be sent.
pub trait Wire: Serialize + DeserializeOwned {
    /// What errors call it.
    const NAME: &'static str;
    /// How many bytes it may have, the version byte included; at most [`MAX_LIMIT`].
    const LIMIT: usize;
}

/// No message may have more bytes than this.
pub const MAX_LIMIT: usize = 2 * 1024 * 1024;

/// Why bytes are not a message, or a value cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No byte at all.
    #[error("{what}: empty")]
    Empty {
        /// Which message.
        what: &'static str,
    },
    /// The first byte is another version's.
    #[error("{what}: version {found}, this program speaks version {VERSION}")]
    Version {
        /// Which message.
        what: &'static str,
        /// What was found.
        found: u8,
    },
    /// Too many bytes.
    #[error("{what}: {found} bytes, at most {limit} are allowed")]
    TooLong {
        /// Which message.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The value ended before the bytes did.
    #[error("{what}: {extra} bytes left over")]
    Trailing {
        /// Which message.
        what: &'static str,
        /// How many.
        extra: usize,
    },
    /// The bytes are no such value, or the value has no such form.
    #[error("{what}: {detail}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What is wrong, in words.
        detail: String,
    },
}

/// The bytes of `value`.
///
/// # Errors
/// It is longer than its limit, or holds something that has no form in bytes.
pub fn encode<T: Wire>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![VERSION];
    bincode::serde::encode_into_std_write(value, &mut bytes, CONFIG)
        .map_err(|error| CodecError::Malformed { what: T::NAME, detail: error.to_string() })?;
    if bytes.len() > limit_of::<T>() {
        return Err(CodecError::TooLong { what: T::NAME, found: bytes.len(), limit: limit_of::<T>() });
    }
    Ok(bytes)
}

/// The value of `bytes`, all of them.
///
/// # Errors
/// They are too many, of another version, no such value, or more than the value.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > limit_of::<T>() {
        return Err(CodecError::TooLong { what: T::NAME, found: bytes.len(), limit: limit_of::<T>() });
    }
    let value = match bytes.split_first() {
        None => return Err(CodecError::Empty { what: T::NAME }),
        Some((&VERSION, value)) => value,
        Some((&found, _)) => return Err(CodecError::Version { what: T::NAME, found }),
    };
    whole(T::NAME, value)
}

/// Appends the bytes of `value` without a version byte, for what lies in a frame that has one. Nothing
/// is appended on an error.
///
/// # Errors
/// It is longer than `limit` bytes, or holds something that has no form in bytes.
pub fn append_bare<T: Serialize>(
    what: &'static str,
    limit: usize,
    value: &T,
    bytes: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let before = bytes.len();
    let written = bincode::serde::encode_into_std_write(value, bytes, CONFIG)
        .map_err(|error| CodecError::Malformed { what, detail: error.to_string() });
    let result = match written {
        Ok(found) if found > limit => Err(CodecError::TooLong { what, found, limit }),
        other => other.map(|_| ()),
    };
    if result.is_err() {
        bytes.truncate(before);
    }
    result
}

/// The value of `bytes`, all of them, that [`append_bare`] wrote.
///
/// # Errors
/// They are more than `limit`, no such value, or more than the value.
pub fn decode_bare<T: DeserializeOwned>(what: &'static str, limit: usize, bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > limit {
        return Err(CodecError::TooLong { what, found: bytes.len(), limit });
    }
    whole(what, bytes)
}

fn whole<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, CodecError> {
    let (value, read) = decode_some(bytes).map_err(|detail| CodecError::Malformed { what, detail })?;
    match bytes.len().saturating_sub(read) {
        0 => Ok(value),
        extra => Err(CodecError::Trailing { what, extra }),
    }
}

const CONFIG: bincode::config::Configuration = bincode::config::standard();

fn limit_of<T: Wire>() -> usize {
    T::LIMIT.min(MAX_LIMIT)
}

/// Decodes one value from the front of `bytes`, and says how many bytes it took.
///
/// bincode counts what a value claims to need: eight bytes for each number, one for each byte of a
/// text. Its limit is a constant of the type, hence the steps.
fn decode_some<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), String> {
    macro_rules! step {
        ($($kib:literal),+) => {
            match bytes.len().saturating_mul(8) {
                $(claims if claims <= $kib * 1024 => {
                    bincode::serde::decode_from_slice(bytes, CONFIG.with_limit::<{ $kib * 1024 }>())
                })+
                _ => return Err(format!("{} bytes are more than any message has", bytes.len())),
            }
        };
    }
    step!(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
