//! Words for a key that is not known.

/// Says that `unknown` is not known, which of `known` is nearest, and all of them.
pub(crate) fn unknown_key(unknown: &str, known: &[&str]) -> String {
    let unknown: String = unknown.chars().take(80).collect();
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&unknown, name), *name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(4) / 2);
    let hint = nearest.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("unknown key `{unknown}`{hint} (known: {})", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_key_is_suggested_only_when_it_is_near() {
        let known = ["interval", "payload", "budget_per_s"];
        assert!(unknown_key("intervall", &known).contains("did you mean `interval`?"));
        assert!(unknown_key("budget", &known).contains("known: interval, payload, budget_per_s"));
        assert!(!unknown_key("zzzzzzzz", &known).contains("did you mean"));
        assert!(unknown_key("x", &[]).starts_with("unknown key `x`"));
    }
}
