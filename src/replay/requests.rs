//! The requests of a trace: adjacent rows of one request id, one row a candidate.

use std::io::Read;

use super::columns::{Column, Columns, PREFIX_BLOCKS};
use super::fields::{Fields, flag, number, share, shown};
use super::known::{MAX_POOLS, Pools, Refused, RequestIds, hash_of};
use super::timestamp;
use crate::model::{Capacity, InvalidName, Mode, OnNoAdmissible, RequestId, Workload, WorkloadName};
use crate::trace::{Lines, TraceError, open_lines};

/// Candidates of one request at most.
pub const MAX_CANDIDATES: usize = 4_096;

/// The largest latency or jitter of a row: a day, in milliseconds.
const MAX_MS: f64 = 86_400_000.0;
const MS: &str = "a finite number of milliseconds, 0 to 86400000";
const SHARE: &str = "a finite number, 0 to 1";
const FLAG: &str = "true or false";
const SESSIONS: &str = "a whole number of sessions, 1 to 4294967295";

/// One request. Its memory is used again for the next.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: String,
    /// What the id is remembered by.
    pub(super) hash: u128,
    /// When it came, in milliseconds from whatever its trace counts from.
    pub(super) came_ms: f64,
    pub(super) workload: Workload,
    /// The ids of its prompt's prefix blocks; empty where the trace has none.
    pub(super) prefix_blocks: Vec<u64>,
    pub(super) rows: Vec<Row>,
    /// Each row counts as many alternates as there are other rows.
    pub(super) alternates_listed: bool,
}

/// One candidate of a request: what one row says of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The pool's place among [`Pools`].
    pub(super) pool: usize,
    pub(super) latency_ms: f64,
    pub(super) jitter_ms: f64,
    pub(super) drop_rate: f64,
    pub(super) capacity: Capacity,
    alternates: u32,
}

/// A trace, one request after another.
pub(super) struct Requests {
    lines: Lines,
    columns: Columns,
    /// The line read last.
    fields: Fields,
    /// That line belongs to the next request.
    pending: bool,
    /// What the first row of the request has in the columns in which its rows agree: as text, since
    /// equal text needs no second reading.
    shared: [String; SHARED.len()],
    timestamp: String,
    prefix_blocks: String,
    any: bool,
}

/// The columns of the workload, in which the rows of one request must agree.
const SHARED: [Column; 6] = [
    Column::WorkloadType,
    Column::Criticality,
    Column::SlaMs,
    Column::JitterTolerance,
    Column::IsReleasePath,
    Column::IsPrefillDecodeStrict,
];

impl Request {
    /// One without any rows.
    pub(super) fn empty() -> Result<Self, InvalidName> {
        let workload = Workload {
            name: WorkloadName::new("none")?,
            criticality: 0.0,
            latency_sla_ms: 1.0,
            jitter_tolerance: 0.0,
            sync_frequency: 0.0,
            checkpoint_size_mb: 0.0,
            is_release_path: false,
            is_prefill_decode_strict: false,
            mode: Mode::default(),
            on_no_admissible: OnNoAdmissible::default(),
        };
        Ok(Self {
            id: String::new(),
            hash: 0,
            came_ms: 0.0,
            workload,
            prefix_blocks: Vec::new(),
            rows: Vec::new(),
            alternates_listed: true,
        })
    }
}

impl Requests {
    /// Opens a trace; `name` stands for it in errors.
    pub(super) fn open(name: &str, input: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let mut lines = open_lines(name, input)?;
        let mut fields = Fields::default();
        let columns = Columns::read(&mut lines, &mut fields)?;
        Ok(Self {
            lines,
            columns,
            fields,
            pending: false,
            shared: Default::default(),
            timestamp: String::new(),
            prefix_blocks: String::new(),
            any: false,
        })
    }

    pub(super) fn have_prefix_blocks(&self) -> bool {
        self.columns.have_prefix_blocks()
    }

    /// An error about the line that was read last.
    pub(super) fn malformed(&self, field: &str, found: &str, allowed: &str) -> TraceError {
        self.lines.malformed(field, found, allowed)
    }

    /// Puts the next request, the `number`th from 1 of the whole replay, in place of `request`, and
    /// says whether there was one.
    pub(super) fn next_request(
        &mut self,
        number: u64,
        request: &mut Request,
        pools: &mut Pools,
        ids: &mut RequestIds,
    ) -> Result<bool, TraceError> {
        if !self.pending && !self.read_line()? {
            if self.any {
                return Ok(false);
            }
            return Err(self.malformed("the file", "a header alone", "at least one request"));
        }
        self.begin(request, ids)?;
        self.any = true;
        loop {
            let row = self.row(number, pools)?;
            request.rows.push(row);
            self.pending = self.read_line()?;
            if !self.pending || self.text(Column::RequestId) != request.id {
                break;
            }
            if request.rows.len() >= MAX_CANDIDATES {
                let found = format!("more than {MAX_CANDIDATES} rows of {}", request.id);
                return Err(self.malformed("request_id", &found, &format!("at most {MAX_CANDIDATES} candidates")));
            }
            self.agrees_with(request)?;
        }
        let others = request.rows.len() - 1;
        request.alternates_listed = request.rows.iter().all(|row| row.alternates as usize == others);
        Ok(true)
    }

    fn read_line(&mut self) -> Result<bool, TraceError> {
        if !self.fields.read(&mut self.lines)? {
            return Ok(false);
        }
        self.columns.fit(&self.lines, &self.fields)?;
        Ok(true)
    }

    fn text(&self, column: Column) -> &str {
        self.columns.text(&self.fields, column)
    }

    /// Takes over what the first row says of its request.
    fn begin(&mut self, request: &mut Request, ids: &mut RequestIds) -> Result<(), TraceError> {
        let id = self.text(Column::RequestId);
        if let Err(error) = RequestId::new(id) {
            return Err(self.malformed("request_id", &shown(id), error.allowed));
        }
        request.rows.clear();
        request.id.clear();
        request.id.push_str(id);
        request.hash = hash_of(id);
        if !self.any && ids.last() == Some(request.hash) {
            let found = format!("{:?} again, whose rows began in the file before", request.id);
            return Err(self.malformed("request_id", &found, "all rows of a request in one file"));
        }
        if !ids.insert(request.hash) {
            let found = format!("{:?} again, after other requests", request.id);
            return Err(self.malformed("request_id", &found, "the rows of one request next to each other"));
        }
        request.came_ms = self.read_timestamp()?;
        SHARED.iter().try_for_each(|column| self.read_into(*column, &mut request.workload))?;
        self.read_prefix_blocks(&mut request.prefix_blocks)?;
        for (text, column) in self.shared.iter_mut().zip(SHARED) {
            replace(text, self.columns.text(&self.fields, column));
        }
        replace(&mut self.timestamp, self.columns.text(&self.fields, Column::Timestamp));
        replace(&mut self.prefix_blocks, self.columns.prefix_blocks(&self.fields));
        Ok(())
    }

    /// Checks that a further row says the same of its request as the first.
    fn agrees_with(&self, request: &Request) -> Result<(), TraceError> {
        let first_row = |column: &str, text: &str, found: &str| {
            let allowed = format!("{} as in the first row of {}", shown(text), request.id);
            Err(self.malformed(column, &shown(found), &allowed))
        };
        for (text, column) in self.shared.iter().zip(SHARED) {
            let found = self.text(column);
            if found != text {
                let mut workload = request.workload.clone();
                self.read_into(column, &mut workload)?;
                if workload != request.workload {
                    return first_row(column.name(), text, found);
                }
            }
        }
        // The first row says when a request came; the others may have been taken a little later.
        if self.text(Column::Timestamp) != self.timestamp {
            self.read_timestamp()?;
        }
        let found = self.columns.prefix_blocks(&self.fields);
        if found != self.prefix_blocks {
            let mut blocks = Vec::new();
            self.read_prefix_blocks(&mut blocks)?;
            if blocks != request.prefix_blocks {
                return first_row(PREFIX_BLOCKS, &self.prefix_blocks, found);
            }
        }
        Ok(())
    }

    /// Reads one column of the workload.
    fn read_into(&self, column: Column, workload: &mut Workload) -> Result<(), TraceError> {
        match column {
            Column::WorkloadType => {
                let name = self.text(column);
                if workload.name.as_str() != name {
                    workload.name = WorkloadName::new(name).map_err(|error| self.wrong(column, error.allowed))?;
                }
            }
            Column::Criticality => workload.criticality = self.read(column, share, SHARE)?,
            Column::SlaMs => {
                let above_zero = |text: &str| number(text).filter(|number| *number > 0.0);
                workload.latency_sla_ms = self.read(column, above_zero, "a finite number of milliseconds above 0")?;
            }
            Column::JitterTolerance => workload.jitter_tolerance = self.read(column, share, SHARE)?,
            Column::IsReleasePath => workload.is_release_path = self.read(column, flag, FLAG)?,
            Column::IsPrefillDecodeStrict => workload.is_prefill_decode_strict = self.read(column, flag, FLAG)?,
            Column::Timestamp
            | Column::RequestId
            | Column::PoolId
            | Column::LatencyMs
            | Column::JitterMs
            | Column::DropRate
            | Column::Occupancy
            | Column::MaxCapacity
            | Column::SoftCapacityFraction
            | Column::AlternateCount => {}
        }
        Ok(())
    }

    fn read_timestamp(&self) -> Result<f64, TraceError> {
        timestamp::parse_ms(self.text(Column::Timestamp))
            .map_err(|fault| self.wrong(Column::Timestamp, fault.allowed()))
    }

    fn read_prefix_blocks(&self, blocks: &mut Vec<u64>) -> Result<(), TraceError> {
        blocks.clear();
        for text in self.columns.prefix_blocks(&self.fields).split_ascii_whitespace() {
            let wrong = || self.malformed(PREFIX_BLOCKS, &shown(text), "whole numbers with blanks between them");
            blocks.push(text.parse().map_err(|_| wrong())?);
        }
        Ok(())
    }

    /// Reads what a row says of its pool.
    fn row(&self, number: u64, pools: &mut Pools) -> Result<Row, TraceError> {
        let ms = |text: &str| self::number(text).filter(|ms| *ms <= MAX_MS);
        let latency_ms = self.read(Column::LatencyMs, ms, MS)?;
        let jitter_ms = self.read(Column::JitterMs, ms, MS)?;
        let drop_rate = self.read(Column::DropRate, share, SHARE)?;
        let sessions = |text: &str| text.parse::<u32>().ok();
        let max_capacity = self.read(Column::MaxCapacity, |text| sessions(text).filter(|most| *most > 0), SESSIONS)?;
        let within = |text: &str| sessions(text).filter(|active| *active <= max_capacity);
        let active_sessions = match within(self.text(Column::Occupancy)) {
            Some(active) => active,
            None => {
                let allowed = format!("a whole number of sessions, 0 to max_capacity, which is {max_capacity}");
                return Err(self.wrong(Column::Occupancy, &allowed));
            }
        };
        let above_zero = |text: &str| share(text).filter(|share| *share > 0.0);
        let soft_fraction = self.read(Column::SoftCapacityFraction, above_zero, "a number above 0, at most 1")?;
        let alternates = self.read(Column::AlternateCount, sessions, "a whole number, 0 to 4294967295")?;
        let name = self.text(Column::PoolId);
        let pool = pools.candidate(name, number, latency_ms).map_err(|refused| match refused {
            Refused::Name(error) => self.wrong(Column::PoolId, error.allowed),
            Refused::TooMany => {
                let allowed = format!("at most {MAX_POOLS} pools in all");
                self.malformed(Column::PoolId.name(), &format!("one more, {}", shown(name)), &allowed)
            }
            Refused::Twice => {
                let found = format!("{name} a second time for {}", self.text(Column::RequestId));
                self.malformed(Column::PoolId.name(), &found, "each candidate of a request once")
            }
        })?;
        let capacity = Capacity { active_sessions, max_capacity, soft_fraction };
        Ok(Row { pool, latency_ms, jitter_ms, drop_rate, capacity, alternates })
    }

    fn read<T>(&self, column: Column, parse: impl Fn(&str) -> Option<T>, allowed: &str) -> Result<T, TraceError> {
        parse(self.text(column)).ok_or_else(|| self.wrong(column, allowed))
    }

    fn wrong(&self, column: Column, allowed: &str) -> TraceError {
        self.malformed(column.name(), &shown(self.text(column)), allowed)
    }
}

fn replace(text: &mut String, by: &str) {
    text.clear();
    text.push_str(by);
}
