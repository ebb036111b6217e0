//! Length-prefixed messages on a stream, with a bound that the reader names.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Why no frame came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The stream ended where a frame would start.
    #[error("the stream ended")]
    Ended,
    /// The announced length is above the reader's bound.
    #[error("a frame of {found} bytes, at most {limit} are allowed")]
    TooLong {
        /// The announced length.
        found: usize,
        /// The bound.
        limit: usize,
    },
    /// The stream broke, or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes `payload` with its length before it.
pub(crate) async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).map_err(|_| io::Error::other("a frame above 4 GiB"))?;
    let mut framed = Vec::with_capacity(payload.len() + 4);
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(payload);
    stream.write_all(&framed).await
}

/// Reads one frame of at most `limit` bytes. Memory grows with what has arrived, not with what
/// was announced.
pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut header = [0_u8; 4];
    if stream.read(&mut header[..1]).await? == 0 {
        return Err(FrameError::Ended);
    }
    stream.read_exact(&mut header[1..]).await?;
    let length = u32::from_le_bytes(header);
    let found = usize::try_from(length).unwrap_or(usize::MAX);
    if found > limit {
        return Err(FrameError::TooLong { found, limit });
    }
    let mut payload = Vec::new();
    let read = stream.take(u64::from(length)).read_to_end(&mut payload).await?;
    if read < found {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_as_they_went_in_and_then_the_end_is_seen() {
        let (mut a, mut b) = tokio::io::duplex(16);
        let sender = tokio::spawn(async move {
            for size in [0_usize, 1, 100] {
                write_frame(&mut a, &vec![7; size]).await.unwrap();
            }
        });
        for size in [0_usize, 1, 100] {
            assert_eq!(read_frame(&mut b, 100).await.unwrap(), vec![7; size]);
        }
        sender.await.unwrap();
        assert!(matches!(read_frame(&mut b, 100).await, Err(FrameError::Ended)));
    }

    #[tokio::test]
    async fn a_frame_above_the_bound_or_cut_short_is_refused() {
        let mut long: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1, 2];
        assert!(matches!(read_frame(&mut long, 64).await, Err(FrameError::TooLong { limit: 64, .. })));
        for mut cut in [&[3, 0, 0][..], &[3, 0, 0, 0, 1, 2][..]] {
            assert!(matches!(read_frame(&mut cut, 64).await, Err(FrameError::Io(_))));
        }
    }
}
