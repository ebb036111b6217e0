//! The agents of a run: started, waited for, stopped, and nothing left of them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::host::{HostSpec, Kind, config, hosts, journal};
use super::plan::Plan;
use super::{DemoError, Options};
use crate::agent::Agent;
use crate::api::{PathLine, Status};
use crate::arena::Arena;
use crate::client::Client;
use crate::config::Config;
use crate::model::PathState;

/// How long the agents may take to find each other and measure their paths.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long they may take for every path to be healthy; on a busy machine some never are.
const CALM_WITHIN: Duration = Duration::from_secs(5);
/// How often they are asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Samples that a path needs before requests come: a whole window.
const SAMPLES: u32 = 10;

/// Every agent of a run, in one process.
pub(crate) struct Mesh {
    pub(crate) hosts: Vec<Host>,
    dir: TempDir,
}

/// One of them.
pub(crate) struct Host {
    pub(crate) spec: HostSpec,
    /// Where its API listens.
    pub(crate) url: String,
    pub(crate) client: Client,
    agent: Agent,
}

impl Mesh {
    /// Starts every agent, and waits until each prefill host has measured every path, or `stop`.
    pub(crate) async fn start(options: &Options, plan: &Plan, stop: &CancellationToken) -> Result<Self, DemoError> {
        let dir = tempfile::Builder::new().prefix("seam-demo-").tempdir().map_err(DemoError::Folder)?;
        let mut mesh = Self { hosts: Vec::new(), dir };
        let outcome = tokio::select! {
            outcome = mesh.bring_up(options, plan) => outcome,
            () = stop.cancelled() => Err(DemoError::Interrupted),
        };
        match outcome {
            Ok(()) => Ok(mesh),
            Err(error) => {
                mesh.shutdown().await;
                Err(error)
            }
        }
    }

    async fn bring_up(&mut self, options: &Options, plan: &Plan) -> Result<(), DemoError> {
        let mut seed = None;
        for spec in hosts(self.dir.path(), options.prefill, options.decode) {
            let host = start(spec, self.dir.path(), plan, options, seed).await?;
            let status: Status = host.client.get("/v1/status").await?;
            self.hosts.push(host);
            if seed.is_none() {
                let bad = |_| DemoError::start("p0", format!("its mesh address is {:?}", status.mesh_addr));
                seed = Some(status.mesh_addr.parse().map_err(bad)?);
            }
        }
        self.ready(options.decode).await
    }

    /// The prefill hosts, in order.
    pub(crate) fn prefill(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.spec.kind == Kind::Prefill)
    }

    /// The decode hosts, in order.
    pub(crate) fn decode(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.spec.kind == Kind::Decode)
    }

    /// Waits until every path has been measured, and a little longer for all to be healthy: the
    /// first samples of a path also measure its handshake.
    async fn ready(&self, decode: usize) -> Result<(), DemoError> {
        let start = Instant::now();
        for host in self.prefill() {
            loop {
                let lines: Vec<PathLine> = host.client.get("/v1/paths").await?;
                let measured = lines.iter().filter(|line| line.health.sample_count >= SAMPLES).count();
                let calm = lines.iter().all(|line| line.health.state == PathState::Healthy);
                if measured >= decode && (calm || start.elapsed() >= CALM_WITHIN) {
                    break;
                }
                if start.elapsed() >= READY_WITHIN {
                    let detail = format!(
                        "after {} s it has measured {measured} of {decode} paths and knows {}",
                        READY_WITHIN.as_secs(),
                        lines.len()
                    );
                    return Err(DemoError::start(&host.spec.name, detail));
                }
                sleep(ASK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Stops every agent and removes what they left.
    pub(crate) async fn shutdown(mut self) {
        // Decode hosts go last, so that prefill hosts can still hand back their leases.
        for kind in [Kind::Prefill, Kind::Decode] {
            let (of_kind, rest): (Vec<_>, _) = self.hosts.into_iter().partition(|host| host.spec.kind == kind);
            join_all(of_kind.into_iter().map(|host| host.agent.shutdown())).await;
            self.hosts = rest;
        }
        // The folder goes as `dir` drops; by then nobody uses it.
        drop(self.dir);
    }
}

async fn start(
    spec: HostSpec,
    dir: &Path,
    plan: &Plan,
    options: &Options,
    seed: Option<SocketAddr>,
) -> Result<Host, DemoError> {
    let failed = |detail: String| DemoError::start(&spec.name, detail);
    let mut text = config(&spec, dir, plan, options.model.name, options.decode, seed);
    if let Some(journals) = &options.journal_dir {
        text.push_str(&journal(&spec, journals));
    }
    let config = Config::from_toml(&text, &spec.name).map_err(|error| failed(error.to_string()))?;
    let agent = Agent::start(config).await.map_err(|error| failed(error.to_string()))?;
    let url = format!("http://{}", agent.api_addr());
    let client = Client::new(&url, None)?;
    Ok(Host { spec, url, client, agent })
}

impl Host {
    /// Maps the host's arena, as its engine does.
    pub(crate) fn arena(&self, plan: &Plan) -> Result<Arena, DemoError> {
        let bytes = match self.spec.kind {
            Kind::Prefill => plan.prefill_arena_bytes,
            Kind::Decode => plan.decode_arena_bytes,
        };
        Arena::open(&self.spec.arena, bytes).map_err(|error| DemoError::start(&self.spec.name, error.to_string()))
    }
}
