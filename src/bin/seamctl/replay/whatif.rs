//! What-if on journals: other rules and other policies on the same history.

use std::ops::ControlFlow;
use std::sync::Arc;

use seam::config::WorkloadConfig;
use seam::model::{Profile, RequestId, Workload};
use seam::policy::explain::explain;
use seam::replay::journal::{History, Overview, StrayReport, What, utc};
use seam::replay::retrial::{
    Change, Choice, Chooser, ClassRow, Explained, Report, Retrial, Row, Rules, Settings, ThresholdChange,
};
use seam::rivals::Choosable;
use seam::timeline::parse_time;
use serde::Serialize;

use super::journal::text::notable;
use super::progress::Progress;
use super::{Replay, classes, config, import};
use crate::exit::{Failure, print, print_json};
use crate::table::{count, numbers, or_dash, paragraph};

/// Changes that are printed at most; `--json` has all that are kept.
const PRINTED_CHANGES: usize = 20;

pub(super) fn run(replay: &Replay, history: &History) -> Result<(), Failure> {
    let wanted = wanted(replay)?;
    let settings = Settings {
        rules: changed(replay, config::load(replay)?),
        policies: replay.policies.clone(),
        rivals_see: replay.rivals_see(),
        seed: replay.seed(),
        explain: wanted.as_ref().map(|(request, _)| request.clone()),
        import: replay.requests.import(replay.seed()),
    };
    let (report, explained, seen) = tried(history, settings)?;
    let asked = Asked::of(replay, &report);
    if let Some((request, at)) = wanted {
        return explained_request(replay, &request, at, explained, &asked, &seen);
    }
    if replay.json {
        return print_json(&With { asked: &asked, report: &report, seen: &seen });
    }
    print(&text(&report, &asked, &seen))
}

/// What was asked of the journals.
#[derive(Serialize)]
struct Asked {
    config: Option<String>,
    /// The rules that are tried; none if the recorded ones.
    profile: Option<Profile>,
    rivals_see: &'static str,
    seed: u64,
    thresholds_changed: Vec<ThresholdChange>,
}

impl Asked {
    fn of(replay: &Replay, report: &Report) -> Self {
        Self {
            config: replay.config.as_ref().map(|file| file.display().to_string()),
            profile: replay.profile,
            rivals_see: match replay.rivals_see() {
                Choosable::AdmissibleOnly => "admissible",
                Choosable::UpAndNotFull => "up",
            },
            seed: replay.seed(),
            thresholds_changed: report.thresholds_changed.clone(),
        }
    }

    /// The changed rules, and a line for each threshold that differs from what was recorded.
    fn rules(&self) -> String {
        let file = self.config.as_ref().map(|file| format!("--config {file}"));
        let profile = self.profile.map(|profile| format!("--profile {profile}"));
        let said: Vec<String> = file.into_iter().chain(profile).collect();
        if said.is_empty() {
            return String::new();
        }
        let mut text = format!("Changed rules: {}; ", said.join(", "));
        text.push_str(match self.thresholds_changed.len() {
            0 => "every threshold is as it was recorded.\n",
            _ => "thresholds that differ from the recorded ones:\n",
        });
        for ThresholdChange { name, recorded, changed } in &self.thresholds_changed {
            text.push_str(&format!("  {name} {changed} ({recorded} recorded)\n"));
        }
        text
    }

    /// Which paths the others chose from, if there are any.
    fn others(&self, rows: &[Row]) -> &'static str {
        match self.rivals_see {
            _ if rows.iter().all(|row| !matches!(row.chooser, Chooser::Rival(_))) => "",
            "up" => "The others chose from all paths that are up and not full (--rivals-see up).\n",
            _ => "The others chose from the paths that Seam admits (--rivals-see admissible).\n",
        }
    }
}

/// What the journals hold, and what of them is not there.
#[derive(Serialize)]
struct Seen {
    lives: Vec<Overview>,
    strays: Vec<StrayReport>,
}

/// A report, with what was asked and what the journals hold.
#[derive(Serialize)]
struct With<'a, T> {
    #[serde(flatten)]
    asked: &'a Asked,
    #[serde(flatten)]
    report: &'a T,
    #[serde(flatten)]
    seen: &'a Seen,
}

impl Seen {
    fn text(&self) -> String {
        notable(&self.lives, &self.strays)
    }
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
    let Some(config::Rules { profile, policy, said }) = rules else {
        return Rules { profile: replay.profile, ..Rules::default() };
    };
    let arcs = |classes: Vec<Workload>| Some(classes.into_iter().map(Arc::new).collect());
    match said {
        // A whole configuration holds as a whole.
        None => Rules {
            profile: Some(profile),
            workloads: arcs(policy.classes()),
            max_excluded_fraction: Some(policy.max_excluded_fraction),
            thresholds: Some(policy.thresholds),
            named: None,
        },
        // The table alone changes what it names, and leaves the rest as it was recorded.
        Some(said) => Rules {
            profile: Some(profile).filter(|_| said.profile || replay.profile.is_some()),
            workloads: arcs(policy.workloads.iter().map(WorkloadConfig::workload).collect()),
            max_excluded_fraction: Some(policy.max_excluded_fraction).filter(|_| said.max_excluded_fraction),
            thresholds: Some(policy.thresholds),
            named: Some(said.thresholds),
        },
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
    asked: &Asked,
    seen: &Seen,
) -> Result<(), Failure> {
    let distance = |found: &Explained| at.map_or(0, |at| found.at.abs_diff(at));
    let Some(found) = explained.into_iter().min_by_key(distance) else {
        return Err(Failure::failed(anyhow::anyhow!(
            "--explain: no request {request} was decided in these journals, or too little is known of it"
        )));
    };
    if replay.json {
        return print_json(&With { asked, report: &found, seen });
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
            text.push_str(&asked.rules());
            text.push('\n');
            text.push_str(&explain(changed));
            "Next: the same without --explain lists every request that changes\n"
        }
        (None, Some(problem)) => {
            text.push_str("Under the changed rules it would be refused, before any path is looked at:\n");
            text.push_str(&asked.rules());
            text.push_str(&format!("\n  {problem}\n"));
            "Next: the same without --explain lists every request that changes\n"
        }
        (None, None) => {
            text.push_str("The first choice under the same rules, before any host is asked:\n\n");
            text.push_str(&explain(&found.seam));
            "Next: --config FILE or --profile NAME shows what other rules would have chosen\n"
        }
    };
    if !found.others.is_empty() {
        text.push_str("\nWhat the others choose of the same candidates:\n");
    }
    for Choice { chooser, path } in &found.others {
        text.push_str(&format!("  {chooser}: {}\n", path.as_deref().unwrap_or("nothing")));
    }
    text.push('\n');
    text.push_str(&seen.text());
    text.push_str(next);
    print(&text)
}

fn text(report: &Report, asked: &Asked, seen: &Seen) -> String {
    let mut text = String::from("\n");
    text.push_str(&choosers(&report.choosers));
    text.push('\n');
    text.push_str(&paragraph(
        &format!(
            "{} tried. States are those of the recorded rules; worse is neither healthy nor restored; observed is \
             what the next probe of the chosen path took.",
            count(report.requests as usize, "request")
        ),
        0,
    ));
    text.push_str(&asked.rules());
    text.push_str(asked.others(&report.choosers));
    // Each chooser's row counts the same requests.
    if let Some(row) = report.choosers.iter().find(|row| row.chooser == Chooser::Seam) {
        text.push_str(&format!("{}.\n{}", classes::counts(row.strict, row.tolerant, row.neither), classes::note()));
    }
    text.push_str(&match &report.imported {
        Some(imported) => import::text(imported),
        None => paragraph(
            &format!(
                "\"as recorded\" has what hosts answered, with leases and quotes; the other lines are first choices, \
                 before any host is asked. {} of {} first choices are what was recorded.",
                report.as_first_chosen, report.requests
            ),
            0,
        ),
    });
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
        "strict:\nhealthy %",
        "strict:\nworse",
        "tolerant:\ndegraded %",
        "tolerant:\nhealthy",
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
        text.push_str(&paragraph(
            &format!(
                "The first at {}. After the first of a life its history itself would have been another one (load, \
                 probes, transfers): the {} that follow in their lives are estimates.",
                utc(first),
                count(report.estimates as usize, "request")
            ),
            0,
        ));
        text.push('\n');
    }
    for change in report.changes.iter().take(PRINTED_CHANGES) {
        text.push_str(&line(change));
    }
    if changed > PRINTED_CHANGES {
        text.push_str(&format!("… and {} more\n", changed - PRINTED_CHANGES));
    }
    text
}

/// One change, in lines that fit.
fn line(change: &Change) -> String {
    let name = |path: &Option<String>| path.clone().unwrap_or_else(|| "nothing".to_owned());
    let head = format!(
        "{} {} ({}): {} instead of {}{}",
        utc(change.at),
        change.request_id,
        change.workload,
        name(&change.to),
        name(&change.from),
        if change.estimate { ", estimated" } else { "" },
    );
    let whys = change.why.split("; ").map(|why| indented(&paragraph(why, INDENT)));
    paragraph(&head, 0) + &whys.collect::<String>()
}

/// Columns before a line that explains the one above.
const INDENT: usize = 2;

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("{:INDENT$}{line}\n", "")).collect()
}
