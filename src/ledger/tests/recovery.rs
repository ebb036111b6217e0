//! A ledger that does not know what its earlier life granted.

use super::*;

/// A ledger told of an earlier life whose longest lease was this.
fn restarted(settings: Settings, longest_ttl_ms: u64) -> Desk {
    let mut desk = Desk::new(settings);
    desk.step(Input::Recover(LongestLease { ttl_ms: longest_ttl_ms, fence_max_ms: 0 }));
    desk
}

fn earlier_life(number: u64) -> LeaseId {
    LeaseId { node: name("d0"), generation: 6, number }
}

#[test]
fn nothing_is_granted_until_the_longest_lease_and_its_fence_are_over() {
    let mut desk = restarted(settings(), 1_024);
    assert_eq!(desk.ledger.deadline(), Some(desk.now.mono.plus_ms(1_024 + 5_000)));
    desk.pass(6_023);
    assert_eq!(desk.refusal(1), LeaseRefusal::Recovering);
    desk.pass(1);
    desk.grant(1);
}

#[test]
fn a_time_that_no_life_could_have_granted_is_not_waited_for() {
    let mut desk = restarted(settings(), u64::MAX);
    desk.pass(65_536 + 5_000);
    desk.grant(1);
}

#[test]
fn the_fence_of_the_life_that_granted_is_waited_for_and_never_less_than_that_of_this_one() {
    for (noted_ms, waited_ms) in [(0, 5_000), (4_000, 5_000), (30_000, 30_000), (u64::MAX, 3_600_000)] {
        let mut desk = Desk::new(Settings { arena_bytes: None, writes_are_gated: false, ..settings() });
        desk.step(Input::Recover(LongestLease { ttl_ms: 1_024, fence_max_ms: noted_ms }));
        desk.pass(1_024 + waited_ms - 1);
        assert_eq!(desk.refusal(1), LeaseRefusal::Recovering, "{noted_ms}");
        desk.pass(1);
        desk.grant(1);
    }
}

#[test]
fn a_fence_that_is_set_longer_is_noted_for_what_is_granted_already_and_a_shorter_one_is_not() {
    let mut desk = Desk::new(settings());
    let set = |fence_max_ms| Input::Configure(Box::new(Settings { fence_max_ms, ..settings() }));
    let noted =
        |out: Vec<Output>| out.into_iter().find_map(|o| if let Output::Longest(it) = o { Some(it) } else { None });
    assert_eq!(noted(desk.step(set(6_000))), None, "nothing was granted");
    desk.grant(1);
    assert_eq!(noted(desk.step(set(4_000))), None);
    let longest = LongestLease { ttl_ms: 1_024, fence_max_ms: 9_000 };
    assert_eq!(noted(desk.step(set(9_000))), Some(longest));
    assert_eq!(noted(desk.step(set(9_000))), None, "it is noted already");
}

#[test]
fn what_is_not_known_counts_as_used_and_so_attracts_nobody() {
    let mut desk = Desk::new(settings());
    let told =
        |out: Vec<Output>| out.into_iter().find_map(|o| if let Output::Load(load) = o { Some(load) } else { None });
    let load = told(desk.step(Input::Recover(LongestLease { ttl_ms: 1_000, fence_max_ms: 5_000 }))).unwrap();
    assert_eq!((load.active_sessions, load.max_sessions, load.kv_bytes_free), (2, 2, 0));
    let LeaseReply::Refused { quote: Some(quote), .. } = desk.ask(1) else { panic!("granted, or no quote") };
    assert_eq!((quote.active_sessions, quote.max_sessions, quote.kv_bytes_free), (2, 2, 0));
    desk.pass(6_000);
    let load = told(desk.tick()).unwrap();
    assert_eq!((load.active_sessions, load.kv_bytes_free), (0, 8 * PAGE_BYTES), "told as soon as it is over");
}

#[test]
fn the_engines_report_ends_the_wait_and_its_sessions_count() {
    let mut desk = restarted(settings(), 60_000);
    let word = EngineWord { active_sessions: 1, as_of_ms: Some(desk.now.wall_ms), ..EngineWord::default() };
    assert!(desk.engine(word));
    assert!(!desk.ledger.is_recovering());
    desk.grant(1);
    assert_eq!(desk.refusal(1), LeaseRefusal::Sessions);
}

#[test]
fn a_reading_that_the_engine_took_before_the_restart_does_not_end_the_wait() {
    let mut desk = restarted(settings(), 60_000);
    assert!(desk.engine(EngineWord { as_of_ms: Some(desk.now.wall_ms - 1), ..EngineWord::default() }));
    assert_eq!(desk.refusal(1), LeaseRefusal::Recovering);
    assert!(desk.engine(EngineWord::default()), "one without a time is of now");
    desk.grant(1);
}

#[test]
fn pages_of_an_earlier_life_that_the_engine_still_names_are_not_handed_out() {
    let mut desk = restarted(settings(), 1_024);
    let names =
        |leases: Vec<LeaseId>| EngineWord { active_sessions: 1, adopted: Some(leases), ..EngineWord::default() };
    desk.pass(6_000);
    assert!(desk.engine(names(vec![earlier_life(3)])));
    desk.pass(6_000);
    assert_eq!(desk.refusal(1), LeaseRefusal::Recovering, "each such report counts the wait anew");
    assert!(desk.engine(names(vec![])));
    desk.grant(1);
}

#[test]
fn an_engine_with_memory_of_its_own_may_name_what_it_still_runs() {
    let own_memory = Settings { arena_bytes: None, writes_are_gated: false, ..settings() };
    let mut desk = restarted(own_memory, 1_024);
    let word = EngineWord { active_sessions: 1, adopted: Some(vec![earlier_life(3)]), ..EngineWord::default() };
    assert!(desk.engine(word));
    desk.grant(1);
    assert_eq!(desk.refusal(1), LeaseRefusal::Sessions);
}

#[test]
fn the_longest_time_to_live_is_noted_before_its_lease_is_told() {
    let mut desk = Desk::new(settings());
    let ask = |ask, ttl_ms| LeaseAsk {
        holder: name("p0"),
        holder_generation: 3,
        ask,
        request_id: RequestId::new("r").unwrap(),
        kv_bytes: 1,
        ttl_ms,
        model: None,
    };
    let mut noted = |call| {
        let out = desk.step(Input::Call { key: 1, from: name("p0"), call });
        let note = out.iter().position(|o| matches!(o, Output::Longest(_)));
        let reply = out.iter().position(|o| matches!(o, Output::Reply { .. })).unwrap();
        assert!(note.is_none_or(|note| note < reply));
        note.map(|note| out[note].clone())
    };
    let longest = |ttl_ms| Some(Output::Longest(LongestLease { ttl_ms, fence_max_ms: 5_000 }));
    assert_eq!(noted(LeaseCall::Ask(ask(1, 900))), longest(1_024));
    assert_eq!(noted(LeaseCall::Ask(ask(2, 1_024))), None, "covered by what was noted");
    let lease = LeaseId { node: name("d0"), generation: 7, number: 2 };
    let longer = LeaseCall::Renew { lease, ttl_ms: 50_000 };
    assert_eq!(noted(longer), longest(65_536));
}

#[test]
fn a_life_leaves_nothing_unless_something_is_delivered_or_may_still_be_written() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    assert!(desk.ledger.leaves_nothing(), "with the agent gone, nothing can be written into it");
    desk.deliver(&lease).unwrap();
    assert!(!desk.ledger.leaves_nothing(), "the engine still has it");
    desk.release(&lease);
    assert!(desk.ledger.leaves_nothing());

    let mut moves_itself = Desk::new(Settings { arena_bytes: None, writes_are_gated: false, ..settings() });
    moves_itself.grant(1);
    assert!(!moves_itself.ledger.leaves_nothing(), "its holder's engine may still write");
    assert!(!restarted(settings(), 1).ledger.leaves_nothing(), "nor is it known what the life before left");
}
