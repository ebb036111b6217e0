//! The `policy` table, by itself or in a whole configuration.

use seam::config::{PolicyConfig, PolicyText};
use seam::health::Thresholds;
use seam::model::Profile;

use super::*;

#[test]
fn the_policy_table_is_read_by_itself_or_from_a_whole_configuration() {
    let read = |text: &str| PolicyConfig::from_toml(text, "rules.toml");
    let alone = read("[policy]\nprofile = \"reference\"\nthresholds = {fae_max = 3}\n").unwrap();
    let said = alone.said.clone().unwrap();
    assert_eq!((said.profile, said.max_excluded_fraction, said.thresholds), (true, false, vec!["fae_max"]));
    let expected = Thresholds { fae_max: 3.0, ..Thresholds::of(Profile::Reference) };
    assert_eq!(alone.policy.thresholds, expected);
    // The one threshold whose default depends on the profile follows it, unless it is named.
    let limit = |read: PolicyText, profile| read.under(profile).policy.thresholds.prs_reject_threshold;
    let of = |profile| Thresholds::of(profile).prs_reject_threshold;
    assert_eq!(limit(alone.clone(), Profile::Mesh), of(Profile::Mesh));
    assert_eq!(limit(read("[policy.thresholds]\nprs_reject_threshold = 0.1\n").unwrap(), Profile::Reference), 0.1);
    let whole = read(&with("[policy]\nprofile = \"reference\"\nthresholds = {fae_max = 3}\n")).unwrap();
    assert_eq!((whole.policy, whole.said), (alone.policy, None), "a whole configuration is meant as a whole");
    assert_eq!(read(MINIMAL).unwrap().policy, PolicyConfig::default());
    let class =
        "[[policy.workloads]]\nname = \"nightly\"\ncriticality = 0.2\nlatency_sla = \"1s\"\njitter_tolerance = 1.0\n";
    let classes = read(class).unwrap().policy.classes();
    assert_eq!(classes.last().unwrap().name.as_str(), "nightly");
    for (text, expected) in [
        ("", "rules.toml: found nothing, allowed a [policy] table, or an agent's whole configuration"),
        ("[polizy]\n", "rules.toml:1: polizy: unknown key `polizy`; did you mean `policy`?"),
        (
            "[policy.thresholds]\nw_latency = 2.0\n",
            "rules.toml:2: policy.thresholds.w_latency: found 2, allowed at least 0, at most 1",
        ),
        (
            "[policy.thresholds]\nstale_after_ms = 1000\n",
            "rules.toml:2: policy.thresholds.stale_after_ms: found 1000, allowed at least 3000: three times probe.interval",
        ),
        (
            "[policy.thresholds]\nmin_samples = 1.5\n",
            "rules.toml:2: policy.thresholds.min_samples: found 1.5, allowed a whole number, 0 to 4294967295",
        ),
        ("[policy]\nthresholds = 3\n", "rules.toml:2: policy.thresholds: found 3, allowed a table"),
        (
            "[policy.thresholds]\nw_latency = true\n",
            "rules.toml:2: policy.thresholds.w_latency: found true, allowed a number",
        ),
        ("[policy]\nworkloads = 3\n", "rules.toml:2: policy.workloads: found 3, allowed an array"),
        ("policy = [", "rules.toml:1: "),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(
        refusal(&with("[tls]\ndev = 1\n").replace("[tls]\ndev = true", "")).contains("found 1, allowed true or false")
    );
}

#[test]
fn a_misspelt_table_is_named_before_what_is_missing_without_it() {
    let error = PolicyConfig::from_toml("[polic]\n", "rules.toml").unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("rules.toml:1: polic: unknown key `polic`; did you mean `policy`?"), "{error}");
    assert_eq!(lines[1], "rules.toml: the key `node` is missing");
}
