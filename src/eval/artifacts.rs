//! The files under `outputs/`: what they hold, and how they are written.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::chart::ChartError;
use super::episode::BadEpisode;
use super::experiments::{self, Report};
use super::history::{self, Histories};
use super::scenario::{self, ScenarioName};
use super::summary;
use crate::model::Profile;
use crate::replay::ReplayError;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its place below the folder, with forward slashes.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Artifact {
    pub(super) fn new(path: impl Into<String>, text: String) -> Self {
        Self { path: path.into(), text }
    }

    pub(super) fn json(path: impl Into<String>, value: &impl Serialize) -> Result<Self, EvalError> {
        let text = serde_json::to_string_pretty(value).map_err(std::io::Error::from)?;
        Ok(Self::new(path, text + "\n"))
    }
}

/// Why the evidence cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// An episode cannot be played.
    #[error(transparent)]
    Episode(#[from] BadEpisode),
    /// A chart cannot be drawn.
    #[error("chart: {0}")]
    Chart(#[from] ChartError),
    /// A trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A file cannot be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was not there.
    New,
    /// It was there with other bytes.
    Changed,
    /// It was there with the same bytes.
    Same,
}

impl Written {
    /// In a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Same => "same",
        }
    }
}

/// Both profiles, the published one first.
pub const PROFILES: [Profile; 2] = [Profile::Reference, Profile::Mesh];

/// The reports of the experiments under each of `profiles`.
///
/// # Errors
/// An episode cannot be played.
pub fn reports(profiles: &[Profile]) -> Result<Vec<(Profile, Report)>, EvalError> {
    profiles.iter().map(|profile| Ok((*profile, experiments::run(*profile)?))).collect()
}

/// JSON, CSV and SVG of each experiment.
///
/// # Errors
/// A table or a chart cannot be made.
pub fn of_experiments(reports: &[(Profile, Report)]) -> Result<Vec<Artifact>, EvalError> {
    let mut artifacts = Vec::new();
    for (sheet, chart) in experiments::sheets(reports).into_iter().zip(experiments::charts(reports)?) {
        let by_profile: BTreeMap<&str, serde_json::Value> = reports
            .iter()
            .map(|(profile, report)| {
                let mut all = serde_json::to_value(report)?;
                Ok((profile.as_str(), all.get_mut(sheet.name).map(serde_json::Value::take).unwrap_or_default()))
            })
            .collect::<Result<_, serde_json::Error>>()
            .map_err(std::io::Error::from)?;
        artifacts.push(Artifact::json(format!("experiments/{}.json", sheet.name), &by_profile)?);
        artifacts.push(Artifact::new(format!("experiments/{}.csv", sheet.name), sheet.to_csv()?));
        artifacts.push(Artifact::new(format!("experiments/{}.svg", sheet.name), chart));
    }
    Ok(artifacts)
}

/// Every file of the evidence, in the order of their paths.
///
/// # Errors
/// One of them cannot be made.
pub fn all() -> Result<Vec<Artifact>, EvalError> {
    let reports = reports(&PROFILES)?;
    let histories = Histories::published()?;
    let mut artifacts = of_experiments(&reports)?;
    artifacts.extend(history::artifacts(&histories)?);
    for scenario in scenario::published() {
        if matches!(scenario.name, ScenarioName::E | ScenarioName::F) {
            let name = scenario.name.as_str().to_lowercase();
            let trace = scenario::decision_trace(&scenario, scenario::DEFAULT_SEED);
            artifacts.push(Artifact::new(format!("scenarios/scenario-{name}.jsonl"), trace));
        }
    }
    artifacts.push(Artifact::new("scenarios/scenarios.json", scenario::scenarios_json(scenario::DEFAULT_SEED)));
    artifacts.push(Artifact::new("summary.md", summary::markdown(&reports, &histories)));
    artifacts.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(artifacts)
}

/// A file of the evidence cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The system's own words.
    pub source: std::io::Error,
}

/// Writes `artifacts` below `folder`, each whole or not at all. What has the same bytes already stays
/// as it is, and nothing is written unless all places can be.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write(folder: &Path, artifacts: &[Artifact]) -> Result<Vec<Written>, WriteError> {
    let named = |artifact: &Artifact, source| WriteError { path: folder.join(&artifact.path), source };
    let before = artifacts.iter().map(|artifact| {
        let path = folder.join(&artifact.path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(|error| named(artifact, error))?;
        match std::fs::read(&path) {
            Ok(bytes) if bytes == artifact.text.as_bytes() => Ok(Written::Same),
            Ok(_) => Ok(Written::Changed),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Written::New),
            Err(error) => Err(named(artifact, error)),
        }
    });
    let before: Vec<Written> = before.collect::<Result<_, _>>()?;
    for (artifact, before) in artifacts.iter().zip(&before) {
        if *before != Written::Same {
            whole(&folder.join(&artifact.path), artifact.text.as_bytes()).map_err(|error| named(artifact, error))?;
        }
    }
    Ok(before)
}

/// A file that is there with all its bytes, or as it was.
fn whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".seam-").permissions(readable()).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Temporary files are private; these are to be read.
fn readable() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_left_alone_and_what_differs_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = |text: &str| [Artifact::new("a/b.txt", text.to_owned())];
        for (text, expected) in [("one", Written::New), ("one", Written::Same), ("two", Written::Changed)] {
            assert_eq!(write(folder.path(), &artifacts(text)).unwrap(), [expected]);
            assert_eq!(std::fs::read_to_string(folder.path().join("a/b.txt")).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(folder.path().join("a")).unwrap().count(), 1, "nothing temporary stays");
        let error = write(&folder.path().join("a/b.txt"), &artifacts("x")).unwrap_err();
        assert!(error.to_string().contains("a/b.txt"), "{error}");

        // One place that is taken, and nothing is written at the others.
        std::fs::create_dir(folder.path().join("taken")).unwrap();
        let two = ["new.txt", "taken"].map(|name| Artifact::new(name, "x".to_owned()));
        let error = write(folder.path(), &two).unwrap_err();
        assert_eq!(error.path, folder.path().join("taken"));
        assert!(!folder.path().join("new.txt").exists());
    }
}
