//! The columns of a trace, found by name.

use super::fields::Fields;
use super::timestamp::parse_ms;
use crate::trace::{Lines, TraceError};

/// The columns that a trace must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Timestamp,
    RequestId,
    WorkloadType,
    PoolId,
    LatencyMs,
    JitterMs,
    DropRate,
    Occupancy,
    MaxCapacity,
    SoftCapacityFraction,
    Criticality,
    SlaMs,
    JitterTolerance,
    IsReleasePath,
    IsPrefillDecodeStrict,
    AlternateCount,
}

/// Their names, in the order of [`Column`].
pub(super) const NAMES: [&str; 16] = [
    "timestamp",
    "request_id",
    "workload_type",
    "pool_id",
    "latency_ms",
    "jitter_ms",
    "drop_rate",
    "occupancy",
    "max_capacity",
    "soft_capacity_fraction",
    "criticality",
    "sla_ms",
    "jitter_tolerance",
    "is_release_path",
    "is_prefill_decode_strict",
    "alternate_count",
];

/// Columns of another spelling that an error names at most.
const SPELT: usize = 4;

/// A column that a trace may have.
pub(super) const PREFIX_BLOCKS: &str = "prefix_blocks";

impl Column {
    /// The name in the header.
    pub(super) fn name(self) -> &'static str {
        // There are as many names as columns.
        NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

/// Where each column stands.
pub(super) struct Columns {
    places: [usize; NAMES.len()],
    prefix_blocks: Option<usize>,
    /// How many fields the header has, and so each line.
    width: usize,
}

impl Columns {
    /// Reads the header: the first line that is not blank.
    pub(super) fn read(lines: &mut Lines, fields: &mut Fields) -> Result<Self, TraceError> {
        if !fields.take(lines)? {
            return Err(lines.malformed("the file", "no line", "a header and at least one request"));
        }
        let no_trace = |lines: &Lines, found: &str| {
            let allowed = format!("a CSV request trace, whose header has the columns {}", NAMES.join(", "));
            lines.malformed("the first line", found, &allowed)
        };
        // A header may begin like JSON too, if that is the name of a further column.
        let json = fields.begins_json();
        fields.split(lines).map_err(|error| if json { no_trace(lines, "JSON") } else { error })?;
        let header: Vec<&str> = (0..fields.len()).map(|index| fields.get(index)).collect();
        let mut places = [usize::MAX; NAMES.len()];
        let mut missing = Vec::new();
        for (name, at) in NAMES.iter().zip(&mut places) {
            match place(lines, &header, name)? {
                Some(place) => *at = place,
                None => missing.push(*name),
            }
        }
        if json && !missing.is_empty() {
            return Err(no_trace(lines, "JSON"));
        }
        let alike = |name: &&str| header.iter().find(|field| is_alike(field, name));
        let misspelt: Vec<_> = missing.iter().filter_map(alike).collect();
        // Other traces have a timestamp too, of another spelling.
        if missing.len() == NAMES.len() && misspelt.len() <= NAMES.len() / 2 {
            if is_row(&header) {
                let allowed = "a header in each file, also where one trace is split into several";
                return Err(lines.malformed("the first line", "a row and no header", allowed));
            }
            return Err(no_trace(lines, &what_it_is(&header)));
        }
        if !missing.is_empty() {
            let mut found = format!("no column {}", missing.join(", "));
            if !misspelt.is_empty() {
                let named: Vec<_> = misspelt.iter().take(SPELT).map(|field| format!("{field:?}")).collect();
                let more = if misspelt.len() > SPELT { ", …" } else { "" };
                found += &format!(", but another spelling: {}{more}", named.join(", "));
            }
            return Err(lines.malformed_whole("the header", found, "each of the columns once, in any order"));
        }
        Ok(Self { places, prefix_blocks: place(lines, &header, PREFIX_BLOCKS)?, width: header.len() })
    }

    /// Whether requests carry the ids of their prompts' prefix blocks.
    pub(super) fn have_prefix_blocks(&self) -> bool {
        self.prefix_blocks.is_some()
    }

    /// Checks that a line has as many fields as the header.
    pub(super) fn fit(&self, lines: &Lines, fields: &Fields) -> Result<(), TraceError> {
        if fields.len() == self.width {
            return Ok(());
        }
        let found = format!("{} fields", fields.len());
        Err(lines.malformed("the line", &found, &format!("{}, as in the header", self.width)))
    }

    /// The text in a column; empty if there is none.
    pub(super) fn text<'a>(&self, fields: &'a Fields, column: Column) -> &'a str {
        self.places.get(column as usize).map_or("", |place| fields.get(*place))
    }

    /// The prefix blocks as they stand in the line; empty without the column.
    pub(super) fn prefix_blocks<'a>(&self, fields: &'a Fields) -> &'a str {
        self.prefix_blocks.map_or("", |place| fields.get(place))
    }
}

/// Where a column stands, if it is there.
fn place(lines: &Lines, header: &[&str], name: &str) -> Result<Option<usize>, TraceError> {
    let mut places = header.iter().enumerate().filter(|(_, field)| **field == name).map(|(index, _)| index);
    let first = places.next();
    if places.next().is_some() {
        return Err(lines.malformed("the header", &format!("{name} twice"), "each of the columns once, in any order"));
    }
    Ok(first)
}

/// Whether a field differs from a column's name only in case, or in what stands between the words.
fn is_alike(field: &str, name: &str) -> bool {
    let alike = |one: u8, other: u8| one.eq_ignore_ascii_case(&other) || (matches!(one, b'-' | b' ') && other == b'_');
    field.len() == name.len() && field.bytes().zip(name.bytes()).all(|(one, other)| alike(one, other))
}

/// Whether a line without any column's name is a row of a trace.
fn is_row(line: &[&str]) -> bool {
    line.len() >= NAMES.len() && line.iter().any(|field| parse_ms(field).is_ok())
}

/// A guess at a file that is no such trace.
fn what_it_is(header: &[&str]) -> String {
    let has = |name: &str| header.contains(&name);
    let start: String = header.join(",").chars().take(40).collect();
    if has("ContextTokens") || has("input_tokens") {
        "a trace of request lengths, which says nothing of pools".to_owned()
    } else if start.chars().any(|letter| letter.is_control() && letter != '\t') {
        "binary data".to_owned()
    } else {
        format!("{start:?}")
    }
}
