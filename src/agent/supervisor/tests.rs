//! A core that panics, in a process of its own: this test program once more. The supervisor, the owner,
//! the tape and the journal are those of an agent. A sound core does not panic, so this one is a ledger
//! whose state was made wrong, and which overflows; that is a panic in debug builds.
#![cfg(debug_assertions)]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::clock::Clock;
use super::super::journal::{Settings, prepare_with};
use super::super::owner::{Effects, Owner};
use super::*;
use crate::config::JournalConfig;
use crate::core::Now;
use crate::ledger::{self, EngineWord, Input, Ledger, LongestLease, Output};
use crate::metrics::Metrics;
use crate::model::{NodeName, PAGE_BYTES};
use crate::replay::journal::{History, Lost, Noted};

/// Where the process that is to end keeps its journal.
const JOURNAL: &str = "SEAM_TEST_PANICKED_JOURNAL";
/// Sound turns before the one that panics.
const SOUND: u64 = 3;

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// Does nothing.
struct Nothing;

impl Effects for Nothing {
    type Core = Ledger;
    type Answer = Infallible;

    fn tick() -> Input {
        Input::Tick
    }

    fn perform(&mut self, _: &Ledger, _: Now, _: Output) -> Option<(u64, Infallible)> {
        None
    }
}

/// A ledger that counts more free pages than there can be, and panics when it says how many bytes that is.
fn wrong() -> Ledger {
    let settings = ledger::Settings {
        max_sessions: 2,
        soft_fraction: 0.75,
        kv_bytes: 8 * PAGE_BYTES,
        arena_bytes: Some(8 * PAGE_BYTES),
        model: None,
        max_leases: 100,
        max_ttl_ms: 600_000,
        fence_max_ms: 5_000,
        writes_are_gated: true,
        load_interval_ms: 100,
    };
    let mut state = serde_json::to_value(Ledger::new(name("d0"), 7, settings)).unwrap();
    state["pages"]["free_pages"] = u64::MAX.into();
    serde_json::from_value(state).unwrap()
}

/// Runs until it is ended.
async fn life(dir: PathBuf) {
    let journal = JournalConfig {
        dir,
        segment_size: 64 << 20,
        max_age: Duration::from_secs(3600),
        fsync: Duration::from_secs(60),
        retain: 1 << 30,
    };
    let settings =
        Settings { node: name("d0"), journal: Some(journal), records: None, config_hash: Box::new(|| "c0ffee".into()) };
    let clock = Clock::start();
    let journal = prepare_with(settings, Arc::new(Metrics::new("mesh", 8)), clock, None).unwrap().unwrap();
    let journal = journal.begin(7).unwrap();
    let (supervisor, _) = start().await.unwrap();
    let owner = Owner::spawn(supervisor.get_cell(), clock, (wrong(), journal.tape()), Nothing, 8).await.unwrap();
    // Until the engine has spoken it says that nothing is free.
    owner.tell(Input::Recover(LongestLease { ttl_ms: 600_000, fence_max_ms: 5_000 }));
    (1..SOUND).for_each(|_| owner.tell(Input::Tick));
    owner.tell(Input::Engine { key: 1, word: EngineWord::default() });
    std::future::pending::<()>().await;
}

#[test]
#[ignore = "the process of the test below"]
fn the_process_that_a_panicked_core_ends() {
    let Some(dir) = std::env::var_os(JOURNAL) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(life(Path::new(&dir).to_owned()));
}

#[test]
fn a_core_that_panics_ends_the_process_with_70_and_its_turn_is_the_last_of_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let child = "agent::supervisor::tests::the_process_that_a_panicked_core_ends";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--nocapture"])
        .env(JOURNAL, dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(CORE_FAILED), "{}", String::from_utf8_lossy(&output.stderr));

    let report = History::open(&[dir.path()]).unwrap().verify(|_| ());
    assert!(report.is_identical(), "{report:#?}");
    let life = &report.lives[0];
    let tally = &life.overview.tally;
    assert_eq!((tally.panics, tally.closed, tally.torn_end), (1, false, false));
    let [note] = &life.overview.notes[..] else { panic!("{:?}", life.overview.notes) };
    assert_eq!(note.noted, Noted::Panicked);
    assert!(note.text.starts_with("the ledger core panicked at this input: Engine"), "{}", note.text);
    let ledger = &life.cores[2];
    assert!(ledger.verified >= SOUND && ledger.turns == ledger.verified, "{ledger:?}");
    assert!(!ledger.not_verifiable.contains_key(&Lost::Panicked), "it is not played");
}

/// Does no I/O.
struct Idle;

impl Actor for Idle {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

#[tokio::test]
async fn an_actor_that_cannot_be_started_at_first_is_tried_again_later_and_later() {
    let (supervisor, _) = start().await.unwrap();
    let (attempted, mut attempts) = tokio::sync::mpsc::unbounded_channel();
    let count = Arc::new(AtomicU32::new(0));
    let starter: Starter = Arc::new(move |supervisor| {
        let (attempted, attempt) = (attempted.clone(), count.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            let started = match attempt {
                0 | 1 => Err(SpawnErr::StartupFailed("refused".into())),
                _ => Actor::spawn_linked(None, Idle, (), supervisor).await.map(|(actor, _)| actor.get_cell()),
            };
            let _ = attempted.send(started.is_ok());
            started
        })
    });
    supervisor.send_message(Message::Keep("idle", starter)).unwrap();
    for expected in [false, false, true] {
        assert_eq!(attempts.recv().await, Some(expected));
    }
    supervisor.stop(None);
    let pauses: Vec<_> = (1..=START_ATTEMPTS).map(retry_pause).collect();
    assert_eq!(pauses[..2], [Some(RESTART_PAUSE), Some(2 * RESTART_PAUSE)]);
    assert_eq!(pauses.iter().filter(|pause| pause.is_none()).count(), 1);
}
