//! A load generator: keep-alive HTTP/1.1 connections on loopback, each with one request under way,
//! until the time is over.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of one answer at most.
const MAX_ANSWER: usize = 1 << 20;

/// How long each measured request took, and over what time.
pub struct Load {
    pub latencies_us: Vec<u32>,
    pub elapsed: Duration,
}

/// What one connection does again and again.
#[derive(Clone)]
pub struct Script {
    /// The request that is measured.
    pub request: Vec<u8>,
    /// Whether the lease that came with the answer is handed back before the next request.
    pub releases: bool,
}

impl Script {
    pub fn post(path: &str, body: &str, releases: bool) -> Self {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Self { request: request.into_bytes(), releases }
    }
}

/// Runs the script on `connections` connections to `server` for `time`.
pub async fn run(server: SocketAddr, script: &Script, connections: usize, time: Duration) -> Load {
    let start = Instant::now();
    let workers: Vec<_> =
        (0..connections).map(|_| tokio::spawn(worker(server, script.clone(), start + time))).collect();
    let mut latencies_us = Vec::new();
    for worker in workers {
        latencies_us.extend(worker.await.unwrap());
    }
    latencies_us.sort_unstable();
    Load { latencies_us, elapsed: start.elapsed() }
}

async fn worker(server: SocketAddr, script: Script, end: Instant) -> Vec<u32> {
    let mut connection = Connection::open(server).await;
    let mut latencies_us = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return latencies_us;
        }
        let answer = connection.call(&script.request).await;
        latencies_us.push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
        if script.releases {
            let release = format!("DELETE /v1/leases/{} HTTP/1.1\r\nhost: agent\r\n\r\n", lease_of(answer));
            connection.call(release.as_bytes()).await;
        }
    }
}

/// The name of the lease in a decision record.
fn lease_of(answer: &[u8]) -> &str {
    const BEFORE: &[u8] = br#""lease":{"id":""#;
    let at = find(answer, BEFORE).unwrap_or_else(|| panic!("no lease in {}", String::from_utf8_lossy(answer)));
    let rest = &answer[at + BEFORE.len()..];
    std::str::from_utf8(&rest[..find(rest, b"\"").unwrap()]).unwrap()
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(64 * 1024) }
    }

    /// Sends a request and waits for its answer, which must be a 200 of known length.
    async fn call(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).await.unwrap();
        self.buffer.clear();
        let mut whole = None;
        loop {
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "the server hung up");
            whole = whole.or_else(|| body_range(&self.buffer));
            if let Some((body, end)) = whole
                && self.buffer.len() >= end
            {
                return &self.buffer[body..end];
            }
        }
    }
}

/// Where the body of an answer starts and ends, once its head is there.
fn body_range(answer: &[u8]) -> Option<(usize, usize)> {
    let head = find(answer, b"\r\n\r\n")?;
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    assert!(length <= MAX_ANSWER);
    Some((head + 4, head + 4 + length))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
