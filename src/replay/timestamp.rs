//! When a request came.

use std::time::UNIX_EPOCH;

use super::fields::number;

/// A plain number from here on counts milliseconds, below it seconds: as seconds it would lie in the
/// year 5138, as milliseconds in 1973.
const MS_FROM: f64 = 1e11;
/// A plain number ends here: as milliseconds it would lie in the year 5138. Microseconds and
/// nanoseconds of any recent date are larger.
const MS_BELOW: f64 = 1e14;

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTime {
    /// A date, of which nobody can say where on Earth its clock stood.
    NoOffset,
    /// A number that is neither seconds nor milliseconds.
    TooLarge,
    /// Anything else.
    Other,
}

impl NoTime {
    /// What a time may be, in the words that fit the fault.
    pub(crate) fn allowed(self) -> &'static str {
        match self {
            Self::NoOffset => {
                "a date with Z or an offset like +02:00 at its end: without one it is ambiguous, since it may be local \
                 time or UTC"
            }
            Self::TooLarge => {
                "a number of seconds since 1970 below 100000000000, or of milliseconds from there on and below \
                 100000000000000"
            }
            Self::Other => {
                "a date like 2026-05-02T09:00:03.25Z or 2026-05-02T11:00:03.25+02:00, or a number since 1970: of \
                 seconds, at least 0, of milliseconds from 100000000000 on, below 100000000000000"
            }
        }
    }
}

/// Milliseconds since 1970, or since whatever the trace counts from.
pub(crate) fn parse_ms(text: &str) -> Result<f64, NoTime> {
    if let Some(number) = number(text) {
        return match number {
            seconds if seconds < MS_FROM => Ok(seconds * 1_000.0),
            ms if ms < MS_BELOW => Ok(ms),
            _ => Err(NoTime::TooLarge),
        };
    }
    let (date, offset_minutes) = offset(text).ok_or(NoTime::Other)?;
    let found = humantime::parse_rfc3339_weak(date).map_err(|_| NoTime::Other)?;
    let since = found.duration_since(UNIX_EPOCH).map_err(|_| NoTime::Other)?;
    let ms = since.as_secs_f64() * 1_000.0;
    match (offset_minutes, date.ends_with('Z')) {
        (Some(minutes), false) => Ok(ms - minutes * 60_000.0),
        (None, true) => Ok(ms),
        (None, false) => Err(NoTime::NoOffset),
        (Some(_), true) => Err(NoTime::Other),
    }
}

/// A date without its offset from UTC, and that offset in minutes, if it has one.
fn offset(text: &str) -> Option<(&str, Option<f64>)> {
    let Some(at) = text.len().checked_sub("+00:00".len()) else { return Some((text, None)) };
    // A date alone, 2026-05-02, has hyphens too, though none six characters from its end.
    let (date, tail) = text.split_at_checked(at)?;
    let (sign, tail) = match tail.split_at_checked(1)? {
        ("+", tail) => (1.0, tail),
        ("-", tail) => (-1.0, tail),
        _ => return Some((text, None)),
    };
    let (hours, minutes) = tail.split_once(':')?;
    let part = |text: &str, most: u32| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|part| digits && *part <= most)
    };
    Some((date, Some(sign * f64::from(part(hours, 23)? * 60 + part(minutes, 59)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_with_z_or_an_offset_and_plain_numbers_are_read() {
        let noon = 1_777_723_200_000.0;
        for (text, expected) in [
            ("2026-05-02T12:00:00Z", noon),
            ("2026-05-02 12:00:00Z", noon),
            ("2026-05-02T12:00:00.25Z", noon + 250.0),
            ("2026-05-02T14:00:00+02:00", noon),
            ("2026-05-02T06:30:00.5-05:30", noon + 500.0),
            ("2026-05-02T12:00:00-00:00", noon),
            ("1777723200", noon),
            ("1777723200000", noon),
            ("0.25", 250.0),
            ("99999999999", 99_999_999_999_000.0),
            ("100000000000", 100_000_000_000.0),
            ("99999999999999", 99_999_999_999_999.0),
        ] {
            assert_eq!(parse_ms(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_date_that_may_be_local_time_and_a_number_of_smaller_units_are_refused_as_such() {
        for (text, expected) in [
            ("2026-05-02 12:00:00", NoTime::NoOffset),
            ("2026-05-02T12:00:00.25", NoTime::NoOffset),
            ("100000000000000", NoTime::TooLarge),
            ("1777723200000000", NoTime::TooLarge),
            ("1e300", NoTime::TooLarge),
        ] {
            assert_eq!(parse_ms(text), Err(expected), "{text}");
        }
        assert!(NoTime::NoOffset.allowed().contains("ambiguous"));
        assert!(NoTime::TooLarge.allowed().contains("below 100000000000000"));
    }

    #[test]
    fn other_text_is_no_time() {
        for text in [
            "",
            "soon",
            "-1",
            "NaN",
            "2026-05-02",
            "2026-13-02T12:00:00Z",
            "2026-05-02T12:00:00+2:00",
            "2026-05-02T12:00:00Z+02:00",
            "12:00",
            "+99:99",
            "é9:00:00",
        ] {
            assert_eq!(parse_ms(text), Err(NoTime::Other), "{text}");
        }
    }
}
