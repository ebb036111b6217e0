//! A decode agent that is killed in the middle of a transfer: processes, signals, loopback.

#[path = "agents/world.rs"]
#[allow(dead_code, reason = "each test file uses its own part of the world")]
mod world;

use std::process::{Child, Command, Stdio};

use seam::api::TransferResult;
use seam::arena::Arena;
use seam::policy::record::DecisionRecord;
use world::{Terms, World, request, until};

const ARENA: u64 = 256 << 20;

/// An agent of its own process; killed if the test fails.
struct Process(Child);

impl Process {
    fn start(world: &World, name: &str) -> Self {
        let terms = Terms { arena_bytes: ARENA, ..Terms::default() };
        let (text, _) = world.config(name, "decode", &world::decode_section(name, terms), terms);
        let path = world.path().join(format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_seam-agent"))
            .arg("--config")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// SIGKILL, and gone when this returns.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_host_is_killed_fails_over_within_its_budget_and_both_attempts_are_recorded() {
    let mut world = World::new();
    // A budget that a busy machine can keep: half of it is for the first attempt.
    let more = "[transfer]\nbudget = \"40s\"\n";
    let p0 = world.prefill("p0", Terms { arena_bytes: ARENA, more, ..Terms::default() }).await;
    let mut hosts = [Process::start(&world, "d0"), Process::start(&world, "d1")];
    p0.settled(2).await;
    let pattern: Vec<u8> = (0..ARENA).map(|i| (i % 251) as u8).collect();
    p0.write(ARENA, 0, &pattern);
    let mut events = p0.client.events("/v1/events").await.unwrap();

    let first = p0.route(&request("batch", ARENA)).await.unwrap();
    let lease = first.lease.clone().unwrap().id;
    let victim = usize::from(lease.node.as_str() == "d1");
    let landing = first.lease.clone().unwrap().extents[0];
    let kill = async {
        // In the middle of the transfer: its first bytes have landed, none is confirmed.
        let arena = Arena::open(&world.path().join(format!("{}.arena", lease.node)), ARENA).unwrap();
        until("bytes land", async || {
            let mut head = [0; 1000];
            arena.read_into(landing.offset, &mut head).unwrap();
            head == pattern[..1000]
        })
        .await;
        hosts[victim].kill();
    };
    let blocks = [(0, ARENA)];
    let (report, ()) = tokio::join!(p0.transfer(&lease, &blocks), kill);
    let report = report.unwrap();

    assert_eq!(report.result, TransferResult::Delivered, "{report:?}");
    assert_eq!(report.attempts.len(), 2, "{report:?}");
    assert_eq!(report.attempts[0].result, TransferResult::Failed);
    assert_ne!(report.attempts[0].path.destination, report.attempts[1].path.destination);
    assert!(report.elapsed_ms < 40_000.0);
    assert_eq!(report.hash.as_deref(), Some(blake3::hash(&pattern).to_hex().as_str()));
    let second: DecisionRecord =
        p0.client.get(&format!("/v1/decisions/{}", report.attempts[1].decision)).await.unwrap();
    assert_eq!((second.attempt, second.parent.as_ref()), (2, Some(&first.id)));
    let failed = second.candidates.iter().find(|c| c.target.node.as_ref() == Some(&lease.node));
    // The host may have left the view already; while it is in it, the record says what happened.
    if let Some(failed) = failed {
        assert!(failed.detail.as_ref().is_some_and(|detail| detail.contains("attempt 1 of this request failed here")));
    }
    until("the event of the transfer", async || {
        let event = events.next().await.unwrap().unwrap();
        event.data.contains("\"kind\":\"transfer\"") && event.data.contains("\"delivered\"")
    })
    .await;
    p0.agent.shutdown().await;
}
