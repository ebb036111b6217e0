//! Leases whose holder, or whose host, stops in the middle.

use super::*;

/// Leases of an engine that moves its bytes itself: a write may land whatever the ledger says.
fn moves_itself() -> Settings {
    Settings { arena_bytes: None, writes_are_gated: false, ..settings() }
}

fn down() -> Input {
    Input::HolderDown { node: name("p0"), generation: 3 }
}

/// Milliseconds until nothing of the lease is left, stepping one at a time.
fn gone_after_ms(desk: &mut Desk, lease: &Lease) -> u64 {
    for ms in 0..100_000 {
        desk.tick();
        if desk.stage(lease).is_none() {
            return ms;
        }
        desk.pass(1);
    }
    panic!("{} is never free", lease.id);
}

#[test]
fn a_dead_holders_session_is_back_at_its_time_to_live_if_nobody_says_that_it_is_down() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    assert_eq!(gone_after_ms(&mut desk, &lease), 1_000);
}

#[test]
fn a_dead_holders_session_is_back_as_soon_as_it_is_said_to_be_down() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.pass(300);
    desk.step(down());
    assert_eq!(gone_after_ms(&mut desk, &lease), 0);
}

#[test]
fn where_its_engine_may_still_write_the_fence_counts_from_whichever_came_first() {
    let mut by_notice = Desk::new(moves_itself());
    let lease = by_notice.grant(1);
    by_notice.pass(300);
    by_notice.step(down());
    assert_eq!(by_notice.stage(&lease), Some(Stage::Fenced));
    assert_eq!(gone_after_ms(&mut by_notice, &lease), 5_000);

    let mut by_time = Desk::new(moves_itself());
    let lease = by_time.grant(1);
    by_time.pass(1_000);
    by_time.tick();
    by_time.pass(700);
    by_time.step(down());
    assert_eq!(gone_after_ms(&mut by_time, &lease), 4_300, "the notice does not count the fence anew");
}

#[test]
fn a_fenced_session_is_granted_to_nobody_until_the_fence_falls() {
    let mut desk = Desk::new(Settings { max_sessions: 1, ..moves_itself() });
    desk.grant(1);
    desk.step(down());
    desk.pass(4_999);
    assert_eq!(desk.refusal(1), LeaseRefusal::Sessions);
    desk.pass(1);
    desk.grant(1);
}

#[test]
fn bytes_that_are_complete_after_their_lease_ended_never_count_as_arrived() {
    let ends: [fn(&mut Desk, &Lease); 5] = [
        |desk, _| {
            desk.pass(1_000);
            desk.tick();
        },
        |desk, _| drop(desk.step(down())),
        |desk, lease| drop(desk.call("p0", LeaseCall::GiveUp(lease.id.clone()))),
        |desk, lease| drop(desk.call("p0", LeaseCall::Release(lease.id.clone()))),
        |desk, lease| assert!(desk.release(lease)),
    ];
    for end in ends {
        let mut desk = Desk::new(settings());
        let lease = desk.grant(1);
        desk.open(&lease, "p0", 1).unwrap();
        end(&mut desk, &lease);
        assert_eq!(desk.stage(&lease), Some(Stage::Fenced), "the stream is told to stop, and has not yet");
        assert!(matches!(desk.deliver(&lease), Err(OpenRefusal::Stage { stage: Stage::Fenced, .. })));
        desk.step(Input::Quiet { lease: lease.id.clone() });
        assert!(matches!(desk.deliver(&lease), Err(OpenRefusal::Unknown(_))));
    }
}

#[test]
fn bytes_that_come_after_their_lease_expired_are_let_in_nowhere() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.pass(1_000);
    assert!(matches!(desk.open(&lease, "p0", 1), Err(OpenRefusal::Unknown(_))));
    assert!(matches!(desk.deliver(&lease), Err(OpenRefusal::Unknown(_))));
}

#[test]
fn a_host_that_stood_still_for_ten_seconds_first_ends_what_is_overdue() {
    let mut desk = Desk::new(settings());
    let overdue = desk.grant(8 * PAGE_BYTES);
    desk.pass(10_000);
    // The whole arena once more: it must be the same pages, and only one lease may have them.
    let next = desk.grant(8 * PAGE_BYTES);
    assert_eq!(next.extents, overdue.extents);
    assert!(matches!(desk.open(&overdue, "p0", 1), Err(OpenRefusal::Unknown(_))));
    assert_eq!(desk.open(&next, "p0", 1).unwrap(), next.extents);
}

#[test]
fn a_lease_that_is_renewed_while_its_bytes_come_lives_on() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.open(&lease, "p0", 1).unwrap();
    desk.pass(900);
    let renew = LeaseCall::Renew { lease: lease.id.clone(), ttl_ms: 1_000 };
    assert_eq!(desk.call("p0", renew), LeaseCallReply::Changed(true));
    desk.pass(999);
    assert!(desk.deliver(&lease).is_ok());
}

#[test]
fn a_renewal_that_comes_too_late_revives_nothing() {
    let mut desk = Desk::new(settings());
    let lease = desk.grant(1);
    desk.pass(10_000);
    let renew = LeaseCall::Renew { lease: lease.id.clone(), ttl_ms: 1_000 };
    assert_eq!(desk.call("p0", renew), LeaseCallReply::Changed(false));
}

#[test]
fn a_smaller_limit_holds_for_what_is_asked_from_then_on() {
    let mut desk = Desk::new(settings());
    let kept = [desk.grant(1), desk.grant(1)];
    desk.step(Input::Configure(Box::new(Settings { max_sessions: 1, ..settings() })));
    assert!(kept.iter().all(|lease| desk.stage(lease) == Some(Stage::Granted)));
    desk.release(&kept[0]);
    assert_eq!(desk.refusal(1), LeaseRefusal::Sessions);
    desk.release(&kept[1]);
    desk.grant(1);
}

#[test]
fn a_configuration_does_not_move_the_arena() {
    let mut desk = Desk::new(settings());
    let grown = Settings { arena_bytes: Some(80 * PAGE_BYTES), kv_bytes: 80 * PAGE_BYTES, ..settings() };
    desk.step(Input::Configure(Box::new(grown)));
    assert_eq!(desk.refusal(9 * PAGE_BYTES), LeaseRefusal::Size);
}
