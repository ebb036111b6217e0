//! Bounded lines with their numbers, and the errors that name them.

use std::io::{BufRead, Error, ErrorKind, Read};

use super::{Input, MAX_TOKENS, TraceError};

/// One line of a trace at most.
pub const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// Lines of UTF-8 text without their ends; blank ones, a byte order mark and CR before LF are
/// skipped.
pub(crate) struct Lines {
    file: String,
    input: Input,
    gzip: bool,
    line: u64,
}

impl Lines {
    /// `gzip` says what the input was made from.
    pub(super) fn new(file: &str, input: Input, gzip: bool) -> Self {
        Self { file: file.to_owned(), input, gzip, line: 0 }
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The next line that is not blank.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, TraceError> {
        let mut text = String::new();
        Ok(self.read_line(&mut text)?.then_some(text))
    }

    /// Puts the next line that is not blank in place of `text`, whose memory is used again, and
    /// says whether there was one.
    pub(crate) fn read_line(&mut self, text: &mut String) -> Result<bool, TraceError> {
        loop {
            let mut bytes = std::mem::take(text).into_bytes();
            bytes.clear();
            self.line += 1;
            self.input
                .by_ref()
                .take(MAX_LINE_BYTES + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(|source| self.unreadable(source))?;
            if bytes.is_empty() {
                return Ok(false);
            }
            // What ends in CR alone is one line, however long.
            let text_bytes = bytes.trim_ascii_end();
            if text_bytes.contains(&b'\r') {
                return Err(self.malformed(
                    "the line",
                    "a CR inside it",
                    "lines that end in LF or CRLF, not in CR alone",
                ));
            }
            if bytes.len() as u64 > MAX_LINE_BYTES {
                let allowed = format!("lines of at most {MAX_LINE_BYTES} bytes");
                return Err(self.malformed("the line", "a longer line", &allowed));
            }
            *text = match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(_) => return Err(self.malformed("the line", "other bytes", "UTF-8 text")),
            };
            text.truncate(text.trim_end().len());
            let marked = if self.line == 1 { text.trim_start_matches('\u{feff}') } else { text.as_str() };
            let before = text.len() - marked.trim_start().len();
            text.drain(..before);
            if !text.is_empty() {
                return Ok(true);
            }
        }
    }

    fn unreadable(&self, source: Error) -> TraceError {
        let file = self.file.clone();
        match source.kind() {
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof if self.gzip => {
                TraceError::Gzip { file, source }
            }
            _ => TraceError::Io { file, source },
        }
    }

    /// An error about the line that was read last.
    pub(crate) fn malformed(&self, field: &str, found: &str, allowed: &str) -> TraceError {
        self.malformed_whole(field, found.chars().take(80).collect(), allowed)
    }

    /// The same where what was found is said in words of Seam's own, and therefore not cut.
    pub(crate) fn malformed_whole(&self, field: &str, found: String, allowed: &str) -> TraceError {
        let (file, field, allowed) = (self.file.clone(), field.to_owned(), allowed.to_owned());
        TraceError::Malformed { file, line: self.line, field, found, allowed }
    }

    /// Checks a number of tokens.
    pub(super) fn tokens(
        &self,
        field: &str,
        found: &str,
        value: Option<u64>,
        at_least: u64,
    ) -> Result<u64, TraceError> {
        value.filter(|value| (at_least..=MAX_TOKENS).contains(value)).ok_or_else(|| {
            self.malformed(field, found, &format!("a whole number of tokens from {at_least} to {MAX_TOKENS}"))
        })
    }
}
