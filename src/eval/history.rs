//! The published ten-request trace, replayed under both profiles and in both views.

use super::artifacts::{Artifact, EvalError, PROFILES};
use super::chart::{Axis, BarChart, BarSeries, ChartError};
use super::sheet::{Column, Sheet, pct};
use crate::model::Profile;
use crate::replay::{ChoicesCsv, Settings, Summary, replay};
use crate::rivals::{Choosable, Policy};

const TRACE: &[u8] = include_bytes!("data/replay_trace.csv");
const NAME: &str = "replay_trace.csv";

/// What the trace came to, once for each profile and view.
#[derive(Clone, Debug)]
pub struct Histories {
    /// The published view and profile first.
    pub summaries: Vec<Summary>,
    /// Where each policy placed each request in the published view, as CSV, by profile.
    choices: Vec<(Profile, String)>,
}

impl Histories {
    /// Replays the published trace.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn published() -> Result<Self, EvalError> {
        let mut histories = Self { summaries: Vec::new(), choices: Vec::new() };
        for view in [Choosable::AdmissibleOnly, Choosable::UpAndNotFull] {
            for profile in PROFILES {
                let settings = Settings { rivals_see: view, ..Settings::of(profile) };
                let mut choices = ChoicesCsv::new(Vec::new());
                histories.summaries.push(replay(NAME, TRACE, settings, &mut choices)?);
                if view == Choosable::AdmissibleOnly {
                    let text = String::from_utf8(choices.finish()?).map_err(std::io::Error::other)?;
                    histories.choices.push((profile, text));
                }
            }
        }
        Ok(histories)
    }

    /// One row for each profile, view and policy.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let rows = self.summaries.iter().flat_map(|summary| {
            summary.policy_metrics.iter().map(move |(policy, found)| {
                vec![
                    summary.profile.to_string(),
                    view(summary.rivals_see).to_owned(),
                    policy.to_string(),
                    pct(found.strict_healthy_pct),
                    pct(found.tolerant_degraded_pct),
                    found.strict_protected_count.to_string(),
                    found.headroom_preserved_count.to_string(),
                    found.no_pool_count.to_string(),
                    found.requests.to_string(),
                ]
            })
        });
        Sheet {
            name: "comparison",
            title: "Replay of the published trace",
            about: "Ten requests; the state of a candidate comes from the metrics of its row alone. In the published \
                    view the other policies choose among what Seam's rules admit, which lends them its judgement; in \
                    the other among all pools that are neither quarantined nor full.",
            columns: vec![
                Column::new("profile", "profile"),
                Column::new("others_choose_among", "others choose among"),
                Column::new("policy", "policy"),
                Column::new("strict_healthy_pct", "strict %"),
                Column::new("tolerant_degraded_pct", "tolerant %"),
                Column::csv("strict_protected_count"),
                Column::csv("headroom_preserved_count"),
                Column::new("no_pool_count", "unplaced"),
                Column::new("requests", "requests"),
            ],
            rows: rows.collect(),
        }
    }

    /// What `policy` came to under `profile` in the published view: shares of strict and tolerant
    /// requests in percent.
    pub(super) fn of(&self, profile: Profile, policy: Policy) -> Option<(Option<f64>, Option<f64>)> {
        let mut published = self.summaries.iter().filter(|summary| summary.rivals_see == Choosable::AdmissibleOnly);
        let summary = published.find(|summary| summary.profile == profile)?;
        let (_, found) = summary.policy_metrics.iter().find(|(name, _)| *name == policy)?;
        Some((found.strict_healthy_pct, found.tolerant_degraded_pct))
    }

    fn chart(&self) -> Result<String, ChartError> {
        let Some(published) = self.summaries.first() else { return Ok(String::new()) };
        let shown = &published.policy_metrics;
        BarChart::new("Replay of the published trace", Axis::new("requests (%)").range(0.0, 100.0))
            .groups(shown.iter().map(|(policy, _)| policy.as_str()))
            .series(BarSeries::new("strict on healthy", 0, shown.iter().map(|(_, found)| found.strict_healthy_pct)))
            .series(BarSeries::new(
                "tolerant on degraded",
                1,
                shown.iter().map(|(_, found)| found.tolerant_degraded_pct),
            ))
            .subtitle(format!(
                "{} profile; the others choose among {}; n = {} strict, {} tolerant",
                published.profile,
                view(published.rivals_see),
                published.strict_requests,
                published.tolerant_requests
            ))
            .footnote("Ten requests of the published prototype's trace; continuity with it, no benchmark of a network.")
            .to_svg()
    }
}

/// What the others choose among, in words.
fn view(view: Choosable) -> &'static str {
    match view {
        Choosable::AdmissibleOnly => "admissible pools",
        Choosable::UpAndNotFull => "pools up and not full",
    }
}

/// The files of the replay.
pub(super) fn artifacts(histories: &Histories) -> Result<Vec<Artifact>, EvalError> {
    let mut artifacts = vec![
        Artifact::json("replay/comparison.json", &histories.summaries)?,
        Artifact::new("replay/comparison.csv", histories.sheet().to_csv()?),
        Artifact::new("replay/comparison.svg", histories.chart()?),
    ];
    for (profile, text) in &histories.choices {
        artifacts.push(Artifact::new(format!("replay/choices_{profile}.csv"), text.clone()));
    }
    Ok(artifacts)
}
