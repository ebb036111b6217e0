//! How wide text is, where it breaks, and which characters XML allows.

/// The width of a text in pixels, as an upper estimate: about what the widest of the usual
/// sans-serif faces (DejaVu Sans, Verdana) takes, since the reader's face is not known here.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    text.chars().map(|c| char_width(c, size, bold)).sum()
}

fn char_width(c: char, size: f64, bold: bool) -> f64 {
    let em = match c {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | 'f' | '|' | '.' | ',' => 0.37,
        '!' | '"' | '(' | ')' | '-' | '/' | ':' | ';' | 'I' | 'J' | '[' | '\\' | ']' | 'r' | 't' => 0.46,
        'c' | 's' | 'z' | 'k' | 'v' | 'x' | 'y' => 0.6,
        'D' | 'G' | 'H' | 'N' | 'O' | 'Q' | 'U' | '&' => 0.79,
        '+' | '<' | '=' | '>' | '#' | '~' | '^' | 'w' => 0.84,
        'm' | 'M' | 'W' | '@' => 1.0,
        '%' => 1.08,
        'A'..='Z' => 0.7,
        ' '..='~' => 0.64,
        '\u{a0}'..='\u{2fff}' => 0.84,
        _ => 1.1,
    };
    em * size * if bold { 1.15 } else { 1.0 }
}

/// Breaks a text into lines of at most `most` pixels: at blanks, which then vanish, after `_`, `-`
/// and `/`, and inside a word only where it is wider than a line. At least one line.
pub(crate) fn wrap(text: &str, size: f64, bold: bool, most: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces(text) {
        let together = line.clone() + piece;
        if width(together.trim_end(), size, bold) <= most {
            line = together;
            continue;
        }
        if !line.trim().is_empty() {
            lines.push(line.trim_end().to_owned());
        }
        line = String::new();
        for c in piece.chars() {
            if c != ' ' && !line.is_empty() && width(&line, size, bold) + char_width(c, size, bold) > most {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if lines.is_empty() || !line.trim().is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The width of the widest part of a text that does not break.
pub(crate) fn widest_piece(text: &str, size: f64, bold: bool) -> f64 {
    pieces(text).map(|piece| width(piece.trim_end(), size, bold)).fold(0.0, f64::max)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '_', '-', '/'])
}

/// A text on one line, without blanks at its ends, with U+FFFD for characters that XML 1.0 forbids
/// or advises against.
pub(crate) fn clean(text: &str) -> String {
    let allowed = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        other => other,
    };
    text.trim().chars().map(allowed).collect()
}

/// A text as XML shows it.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_after_underscores() {
        assert_eq!(wrap("capacity_only", 12.0, false, 70.0), ["capacity_", "only"]);
        assert_eq!(wrap("gray failure of one path", 12.0, false, 100.0), ["gray failure of", "one path"]);
        assert_eq!(wrap("short", 12.0, false, 100.0), ["short"]);
        assert_eq!(wrap("", 12.0, false, 100.0), [""]);
    }

    #[test]
    fn a_word_wider_than_a_line_breaks_inside_and_loses_nothing() {
        let word = "x".repeat(50);
        let lines = wrap(&word, 12.0, false, 60.0);
        assert!(lines.len() > 1);
        assert!(lines.iter().all(|line| width(line, 12.0, false) <= 60.0));
        assert_eq!(lines.concat(), word);
    }

    #[test]
    fn every_line_of_a_wrapped_text_is_within_the_width() {
        let text = "p99 of the slowdown, by policy and by the kind of failure/degradation_that_was_injected";
        for most in [40.0, 80.0, 200.0, 2000.0] {
            for line in wrap(text, 12.0, true, most) {
                assert!(width(&line, 12.0, true) <= most, "{line:?} at {most}");
            }
        }
    }

    #[test]
    fn what_xml_forbids_is_replaced_and_the_rest_escaped() {
        assert_eq!(escape(" a\u{0}b\u{8}\u{ffff} "), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(escape("a\nb\tc"), "a b c");
        assert_eq!(escape(r#"<a href="x">'&'"#), "&lt;a href=&quot;x&quot;&gt;&apos;&amp;&apos;");
    }
}
