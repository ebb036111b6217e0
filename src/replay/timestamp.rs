//! When a request came.

use std::time::UNIX_EPOCH;

use super::fields::number;

/// A plain number from here on counts milliseconds, below it seconds: as seconds it would lie in the
/// year 5138, as milliseconds in 1973.
const MS_FROM: f64 = 1e11;

/// What a timestamp may be.
pub(crate) const ALLOWED: &str =
    "a date like 2026-05-02T09:00:03.25Z or with an offset like +02:00, or a number of seconds of at least 0";

/// Milliseconds since 1970, or since whatever the trace counts from.
pub(crate) fn parse_ms(text: &str) -> Option<f64> {
    if let Some(number) = number(text) {
        return Some(if number < MS_FROM { number * 1_000.0 } else { number });
    }
    let (date, offset_minutes) = offset(text)?;
    let since = humantime::parse_rfc3339_weak(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64() * 1_000.0 - offset_minutes * 60_000.0)
}

/// A date without its offset from UTC, and that offset in minutes.
fn offset(text: &str) -> Option<(&str, f64)> {
    let Some(at) = text.len().checked_sub("+00:00".len()) else { return Some((text, 0.0)) };
    // A date alone, 2026-05-02, has hyphens too, though none six characters from its end.
    let (date, tail) = text.split_at_checked(at)?;
    let (sign, tail) = match tail.split_at_checked(1)? {
        ("+", tail) => (1.0, tail),
        ("-", tail) => (-1.0, tail),
        _ => return Some((text, 0.0)),
    };
    let (hours, minutes) = tail.split_once(':')?;
    let part = |text: &str, most: u32| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|part| digits && *part <= most)
    };
    Some((date, sign * f64::from(part(hours, 23)? * 60 + part(minutes, 59)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_with_and_without_an_offset_and_plain_numbers_are_read() {
        let noon = 1_777_723_200_000.0;
        for (text, expected) in [
            ("2026-05-02T12:00:00Z", noon),
            ("2026-05-02 12:00:00", noon),
            ("2026-05-02T12:00:00.25Z", noon + 250.0),
            ("2026-05-02T14:00:00+02:00", noon),
            ("2026-05-02T06:30:00.5-05:30", noon + 500.0),
            ("1777723200", noon),
            ("1777723200000", noon),
            ("0.25", 250.0),
        ] {
            assert_eq!(parse_ms(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_time() {
        for text in
            ["", "soon", "-1", "NaN", "2026-13-02T12:00:00Z", "2026-05-02T12:00:00+2:00", "12:00", "+99:99", "é9:00:00"]
        {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
