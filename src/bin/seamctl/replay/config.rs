//! `--config`: the rules of another configuration, and what they change.

use std::fmt::Write as _;

use seam::config::{PolicyConfig, PolicyText, Said};
use seam::health::Thresholds;
use seam::health::score::ThresholdField;
use seam::model::Profile;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Replay;
use crate::exit::Failure;

/// The `policy` table of a configuration.
pub(super) struct Rules {
    /// What was said beside it wins.
    pub(super) profile: Profile,
    pub(super) policy: PolicyConfig,
    /// What the file says itself, where it has nothing but this table.
    pub(super) said: Option<Said>,
}

/// What a replay says of it.
#[derive(Serialize)]
pub(super) struct Named {
    file: String,
    /// Against the defaults of the profile that decides.
    #[serde(serialize_with = "as_map")]
    thresholds_changed: Vec<Changed>,
}

/// One threshold.
struct Changed {
    name: &'static str,
    default: f64,
    found: f64,
}

/// A report and the configuration that it came from, if one was given.
#[derive(Serialize)]
pub(super) struct With<'a, T> {
    pub(super) config: Option<&'a Named>,
    #[serde(flatten)]
    pub(super) report: &'a T,
}

/// Reads it, if one was given.
pub(super) fn load(replay: &Replay) -> Result<Option<Rules>, Failure> {
    let Some(file) = &replay.config else { return Ok(None) };
    let text = PolicyConfig::load(file).map_err(|error| Failure::usage(anyhow::anyhow!("--config {error}")))?;
    let profile = replay.profile.unwrap_or(text.policy.profile);
    let PolicyText { policy, said, .. } = text.under(profile);
    Ok(Some(Rules { profile, policy, said }))
}

impl Rules {
    /// What is said of it.
    pub(super) fn named(&self, replay: &Replay) -> Named {
        let file = replay.config.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let defaults = Thresholds::of(self.profile);
        let fields = ThresholdField::ALL.iter().map(|field| Changed {
            name: field.name,
            default: field.get(&defaults),
            found: field.get(&self.policy.thresholds),
        });
        Named { file, thresholds_changed: fields.filter(|changed| changed.found != changed.default).collect() }
    }
}

impl Named {
    /// The file, and a line for each threshold that differs.
    pub(super) fn text(&self, profile: Profile) -> String {
        let mut text = format!("Rules: --config {}, ", self.file);
        text.push_str(match self.thresholds_changed.len() {
            0 => "with the thresholds of the profile.\n",
            _ => "which changes of the profile's thresholds:\n",
        });
        for Changed { name, default, found } in &self.thresholds_changed {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name} {found} ({default} in {profile})");
        }
        text
    }
}

fn as_map<S: Serializer>(changed: &[Changed], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Values {
        default: f64,
        found: f64,
    }
    let mut map = serializer.serialize_map(Some(changed.len()))?;
    for Changed { name, default, found } in changed {
        map.serialize_entry(name, &Values { default: *default, found: *found })?;
    }
    map.end()
}
