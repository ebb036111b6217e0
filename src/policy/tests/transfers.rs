//! Transfers: from a lease to the last attempt.

use super::*;

#[test]
fn a_transfer_uses_a_lease_once_and_within_its_size() {
    let mut desk = Desk::new();
    let (_, lease) = desk.leased("a");
    let start = |bytes| Input::TransferStart { key: 2, lease: lease.clone(), bytes };
    assert!(matches!(plan(&desk.step(start(101))), Err(TransferProblem::Size { found: 101, limit: 100, .. })));
    let first = plan(&desk.step(start(100))).unwrap();
    assert_eq!((first.lease.id, first.deadline_ms), (lease.clone(), 2_000));
    assert!(plan(&desk.step(start(100))).unwrap_err().to_string().contains("being used"));
    desk.step(Input::TransferEnded { lease: lease.clone(), delivered: true });
    assert!(plan(&desk.step(start(100))).unwrap_err().to_string().contains("were delivered"));
    let stranger = LeaseId { number: 99, ..lease.clone() };
    let out = desk.step(Input::TransferStart { key: 2, lease: stranger, bytes: 1 });
    assert!(matches!(plan(&out), Err(TransferProblem::Unknown(_))));
}

#[test]
fn an_expired_lease_cannot_be_used() {
    let mut desk = Desk::new();
    let (_, lease) = desk.leased("a");
    desk.pass(10_000);
    let out = desk.step(Input::TransferStart { key: 2, lease, bytes: 1 });
    assert!(plan(&out).unwrap_err().to_string().contains("has expired"), "{out:?}");
}

#[test]
fn a_failed_attempt_goes_on_elsewhere_within_the_budget_and_the_records_are_linked() {
    let mut desk = Desk::new();
    let (record, lease) = desk.leased("a");
    desk.step(Input::TransferStart { key: 2, lease: lease.clone(), bytes: 100 });
    desk.pass(1_500);
    let out = desk.step(Input::TransferFailed { key: 2, lease: lease.clone(), detail: "d0 is gone".into() });
    assert!(gives_up(&out, &lease), "and not back: its bytes may have landed");
    let (node, _) = ask_of(&out).unwrap();
    assert_ne!(node, lease.node);
    let out = desk.grant(&out);
    let next = plan(&out).unwrap();
    assert_eq!((next.deadline_ms, &next.lease.id.node), (2_500, &node));
    let second = out.iter().find_map(|o| if let Output::Decided(r) = o { Some(r.clone()) } else { None }).unwrap();
    assert_eq!((second.attempt, second.parent.as_ref()), (2, Some(&record.id)));
    let failed = second.candidates.iter().find(|c| c.target.node.as_ref() == Some(&lease.node)).unwrap();
    assert!(failed.detail.as_ref().unwrap().contains("attempt 1 of this request failed here: d0 is gone"));
    let out = desk.step(Input::TransferFailed { key: 2, lease: next.lease.id, detail: "again".into() });
    assert!(plan(&out).unwrap_err().to_string().contains("no attempt is left after attempt 2"));
}

#[test]
fn what_a_source_is_waited_for_is_not_taken_from_the_budget_and_the_lease_lives_on() {
    let mut desk = Desk::new();
    let (_, lease) = desk.leased("a");
    let waited = |ms| Input::TransferWaited { lease: lease.clone(), ms };
    assert!(desk.step(waited(500)).is_empty(), "before it is used, a lease waits at its own cost");
    desk.step(Input::TransferStart { key: 2, lease: lease.clone(), bytes: 100 });
    for _ in 0..60 {
        desk.pass(500);
        let out = desk.step(waited(500));
        // Each time the whole budget of 4 s is left.
        let renewed = out.iter().filter(|output| matches!(output, Output::Renew { ttl_ms, .. } if *ttl_ms <= 5_000));
        assert!(renewed.count() <= 1);
    }
    desk.pass(3_000);
    let out = desk.step(Input::TransferFailed { key: 2, lease: lease.clone(), detail: "slow".into() });
    let next = plan(&desk.grant(&out)).unwrap();
    assert_eq!(next.deadline_ms, 1_000);
    assert!(desk.step(waited(500)).is_empty(), "an attempt that is over waits no more");
}

#[test]
fn a_spent_budget_ends_a_transfer() {
    let mut desk = Desk::new();
    let (_, lease) = desk.leased("a");
    desk.step(Input::TransferStart { key: 2, lease: lease.clone(), bytes: 100 });
    desk.pass(4_000);
    let out = desk.step(Input::TransferFailed { key: 2, lease, detail: "slow".into() });
    assert!(plan(&out).unwrap_err().to_string().contains("budget is spent"));
}

#[test]
fn a_second_attempt_is_stopped_by_the_name_of_its_transfer() {
    let mut desk = Desk::new();
    let (_, first) = desk.leased("a");
    desk.step(Input::TransferStart { key: 2, lease: first.clone(), bytes: 100 });
    let out = desk.step(Input::TransferFailed { key: 2, lease: first.clone(), detail: "x".into() });
    let second = plan(&desk.grant(&out)).unwrap().lease.id;
    let out = desk.step(Input::Cancel { key: 7, request_id: RequestId::new("a").unwrap() });
    assert!(out.contains(&Output::Stop { transfer: first, lease: second, cancelled: true }));
}

#[test]
fn a_lease_that_comes_after_the_budget_is_given_up_and_tried_on_nothing() {
    let mut desk = Desk::new();
    let (_, first) = desk.leased("a");
    desk.step(Input::TransferStart { key: 2, lease: first.clone(), bytes: 100 });
    desk.pass(3_900);
    let asked = desk.step(Input::TransferFailed { key: 2, lease: first, detail: "x".into() });
    desk.pass(200);
    let out = desk.grant(&asked);
    assert!(plan(&out).unwrap_err().to_string().contains("budget is spent"));
    assert!(out.iter().any(|o| matches!(o, Output::GiveUp(_))));
}
