//! The fields of one line of a table, and the numbers in them.

use std::ops::Range;

use crate::trace::{Lines, TraceError};

/// The fields of one line. Their memory is used again for the next.
#[derive(Default)]
pub(super) struct Fields {
    line: String,
    /// The fields' text where it is not a part of the line itself: quotes resolved.
    unquoted: String,
    spans: Vec<Range<usize>>,
    quoted: bool,
}

impl Fields {
    /// Reads the next line that is not blank, and says whether there was one.
    pub(super) fn read(&mut self, lines: &mut Lines) -> Result<bool, TraceError> {
        let any = self.take(lines)?;
        if any {
            self.split(lines)?;
        }
        Ok(any)
    }

    /// Takes the next line that is not blank, without looking at its fields, and says whether there
    /// was one.
    pub(super) fn take(&mut self, lines: &mut Lines) -> Result<bool, TraceError> {
        self.spans.clear();
        lines.read_line(&mut self.line)
    }

    /// Finds the fields of the line that was taken.
    pub(super) fn split(&mut self, lines: &Lines) -> Result<(), TraceError> {
        self.spans.clear();
        self.quoted = self.line.contains('"');
        if self.quoted {
            self.unquote(lines)?;
        } else {
            let mut start = 0;
            for field in self.line.split(',') {
                self.spans.push(start..start + field.len());
                start += field.len() + 1;
            }
        }
        Ok(())
    }

    /// Whether the line is the beginning of a JSON object or array.
    pub(super) fn begins_json(&self) -> bool {
        self.line.starts_with(['{', '['])
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// One field without the blanks around it; empty if there is none so far right.
    pub(super) fn get(&self, index: usize) -> &str {
        let text = if self.quoted { &self.unquoted } else { &self.line };
        self.spans.get(index).and_then(|span| text.get(span.clone())).unwrap_or_default().trim()
    }

    /// A field that begins with a quote ends with one, and has two for each that it contains.
    fn unquote(&mut self, lines: &Lines) -> Result<(), TraceError> {
        self.unquoted.clear();
        let mut rest = self.line.as_str();
        loop {
            let start = self.unquoted.len();
            let mut after = rest;
            if let Some(mut inside) = rest.trim_start().strip_prefix('"') {
                loop {
                    let Some((text, next)) = inside.split_once('"') else {
                        return Err(lines.malformed("the line", "a quote that does not end", "quotes in pairs"));
                    };
                    self.unquoted.push_str(text);
                    match next.strip_prefix('"') {
                        Some(next) => {
                            self.unquoted.push('"');
                            inside = next;
                        }
                        None => {
                            after = next;
                            break;
                        }
                    }
                }
                if !matches!(after.trim_start().chars().next(), None | Some(',')) {
                    return Err(lines.malformed("the line", &shown(after.trim()), "a comma after a quoted field"));
                }
            }
            let (text, next) = match after.split_once(',') {
                Some((text, next)) => (text, Some(next)),
                None => (after, None),
            };
            self.unquoted.push_str(text);
            self.spans.push(start..self.unquoted.len());
            match next {
                Some(next) => rest = next,
                None => return Ok(()),
            }
        }
    }
}

/// What stands in a line, as an error shows it: escaped, and cut to 80 characters.
pub(super) fn shown(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("{text:?}").chars().take(80).collect() }
}

/// A finite number of at least 0.
pub(super) fn number(text: &str) -> Option<f64> {
    // The sum makes a positive zero of a negative one.
    text.parse::<f64>().ok().map(|number| number + 0.0).filter(|number| number.is_finite() && *number >= 0.0)
}

/// A number in [0, 1].
pub(super) fn share(text: &str) -> Option<f64> {
    number(text).filter(|number| *number <= 1.0)
}

/// `true` or `false` in any case, `1` or `0`.
pub(super) fn flag(text: &str) -> Option<bool> {
    if text == "1" || text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text == "0" || text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::trace::open_lines;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let mut lines = open_lines("t", Cursor::new(line.to_owned())).unwrap();
        let mut fields = Fields::default();
        fields.read(&mut lines).map_err(|error| error.to_string())?;
        Ok((0..fields.len()).map(|index| fields.get(index).to_owned()).collect())
    }

    #[test]
    fn quotes_are_resolved_and_blanks_around_a_field_dropped() {
        for (line, expected) in [
            ("a,b,c", vec!["a", "b", "c"]),
            (" a , b,\tc ", vec!["a", "b", "c"]),
            ("a,,", vec!["a", "", ""]),
            (r#""a",b,"c""#, vec!["a", "b", "c"]),
            (r#" "a" , "b,b" ,c"#, vec!["a", "b,b", "c"]),
            (r#""a ""quoted"" a",b"c,"""""#, vec![r#"a "quoted" a"#, r#"b"c"#, "\""]),
            ("\"\",", vec!["", ""]),
        ] {
            assert_eq!(fields(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn quotes_that_do_not_pair_are_refused() {
        for (line, found) in [
            (r#"a,"b"#, "found a quote that does not end"),
            (r#"""",b"#, "found a quote that does not end"),
            (r#"a,"b"c,d"#, r#"found "c,d", allowed a comma"#),
            ("\"a\" \u{1b}[31mred", r#"found "\u{1b}[31mred", allowed a comma"#),
        ] {
            let error = fields(line).unwrap_err();
            assert!(error.contains(found), "{line}: {error}");
        }
    }

    #[test]
    fn what_an_error_shows_is_escaped_and_short() {
        assert_eq!([shown(""), shown("a\tb")], ["nothing", r#""a\tb""#]);
        assert_eq!(shown(&"\u{7}".repeat(1_000)).chars().count(), 80);
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        assert_eq!([number("1.5"), number("0"), number("2e3")], [Some(1.5), Some(0.0), Some(2000.0)]);
        assert!(number("-0").unwrap().is_sign_positive());
        for bad in ["", "NaN", "inf", "-1", "1,5", "1e999", "x"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!([share("1"), share("1.0001")], [Some(1.0), None]);
    }
}
