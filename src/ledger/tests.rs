mod abandoned;
mod random;
mod recovery;

use super::*;
use crate::model::{Extent, PAGE_BYTES, RequestId};

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

    fn tick(&mut self) -> Vec<Output> {
        self.step(Input::Tick)
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
fn an_ask_repeated_after_its_lease_was_used_gets_another_which_ends_with_its_holder() {
    let moves_itself = Settings { arena_bytes: None, writes_are_gated: false, ..settings() };
    for (settings, delivered) in [(settings(), true), (moves_itself, false)] {
        let mut desk = Desk::new(settings);
        let granted = |reply| match reply {
            LeaseReply::Granted { lease, .. } => lease,
            LeaseReply::Refused { refusal, .. } => panic!("refused: {refusal}"),
        };
        let first = granted(desk.ask_as(9, 10));
        if delivered {
            desk.deliver(&first).unwrap();
        } else {
            assert_eq!(desk.call("p0", LeaseCall::GiveUp(first.id.clone())), LeaseCallReply::Changed(true));
            assert_eq!(desk.stage(&first), Some(Stage::Fenced));
        }
        let second = granted(desk.ask_as(9, 10));
        assert_ne!(second.id, first.id);
        assert!(desk.release(&first));
        assert_eq!(granted(desk.ask_as(9, 10)), second, "the first one's end is not the second one's");

        desk.step(Input::HolderDown { node: name("p0"), generation: 3 });
        assert_eq!(desk.stage(&second), (!delivered).then_some(Stage::Fenced), "its holder's end is");
    }
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
fn an_expired_lease_is_free_at_once_or_fenced_while_a_stream_still_writes() {
    let mut desk = Desk::new(settings());
    let idle = desk.grant(1);
    let open = desk.grant(1);
    desk.open(&open, "p0", 1).unwrap();
    desk.pass(1_000);
    desk.step(Input::Tick);
    assert_eq!((desk.stage(&idle), desk.stage(&open)), (None, Some(Stage::Fenced)));
    desk.step(Input::Quiet { lease: open.id.clone() });
    assert_eq!(desk.stage(&open), None, "free as soon as nothing writes into it");
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
