//! The daemon: one agent, from one configuration file, until it is told to stop.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use seam::agent::Agent;
use seam::config::Config;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

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
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = match Config::load(&cli.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if cli.check {
        // A reader that has seen enough is no failure.
        let _ = std::io::stdout().write_all(config.to_toml().as_bytes());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = start_logging(cli.log_format) {
        eprintln!("seam-agent: {error:#}");
        return ExitCode::from(2);
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        // Both are caught before the agent starts, so that a signal during the start is not lost.
        let mut term = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
        let mut int = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
        let name = config.node.name.clone();
        let agent = tokio::select! {
            agent = Agent::start(config) => agent.context("the agent cannot start")?,
            _ = term.recv() => return Ok(()),
            _ = int.recv() => return Ok(()),
        };
        tracing::info!(node = %name, api = %agent.api_addr(), "the agent runs");
        notify_service_manager("READY=1");
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("shutting down; a second signal ends it at once");
        notify_service_manager("STOPPING=1");
        tokio::select! {
            () = agent.shutdown() => Ok(()),
            _ = term.recv() => Err(anyhow::anyhow!("ended by a second signal before the shutdown was complete")),
            _ = int.recv() => Err(anyhow::anyhow!("ended by a second signal before the shutdown was complete")),
        }
    })
}

fn start_logging(format: LogFormat) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) => EnvFilter::try_new(&text).with_context(|| format!("RUST_LOG: found {text:?}"))?,
        Err(_) => EnvFilter::new("info"),
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}

/// Tells systemd, where it asked to be told.
fn notify_service_manager(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let send = || {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
    };
    if let Err(error) = send() {
        tracing::warn!(%error, "NOTIFY_SOCKET cannot be told {state}");
    }
}
