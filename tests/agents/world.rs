//! Real agents of one process on loopback, each with its own endpoints, arena and API.

use std::net::SocketAddr;
use std::path::PathBuf;

use seam::agent::Agent;
use seam::api::{
    Chunk, LeaseLine, MemberLine, PathLine, RouteRequest, SampleVerdict, TransferAnswer, TransferReport,
    TransferRequest,
};
use seam::arena::Arena;
use seam::client::{Client, ClientError};
use seam::config::Config;
use seam::model::{Extent, LeaseId, PathState};
use seam::policy::record::DecisionRecord;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use crate::common::{request, until};

/// Agents measure time: two worlds at once would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

pub(crate) struct World {
    _alone: MutexGuard<'static, ()>,
    dir: TempDir,
    seed: Option<SocketAddr>,
}

pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) agent: Agent,
    pub(crate) client: Client,
    pub(crate) arena: PathBuf,
}

/// What differs between hosts.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) sessions: u32,
    pub(crate) arena_bytes: u64,
    /// How often paths are probed.
    pub(crate) probe: &'a str,
    pub(crate) more: &'a str,
}

impl Default for Terms<'_> {
    fn default() -> Self {
        Self { sessions: 4, arena_bytes: 4 << 20, probe: "50ms", more: "" }
    }
}

impl World {
    /// A world of its own, alone on this machine as far as this process can see to it.
    pub(crate) async fn new() -> Self {
        Self { _alone: ONE_AT_A_TIME.lock().await, dir: TempDir::new().unwrap(), seed: None }
    }

    pub(crate) async fn prefill(&mut self, name: &str, terms: Terms<'_>) -> Host {
        self.start(name, "prefill", "", terms).await
    }

    pub(crate) async fn decode(&mut self, name: &str, terms: Terms<'_>) -> Host {
        self.start(name, "decode", &decode_section(name, terms), terms).await
    }

    /// Where everything of this world lies.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// The configuration of a host, and where its arena lies.
    pub(crate) fn config(&self, name: &str, role: &str, decode: &str, terms: Terms<'_>) -> (String, PathBuf) {
        let dir = self.dir.path();
        let arena = dir.join(format!("{name}.arena"));
        let seeds = self.seed.map(|seed| format!("\"{seed}\"")).unwrap_or_default();
        let text = format!(
            r#"
            [node]
            name = "{name}"
            roles = ["{role}"]
            data_dir = "{data}"
            [mesh]
            bind = "127.0.0.1:0"
            seeds = [{seeds}]
            size = "local"
            [tls]
            dev = true
            dev_dir = "{ca}"
            [api]
            bind = "127.0.0.1:0"
            [[rails]]
            name = "r0"
            backend = "mock"
            bind = "127.0.0.1:0"
            bandwidth_gbps = 8
            [probe]
            interval = "{probe}"
            [arena]
            path = "{arena}"
            size = "{size}B"
            {decode}
            {more}
            "#,
            data = dir.join(name).display(),
            ca = dir.join("ca").display(),
            arena = arena.display(),
            size = terms.arena_bytes,
            probe = terms.probe,
            more = terms.more,
        );
        (text, arena)
    }

    async fn start(&mut self, name: &str, role: &str, decode: &str, terms: Terms<'_>) -> Host {
        let (text, arena) = self.config(name, role, decode, terms);
        let config = Config::from_toml(&text, name).unwrap();
        let agent = Agent::start(config).await.unwrap();
        self.seed = self.seed.or(agent.mesh_addr());
        let client = Client::new(&format!("http://{}", agent.api_addr()), None).unwrap();
        Host { name: name.to_owned(), agent, client, arena }
    }
}

/// The part of a configuration that a decode host needs.
pub(crate) fn decode_section(name: &str, terms: Terms<'_>) -> String {
    format!(
        "[decode]\npool = \"pool-{name}\"\nmax_sessions = {}\nkv_bytes = \"{}B\"\n",
        terms.sessions, terms.arena_bytes
    )
}

impl Host {
    pub(crate) async fn route(&self, request: &RouteRequest) -> Result<DecisionRecord, ClientError> {
        self.client.post("/v1/route", request).await
    }

    pub(crate) async fn transfer(&self, lease: &LeaseId, blocks: &[(u64, u64)]) -> Result<TransferReport, ClientError> {
        let blocks = blocks.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect();
        self.client.post("/v1/transfers", &TransferRequest { lease: lease.clone(), blocks, chunk: None }).await
    }

    /// Sends a chunk of a transfer.
    pub(crate) async fn chunk(
        &self,
        lease: &LeaseId,
        (index, is_final): (u32, bool),
        blocks: &[(u64, u64)],
    ) -> Result<TransferAnswer, ClientError> {
        let blocks = blocks.iter().map(|&(offset, bytes)| Extent { offset, bytes }).collect();
        let chunk = Some(Chunk { index, is_final });
        self.client.post("/v1/transfers", &TransferRequest { lease: lease.clone(), blocks, chunk }).await
    }

    pub(crate) async fn release(&self, lease: &LeaseId) -> bool {
        let done: seam::api::Done = self.client.delete(&format!("/v1/leases/{lease}")).await.unwrap();
        done.changed
    }

    pub(crate) async fn leases(&self) -> Vec<LeaseLine> {
        self.client.get("/v1/leases").await.unwrap()
    }

    pub(crate) async fn members(&self) -> Vec<MemberLine> {
        self.client.get("/v1/members").await.unwrap()
    }

    pub(crate) async fn paths(&self) -> Vec<PathLine> {
        self.client.get("/v1/paths").await.unwrap()
    }

    /// Reports samples, again as long as this busy machine is too late itself for them to count.
    pub(crate) async fn samples(&self, items: &serde_json::Value) -> Vec<SampleVerdict> {
        let mut verdicts: Vec<SampleVerdict> = Vec::new();
        until("this host is on time", async || {
            verdicts = self.client.post("/v1/samples", items).await.unwrap();
            !verdicts.iter().any(|verdict| verdict.reason.as_ref().is_some_and(|reason| reason.contains("frozen")))
        })
        .await;
        verdicts
    }

    pub(crate) async fn state_of(&self, destination: &str) -> Option<PathState> {
        let paths = self.paths().await;
        paths.iter().find(|line| line.path.destination.as_str() == destination).map(|line| line.health.state)
    }

    /// Waits until this host has a whole window of samples of each path and all are healthy.
    pub(crate) async fn settled(&self, paths: usize) {
        until(&format!("{}: {paths} healthy paths", self.name), async || {
            let lines = self.paths().await;
            lines.len() == paths
                && lines.iter().all(|l| l.health.sample_count >= 10 && l.health.state == PathState::Healthy)
        })
        .await;
    }

    /// Waits until this host believes that `decode` has so many sessions in use.
    pub(crate) async fn believes(&self, decode: &str, sessions: (u32, u32)) {
        until(&format!("{} believes {decode} at {sessions:?}", self.name), async || {
            let dry = self.route(&RouteRequest { dry_run: true, ..request("batch", 1) }).await.unwrap();
            dry.candidates.iter().any(|c| {
                c.target.node.as_ref().is_some_and(|node| node.as_str() == decode)
                    && (c.capacity.active_sessions, c.capacity.max_capacity) == sessions
            })
        })
        .await;
    }

    pub(crate) fn write(&self, bytes: u64, offset: u64, data: &[u8]) {
        Arena::open(&self.arena, bytes).unwrap().write(offset, data).unwrap();
    }

    pub(crate) fn read(&self, bytes: u64, extents: &[Extent], wanted: usize) -> Vec<u8> {
        let arena = Arena::open(&self.arena, bytes).unwrap();
        let mut all = Vec::new();
        for extent in extents {
            let mut part = vec![0; usize::try_from(extent.bytes).unwrap()];
            arena.read_into(extent.offset, &mut part).unwrap();
            all.extend(part);
        }
        all.truncate(wanted);
        all
    }
}
