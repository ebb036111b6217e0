//! Where the requests come from.

use super::{DemoError, Options};
use crate::trace::{Builtin, TraceReader, TraceRequest};

/// The first requests of the trace, or of the built-in stream, and its name.
pub(crate) fn read(options: &Options) -> Result<(String, Vec<TraceRequest>), DemoError> {
    let Some(path) = &options.trace else {
        return Ok(("the built-in stream".to_owned(), Builtin::new(options.seed).take(options.requests).collect()));
    };
    let reader = TraceReader::open(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let source = format!("{name} ({})", reader.format().as_str());
    let mut requests = Vec::new();
    for request in reader.take(options.requests) {
        // Prefixes play no part here, and are most of a trace's bytes.
        requests.push(TraceRequest { prefix_hashes: None, ..request? });
    }
    Ok((source, requests))
}
