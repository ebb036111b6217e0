//! Asking two hosts at once, silent hosts, trials, modes and overrides: the mesh profile's ways of a
//! request.

use super::*;
use crate::model::{Blame, Mode, ObservedPath, OnNoAdmissible, PathsRecord, Workload};
use crate::policy::overrides::{Override, OverrideTarget};
use crate::policy::select::Skipped;

fn mesh() -> Settings {
    Settings { profile: Profile::Mesh, thresholds: Thresholds::of(Profile::Mesh), ..settings() }
}

/// A mesh of these hosts, every path proven and healthy.
fn desk(hosts: &[&str]) -> Desk {
    let mut desk = Desk::with(mesh(), hosts);
    hosts.iter().for_each(|host| desk.healthy(host));
    desk
}

impl Desk {
    fn healthy(&mut self, host: &str) {
        self.report(host, PathState::Healthy, 0.0, 0.1);
    }

    fn answer_ask(&mut self, node: &NodeName, ask: &LeaseAsk, inbound_bytes: u64) -> Vec<Output> {
        let lease = Lease {
            id: LeaseId { node: node.clone(), generation: 1, number: ask.ask },
            kv_bytes: ask.kv_bytes,
            extents: Vec::new(),
            ttl_ms: ask.ttl_ms,
        };
        let quote = Quote { inbound_bytes, ..quote(2, 1) };
        self.step(Input::LeaseAnswer { ask: ask.ask, reply: LeaseReply::Granted { lease, quote } })
    }

    fn refuse_ask(&mut self, ask: &LeaseAsk, refusal: LeaseRefusal) -> Vec<Output> {
        let quote = (refusal != LeaseRefusal::Unreachable).then(|| quote(9, 8));
        self.step(Input::LeaseAnswer { ask: ask.ask, reply: LeaseReply::Refused { refusal, quote } })
    }
}

fn asks(out: &[Output]) -> Vec<(NodeName, LeaseAsk)> {
    let ask = |output: &Output| match output {
        Output::Ask { node, ask, .. } => Some((node.clone(), ask.clone())),
        _ => None,
    };
    out.iter().filter_map(ask).collect()
}

fn lease_of(node: &NodeName, ask: &LeaseAsk) -> LeaseId {
    LeaseId { node: node.clone(), generation: 1, number: ask.ask }
}

#[test]
fn two_hosts_are_asked_at_once_and_the_better_quote_is_kept() {
    let mut desk = desk(&["d0", "d1", "d2"]);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    let [(first, first_ask), (second, second_ask)] = &asked[..] else { panic!("{asked:?}") };
    assert_ne!(first, second);
    let out = desk.answer_ask(first, first_ask, 4_000_000_000);
    assert_eq!(out, [], "the other may be better");
    let out = desk.answer_ask(second, second_ask, 100);
    assert!(gives_back(&out, &lease_of(first, first_ask)), "{out:?}");
    let record = answer(&out, 1).unwrap();
    assert_eq!(record.lease.as_ref().unwrap().id, lease_of(second, second_ask));
    assert_eq!(chosen(&record), Some(second.as_str()));
    let of = |node: &NodeName| record.candidates.iter().find(|c| c.target.node.as_ref() == Some(node)).unwrap();
    assert_eq!((of(first).chosen, of(first).skipped_reason), (false, Some(Skipped::SlowerQuote)));
    assert_eq!((of(second).chosen, of(second).skipped_reason), (true, None));
    // 4 GB at 100 Gb/s are 320 ms, beside a p99 of 3 ms.
    assert_eq!(of(first).predicted_ms, Some(323.0));
    assert!(of(second).predicted_ms < of(first).predicted_ms);
    assert_eq!(desk.policy.leases().count(), 1);
}

#[test]
fn equal_quotes_keep_the_better_ranked_host_whoever_answers_first() {
    for order in [[0, 1], [1, 0]] {
        let mut desk = desk(&["d0", "d1"]);
        let asked = asks(&desk.route(1, "a", request("interactive")));
        let mut out = Vec::new();
        for at in order {
            out = desk.answer_ask(&asked[at].0, &asked[at].1, 100);
        }
        assert_eq!(chosen(&answer(&out, 1).unwrap()), Some(asked[0].0.as_str()));
        assert!(gives_back(&out, &lease_of(&asked[1].0, &asked[1].1)));
    }
}

#[test]
fn a_second_host_has_little_time_to_offer_better_and_its_late_grant_is_given_up() {
    let mut desk = desk(&["d0", "d1"]);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    desk.pass(30);
    assert_eq!(desk.answer_ask(&asked[1].0, &asked[1].1, 100), []);
    assert_eq!(desk.policy.deadline(), Some(desk.now.mono.plus_ms(20)));
    desk.pass(20);
    let out = desk.step(Input::Tick);
    assert_eq!(chosen(&answer(&out, 1).unwrap()), Some(asked[1].0.as_str()));
    let late = desk.answer_ask(&asked[0].0, &asked[0].1, 100);
    assert!(gives_up(&late, &lease_of(&asked[0].0, &asked[0].1)), "{late:?}");
    // Being slower than an offer is no silence: both are asked again.
    assert_eq!(asks(&desk.route(2, "b", request("interactive"))).len(), 2);
}

#[test]
fn a_refusal_waits_for_the_other_answer_before_it_decides_again() {
    let mut desk = desk(&["d0", "d1", "d2"]);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    assert_eq!(desk.refuse_ask(&asked[0].1, LeaseRefusal::Sessions), []);
    let again = asks(&desk.refuse_ask(&asked[1].1, LeaseRefusal::Sessions));
    let [(third, ask)] = &again[..] else { panic!("{again:?}") };
    assert!(asked.iter().all(|(node, _)| node != third));
    let record = answer(&desk.answer_ask(third, ask, 0), 1).unwrap();
    let refused = record.candidates.iter().filter(|c| c.code == Reason::RejectedLeaseRefused).count();
    assert_eq!((chosen(&record), refused), (Some(third.as_str()), 2));
}

#[test]
fn only_a_host_that_is_as_good_is_asked_beside_the_chosen_one() {
    let mut desk = desk(&["d0", "d1"]);
    desk.report("d1", PathState::DegradedUsable, 0.3, 0.1);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    assert_eq!(asked.len(), 1, "a degraded path's quote is no match for a healthy one");
    assert_eq!(asked[0].0, name("d0"));
    let mut reference = Desk::new();
    assert_eq!(asks(&reference.route(1, "a", request("interactive"))).len(), 1);
}

#[test]
fn cancelling_while_one_offer_waits_hands_it_back_and_the_other_is_given_up() {
    let mut desk = desk(&["d0", "d1"]);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    desk.answer_ask(&asked[0].0, &asked[0].1, 100);
    let out = desk.step(Input::Cancel { key: 9, request_id: RequestId::new("a").unwrap() });
    assert!(gives_back(&out, &lease_of(&asked[0].0, &asked[0].1)));
    assert!(matches!(answer(&out, 1), Err(RouteProblem::Cancelled(_))));
    let late = desk.answer_ask(&asked[1].0, &asked[1].1, 100);
    assert!(gives_up(&late, &lease_of(&asked[1].0, &asked[1].1)));
}

#[test]
fn an_offer_whose_host_dies_is_void_and_the_other_host_still_counts() {
    let mut desk = desk(&["d0", "d1"]);
    let asked = asks(&desk.route(1, "a", request("interactive")));
    desk.answer_ask(&asked[0].0, &asked[0].1, 100);
    let out = desk.step(Input::PeerGone { node: asked[0].0.clone(), generation: 1 });
    assert!(!out.iter().any(|output| matches!(output, Output::Answer { .. })), "{out:?}");
    let out = desk.answer_ask(&asked[1].0, &asked[1].1, 100);
    assert_eq!(chosen(&answer(&out, 1).unwrap()), Some(asked[1].0.as_str()));
}

#[test]
fn a_host_that_does_not_answer_is_not_asked_for_a_while_longer_each_time() {
    let mut desk = desk(&["d0"]);
    for hold_ms in [1_000, 2_000, 4_000] {
        desk.healthy("d0");
        assert_eq!(asks(&desk.route(1, &format!("asked-{hold_ms}"), request("batch"))).len(), 1);
        desk.pass(250);
        let record = answer(&desk.step(Input::Tick), 1).unwrap();
        assert_eq!(record.outcome, Outcome::NoAdmissiblePool);
        desk.pass(hold_ms - 1);
        desk.healthy("d0");
        let out = desk.route(1, &format!("held-{hold_ms}"), request("batch"));
        assert_eq!(answer(&out, 1).unwrap().candidates[0].code, Reason::RejectedLeaseRefused);
        desk.pass(1);
    }
    desk.healthy("d0");
    let asked = asks(&desk.route(1, "answered", request("batch")));
    desk.answer_ask(&asked[0].0, &asked[0].1, 0);
    let asked = desk.route(1, "again", request("batch"));
    assert_eq!(asks(&asked).len(), 1, "an answer ends the silence");
}

#[test]
fn a_path_on_which_a_transfer_failed_is_tried_by_one_at_a_time_with_a_short_deadline() {
    let mut desk = desk(&["d0"]);
    let health = PathHealth {
        state: PathState::Restored,
        sample_count: 10,
        p99_latency_ms: 3.0,
        failed_bytes: 100,
        ..PathHealth::UNKNOWN
    };
    desk.step(Input::Report(PathReport { path: path("d0"), version: 2, age_ms: 0, health }));
    let (_, lease) = desk.leased("trial");
    let out = desk.route(2, "second", request("batch"));
    let refused = &answer(&out, 2).unwrap().candidates[0];
    assert_eq!((refused.code, refused.observed, refused.limit), (Reason::RejectedCapacity, Some(1.0), Some(1.0)));
    let out = desk.step(Input::TransferStart { key: 3, lease: lease.clone(), bytes: 100 });
    assert_eq!(plan(&out).unwrap().deadline_ms, 250, "not half of the budget of 4 s");
    desk.step(Input::TransferEnded { lease, delivered: true });
    assert_eq!(asks(&desk.route(4, "third", request("batch"))).len(), 1);
}

#[test]
fn a_transfer_that_starts_late_asks_for_its_lease_to_live_longer() {
    let mut desk = desk(&["d0"]);
    let renews = |out: &[Output]| {
        out.iter().find_map(|output| match output {
            Output::Renew { lease, ttl_ms } => Some((lease.clone(), *ttl_ms)),
            _ => None,
        })
    };
    let (_, early) = desk.leased("early");
    let out = desk.step(Input::TransferStart { key: 2, lease: early, bytes: 100 });
    assert_eq!((plan(&out).unwrap().deadline_ms, renews(&out)), (2_000, None));
    let (_, late) = desk.leased("late");
    desk.pass(7_001);
    desk.healthy("d0");
    let out = desk.step(Input::TransferStart { key: 3, lease: late.clone(), bytes: 100 });
    assert_eq!((plan(&out).unwrap().deadline_ms, renews(&out)), (2_000, Some((late, 3_000))));
}

#[test]
fn an_observed_class_is_decided_and_recorded_but_never_leased() {
    let with = |mode, on_no_admissible| {
        let change = |class: Workload| Arc::new(Workload { mode, on_no_admissible, ..class });
        Settings { workloads: builtin_workloads().into_iter().map(change).collect(), ..mesh() }
    };
    let mut observed = Desk::with(with(Mode::Observe, OnNoAdmissible::Refuse), &["d0"]);
    observed.healthy("d0");
    let out = observed.route(1, "a", request("batch"));
    let record = answer(&out, 1).unwrap();
    assert!(asks(&out).is_empty());
    assert_eq!((record.outcome, record.mode, &record.lease), (Outcome::Admitted, Mode::Observe, &None));
    assert_eq!(chosen(&record), Some("d0"));

    let mut advised = Desk::with(with(Mode::Advise, OnNoAdmissible::Refuse), &["d0"]);
    advised.report("d0", PathState::QuarantineCandidate, 0.9, 0.1);
    let asked = advised.route(1, "a", request("release"));
    let record = answer(&advised.grant(&asked), 1).unwrap();
    assert_eq!(record.outcome, Outcome::AdmittedLeastBad, "advice refuses nothing");
    assert!(record.lease.is_some());
}

#[test]
fn an_operators_word_replaces_the_measured_state_until_its_time_is_over() {
    let mut desk = desk(&["d0", "d1"]);
    let say =
        |target: &str, state| Override { target: target.parse().unwrap(), state, reason: "maintenance".to_owned() };
    let decided = |desk: &mut Desk, class: &str| {
        ["d0", "d1"].iter().for_each(|host| desk.healthy(host));
        let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request(class) });
        answer(&out, 1).unwrap()
    };
    let out = desk.step(Input::Override { key: 5, said: say("d0", PathState::Quarantined), ttl_ms: 1_000 });
    assert_eq!(out, [Output::Done { key: 5, changed: true }]);
    let record = decided(&mut desk, "batch");
    assert_eq!(chosen(&record), Some("d1"));
    assert_eq!(record.candidates[0].code, Reason::RejectedOverride);
    assert_eq!(record.candidates[0].path_state, PathState::Quarantined);
    assert_eq!(desk.policy.deadline(), Some(desk.now.mono.plus_ms(1_000)));
    desk.pass(1_000);
    assert_eq!(desk.step(Input::Tick), [Output::OverrideEnded(OverrideTarget::Node(name("d0")))]);
    assert!(decided(&mut desk, "batch").candidates.iter().all(|candidate| candidate.admissible));

    desk.report("d1", PathState::Quarantined, 0.9, 0.1);
    let path = path("d1").to_string();
    desk.step(Input::Override { key: 6, said: say(&path, PathState::Healthy), ttl_ms: 1_000 });
    assert!(decided(&mut desk, "batch").candidates[1].admissible);
    let withdrawn = desk.step(Input::Withdraw { key: 7, target: path.parse().unwrap() });
    assert_eq!(withdrawn, [Output::Done { key: 7, changed: true }]);
}

#[test]
fn blame_is_placed_by_what_other_observers_say() {
    let mut desk = desk(&["d0", "d1", "d2"]);
    for (source, generation) in [("p1", 1), ("p2", 1)] {
        let record = NodeRecord {
            node: name(source),
            roles: vec![Role::Prefill],
            pool: None,
            model: None,
            compat: None,
            risk_group: None,
            rails: vec![rail()],
            certificate: Vec::new(),
        };
        desk.step(Input::Peer { generation, record: Arc::new(record) });
    }
    let blame = |desk: &mut Desk, host: &str| {
        let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request("batch") });
        let record = answer(&out, 1).unwrap();
        record.candidates.iter().find(|c| c.target.node.as_ref() == Some(&name(host))).unwrap().blame
    };
    assert_eq!(blame(&mut desk, "d0"), None, "nothing is degraded");
    desk.report("d0", PathState::DegradedUsable, 0.3, 0.1);
    assert_eq!(blame(&mut desk, "d0"), Some(Blame::Between), "only this edge");
    let complain = |desk: &mut Desk, source: &str| {
        let health = PathHealth { state: PathState::DegradedRestricted, gfs: 0.5, ..PathHealth::UNKNOWN };
        let path = PathId { source: name(source), ..path("d0") };
        let record = PathsRecord { chunk: 0, paths: vec![ObservedPath { path, health }] };
        desk.step(Input::Paths { observer: name(source), record });
    };
    complain(&mut desk, "p1");
    complain(&mut desk, "p2");
    assert_eq!(blame(&mut desk, "d0"), Some(Blame::Destination));
    for host in ["d1", "d2"] {
        desk.report(host, PathState::DegradedUsable, 0.3, 0.1);
    }
    assert_eq!(blame(&mut desk, "d1"), Some(Blame::Source), "most paths of this source");
}

#[test]
fn a_hosts_token_time_is_compared_with_its_pools_median() {
    let mut desk = desk(&["d0", "d1", "d2"]);
    for (host, token_time_ms) in [("d0", 20.0), ("d1", 22.0), ("d2", 90.0)] {
        let record = LoadRecord { token_time_ms: Some(token_time_ms), ..load_record(5, 0) };
        desk.step(Input::Load { node: name(host), generation: 1, record });
    }
    let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request("release") });
    let record = answer(&out, 1).unwrap();
    let ratios: Vec<f64> = record.candidates.iter().map(|c| c.capacity.token_time_ratio.unwrap()).collect();
    assert_eq!(ratios, [20.0 / 22.0, 1.0, 90.0 / 22.0]);
    assert_eq!(record.candidates[2].skipped_reason, Some(Skipped::SlowerTokens));
}

#[test]
fn a_grant_of_something_else_is_no_grant_and_none_lasts_longer_than_was_asked() {
    let granted = |asked: &(NodeName, LeaseAsk), change: &dyn Fn(&mut Lease)| {
        let (node, ask) = asked;
        let id = lease_of(node, ask);
        let mut lease = Lease { id, kv_bytes: ask.kv_bytes, extents: Vec::new(), ttl_ms: ask.ttl_ms };
        change(&mut lease);
        Input::LeaseAnswer { ask: ask.ask, reply: LeaseReply::Granted { lease, quote: quote(2, 1) } }
    };
    let mut desk = desk(&["d0"]);
    let asked = asks(&desk.route(1, "of-another-host", request("batch"))).remove(0);
    let out = desk.step(granted(&asked, &|lease| lease.id.node = name("d9")));
    let record = answer(&out, 1).unwrap();
    assert_eq!((record.outcome, record.candidates[0].code), (Outcome::NoAdmissiblePool, Reason::RejectedLeaseRefused));
    assert!(record.candidates[0].detail.as_ref().unwrap().contains("not asked for"));
    assert!(!out.iter().any(|output| matches!(output, Output::GiveUp(_) | Output::GiveBack(_))), "{out:?}");

    let asked = asks(&desk.route(2, "too-small", request("batch"))).remove(0);
    let out = desk.step(granted(&asked, &|lease| lease.kv_bytes -= 1));
    assert!(gives_up(&out, &lease_of(&asked.0, &asked.1)));
    assert_eq!(answer(&out, 2).unwrap().outcome, Outcome::NoAdmissiblePool);

    let asked = asks(&desk.route(3, "for-ever", request("batch"))).remove(0);
    let out = desk.step(granted(&asked, &|lease| lease.ttl_ms = u64::MAX));
    assert_eq!(answer(&out, 3).unwrap().lease.as_ref().unwrap().ttl_ms, 10_000);
    assert_eq!(desk.policy.deadline(), Some(desk.now.mono.plus_ms(10_000)));
}

#[test]
fn a_path_on_trial_is_taken_while_its_hosts_offer_waits_for_a_better_one() {
    let mut desk = desk(&["d0", "d1"]);
    for host in ["d0", "d1"] {
        let health = PathHealth { failed_bytes: 100, sample_count: 10, p99_latency_ms: 3.0, ..PathHealth::UNKNOWN };
        desk.step(Input::Report(PathReport { path: path(host), version: 2, age_ms: 0, health }));
    }
    let first = asks(&desk.route(1, "a", request("batch")));
    assert_eq!(first.len(), 2);
    let tried = |desk: &mut Desk| {
        let out = desk.route(2, "x", RouteRequest { dry_run: true, ..request("batch") });
        answer(&out, 2).unwrap().candidates.iter().filter(|c| c.code == Reason::RejectedCapacity).count()
    };
    assert_eq!(tried(&mut desk), 2, "both are asked");
    desk.answer_ask(&first[0].0, &first[0].1, 100);
    assert_eq!(tried(&mut desk), 2, "one offers, one is asked");
    desk.answer_ask(&first[1].0, &first[1].1, 100);
    assert_eq!(tried(&mut desk), 1, "one is held");
}

#[test]
fn no_more_hosts_are_asked_at_once_than_may_be_asked_at_all() {
    let mut desk = Desk::with(Settings { lease_rounds: 3, ..mesh() }, &["d0", "d1", "d2", "d3"]);
    ["d0", "d1", "d2", "d3"].iter().for_each(|host| desk.healthy(host));
    let asked = asks(&desk.route(1, "a", request("batch")));
    desk.refuse_ask(&asked[0].1, LeaseRefusal::Sessions);
    let last = asks(&desk.refuse_ask(&asked[1].1, LeaseRefusal::Sessions));
    assert_eq!((asked.len(), last.len()), (2, 1));
}

#[test]
fn a_pools_median_follows_the_hosts_that_are_left() {
    let mut desk = desk(&["d0", "d1", "d2"]);
    let say = |desk: &mut Desk, host: &str, token_time_ms: f64| {
        let record = LoadRecord { token_time_ms: Some(token_time_ms), ..load_record(7, 0) };
        desk.step(Input::Load { node: name(host), generation: 1, record });
    };
    [("d0", 20.0), ("d1", 30.0), ("d2", 40.0)].iter().for_each(|(host, ms)| say(&mut desk, host, *ms));
    let ratio = |desk: &mut Desk| {
        let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request("batch") });
        answer(&out, 1).unwrap().candidates[0].capacity.token_time_ratio
    };
    assert_eq!(ratio(&mut desk), Some(20.0 / 30.0));
    desk.step(Input::PeerGone { node: name("d2"), generation: 1 });
    assert_eq!(ratio(&mut desk), None, "two hosts make no median");
}
