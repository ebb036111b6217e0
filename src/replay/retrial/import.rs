//! Another traffic on a recorded history: the requests of a trace in place of the recorded ones.

use std::iter::Peekable;
use std::path::PathBuf;

use serde::Serialize;

use crate::api::RouteRequest;
use crate::core::{Mono, Now};
use crate::model::RequestId;
use crate::policy;
use crate::trace::{Arrival, TraceError, TraceReader, Traffic};

/// A trace, and how it becomes requests. Each life that routes is asked all of it, from when it
/// knows enough to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The trace: Mooncake, Azure or ServeGen, by content.
    pub trace: PathBuf,
    /// What becomes of its lines.
    pub traffic: Traffic,
}

/// How far the trace came.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Imported {
    /// Lives that were asked.
    pub lives: u64,
    /// Of them those that ended before the trace did.
    pub cut_short: u64,
    /// Questions that were refused as such: too large, or of a class that is not there.
    pub refused: u64,
    /// Why the first of them was.
    pub first_refusal: Option<String>,
}

/// What is still to be asked of one life.
pub(super) struct Stream {
    began: Now,
    number: u64,
    arrivals: Arrivals,
}

/// A trace's requests, of which the first can be read.
pub(super) type Arrivals = Peekable<Box<dyn Iterator<Item = Result<Arrival, TraceError>> + Send>>;

impl Import {
    /// Opens the trace and reads its first request.
    pub(super) fn open(&self) -> Result<Arrivals, TraceError> {
        let trace = TraceReader::open(&self.trace)?;
        let arrivals: Box<dyn Iterator<Item = _> + Send> = Box::new(self.traffic.clone().of(trace));
        let mut arrivals = arrivals.peekable();
        arrivals.next_if(Result::is_err).transpose()?;
        Ok(arrivals)
    }
}

impl Stream {
    pub(super) fn begin(began: Now, arrivals: Arrivals) -> Self {
        Self { began, number: 0, arrivals }
    }

    /// The next request that has come by `now`.
    pub(super) fn next(&mut self, now: Now) -> Result<Option<(Now, policy::Input)>, TraceError> {
        let due = |arrival: &Result<Arrival, TraceError>| {
            arrival.as_ref().map_or(true, |arrival| self.began.mono.0.saturating_add(nanos(arrival)) <= now.mono.0)
        };
        let Some(arrival) = self.arrivals.next_if(due).transpose()? else { return Ok(None) };
        self.number += 1;
        let at = Now {
            mono: Mono(self.began.mono.0.saturating_add(nanos(&arrival))),
            wall_ms: self.began.wall_ms.saturating_add(arrival.at_ms as u64),
        };
        Ok(self.name().map(|request_id| (at, question(arrival, self.number, request_id))))
    }

    /// Whether the trace goes on.
    pub(super) fn is_left(&mut self) -> bool {
        self.arrivals.peek().is_some()
    }

    /// "trace-" and the request's place in the trace, from 1.
    fn name(&self) -> Option<RequestId> {
        format!("trace-{}", self.number).parse().ok()
    }
}

fn nanos(arrival: &Arrival) -> u64 {
    // A float beyond the range becomes the range's end.
    (arrival.at_ms * 1e6) as u64
}

fn question(arrival: Arrival, key: u64, request_id: RequestId) -> policy::Input {
    let request = RouteRequest::new(arrival.workload, arrival.kv_bytes);
    policy::Input::Route { key, request_id, request, traceparent: None }
}
