//! `seamctl experiments` and `seamctl evaluate`: the published evidence, offline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use seam::eval::artifacts::{self, Artifact, EvalError, PROFILES, Written};
use seam::eval::experiments::sheets;
use seam::model::Profile;
use serde_json::json;

use crate::exit::{Failure, print, print_json};
use crate::output;
use crate::table::{count, grid, paragraph};

/// The five published experiments.
#[derive(Args)]
pub(crate) struct Experiments {
    /// The rules that decide; both, side by side, unless given.
    #[arg(long)]
    profile: Option<Profile>,
    /// Writes a JSON, a CSV and an SVG file of each experiment below this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The aggregates as JSON, under their published names; of both profiles under the profile's name.
    #[arg(long)]
    json: bool,
}

/// Every file of the evidence.
#[derive(Args)]
pub(crate) struct Evaluate {
    /// The folder they are written to.
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    out: PathBuf,
    /// The list of files as JSON.
    #[arg(long)]
    json: bool,
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        Self::failed(error)
    }
}

impl Experiments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let profiles = self.profile.as_ref().map_or(&PROFILES[..], std::slice::from_ref);
        let reports = artifacts::reports(profiles)?;
        if let Some(folder) = &self.out {
            write(folder, &artifacts::of_experiments(&reports)?)?;
        }
        if self.json {
            return match (self.profile, reports.as_slice()) {
                (Some(_), [(_, report)]) => print_json(report),
                _ => {
                    let by_name: BTreeMap<_, _> =
                        reports.iter().map(|(profile, report)| (profile.as_str(), report)).collect();
                    print_json(&by_name)
                }
            };
        }
        for sheet in sheets(&reports) {
            print(&format!("{}\n{}\n", sheet.title, paragraph(sheet.about, 0)))?;
            print(&grid(&sheet.heads().collect::<Vec<_>>(), sheet.cells()))?;
            print("\n")?;
        }
        let next = match &self.out {
            Some(folder) => format!("Written to {0}/experiments: open the .svg files there.", folder.display()),
            None => "Charts and CSV: seamctl experiments --out DIR. What they show: docs/experiments.md.".to_owned(),
        };
        print(&format!("{next}\n"))
    }
}

fn write(folder: &Path, artifacts: &[Artifact]) -> Result<Vec<Written>, Failure> {
    artifacts::write(folder, artifacts).map_err(|error| output::cannot(folder, &error.path, &error.source))
}

impl Evaluate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let all = artifacts::all()?;
        let written = write(&self.out, &all)?;
        let files: Vec<(&Artifact, Written)> = all.iter().zip(written).collect();
        if self.json {
            let line = |(artifact, written): &(&Artifact, Written)| json!({"path": artifact.path, "bytes": artifact.text.len(), "written": written.as_str()});
            return print_json(&json!({"out": self.out, "files": files.iter().map(line).collect::<Vec<_>>()}));
        }
        let row = |(artifact, written): &(&Artifact, Written)| {
            vec![artifact.path.clone(), artifact.text.len().to_string(), written.as_str().to_owned()]
        };
        print(&grid(&["file", "bytes", "written"], files.iter().map(row)))?;
        let changed = files.iter().filter(|(_, written)| *written != Written::Same).count();
        let said =
            if changed == 0 { "nothing changed".to_owned() } else { format!("{} written", count(changed, "file")) };
        print(&format!("\n{}, {said}. Read {}/summary.md first.\n", count(files.len(), "file"), self.out.display()))
    }
}
