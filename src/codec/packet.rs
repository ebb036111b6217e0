//! The bytes of membership packets, as foca asks for them: a header, members, then records.

use bytes::{Buf, BufMut};
use foca::{Header, Member, Message};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CONFIG, CodecError, VERSION, decode_some};

const WHAT: &str = "membership packet";

/// Writes and reads the parts of a packet; each part's size is bounded by the packet's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCodec;

impl<T: Serialize + DeserializeOwned> foca::Codec<T> for PacketCodec {
    type Error = CodecError;

    fn encode_header(&mut self, header: &Header<T>, mut buf: impl BufMut) -> Result<(), CodecError> {
        put(&mut buf, Some(VERSION), header)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<T>, CodecError> {
        let (header, read) = read_header(buf.chunk())?;
        buf.advance(read);
        Ok(header)
    }

    fn encode_member(&mut self, member: &Member<T>, mut buf: impl BufMut) -> Result<(), CodecError> {
        put(&mut buf, None, member)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<T>, CodecError> {
        let (member, read) = decode_some(buf.chunk()).map_err(malformed)?;
        buf.advance(read);
        Ok(member)
    }
}

/// A whole packet taken apart before membership acts on any of it.
#[derive(Debug)]
pub(crate) struct PacketReader<'a, T> {
    /// Who says what to whom.
    pub(crate) header: Header<T>,
    /// What it says of others.
    pub(crate) members: Vec<Member<T>>,
    /// The records that came along.
    pub(crate) records: Vec<&'a [u8]>,
    /// The packet without its records.
    pub(crate) membership: &'a [u8],
}

impl<'a, T: DeserializeOwned + PartialEq> PacketReader<'a, T> {
    /// Takes a packet of at most `limit` bytes apart.
    pub(crate) fn read(packet: &'a [u8], limit: usize) -> Result<Self, CodecError> {
        if packet.len() > limit {
            return Err(CodecError::TooLong { what: WHAT, found: packet.len(), limit });
        }
        let (header, read) = read_header::<T>(packet)?;
        let mut rest = packet.get(read..).unwrap_or_default();
        let mut members = Vec::new();
        if header.message == Message::Announce {
            if !rest.is_empty() {
                return Err(CodecError::Trailing { what: WHAT, extra: rest.len() });
            }
        } else if header.message != Message::Broadcast && !rest.is_empty() {
            for _ in 0..take_u16(&mut rest)? {
                let (member, read) = decode_some(rest).map_err(malformed)?;
                members.push(member);
                rest = rest.get(read..).unwrap_or_default();
            }
        }
        let membership = packet.get(..packet.len().saturating_sub(rest.len())).unwrap_or_default();
        let mut records = Vec::new();
        while !rest.is_empty() {
            let length = usize::from(take_u16(&mut rest)?);
            match rest.split_at_checked(length) {
                Some((record, after)) if length > 0 => {
                    records.push(record);
                    rest = after;
                }
                _ => return Err(malformed(format!("a record of {length} bytes where {} are left", rest.len()))),
            }
        }
        Ok(Self { header, members, records, membership })
    }
}

fn read_header<T: DeserializeOwned>(bytes: &[u8]) -> Result<(Header<T>, usize), CodecError> {
    match bytes.split_first() {
        None => Err(CodecError::Empty { what: WHAT }),
        Some((&VERSION, rest)) => {
            let (header, read) = decode_some(rest).map_err(malformed)?;
            Ok((header, read + 1))
        }
        Some((&found, _)) => Err(CodecError::Version { what: WHAT, found }),
    }
}

fn put(buf: &mut impl BufMut, version: Option<u8>, value: impl Serialize) -> Result<(), CodecError> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(version);
    bincode::serde::encode_into_std_write(value, &mut bytes, CONFIG).map_err(|error| malformed(error.to_string()))?;
    // foca stops at the first part that does not fit; nothing of it may be written then.
    if bytes.len() > buf.remaining_mut() {
        return Err(CodecError::TooLong { what: WHAT, found: bytes.len(), limit: buf.remaining_mut() });
    }
    buf.put_slice(&bytes);
    Ok(())
}

fn take_u16(rest: &mut &[u8]) -> Result<u16, CodecError> {
    let (number, after) =
        rest.split_first_chunk::<2>().ok_or_else(|| malformed(format!("{} bytes left over", rest.len())))?;
    *rest = after;
    Ok(u16::from_be_bytes(*number))
}

fn malformed(detail: String) -> CodecError {
    CodecError::Malformed { what: WHAT, detail }
}
