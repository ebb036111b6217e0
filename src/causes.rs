//! What went wrong, and why, on one line.

use std::error::Error;

/// An error and its causes with a colon between them, for whoever reads a program's last line. A
/// cause whose words an error before it already has is left out: many of Seam's errors name theirs.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Told {
        words: &'static str,
        source: Option<Box<Told>>,
    }

    /// An error of these words, each the cause of the one before.
    fn told(words: &[&'static str]) -> Told {
        let (first, rest) = words.split_first().unwrap();
        Told { words: first, source: (!rest.is_empty()).then(|| Box::new(told(rest))) }
    }

    #[test]
    fn each_cause_is_told_once() {
        for (chain, expected) in [
            (&["no start"] as &[&str], "no start"),
            (&["no start", "no rail", "in use"], "no start: no rail: in use"),
            (&["no start", "rail a: in use", "in use"], "no start: rail a: in use"),
            (&["a: in use", "in use", "port 1"], "a: in use: port 1"),
            (&["no start", "", "in use"], "no start: in use"),
        ] {
            assert_eq!(with_causes(&told(chain)), expected);
        }
    }
}
