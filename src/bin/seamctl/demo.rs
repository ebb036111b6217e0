//! `seamctl demo`: the main job on one machine.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use seam::demo::{DemoError, Options, Progress, Run};
use seam::trace::KvModel;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Ended by Ctrl-C, as shells count it.
const EXIT_INTERRUPTED: u8 = 130;

/// Run a whole mesh on this machine: real agents, a request stream, one path turning gray.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Prefill hosts, 1 to 8
    #[arg(long, default_value_t = 2, value_name = "N")]
    prefill: usize,
    /// Decode hosts, 1 to 16
    #[arg(long, default_value_t = 3, value_name = "N")]
    decode: usize,
    /// A Mooncake (JSONL), Azure or ServeGen (CSV) trace, plain or gzip; a built-in stream if absent
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The model that turns tokens into KV bytes
    #[arg(long, default_value_t = KvModel::default(), value_name = "NAME")]
    model: KvModel,
    /// Requests to send, 1 to 100000
    #[arg(long, default_value_t = 500, value_name = "N")]
    requests: usize,
    /// How much faster than the trace, 0.1 to 10000
    #[arg(long, default_value_t = 50.0, value_name = "X")]
    speedup: f64,
    /// The seed of every random draw
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Leave the agents running until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the demo: 0 if every transfer was verified and nothing over-committed, 1 if not, 2 for an
/// option or a trace that cannot be used.
///
/// # Errors
/// An agent does not start or does not answer, or the report cannot be printed.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals()?;
    let options = Options {
        prefill: args.prefill,
        decode: args.decode,
        trace: args.trace,
        model: args.model,
        requests: args.requests,
        speedup: args.speedup,
        seed: args.seed,
    };
    let run = match Run::start(&options, &stop, &say).await {
        Ok(run) => run,
        Err(error @ (DemoError::BadOption { .. } | DemoError::Trace(_))) => {
            eprintln!("error: {error}");
            return Ok(ExitCode::from(2));
        }
        Err(DemoError::Interrupted) => {
            end_passing_line();
            eprintln!("ended early; nothing is left behind");
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
        Err(error) => return Err(error.into()),
    };
    let passed = run.report.passed();
    let printed = print(&run, args.json, args.keep);
    if args.keep && printed.is_ok() {
        stop.cancelled().await;
    }
    run.shutdown().await;
    printed.context("the report cannot be printed")?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let (mut signals, stop) = (signal(kind).context("signals cannot be heard")?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}

/// One line of progress; on a terminal a passing one is drawn over.
fn say(progress: &Progress) {
    let mut err = std::io::stderr().lock();
    let terminal = err.is_terminal();
    // Progress that nobody can read is no reason to stop.
    let _ = match (terminal, progress.is_passing()) {
        (true, true) => write!(err, "\r\u{1b}[K{progress}"),
        (true, false) => writeln!(err, "\r\u{1b}[K{progress}"),
        (false, _) => writeln!(err, "{progress}"),
    };
    let _ = err.flush();
}

/// Removes a line of progress that a terminal still shows.
fn end_passing_line() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\u{1b}[K");
    }
}

fn print(run: &Run, json: bool, keep: bool) -> std::io::Result<()> {
    end_passing_line();
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &run.report)?;
        writeln!(out)?;
    } else {
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        write!(out, "{}", run.report.to_text(colour, keep))?;
    }
    out.flush()
}
