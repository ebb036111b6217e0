//! Real agents for benchmarks: child processes of the release `seam-agent` on loopback, ended when
//! they are dropped, and what the system says of their cost.
#![allow(dead_code, reason = "each benchmark uses a part")]

#[path = "../../tests/agents/ports.rs"]
mod ports;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long an agent may take to start, join or stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clock ticks of `/proc/PID/stat` in a second; fixed on Linux.
const TICKS_PER_S: f64 = 100.0;
/// The arena of every agent, in MiB.
const ARENA_MIB: u32 = 64;

/// Agents of one mesh.
pub struct Mesh {
    dir: TempDir,
    seed: SocketAddr,
    size: &'static str,
}

/// One of them.
pub struct Agent {
    pub name: String,
    pub api: SocketAddr,
    child: Child,
}

impl Mesh {
    pub fn new(size: &'static str) -> Self {
        Self { dir: TempDir::new().unwrap(), seed: ports::free(), size }
    }

    /// A decode host with very many sessions. The first agent of a mesh is the others' seed.
    pub fn decode(&self, name: &str, first: bool) -> Agent {
        let decode = format!("[decode]\npool = \"pool\"\nmax_sessions = 60000\nkv_bytes = \"{ARENA_MIB}MiB\"\n");
        self.start(name, "decode", first, 1, &decode)
    }

    /// A prefill host with `rails` paths to every decode host.
    pub fn prefill(&self, name: &str, rails: usize) -> Agent {
        self.start(name, "prefill", false, rails, "")
    }

    fn start(&self, name: &str, role: &str, first: bool, rails: usize, decode: &str) -> Agent {
        let dir = self.dir.path();
        let (api, mesh) = (ports::free(), if first { self.seed } else { ports::free() });
        let seeds = if first { String::new() } else { format!("\"{}\"", self.seed) };
        let mut text = format!(
            r#"
            [node]
            name = "{name}"
            roles = ["{role}"]
            data_dir = "{data}"
            [mesh]
            bind = "{mesh}"
            seeds = [{seeds}]
            size = "{size}"
            [tls]
            dev = true
            dev_dir = "{ca}"
            [api]
            bind = "{api}"
            [arena]
            path = "{arena}"
            size = "{ARENA_MIB}MiB"
            {decode}
            "#,
            size = self.size,
            data = dir.join(name).display(),
            ca = dir.join("ca").display(),
            arena = dir.join(format!("{name}.arena")).display(),
        );
        for rail in 0..rails {
            write!(text, "[[rails]]\nname = \"rail{rail}\"\nbind = \"127.0.0.1:0\"\nbandwidth_gbps = 10.0\n").unwrap();
        }
        let config = dir.join(format!("{name}.toml"));
        std::fs::write(&config, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_seam-agent"))
            .arg("--config")
            .arg(&config)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Agent { name: name.to_owned(), api, child };
        until(&format!("{name} answers"), || TcpStream::connect(api).is_ok());
        agent
    }
}

impl Agent {
    /// The body of `GET path`.
    pub fn get(&self, path: &str) -> String {
        self.call(&format!("GET {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n"))
    }

    /// The body of `POST path`.
    pub fn post(&self, path: &str, body: &str) -> String {
        self.call(&format!(
            "POST {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn call(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.api).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time so far, in seconds, user and system together.
    pub fn cpu_s(&self) -> f64 {
        cpu_s(self.pid())
    }

    /// Anonymous memory in use, in bytes.
    pub fn rss_anon(&self) -> u64 {
        let status = std::fs::read_to_string(proc(self.pid(), "status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A benchmark keeps nothing: there is nothing to drain.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process so far, in seconds.
pub fn cpu_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(proc(pid, "stat")).unwrap();
    // The name in parentheses may contain anything; utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_S
}

/// The load of the machine over the last minute.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Waits for something that must become true.
pub fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ask() {
        assert!(start.elapsed() < PATIENCE, "still not true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn proc(pid: u32, file: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(file)
}
