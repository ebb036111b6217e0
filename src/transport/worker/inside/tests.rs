//! The thread's turns, over an engine whose requests end as a script says.

use std::cell::RefCell;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::arena::{Arena, Segment};
use crate::transport::fabric::{Piece, scratch};
use crate::transport::worker::put::{Asker, Job};
use crate::transport::worker::{Announcement, Ends, Place, Span};

/// Long enough for a few steps on a busy machine, and waited for by stepping until it is over.
const SHORT: Patience = Patience { drain: Duration::from_millis(20), stuck: Duration::from_millis(60) };

const AMPLE: Duration = Duration::from_secs(600);

/// What becomes of the posts to each peer: none if they are refused.
type Script = Rc<RefCell<HashMap<u32, Option<bool>>>>;

struct Scripted {
    ends: Script,
    given_up: Rc<RefCell<Vec<u32>>>,
}

impl Engine for Scripted {
    type Peer = u32;
    type Words = u32;
    /// Whose it is.
    type Request = u32;

    const NAME: &'static str = "Scripted";
    const NAP: Duration = Duration::from_millis(1);
    const WAIT: Duration = Duration::from_millis(1);

    fn know(&mut self, words: &u32, _: &NodeName, _: impl Fn(&u32) -> bool) -> Result<u32, FabricError> {
        Ok(*words)
    }

    fn forget(&mut self, _: &u32) {}

    fn give_up(&mut self, peer: &u32) {
        self.given_up.borrow_mut().push(*peer);
    }

    unsafe fn post(&mut self, peer: &u32, _: Ends, _: &[Span]) -> Result<u32, FabricError> {
        match self.ends.borrow().get(peer) {
            Some(None) => Err(FabricError::PeerGone("refused".to_owned())),
            _ => Ok(*peer),
        }
    }

    fn progress(&self, request: &mut u32) -> Progress {
        match self.ends.borrow().get(request) {
            Some(Some(true)) => Progress::Done,
            _ => Progress::UnderWay,
        }
    }

    fn flush(&mut self, _: &u32) -> Result<Option<u32>, FabricError> {
        Ok(None)
    }

    fn announce(&mut self, _: &u32, _: &Announcement) -> Result<Option<u32>, FabricError> {
        Ok(None)
    }

    fn turn(&mut self, _: &Members, _: bool) -> bool {
        false
    }
}

struct Bench {
    inside: Inside<Scripted>,
    ends: Script,
    given_up: Rc<RefCell<Vec<u32>>>,
}

/// A put that was asked for.
struct Asked {
    cancel: CancellationToken,
    over: Arc<std::sync::atomic::AtomicBool>,
    put: oneshot::Receiver<Put>,
}

impl Asked {
    fn is_over(&self) -> bool {
        self.over.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Bench {
    fn new() -> Self {
        let memory = Memory { arena: Arc::new(Arena::anonymous(64).unwrap()), scratch: scratch::map().unwrap() };
        let (ends, given_up) = (Script::default(), Rc::default());
        let engine = Scripted { ends: Rc::clone(&ends), given_up: Rc::clone(&given_up) };
        let mut inside = Inside::new(engine, Rc::new(memory), Arc::default());
        inside.patience = SHORT;
        for peer in [1, 2] {
            let (answer, _known) = oneshot::channel();
            inside.take(Command::Know(peer, "d".parse().unwrap(), answer));
            inside.known.entry(peer).or_default().users = 1;
        }
        Self { inside, ends, given_up }
    }

    fn put(&mut self, peer: u32) -> Asked {
        let (done, put) = oneshot::channel();
        let (cancel, over) = (CancellationToken::new(), Arc::default());
        let pieces = vec![Piece { local: 0, remote: 0, bytes: 64 }];
        let remote = (Segment::Dram, 0);
        let job = Job { pieces, remote, place: Place::Arena, announcement: None, deadline: AMPLE };
        let asker = Asker { cancel: cancel.clone(), over: Arc::clone(&over), done: Some(done) };
        self.inside.take(Command::Put(peer, job, asker));
        Asked { cancel, over, put }
    }

    /// Its last look at the clock was so long ago.
    fn stands_still(&mut self, gap: Duration) {
        self.inside.pulse.last = Instant::now().checked_sub(gap).unwrap();
    }

    /// Steps until `put` has ended.
    fn end(&mut self, put: &mut oneshot::Receiver<Put>) -> Put {
        loop {
            self.inside.step();
            if let Ok(put) = put.try_recv() {
                return put;
            }
        }
    }
}

#[test]
fn a_put_that_was_refused_at_once_is_over_and_so_is_its_link() {
    let mut bench = Bench::new();
    bench.ends.borrow_mut().insert(1, None);
    let mut asked = bench.put(1);
    let put = bench.end(&mut asked.put);
    assert!(put.over && asked.is_over(), "{put:?}");
    assert_eq!(put.result, Err(FabricError::PeerGone("refused".to_owned())));
    assert!(!bench.put(2).is_over());
}

#[test]
fn a_put_that_hangs_after_its_cancellation_gives_up_its_peer_and_no_other() {
    let mut bench = Bench::new();
    let mut asked = bench.put(1);
    bench.inside.step();
    asked.cancel.cancel();
    let put = bench.end(&mut asked.put);
    assert!(!put.over && put.result == Err(FabricError::Cancelled) && asked.is_over(), "{put:?}");
    while bench.given_up.borrow().is_empty() {
        bench.inside.step();
    }
    assert_eq!((bench.given_up.borrow().as_slice(), bench.inside.left.len()), ([1].as_slice(), 0));
}

#[test]
fn what_moves_to_a_peer_that_hangs_is_let_end_for_a_while_and_then_given_up_too() {
    let mut bench = Bench::new();
    let (mut hangs, mut other) = (bench.put(1), bench.put(1));
    bench.inside.step();
    hangs.cancel.cancel();
    let put = bench.end(&mut hangs.put);
    assert_eq!((put.result, put.over), (Err(FabricError::Cancelled), false));
    // It has stood still for as long as the one that was given up, so nothing speaks for waiting.
    while bench.given_up.borrow().is_empty() {
        bench.inside.step();
    }
    assert!(!other.is_over());
    // The library ends what is left of a peer that was given up.
    bench.ends.borrow_mut().insert(1, Some(true));
    assert_eq!(bench.end(&mut other.put).result, Ok(()));
}

#[test]
fn a_put_that_ends_is_over_and_leaves_its_link_alone() {
    let mut bench = Bench::new();
    bench.ends.borrow_mut().insert(1, Some(true));
    let mut asked = bench.put(1);
    let put = bench.end(&mut asked.put);
    assert!(put.result == Ok(()) && put.over && !asked.is_over(), "{put:?}");
    assert!(bench.given_up.borrow().is_empty() && bench.inside.left.is_empty());
}

#[test]
fn what_was_given_up_and_ends_by_itself_is_forgotten_so_that_the_next_has_its_full_time() {
    let mut bench = Bench::new();
    // Something else moves to this peer all the while, so that it is not given up at once.
    bench.inside.patience = Patience { drain: AMPLE, stuck: AMPLE };
    let _moves = bench.put(1);
    bench.inside.left.push((1, 1));
    bench.inside.known.get_mut(&1).unwrap().stuck = Some(Instant::now());
    bench.inside.step();
    assert!(bench.inside.known[&1].stuck.is_some());
    bench.ends.borrow_mut().insert(1, Some(true));
    while !bench.inside.left.is_empty() {
        bench.inside.step();
    }
    assert!(bench.inside.known[&1].stuck.is_none() && bench.given_up.borrow().is_empty());
}

#[test]
fn a_thread_that_stood_still_ends_what_it_had_begun_before_the_library_moves_any_of_it() {
    let mut bench = Bench::new();
    let (mut first, mut other, mut hangs) = (bench.put(1), bench.put(2), bench.put(2));
    bench.inside.step();
    hangs.cancel.cancel();
    // It would all end well, if it were looked at.
    bench.stands_still(STILL + Duration::from_secs(1));
    bench.ends.borrow_mut().extend([(1, Some(true)), (2, Some(true))]);
    let later = bench.put(1);
    bench.inside.step();
    for put in [&mut first.put, &mut other.put, &mut hangs.put] {
        let put = put.try_recv().unwrap();
        assert!(!put.over, "{put:?}");
        assert!(
            matches!(&put.result, Err(FabricError::Local(words)) if words.contains("stood still for 5")),
            "{put:?}"
        );
    }
    assert!(first.is_over() && other.is_over() && !later.is_over());
    let mut given_up = bench.given_up.borrow().clone();
    given_up.sort_unstable();
    assert_eq!((given_up, bench.inside.left.len(), bench.inside.transfers.len()), (vec![1, 2], 0, 1));
}

#[test]
fn a_thread_that_slept_with_nothing_under_way_or_for_a_moment_ends_nothing() {
    let mut bench = Bench::new();
    bench.stands_still(STILL * 10);
    bench.inside.wake(Instant::now());
    let mut asked = bench.put(1);
    bench.inside.step();
    bench.stands_still(STILL / 2);
    bench.inside.wake(Instant::now());
    bench.ends.borrow_mut().insert(1, Some(true));
    assert_eq!(bench.end(&mut asked.put).result, Ok(()));
    assert!(bench.given_up.borrow().is_empty());
}
