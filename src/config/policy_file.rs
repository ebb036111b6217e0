//! The `policy` table by itself: of a whole agent's configuration, or of a file that has nothing else.

use std::path::Path;

use serde::Deserialize;

use super::{Config, ConfigError, PolicyConfig, ProbeConfig, Problem, WorkloadConfig, check, read_file, reader};
use crate::health::Thresholds;
use crate::health::score::ThresholdField;
use crate::model::{Profile, Workload, builtin_workloads};

/// A file that has the table alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    policy: PolicyConfig,
}

/// The table, and how much of it a file says itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyText {
    /// What holds: what the file says, and the defaults for the rest.
    pub policy: PolicyConfig,
    /// What the file says itself, where it has the table alone; none for a whole agent's configuration, which
    /// is meant as a whole.
    pub said: Option<Said>,
    /// The threshold whose default depends on the profile is named.
    names_limit: bool,
}

/// The keys that a file with the table alone has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// `policy.profile`.
    pub profile: bool,
    /// `policy.max_excluded_fraction`.
    pub max_excluded_fraction: bool,
    /// Thresholds, by name.
    pub thresholds: Vec<&'static str>,
}

impl PolicyText {
    /// The same under another profile: the threshold whose default depends on it follows.
    #[must_use]
    pub fn under(mut self, profile: Profile) -> Self {
        self.policy.profile = profile;
        self.policy.settle(self.names_limit);
        self
    }
}

impl PolicyConfig {
    /// Reads the table from `text`; `origin` names it in errors. Without other tables beside it, it is
    /// checked as beside the defaults of all others.
    ///
    /// # Errors
    /// Every problem found, those of the other tables among them.
    pub fn from_toml(text: &str, origin: &str) -> Result<PolicyText, ConfigError> {
        match reader::tables(text).as_deref() {
            Some([table]) if table == "policy" => {
                let mut document = reader::read::<PolicyFile>(text, origin)?;
                let names_limit = document.names(PRS_LIMIT);
                document.value.policy.settle(names_limit);
                let problems = check::check_policy(&document.value.policy, ProbeConfig::default().interval);
                if !problems.is_empty() {
                    return Err(document.refuse(problems));
                }
                let fields = ThresholdField::ALL.iter().map(|field| field.name);
                let said = Said {
                    profile: document.names("policy.profile"),
                    max_excluded_fraction: document.names("policy.max_excluded_fraction"),
                    thresholds: fields.filter(|name| document.names(&format!("policy.thresholds.{name}"))).collect(),
                };
                Ok(PolicyText { policy: document.value.policy, said: Some(said), names_limit })
            }
            Some([]) => {
                let detail = "found nothing, allowed a [policy] table, or an agent's whole configuration".to_owned();
                let problems = vec![Problem { line: None, key: String::new(), detail }];
                Err(ConfigError { origin: origin.to_owned(), problems })
            }
            _ => {
                let policy = Config::from_toml(text, origin)?.policy;
                let names_limit = reader::read::<Config>(text, origin)?.names(PRS_LIMIT);
                Ok(PolicyText { policy, said: None, names_limit })
            }
        }
    }

    /// Reads the table from a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`PolicyConfig::from_toml`].
    pub fn load(path: &Path) -> Result<PolicyText, ConfigError> {
        let (text, origin) = read_file(path)?;
        Self::from_toml(&text, &origin)
    }

    /// Every class: the built-in ones, each replaced by a configured one of its name, then the
    /// configured others.
    #[must_use]
    pub fn classes(&self) -> Vec<Workload> {
        let mut classes = builtin_workloads();
        for configured in self.workloads.iter().map(WorkloadConfig::workload) {
            match classes.iter_mut().find(|class| class.name == configured.name) {
                Some(class) => *class = configured,
                None => classes.push(configured),
            }
        }
        classes
    }

    /// The one threshold whose default depends on the profile takes it, unless the text names it.
    pub(super) fn settle(&mut self, names_limit: bool) {
        if !names_limit {
            self.thresholds.prs_reject_threshold = Thresholds::of(self.profile).prs_reject_threshold;
        }
    }
}

/// The key of the threshold whose default depends on the profile.
pub(super) const PRS_LIMIT: &str = "policy.thresholds.prs_reject_threshold";
