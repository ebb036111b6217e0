//! Log lines on standard error. That the file behind it is full, or that nobody reads it any more,
//! is no reason to end: lines that cannot be written are counted.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use seam::metrics::Metrics;
use tracing_subscriber::EnvFilter;

/// Lines that could not be written and are not counted yet.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How often lost lines are counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Starts to log what `RUST_LOG` asks for.
pub(crate) fn start(format: Format) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) => EnvFilter::try_new(&text).with_context(|| format!("RUST_LOG: found {text:?}"))?,
        Err(_) => EnvFilter::new("info"),
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Lines);
    match format {
        Format::Text => logs.with_ansi(colour()).init(),
        Format::Json => logs.json().init(),
    }
    Ok(())
}

/// Whether standard error is a terminal that knows colours, and whose user has not asked for none.
fn colour() -> bool {
    let said = |name: &str| std::env::var_os(name).unwrap_or_default();
    io::stderr().is_terminal() && said("NO_COLOR").is_empty() && said("TERM") != "dumb"
}

/// One line before logging has started, if it can be written.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Counts lost lines as `seam_queue_dropped_total{queue="log"}`; never ends.
pub(crate) async fn count_lost(metrics: &Metrics) {
    let mut interval = tokio::time::interval(COUNT_EVERY);
    loop {
        interval.tick().await;
        let lost = LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            metrics.dropped_many("log", lost);
        }
    }
}

/// Standard error, one whole line a call.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if io::stderr().write_all(line).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
