//! Mooncake's JSON lines.

use serde_json::Value;

use super::lines::Lines;
use super::{TraceError, TraceRequest};

pub(super) struct Mooncake {
    lines: Lines,
    /// The line that told the format, until it is a row.
    pending: Option<String>,
}

impl Mooncake {
    pub(super) fn new(lines: Lines, first: String) -> Self {
        Self { lines, pending: Some(first) }
    }

    pub(super) fn line(&self) -> u64 {
        self.lines.line()
    }

    pub(super) fn next_row(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        let line = match self.pending.take() {
            Some(line) => line,
            None => match self.lines.next_line()? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        let row: Value = serde_json::from_str(&line)
            .map_err(|error| self.lines.malformed("the line", &error.to_string(), "one JSON object"))?;
        let arrival = row.get("timestamp");
        let arrival_ms =
            arrival.and_then(Value::as_f64).filter(|ms| ms.is_finite() && *ms >= 0.0).ok_or_else(|| {
                self.lines.malformed("timestamp", &shown(arrival), "a finite number of milliseconds of at least 0")
            })?;
        let tokens = |field: &str, at_least| {
            let value = row.get(field);
            self.lines.tokens(field, &shown(value), value.and_then(Value::as_u64), at_least)
        };
        Ok(Some(TraceRequest {
            arrival_ms,
            input_tokens: tokens("input_length", 1)?,
            output_tokens: tokens("output_length", 0)?,
            prefix_hashes: self.hashes(row.get("hash_ids"))?,
        }))
    }

    fn hashes(&self, found: Option<&Value>) -> Result<Option<Vec<u64>>, TraceError> {
        let Some(found) = found else { return Ok(None) };
        let ids = found.as_array().and_then(|ids| ids.iter().map(Value::as_u64).collect());
        match ids {
            Some(ids) => Ok(Some(ids)),
            None => Err(self.lines.malformed("hash_ids", &shown(Some(found)), "a list of whole numbers")),
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}
