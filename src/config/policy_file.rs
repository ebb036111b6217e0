//! The `policy` table by itself: of a whole agent's configuration, or of a file that has nothing else.

use std::path::Path;

use serde::Deserialize;

use super::{Config, ConfigError, PolicyConfig, ProbeConfig, Problem, WorkloadConfig, check, read_file, reader};
use crate::health::Thresholds;
use crate::model::{Workload, builtin_workloads};

/// A file that has the table alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    policy: PolicyConfig,
}

impl PolicyConfig {
    /// Reads the table from `text`; `origin` names it in errors. Without other tables beside it, it is
    /// checked as beside the defaults of all others.
    ///
    /// # Errors
    /// Every problem found, those of the other tables among them.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ConfigError> {
        match reader::tables(text).as_deref() {
            Some([table]) if table == "policy" => {
                let mut document = reader::read::<PolicyFile>(text, origin)?;
                let names_limit = document.names(PRS_LIMIT);
                document.value.policy.settle(names_limit);
                let problems = check::check_policy(&document.value.policy, ProbeConfig::default().interval);
                if problems.is_empty() { Ok(document.value.policy) } else { Err(document.refuse(problems)) }
            }
            Some([]) => {
                let detail = "found nothing, allowed a [policy] table, or an agent's whole configuration".to_owned();
                let problems = vec![Problem { line: None, key: String::new(), detail }];
                Err(ConfigError { origin: origin.to_owned(), problems })
            }
            _ => Config::from_toml(text, origin).map(|config| config.policy),
        }
    }

    /// Reads the table from a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`PolicyConfig::from_toml`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
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
