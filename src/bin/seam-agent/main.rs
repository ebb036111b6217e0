//! The daemon: one agent, from one configuration file, until it is told to stop.

#[cfg(any(feature = "nixl", feature = "ucx"))]
mod foreign;
mod log;
mod notify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seam::agent::Agent;
use seam::causes::with_causes;
use seam::config::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};

use notify::ServiceManager;

/// Decides, on this host, which KV-cache transfer path carries which request, and moves the bytes.
#[derive(Parser)]
#[command(name = "seam-agent", version, max_term_width = 100)]
struct Cli {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Validate the configuration, print the effective one, and exit.
    #[arg(long)]
    check: bool,
    /// How log lines are written to standard error; RUST_LOG says which (default: info).
    #[arg(long, value_enum, default_value_t = log::Format::Text)]
    log_format: log::Format,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(any(feature = "nixl", feature = "ucx"))]
    foreign::keep_hangup();
    let config = match Config::load(&cli.config) {
        Ok(config) => config,
        Err(error) => {
            log::say(&error.to_string());
            return ExitCode::from(2);
        }
    };
    if cli.check {
        // A reader that has seen enough is no failure.
        let _ = std::io::stdout().write_all(config.to_toml().as_bytes());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = log::start(cli.log_format) {
        log::say(&format!("seam-agent: {}", with_causes(error.as_ref())));
        return ExitCode::from(2);
    }
    allow_descriptors();
    let status = match run(config, &cli.config) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{}", with_causes(error.as_ref()));
            1
        }
    };
    seam::agent::exit(status)
}

fn run(config: Config, file: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        // All are caught before the agent starts, so that a signal during the start is not lost.
        let mut stop = Stop::listen()?;
        let mut hangup = signal(SignalKind::hangup()).context("cannot catch SIGHUP")?;
        let manager = ServiceManager::from_env();
        let name = config.node.name.clone();
        let agent = tokio::select! {
            agent = Agent::start(config) => agent.context("the agent cannot start")?,
            () = stop.asked() => return Ok(()),
        };
        tracing::info!(node = %name, api = %agent.api_addr(), "the agent runs");
        manager.ready();
        tokio::select! {
            () = stop.asked() => {}
            () = reload_when_told(&mut hangup, &agent, file, &manager) => {}
            () = beat(&agent, &manager) => {}
            () = log::count_lost(agent.metrics()) => {}
        }
        tracing::info!("shutting down; a second signal ends it at once");
        manager.stopping();
        tokio::select! {
            () = agent.shutdown() => Ok(()),
            () = stop.asked() => Err(anyhow::anyhow!("ended by a second signal before the shutdown was complete")),
        }
    })
}

/// The signals that end the agent.
struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let term = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
        let int = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
        Ok(Self { term, int })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// Reads the configuration anew at every SIGHUP; never ends.
async fn reload_when_told(hangup: &mut Signal, agent: &Agent, file: &Path, manager: &ServiceManager) {
    while hangup.recv().await.is_some() {
        manager.reloading();
        // The agent has logged what came of it, and counted it.
        let _ = agent.reload(file).await;
        manager.ready();
    }
    std::future::pending().await
}

/// Tells the service manager that the agent lives, for as long as every core takes its turns;
/// never ends.
async fn beat(agent: &Agent, manager: &ServiceManager) {
    let Some(beat) = manager.beat() else { return std::future::pending().await };
    let mut interval = tokio::time::interval(beat);
    loop {
        interval.tick().await;
        if agent.alive().await {
            manager.alive();
        }
    }
}

/// Each connection and each stream of events needs a descriptor: as many as the system lets this
/// process have. The default of 1,024 is for programs that use select(2).
fn allow_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, ?maximum, "RLIMIT_NOFILE cannot be raised");
    }
}
