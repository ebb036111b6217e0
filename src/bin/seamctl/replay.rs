//! `seamctl replay`: a recorded history, decided again.

mod classes;
mod config;
mod files;
mod import;
mod journal;
mod price;
mod progress;
mod whatif;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use seam::model::{Profile, RequestId};
use seam::replay::{Placed, ReplayError, Settings, Sink, Summary};
use seam::rivals::{Choosable, Policy};

use crate::exit::{Failure, print, print_json};
use crate::number::whole;
use crate::paint::colour;
use crate::table::{count, numbers};
use config::With;
use files::Files;
pub(crate) use journal::open as journals;
use progress::{Counted, Progress};

/// Of every random draw, unless another is said.
const DEFAULT_SEED: u64 = 1;

/// What to replay.
#[derive(Args)]
pub(crate) struct Replay {
    /// CSV request traces, plain or gzip, each the continuation of the one before; `-` is standard
    /// input. Or journals of agents, files and folders of them; which it is shows in the content.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A policy to compare; may be repeated. If absent all: seam, lowest_latency,
    /// binary_health_only, capacity_only, round_robin, p2c_ewma, p2c_slowdown_lease, prequal,
    /// rail_monitor, and kv_load where the trace has prefix_blocks.
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<Policy>,
    /// The rules by which Seam decides: those of --config, or mesh, unless said. Said beside --config
    /// it wins, and the thresholds are the file's still.
    #[arg(long)]
    profile: Option<Profile>,
    /// Decide by the profile and the thresholds of the policy table in this file: an agent's configuration,
    /// or one that has nothing but that table. What it does not name is as by default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which pools the policies beside Seam choose from: those that Seam admits, or all that are up,
    /// neither quarantined nor full. If absent, admissible.
    #[arg(long, value_name = "WHICH", value_enum)]
    rivals_see: Option<RivalsSee>,
    /// Of every random draw. If absent, 1.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: Option<u64>,
    /// Write replay.json, replay.csv and choices.csv into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Play the journals' tapes again, and fail unless every output is as it was recorded.
    #[arg(long, conflicts_with_all = ["policies", "profile", "config", "explain", "at", "trace", "rivals_see", "seed"])]
    verify: bool,
    /// Show the decisions of this request in the journals as they were, and as they would be.
    #[arg(long, value_name = "REQUEST")]
    explain: Option<RequestId>,
    /// Of several decisions for that request, the one nearest to this time: a date like
    /// 2026-05-02T09:00:03Z, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    at: Option<String>,
    #[command(flatten)]
    requests: import::Requests,
}

/// Which pools the policies beside Seam choose from.
#[derive(Clone, Copy, Default, ValueEnum)]
enum RivalsSee {
    #[default]
    Admissible,
    Up,
}

impl From<RivalsSee> for Choosable {
    fn from(see: RivalsSee) -> Self {
        match see {
            RivalsSee::Admissible => Self::AdmissibleOnly,
            RivalsSee::Up => Self::UpAndNotFull,
        }
    }
}

impl Replay {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if journal::are_given(&self.files)? {
            return journal::run(&self);
        }
        let journals_only = [
            ("--verify", self.verify),
            ("--explain", self.explain.is_some()),
            ("--at", self.at.is_some()),
            ("--trace", self.requests.trace().is_some()),
        ];
        if let Some((option, _)) = journals_only.into_iter().find(|(_, said)| *said) {
            return Err(Failure::usage(anyhow::anyhow!("{option} is for journals, and no journal is given")));
        }
        let rules = config::load(&self)?;
        let named = rules.as_ref().map(|rules| rules.named(&self));
        let settings = self.settings(rules);
        self.files.iter().try_for_each(|path| can_open(path))?;
        let inputs: Vec<PathBuf> = self.files.iter().chain(&self.config).cloned().collect();
        let files = self.out.as_deref().map(|dir| Files::begin(dir, &inputs)).transpose()?;
        let mut watch = Watch { files, progress: Progress::of(&self.files) };
        let replayed = self.replay(settings, &mut watch);
        watch.progress.end();
        let summary = replayed?;
        let report = With { config: named.as_ref(), report: &summary };
        let written = match watch.files {
            Some(files) => files.finish(&report)?,
            None => Vec::new(),
        };
        if self.json {
            return print_json(&report);
        }
        print(&self.text(&report, &written))
    }

    fn settings(&self, rules: Option<config::Rules>) -> Settings {
        let decided = match rules {
            None => Settings::of(self.profile.unwrap_or_default()),
            Some(rules) => Settings { thresholds: rules.policy.thresholds, ..Settings::of(rules.profile) },
        };
        let (rivals_see, seed) = (self.rivals_see(), self.seed());
        Settings { policies: self.policies.clone(), rivals_see, seed, ..decided }
    }

    fn rivals_see(&self) -> Choosable {
        self.rivals_see.unwrap_or_default().into()
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(DEFAULT_SEED)
    }

    fn replay(&self, settings: Settings, watch: &mut Watch) -> Result<Summary, Failure> {
        let mut replay = seam::replay::Replay::new(settings).map_err(failure)?;
        for path in &self.files {
            let (name, input): (String, Box<dyn Read + Send>) = if path.as_os_str() == "-" {
                ("standard input".to_owned(), Box::new(std::io::stdin()))
            } else {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|error| cannot_open(path, error))?;
                (name, Box::new(file))
            };
            replay.feed(&name, Counted::new(input, &watch.progress), watch).map_err(failure)?;
        }
        Ok(replay.finish())
    }

    fn text(&self, report: &With<'_, Summary>, written: &[PathBuf]) -> String {
        let summary = report.report;
        let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.1}"));
        let rows = summary.policy_metrics.iter().map(|(policy, metrics)| {
            [
                policy.to_string(),
                percent(metrics.strict_healthy_pct),
                percent(metrics.tolerant_degraded_pct),
                metrics.strict_choice_count.to_string(),
                metrics.strict_protected_count.to_string(),
                metrics.headroom_preserved_count.to_string(),
                metrics.no_pool_count.to_string(),
            ]
        });
        let head = [
            "\npolicy",
            "strict on\nhealthy %",
            "tolerant on\ndegraded %",
            "strict\nplaced",
            "strict\nprotected",
            "headroom\npreserved",
            "not\nplaced",
        ];
        let table = numbers(head, rows);
        let lines = table.lines().enumerate();
        let mut text: String = lines.map(|(number, line)| paint(summary, number, line) + "\n").collect();
        let others = match self.rivals_see.unwrap_or_default() {
            _ if summary.policy_metrics.iter().all(|(policy, _)| *policy == Policy::Seam) => "",
            RivalsSee::Admissible => "The others chose from the pools that Seam admits (--rivals-see admissible).\n",
            RivalsSee::Up => "The others chose from all pools neither quarantined nor full (--rivals-see up).\n",
        };
        text.push_str(&format!(
            "\n{} ({}), {} in {}; profile {}.\n{}{}{others}{}",
            count(summary.replay_requests as usize, "request"),
            classes::counts(summary.strict_requests, summary.tolerant_requests, summary.neither_requests),
            count(summary.replay_rows as usize, "row"),
            count(summary.pools as usize, "pool"),
            summary.profile,
            report.config.map(|config| config.text(summary.profile)).unwrap_or_default(),
            classes::note(),
            price::text(summary),
        ));
        if summary.unlisted_alternates > 0 {
            text.push_str(&format!(
                "Note: of {} the alternate_count is not the number of the other rows; the rows counted.\n",
                count(summary.unlisted_alternates as usize, "request")
            ));
        }
        for path in written {
            text.push_str(&format!("wrote {}\n", path.display()));
        }
        text.push_str(match (written.is_empty(), self.rivals_see.unwrap_or_default()) {
            (false, _) => "Next: see in choices.csv which pool each policy chose for a request\n",
            (true, RivalsSee::Admissible) => {
                "Next: --out DIR writes every choice; --rivals-see up lets the others take what Seam refuses\n"
            }
            (true, RivalsSee::Up) => "Next: --out DIR writes every choice\n",
        });
        text
    }
}

/// The head and Seam's own line stand out on a terminal.
fn paint(summary: &Summary, number: usize, line: &str) -> String {
    const HEAD_LINES: usize = 2;
    let policy = number.checked_sub(HEAD_LINES).and_then(|row| summary.policy_metrics.get(row));
    let stands_out = policy.is_none_or(|(policy, _)| *policy == Policy::Seam);
    if colour() && stands_out { format!("\x1b[1m{line}\x1b[0m") } else { line.to_owned() }
}

/// Finds out before anything is written whether a trace can be opened. What is no regular file, a
/// pipe say, cannot be opened twice.
fn can_open(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let found = path.metadata().map_err(|error| cannot_open(path, error))?;
    if found.is_dir() {
        return Err(cannot_open(path, ErrorKind::IsADirectory.into()));
    }
    if found.is_file() {
        File::open(path).map_err(|error| cannot_open(path, error))?;
    }
    Ok(())
}

fn cannot_open(path: &Path, error: std::io::Error) -> Failure {
    Failure::usage(anyhow::anyhow!("{}: {error}", path.display()))
}

fn failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Sink(error) => Failure::failed(anyhow::anyhow!("choices.csv: {error}")),
        error => Failure::usage(error),
    }
}

/// What listens to a replay.
struct Watch {
    files: Option<Files>,
    progress: Progress,
}

impl Sink for Watch {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        self.progress.advance(placed.rows);
        self.files.as_mut().map_or(Ok(()), |files| files.placed(placed))
    }
}
