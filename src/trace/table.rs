//! The CSV formats: Azure's and ServeGen's. Columns are found by name, so further ones do no harm.

use std::time::UNIX_EPOCH;

use super::lines::Lines;
use super::{TraceError, TraceFormat, TraceRequest};

/// Column names: arrival, input tokens, output tokens.
const AZURE: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
const SERVEGEN: [&str; 3] = ["arrival_s", "input_tokens", "output_tokens"];

pub(super) struct Table {
    lines: Lines,
    format: TraceFormat,
    names: [&'static str; 3],
    columns: [usize; 3],
}

impl Table {
    pub(super) fn new(lines: Lines, header: &str) -> Result<(TraceFormat, Self), TraceError> {
        let found = fields(&lines, header)?;
        for (format, names) in [(TraceFormat::Azure, AZURE), (TraceFormat::ServeGen, SERVEGEN)] {
            let column = |name: &str| found.iter().position(|field| field == name);
            let [arrival, input, output] = names.map(column);
            if let (Some(arrival), Some(input), Some(output)) = (arrival, input, output) {
                return Ok((format, Self { lines, format, names, columns: [arrival, input, output] }));
            }
        }
        let allowed = format!(
            "JSON lines (Mooncake), or a CSV header with {} (Azure) or {} (ServeGen)",
            AZURE.join(", "),
            SERVEGEN.join(", ")
        );
        Err(lines.malformed("the first line", header, &allowed))
    }

    pub(super) fn line(&self) -> u64 {
        self.lines.line()
    }

    pub(super) fn next_row(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let row = fields(&self.lines, &line)?;
        let [arrival, input, output] = self.columns.map(|column| row.get(column).map_or("nothing", String::as_str));
        let [arrival_name, input_name, output_name] = self.names;
        let arrival_ms = match self.format {
            TraceFormat::Azure => date_ms(arrival)
                .ok_or_else(|| self.lines.malformed(arrival_name, arrival, "a date like 2023-11-16 18:15:46.68"))?,
            TraceFormat::Mooncake | TraceFormat::ServeGen => seconds_ms(arrival).ok_or_else(|| {
                self.lines.malformed(arrival_name, arrival, "a finite number of seconds of at least 0")
            })?,
        };
        Ok(Some(TraceRequest {
            arrival_ms,
            input_tokens: self.lines.tokens(input_name, input, input.parse().ok(), 1)?,
            output_tokens: self.lines.tokens(output_name, output, output.parse().ok(), 0)?,
            prefix_hashes: None,
        }))
    }
}

/// The fields of one line, quotes resolved and blanks around them dropped.
fn fields(lines: &Lines, line: &str) -> Result<Vec<String>, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .trim(csv::Trim::All)
        .buffer_capacity(line.len().max(1))
        .from_reader(line.as_bytes());
    match reader.records().next() {
        Some(Ok(record)) => Ok(record.iter().map(str::to_owned).collect()),
        Some(Err(error)) => Err(lines.malformed("the line", &error.to_string(), "comma-separated values")),
        None => Ok(Vec::new()),
    }
}

fn seconds_ms(text: &str) -> Option<f64> {
    text.parse().ok().map(|seconds: f64| seconds * 1_000.0).filter(|ms| ms.is_finite() && *ms >= 0.0)
}

/// Milliseconds since the Unix epoch of a date in UTC.
fn date_ms(text: &str) -> Option<f64> {
    let text = text.strip_suffix("+00:00").unwrap_or(text);
    let date = humantime::parse_rfc3339_weak(text).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64() * 1_000.0)
}
