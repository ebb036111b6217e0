//! Request traces: when requests came and how long they were.
//!
//! [`TraceReader`] reads a Mooncake JSONL, Azure CSV or ServeGen CSV trace, plain or gzip, told
//! apart by content; [`Builtin`] is a seeded stream for when there is none; [`KvModel`] turns
//! tokens into KV bytes, [`Mix`] draws classes, and [`Traffic`] makes requests for a router of both.
//! Readers stream: they hold one line at a time, and a line is bounded.

mod builtin;
mod lines;
mod mix;
mod models;
mod mooncake;
mod table;
mod traffic;

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

pub use builtin::Builtin;
pub(crate) use lines::Lines;
pub use lines::MAX_LINE_BYTES;
pub use mix::{MAX_CLASSES, MAX_SHARE, Mix, MixError};
pub use models::{KvModel, UnknownModel};
pub use traffic::{Arrival, KV_SCALE, SPEEDUP, Traffic};

/// Tokens of one request at most, input or output.
pub const MAX_TOKENS: u64 = 16 * 1024 * 1024;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRequest {
    /// When it came, in milliseconds since the trace's first request; never decreases.
    pub arrival_ms: f64,
    /// Tokens of the prompt, 1 to [`MAX_TOKENS`].
    pub input_tokens: u64,
    /// Tokens generated, 0 to [`MAX_TOKENS`].
    pub output_tokens: u64,
    /// Ids of the prompt's prefix blocks, where the trace has them.
    pub prefix_hashes: Option<Vec<u64>>,
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("{file}: {source}")]
    Io {
        /// The trace.
        file: String,
        /// The system's own words.
        source: std::io::Error,
    },
    /// The file's compression is broken.
    #[error("{file}: found broken gzip ({source}), allowed a whole gzip file, or plain text")]
    Gzip {
        /// The trace.
        file: String,
        /// What is broken.
        source: std::io::Error,
    },
    /// A line is not what its format says.
    #[error("{file}, line {line}, {field}: found {found}, allowed {allowed}")]
    Malformed {
        /// The trace.
        file: String,
        /// The line, counted from 1 in the uncompressed text.
        line: u64,
        /// The field, column, or part of the line at fault.
        field: String,
        /// What was there, cut to a printable length.
        found: String,
        /// What may be there.
        allowed: String,
    },
}

/// The formats told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// JSON lines with `timestamp` (ms), `input_length`, `output_length`, `hash_ids`.
    Mooncake,
    /// CSV with `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`.
    Azure,
    /// CSV with `arrival_s`, `input_tokens`, `output_tokens`.
    ServeGen,
}

impl TraceFormat {
    /// The format's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mooncake => "Mooncake",
            Self::Azure => "Azure",
            Self::ServeGen => "ServeGen",
        }
    }
}

/// A trace, one request after another. After an error it ends.
pub struct TraceReader {
    format: TraceFormat,
    rows: Rows,
    first_ms: Option<f64>,
    last_ms: f64,
    file: String,
    ended: bool,
}

enum Rows {
    Mooncake(mooncake::Mooncake),
    Table(table::Table),
}

impl TraceReader {
    /// Opens a trace file.
    ///
    /// # Errors
    /// The file cannot be opened, or is none of the known formats.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Io { file: name.clone(), source })?;
        Self::from_reader(&name, file)
    }

    /// Reads a trace from anywhere; `name` stands for the file in errors.
    ///
    /// # Errors
    /// The beginning cannot be read, or is none of the known formats.
    pub fn from_reader(name: &str, input: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let mut lines = open_lines(name, input)?;
        // The first line that is not blank tells the format.
        let Some(first) = lines.next_line()? else {
            return Err(lines.malformed("the file", "no line", "at least one request"));
        };
        let (format, rows) = if first.trim_start().starts_with('{') {
            (TraceFormat::Mooncake, Rows::Mooncake(mooncake::Mooncake::new(lines, first)))
        } else {
            let (format, table) = table::Table::new(lines, &first)?;
            (format, Rows::Table(table))
        };
        Ok(Self { format, rows, first_ms: None, last_ms: 0.0, file: name.to_owned(), ended: false })
    }

    /// What the content turned out to be.
    #[must_use]
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    fn pull(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        let (row, line) = match &mut self.rows {
            Rows::Mooncake(rows) => (rows.next_row()?, rows.line()),
            Rows::Table(rows) => (rows.next_row()?, rows.line()),
        };
        let Some(row) = row else {
            if self.first_ms.is_none() {
                return Err(self.malformed(line, "the file", "no request".into(), "at least one".into()));
            }
            return Ok(None);
        };
        let first_ms = *self.first_ms.get_or_insert(row.arrival_ms);
        let arrival_ms = row.arrival_ms - first_ms;
        if arrival_ms < self.last_ms {
            let found = format!("{} ms before the request above it", self.last_ms - arrival_ms);
            return Err(self.malformed(line, "arrival", found, "arrivals that never decrease".into()));
        }
        self.last_ms = arrival_ms;
        Ok(Some(TraceRequest { arrival_ms, ..row }))
    }

    fn malformed(&self, line: u64, field: &str, found: String, allowed: String) -> TraceError {
        TraceError::Malformed { file: self.file.clone(), line, field: field.to_owned(), found, allowed }
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.pull().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The lines of `input`, plain or gzip, told apart by content.
pub(crate) fn open_lines(name: &str, input: impl Read + Send + 'static) -> Result<Lines, TraceError> {
    let io = |source| TraceError::Io { file: name.to_owned(), source };
    let (head, input) = peek(Box::new(input), 2).map_err(io)?;
    let gzip = head == [0x1f, 0x8b];
    let plain: Box<dyn Read + Send> =
        if gzip { Box::new(MultiGzDecoder::new(BufReader::new(input))) } else { Box::new(input) };
    Ok(Lines::new(name, Box::new(BufReader::with_capacity(READ_BYTES, plain)), gzip))
}

/// Uncompressed bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// The first `count` bytes of `input` (fewer at its end), and an input that still has them.
fn peek(mut input: Box<dyn Read + Send>, count: u64) -> std::io::Result<(Vec<u8>, impl Read + Send)> {
    let mut head = Vec::new();
    input.by_ref().take(count).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// The uncompressed input, as every format reads it.
type Input = Box<dyn BufRead + Send>;
