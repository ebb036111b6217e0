//! The decorator over a backend that answers at once.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::model::Extent;

const INNER: Duration = Duration::from_micros(50);
const DEADLINE: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Instantly {
    writes: AtomicU32,
}

impl Backend for Instantly {
    fn address(&self) -> String {
        "here".to_owned()
    }

    fn probe<'a>(&'a self, _: &'a Peer, _: u32, _: Duration) -> BoxFuture<'a, Result<Duration, PathError>> {
        Box::pin(async { Ok(INNER) })
    }

    fn write<'a>(&'a self, _: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Box::pin(
            async move { Ok(Written { bytes: write.blocks.bytes(), hash: [0; 32], elapsed: INNER, shared_bytes: 0 }) },
        )
    }

    fn refusals(&self) -> Vec<(&'static str, u64)> {
        vec![("refused", 3)]
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn peer(name: &str) -> Peer {
    Peer { node: name.parse().unwrap(), address: "there".to_owned() }
}

fn write(bytes: u64) -> Write {
    Write { lease: "d.1.1".parse().unwrap(), blocks: vec![Extent { offset: 0, bytes }].into(), deadline: DEADLINE }
}

fn faulty(faults: Option<Faults>) -> Faulty<Instantly> {
    let switch = FaultSwitch::new();
    switch.set(faults).unwrap();
    Faulty::new(Instantly::default(), switch)
}

#[tokio::test(start_paused = true)]
async fn without_faults_nothing_is_added() {
    let backend = faulty(None);
    let started = Instant::now();
    assert_eq!(backend.probe(&peer("d"), 64, DEADLINE).await, Ok(INNER));
    assert_eq!(backend.write(&peer("d"), write(9)).await.unwrap().elapsed, INNER);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn what_the_backend_refused_shows_through_the_faults_and_the_port() {
    let backend: Arc<dyn Backend> = Arc::new(faulty(None));
    assert_eq!(Arc::new(backend).refusals(), [("refused", 3)]);
}

#[tokio::test(start_paused = true)]
async fn the_injected_delay_is_waited_for_and_reported() {
    let backend = faulty(Some(Faults { base_ms: 50.0, ..Faults::new(FaultMode::Clean) }));
    let started = Instant::now();
    let probed = backend.probe(&peer("d"), 64, DEADLINE).await.unwrap();
    let waited = started.elapsed();
    assert!((Duration::from_millis(45)..Duration::from_millis(55)).contains(&probed), "{probed:?}");
    assert!(waited + INNER >= probed && waited < probed + Duration::from_millis(2), "{waited:?}");
    let written = backend.write(&peer("d"), write(9)).await.unwrap();
    assert!(written.elapsed > Duration::from_millis(45));
}

#[tokio::test(start_paused = true)]
async fn a_stall_or_a_delay_beyond_the_deadline_takes_exactly_the_deadline() {
    let slow = Faults { base_ms: 60_000.0, ..Faults::new(FaultMode::Clean) };
    for faults in [Faults::new(FaultMode::Stall), slow] {
        let backend = faulty(Some(faults));
        let limit = PathError::TimedOut { peer: "d".parse().unwrap(), limit_ms: 500, doubt: None };
        let started = Instant::now();
        assert_eq!(backend.probe(&peer("d"), 64, DEADLINE).await, Err(limit.clone()));
        assert_eq!(backend.write(&peer("d"), write(9)).await, Err(limit));
        assert_eq!(started.elapsed(), 2 * DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_at_once_and_only_from_the_peers_that_are_named() {
    let faults = Faults { peers: vec!["d".parse().unwrap()], ..Faults::new(FaultMode::Refuse) };
    let backend = faulty(Some(faults));
    assert!(matches!(backend.probe(&peer("d"), 64, DEADLINE).await, Err(PathError::Refused { .. })));
    assert!(matches!(backend.write(&peer("d"), write(9)).await, Err(PathError::Refused { .. })));
    assert_eq!(backend.probe(&peer("e"), 64, DEADLINE).await, Ok(INNER));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_done_and_takes_exactly_the_deadline_and_probes_are_well() {
    let backend = faulty(Some(Faults::new(FaultMode::Unanswered)));
    let started = Instant::now();
    assert_eq!(backend.probe(&peer("d"), 64, DEADLINE).await, Ok(INNER));
    assert_eq!((started.elapsed(), backend.inner().writes.load(Ordering::Relaxed)), (Duration::ZERO, 0));
    let limit = PathError::TimedOut { peer: "d".parse().unwrap(), limit_ms: 500, doubt: None };
    assert_eq!(backend.write(&peer("d"), write(9)).await, Err(limit));
    assert_eq!((started.elapsed(), backend.inner().writes.load(Ordering::Relaxed)), (DEADLINE, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_probe_takes_its_deadline_and_a_lost_write_fails() {
    let backend = faulty(Some(Faults::new(FaultMode::Drops)));
    let (mut lost_probes, mut lost_writes) = (0, 0);
    for _ in 0..500 {
        let started = Instant::now();
        match backend.probe(&peer("d"), 64, DEADLINE).await {
            Ok(_) => {}
            Err(PathError::TimedOut { .. }) => {
                assert_eq!(started.elapsed(), DEADLINE);
                lost_probes += 1;
            }
            Err(other) => panic!("{other}"),
        }
        match backend.write(&peer("d"), write(9)).await {
            Ok(_) => {}
            Err(PathError::PeerGone { .. }) => lost_writes += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((5..50).contains(&lost_probes) && (5..50).contains(&lost_writes), "{lost_probes}, {lost_writes}");
}

#[tokio::test(start_paused = true)]
async fn faults_are_switched_while_in_use_and_wrong_ones_change_nothing() {
    let backend = faulty(None);
    let switch = backend.switch.clone();
    switch.set(Some(Faults::new(FaultMode::Refuse))).unwrap();
    assert!(backend.probe(&peer("d"), 64, DEADLINE).await.is_err());
    assert!(switch.set(Some(Faults::new(FaultMode::Collapse))).is_err());
    assert_eq!(switch.get(), Some(Faults::new(FaultMode::Refuse)));
    switch.set(None).unwrap();
    assert_eq!(backend.probe(&peer("d"), 64, DEADLINE).await, Ok(INNER));
}
