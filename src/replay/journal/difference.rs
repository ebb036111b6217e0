//! Where a replay departs from what was recorded, field by field.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::axis::utc;
use super::json::to_json;
use super::outputs::name;
use crate::journal::{Part, Said};

/// Fields named of one difference; further ones are counted.
pub const MAX_FIELDS: usize = 40;
/// Characters of a field's value that are shown at most.
const MAX_VALUE: usize = 120;

/// A turn or a snapshot of a core that came out otherwise than recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which core.
    pub part: Part,
    /// Which of its turns, from 1, counted from the first that is there. Of a snapshot: the last turn
    /// before it.
    pub turn: u64,
    /// When, in milliseconds since the Unix epoch, on the life's axis.
    pub at_ms: u64,
    /// In which file.
    pub file: PathBuf,
    /// At which byte.
    pub at: u64,
    /// The input in short; none for a snapshot.
    pub input: Option<String>,
    /// What came out.
    pub wrong: Wrong,
}

/// How something came out otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Wrong {
    /// An output that matters, field by field.
    Said {
        /// What it is about.
        what: String,
        /// The fields that differ; at most [`MAX_FIELDS`].
        fields: Vec<FieldDifference>,
        /// Further ones.
        more: u64,
    },
    /// Others of the outputs that matter, or of other kinds.
    SaidOthers {
        /// Those recorded.
        recorded: Vec<String>,
        /// Those replayed.
        replayed: Vec<String>,
    },
    /// Only the digest of all outputs: which others were recorded is not known.
    Digest {
        /// The outputs that the replay gives, by kind.
        replayed: BTreeMap<String, u64>,
    },
    /// The core's own state where a snapshot of it was recorded.
    Snapshot {
        /// The fields that differ; at most [`MAX_FIELDS`].
        fields: Vec<FieldDifference>,
        /// Further ones.
        more: u64,
        /// Bytes of the recorded snapshot.
        recorded_bytes: u64,
        /// Bytes of the replayed core's.
        replayed_bytes: u64,
    },
    /// The core panicked in the replay.
    Panicked {
        /// With these words.
        message: String,
    },
}

/// A field of a value that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDifference {
    /// Where in the value: `candidates[2].gfs`.
    pub field: String,
    /// The recorded value; none if there is no such field.
    pub recorded: Option<Value>,
    /// The replayed one.
    pub replayed: Option<Value>,
}

impl Wrong {
    /// What differs between the outputs that matter: field by field the first that differs from its
    /// counterpart, or both lists where one has more than the other or the kinds are others. `differ` says
    /// whether those of an index do.
    pub(super) fn said(recorded: &[Said], replayed: &[Said], differ: impl Fn(&Said, &Said) -> bool) -> Self {
        // In lists of unequal length the one of an index may be no counterpart.
        let comparable = recorded.len() == replayed.len();
        let pair = recorded.iter().zip(replayed).find(|(recorded, replayed)| differ(recorded, replayed));
        match pair.filter(|_| comparable) {
            Some((was, is)) if std::mem::discriminant(was) == std::mem::discriminant(is) => {
                let (fields, more) = fields(was, is);
                Self::Said { what: name(was), fields, more }
            }
            _ => {
                let names = |said: &[Said]| said.iter().take(MAX_FIELDS).map(name).collect();
                Self::SaidOthers { recorded: names(recorded), replayed: names(replayed) }
            }
        }
    }
}

/// The fields in which two values of one kind differ; what differs beyond [`MAX_FIELDS`] is counted.
pub(super) fn fields<T: Serialize>(recorded: &T, replayed: &T) -> (Vec<FieldDifference>, u64) {
    let mut found = Found { fields: Vec::new(), more: 0 };
    if let (Ok(recorded), Ok(replayed)) = (to_json(recorded), to_json(replayed)) {
        let (recorded, replayed) = inside(&recorded, &replayed);
        found.compare(&mut String::new(), recorded, replayed);
    }
    (found.fields, found.more)
}

/// What stands in two equal variants of an enumeration.
fn inside<'a>(recorded: &'a Value, replayed: &'a Value) -> (&'a Value, &'a Value) {
    if let (Value::Object(was), Value::Object(is)) = (recorded, replayed)
        && let (1, 1) = (was.len(), is.len())
        && let (Some((tag, was)), Some((other, is))) = (was.iter().next(), is.iter().next())
        && tag == other
    {
        return (was, is);
    }
    (recorded, replayed)
}

struct Found {
    fields: Vec<FieldDifference>,
    more: u64,
}

impl Found {
    /// Adds what differs at and below `path`.
    fn compare(&mut self, path: &mut String, recorded: &Value, replayed: &Value) {
        match (recorded, replayed) {
            (Value::Object(was), Value::Object(is)) => {
                for (key, value) in was {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.below(path, &format!("{dot}{key}"), Some(value), is.get(key));
                }
                for (key, value) in is.iter().filter(|(key, _)| !was.contains_key(*key)) {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.below(path, &format!("{dot}{key}"), None, Some(value));
                }
            }
            (Value::Array(was), Value::Array(is)) => {
                for index in 0..was.len().max(is.len()) {
                    self.below(path, &format!("[{index}]"), was.get(index), is.get(index));
                }
            }
            _ if recorded == replayed => {}
            _ => self.add(path, Some(recorded), Some(replayed)),
        }
    }

    fn below(&mut self, path: &mut String, step: &str, recorded: Option<&Value>, replayed: Option<&Value>) {
        let before = path.len();
        path.push_str(step);
        match (recorded, replayed) {
            (Some(recorded), Some(replayed)) => self.compare(path, recorded, replayed),
            (recorded, replayed) => self.add(path, recorded, replayed),
        }
        path.truncate(before);
    }

    fn add(&mut self, path: &str, recorded: Option<&Value>, replayed: Option<&Value>) {
        if self.fields.len() < MAX_FIELDS {
            let (recorded, replayed) = (recorded.cloned(), replayed.cloned());
            self.fields.push(FieldDifference { field: path.to_owned(), recorded, replayed });
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "its value" } else { &self.field };
        write!(f, "{field}: {} recorded, {} replayed", Shown(self.recorded.as_ref()), Shown(self.replayed.as_ref()))
    }
}

/// A value in a bounded number of characters.
struct Shown<'a>(Option<&'a Value>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(value) = self.0 else { return f.write_str("absent") };
        let text = value.to_string();
        match text.char_indices().nth(MAX_VALUE) {
            Some((end, _)) => write!(f, "{}…", text.get(..end).unwrap_or_default()),
            None => f.write_str(&text),
        }
    }
}

/// One line for the place, and one for each thing that differs, further in.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, turn) = (self.part, self.turn);
        match self.input {
            Some(_) => write!(f, "{part} core, turn {turn}")?,
            None => write!(f, "{part} core, snapshot after turn {turn}")?,
        }
        write!(f, "\n  {}, {}, byte {}", utc(self.at_ms), self.file.display(), self.at)?;
        if let Some(input) = &self.input {
            write!(f, "\n  told {input}")?;
        }
        write!(f, "{}", self.wrong)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, fields: &[FieldDifference], more: u64| {
            for field in fields {
                write!(f, "\n    {field}")?;
            }
            match (fields.is_empty(), more) {
                (true, _) => f.write_str("\n    only in its bytes: as JSON both are the same"),
                (false, 0) => Ok(()),
                (false, more) => write!(f, "\n    and {more} more"),
            }
        };
        match self {
            Self::Said { what, fields, more } => {
                write!(f, "\n  {what} differs:")?;
                list(f, fields, *more)
            }
            Self::SaidOthers { recorded, replayed } => {
                let names = |names: &[String]| match names {
                    [] => "nothing".to_owned(),
                    names => names.join("; "),
                };
                write!(f, "\n  recorded: {}\n  replayed: {}", names(recorded), names(replayed))
            }
            Self::Digest { replayed } => {
                let kinds: Vec<String> = replayed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
                let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
                write!(f, "\n  outputs replayed: {kinds}; those recorded are known by their digest only, which differs")
            }
            Self::Snapshot { fields, more, recorded_bytes, replayed_bytes } => {
                write!(f, "\n  its state differs, {recorded_bytes} bytes recorded, {replayed_bytes} replayed:")?;
                list(f, fields, *more)
            }
            Self::Panicked { message } => write!(f, "\n  it panicked in the replay: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_unequal_length_are_told_as_lists_and_others_field_by_field() {
        let (frozen, thawed) = (Said::Frozen(true), Said::Frozen(false));
        let differ = |recorded: &Said, replayed: &Said| recorded != replayed;
        let both = [frozen.clone(), thawed.clone()];
        let fewer = Wrong::said(&both, &both[1..], differ);
        let Wrong::SaidOthers { recorded, replayed } = &fewer else { panic!("{fewer:?}") };
        assert_eq!((recorded.len(), replayed.len()), (2, 1));
        let more = Wrong::said(&both[..1], &both, differ);
        assert!(
            matches!(&more, Wrong::SaidOthers { recorded, replayed } if (recorded.len(), replayed.len()) == (1, 2))
        );
        let other = Wrong::said(&both, &[frozen.clone(), frozen], differ);
        assert!(matches!(&other, Wrong::Said { fields, .. } if fields.len() == 1), "{other:?}");
    }

    #[test]
    fn fields_are_named_by_their_path_with_both_values() {
        let was = json!({"Decided": {"id": "a", "candidates": [{"gfs": 0.1}, {"gfs": 0.31}], "gone": null}});
        let is = json!({"Decided": {"id": "a", "candidates": [{"gfs": 0.1}, {"gfs": 0.29}, 3], "new": "x"}});
        let (fields, more) = fields(&was, &is);
        let lines: Vec<String> = fields.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "candidates[1].gfs: 0.31 recorded, 0.29 replayed",
                "candidates[2]: absent recorded, 3 replayed",
                "gone: null recorded, absent replayed",
                "new: absent recorded, \"x\" replayed",
            ]
        );
        assert_eq!(more, 0);
    }

    #[test]
    fn no_more_fields_are_kept_than_allowed_and_long_values_are_cut() {
        let (was, is) = (vec![0; 1_000], vec![1; 1_000]);
        let (found, more) = fields(&was, &is);
        assert_eq!((found.len(), more), (MAX_FIELDS, (1_000 - MAX_FIELDS) as u64));
        let (found, _) = fields(&"é".repeat(500), &"e".repeat(500));
        assert!(found[0].to_string().chars().count() < 2 * MAX_VALUE + 60);
    }
}
