//! The operator's tool: questions to a running agent, and everything that needs none.

mod ask;
mod certs;
mod decide;
mod decisions;
mod demo;
mod doctor;
mod exit;
mod experiments;
mod journal;
mod load;
mod number;
mod output;
mod paint;
mod replay;
mod shell;
mod signals;
mod simulate;
mod table;
mod timeline;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use exit::Failure;

/// Asks and steers Seam agents, and decides offline.
#[derive(Parser)]
#[command(name = "seamctl", version, max_term_width = 100, arg_required_else_help = true, after_help = exit::STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the main job on this machine: real agents, a request stream, one path turning gray.
    Demo(demo::Demo),
    /// What-if: JSON lines that describe pools and their samples in, one decision record a line out.
    Decide(decide::Decide),
    /// The five published experiments: tables, and files with --out.
    Experiments(experiments::Experiments),
    /// Every file of the evidence under outputs/, made again byte for byte.
    Evaluate(experiments::Evaluate),
    /// A recorded request trace, decided again by Seam and its rivals; or journals, played again.
    Replay(replay::Replay),
    /// What agents recorded, read without playing it.
    #[command(subcommand)]
    Journal(journal::Journal),
    /// The published scenarios: what is decided when paths misbehave in a known way.
    Simulate(simulate::Simulate),
    /// The picture of an incident from journals: paths, decisions, members and processes over time.
    Timeline(timeline::Timeline),
    /// What an agent is and does.
    Status(ask::Plain),
    /// The members of its mesh.
    Members(ask::Plain),
    /// The paths that it knows, and how well they do.
    Paths(ask::Plain),
    /// What it decided, the newest first.
    Decisions(decisions::Decisions),
    /// One decision in words: why this path, and why not the others.
    Explain(decisions::Explain),
    /// Ask for a path, as a gateway would.
    Route(decisions::Route),
    /// Leases that an agent granted or holds.
    #[command(subcommand)]
    Lease(ask::Lease),
    /// Send requests to running agents, as gateways and engines would, and count what comes of them.
    Load(load::Load),
    /// Take no new work.
    Drain(ask::Plain),
    /// Take new work again.
    Undrain(ask::Plain),
    /// What this host can do, and what a configuration asks of it that it cannot.
    Doctor(doctor::Doctor),
    /// A certificate authority and the certificates of agents.
    #[command(subcommand)]
    Certs(certs::Certs),
    /// Completions for a shell, to standard output.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(demo) => on_runtime(demo.run()),
        Command::Decide(decide) => decide.run(),
        Command::Experiments(experiments) => experiments.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Replay(replay) => replay.run(),
        Command::Journal(journal) => journal.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Timeline(timeline) => timeline.run(),
        Command::Status(plain) => on_runtime(ask::status(plain)),
        Command::Members(plain) => on_runtime(ask::members(plain)),
        Command::Paths(plain) => on_runtime(ask::paths(plain)),
        Command::Decisions(decisions) => on_runtime(decisions.run()),
        Command::Explain(explain) => on_runtime(explain.run()),
        Command::Route(route) => on_runtime(route.run()),
        Command::Lease(lease) => on_runtime(lease.run()),
        Command::Load(load) => on_runtime(load.run()),
        Command::Drain(plain) => on_runtime(ask::drain(plain, true)),
        Command::Undrain(plain) => on_runtime(ask::drain(plain, false)),
        Command::Doctor(doctor) => doctor.run(),
        Command::Certs(certs) => certs.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "seamctl", &mut script);
            exit::print(&String::from_utf8_lossy(&script))
        }
    }
}

fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(anyhow::anyhow!("cannot start threads: {error}")))?;
    runtime.block_on(work)
}
