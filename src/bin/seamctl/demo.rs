//! `seamctl demo`: the main job on one machine.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use seam::demo::{DECODE, DemoError, Options, PREFILL, Progress, REQUESTS, Run, SPEEDUP};
use seam::trace::KvModel;

use crate::exit::{Failure, print};
use crate::number::{number, whole};
use crate::paint;
use crate::shell;
use crate::signals::stop_on_signals;

/// What to run.
#[derive(Args)]
pub(crate) struct Demo {
    /// Prefill hosts, 1 to 8.
    #[arg(long, value_name = "N", default_value_t = Options::default().prefill, allow_negative_numbers = true, value_parser = whole(PREFILL))]
    prefill: usize,
    /// Decode hosts, 1 to 16.
    #[arg(long, value_name = "N", default_value_t = Options::default().decode, allow_negative_numbers = true, value_parser = whole(DECODE))]
    decode: usize,
    /// A request trace (Mooncake, Azure or ServeGen); a built-in stream if absent.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The model that turns tokens into KV bytes.
    #[arg(long, value_name = "NAME", default_value_t = Options::default().model)]
    model: KvModel,
    /// Requests to send, 1 to 100000; fewer if the trace has fewer.
    #[arg(long, value_name = "N", default_value_t = Options::default().requests, allow_negative_numbers = true, value_parser = whole(REQUESTS))]
    requests: usize,
    /// How much faster than the trace, 0.1 to 10000.
    #[arg(long, value_name = "X", default_value_t = Options::default().speedup, allow_negative_numbers = true, value_parser = number(SPEEDUP))]
    speedup: f64,
    /// Of every random draw.
    #[arg(long, value_name = "N", default_value_t = Options::default().seed, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Keep every host's journal in a folder of its own in this one, for `seamctl replay` and
    /// `seamctl timeline`.
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,
    /// Keep the agents running until interrupted, to look at them.
    #[arg(long)]
    keep: bool,
    /// Print the summary as one JSON object; progress goes to standard error.
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if std::env::var_os("RUST_LOG").is_some() {
            let filter = tracing_subscriber::EnvFilter::from_default_env();
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
        }
        let stop = stop_on_signals()?;
        let options = Options {
            prefill: self.prefill,
            decode: self.decode,
            trace: self.trace,
            model: self.model,
            requests: self.requests,
            speedup: self.speedup,
            seed: self.seed,
            journal_dir: self.journal_dir,
        };
        let journals = options.journal_dir.as_deref().map(shell::word);
        let run = Run::start(&options, &stop, &say).await.map_err(|error| {
            end_passing_line();
            match error {
                DemoError::BadOption { .. } | DemoError::Trace(_) => Failure::usage(error),
                error => Failure::failed(error),
            }
        })?;
        let passed = run.report.passed();
        let text = if self.json {
            serde_json::to_string(&run.report).map_err(Failure::failed)? + "\n"
        } else {
            run.report.to_text(paint::colour(), self.keep, journals.as_deref())
        };
        end_passing_line();
        if self.keep {
            // Nobody to read it, nobody to keep the agents for.
            let mut out = std::io::stdout().lock();
            if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok() {
                drop(out);
                stop.cancelled().await;
            }
            run.shutdown().await;
        } else {
            // First, since a reader that has seen enough ends the program.
            run.shutdown().await;
            print(&text)?;
        }
        if passed { Ok(()) } else { Err(Failure::failed(anyhow::anyhow!("the demo did not pass; see the summary"))) }
    }
}

/// Removes a line of progress that a terminal still shows.
fn end_passing_line() {
    if paint::rewrites() {
        eprint!("\r\x1b[K");
    }
}

/// On a terminal a passing line is overwritten by the next.
fn say(progress: &Progress) {
    let mut out = std::io::stderr().lock();
    // Progress that nobody can read is no reason to stop.
    let _ = match (paint::rewrites(), progress.is_passing()) {
        (true, true) => write!(out, "\r\x1b[K{progress}"),
        (true, false) => writeln!(out, "\r\x1b[K{progress}"),
        (false, _) => writeln!(out, "{progress}"),
    }
    .and_then(|()| out.flush());
}
