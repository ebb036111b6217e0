//! What agents do alike whose bytes a library moves, whichever it is.

use std::time::Duration;

use rustix::process::Signal;
use seam::api::{TransferReport, TransferRequest, TransferResult};
use seam::arena::Arena;
use seam::model::{Extent, LeaseId};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::process::{Pace, Process, Setup, Site, request, until};

/// Agents measure time: two sites at once would disturb each other.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// What differs between libraries.
pub(crate) struct Kit<'a> {
    /// What is sent at most: all of a prefill host's arena. A decode host has room for two, since one that was asked
    /// in vain counts as used until its next word.
    pub(crate) large: u64,
    /// The rails of a node, from the first one's backend on.
    pub(crate) rail: &'a dyn Fn(&str) -> String,
    /// Further sections of the prefill host.
    pub(crate) more: &'a str,
    pub(crate) pace: Pace,
}

fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// Why its first attempt failed.
pub(crate) fn why(report: &TransferReport) -> String {
    report.attempts[0].error.clone().unwrap_or_default()
}

pub(crate) async fn moved(p0: &Process, lease: &LeaseId, blocks: Vec<Extent>) -> TransferReport {
    p0.client.post("/v1/transfers", &TransferRequest { lease: lease.clone(), blocks, chunk: None }).await.unwrap()
}

impl Kit<'_> {
    fn arena(&self, site: &Site, node: &str) -> Arena {
        let bytes = if node.starts_with('d') { 2 * self.large } else { self.large };
        Arena::open(&site.path().join(format!("{node}.arena")), bytes).unwrap()
    }

    /// Decode hosts and a prefill host, all ready.
    pub(crate) async fn start(&self, site: &Site, hosts: &[&str], paths: usize) -> (Vec<Process>, Process) {
        let rails: Vec<String> = hosts.iter().map(|host| (self.rail)(host)).collect();
        let mut started = Vec::new();
        for (host, rail) in hosts.iter().zip(&rails) {
            let decode = Setup {
                arena_bytes: 2 * self.large,
                rail,
                first: started.is_empty(),
                pace: self.pace,
                ..Setup::DECODE
            };
            started.push(site.start(host, decode).await);
        }
        let rail = (self.rail)("p0");
        let prefill =
            Setup { arena_bytes: self.large, rail: &rail, pace: self.pace, more: self.more, ..Setup::PREFILL };
        let p0 = site.start("p0", prefill).await;
        p0.settled(paths).await;
        self.arena(site, "p0").write(0, &pattern(self.large)).unwrap();
        (started, p0)
    }

    /// Moves blocks of each count and size, and compares what has arrived.
    pub(crate) async fn scattered_blocks_arrive_as_they_were(&self, cases: &[(u64, u64)]) {
        let site = Site::new();
        let (_hosts, p0) = self.start(&site, &["d0", "d1"], 2).await;
        assert!(p0.log().contains("the rail's bytes are moved by a library"), "{}", p0.log());
        for &(count, bytes) in cases {
            let blocks: Vec<Extent> = (0..count).map(|at| Extent { offset: at * (bytes + 13) + 5, bytes }).collect();
            let granted = p0.route(&request("batch", count * bytes)).await.unwrap();
            let lease = granted.lease.clone().unwrap_or_else(|| panic!("{granted:?}"));
            let report = moved(&p0, &lease.id, blocks.clone()).await;
            assert_eq!(report.result, TransferResult::Delivered, "{count} of {bytes}: {report:?}");
            let source = pattern(self.large);
            let sent: Vec<u8> = blocks
                .iter()
                .flat_map(|block| &source[block.offset as usize..(block.offset + block.bytes) as usize])
                .copied()
                .collect();
            let hash = self.arena(&site, lease.id.node.as_str()).hash(&lease.extents, count * bytes).unwrap();
            assert_eq!(hash, *blake3::hash(&sent).as_bytes(), "{count} of {bytes}");
            p0.client.delete::<seam::api::Done>(&format!("/v1/leases/{}", lease.id)).await.unwrap();
        }
    }

    /// Stops the sender of a transfer under way for so long that it must not go on with it.
    pub(crate) async fn a_sender_that_stood_still_under_way_does_not_go_on(&self) {
        let site = Site::new();
        let (_hosts, p0) = self.start(&site, &["d0", "d1"], 2).await;
        let granted = p0.route(&request("batch", self.large)).await.unwrap().lease.unwrap();
        let (lease, landing) = (granted.id, granted.extents[0].offset);
        let stop = async {
            self.bytes_land(&site, &lease, landing).await;
            p0.signal(Signal::STOP);
            tokio::time::sleep(Duration::from_secs(5)).await;
            p0.signal(Signal::CONT);
        };
        let blocks = vec![Extent { offset: 0, bytes: self.large }];
        let (report, ()) = tokio::join!(moved(&p0, &lease, blocks), stop);
        assert_eq!(report.attempts[0].result, TransferResult::Failed, "{report:?}");
        let log = p0.log();
        assert!(log.contains("this host stood still"), "{log}");
        println!("stood still under way: {}", why(&report));
    }

    async fn bytes_land(&self, site: &Site, lease: &LeaseId, landing: u64) {
        let (arena, sent) = (self.arena(site, lease.node.as_str()), pattern(1_000));
        until("bytes land", async || {
            let mut head = [0; 1_000];
            arena.read_into(landing, &mut head).unwrap();
            head[..] == sent[..]
        })
        .await;
    }

    /// Kills the receiver of a transfer under way, which must go on elsewhere. Prints how long it took to know.
    pub(crate) async fn a_transfer_whose_host_is_killed_fails_over(&self) {
        let site = Site::new();
        let (mut hosts, p0) = self.start(&site, &["d0", "d1"], 2).await;
        let granted = p0.route(&request("batch", self.large)).await.unwrap().lease.unwrap();
        let (lease, landing) = (granted.id, granted.extents[0].offset);
        let victim = usize::from(lease.node.as_str() == "d1");
        let began = Instant::now();
        let kill = async {
            self.bytes_land(&site, &lease, landing).await;
            let killed = began.elapsed();
            hosts[victim].kill();
            killed
        };
        let blocks = vec![Extent { offset: 0, bytes: self.large }];
        let transfer = async { (moved(&p0, &lease, blocks).await, began.elapsed()) };
        let ((report, reported), killed) = tokio::join!(transfer, kill);
        assert_eq!((report.result, report.attempts.len()), (TransferResult::Delivered, 2), "{report:?}");
        assert_eq!(report.attempts[0].result, TransferResult::Failed);
        let [first, second] = [0, 1].map(|at| Duration::from_secs_f64(report.attempts[at].elapsed_ms / 1000.0));
        // Seen from here: the next attempt began at once, and the report came with its end.
        let failed = reported.saturating_sub(second);
        assert!(failed > killed, "failed after {failed:?}, killed after {killed:?}: {report:?}");
        // From the attempt's own beginning: what it took to come to that is none of its time.
        let known = first.saturating_sub(killed).as_millis();
        println!("killed under way: the attempt failed {known} ms later: {}", why(&report));
        assert_eq!(report.hash.as_deref(), Some(blake3::hash(&pattern(self.large)).to_hex().as_str()));
    }
}
