//! A load generator: keep-alive HTTP/1.1 connections on loopback, each with one request under way,
//! until the time is over.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of one answer at most.
const MAX_ANSWER: usize = 1 << 20;

/// How long each measured request took, over what time, and how many leases were wanted in vain.
pub struct Load {
    pub latencies_us: Vec<u32>,
    pub elapsed: Duration,
    pub unleased: u64,
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
    let (mut latencies_us, mut unleased) = (Vec::new(), 0);
    for worker in workers {
        let (latencies, in_vain) = worker.await.unwrap();
        latencies_us.extend(latencies);
        unleased += in_vain;
    }
    latencies_us.sort_unstable();
    Load { latencies_us, elapsed: start.elapsed(), unleased }
}

async fn worker(server: SocketAddr, script: Script, end: Instant) -> (Vec<u32>, u64) {
    let mut connection = Connection::open(server).await;
    let (mut latencies_us, mut unleased) = (Vec::new(), 0);
    loop {
        let start = Instant::now();
        if start >= end {
            return (latencies_us, unleased);
        }
        let answer = connection.call(&script.request).await;
        latencies_us.push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
        if script.releases {
            let Some(lease) = lease_of(answer) else {
                unleased += 1;
                continue;
            };
            let release = format!("DELETE /v1/leases/{lease} HTTP/1.1\r\nhost: agent\r\n\r\n");
            connection.call(release.as_bytes()).await;
        }
    }
}

/// The name of the lease in a decision record, if there is one.
fn lease_of(answer: &[u8]) -> Option<&str> {
    const BEFORE: &[u8] = br#""lease":{"id":""#;
    let rest = &answer[find(answer, BEFORE)? + BEFORE.len()..];
    std::str::from_utf8(&rest[..find(rest, b"\"")?]).ok()
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
