//! `seamctl journal cat`: every entry as one JSON object a line.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;
use seam::journal::{Entry, Input, Part, Snapshot};
use seam::replay::journal::{Item, Life, What, missing, to_json};
use serde_json::{Error, Value, json};

use crate::exit::Failure;
use crate::replay;

/// What to show of journals.
#[derive(Args)]
pub(crate) struct Cat {
    /// Segments of journals, or folders of them.
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Only entries of this core: health, policy, ledger or mesh.
    #[arg(long, value_name = "CORE", value_parser = part)]
    part: Option<Part>,
    /// Only turns in which something that matters was said: a decision, a change of state.
    #[arg(long)]
    said: bool,
    /// With what the snapshots hold.
    #[arg(long)]
    snapshots: bool,
}

fn part(text: &str) -> Result<Part, String> {
    let found = Part::ALL.iter().find(|part| part.as_str() == text);
    found.copied().ok_or_else(|| "allowed: health, policy, ledger, mesh".to_owned())
}

impl Cat {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let history = replay::journals(&self.files)?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut damaged = 0_u64;
        for life in history.lives() {
            for item in life.items() {
                match &item.what {
                    What::Segment(_) => {}
                    What::Entry(entry) if self.wants(entry) => {
                        let line = self.line(life, &item, entry).map_err(Failure::failed)?;
                        written(writeln!(out, "{line}"))?;
                    }
                    What::Entry(_) => {}
                    What::Missing(numbers) => {
                        written(out.flush())?;
                        eprintln!("seamctl: {}: before this one {}", item.place.path.display(), missing(numbers));
                    }
                    What::Broken(broken) => {
                        written(out.flush())?;
                        damaged += u64::from(!broken.is_torn_end());
                        eprintln!("seamctl: {}: {}", item.place.path.display(), broken.fault);
                    }
                }
            }
        }
        written(out.flush())?;
        for stray in history.stray_reports() {
            damaged += 1;
            eprintln!("seamctl: {}: {}", stray.file.display(), stray.error);
        }
        match damaged {
            0 => Ok(()),
            _ => Err(Failure::failed(anyhow::anyhow!("some entries cannot be read"))),
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        let said = matches!(entry, Entry::Turn(turn) if !turn.said.is_empty());
        self.part.is_none_or(|part| entry.part() == Some(part)) && (said || !self.said)
    }

    fn line(&self, life: &Life, item: &Item, entry: &Entry) -> Result<Value, Error> {
        Ok(json!({
            "file": item.place.path.display().to_string(),
            "at": item.place.at,
            "node": life.node,
            "generation": life.generation,
            "entry": self.entry(entry)?,
        }))
    }

    fn entry(&self, entry: &Entry) -> Result<Value, Error> {
        Ok(match entry {
            Entry::Snapshot(snapshot) => {
                let mut shown = json!({ "kind": "snapshot", "part": snapshot.part() });
                if self.snapshots
                    && let Value::Object(fields) = &mut shown
                {
                    fields.insert("snapshot".to_owned(), body(snapshot)?);
                }
                shown
            }
            Entry::Turn(turn) => json!({
                "kind": "turn",
                "part": turn.input.part(),
                "now": turn.now,
                "input": input(&turn.input)?,
                "said": to_json(&turn.said)?,
                "digest": format!("{:016x}", turn.digest),
            }),
            Entry::Gap(gap) => json!({
                "kind": "gap", "part": gap.part, "lost": gap.lost, "since": gap.since, "until": gap.until,
            }),
            Entry::Panicked(told, now) => {
                json!({ "kind": "panicked", "part": told.part(), "now": now, "input": input(told)? })
            }
            Entry::Closed(now) => json!({ "kind": "closed", "now": now }),
        })
    }
}

fn input(input: &Input) -> Result<Value, Error> {
    match input {
        Input::Health(input) => to_json(input),
        Input::Policy(input) => to_json(input),
        Input::Ledger(input) => to_json(input),
        Input::Mesh(input) => to_json(input),
    }
}

/// What a snapshot holds; null where the core has none.
fn body(snapshot: &Snapshot) -> Result<Value, Error> {
    match snapshot {
        Snapshot::Health(snapshot) => to_json(snapshot),
        Snapshot::Policy(snapshot) => to_json(snapshot),
        Snapshot::Ledger(snapshot) => to_json(snapshot),
        Snapshot::Mesh(snapshot) => to_json(snapshot),
        Snapshot::MeshRunning => Ok(Value::Null),
    }
}

/// A reader that has seen enough ends the program quietly.
fn written(result: std::io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Failure::failed(anyhow::anyhow!("standard output: {error}"))),
    }
}
