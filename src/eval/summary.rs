//! The page that says in a minute what the evidence shows.

use std::fmt::Write as _;

use super::experiments::{Report, Standing, sheets};
use super::history::Histories;
use crate::model::Profile;
use crate::replay::STRICT_CLASSES;
use crate::rivals::Policy;

/// The page, as Markdown. Every number on it is in the files beside it.
pub(super) fn markdown(reports: &[(Profile, Report)], histories: &Histories) -> String {
    let mut page = String::from(HEAD);
    page += &headline(reports);
    page += &reading(reports);
    page += &replayed(histories);
    page += "\n## The experiments one by one\n";
    for sheet in sheets(reports) {
        // Text goes to a buffer in memory, which takes everything.
        let _ = write!(
            page,
            "\n### {}\n\n{}\n\n{}\n![{}](experiments/{}.svg)\n",
            sheet.title,
            sheet.about,
            sheet.to_markdown(),
            sheet.title,
            sheet.name
        );
    }
    page + FOOT
}

const HEAD: &str = "\
# What Seam does that simpler policies do not, and what it costs

Made by `seamctl evaluate`, the same bytes on every run; every number is in the files beside this page. The episodes
are those of the published prototype: drawn numbers, no network. They show that Seam decides as published
(`reference`) and where its own profile (`mesh`) decides otherwise. They are no benchmark.

## In one minute

90 requests, each with one degraded path and one or two healthy ones. *Strict*: requests from criticality 0.7 on that a
HEALTHY path got. *Tolerant*: requests up to 0.35 that were put on a degraded but usable path. *Headroom*: of the
tolerant requests beside a crowded healthy pool, those that left it alone. *Mean p99*: of the paths that they were given.
Policies that draw (p2c, prequal) are shown over 20 seeds.

";

const FOOT: &str = "
## Where to look next

- `scenarios/scenario-e.jsonl`, `scenarios/scenario-f.jsonl`: whole decision records, every refused candidate with the
  numbers compared.
- `docs/experiments.md`, `docs/scenarios.md`, `docs/decision-model.md`: what was measured, how, and what it does not show.
- `seamctl replay FILE`: the same comparison on your own request trace.
";

fn headline(reports: &[(Profile, Report)]) -> String {
    let mut table =
        "| policy | strict % | tolerant % | headroom % | strict mean p99 ms | tolerant mean p99 ms |\n".to_owned();
    table += "| --- | --- | --- | --- | --- | --- |\n";
    let mut row = |name: String, found: &Standing| {
        let _ = writeln!(
            table,
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            found.strict_workload_success_rate_pct,
            found.tolerant_degraded_utilization_rate_pct,
            found.healthy_headroom_preservation_rate_pct,
            found.strict_mean_p99_ms,
            found.tolerant_mean_p99_ms
        );
    };
    for (profile, report) in reports.iter().rev() {
        if let Some(found) = report.baseline_comparison.of(Policy::Seam) {
            row(format!("**seam**, {profile} profile"), found);
        }
    }
    // The others know no profile: theirs is the published view.
    if let Some((_, report)) = reports.first() {
        for (policy, found) in report.baseline_comparison.standings.iter().filter(|(policy, _)| *policy != Policy::Seam)
        {
            row(policy.to_string(), found);
        }
    }
    table
}

fn reading(reports: &[(Profile, Report)]) -> String {
    let of = |profile: Profile, policy: Policy| {
        let report = reports.iter().find(|(one, _)| *one == profile).map(|(_, report)| report);
        report.and_then(|report| report.baseline_comparison.of(policy))
    };
    let (Some(mesh), Some(reference), Some(fastest), Some(roomiest)) = (
        of(Profile::Mesh, Policy::Seam),
        of(Profile::Reference, Policy::Seam),
        of(Profile::Reference, Policy::LowestLatency),
        of(Profile::Reference, Policy::CapacityOnly),
    ) else {
        return String::new();
    };
    let oscillations = |profile: Profile| {
        let report = reports.iter().find(|(one, _)| *one == profile);
        report.map_or(0, |(_, report)| report.hysteresis_stability.oscillations_avoided)
    };
    format!(
        "
- **Going for the fastest path spends it on everyone.** `lowest_latency` gives {:.1} % of the strict requests a healthy
  path, and the tolerant ones too: {:.1} % of them use the degraded path that would have done, and {:.1} % leave a
  crowded healthy pool alone.
- **Going for room puts strict work on gray paths.** `capacity_only` spares the healthy pools, and {:.1} % of the
  strict requests get a healthy path.
- **Seam does both.** In the mesh profile {:.1} % of the {} strict requests are on healthy paths and {:.1} % of the {}
  tolerant ones on degraded but usable paths; of the {} that could leave a crowded healthy pool alone, {:.1} % did. The published
  profile puts {:.1} % of the strict requests on healthy paths.
- **It holds still.** Beside the same rules without hysteresis it spares a noisy path {} oscillations ({} in the
  published profile). The price: that path counts as degraded for nearly all of the time.
- **It costs the tolerant requests latency.** The paths that Seam gives them have a mean p99 of {:.1} ms,
  `lowest_latency`'s {:.1} ms. They bear 200 ms; whoever does not should not be in a tolerant class.
- **Not every rival gets to show its strength.** `rail_monitor` goes by errors, of which these paths have too few, and
  takes turns like `round_robin`; those that learn had no more to learn from than Seam.
- **Small numbers.** {} tolerant requests and {} for headroom are few: one request more or less moves them by {:.1} and
  {:.1} points.
",
        fastest.strict_workload_success_rate_pct,
        fastest.tolerant_degraded_utilization_rate_pct,
        fastest.healthy_headroom_preservation_rate_pct,
        roomiest.strict_workload_success_rate_pct,
        mesh.strict_workload_success_rate_pct,
        mesh.strict_trials,
        mesh.tolerant_degraded_utilization_rate_pct,
        mesh.tolerant_trials,
        mesh.headroom_trials,
        mesh.healthy_headroom_preservation_rate_pct,
        reference.strict_workload_success_rate_pct,
        oscillations(Profile::Mesh),
        oscillations(Profile::Reference),
        mesh.tolerant_mean_p99_ms,
        fastest.tolerant_mean_p99_ms,
        mesh.tolerant_trials,
        mesh.headroom_trials,
        100.0 / f64::from(mesh.tolerant_trials.max(1)),
        100.0 / f64::from(mesh.headroom_trials.max(1)),
    )
}

fn replayed(histories: &Histories) -> String {
    let Some(first) = histories.summaries.first() else { return String::new() };
    let mut text = format!(
        "
## The published trace, replayed

Ten requests, in the published view: the other policies choose among what Seam's rules admit, so that Seam's judgement
is lent to them. Shares of the {} strict requests on healthy and of the {} tolerant ones on degraded pools, in percent;
strict is a matter of the class here: {}. What draws, draws from seed {}.

| policy | strict %, reference | tolerant %, reference | strict %, mesh | tolerant %, mesh |
| --- | --- | --- | --- | --- |
",
        first.strict_requests,
        first.tolerant_requests,
        STRICT_CLASSES.join(", "),
        first.seed
    );
    let pct = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.1}"));
    for policy in Policy::ALL {
        let found = |profile| histories.of(profile, *policy);
        if let (Some(published), Some(mesh)) = (found(Profile::Reference), found(Profile::Mesh)) {
            let _ = writeln!(
                text,
                "| {policy} | {} | {} | {} | {} |",
                pct(published.0),
                pct(published.1),
                pct(mesh.0),
                pct(mesh.1)
            );
        }
    }
    text + "\n![Replay of the published trace](replay/comparison.svg)\n"
}
