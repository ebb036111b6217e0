//! The requests of a trace that begins anew when it ends, read on a thread of its own.

use std::path::PathBuf;

use seam::trace::{Arrival, Builtin, TraceError, TraceReader, TraceRequest, Traffic};
use tokio::sync::mpsc;

use crate::exit::Failure;

/// Requests read ahead at most.
const READ_AHEAD: usize = 256;

type Requests = Box<dyn Iterator<Item = Result<TraceRequest, TraceError>> + Send>;

/// Requests in the order of their arrival; ends after an error, or with its reader.
pub(super) type Arrivals = mpsc::Receiver<Result<Arrival, TraceError>>;

/// Opens the trace, or begins the built-in stream.
pub(super) async fn read(trace: Option<PathBuf>, traffic: Traffic) -> Result<Arrivals, Failure> {
    let (arrivals, read) = mpsc::channel(READ_AHEAD);
    let seed = traffic.seed;
    let opened = tokio::task::spawn_blocking(move || -> Result<Requests, TraceError> {
        Ok(match trace {
            Some(path) => Box::new(Endless { reader: TraceReader::open(&path)?, path, begun_ms: 0.0, last_ms: 0.0 }),
            None => Box::new(Builtin::new(seed).map(Ok)),
        })
    });
    let requests = opened.await.map_err(Failure::failed)?.map_err(Failure::usage)?;
    std::thread::Builder::new()
        .name("trace".to_owned())
        .spawn(move || {
            for arrival in traffic.of(requests) {
                if arrivals.blocking_send(arrival).is_err() {
                    return;
                }
            }
        })
        .map_err(Failure::failed)?;
    Ok(read)
}

/// A trace again and again, each round where the one before it ended.
struct Endless {
    reader: TraceReader,
    path: PathBuf,
    begun_ms: f64,
    last_ms: f64,
}

impl Iterator for Endless {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.reader.next() {
            Some(next) => next,
            None => {
                self.reader = match TraceReader::open(&self.path) {
                    Ok(reader) => reader,
                    Err(error) => return Some(Err(error)),
                };
                self.begun_ms = self.last_ms;
                self.reader.next()?
            }
        };
        Some(next.map(|request| {
            self.last_ms = self.begun_ms + request.arrival_ms;
            // Prefixes play no part here, and are most of a trace's bytes.
            TraceRequest { arrival_ms: self.last_ms, prefix_hashes: None, ..request }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_anew_where_it_ended_and_an_error_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, "arrival_s,input_tokens,output_tokens\n5,10,1\n6.5,20,1\n").unwrap();
        let reader = TraceReader::open(&path).unwrap();
        let mut endless = Endless { reader, path: path.clone(), begun_ms: 0.0, last_ms: 0.0 };
        let seen: Vec<_> =
            endless.by_ref().take(5).map(|r| r.unwrap()).map(|r| (r.arrival_ms, r.input_tokens)).collect();
        assert_eq!(seen, [(0.0, 10), (1500.0, 20), (1500.0, 10), (3000.0, 20), (3000.0, 10)]);
        std::fs::remove_file(&path).unwrap();
        assert!(endless.next().unwrap().is_ok());
        assert!(endless.next().unwrap().is_err());
    }
}
