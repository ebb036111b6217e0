//! Durations and sizes as people write them, both ways and without loss: `"250ms"`, `"64MiB"`.

use std::time::Duration;

/// For `#[serde(with = "…")]` on a [`Duration`].
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// For `#[serde(with = "…")]` on a number of bytes.
pub(crate) mod size {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&super::format_size(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_size(&text).map_err(D::Error::custom)
    }
}

/// Reads a duration such as `250ms`, `1m 30s`.
///
/// # Errors
/// Says what was found and what is allowed.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| format!("found {:?}, allowed a duration such as \"250ms\", \"5s\" or \"1m 30s\"", cut(text)))
}

/// Reads a size such as `64MiB`, `1GB`, `4096B`; a bare number counts bytes.
///
/// # Errors
/// Says what was found and what is allowed.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match text.parse::<bytesize::ByteSize>() {
        // The parser saturates; a size that large is a slip of the hand.
        Ok(size) if size.as_u64() < u64::MAX => Ok(size.as_u64()),
        _ => Err(format!("found {:?}, allowed a size such as \"4KiB\", \"64MiB\" or \"1GB\"", cut(text))),
    }
}

/// The shortest exact form in binary units: `64MiB`, `1500B`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let steps = if bytes == 0 { 0 } else { (bytes.trailing_zeros() / 10).min(6) };
    match steps.checked_sub(1).and_then(|index| UNITS.get(index as usize)) {
        Some(unit) => format!("{}{unit}", bytes >> (10 * steps)),
        None => format!("{bytes}B"),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_in_their_own_form() {
        for (bytes, text) in
            [(0, "0B"), (1, "1B"), (1500, "1500B"), (4096, "4KiB"), (64 << 20, "64MiB"), (3 << 60, "3EiB")]
        {
            assert_eq!(format_size(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
        assert_eq!(parse_size("1.5KiB"), Ok(1536));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "-1", "12 parsecs", "99999999EiB", "NaN"] {
            assert!(parse_size(text).unwrap_err().contains("\"64MiB\""), "{text}");
        }
        for text in ["", "5", "-1s", "soon"] {
            assert!(parse_duration(text).unwrap_err().contains("\"250ms\""), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_size_and_duration_survives_its_text(bytes in 0..u64::MAX, nanos in 0..u64::MAX) {
            proptest::prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
            let duration = Duration::from_nanos(nanos);
            proptest::prop_assert_eq!(parse_duration(&humantime::format_duration(duration).to_string()), Ok(duration));
        }
    }
}
