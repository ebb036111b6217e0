//! Which set of rules decides.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which set of rules decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The published prototype exactly.
    Reference,
    /// The prototype with its weaknesses mended.
    #[default]
    Mesh,
}

impl Profile {
    /// The name in configuration and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Mesh => "mesh",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = InvalidProfile;
    fn from_str(text: &str) -> Result<Self, InvalidProfile> {
        match text {
            "reference" => Ok(Self::Reference),
            "mesh" => Ok(Self::Mesh),
            other => Err(InvalidProfile(other.chars().take(80).collect())),
        }
    }
}

/// A profile that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {0:?}: unknown, allowed: reference, mesh")]
pub struct InvalidProfile(String);
