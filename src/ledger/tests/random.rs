//! Whatever comes in whatever order, with whatever pauses between.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

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
    Drain(bool),
    Sessions(u32),
    /// Time passes and the ledger has its turns.
    Pass(u64),
    /// The host stands still: what is overdue is so at the next input.
    Stall(u64),
}

/// Sessions that any configuration of these tests allows.
const MOST_SESSIONS: u32 = 4;

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
        1 => any::<bool>().prop_map(Op::Drain),
        1 => (1u32..=MOST_SESSIONS).prop_map(Op::Sessions),
        2 => (0u64..2_000).prop_map(Op::Pass),
        1 => (0u64..20_000).prop_map(Op::Stall),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #[test]
    fn nothing_is_handed_out_twice_whatever_happens(ops in ops(), gated: bool) {
        let mut desk = Desk::new(Settings { writes_are_gated: gated, max_sessions: MOST_SESSIONS, ..settings() });
        let mut limit = MOST_SESSIONS;
        let mut known: Vec<Lease> = Vec::new();
        let mut writing: BTreeSet<LeaseId> = BTreeSet::new();
        for op in ops {
            let pick = |index: usize| known.get(index % known.len().max(1)).cloned();
            match op {
                Op::Ask(bytes) => {
                    if let LeaseReply::Granted { lease, .. } = desk.ask(bytes) {
                        prop_assert!(desk.ledger.held().count() <= limit as usize, "granted beyond {} sessions", limit);
                        prop_assert!(desk.ledger.held().all(|h| h.stage != Stage::Granted || h.until.is_some_and(|until| until > desk.now.mono)), "overdue leases go first");
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
                Op::Drain(on) => { desk.step(Input::Drain(on)); }
                Op::Sessions(max_sessions) => {
                    limit = max_sessions;
                    desk.step(Input::Configure(Box::new(Settings { max_sessions, ..settings() })));
                }
                Op::Pass(ms) => {
                    desk.pass(ms);
                    desk.tick();
                }
                Op::Stall(ms) => desk.pass(ms),
            }
            let held: Vec<&Held> = desk.ledger.held().collect();
            let mut extents: Vec<Extent> = held.iter().flat_map(|h| h.lease.extents.clone()).collect();
            extents.sort_unstable();
            prop_assert!(extents.windows(2).all(|pair| pair[0].end().unwrap() <= pair[1].offset));
            for lease in &writing {
                prop_assert!(held.iter().any(|h| h.lease.id == *lease), "{} is free while a stream writes into it", lease);
            }
            prop_assert!(held.len() <= MOST_SESSIONS as usize, "{} sessions of {}", held.len(), MOST_SESSIONS);
            let used: u64 = extents.iter().map(|extent| extent.bytes).sum();
            prop_assert_eq!(used + desk.ledger.pages.free_bytes(), desk.ledger.pages.total_bytes());
            let timed = held.iter().filter(|h| h.until.is_some()).count();
            prop_assert_eq!(timed, desk.ledger.deadlines.len());
            let inbound: u64 = held.iter().filter(|h| h.stage == Stage::Granted).map(|h| h.lease.kv_bytes).sum();
            prop_assert_eq!(inbound, desk.ledger.inbound_bytes);
            let unabsorbed = held.iter().filter(|h| !h.absorbed).count();
            prop_assert_eq!(unabsorbed, desk.ledger.unabsorbed_sessions as usize);
            let bytes: u64 = held.iter().filter(|h| !h.absorbed).map(|h| h.lease.kv_bytes).sum();
            prop_assert_eq!(bytes, desk.ledger.unabsorbed_bytes);
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
                Op::Drain(_) => Input::Recover(LongestLease { ttl_ms: 100, fence_max_ms: 0 }),
                Op::Sessions(max_sessions) => Input::Configure(Box::new(Settings { max_sessions, ..settings() })),
                Op::Pass(ms) | Op::Stall(ms) => { desk.pass(ms); Input::Tick }
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
