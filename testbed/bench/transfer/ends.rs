//! The two ends of what is measured: the sender here, the receiver in a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seam::arena::Arena;
use seam::model::{Extent, LeaseId, NodeName};
use seam::net::{EndpointOptions, NodeIdentity};
use seam::transport::fabric::{Fabric, FabricRail, Link, Piece};
use seam::transport::quic::QuicRail;
use seam::transport::{Backend, BoxFuture, Landing, Peer, Write};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The word that makes this program the receiver.
pub(crate) const RECEIVER: &str = "receiver";
/// The node that receives.
const RECEIVES: &str = "d";
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Quic,
    #[cfg(feature = "nixl")]
    Nixl,
    #[cfg(feature = "ucx")]
    Ucx,
}

impl Kind {
    /// Those that this build has and this host can.
    pub(crate) fn here() -> Vec<Self> {
        #[allow(unused_mut, reason = "a build may have no more")]
        let mut here = vec![Self::Quic];
        #[cfg(feature = "nixl")]
        match seam::transport::nixl::find(super::plain::nixl_library().as_deref()) {
            Ok(_) => here.push(Self::Nixl),
            Err(error) => eprintln!("skipped: {error}"),
        }
        #[cfg(feature = "ucx")]
        match seam::transport::ucx::find(None) {
            Ok(_) => here.push(Self::Ucx),
            Err(error) => eprintln!("skipped: {error}"),
        }
        here
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            #[cfg(feature = "nixl")]
            Self::Nixl => "nixl",
            #[cfg(feature = "ucx")]
            Self::Ucx => "ucx",
        }
    }

    /// The library with the arena registered; none where QUIC moves the bytes. As in an agent, only a decode
    /// host `receives`.
    fn fabric(self, node: &NodeName, receives: bool, arena: &Arc<Arena>) -> Option<Arc<dyn Fabric>> {
        let _ = (node, receives, arena);
        match self {
            Self::Quic => None,
            #[cfg(feature = "nixl")]
            Self::Nixl => {
                let library = super::plain::nixl_library();
                let config = seam::transport::nixl::NixlConfig { library, ..Default::default() };
                Some(Arc::new(seam::transport::nixl::Nixl::start(node, &config, receives, Arc::clone(arena)).unwrap()))
            }
            #[cfg(feature = "ucx")]
            Self::Ucx => {
                let expected = seam::transport::ucx::Expected { rail: "bench".to_owned(), bandwidth_gbps: 1.0 };
                let ucx = seam::transport::ucx::Ucx::start(&Default::default(), receives, expected, Arc::clone(arena));
                Some(Arc::new(ucx.unwrap()))
            }
        }
    }
}

/// Lets everything land at the arena's start.
struct Anything(u64);

impl Landing for Anything {
    fn open<'a>(&'a self, _: &'a LeaseId, _: &'a NodeName, _: u64) -> BoxFuture<'a, Result<Vec<Extent>, String>> {
        Box::pin(async { Ok(vec![Extent { offset: 0, bytes: self.0 }]) })
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

struct End {
    backend: Box<dyn Backend>,
    fabric: Option<Arc<dyn Fabric>>,
    runtime: Runtime,
}

impl End {
    fn start(kind: Kind, name: &str, dir: &Path, bytes: u64) -> Self {
        let node: NodeName = name.parse().unwrap();
        let identity = NodeIdentity::dev("bench", &node, dir).unwrap();
        let arena = Arc::new(Arena::anonymous(bytes).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (any, landing) = ("127.0.0.1:0".parse().unwrap(), Arc::new(Anything(bytes)));
        let fabric = kind.fabric(&node, name == RECEIVES, &arena);
        let within = runtime.enter();
        let backend: Box<dyn Backend> = match &fabric {
            None => Box::new(QuicRail::start(any, &identity, arena, landing).unwrap()),
            Some(fabric) => {
                let (options, fabric) = (EndpointOptions::default(), Arc::clone(fabric));
                Box::new(FabricRail::start(any, &identity, options, fabric, arena, landing).unwrap())
            }
        };
        drop(within);
        Self { backend, fabric, runtime }
    }
}

/// The receiver: says its address, then answers greetings of links that no session has, until its input ends.
pub(crate) fn receive(words: &[String]) {
    let (kind, dir, bytes) = (&words[0], &words[1], &words[2]);
    let kind = Kind::here().into_iter().find(|known| known.name() == kind).unwrap();
    let end = End::start(kind, RECEIVES, Path::new(dir), bytes.parse().unwrap());
    println!("{}", end.backend.address());
    let mut entries = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let greeting = from_hex(&line);
        let peer: NodeName = "p".parse().unwrap();
        let welcome = end.runtime.block_on(end.fabric.as_ref().unwrap().welcome(&peer, greeting)).unwrap();
        println!("{}", hex(&welcome.words));
        entries.push(welcome.entry);
    }
    end.runtime.block_on(end.backend.close());
}

fn hex(bytes: &[u8]) -> String {
    // A dot first, so that no bytes are a line too.
    std::iter::once(".".to_owned()).chain(bytes.iter().map(|byte| format!("{byte:02x}"))).collect()
}

fn from_hex(line: &str) -> Vec<u8> {
    let digits = line.strip_prefix('.').unwrap().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The sender, and the process that it sends to.
pub(crate) struct Sender {
    pub(crate) kind: Kind,
    end: End,
    peer: Peer,
    /// The library's own link, beside those of the rail.
    link: Option<Arc<dyn Link>>,
    receiver: Mutex<(Child, Option<ChildStdin>, BufReader<ChildStdout>)>,
}

impl Sender {
    pub(crate) fn start(kind: Kind, dir: &Path, bytes: u64) -> std::io::Result<Self> {
        let end = End::start(kind, "p", dir, bytes);
        let mut child = Command::new(std::env::current_exe()?)
            .args([RECEIVER, kind.name()])
            .arg(dir)
            .arg(bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| line.trim().to_owned())
        };
        let peer = Peer { node: RECEIVES.parse().unwrap(), address: line()? };
        let link = match &end.fabric {
            None => None,
            Some(fabric) => {
                let greeting = end.runtime.block_on(fabric.greet(&peer.node)).unwrap();
                writeln!(input, "{}", hex(&greeting.words))?;
                let welcome = from_hex(&line()?);
                Some(end.runtime.block_on(greeting.opening.connect(welcome)).unwrap())
            }
        };
        Ok(Self { kind, end, peer, link, receiver: Mutex::new((child, Some(input), output)) })
    }

    /// Puts by the library alone, `at_once` of them under way, without a lease or a hash; none where there is
    /// no library. GB/s.
    pub(crate) fn put(&self, bytes: u64, at_once: u64) -> Option<f64> {
        let link = self.link.as_ref()?;
        let (runtime, begun) = (&self.end.runtime, Instant::now());
        // As many as `ucx_perftest` is told to make, where more than one is under way.
        let each = if at_once == 1 { 1 } else { super::plain::puts(bytes) / at_once };
        let puts: Vec<_> = (0..at_once)
            .map(|_| {
                let link = Arc::clone(link);
                runtime.spawn(async move {
                    for _ in 0..each {
                        let pieces = vec![Piece { local: 0, remote: 0, bytes }];
                        link.put(pieces, None, LIMIT, &CancellationToken::new()).await.result.unwrap();
                    }
                })
            })
            .collect();
        puts.into_iter().for_each(|put| runtime.block_on(put).unwrap());
        Some(gb_per_s(bytes * at_once * each, begun.elapsed()))
    }

    /// A write into a lease, hashed at both ends. GB/s.
    pub(crate) fn write(&self, bytes: u64) -> f64 {
        let lease = LeaseId { node: self.peer.node.clone(), generation: 1, number: 1 };
        let blocks = vec![Extent { offset: 0, bytes }].into();
        let write = self.end.backend.write(&self.peer, Write { lease, blocks, deadline: LIMIT });
        gb_per_s(bytes, self.end.runtime.block_on(write).unwrap().elapsed)
    }

    pub(crate) fn probe_us(&self) -> f64 {
        let probe = self.end.backend.probe(&self.peer, 64, LIMIT);
        self.end.runtime.block_on(probe).unwrap().as_secs_f64() * 1e6
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let (child, input, _) = &mut *self.receiver.lock().unwrap();
        // The receiver ends with its input.
        input.take();
        child.wait().unwrap();
    }
}

pub(crate) fn gb_per_s(bytes: u64, elapsed: Duration) -> f64 {
    bytes as f64 / elapsed.as_secs_f64() / 1e9
}
