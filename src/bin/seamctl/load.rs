//! `seamctl load`: requests against running agents, as gateways and engines would send them.

mod arrivals;
mod run;
mod tally;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seam::config::parse_duration;
use seam::trace::{KV_SCALE, KvModel, Mix, SPEEDUP, Traffic};

use crate::ask::client;
use crate::exit::{Failure, print, print_json};
use crate::number::{number, whole};
use crate::signals::stop_on_signals;
use run::{Hosts, Pace};

/// What to send, where and how fast.
#[derive(Args)]
pub(crate) struct Load {
    /// An agent, http://HOST:PORT or unix:///PATH; may be repeated. Prefill hosts are asked for routes
    /// and transfers in turn; decode hosts are told when a session is over.
    #[arg(long = "agent", value_name = "URL", env = "SEAM_AGENT", value_delimiter = ',', required = true)]
    agents: Vec<String>,
    /// A file with their bearer token, where they ask for one.
    #[arg(long, value_name = "FILE", env = "SEAM_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// A request trace (Mooncake, Azure or ServeGen), begun anew when it ends; a built-in stream if absent.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Requests per second, evenly, 0.01 to 10000; as the trace has them if absent.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0.01..=10_000.0), conflicts_with = "speedup")]
    rate: Option<f64>,
    /// How much faster than the trace, 0.1 to 10000.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true, value_parser = number(SPEEDUP))]
    speedup: f64,
    /// The classes and their shares.
    #[arg(long, value_name = "CLASS=SHARE,…", default_value_t)]
    mix: Mix,
    /// The model that turns tokens into KV bytes.
    #[arg(long, value_name = "NAME", default_value_t)]
    model: KvModel,
    /// What KV bytes are multiplied by, for hosts smaller than the model's, 0.000000001 to 1000.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true, value_parser = number(KV_SCALE))]
    kv_scale: f64,
    /// How long a session stays at its decode host after its bytes have landed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    hold: Duration,
    /// Requests under way at most, 1 to 10000; those beyond are not sent, and counted.
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = whole(1..=10_000_usize))]
    concurrency: usize,
    /// How long to send; until interrupted if absent.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Of every random draw.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Load {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = stop_on_signals()?;
        let clients = self.agents.iter().map(|url| client(url, self.token_file.as_deref()));
        let hosts = Hosts::ask(clients.collect::<Result<_, _>>()?).await?;
        let (model, kv_scale, mix, seed) = (self.model, self.kv_scale, self.mix, self.seed);
        let traffic = Traffic { model, speedup: self.speedup, kv_scale, mix, seed };
        let arrivals = arrivals::read(self.trace, traffic).await?;
        let pace = Pace { rate: self.rate, hold: self.hold, concurrency: self.concurrency, duration: self.duration };
        let (tally, ended) = run::run(hosts, arrivals, pace, &stop).await;
        if self.json {
            print_json(&tally)?;
        } else {
            print(&tally.to_text())?;
        }
        ended?;
        match tally.answered_any() {
            true => Ok(()),
            false => Err(Failure::failed(anyhow::anyhow!("no request was answered; see the errors in the summary"))),
        }
    }
}
