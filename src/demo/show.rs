//! The report as text, at most 100 columns wide.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::plan::Class;
use super::report::{ClassReport, GrayReport, Report, ScaleReport, Share, StateAt};

/// States of one path shown; the rest is counted.
const MAX_STATES: usize = 12;
/// Other paths shown; the rest is counted.
const MAX_PATHS: usize = 6;
const WIDTH: usize = 100;

/// Whether to use colour, and how.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn verdict(self, good: bool, text: &str) -> String {
        self.with(if good { "32" } else { "1;31" }, text)
    }
}

impl Report {
    /// The report in words and tables. `colour` only for a terminal; `kept` says whether the mesh
    /// still runs, so that the commands that follow can be tried on it; `journals` is the folder that
    /// the journals were kept in, as a shell takes it.
    #[must_use]
    pub fn to_text(&self, colour: bool, kept: bool, journals: Option<&str>) -> String {
        let paint = Paint(colour);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, paint, kept, journals);
        text
    }

    fn write(&self, out: &mut String, paint: Paint, kept: bool, journals: Option<&str>) -> std::fmt::Result {
        write_head(out, &self.scale, self.requests, self.stream_ms)?;
        writeln!(out)?;
        for line in self.table().to_string().lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        if !self.refusals.is_empty() {
            let words = self.refusals.iter().map(|(code, count)| format!("{code} {count},")).collect::<Vec<_>>();
            wrap(out, "Nothing was admissible because (candidates): ", &without_last_comma(words))?;
        }
        writeln!(out)?;
        match (&self.gray_path, &self.gray) {
            (Some(path), Some(gray)) => write_gray(out, paint, path, gray)?,
            _ => writeln!(out, "No path turned gray.")?,
        }
        self.write_others(out)?;
        let transfers = &self.transfers;
        let verified = transfers.verified == transfers.ok;
        let line = format!(
            "{} transfers delivered ({}), {} read back with the hash that was written, {} failed",
            transfers.ok,
            bytes(transfers.bytes),
            transfers.verified,
            transfers.failed
        );
        writeln!(out, "\n{}", paint.verdict(verified, &line))?;
        let line = format!("{} over-commits", self.over_commits);
        writeln!(out, "{}", paint.verdict(self.over_commits == 0, &line))?;
        for error in &self.errors {
            let cut: String = error.chars().take(WIDTH - 12).collect();
            writeln!(out, "  an error: {cut}")?;
        }
        self.write_next(out, paint, kept, journals)
    }

    /// One column a class, one row an outcome or a measure.
    fn table(&self) -> Table {
        let classes: Vec<_> =
            Class::ALL.into_iter().filter_map(|class| Some((class, self.classes.get(class.as_str())?))).collect();
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let names = classes.iter().map(|(class, _)| class.as_str().to_owned());
        table.set_header(row("", names, Some("all".to_owned())));
        let mut count = |name: &str, of: &dyn Fn(&ClassReport) -> u64, all: u64| {
            let cells = classes.iter().map(|(_, report)| of(report).to_string());
            table.add_row(row(name, cells, Some(all.to_string())));
        };
        count("requests", &|report| report.requests, self.requests);
        for (outcome, all) in &self.decisions {
            count(&format!("  {outcome}"), &|report| report.decisions.get(outcome).copied().unwrap_or(0), *all);
        }
        count("transfers delivered", &|report| report.ok, self.transfers.ok);
        count("transfers verified", &|report| report.verified, self.transfers.verified);
        let mut show = |name: &str, of: &dyn Fn(Class, &ClassReport) -> String| {
            table.add_row(row(name, classes.iter().map(|(class, report)| of(*class, report)), None));
        };
        show("strict on healthy", &|class, report| share(class.is_strict(), report.placement));
        show("tolerant on degraded", &|class, report| share(!class.is_strict(), report.placement));
        show("route to delivery, p50 ms", &|_, report| number(report.p50_ms));
        show("route to delivery, p99 ms", &|_, report| number(report.p99_ms));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn write_others(&self, out: &mut String) -> std::fmt::Result {
        if self.other_paths.is_empty() {
            return writeln!(out, "No other path left healthy.");
        }
        writeln!(out, "Other paths that left healthy:")?;
        for other in self.other_paths.iter().take(MAX_PATHS) {
            wrap(out, &format!("  {}: ", other.path), &timeline(&other.timeline))?;
        }
        match self.other_paths.len().saturating_sub(MAX_PATHS) {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more"),
        }
    }

    fn write_next(&self, out: &mut String, paint: Paint, kept: bool, journals: Option<&str>) -> std::fmt::Result {
        let Some(first) = self.agents.first() else { return Ok(()) };
        if let Some(journals) = journals {
            writeln!(out, "\nThe journal of every host is in {journals}")?;
        }
        if let (false, Some(journals)) = (kept, journals) {
            return writeln!(
                out,
                "Next: seamctl replay {journals}\n      seamctl timeline {journals} --out incident.svg"
            );
        }
        if !kept {
            return writeln!(
                out,
                "\nNext: seamctl demo --keep leaves the agents running, to be asked with seamctl and curl"
            );
        }
        writeln!(out, "\n{}", paint.bold("The mesh is up until Ctrl-C"))?;
        for agent in &self.agents {
            writeln!(out, "  {:<4} {}", agent.name, agent.api)?;
        }
        writeln!(out, "{}", paint.bold("Try"))?;
        writeln!(out, "  seamctl paths --agent {}", first.api)?;
        writeln!(out, "  seamctl members --agent {}", first.api)?;
        writeln!(out, "  seamctl route release --bytes 1MiB --dry-run --agent {}", first.api)?;
        if let Some(interesting) = &self.interesting {
            writeln!(out, "  seamctl explain {} --agent {}", interesting.decision, interesting.api)?;
            writeln!(out, "      ({})", interesting.why)?;
        }
        writeln!(out, "  curl -s {}/metrics", first.api)?;
        match journals {
            Some(journals) => writeln!(out, "  seamctl replay {journals}"),
            None => Ok(()),
        }
    }
}

fn write_head(out: &mut String, scale: &ScaleReport, requests: u64, stream_ms: f64) -> std::fmt::Result {
    let text = format!(
        "{requests} requests of {}, {} times as fast, in {}; KV caches of {}, shrunk {:.0} times (the largest from \
         {}); {} sessions fit each decode host, {:.1} expected on average.",
        scale.source,
        scale.speedup,
        seconds(stream_ms),
        scale.model,
        scale.shrink,
        bytes(scale.largest_true_bytes),
        scale.max_sessions,
        scale.mean_sessions
    );
    wrap(out, "", &text.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

fn write_gray(out: &mut String, paint: Paint, path: &str, gray: &GrayReport) -> std::fmt::Result {
    writeln!(out, "{} turned gray at {}", paint.bold(path), seconds(gray.at_ms))?;
    match gray.detected_after_ms {
        Some(ms) => writeln!(out, "  seen by its source after {}", seconds(ms))?,
        None => writeln!(
            out,
            "  NOT SEEN by its source: a host that is itself late discards what it measures; see\n  \
             seam_samples_discarded_total of its /metrics, and try again on a quieter machine"
        )?,
    }
    match (gray.cleared_at_ms, gray.healthy_after_ms) {
        (Some(at), Some(ms)) => writeln!(out, "  cleared at {}, healthy again after {}", seconds(at), seconds(ms))?,
        (Some(at), None) if gray.detected_after_ms.is_none() => writeln!(out, "  cleared at {}", seconds(at))?,
        (Some(at), None) => writeln!(out, "  cleared at {}, not healthy again while watched", seconds(at))?,
        (None, _) => {}
    }
    wrap(out, "  states: ", &timeline(&gray.timeline))?;
    writeln!(out, "  {:<26} {:>12} {:>12}", "its source's requests on it", "before", "after")?;
    for class in Class::ALL {
        let of = |side: &std::collections::BTreeMap<String, Share>| {
            let share = side.get(class.as_str()).copied().unwrap_or_default();
            format!("{} of {}", share.count, share.of)
        };
        writeln!(out, "    {:<24} {:>12} {:>12}", class.as_str(), of(&gray.before), of(&gray.after))?;
    }
    Ok(())
}

fn row(name: &str, cells: impl Iterator<Item = String>, all: Option<String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).chain(std::iter::once(all.unwrap_or_default())).collect()
}

fn share(applies: bool, share: Share) -> String {
    match share.percent() {
        Some(percent) if applies => format!("{percent:.1} % ({}/{})", share.count, share.of),
        None if applies => "none".to_owned(),
        _ => "-".to_owned(),
    }
}

fn timeline(states: &[StateAt]) -> Vec<String> {
    let mut words: Vec<_> = states
        .iter()
        .take(MAX_STATES)
        .map(|change| match change.at_ms {
            at if at <= 0.0 => change.state.clone(),
            at => format!("{} at {}", change.state, seconds(at)),
        })
        .collect();
    if states.len() > MAX_STATES {
        words.push(format!("and {} more", states.len() - MAX_STATES));
    }
    without_last_comma(words.into_iter().map(|word| format!("{word},")).collect())
}

fn without_last_comma(mut words: Vec<String>) -> Vec<String> {
    if let Some(last) = words.last_mut() {
        last.pop();
    }
    words
}

/// Writes `head` and words, broken before [`WIDTH`] and indented under the head.
fn wrap(out: &mut String, head: &str, words: &[String]) -> std::fmt::Result {
    out.push_str(head);
    let indent = head.chars().count().min(WIDTH / 2);
    let mut column = head.chars().count();
    let mut first = true;
    for word in words {
        let width = word.chars().count();
        if !first && column + 1 + width > WIDTH {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
            first = true;
        }
        if !first {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
        first = false;
    }
    writeln!(out)
}

fn number(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"))
}

fn seconds(ms: f64) -> String {
    if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1_000.0) }
}

fn bytes(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests;
