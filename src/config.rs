//! The agent's configuration: one TOML file, read and checked as a whole. A [`Config`] that exists
//! is valid; an error names every problem that was found, each with its key, what was found and
//! what is allowed.

mod check;
mod policy_file;
mod reader;
mod sections;
mod suggest;
mod units;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::{Role, Workload};

pub use policy_file::{PolicyText, Said};
pub use sections::{
    ApiConfig, ApiTls, ArenaConfig, DecodeConfig, EngineConfig, EngineKind, JournalConfig, MeshConfig, MetricsConfig,
    NodeConfig, PolicyConfig, ProbeConfig, RailConfig, RecordsConfig, TlsConfig, TransferConfig, WorkloadConfig,
};
pub(crate) use suggest::unknown_key;
pub use units::{format_size, parse_duration, parse_size};

/// A configuration file is no larger than this many bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The whole configuration of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who this agent is.
    pub node: NodeConfig,
    /// How agents find and watch each other.
    #[serde(default)]
    pub mesh: MeshConfig,
    /// The mutual authentication of agents.
    #[serde(default)]
    pub tls: TlsConfig,
    /// The HTTP API.
    #[serde(default)]
    pub api: ApiConfig,
    /// What this decode host offers; for the role `decode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodeConfig>,
    /// Its network attachments, in order of preference.
    #[serde(default)]
    pub rails: Vec<RailConfig>,
    /// How paths are measured.
    #[serde(default)]
    pub probe: ProbeConfig,
    /// How routes are decided.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// Who moves the bytes, and for how long.
    #[serde(default)]
    pub transfer: TransferConfig,
    /// This host's registered KV memory; needed when Seam moves the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arena: Option<ArenaConfig>,
    /// Limits of the metrics.
    #[serde(default)]
    pub metrics: MetricsConfig,
    /// What every core is told, kept in files; without the section nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalConfig>,
    /// Decision records as JSON lines; without the section none are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsConfig>,
}

/// Where an agent's certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// From files that an operator made.
    Files {
        /// The CA's certificate, PEM.
        ca: PathBuf,
        /// This node's certificate, PEM.
        cert: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
    },
    /// From a throw-away CA in this folder, made when it is not there yet.
    Dev {
        /// The folder.
        dir: PathBuf,
    },
}

impl Config {
    /// Reads `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// Every problem found. Keys that are unknown or cannot be read come first; ranges and rules
    /// across keys are checked once every key can be read.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ConfigError> {
        let mut document = reader::read::<Self>(text, origin)?;
        let names_limit = document.names(policy_file::PRS_LIMIT);
        document.value.policy.settle(names_limit);
        let problems = check::check(&document.value);
        if problems.is_empty() { Ok(document.value) } else { Err(document.refuse(problems)) }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Config::from_toml`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path)?;
        Self::from_toml(&text, &origin)
    }

    /// Checks a configuration that was put together in memory.
    ///
    /// # Errors
    /// Every problem found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let problems = check::check(self);
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { origin: "configuration".to_owned(), problems }) }
    }

    /// The effective configuration, every default written out. It reads back as an equal value.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Only a map with keys that are no strings, or an integer past i64, cannot be written;
        // the types have no such map, and `validate` bounds every integer.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// A short fingerprint of the effective configuration, 16 hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        blake3::hash(self.to_toml().as_bytes()).to_hex().chars().take(16).collect()
    }

    /// Whether this agent has a role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.node.roles.contains(&role)
    }

    /// Every class: the built-in ones, each replaced by a configured one of its name, then the
    /// configured others.
    #[must_use]
    pub fn workloads(&self) -> Vec<Workload> {
        self.policy.classes()
    }

    /// Where the certificate comes from.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        match (&self.tls.ca, &self.tls.cert, &self.tls.key) {
            (Some(ca), Some(cert), Some(key)) if !self.tls.dev => {
                Credentials::Files { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
            }
            _ => {
                Credentials::Dev { dir: self.tls.dev_dir.clone().unwrap_or_else(|| self.node.data_dir.join("dev-ca")) }
            }
        }
    }
}

/// The text of a file, and its name.
fn read_file(path: &Path) -> Result<(String, String), ConfigError> {
    let origin = path.display().to_string();
    let unreadable = |detail: String| ConfigError {
        origin: origin.clone(),
        problems: vec![Problem { line: None, key: String::new(), detail }],
    };
    let size = std::fs::metadata(path).map_err(|error| unreadable(format!("cannot be read: {error}")))?.len();
    if size > MAX_FILE_BYTES {
        return Err(unreadable(format!("found {size} bytes, allowed at most {MAX_FILE_BYTES}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    Ok((text, origin))
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1, where it is known.
    pub line: Option<usize>,
    /// The key, as `section.key` or `section[index].key`; empty for the file as a whole.
    pub key: String,
    /// What was found and what is allowed.
    pub detail: String,
}

/// A configuration that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub origin: String,
    /// Every problem found, at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.origin)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            if !problem.key.is_empty() {
                write!(f, ": {}", problem.key)?;
            }
            write!(f, ": {}", problem.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
