//! What the backends are set beside.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ends::gb_per_s;

pub(crate) const TCP: &str = "TCP, one stream";
pub(crate) const NIXL: &str = "NIXL alone";
pub(crate) const UCX: &str = "ucx_perftest put";
pub(crate) const UCX_AT_ONCE: &str = "ucx_perftest put, 8 at once";
/// Puts under way at once where it is more than one.
pub(crate) const AT_ONCE: u64 = 8;
/// Writes of each size by a library alone, in each round.
const TIMES: &str = "5";

/// The load of this machine over the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The libraries of NIXL's wheel, if they are said.
pub(crate) fn nixl_library() -> Option<PathBuf> {
    std::env::var_os("SEAM_NIXL_LIBRARY").map(Into::into)
}

/// One turn of what needs no library.
pub(crate) fn round(bytes: u64) -> Vec<(&'static str, f64)> {
    let payload = vec![7; usize::try_from(bytes).unwrap()];
    let mut sink = vec![1; payload.len()];
    let tcp = tcp(&payload, &mut sink);
    let begun = Instant::now();
    sink.copy_from_slice(&payload);
    std::hint::black_box(&mut sink);
    let copy = gb_per_s(bytes, begun.elapsed());
    let begun = Instant::now();
    std::hint::black_box(blake3::hash(&payload));
    vec![(TCP, tcp), ("memcpy", copy), ("BLAKE3, one thread", gb_per_s(bytes, begun.elapsed()))]
}

fn tcp(payload: &[u8], sink: &mut [u8]) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(payload).unwrap());
        server.read_exact(sink).unwrap();
    });
    gb_per_s(payload.len() as u64, begun.elapsed())
}

/// One turn of each library with nothing around it, for every size.
pub(crate) fn libraries(sizes: &[u64]) -> Vec<(&'static str, u64, f64)> {
    let mut found = Vec::new();
    if cfg!(feature = "nixl")
        && let Some(site) = nixl_library().and_then(|path| path.parent().map(PathBuf::from))
    {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testbed/bench/bare/nixl.py");
        let sizes = sizes.iter().map(u64::to_string);
        // The plugins of Debian's libibverbs crash it at its exit.
        let run =
            Command::new("python3").arg(script).arg(site).arg(TIMES).args(sizes).env("UCX_MODULES", "^ib").output();
        let run = run.unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        for line in String::from_utf8_lossy(&run.stdout).lines() {
            let (bytes, gb_per_s) = line.split_once(' ').unwrap();
            found.push((NIXL, bytes.parse().unwrap(), gb_per_s.parse().unwrap()));
        }
    }
    for (name, at_once) in [(UCX, 1), (UCX_AT_ONCE, AT_ONCE)] {
        found.extend(sizes.iter().filter_map(|bytes| Some((name, *bytes, perftest(*bytes, at_once)?))));
    }
    found
}

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many puts of a size are made in a row.
pub(crate) fn puts(bytes: u64) -> u64 {
    (128 * 1024 * 1024 / bytes).clamp(8, 1_000) / AT_ONCE * AT_ONCE
}

/// `ucx_perftest`'s puts of one size, so many under way; none where there is no such program. GB/s.
fn perftest(bytes: u64, at_once: u64) -> Option<f64> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
    let start = |more: &[&str]| {
        let mut command = Command::new("ucx_perftest");
        command.args(["-p", &port]).args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn()
    };
    let _server = Server(start(&[]).ok()?);
    let (size, times, at_once) = (bytes.to_string(), puts(bytes).to_string(), at_once.to_string());
    let until = Instant::now() + Duration::from_secs(10);
    // It says nowhere that it listens.
    while Instant::now() < until {
        let client = ["-t", "ucp_put_bw", "-s", &size, "-n", &times, "-w", "2", "-O", &at_once, "-f", "127.0.0.1"];
        let run = start(&client).unwrap().wait_with_output().unwrap();
        if run.status.success() {
            let text = String::from_utf8_lossy(&run.stdout).into_owned();
            let last = text.lines().rfind(|line| line.split_whitespace().all(|word| word.parse::<f64>().is_ok()))?;
            // Iterations, three latencies, then the bandwidth on average and overall, in MB (of 2^20) a second.
            let numbers: Vec<f64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            return numbers.get(5).map(|mb| mb * 1024.0 * 1024.0 / 1e9);
        }
    }
    None
}
