//! How fast a rail moves bytes on loopback, beside plain TCP in the same minutes: five interleaved
//! rounds, medians. Run with `cargo bench --bench transfer`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use seam::arena::Arena;
use seam::model::{Extent, LeaseId, NodeName};
use seam::net::NodeIdentity;
use seam::transport::quic::QuicRail;
use seam::transport::{Backend as _, BoxFuture, Landing, Peer, Write};

const BYTES: u64 = 64 * 1024 * 1024;
const ROUNDS: usize = 5;
const PROBES: usize = 2_000;
const LIMIT: Duration = Duration::from_secs(60);

/// Lets everything land at the arena's start.
struct Anything;

impl Landing for Anything {
    fn open<'a>(&'a self, _: &'a LeaseId, _: &'a NodeName, _: u64) -> BoxFuture<'a, Result<Vec<Extent>, String>> {
        Box::pin(async { Ok(vec![Extent { offset: 0, bytes: BYTES }]) })
    }

    fn delivered<'a>(&'a self, _: &'a LeaseId, _: u64, _: [u8; 32]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn unfinished<'a>(&'a self, _lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn quiet<'a>(&'a self, _: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

fn rail(name: &str, dir: &std::path::Path) -> (QuicRail, Peer) {
    let node: NodeName = name.parse().unwrap();
    let identity = NodeIdentity::dev("bench", &node, dir).unwrap();
    let arena = Arc::new(Arena::anonymous(BYTES).unwrap());
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let rail = QuicRail::start(any, &identity, arena, Arc::new(Anything)).unwrap();
    let address = rail.address();
    (rail, Peer { node, address })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn gb_per_s(elapsed: Duration) -> f64 {
    BYTES as f64 / elapsed.as_secs_f64() / 1e9
}

fn tcp_round(payload: &[u8], sink: &mut [u8]) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(payload).unwrap());
        server.read_exact(sink).unwrap();
    });
    gb_per_s(started.elapsed())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    let (sender, _) = ours.block_on(async { rail("p", dir.path()) });
    let (_receiver, peer) = theirs.block_on(async { rail("d", dir.path()) });
    let payload = vec![7; usize::try_from(BYTES).unwrap()];
    let mut sink = payload.clone();

    let write = || {
        let lease = LeaseId { node: peer.node.clone(), generation: 1, number: 1 };
        let blocks = vec![Extent { offset: 0, bytes: BYTES }].into();
        let written = sender.write(&peer, Write { lease, blocks, deadline: LIMIT });
        gb_per_s(ours.block_on(written).unwrap().elapsed)
    };
    write();
    let (mut quic, mut tcp): (Vec<_>, Vec<_>) = (0..ROUNDS).map(|_| (write(), tcp_round(&payload, &mut sink))).unzip();
    let started = Instant::now();
    let hash = blake3::hash(&payload);
    let hashing = gb_per_s(started.elapsed());
    let mut probes: Vec<f64> =
        (0..PROBES).map(|_| ours.block_on(sender.probe(&peer, 64, LIMIT)).unwrap().as_secs_f64() * 1e6).collect();
    probes.sort_by(f64::total_cmp);
    println!("write of 64 MiB, hashed at both ends  {:6.2} GB/s  {quic:.2?}", median(&mut quic));
    println!("plain TCP, one stream                 {:6.2} GB/s  {tcp:.2?}", median(&mut tcp));
    println!("hashing alone, one thread             {hashing:6.2} GB/s  ({})", hash.to_hex());
    println!("probe of 64 B: p50 {:.0} µs, p99 {:.0} µs", probes[PROBES / 2], probes[PROBES * 99 / 100]);
}
