//! The policy core as a whole: requests, leases and transfers over a view of two decode hosts.

mod asking;
mod transfers;

use std::sync::Arc;

use super::decide::Target;
use super::record::{CandidateRecord, DecisionRecord};
use super::select::Skipped;
use super::view::Own;
use super::*;
use crate::api::RouteRequest;
use crate::core::{Core, Mono, Now};
use crate::health::{PathReport, Thresholds};
use crate::model::{
    BackendKind, Extent, Lease, LeaseAsk, LeaseId, LeaseRefusal, LeaseReply, LoadRecord, Mover, NodeName, NodeRecord,
    Outcome, PathHealth, PathId, PathState, Profile, Quote, RailRecord, Reason, RequestId, Role, builtin_workloads,
};

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn rail() -> RailRecord {
    RailRecord {
        name: "r0".parse().unwrap(),
        group: "g".parse().unwrap(),
        backend: BackendKind::Mock,
        address: "127.0.0.1:1".to_owned(),
        bandwidth_gbps: 100.0,
    }
}

fn path(to: &str) -> PathId {
    format!("p0>{to}/r0/mock").parse().unwrap()
}

fn settings() -> Settings {
    Settings {
        profile: Profile::Reference,
        thresholds: Thresholds::default(),
        workloads: builtin_workloads().into_iter().map(Arc::new).collect(),
        config_hash: "0123".into(),
        mover: Mover::Seam,
        max_kv_bytes: 1000,
        lease_ttl_ms: 10_000,
        lease_timeout_ms: 250,
        lease_rounds: 8,
        transfer_budget_ms: 4_000,
        transfer_attempts: 2,
        max_excluded_fraction: 0.5,
        max_requests: 4,
        request_ttl_ms: 60_000,
        max_paths: 16,
    }
}

struct Desk {
    policy: Policy,
    now: Now,
}

impl Desk {
    fn with(settings: Settings, hosts: &[&str]) -> Self {
        let own = Own { node: name("p0"), rails: vec![rail()], model: None, compat: None };
        let mut desk = Self { policy: Policy::new(5, own, settings), now: Now { mono: Mono(1), wall_ms: 1_000 } };
        for host in hosts {
            desk.peer(host, 1);
        }
        desk
    }

    fn new() -> Self {
        Self::with(settings(), &["d0", "d1"])
    }

    fn peer(&mut self, host: &str, generation: u64) {
        self.peer_with(host, generation, vec![rail()]);
    }

    fn peer_with(&mut self, host: &str, generation: u64, rails: Vec<RailRecord>) {
        let record = NodeRecord {
            node: name(host),
            roles: vec![Role::Decode],
            pool: Some("pool".parse().unwrap()),
            model: None,
            compat: None,
            risk_group: None,
            rails,
            certificate: Vec::new(),
        };
        self.step(Input::Peer { generation, record: Arc::new(record) });
        self.load(host, generation, 1, 0);
    }

    fn load(&mut self, host: &str, generation: u64, revision: u64, active_sessions: u32) {
        let record = load_record(revision, active_sessions);
        self.step(Input::Load { node: name(host), generation, record });
    }

    fn report(&mut self, host: &str, state: PathState, gfs: f64, jitter_ms: f64) {
        let health = PathHealth { state, gfs, p99_latency_ms: 3.0, jitter_ms, sample_count: 10, ..PathHealth::UNKNOWN };
        self.step(Input::Report(PathReport { path: path(host), version: 1, age_ms: 0, health }));
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.policy.step(self.now, input, &mut out);
        out
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now { mono: self.now.mono.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
    }

    fn route(&mut self, key: u64, id: &str, request: RouteRequest) -> Vec<Output> {
        self.step(Input::Route { key, request_id: RequestId::new(id).unwrap(), request, traceparent: None })
    }

    /// Routes, grants, and returns the answer.
    fn leased(&mut self, id: &str) -> (Arc<DecisionRecord>, LeaseId) {
        let asked = self.route(1, id, request("batch"));
        let out = self.grant(&asked);
        let record = answer(&out, 1).unwrap();
        let lease = record.lease.clone().unwrap().id;
        (record, lease)
    }

    fn grant(&mut self, asked: &[Output]) -> Vec<Output> {
        let (node, ask) = ask_of(asked).expect("an ask");
        let lease = Lease {
            id: LeaseId { node: node.clone(), generation: 1, number: ask.ask },
            kv_bytes: ask.kv_bytes,
            extents: vec![Extent { offset: 0, bytes: 65_536 }],
            ttl_ms: ask.ttl_ms,
        };
        self.step(Input::LeaseAnswer { ask: ask.ask, reply: LeaseReply::Granted { lease, quote: quote(2, 1) } })
    }

    fn refuse(&mut self, asked: &[Output]) -> Vec<Output> {
        let (_, ask) = ask_of(asked).expect("an ask");
        let reply = LeaseReply::Refused { refusal: LeaseRefusal::Sessions, quote: Some(quote(9, 8)) };
        self.step(Input::LeaseAnswer { ask: ask.ask, reply })
    }
}

fn load_record(revision: u64, active_sessions: u32) -> LoadRecord {
    LoadRecord {
        revision,
        active_sessions,
        max_sessions: 8,
        soft_fraction: 0.75,
        kv_bytes_free: 500,
        inbound_bytes: 0,
        token_time_ms: None,
        draining: false,
    }
}

fn quote(revision: u64, active_sessions: u32) -> Quote {
    Quote { revision, active_sessions, max_sessions: 8, kv_bytes_free: 400, inbound_bytes: 100, token_time_ms: None }
}

fn request(workload: &str) -> RouteRequest {
    RouteRequest {
        workload: workload.parse().unwrap(),
        kv_bytes: 100,
        request_id: None,
        model: None,
        source: None,
        exclude: Vec::new(),
        transfer_budget_ms: None,
        dry_run: false,
    }
}

fn ask_of(out: &[Output]) -> Option<(NodeName, LeaseAsk)> {
    out.iter()
        .find_map(|o| if let Output::Ask { node, ask, .. } = o { Some((node.clone(), ask.clone())) } else { None })
}

fn answer(out: &[Output], wanted: u64) -> Result<Arc<DecisionRecord>, RouteProblem> {
    out.iter()
        .find_map(|o| match o {
            Output::Answer { key, result } if *key == wanted => Some(result.clone()),
            _ => None,
        })
        .unwrap_or_else(|| panic!("no answer in {out:?}"))
}

fn plan(out: &[Output]) -> Result<Plan, TransferProblem> {
    out.iter().find_map(|o| if let Output::Plan { result, .. } = o { Some(result.clone()) } else { None }).unwrap()
}

fn chosen(record: &DecisionRecord) -> Option<&str> {
    record.chosen.as_ref().and_then(|chosen| chosen.node.as_ref()).map(NodeName::as_str)
}

fn gives_back(out: &[Output], lease: &LeaseId) -> bool {
    out.contains(&Output::GiveBack(lease.clone()))
}

fn gives_up(out: &[Output], lease: &LeaseId) -> bool {
    out.contains(&Output::GiveUp(lease.clone()))
}

#[test]
fn a_granted_lease_makes_the_decision_the_answer() {
    let mut desk = Desk::new();
    let (record, lease) = desk.leased("a");
    assert_eq!(record.outcome, Outcome::Admitted);
    assert_eq!(chosen(&record), Some(lease.node.as_str()));
    assert_eq!((record.attempt, &record.parent), (1, &None));
    assert_eq!(desk.policy.leases().count(), 1);
}

#[test]
fn the_same_request_again_gets_the_same_answer_and_another_body_is_refused() {
    let mut desk = Desk::new();
    let asked = desk.route(1, "a", request("batch"));
    assert_eq!(desk.route(2, "a", request("batch")), [], "waits for the first");
    let out = desk.grant(&asked);
    assert_eq!(answer(&out, 1), answer(&out, 2));
    let again = desk.route(3, "a", request("batch"));
    assert_eq!(answer(&again, 3), answer(&out, 1));
    assert!(ask_of(&again).is_none());
    let other = desk.route(4, "a", RouteRequest { kv_bytes: 99, ..request("batch") });
    assert!(matches!(answer(&other, 4), Err(RouteProblem::IdReused(_))));
}

#[test]
fn a_refused_lease_leads_to_the_next_host_and_its_numbers_are_in_the_record() {
    let mut desk = Desk::new();
    let asked = desk.route(1, "a", request("batch"));
    let (first, _) = ask_of(&asked).unwrap();
    let asked = desk.refuse(&asked);
    let (second, _) = ask_of(&asked).unwrap();
    assert_ne!(first, second);
    let record = answer(&desk.grant(&asked), 1).unwrap();
    let refused = record.candidates.iter().find(|c| c.target.node.as_ref() == Some(&first)).unwrap();
    assert_eq!((refused.code, refused.observed, refused.limit), (Reason::RejectedLeaseRefused, Some(8.0), Some(8.0)));
    assert!(refused.detail.as_ref().unwrap().contains("refused the lease: sessions"));
}

#[test]
fn when_every_host_refuses_the_outcome_says_so() {
    let mut desk = Desk::new();
    let asked = desk.route(1, "a", request("batch"));
    let asked = desk.refuse(&asked);
    let record = answer(&desk.refuse(&asked), 1).unwrap();
    assert_eq!((record.outcome, chosen(&record)), (Outcome::NoAdmissiblePool, None));
    assert!(record.candidates.iter().all(|c| c.code == Reason::RejectedLeaseRefused));
}

#[test]
fn hosts_are_asked_for_a_bounded_number_of_rounds() {
    let mut desk = Desk::with(Settings { lease_rounds: 1, ..settings() }, &["d0", "d1"]);
    let asked = desk.route(1, "a", request("batch"));
    let record = answer(&desk.refuse(&asked), 1).unwrap();
    assert_eq!(record.outcome, Outcome::NoAdmissiblePool);
}

#[test]
fn a_silent_host_is_passed_over_and_its_late_grant_is_given_back() {
    let mut desk = Desk::new();
    let first = desk.route(1, "a", request("batch"));
    assert_eq!(desk.policy.deadline(), Some(desk.now.mono.plus_ms(250)));
    desk.pass(250);
    let second = desk.step(Input::Tick);
    assert_ne!(ask_of(&first).unwrap().0, ask_of(&second).unwrap().0);
    let late = desk.grant(&first);
    assert!(matches!(late.as_slice(), [Output::GiveUp(_)]), "{late:?}");
    assert!(answer(&desk.grant(&second), 1).is_ok());
}

#[test]
fn unanswered_asks_count_as_sessions() {
    let mut desk = Desk::with(settings(), &["d0"]);
    desk.load("d0", 1, 2, 7);
    desk.route(1, "a", request("batch"));
    let out = desk.route(2, "b", request("batch"));
    let record = answer(&out, 2).unwrap();
    assert_eq!(record.candidates[0].code, Reason::RejectedCapacity);
}

#[test]
fn older_words_on_headroom_do_not_replace_newer_ones() {
    let mut desk = Desk::with(settings(), &["d0"]);
    desk.load("d0", 1, 9, 8);
    desk.load("d0", 1, 3, 0);
    assert_eq!(answer(&desk.route(1, "a", request("batch")), 1).unwrap().outcome, Outcome::NoAdmissiblePool);
    desk.load("d0", 1, 10, 0);
    assert!(ask_of(&desk.route(2, "b", request("batch"))).is_some());
}

#[test]
fn among_equals_the_backend_that_is_configured_first_is_taken_and_another_one_when_it_is_not_as_good() {
    let rails = |backends: [BackendKind; 2]| {
        let names = backends.into_iter().zip(["r1", "r2"]);
        names.map(|(backend, name)| RailRecord { name: name.parse().unwrap(), backend, ..rail() }).collect()
    };
    for ours in [[BackendKind::Nixl, BackendKind::Mock], [BackendKind::Mock, BackendKind::Nixl]] {
        let own = Own { node: name("p0"), rails: rails(ours), model: None, compat: None };
        let settings = Settings { profile: Profile::Mesh, max_requests: 64, ..settings() };
        let mut desk = Desk { policy: Policy::new(5, own, settings), now: Now { mono: Mono(1), wall_ms: 1_000 } };
        for host in ["d0", "d1"] {
            // What a peer prefers says nothing of what this host does.
            desk.peer_with(host, 1, rails([BackendKind::Mock, BackendKind::Nixl]));
        }
        let mut seen = |desk: &mut Desk, backend: BackendKind, gfs: f64| {
            for host in ["d0", "d1"] {
                let rail = if ours[0] == backend { "r1" } else { "r2" };
                let path: PathId = format!("p0>{host}/{rail}/{backend}").parse().unwrap();
                let health = PathHealth { gfs, sample_count: 10, p99_latency_ms: 3.0, ..PathHealth::UNKNOWN };
                desk.step(Input::Report(PathReport { path, version: desk.now.mono.0, age_ms: 0, health }));
            }
        };
        let mut taken = |desk: &mut Desk, at: u64| {
            let ask = RouteRequest { dry_run: true, ..request("interactive") };
            let record = answer(&desk.route(at, &format!("r{at}"), ask), at).unwrap();
            let path = |target: &Target| target.path.clone().unwrap();
            let chosen = record.chosen.as_ref().unwrap().path.clone().unwrap();
            let same_host = |candidate: &&CandidateRecord| path(&candidate.target).destination == chosen.destination;
            let mut others = record.candidates.iter().filter(same_host);
            let other = others.find(|candidate| path(&candidate.target) != chosen).unwrap();
            (chosen.backend, other.skipped_reason)
        };
        seen(&mut desk, ours[0], 0.01);
        seen(&mut desk, ours[1], 0.0);
        for at in 1..20 {
            assert_eq!(taken(&mut desk, at), (ours[0], Some(Skipped::LaterBackend)));
        }
        desk.pass(1);
        seen(&mut desk, ours[0], 0.12);
        assert_eq!(taken(&mut desk, 20), (ours[1], Some(Skipped::HigherGfs)));
    }
}

#[test]
fn a_jittery_path_keeps_batch_and_loses_interactive_and_release() {
    let mut desk = Desk::new();
    desk.report("d0", PathState::DegradedUsable, 0.3, 6.0);
    desk.report("d1", PathState::Healthy, 0.05, 0.2);
    for (class, host) in [("batch", "d0"), ("interactive", "d1"), ("release", "d1")] {
        let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request(class) });
        assert_eq!(chosen(&answer(&out, 1).unwrap()), Some(host), "{class}");
    }
}

#[test]
fn a_dry_run_asks_nobody_and_is_not_remembered() {
    let mut desk = Desk::new();
    let out = desk.route(1, "a", RouteRequest { dry_run: true, ..request("batch") });
    assert!(ask_of(&out).is_none());
    assert!(answer(&out, 1).unwrap().lease.is_none());
    assert!(ask_of(&desk.route(2, "a", request("batch"))).is_some());
}

#[test]
fn what_a_host_cannot_serve_is_refused_with_its_reason() {
    let mut desk = Desk::with(settings(), &["d0"]);
    let code = |desk: &mut Desk, request: RouteRequest| {
        let out = desk.route(1, "x", RouteRequest { dry_run: true, ..request });
        let record = answer(&out, 1).unwrap();
        (record.candidates[0].code, record.candidates[0].observed, record.candidates[0].limit)
    };
    let big = code(&mut desk, RouteRequest { kv_bytes: 600, ..request("batch") });
    assert_eq!(big, (Reason::RejectedCapacity, Some(500.0), Some(600.0)));
    let excluded = code(&mut desk, RouteRequest { exclude: vec![name("d0")], ..request("batch") });
    assert_eq!(excluded.0, Reason::RejectedOverride);
    desk.peer("d0", 2);
    let mut fresh = Desk::with(settings(), &[]);
    let record = NodeRecord {
        node: name("d7"),
        roles: vec![Role::Decode],
        pool: Some("pool".parse().unwrap()),
        model: Some("llama".parse().unwrap()),
        compat: None,
        risk_group: None,
        rails: vec![rail()],
        certificate: Vec::new(),
    };
    fresh.step(Input::Peer { generation: 1, record: Arc::new(record) });
    assert_eq!(code(&mut fresh, request("batch")).0, Reason::RejectedUnproven, "no headroom heard yet");
    let other = RouteRequest { model: Some("qwen".parse().unwrap()), ..request("batch") };
    assert_eq!(code(&mut fresh, other).0, Reason::RejectedIncompatible);
}

#[test]
fn bad_questions_are_answered_with_what_is_allowed() {
    let mut desk = Desk::new();
    let mut ask = |request: RouteRequest| answer(&desk.route(1, "x", request), 1).unwrap_err().to_string();
    assert!(ask(request("nope")).contains("batch, interactive, release"));
    assert_eq!(ask(RouteRequest { kv_bytes: 0, ..request("batch") }), "found 0, allowed 1 to 1000 bytes");
    assert_eq!(ask(RouteRequest { kv_bytes: 1001, ..request("batch") }), "found 1001, allowed 1 to 1000 bytes");
    assert!(ask(RouteRequest { transfer_budget_ms: Some(0), ..request("batch") }).contains("allowed 1 to"));
    assert!(ask(RouteRequest { source: Some(name("p9")), ..request("batch") }).contains("dry_run"));
    assert!(
        ask(RouteRequest { source: Some(name("p9")), dry_run: true, ..request("batch") }).contains("no such member")
    );
}

#[test]
fn requests_that_hold_something_are_never_forgotten_for_new_ones() {
    let mut desk = Desk::new();
    let held: Vec<_> = ["a", "b", "c", "d"].map(|id| desk.leased(id)).into();
    let out = desk.route(1, "e", request("batch"));
    assert_eq!(answer(&out, 1), Err(RouteProblem::Full { limit: 4 }));
    desk.step(Input::Release { key: 9, lease: held[0].1.clone() });
    assert!(ask_of(&desk.route(1, "e", request("batch"))).is_some());
}

#[test]
fn every_decision_has_a_number_of_its_own() {
    let mut desk = Desk::with(settings(), &["d0"]);
    desk.route(1, "a", request("batch"));
    desk.route(2, "b", request("batch"));
    desk.route(3, "c", request("batch"));
    desk.pass(250);
    let mut ids: Vec<u64> = desk
        .step(Input::Tick)
        .into_iter()
        .filter_map(|o| if let Output::Decided(record) = o { Some(record.id.input) } else { None })
        .collect();
    assert_eq!(ids.len(), 3, "all three timed out in one turn");
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_cancelled_request_frees_what_it_holds_and_stops_what_it_moves() {
    let mut desk = Desk::new();
    let cancel =
        |desk: &mut Desk, id: &str| desk.step(Input::Cancel { key: 7, request_id: RequestId::new(id).unwrap() });
    let asked = desk.route(1, "asking", request("batch"));
    let out = cancel(&mut desk, "asking");
    assert_eq!(answer(&out, 1), Err(RouteProblem::Cancelled(RequestId::new("asking").unwrap())));
    assert!(matches!(desk.grant(&asked).as_slice(), [Output::GiveUp(_)]));

    let (_, lease) = desk.leased("held");
    assert!(gives_back(&cancel(&mut desk, "held"), &lease));
    assert!(cancel(&mut desk, "held").contains(&Output::Done { key: 7, changed: false }));

    let (_, lease) = desk.leased("moving");
    desk.step(Input::TransferStart { key: 2, lease: lease.clone(), bytes: 100 });
    let out = cancel(&mut desk, "moving");
    let stop = Output::Stop { transfer: lease.clone(), lease: lease.clone(), cancelled: true };
    assert!(out.contains(&stop));
    assert!(gives_up(&desk.step(Input::TransferEnded { lease: lease.clone(), delivered: false }), &lease));
}

#[test]
fn a_dead_host_voids_its_leases_and_fails_its_asks_and_transfers() {
    let mut desk = Desk::with(settings(), &["d0"]);
    let (_, held) = desk.leased("held");
    let (_, moving) = desk.leased("moving");
    desk.step(Input::TransferStart { key: 2, lease: moving.clone(), bytes: 100 });
    desk.route(3, "asking", request("batch"));
    let out = desk.step(Input::PeerGone { node: name("d0"), generation: 1 });
    assert!(out.contains(&Output::Stop { transfer: moving.clone(), lease: moving, cancelled: false }));
    assert_eq!(answer(&out, 3).unwrap().outcome, Outcome::NoAdmissiblePool);
    let out = desk.step(Input::TransferStart { key: 4, lease: held, bytes: 1 });
    assert!(plan(&out).unwrap_err().to_string().contains("is gone"));
    assert_eq!(desk.policy.view().paths(desk.now).count(), 0);
}

#[test]
fn a_restarted_host_is_used_again_and_nothing_old_is_believed() {
    let mut desk = Desk::with(settings(), &["d0"]);
    desk.report("d0", PathState::QuarantineCandidate, 0.9, 20.0);
    desk.peer("d0", 2);
    desk.step(Input::PeerGone { node: name("d0"), generation: 1 });
    let out = desk.route(1, "a", request("release"));
    assert!(ask_of(&out).is_some(), "{out:?}");
}

#[test]
fn the_same_tape_gives_the_same_decisions_from_any_snapshot() {
    let mut desk = Desk::new();
    let mut tape = Vec::new();
    let mut snapshots = Vec::new();
    let lease = |number| LeaseId { node: name("d0"), generation: 1, number };
    let granted = |number| LeaseReply::Granted {
        lease: Lease { id: lease(number), kv_bytes: 100, extents: Vec::new(), ttl_ms: 10_000 },
        quote: quote(number + 1, 1),
    };
    let route = |id: &str, class: &str| Input::Route {
        key: 1,
        request_id: RequestId::new(id).unwrap(),
        request: request(class),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    };
    let inputs = [
        route("a", "batch"),
        Input::LeaseAnswer { ask: 1, reply: granted(1) },
        Input::TransferStart { key: 2, lease: lease(1), bytes: 50 },
        route("b", "interactive"),
        Input::Tick,
        Input::TransferFailed { key: 2, lease: lease(1), detail: "x".into() },
        Input::LeaseAnswer { ask: 2, reply: granted(2) },
        Input::Cancel { key: 3, request_id: RequestId::new("b").unwrap() },
        Input::PeerGone { node: name("d0"), generation: 1 },
        Input::Tick,
    ];
    for input in inputs {
        desk.pass(200);
        snapshots.push(desk.policy.snapshot());
        let out = desk.step(input.clone());
        tape.push((desk.now, input, out));
    }
    let config = bincode::config::standard();
    for (start, snapshot) in snapshots.into_iter().enumerate() {
        let bytes = bincode::serde::encode_to_vec(&snapshot, config).unwrap();
        let (restored, _): (Policy, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        let mut again = Policy::restore(restored);
        for (now, input, spoken) in &tape[start..] {
            let mut out = Vec::new();
            again.step(*now, input.clone(), &mut out);
            assert_eq!(out, *spoken);
        }
        assert_eq!(again, desk.policy);
    }
}
