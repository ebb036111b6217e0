//! TOML to a typed value, with every problem found instead of the first: an entry that cannot be
//! read is noted, taken out, and the rest is read again.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{ConfigError, Problem, unknown_key};

/// So many problems are listed at most.
const MAX_PROBLEMS: usize = 32;

/// A value and the text that it came from.
pub(super) struct Document<'t, T> {
    pub(super) value: T,
    text: &'t str,
    origin: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<T> Document<'_, T> {
    /// Whether the text has the entry of a dotted key.
    pub(super) fn names(&self, key: &str) -> bool {
        let mut table = Some(self.root.get_ref());
        key.split('.').all(|part| {
            let found = table.and_then(|table| table.get(part)).map(Spanned::get_ref);
            table = match found {
                Some(DeValue::Table(inner)) => Some(inner),
                _ => None,
            };
            found.is_some()
        })
    }

    /// An error that places `problems` in the text.
    pub(super) fn refuse(&self, mut problems: Vec<Problem>) -> ConfigError {
        for problem in &mut problems {
            problem.line = locate(&self.root, &problem.key).map(|offset| line_of(self.text, offset));
        }
        ConfigError { origin: self.origin.to_owned(), problems }
    }
}

/// The names of the outermost tables and keys; none where the text is no TOML.
pub(super) fn tables(text: &str) -> Option<Vec<String>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    errors.is_empty().then(|| root.get_ref().keys().map(|key| key.get_ref().to_string()).collect())
}

/// Reads `text` as a `T`.
pub(super) fn read<'t, T: DeserializeOwned>(text: &'t str, origin: &'t str) -> Result<Document<'t, T>, ConfigError> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problems = errors
            .iter()
            .take(MAX_PROBLEMS)
            .map(|error| Problem {
                line: error.span().map(|span| line_of(text, span.start)),
                key: String::new(),
                detail: error.message().to_owned(),
            })
            .collect();
        return Err(ConfigError { origin: origin.to_owned(), problems });
    }

    let mut rest = root.clone();
    let mut problems = Vec::new();
    loop {
        let error = match T::deserialize(toml::Deserializer::from(rest.clone())) {
            Ok(value) if problems.is_empty() => return Ok(Document { value, text, origin, root }),
            Ok(_) => break,
            Err(error) => error,
        };
        let span = error.span();
        let (key, found) = span.as_ref().and_then(|span| find(root.get_ref(), span, "")).unwrap_or_default();
        if !is_echo(error.message(), &key, &problems) {
            problems.push(Problem {
                line: span.as_ref().filter(|_| !key.is_empty()).map(|span| line_of(text, span.start)),
                detail: explain(error.message(), &key, &found),
                key,
            });
        }
        let removed = span.is_some_and(|span| remove(rest.get_mut(), &span));
        if !removed || problems.len() == MAX_PROBLEMS {
            break;
        }
    }
    // What is missing may be only misspelt, and what is misspelt has a line.
    problems.sort_by_key(|problem| (problem.line.is_none(), problem.line));
    Err(ConfigError { origin: origin.to_owned(), problems })
}

/// Whether a key is missing only because it was taken out.
fn is_echo(message: &str, table: &str, problems: &[Problem]) -> bool {
    let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) else {
        return false;
    };
    let lost = if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") };
    problems.iter().any(|problem| {
        problem.key.strip_prefix(&lost).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// The innermost entry whose key or value has exactly this span: its dotted key and its text.
fn find(table: &DeTable<'_>, span: &Range<usize>, prefix: &str) -> Option<(String, String)> {
    table.iter().find_map(|(key, value)| {
        let name = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        find_in_value(value, span, &name)
            .or_else(|| (key.span() == *span).then(|| (name.clone(), show(value.get_ref()))))
    })
}

fn find_in_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>, name: &str) -> Option<(String, String)> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => find(table, span, name),
        DeValue::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find_in_value(item, span, &format!("{name}[{index}]")))
        }
        _ => None,
    };
    inner.or_else(|| (value.span() == *span).then(|| (name.to_owned(), show(value.get_ref()))))
}

/// Removes the innermost entry whose key or value has exactly this span.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    if table.iter_mut().any(|(_, value)| remove_in_value(value.get_mut(), span)) {
        return true;
    }
    let key = table.iter().find(|(key, value)| key.span() == *span || value.span() == *span);
    let Some(key) = key.map(|(key, _)| key.get_ref().to_string()) else { return false };
    table.remove(key.as_str()).is_some()
}

fn remove_in_value(value: &mut DeValue<'_>, span: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => remove(table, span),
        DeValue::Array(items) => {
            if items.iter_mut().any(|item| remove_in_value(item.get_mut(), span)) {
                return true;
            }
            let before = items.len();
            *items = std::mem::replace(items, DeArray::new()).into_iter().filter(|item| item.span() != *span).collect();
            items.len() < before
        }
        _ => false,
    }
}

/// Where the entry of a dotted key starts, or the nearest entry around it that exists.
fn locate(root: &Spanned<DeTable<'_>>, key: &str) -> Option<usize> {
    let mut table = root.get_ref();
    let mut at = None;
    for part in key.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((found, mut value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { return at };
        at = Some(found.span().start);
        if let (DeValue::Array(items), Some(index)) = (value.get_ref(), index) {
            let Some(item) = items.get(index) else { return at };
            at = Some(item.span().start);
            value = item;
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return at,
        }
    }
    at
}

/// A message of serde in Seam's words: what is unknown gets its nearest neighbour.
fn explain(message: &str, key: &str, found: &str) -> String {
    let leaf = key.rsplit('.').next().unwrap_or(key);
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let unknown = quoted.next().unwrap_or(leaf);
        let known: Vec<&str> = quoted.collect();
        return unknown_key(unknown, &known);
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).skip(1).collect();
        return format!("found {found}, allowed one of {}", known.join(", "));
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the key {field} is missing");
    }
    if let Some((_, expected)) = message.split_once(", expected ") {
        return format!("found {found}, allowed {}", kind(expected));
    }
    message.to_owned()
}

/// What serde expects, in words of somebody who writes TOML.
fn kind(expected: &str) -> String {
    match expected {
        "f32" | "f64" => "a number".to_owned(),
        "u8" => format!("a whole number, 0 to {}", u8::MAX),
        "u16" => format!("a whole number, 0 to {}", u16::MAX),
        "u32" => format!("a whole number, 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number of at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", text.chars().take(80).collect::<String>()),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
