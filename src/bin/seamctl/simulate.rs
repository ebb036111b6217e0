//! `seamctl simulate`: the published scenarios, without any agent.

use std::fmt::Write as _;
use std::str::FromStr;

use clap::Args;
use seam::eval::scenario::{
    Binding, CandidateSummary, DEFAULT_SEED, RouteSummary, ScenarioName, ScenarioResult, Summary, published, run,
};
use seam::model::{Outcome, Profile};
use seam::policy::select::Skipped;

use crate::exit::{Failure, print, print_json};
use crate::number::whole;
use crate::paint;
use crate::table::{count, or_dash, table};

/// Scenarios.
#[derive(Args)]
pub(crate) struct Simulate {
    /// Which scenario: A, B, C, D, E, F, or all of them.
    #[arg(long, value_name = "NAME", default_value = "all")]
    scenario: Which,
    /// Of the random draws.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// The rules that decide.
    #[arg(long, default_value_t = Profile::default())]
    profile: Profile,
    /// Print one JSON object a line for each scenario, decision records included.
    #[arg(long)]
    json: bool,
}

/// One scenario or all.
#[derive(Clone, Copy)]
enum Which {
    All,
    One(ScenarioName),
}

impl FromStr for Which {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        text.parse().map(Self::One).map_err(|error| format!("{error}, all"))
    }
}

impl Which {
    fn includes(self, name: ScenarioName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == name,
        }
    }
}

impl Simulate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let scenarios = published().into_iter().filter(|scenario| self.scenario.includes(scenario.name));
        let results: Vec<ScenarioResult> = scenarios.map(|scenario| run(&scenario, self.profile, self.seed)).collect();
        if self.json {
            return results.iter().try_for_each(print_json);
        }
        let mut text = String::new();
        for result in &results {
            text.push_str(&shown(&result.summary));
        }
        text.push_str(&self.next());
        print(&if paint::colour() { paint::states(&text) } else { text })
    }

    fn next(&self) -> String {
        let other = match self.profile {
            Profile::Reference => Profile::Mesh,
            Profile::Mesh => Profile::Reference,
        };
        let which = match self.scenario {
            Which::All => "all".to_owned(),
            Which::One(name) => name.to_string(),
        };
        format!(
            "Next: seamctl simulate --scenario {which} --profile {other}, or --json for every number of a decision\n"
        )
    }
}

/// One scenario: its pools, its decisions, and how they compare with what was published.
fn shown(summary: &Summary) -> String {
    let Summary { scenario, title, profile, seed, .. } = summary;
    let mut text = format!("Scenario {scenario}, {title} (profile {profile}, seed {seed})\n\n");
    text.push_str(&pools(summary));
    text.push('\n');
    text.push_str(&decisions(summary));
    text.push_str("\nPublished:\n");
    for route in &summary.routes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", published_word(route));
    }
    let missed = summary.routes.iter().filter(|route| !route.held).count();
    let _ = match missed {
        0 => writeln!(text, "{} as published.\n", count(summary.routes.len(), "placement")),
        missed => writeln!(text, "{missed} of {} not as published.\n", count(summary.routes.len(), "placement")),
    };
    text
}

fn pools(summary: &Summary) -> String {
    let rows = summary.pools.iter().map(|pool| {
        [
            pool.pool.to_string(),
            format!("{}, {} ms", pool.pattern, pool.base_ms),
            pool.samples.to_string(),
            pool.state.to_string(),
            format!("{:.4}", pool.gfs),
            format!("{:.2}", pool.p99_latency_ms),
            format!("{:.2}", pool.jitter_ms),
            format!("{:.2}", pool.mean_drop_rate),
            format!("{}/{}", pool.active_sessions, pool.max_capacity),
        ]
    });
    table(["pool", "path", "samples", "state", "gfs", "p99 ms", "jitter ms", "drops", "sessions"], rows)
}

/// A line for each pool that a request could have gone to, the one that it did go to first.
fn decisions(summary: &Summary) -> String {
    let mut rows = Vec::new();
    for route in &summary.routes {
        let chosen = |candidate: &&CandidateSummary| route.chosen.as_ref() == Some(&candidate.pool);
        let first = route.candidates.iter().filter(chosen);
        let others = route.candidates.iter().filter(|candidate| !chosen(candidate));
        let mut head = [route.workload.to_string(), route.outcome.to_string()];
        for candidate in first.chain(others) {
            let [workload, outcome] = std::mem::take(&mut head);
            let (observed, limit) = match (candidate.admissible, candidate.observed, candidate.limit) {
                (false, Some(observed), Some(limit)) => (Some(number(observed)), Some(number(limit))),
                _ => (None, None),
            };
            let verdict = verdict(route, candidate);
            rows.push([workload, outcome, candidate.pool.to_string(), verdict, or_dash(observed), or_dash(limit)]);
        }
    }
    table(["workload", "outcome", "pool", "verdict", "observed", "limit"], rows)
}

/// At least 2 decimals.
fn number(value: f64) -> String {
    let (short, long) = (format!("{value:.2}"), format!("{value:.4}"));
    if long.trim_end_matches('0') == short.trim_end_matches('0') { short } else { long }
}

fn verdict(route: &RouteSummary, candidate: &CandidateSummary) -> String {
    if route.chosen.as_ref() == Some(&candidate.pool) {
        return match route.outcome {
            Outcome::Admitted => "chosen: no admissible one is healthier",
            Outcome::AdmittedDespiteDegradation => "chosen: degraded, and none is better",
            Outcome::ReroutedToAlternate => rerouted(route),
            Outcome::AdmittedLeastBad | Outcome::NoAdmissiblePool => "chosen: the least bad",
        }
        .to_owned();
    }
    match candidate.skipped_reason {
        Some(skipped) => format!("admissible, {skipped}"),
        None => candidate.code.to_string(),
    }
}

/// Why the healthiest was not taken.
fn rerouted(route: &RouteSummary) -> &'static str {
    match route.candidates.iter().find_map(|candidate| candidate.skipped_reason) {
        Some(Skipped::HealthySpared) => "chosen: spares the sound one",
        Some(Skipped::SoftSaturated) => "chosen: the other is crowded",
        _ => "chosen: ranks first",
    }
}

fn published_word(route: &RouteSummary) -> String {
    let word = match route.expected.binding {
        Binding::Must => "takes",
        Binding::May => "may take",
    };
    let held = if route.held { "held" } else { "missed" };
    format!("{} {word} a {} path: {held}", route.workload, route.expected.pattern)
}
