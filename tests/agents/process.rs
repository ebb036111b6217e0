//! Agents that are processes of their own, so that they can be signalled, stopped and killed.

mod ports;

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seam::api::{LeaseLine, MemberLine, PathLine, RouteRequest, Status, TransferReport, TransferRequest};
use seam::client::{Client, ClientError};
use seam::model::{Extent, LeaseId, PathState};
use seam::policy::record::DecisionRecord;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::common::patience;
pub(crate) use crate::common::{request, until};

/// A folder and a mesh for some agents.
pub(crate) struct Site {
    dir: TempDir,
    seed: SocketAddr,
}

/// What differs between agents.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The first agent of a site is the others' seed.
    pub(crate) first: bool,
    /// Part of `[decode]`; none for a prefill host.
    pub(crate) decode: Option<&'a str>,
    /// Part of `[api]`.
    pub(crate) api: &'a str,
    /// Instead of a throw-away CA.
    pub(crate) tls: Option<&'a str>,
    /// Further sections.
    pub(crate) more: &'a str,
    /// How fast its machine is.
    pub(crate) pace: Pace,
    /// The backend of its rail, and what goes with it.
    pub(crate) rail: &'a str,
    pub(crate) arena_bytes: u64,
}

/// How fast agents may expect each other to be.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// `mesh.size`.
    size: &'static str,
    /// Part of `[probe]`.
    probe: &'static str,
}

impl Pace {
    pub(crate) const USUAL: Self = Self { size: "local", probe: "interval = \"50ms\"" };
    /// On an emulated machine members would be taken for dead, and probes would be all that it does.
    pub(crate) const EMULATED: Self = Self { size: "wan", probe: "interval = \"250ms\"\nbulk = \"1MiB\"" };
}

const MOCK: &str = "backend = \"mock\"";

impl Setup<'_> {
    pub(crate) const PREFILL: Self = Self {
        first: false,
        decode: None,
        api: "",
        tls: None,
        more: "",
        pace: Pace::USUAL,
        rail: MOCK,
        arena_bytes: 4 << 20,
    };
    pub(crate) const DECODE: Self = Self { first: true, decode: Some("max_sessions = 4"), ..Self::PREFILL };
}

/// One agent; killed when it is dropped.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) api: SocketAddr,
    pub(crate) client: Client,
    pub(crate) config: PathBuf,
    log: PathBuf,
    env: Vec<(String, String)>,
    child: Child,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), seed: ports::free() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) async fn start(&self, name: &str, setup: Setup<'_>) -> Process {
        self.start_with(name, setup, &[]).await
    }

    /// Starts an agent with more in its environment, and waits until it answers.
    pub(crate) async fn start_with(&self, name: &str, setup: Setup<'_>, env: &[(&str, &str)]) -> Process {
        let process = self.spawn(name, setup, env);
        process.answers().await;
        process
    }

    /// Starts an agent that may not come to answer.
    pub(crate) fn spawn(&self, name: &str, setup: Setup<'_>, env: &[(&str, &str)]) -> Process {
        self.spawn_into(name, setup, env, &self.path().join(format!("{name}.log")))
    }

    /// As [`spawn`](Self::spawn), with its log written there.
    pub(crate) fn spawn_into(&self, name: &str, setup: Setup<'_>, env: &[(&str, &str)], log: &Path) -> Process {
        let api = ports::free();
        let config = self.path().join(format!("{name}.toml"));
        std::fs::write(&config, self.text(name, api, setup)).unwrap();
        let env: Vec<_> = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let child = launch(&config, log, &env);
        let client = Client::new(&format!("http://{api}"), None).unwrap();
        Process { name: name.to_owned(), api, client, config, log: log.to_owned(), env, child }
    }

    fn text(&self, name: &str, api: SocketAddr, setup: Setup<'_>) -> String {
        let dir = self.path().display();
        let (mesh, seeds) = match setup.first {
            true => (self.seed, String::new()),
            false => (ports::free(), format!("\"{}\"", self.seed)),
        };
        let role = if setup.decode.is_some() { "decode" } else { "prefill" };
        let bytes = setup.arena_bytes;
        let decode = setup.decode.map_or(String::new(), |part| {
            format!("[decode]\npool = \"pool-{name}\"\nkv_bytes = \"{bytes}B\"\n{part}\n")
        });
        let tls = setup.tls.map_or(format!("dev = true\ndev_dir = \"{dir}/ca\""), str::to_owned);
        let Setup { api: api_part, more, pace: Pace { size, probe }, rail: backend, .. } = setup;
        let rail = ports::free();
        format!(
            "[node]\nname = \"{name}\"\nroles = [\"{role}\"]\ndata_dir = \"{dir}/{name}\"\n\
             [mesh]\nbind = \"{mesh}\"\nseeds = [{seeds}]\nsize = \"{size}\"\n[tls]\n{tls}\n\
             [api]\nbind = \"{api}\"\n{api_part}\n\
             [[rails]]\nname = \"r0\"\nbind = \"{rail}\"\nbandwidth_gbps = 8\n{backend}\n\
             [probe]\n{probe}\n[arena]\npath = \"{dir}/{name}.arena\"\nsize = \"{bytes}B\"\n{decode}{more}\n"
        )
    }
}

fn launch(config: &Path, log: &Path, env: &[(String, String)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_seam-agent"))
        .args(["--log-format", "json", "--config"])
        .arg(config)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUST_LOG")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::options().create(true).append(true).open(log).unwrap())
        .spawn()
        .unwrap()
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL, and gone when this returns.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The same name, files and addresses once more, after the process has ended.
    pub(crate) async fn restart(&mut self) {
        self.relaunch();
        self.answers().await;
    }

    /// As [`restart`](Self::restart), for one that may not come to answer.
    pub(crate) fn relaunch(&mut self) {
        assert!(!self.runs(), "{} still runs", self.name);
        self.child = launch(&self.config, &self.log, &self.env);
        self.client = Client::new(&format!("http://{}", self.api), None).unwrap();
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < patience(), "{} does not end:\n{}", self.name, self.log());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether the process has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) async fn answers(&self) {
        until(&format!("{} answers", self.name), async || tokio::net::TcpStream::connect(self.api).await.is_ok()).await;
    }

    /// Everything that was logged, all lives.
    pub(crate) fn log(&self) -> String {
        if !self.log.is_file() {
            return "its log is no file".to_owned();
        }
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The configuration file with a part of it replaced.
    pub(crate) fn rewrite(&self, from: &str, to: &str) {
        let before = std::fs::read_to_string(&self.config).unwrap();
        assert!(before.contains(from), "{from} is not in\n{before}");
        std::fs::write(&self.config, before.replacen(from, to, 1)).unwrap();
    }

    /// Its anonymous memory in use, in bytes.
    pub(crate) fn rss_anon(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count() as u64
    }

    pub(crate) async fn status(&self) -> Status {
        self.client.get("/v1/status").await.unwrap()
    }

    pub(crate) async fn leases(&self) -> Vec<LeaseLine> {
        self.client.get("/v1/leases").await.unwrap()
    }

    /// What this agent says of a member, if it knows it as alive.
    pub(crate) async fn alive(&self, node: &str) -> Option<MemberLine> {
        let members: Vec<MemberLine> = self.client.get("/v1/members").await.unwrap();
        members.into_iter().find(|member| member.node.as_str() == node && member.state == "alive")
    }

    /// The value of a series, as it stands in the metrics.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.client.text("/metrics").await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned))?;
        value.parse().ok()
    }

    /// Waits until this host has a whole window of samples of each path and all are healthy.
    pub(crate) async fn settled(&self, paths: usize) {
        until(&format!("{}: {paths} healthy paths", self.name), async || {
            let lines: Vec<PathLine> = self.client.get("/v1/paths").await.unwrap();
            lines.len() == paths
                && lines.iter().all(|l| l.health.sample_count >= 10 && l.health.state == PathState::Healthy)
        })
        .await;
    }

    pub(crate) async fn route(&self, request: &RouteRequest) -> Result<DecisionRecord, ClientError> {
        self.client.post("/v1/route", request).await
    }

    /// Routes until a lease is granted.
    pub(crate) async fn leased(&self, request: &RouteRequest) -> LeaseId {
        let mut lease = None;
        until(&format!("{} is granted a lease", self.name), async || {
            lease = self.route(request).await.unwrap().lease;
            lease.is_some()
        })
        .await;
        lease.unwrap().id
    }

    pub(crate) async fn transfer(&self, lease: &LeaseId, bytes: u64) -> Result<TransferReport, ClientError> {
        let blocks = vec![Extent { offset: 0, bytes }];
        self.client.post("/v1/transfers", &TransferRequest { lease: lease.clone(), blocks, chunk: None }).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.name, self.log());
        }
    }
}
