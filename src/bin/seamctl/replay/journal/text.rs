//! Reports on journals as people read them.

use std::collections::BTreeMap;

use seam::journal::Part;
use seam::model::Outcome;
use seam::replay::journal::{CoreReport, LifeReport, Note, Noted, Overview, Report, StrayReport, utc};

use crate::table::{count, grid, numbers};

/// The report of a verification.
pub(super) fn of_report(report: &Report) -> String {
    let mut text = String::new();
    for life in &report.lives {
        text.push_str(&heading(&life.overview));
        let rows = life.cores.iter().map(|core| {
            [
                core.part.to_string(),
                core.turns.to_string(),
                core.verified.to_string(),
                core.unverifiable().to_string(),
                core.differences.to_string(),
            ]
        });
        text.push_str(&numbers(["core", "turns", "verified", "not verifiable", "differ"], rows));
        text.push('\n');
    }
    let mut notable = String::new();
    for life in &report.lives {
        notable.push_str(&notes(&life.overview, |note| {
            if note.noted == Noted::TornEnd { "; verified up to the cut" } else { "" }
        }));
        life.cores.iter().for_each(|core| notable.push_str(&left_out(life, core)));
    }
    notable.push_str(&strays(&report.strays));
    let first = report.lives.iter().flat_map(|life| life.cores.iter().map(move |core| (life, core)));
    for (life, core) in first {
        if let Some(difference) = &core.first_difference {
            let more = match core.differences.saturating_sub(1) {
                0 => String::new(),
                more => format!("\n  and {} of this core later", count(more as usize, "difference")),
            };
            notable.push_str(&format!("\nDiffers: {}, {difference}{more}\n", name(&life.overview)));
        }
    }
    if !notable.is_empty() {
        text.push_str(&notable);
        text.push('\n');
    }
    let verified = count(report.verified() as usize, "turn");
    text.push_str(&match (report.differences(), report.unverifiable(), report.is_damaged()) {
        (0, 0, false) => format!("Identical: {verified} played again, every output as recorded.\n"),
        (0, lost, false) => format!("Identical as far as it goes: {verified} played again, {lost} not verifiable.\n"),
        (0, lost, true) => {
            format!("Damaged: {verified} played again as recorded, {lost} not verifiable, and more that is not there.\n")
        }
        (differ, lost, false) => {
            format!("Different: {verified} as recorded, {differ} otherwise, {lost} not verifiable.\n")
        }
        (differ, lost, true) => format!(
            "Different and damaged: {verified} as recorded, {differ} otherwise, {lost} not verifiable, and more that is\n\
             not there.\n"
        ),
    });
    text.push_str(&format!("Hash of all outputs: {}\n", report.hash));
    text.push_str(match (report.differences(), report.is_damaged()) {
        (0, false) => "Next: seamctl journal cat FILE --said shows what was decided, one JSON object a line\n",
        (0, true) => "Next: seamctl journal verify names every file that is damaged or missing\n",
        _ => "Next: compare the build that wrote the journal with this one; seamctl journal cat shows the entries\n",
    });
    text
}

/// What is there, without playing it.
pub(super) fn of_overviews(lives: &[Overview], unplaced: &[StrayReport]) -> String {
    let mut text = String::new();
    for life in lives {
        text.push_str(&heading(life));
        let rows = Part::ALL.iter().map(|part| [part.to_string(), life.turns(*part).to_string()]);
        text.push_str(&numbers(["core", "turns"], rows));
        if life.tally.decisions > 0 {
            text.push('\n');
            text.push_str(&decisions(&life.tally.outcomes));
        }
        text.push('\n');
    }
    let notable = notable(lives, unplaced);
    if !notable.is_empty() {
        text.push_str(&notable);
        text.push('\n');
    }
    text.push_str("Next: --verify plays it again and compares every output\n");
    text
}

/// A line for everything that is worth one.
pub(in crate::replay) fn notable(lives: &[Overview], unplaced: &[StrayReport]) -> String {
    lives.iter().map(|life| notes(life, |_| "")).collect::<String>() + &strays(unplaced)
}

/// A line for each outcome: side by side they would not fit.
fn decisions(classes: &BTreeMap<String, BTreeMap<Outcome, u64>>) -> String {
    let met = |outcome: &&Outcome| classes.values().any(|outcomes| outcomes.contains_key(outcome));
    let mut heads = vec!["outcome"];
    heads.extend(classes.keys().map(String::as_str));
    let rows = Outcome::ALL.iter().filter(met).map(|outcome| {
        let cells = classes.values().map(|counts| counts.get(outcome).copied().unwrap_or_default().to_string());
        std::iter::once(outcome.to_string()).chain(cells).collect()
    });
    grid(&heads, rows)
}

fn name(life: &Overview) -> String {
    format!("{}, life {}", life.node, life.generation)
}

fn heading(life: &Overview) -> String {
    let tally = &life.tally;
    let segments = match (tally.first_segment, tally.last_segment) {
        (Some(first), Some(last)) if first < last => format!("segments {first} to {last}"),
        (Some(first), _) => format!("segment {first}"),
        (None, _) => "no segment that can be read".to_owned(),
    };
    let time = match (tally.from_ms, tally.to_ms) {
        (Some(from), Some(to)) => format!(", {} to {}", utc(from), utc(to)),
        _ => String::new(),
    };
    let gaps = match tally.gaps {
        0 => "no gaps".to_owned(),
        gaps => format!("{} ({} lost)", count(gaps as usize, "gap"), count(tally.lost_turns as usize, "turn")),
    };
    let end = if tally.closed { "ended in order" } else { "no end recorded" };
    let decisions = count(tally.decisions as usize, "decision");
    let build = tally.builds.join(", ");
    format!("{}: {segments}{time}\n{decisions}, {gaps}, {end}; written by Seam {build}\n", name(life))
}

fn notes(life: &Overview, beside: impl Fn(&Note) -> &'static str) -> String {
    let line = |note: &Note| {
        format!("Note, {}: {}, byte {}: {}{}\n", name(life), note.file.display(), note.at, note.text, beside(note))
    };
    let mut text: String = life.notes.iter().map(line).collect();
    if life.notes_left_out > 0 {
        text.push_str(&format!("Note, {}: {} more notes\n", name(life), life.notes_left_out));
    }
    text
}

/// Why turns of a core are not verifiable.
fn left_out(life: &LifeReport, core: &CoreReport) -> String {
    if core.not_verifiable.is_empty() {
        return String::new();
    }
    let reasons: Vec<String> = core.not_verifiable.iter().map(|(why, turns)| format!("{why} {turns}")).collect();
    let turns = count(core.unverifiable() as usize, "turn");
    format!(
        "Note, {}: {turns} of the {} core not verifiable: {}\n",
        name(&life.overview),
        core.part,
        reasons.join(", ")
    )
}

fn strays(strays: &[StrayReport]) -> String {
    strays.iter().map(|stray| format!("Note: {}: {}\n", stray.file.display(), stray.error)).collect()
}
