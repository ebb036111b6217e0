//! Inputs and outputs in a few words.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};

use crate::journal::Said;

/// Characters of a value in short at most.
const SHORT: usize = 88;

/// The beginning of what `Debug` makes of a value; no more of it is made than that.
pub(super) fn short(value: &impl Debug) -> String {
    cut(value, SHORT)
}

fn cut(value: &impl Debug, most: usize) -> String {
    let mut text = Cut { text: String::new(), left: most };
    if write!(text, "{value:?}").is_err() {
        text.text.push('…');
    }
    text.text
}

/// Takes so many characters and then no more.
struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(letter);
        }
        Ok(())
    }
}

/// How many outputs there are of each kind.
pub(super) fn kinds(outputs: &[impl Debug]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for output in outputs {
        let name = cut(output, 32);
        let name = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        *kinds.entry(name.to_owned()).or_default() += 1;
    }
    kinds
}

/// What a said output is about.
pub(super) fn name(said: &Said) -> String {
    match said {
        Said::Decided(record) => match &record.request_id {
            Some(request) => format!("decision {} of request {request}", record.id),
            None => format!("decision {}", record.id),
        },
        other => short(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_and_a_kind_is_its_first_word() {
        assert_eq!(short(&"abc"), "\"abc\"");
        assert_eq!(short(&"é".repeat(1_000)).chars().count(), SHORT + 1);
        let kinds = kinds(&[Some(1), None, Some(2)]);
        assert_eq!(kinds, BTreeMap::from([("Some".to_owned(), 2), ("None".to_owned(), 1)]));
    }
}
