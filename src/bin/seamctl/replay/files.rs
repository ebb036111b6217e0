//! What `--out` writes.

use std::io::Write;
use std::path::{Path, PathBuf};

use seam::replay::{ChoicesCsv, Placed, Sink, Summary};
use tempfile::NamedTempFile;

use super::config::With;
use crate::exit::Failure;
use crate::output::Output;

const NAMES: [&str; 3] = ["replay.json", "replay.csv", "choices.csv"];

/// The files of one replay.
pub(super) struct Files {
    choices: ChoicesCsv<NamedTempFile>,
    output: Output,
}

impl Files {
    /// Makes the folder where there is none, and begins with the choices.
    pub(super) fn begin(dir: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let output = Output::in_folder(dir, &NAMES, inputs)?;
        Ok(Self { choices: ChoicesCsv::new(output.begin()?), output })
    }

    /// Writes the rest and gives all files their names.
    pub(super) fn finish(self, report: &With<'_, Summary>) -> Result<Vec<PathBuf>, Failure> {
        let Self { choices, output } = self;
        let [json_name, table_name, choices_name] = NAMES;
        let choices = choices.finish().map_err(|error| output.cannot(choices_name, &error))?;
        let mut json = output.begin()?;
        let text = serde_json::to_string_pretty(report).map_err(Failure::failed)?;
        writeln!(json, "{text}").map_err(|error| output.cannot(json_name, &error))?;
        let mut table = output.begin()?;
        report.report.write_csv(&mut table).map_err(|error| output.cannot(table_name, &error))?;
        output.finish(vec![json, table, choices])
    }
}

impl Sink for Files {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        self.choices.placed(placed)
    }
}
