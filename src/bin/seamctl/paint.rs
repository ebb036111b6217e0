//! Colour, only where a person reads: what it says, the words say too.

use std::ffi::OsStr;
use std::io::IsTerminal as _;

use seam::model::PathState;

/// Whether standard output is a terminal that knows colours, and whose user has not asked for none.
pub(crate) fn colour() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !no_colour && obeys(std::env::var_os("TERM").as_deref())
}

/// Whether standard error is a terminal on which a line can be written again in its place.
pub(crate) fn rewrites() -> bool {
    std::io::stderr().is_terminal() && obeys(std::env::var_os("TERM").as_deref())
}

/// Whether a terminal of this kind does what control sequences say, rather than show them.
fn obeys(term: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

/// Paints the states and verdicts in `text`, word by word, so that no column moves.
pub(crate) fn states(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_word(c)).unwrap_or(from.len()));
        painted.push_str(before);
        match code(word) {
            Some(code) => painted.push_str(&format!("\u{1b}[{code}m{word}\u{1b}[0m")),
            None => painted.push_str(word),
        }
        rest = after;
    }
    painted.push_str(rest);
    painted
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

fn code(word: &str) -> Option<&'static str> {
    let state = PathState::ALL.iter().find(|state| state.as_str() == word);
    match (state, word) {
        (Some(PathState::Healthy), _) | (None, "held" | "ok") => Some("32"),
        (Some(PathState::Restored | PathState::DegradedUsable | PathState::DegradedRestricted), _) | (None, "warn") => {
            Some("33")
        }
        (Some(PathState::QuarantineCandidate | PathState::Quarantined), _) | (None, "missed" | "fail") => Some("1;31"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_is_shown_no_control_sequence() {
        assert_eq!(["dumb", "xterm-256color", ""].map(|term| obeys(Some(OsStr::new(term)))), [false, true, true]);
        assert!(obeys(None));
    }

    #[test]
    fn only_whole_words_are_painted_and_nothing_else_changes() {
        assert_eq!(states("clean   healthy  0.03\n"), "clean   \u{1b}[32mhealthy\u{1b}[0m  0.03\n");
        assert_eq!(states("(missed)"), "(\u{1b}[1;31mmissed\u{1b}[0m)");
        for text in ["", "unhealthy", "healthy_spared", "a-healthy", "p99 2.0 ≥ 1"] {
            assert_eq!(states(text), text);
        }
    }
}
