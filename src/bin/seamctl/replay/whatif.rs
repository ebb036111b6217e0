//! What-if on journals: other rules and other policies on the same history.

use std::ops::ControlFlow;
use std::sync::Arc;

use seam::model::{Profile, RequestId};
use seam::policy::explain::explain;
use seam::replay::journal::{History, Overview, StrayReport, What, utc};
use seam::replay::retrial::{Change, Chooser, ClassRow, Explained, Report, Retrial, Row, Rules, Settings};
use seam::timeline::parse_time;
use serde::Serialize;

use super::config::With;
use super::journal::text::notable;
use super::progress::Progress;
use super::{Replay, classes, config, import};
use crate::exit::{Failure, print, print_json};
use crate::table::{count, numbers, or_dash};

/// Changes that are printed at most; `--json` has all that are kept.
const PRINTED_CHANGES: usize = 20;

pub(super) fn run(replay: &Replay, history: &History) -> Result<(), Failure> {
    let wanted = wanted(replay)?;
    let rules = config::load(replay)?;
    let named = rules.as_ref().map(|rules| (rules.named(replay), rules.profile));
    let settings = Settings {
        rules: changed(replay, rules),
        policies: replay.policies.clone(),
        rivals_see: replay.rivals_see(),
        seed: replay.seed(),
        explain: wanted.as_ref().map(|(request, _)| request.clone()),
        import: replay.requests.import(replay.seed()),
    };
    let (report, explained, seen) = tried(history, settings)?;
    if let Some((request, at)) = wanted {
        return explained_request(replay, &request, at, explained, named.as_ref(), &seen);
    }
    if replay.json {
        return print_json(&seen.with(named.as_ref(), &report));
    }
    print(&text(&report, named.as_ref(), &seen))
}

/// A configuration and the profile that decides.
type Named = (config::Named, Profile);

/// What the journals hold, and what of them is not there.
#[derive(Serialize)]
struct Seen {
    lives: Vec<Overview>,
    strays: Vec<StrayReport>,
}

#[derive(Serialize)]
struct WithSeen<'a, T> {
    #[serde(flatten)]
    with: With<'a, T>,
    #[serde(flatten)]
    seen: &'a Seen,
}

impl Seen {
    fn with<'a, T>(&'a self, named: Option<&'a Named>, report: &'a T) -> WithSeen<'a, T> {
        WithSeen { with: With { config: named.map(|(config, _)| config), report }, seen: self }
    }

    fn text(&self) -> String {
        notable(&self.lives, &self.strays)
    }
}

fn rules_text(named: Option<&Named>) -> String {
    named.map(|(config, profile)| config.text(*profile)).unwrap_or_default()
}

/// The request to explain, and when it was decided.
fn wanted(replay: &Replay) -> Result<Option<(RequestId, Option<u64>)>, Failure> {
    let at = match (&replay.at, &replay.explain) {
        (Some(_), None) => {
            return Err(Failure::usage(anyhow::anyhow!(
                "--at goes with --explain REQUEST: it says which of its decisions"
            )));
        }
        (Some(text), Some(_)) => {
            Some(parse_time(text).map_err(|error| Failure::usage(anyhow::anyhow!("--at: {error}")))?)
        }
        (None, _) => None,
    };
    Ok(replay.explain.clone().map(|request| (request, at)))
}

fn changed(replay: &Replay, rules: Option<config::Rules>) -> Rules {
    let Some(rules) = rules else { return Rules { profile: replay.profile, ..Rules::default() } };
    Rules {
        profile: Some(rules.profile),
        workloads: Some(rules.policy.classes().into_iter().map(Arc::new).collect()),
        max_excluded_fraction: Some(rules.policy.max_excluded_fraction),
        thresholds: Some(rules.policy.thresholds),
    }
}

fn tried(history: &History, settings: Settings) -> Result<(Report, Vec<Explained>, Seen), Failure> {
    let mut retrial = Retrial::new(settings).map_err(Failure::usage)?;
    let mut progress = Progress::of_journals(history.bytes());
    let mut lives: Vec<Overview> = Vec::new();
    history.each_item(
        |bytes| progress.passed(bytes),
        |life, item| {
            let same = |seen: &&mut Overview| (&seen.node, seen.generation) == (&life.node, life.generation);
            match lives.last_mut().filter(same) {
                Some(seen) => seen.take(&item),
                None => {
                    retrial.next_life();
                    let mut seen = Overview::new(life.node.clone(), life.generation);
                    seen.take(&item);
                    lives.push(seen);
                }
            }
            match item.what {
                What::Segment(_) => {}
                What::Entry(entry) => retrial.entry(entry),
                What::Missing(_) | What::Broken(_) => retrial.interrupted(),
            }
            // The rest would be read in vain.
            if retrial.is_broken() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    progress.end();
    let (report, explained) = retrial.finish().map_err(Failure::usage)?;
    Ok((report, explained, Seen { lives, strays: history.stray_reports() }))
}

/// The decisions of one request, as they were and as they would be.
fn explained_request(
    replay: &Replay,
    request: &RequestId,
    at: Option<u64>,
    explained: Vec<Explained>,
    named: Option<&Named>,
    seen: &Seen,
) -> Result<(), Failure> {
    let distance = |found: &Explained| at.map_or(0, |at| found.at.abs_diff(at));
    let Some(found) = explained.into_iter().min_by_key(distance) else {
        return Err(Failure::failed(anyhow::anyhow!(
            "--explain: no request {request} was decided in these journals, or too little is known of it"
        )));
    };
    if replay.json {
        return print_json(&seen.with(named, &found));
    }
    let mut text = format!("Request {request}, {}", utc(found.at));
    text.push_str(match replay.requests.trace() {
        Some(_) => " of the trace.\n\n",
        None => ". As it was:\n\n",
    });
    for record in &found.recorded {
        text.push_str(&explain(record));
        text.push('\n');
    }
    if found.recorded.is_empty() && replay.requests.trace().is_none() {
        text.push_str("not recorded: the journal ends before its decision\n\n");
    }
    let next = match (&found.changed, &found.refused) {
        (Some(changed), _) => {
            text.push_str("As it would be under the changed rules, before any host is asked:\n");
            text.push_str(&rules_text(named));
            text.push('\n');
            text.push_str(&explain(changed));
            "Next: the same without --explain lists every request that changes\n"
        }
        (None, Some(problem)) => {
            text.push_str("Under the changed rules it would be refused, before any path is looked at:\n");
            text.push_str(&rules_text(named));
            text.push_str(&format!("\n  {problem}\n"));
            "Next: the same without --explain lists every request that changes\n"
        }
        (None, None) => {
            text.push_str("The first choice under the same rules, before any host is asked:\n\n");
            text.push_str(&explain(&found.seam));
            "Next: --config FILE or --profile NAME shows what other rules would have chosen\n"
        }
    };
    text.push('\n');
    text.push_str(&seen.text());
    text.push_str(next);
    print(&text)
}

fn text(report: &Report, named: Option<&Named>, seen: &Seen) -> String {
    let mut text = String::from("\n");
    text.push_str(&choosers(&report.choosers));
    text.push_str(&format!(
        "\n{} tried. States are those of the recorded rules; observed is what the next probe of the chosen\n\
         path took.\n",
        count(report.requests as usize, "request")
    ));
    text.push_str(&rules_text(named));
    // Each chooser's row counts the same requests.
    if let Some(row) = report.choosers.iter().find(|row| row.chooser == Chooser::Seam) {
        text.push_str(&format!("{}.\n{}", classes::counts(row.strict, row.tolerant, row.neither), classes::note()));
    }
    text.push_str(&match &report.imported {
        Some(imported) => import::text(imported),
        None => format!(
        "\"as recorded\" has what hosts answered, with leases and quotes; the other lines are first choices, before\n\
         any host is asked. {} of {} first choices are what was recorded.\n",
        report.as_first_chosen, report.requests
    )});
    if report.not_tried > 0 {
        let which = count(report.not_tried as usize, "request");
        text.push_str(&format!("Not tried: {which} of which too little is known, as after a gap.\n"));
    }
    if report.not_decided > 0 {
        let which = count(report.not_decided as usize, "request");
        text.push_str(&format!("Not counted: {which} of which no decision is recorded.\n"));
    }
    if report.choosers.iter().any(|row| row.chooser == Chooser::Changed) {
        text.push_str(&changes(report));
    }
    text.push_str(&seen.text());
    text.push_str("Next: --explain REQUEST shows one request as it was and as it would be; --json has everything\n");
    text
}

fn choosers(rows: &[Row]) -> String {
    numbers(head("chooser"), rows.iter().map(|row| cells(row.chooser.to_string(), row)))
}

fn head(first: &'static str) -> [&'static str; 10] {
    [
        first,
        "not\nchosen",
        "differs",
        "strict on\nhealthy %",
        "degraded",
        "tolerant on\ndegraded %",
        "healthy",
        "observed\np50 ms",
        "p99 ms",
        "lost",
    ]
}

fn cells(name: String, row: &Row) -> [String; 10] {
    let one = |number: Option<f64>| or_dash(number.map(|number| format!("{number:.1}")));
    let two = |number: Option<f64>| or_dash(number.map(|number| format!("{number:.2}")));
    [
        name,
        row.refused.to_string(),
        row.differs.to_string(),
        one(row.strict_on_healthy_pct),
        row.strict_on_degraded.to_string(),
        one(row.tolerant_on_degraded_pct),
        row.tolerant_on_healthy.to_string(),
        two(row.observed_p50_ms),
        two(row.observed_p99_ms),
        row.observed_lost.to_string(),
    ]
}

/// What the changed rules change, by class and request by request.
fn changes(report: &Report) -> String {
    let mut text = String::from("\nBy class, under the recorded rules and the changed ones:\n\n");
    let shown = |class: &&ClassRow| matches!(class.row.chooser, Chooser::Seam | Chooser::Changed);
    let rows = report.classes.iter().filter(shown);
    text.push_str(&numbers(
        head("class, chooser"),
        rows.map(|class| cells(format!("{}, {}", class.workload, class.row.chooser), &class.row)),
    ));
    let changed = report.changes.len() + report.changes_left_out as usize;
    text.push_str(&format!(
        "\n{} under the changed rules.\n",
        match changed {
            0 => "No first choice differs".to_owned(),
            1 => "1 first choice differs".to_owned(),
            many => format!("{many} first choices differ"),
        }
    ));
    if let Some(first) = report.first_change {
        text.push_str(&format!(
            "The first at {}. After the first of a life its history itself would have been another one (load,\n\
             probes, transfers): the {} that follow in their lives are estimates.\n\n",
            utc(first),
            count(report.estimates as usize, "request")
        ));
    }
    for change in report.changes.iter().take(PRINTED_CHANGES) {
        text.push_str(&line(change));
    }
    if changed > PRINTED_CHANGES {
        text.push_str(&format!("… and {} more\n", changed - PRINTED_CHANGES));
    }
    text
}

fn line(change: &Change) -> String {
    let name = |path: &Option<String>| path.clone().unwrap_or_else(|| "nothing".to_owned());
    format!(
        "{} {} ({}): {} instead of {}{}\n  {}\n",
        utc(change.at),
        change.request_id,
        change.workload,
        name(&change.to),
        name(&change.from),
        if change.estimate { ", estimated" } else { "" },
        change.why
    )
}
