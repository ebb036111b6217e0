use proptest::prelude::*;

use super::*;
use crate::model::{PAGE_BYTES, RequestId};

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn settings() -> Settings {
    Settings {
        max_sessions: 2,
        soft_fraction: 0.75,
        kv_bytes: 8 * PAGE_BYTES,
        arena_bytes: Some(8 * PAGE_BYTES),
        model: None,
        max_leases: 100,
        max_ttl_ms: 60_000,
        fence_max_ms: 5_000,
        writes_are_gated: true,
        load_interval_ms: 100,
    }
}

struct Desk {
    ledger: Ledger,
    now: Now,
    asks: u64,
}

impl Desk {
    fn new(settings: Settings) -> Self {
        let now = Now { mono: Mono(1), wall_ms: 1_000_000 };
        Self { ledger: Ledger::new(name("d0"), 7, settings), now, asks: 0 }
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.ledger.step(self.now, input, &mut out);
        out
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now { mono: self.now.mono.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
    }

    fn call(&mut self, from: &str, call: LeaseCall) -> LeaseCallReply {
        let out = self.step(Input::Call { key: 1, from: name(from), call });
        out.into_iter().find_map(|o| if let Output::Reply { reply, .. } = o { Some(reply) } else { None }).unwrap()
    }

    fn ask_as(&mut self, ask: u64, kv_bytes: u64) -> LeaseReply {
        let ask = LeaseAsk {
            holder: name("p0"),
            holder_generation: 3,
            ask,
            request_id: RequestId::new("r").unwrap(),
            kv_bytes,
            ttl_ms: 1_000,
            model: None,
        };
        match self.call("p0", LeaseCall::Ask(ask)) {
            LeaseCallReply::Lease(reply) => reply,
            LeaseCallReply::Changed(_) => unreachable!(),
        }
    }

    fn ask(&mut self, kv_bytes: u64) -> LeaseReply {
        self.asks += 1;
        self.ask_as(self.asks, kv_bytes)
    }

    fn grant(&mut self, kv_bytes: u64) -> Lease {
        match self.ask(kv_bytes) {
            LeaseReply::Granted { lease, .. } => lease,
            LeaseReply::Refused { refusal, .. } => panic!("refused: {refusal}"),
        }
    }

    fn refusal(&mut self, kv_bytes: u64) -> LeaseRefusal {
        match self.ask(kv_bytes) {
            LeaseReply::Granted { lease, .. } => panic!("granted {lease:?}"),
            LeaseReply::Refused { refusal, .. } => refusal,
        }
    }

    fn open(&mut self, lease: &Lease, sender: &str, bytes: u64) -> Result<Vec<Extent>, OpenRefusal> {
        let out = self.step(Input::Open { key: 1, lease: lease.id.clone(), sender: name(sender), bytes });
        out.into_iter().find_map(|o| if let Output::Opened { result, .. } = o { Some(result) } else { None }).unwrap()
    }

    fn deliver(&mut self, lease: &Lease) -> Result<Arrived, OpenRefusal> {
        let bytes = lease.kv_bytes;
        let out = self.step(Input::Delivered { key: 1, lease: lease.id.clone(), bytes, hash: [0; 32] });
        out.into_iter().find_map(|o| if let Output::Accepted { result, .. } = o { Some(result) } else { None }).unwrap()
    }

    fn engine(&mut self, word: EngineWord) -> bool {
        let out = self.step(Input::Engine { key: 1, word });
        out.contains(&Output::Reply { key: 1, reply: LeaseCallReply::Changed(true) })
    }

    fn release(&mut self, lease: &Lease) -> bool {
        let out = self.step(Input::EngineRelease { key: 1, lease: lease.id.clone() });
        out.contains(&Output::Reply { key: 1, reply: LeaseCallReply::Changed(true) })
    }

    fn stage(&self, lease: &Lease) -> Option<Stage> {
        self.ledger.find(&lease.id).map(|held| held.stage)
    }
}

#[test]
fn the_last_session_is_granted_once_and_the_refusal_carries_the_quote() {
    let mut desk = Desk::new(settings());
    desk.grant(1);
    desk.grant(1);
    let LeaseReply::Refused { refusal, quote } = desk.ask(1) else { panic!("over-committed") };
    assert_eq!(refusal, LeaseRefusal::Sessions);
    let quote = quote.unwrap();
    assert_eq!((quote.active_sessions, quote.max_sessions, quote.inbound_bytes), (2, 2, 2));
}

#[test]
fn a_repeated_ask_gets_the_same_lease() {
    let mut desk = Desk::new(settings());
    let granted = |reply| match reply {
        LeaseReply::Granted { lease, .. } => lease,
        LeaseReply::Refused { refusal, .. } => panic!("refused: {refusal}"),
    };
    let first = granted(desk.ask_as(9, 10));
    assert_eq!(granted(desk.ask_as(9, 10)), first);
    assert_eq!(desk.ledger.held().count(), 1);
}

#[test]
fn sizes_of_nothing_and_beyond_the_arena_are_refused() {
    let mut desk = Desk::new(settings());
    assert_eq!(desk.refusal(0), LeaseRefusal::Size);
    assert_eq!(desk.refusal(8 * PAGE_BYTES + 1), LeaseRefusal::Size);
    desk.grant(7 * PAGE_BYTES + 1);
    assert_eq!(desk.refusal(1), LeaseRefusal::KvBytes);
}

#[test]
fn only_the_holder_writes_once_and_only_what_it_asked_for() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(100);
    assert!(matches!(desk.open(&lease, "p1", 100), Err(OpenRefusal::NotHolder(_))));
    assert!(matches!(desk.open(&lease, "p0", 101), Err(OpenRefusal::Size { granted: 100, found: 101, .. })));
    assert_eq!(desk.open(&lease, "p0", 100).unwrap(), lease.extents);
    assert!(matches!(desk.open(&lease, "p0", 100), Err(OpenRefusal::Busy(_))));
    assert_eq!(desk.deliver(&lease).unwrap().source, name("p0"));
    assert!(matches!(desk.open(&lease, "p0", 100), Err(OpenRefusal::Stage { stage: Stage::Delivered, .. })));
    assert!(matches!(desk.deliver(&lease), Err(OpenRefusal::Stage { .. })));
}

#[test]
fn an_expired_lease_is_free_at_once_unless_a_stream_still_writes() {
    let mut desk = Desk::new(settings());
    let idle = desk.grant(1);
    let open = desk.grant(1);
    desk.open(&open, "p0", 1).unwrap();
    desk.pass(1_000);
    desk.step(Input::Tick);
    assert_eq!((desk.stage(&idle), desk.stage(&open)), (None, Some(Stage::Granted)));
    desk.step(Input::Quiet { lease: open.id.clone() });
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&open), None, "overdue as soon as nothing writes into it");
}

#[test]
fn no_time_limit_ends_the_fence_of_a_lease_that_a_stream_still_writes_into() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.open(&lease, "p0", 1).unwrap();
    assert_eq!(desk.call("p0", LeaseCall::GiveUp(lease.id.clone())), LeaseCallReply::Changed(true));
    desk.pass(1_000_000);
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&lease), Some(Stage::Fenced));
    assert_eq!(desk.ledger.quote().active_sessions, 1);
    assert!(matches!(desk.deliver(&lease), Err(OpenRefusal::Stage { stage: Stage::Fenced, .. })));
    desk.step(Input::Quiet { lease: lease.id.clone() });
    assert_eq!(desk.stage(&lease), None);
}

#[test]
fn a_holder_that_gives_up_voids_what_was_granted_but_not_what_was_delivered() {
    let mut desk = Desk::new(settings());
    let granted = desk.grant(1);
    let delivered = desk.grant(1);
    desk.open(&delivered, "p0", 1).unwrap();
    desk.deliver(&delivered).unwrap();
    assert_eq!(desk.call("p1", LeaseCall::GiveUp(granted.id.clone())), LeaseCallReply::Changed(false));
    assert_eq!(desk.call("p0", LeaseCall::GiveUp(granted.id.clone())), LeaseCallReply::Changed(true));
    assert_eq!(desk.call("p0", LeaseCall::GiveUp(delivered.id.clone())), LeaseCallReply::Changed(false));
    assert_eq!((desk.stage(&granted), desk.stage(&delivered)), (None, Some(Stage::Delivered)));
}

#[test]
fn a_reading_of_the_future_absorbs_nothing_and_shuts_nothing_out() {
    let mut desk = Desk::new(settings());
    let early = EngineWord { as_of_ms: Some(desk.now.wall_ms + 60_000), ..EngineWord::default() };
    assert!(desk.engine(early));
    let lease = desk.grant(1);
    desk.deliver(&lease).unwrap();
    let ahead = EngineWord { as_of_ms: Some(desk.now.wall_ms + 60_000), ..EngineWord::default() };
    assert!(desk.engine(ahead));
    assert_eq!(desk.ledger.quote().active_sessions, 1, "not delivered before now");
    desk.pass(10);
    let right = EngineWord { active_sessions: 1, as_of_ms: Some(desk.now.wall_ms), ..EngineWord::default() };
    assert!(desk.engine(right));
    assert_eq!(desk.ledger.quote().active_sessions, 1);
}

#[test]
fn a_fence_falls_after_its_longest_time() {
    let mut desk = Desk::new(Settings { writes_are_gated: false, ..settings() });
    let lease = desk.grant(1);
    desk.pass(1_000);
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&lease), Some(Stage::Fenced));
    desk.pass(4_999);
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&lease), Some(Stage::Fenced));
    desk.pass(1);
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&lease), None);
}

#[test]
fn an_overdue_deadline_fires_before_the_input_of_its_turn() {
    let mut desk = Desk::new(settings());
    let first = desk.grant(1);
    desk.grant(1);
    desk.pass(10_000);
    let third = desk.grant(1);
    assert_eq!(desk.stage(&first), None);
    assert_eq!(desk.stage(&third), Some(Stage::Granted));
}

#[test]
fn a_lease_counts_until_the_engine_has_taken_it_up() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.deliver(&lease).unwrap();
    let early = EngineWord { as_of_ms: Some(desk.now.wall_ms - 150), ..EngineWord::default() };
    assert!(desk.engine(early));
    assert_eq!(desk.ledger.quote().active_sessions, 1, "delivered after the reading");
    desk.pass(10);
    let adopted = EngineWord {
        active_sessions: 1,
        adopted: Some(vec![lease.id.clone()]),
        as_of_ms: Some(desk.now.wall_ms),
        ..EngineWord::default()
    };
    assert!(desk.engine(adopted));
    assert_eq!(desk.ledger.quote().active_sessions, 1, "counted once, by the engine");
    assert!(desk.release(&lease));
    assert_eq!(desk.ledger.quote().active_sessions, 1, "until the engine says otherwise");
    assert!(!desk.engine(EngineWord { as_of_ms: Some(1), ..EngineWord::default() }), "an older reading is not taken");
    desk.pass(10);
    assert!(desk.engine(EngineWord { as_of_ms: Some(desk.now.wall_ms), ..EngineWord::default() }));
    assert_eq!(desk.ledger.quote().active_sessions, 0);
}

#[test]
fn a_delivered_lease_that_the_engine_does_not_name_keeps_its_session() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.deliver(&lease).unwrap();
    desk.pass(10);
    desk.engine(EngineWord { adopted: Some(vec![]), as_of_ms: Some(desk.now.wall_ms), ..EngineWord::default() });
    assert_eq!(desk.ledger.quote().active_sessions, 1);
}

#[test]
fn what_a_dead_holder_held_comes_back_but_not_what_was_delivered() {
    let mut desk = Desk::new(settings());
    let granted = desk.grant(1);
    let delivered = desk.grant(1);
    desk.deliver(&delivered).unwrap();
    desk.step(Input::HolderDown { node: name("p0"), generation: 2 });
    assert!(desk.stage(&granted).is_some(), "an earlier life held nothing");
    desk.step(Input::HolderDown { node: name("p0"), generation: 3 });
    assert_eq!((desk.stage(&granted), desk.stage(&delivered)), (None, Some(Stage::Delivered)));
}

#[test]
fn strangers_can_neither_release_nor_renew() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    let id = lease.id.clone();
    assert_eq!(desk.call("p1", LeaseCall::Release(id.clone())), LeaseCallReply::Changed(false));
    assert_eq!(desk.call("p1", LeaseCall::Renew { lease: id.clone(), ttl_ms: 9 }), LeaseCallReply::Changed(false));
    assert_eq!(desk.call("p0", LeaseCall::Renew { lease: id.clone(), ttl_ms: 9_000 }), LeaseCallReply::Changed(true));
    desk.pass(8_000);
    desk.step(Input::Tick);
    assert_eq!(desk.stage(&lease), Some(Stage::Granted));
    assert_eq!(desk.call("p0", LeaseCall::Release(id.clone())), LeaseCallReply::Changed(true));
    assert_eq!(desk.call("p0", LeaseCall::Release(id)), LeaseCallReply::Changed(false));
}

#[test]
fn a_draining_host_grants_nothing_and_says_so_to_the_mesh() {
    let mut desk = Desk::new(settings());
    desk.step(Input::Tick);
    desk.pass(100);
    let out = desk.step(Input::Drain(true));
    assert!(out.iter().any(|o| matches!(o, Output::Load(load) if load.draining)));
    assert_eq!(desk.refusal(1), LeaseRefusal::Draining);
}

#[test]
fn the_mesh_hears_of_changes_once_an_interval() {
    let mut desk = Desk::new(settings());
    let loads = |out: &[Output]| out.iter().filter(|o| matches!(o, Output::Load(_))).count();
    assert_eq!(loads(&desk.step(Input::Tick)), 1);
    desk.grant(1);
    desk.grant(1);
    assert_eq!(desk.ledger.deadline(), Some(desk.now.mono.plus_ms(100)));
    desk.pass(100);
    assert_eq!(loads(&desk.step(Input::Tick)), 1);
    desk.pass(100);
    assert_eq!(loads(&desk.step(Input::Tick)), 0);
}

#[test]
fn the_mesh_hears_that_all_is_as_before_once_somebody_was_quoted_otherwise() {
    let mut desk = Desk::new(settings());
    desk.step(Input::Tick);
    let lease = desk.grant(1);
    desk.release(&lease);
    desk.pass(100);
    let out = desk.step(Input::Tick);
    let told = out.iter().find_map(|o| if let Output::Load(load) = o { Some(load) } else { None }).unwrap();
    assert_eq!(told.active_sessions, 0);
    assert!(told.revision > 2, "newer than the quote");
}

#[derive(Clone, Debug)]
enum Op {
    Ask(u64),
    Open(usize),
    Deliver(usize),
    Quiet(usize),
    Release(usize),
    GiveUp(usize),
    Renew(usize),
    EngineRelease(usize),
    Engine(bool),
    Down,
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..3 * PAGE_BYTES).prop_map(Op::Ask),
        3 => (0usize..8).prop_map(Op::Open),
        3 => (0usize..8).prop_map(Op::Deliver),
        2 => (0usize..8).prop_map(Op::Quiet),
        2 => (0usize..8).prop_map(Op::Release),
        2 => (0usize..8).prop_map(Op::GiveUp),
        1 => (0usize..8).prop_map(Op::Renew),
        2 => (0usize..8).prop_map(Op::EngineRelease),
        1 => any::<bool>().prop_map(Op::Engine),
        1 => Just(Op::Down),
        2 => (0u64..2_000).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #[test]
    fn nothing_is_handed_out_twice_whatever_happens(ops in ops(), gated: bool) {
        let mut desk = Desk::new(Settings { writes_are_gated: gated, max_sessions: 4, ..settings() });
        let mut known: Vec<Lease> = Vec::new();
        let mut writing: std::collections::BTreeSet<LeaseId> = std::collections::BTreeSet::new();
        for op in ops {
            let pick = |index: usize| known.get(index % known.len().max(1)).cloned();
            match op {
                Op::Ask(bytes) => {
                    let before = desk.ledger.quote();
                    if let LeaseReply::Granted { lease, .. } = desk.ask(bytes) {
                        prop_assert!(before.active_sessions < before.max_sessions || desk.ledger.quote().active_sessions <= 4);
                        known.push(lease);
                    }
                }
                Op::Open(index) => if let Some(lease) = pick(index) && desk.open(&lease, "p0", 1).is_ok() {
                    writing.insert(lease.id);
                },
                Op::Deliver(index) => if let Some(lease) = pick(index) && writing.contains(&lease.id) && desk.deliver(&lease).is_ok() {
                    // All its bytes are there: the stream writes no more.
                    writing.remove(&lease.id);
                },
                Op::Quiet(index) => if let Some(lease) = pick(index) {
                    writing.remove(&lease.id);
                    desk.step(Input::Quiet { lease: lease.id });
                },
                Op::Release(index) => if let Some(lease) = pick(index) { desk.call("p0", LeaseCall::Release(lease.id)); },
                Op::GiveUp(index) => if let Some(lease) = pick(index) { desk.call("p0", LeaseCall::GiveUp(lease.id)); },
                Op::Renew(index) => if let Some(lease) = pick(index) {
                    desk.call("p0", LeaseCall::Renew { lease: lease.id, ttl_ms: 700 });
                },
                Op::EngineRelease(index) => if let Some(lease) = pick(index) { desk.release(&lease); },
                Op::Engine(named) => {
                    // An honest engine: its number is exactly the leases that it names or that were delivered before.
                    let delivered: Vec<LeaseId> = desk.ledger.held().filter(|h| h.stage == Stage::Delivered).map(|h| h.lease.id.clone()).collect();
                    let word = EngineWord {
                        active_sessions: u32::try_from(delivered.len()).unwrap(),
                        adopted: named.then_some(delivered),
                        as_of_ms: Some(desk.now.wall_ms + 1),
                        ..EngineWord::default()
                    };
                    desk.pass(2);
                    desk.engine(word);
                }
                Op::Down => { desk.step(Input::HolderDown { node: name("p0"), generation: 3 }); }
                Op::Pass(ms) => desk.pass(ms),
            }
            let held: Vec<&Held> = desk.ledger.held().collect();
            let mut extents: Vec<Extent> = held.iter().flat_map(|h| h.lease.extents.clone()).collect();
            extents.sort_unstable();
            prop_assert!(extents.windows(2).all(|pair| pair[0].end().unwrap() <= pair[1].offset));
            for lease in &writing {
                prop_assert!(held.iter().any(|h| h.lease.id == *lease), "{} is free while a stream writes into it", lease);
            }
            prop_assert!(held.len() <= 4, "{} sessions of 4", held.len());
            let inbound: u64 = held.iter().filter(|h| h.stage == Stage::Granted).map(|h| h.lease.kv_bytes).sum();
            prop_assert_eq!(inbound, desk.ledger.inbound_bytes);
            let unabsorbed = held.iter().filter(|h| !h.absorbed).count();
            prop_assert_eq!(unabsorbed, desk.ledger.unabsorbed_sessions as usize);
            prop_assert_eq!(held.len(), desk.ledger.asks.len());
        }
    }

    #[test]
    fn the_same_tape_gives_the_same_answers(ops in ops()) {
        let mut desk = Desk::new(settings());
        let mut tape = Vec::new();
        let mut spoken = Vec::new();
        let start = desk.ledger.snapshot();
        for (number, op) in ops.into_iter().enumerate() {
            let lease = LeaseId { node: name("d0"), generation: 7, number: number as u64 / 3 };
            let input = match op {
                Op::Ask(kv_bytes) => Input::Call { key: 1, from: name("p0"), call: LeaseCall::Ask(LeaseAsk {
                    holder: name("p0"), holder_generation: 3, ask: number as u64,
                    request_id: RequestId::new("r").unwrap(), kv_bytes, ttl_ms: 500, model: None,
                }) },
                Op::Open(_) => Input::Open { key: 2, lease, sender: name("p0"), bytes: 1 },
                Op::Deliver(_) => Input::Delivered { key: 3, lease, bytes: 1, hash: [0; 32] },
                Op::Quiet(_) => Input::Quiet { lease },
                Op::GiveUp(_) => Input::Call { key: 5, from: name("p0"), call: LeaseCall::GiveUp(lease) },
                Op::Renew(_) => Input::Call { key: 6, from: name("p0"), call: LeaseCall::Renew { lease, ttl_ms: 700 } },
                Op::Release(_) | Op::EngineRelease(_) => Input::EngineRelease { key: 4, lease },
                Op::Engine(on) => Input::Drain(on),
                Op::Down => Input::HolderDown { node: name("p0"), generation: 3 },
                Op::Pass(ms) => { desk.pass(ms); Input::Tick }
            };
            tape.push((desk.now, input.clone()));
            spoken.push(desk.step(input));
        }
        let mut again = Ledger::restore(start);
        for ((now, input), spoken) in tape.into_iter().zip(spoken) {
            let mut out = Vec::new();
            again.step(now, input, &mut out);
            prop_assert_eq!(out, spoken);
        }
        prop_assert_eq!(again, desk.ledger);
    }
}
