//! Server-sent events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::ClientError;
use super::connection::Connection;

/// An event is no larger than this many bytes.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its kind; empty where the server does not say.
    pub kind: String,
    /// Its data.
    pub data: String,
}

impl Event {
    /// The data as JSON.
    ///
    /// # Errors
    /// It is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }
}

/// A stream of events; closes when dropped.
pub struct Events {
    url: String,
    body: Incoming,
    reader: Reader,
    _connection: Connection,
}

impl Events {
    pub(super) fn new(url: String, body: Incoming, connection: Connection) -> Self {
        Self { url, body, reader: Reader::default(), _connection: connection }
    }

    /// The next event; `None` when the server has ended the stream.
    ///
    /// # Errors
    /// The stream broke off, or an event is too large.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.reader.next() {
                return Ok(Some(event));
            }
            let broken = |detail: String| ClientError::Unreachable { url: self.url.clone(), detail };
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| broken(format!("the stream broke off: {error}")))?;
            if let Some(data) = frame.data_ref() {
                self.reader.push(data).map_err(|()| broken(format!("an event is past {MAX_EVENT_BYTES} bytes")))?;
            }
        }
    }
}

/// Bytes to events.
#[derive(Default)]
struct Reader {
    bytes: Vec<u8>,
    event: Event,
    any_data: bool,
}

impl Reader {
    fn push(&mut self, data: &[u8]) -> Result<(), ()> {
        if self.bytes.len() + self.event.data.len() + data.len() > MAX_EVENT_BYTES {
            return Err(());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.any_data) {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.kind),
                "data" => {
                    if std::mem::replace(&mut self.any_data, true) {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                // Comments keep the connection alive; ids and retry times have no use here.
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_however_the_bytes_are_cut() {
        let text = b": hello\n\nevent: decision\r\ndata: {\"a\":\ndata:1}\n\ndata: x\nid: 7\n\ndata: unfinished\n";
        let expected = [
            Event { kind: "decision".to_owned(), data: "{\"a\":\n1}".to_owned() },
            Event { kind: String::new(), data: "x".to_owned() },
        ];
        for step in 1..text.len() {
            let mut reader = Reader::default();
            let mut events = Vec::new();
            for chunk in text.chunks(step) {
                reader.push(chunk).unwrap();
                events.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(events, expected, "in chunks of {step}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = Reader::default();
        assert!(reader.push(&vec![b'x'; MAX_EVENT_BYTES]).is_ok());
        assert!(reader.push(b"x").is_err());
    }
}
