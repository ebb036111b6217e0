//! What this host can do, and what a configuration asks of it that it cannot: one finding a line, each
//! with its remedy. Nothing is changed, and nothing stays open.

mod configured;
mod host;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::Config;

/// How well it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Well, or not needed.
    Ok,
    /// It works, but not as it could, or not for long.
    Warn,
    /// An agent with this configuration does not start, or goes on without a part of it.
    Fail,
}

impl Verdict {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it, unless it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(what: &str, found: impl Into<String>) -> Self {
        Self { what: what.to_owned(), verdict: Verdict::Ok, found: found.into(), remedy: None }
    }

    fn warn(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.to_owned(), verdict: Verdict::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.to_owned(), verdict: Verdict::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// The files in which the kernel says how it is; another folder in tests.
#[derive(Clone, Debug)]
struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// What a file holds, without the space around it; none if it cannot be read.
    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The names in a folder, sorted; none if it is not there.
    fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Looks at this host, and at what a configuration asks of it.
#[must_use]
pub fn examine(config: Option<&Config>) -> Vec<Finding> {
    let kernel = Kernel { root: PathBuf::from("/") };
    let mut findings = host::examine(&kernel, config);
    if let Some(config) = config {
        findings.extend(configured::examine(config));
    }
    findings
}
