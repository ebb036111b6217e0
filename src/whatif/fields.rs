//! The fields of one object, and complaints about them.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::WhatIfError;
use crate::model::InvalidName;

/// An object whose fields are all known.
pub(super) struct Fields<'a> {
    at: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(at: &'a str, value: &'a Value, known: &[&str]) -> Result<Self, WhatIfError> {
        let map = value.as_object().ok_or_else(|| wrong(at, value, "an object".into()))?;
        let fields = Self { at, map };
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(fields),
            Some(name) => Err(WhatIfError::Field {
                field: fields.path(&shown(name)),
                found: "an unknown field".into(),
                allowed: one_of(name, known),
            }),
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        if self.at == "line" { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// The field's value; a null counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn number(&self, name: &str, range: Range) -> Result<Option<f64>, WhatIfError> {
        let read = |value| range.read(value).ok_or_else(|| wrong(&self.path(name), value, range.allowed()));
        self.get(name).map(read).transpose()
    }

    pub(super) fn whole(&self, name: &str, low: u32, high: u32) -> Result<Option<u32>, WhatIfError> {
        let read = |value: &Value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| wrong(&self.path(name), value, format!("a whole number, {low} to {high}")))
        };
        self.get(name).map(read).transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, WhatIfError> {
        let read =
            |value: &Value| value.as_bool().ok_or_else(|| wrong(&self.path(name), value, "true or false".into()));
        Ok(self.get(name).map(read).transpose()?.unwrap_or(false))
    }

    pub(super) fn parsed<T: FromStr<Err = InvalidName>>(&self, name: &str) -> Result<Option<T>, WhatIfError> {
        let read = |value: &Value| {
            let text = value.as_str().ok_or_else(|| wrong(&self.path(name), value, "text".into()))?;
            text.parse().map_err(name_error(&self.path(name)))
        };
        self.get(name).map(read).transpose()
    }
}

/// The numbers that a field may have.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) low_allowed: bool,
    pub(super) high: f64,
}

impl Range {
    pub(super) fn read(&self, value: &Value) -> Option<f64> {
        let fits =
            |number: &f64| *number <= self.high && (*number > self.low || (self.low_allowed && *number == self.low));
        value.as_f64().filter(fits)
    }

    pub(super) fn allowed(&self) -> String {
        let low = if self.low_allowed { "at least" } else { "above" };
        if self.high == f64::MAX {
            format!("a number, {low} {}", self.low)
        } else {
            format!("a number, {low} {}, at most {}", self.low, self.high)
        }
    }
}

pub(super) fn wrong(field: &str, found: &Value, allowed: String) -> WhatIfError {
    WhatIfError::Field { field: field.to_owned(), found: shown(&brief(found)), allowed }
}

pub(super) fn missing(field: &str, allowed: &str) -> WhatIfError {
    WhatIfError::Field { field: field.to_owned(), found: "nothing".into(), allowed: allowed.to_owned() }
}

pub(super) fn counted(field: &str, found: usize, what: &str, allowed: String) -> WhatIfError {
    WhatIfError::Field { field: field.to_owned(), found: format!("{found} {what}"), allowed }
}

pub(super) fn name_error(field: &str) -> impl FnOnce(InvalidName) -> WhatIfError + use<> {
    let field = field.to_owned();
    |error| WhatIfError::Field { field, found: format!("{:?}", error.found), allowed: error.allowed.to_owned() }
}

/// A value as it stands in the line, unless it is large.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(map) => format!("an object of {} fields", map.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The nearest of `known`, if one is near, and all of them.
pub(super) fn one_of(found: &str, known: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let all = names.join(", ");
    // Comparing costs the product of both lengths, and nothing that long is near.
    let distance = |name: &str| if found.len() > 80 { usize::MAX } else { strsim::damerau_levenshtein(found, name) };
    let near = |name: &str| distance(name) <= 1 + name.len() / 4;
    let nearest = names.into_iter().filter(|name| near(name)).min_by_key(|name| distance(name));
    nearest.map_or_else(|| format!("one of {all}"), |name| format!("{name} (nearest), or one of {all}"))
}
