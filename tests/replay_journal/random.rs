//! Whatever a core is told in whatever order: its journal is read again and comes out the same.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use seam::api::RouteRequest;
use seam::codec::Blob;
use seam::core::{Core, Mono, Now};
use seam::health::{self, PathReport, Sample, SampleKind, SampleOutcome};
use seam::journal::{Entry, Input, Part};
use seam::ledger::{self, EngineWord, LongestLease};
use seam::mesh::{self, MeshCore, MeshSize, Output};
use seam::model::{
    Extent, Lease, LeaseAsk, LeaseCall, LeaseId, LeaseRefusal, LeaseReply, LoadRecord, PathHealth, PathSpec, PathState,
    Quote, RequestId,
};
use seam::policy;
use seam::replay::journal::{Verifier, segment_items};
use seam::sim::{Gossip, Settings, World};

use crate::common::cores;
use crate::recorder::{Cores, LIFE, STORY, bytes, header, node};

static GOSSIP: LazyLock<Gossip> = LazyLock::new(|| cores(MeshSize::Local, 2, 2));

/// Records the inputs, from wherever the cores are, and plays the bytes again.
fn recorded_and_played(mut cores: Cores, tape: Vec<(Now, Input)>) -> Result<(), TestCaseError> {
    let middle = tape.len() / 2;
    let mut entries: Vec<Entry> = Part::ALL.iter().map(|part| Entry::Snapshot(cores.snapshot(*part))).collect();
    for (index, (now, input)) in tape.into_iter().enumerate() {
        if index == middle {
            entries.extend(Part::ALL.iter().map(|part| Entry::Snapshot(cores.snapshot(*part))));
        }
        entries.push(Entry::Turn(cores.turn(now, input)));
    }
    let turns = entries.iter().filter(|entry| matches!(entry, Entry::Turn(_))).count();
    let bytes = bytes(&header("n0", 0), &entries);
    let mut verifier = Verifier::new(node("n0"), LIFE);
    segment_items(Path::new("random"), bytes.as_slice(), true).for_each(|item| verifier.take(item));
    let life = verifier.finish();
    for core in &life.cores {
        prop_assert!(core.first_difference.is_none(), "{}", core.first_difference.as_ref().unwrap());
        prop_assert!(turns == 0 || core.snapshots_compared == 1);
    }
    prop_assert_eq!(life.cores.iter().map(|core| core.verified).sum::<u64>(), turns as u64);
    prop_assert!(!life.overview.is_damaged() && !life.overview.tally.torn_end);
    Ok(())
}

/// Inputs with the pauses before them.
fn timed(inputs: Vec<(u64, Input)>) -> Vec<(Now, Input)> {
    let mut now = Now { mono: Mono(1), wall_ms: LIFE };
    let step = |(ms, input): (u64, Input)| {
        now = Now { mono: now.mono.plus_ms(ms), wall_ms: now.wall_ms + ms };
        (now, input)
    };
    inputs.into_iter().map(step).collect()
}

fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..50u64, 2 => 0..3_000u64, 1 => 0..90_000u64]
}

fn health_input() -> impl Strategy<Value = health::Input> {
    let path = || (0..4u32).prop_map(|number| format!("p0>d{number}/r0/quic").parse::<seam::model::PathId>().unwrap());
    let kind = prop_oneof![Just(SampleKind::Probe), Just(SampleKind::Transfer), Just(SampleKind::Reported)];
    let outcome =
        prop_oneof![6 => Just(SampleOutcome::Ok), 1 => Just(SampleOutcome::Lost), 1 => Just(SampleOutcome::Failed)];
    let sample = (path(), kind, outcome, prop_oneof![0.0..3.0f64, 0.0..120.0f64, Just(f64::NAN)], 0..2_000_000u64);
    let sample = sample.prop_map(|(path, kind, outcome, elapsed_ms, attempted_bytes)| {
        let bytes = if outcome == SampleOutcome::Ok { attempted_bytes } else { 0 };
        let (inflight_bytes, late_ms, taken) = (0, 0.0, None);
        health::Input::Sample(Sample {
            path,
            kind,
            outcome,
            elapsed_ms,
            bytes,
            attempted_bytes,
            inflight_bytes,
            late_ms,
            taken,
        })
    });
    let up = path()
        .prop_map(|id| health::Input::PathUp(PathSpec { id, address: "127.0.0.1:1".into(), bandwidth_gbps: 100.0 }));
    prop_oneof![3 => up, 1 => path().prop_map(health::Input::PathGone), 1 => Just(health::Input::Tick), 20 => sample]
}

fn lease(host: u32, number: u64) -> LeaseId {
    LeaseId { node: node(&format!("d{host}")), generation: LIFE, number }
}

fn policy_input() -> impl Strategy<Value = policy::Input> {
    let class = prop_oneof![Just("batch"), Just("interactive"), Just("release")];
    let route = (0..30u32, class, 1..1_000_000u64, any::<bool>()).prop_map(|(id, class, kv_bytes, dry_run)| {
        let request = RouteRequest {
            workload: class.parse().unwrap(),
            kv_bytes,
            request_id: None,
            model: None,
            source: None,
            exclude: Vec::new(),
            transfer_budget_ms: None,
            dry_run,
        };
        policy::Input::Route {
            key: 1,
            request_id: RequestId::new(&format!("r{id}")).unwrap(),
            request,
            traceparent: None,
        }
    });
    let quote = |revision, active_sessions| Quote {
        revision,
        active_sessions,
        max_sessions: 8,
        kv_bytes_free: 1 << 30,
        inbound_bytes: 0,
        token_time_ms: None,
    };
    let answer = (1..40u64, 0..2u32, 0..8u32, any::<bool>()).prop_map(move |(ask, host, active, granted)| {
        let reply = match granted {
            true => {
                let extents = vec![Extent { offset: 0, bytes: 65_536 }];
                let lease = Lease { id: lease(host, ask), kv_bytes: 1_000_000, extents, ttl_ms: 10_000 };
                LeaseReply::Granted { lease, quote: quote(ask, active) }
            }
            false => LeaseReply::Refused { refusal: LeaseRefusal::Sessions, quote: Some(quote(ask, 8)) },
        };
        policy::Input::LeaseAnswer { ask, reply }
    });
    let load = (0..2u32, 1..50u64, 0..9u32).prop_map(|(host, revision, active_sessions)| policy::Input::Load {
        node: node(&format!("d{host}")),
        generation: LIFE,
        record: LoadRecord {
            revision,
            active_sessions,
            max_sessions: 8,
            soft_fraction: 0.75,
            kv_bytes_free: 1 << 30,
            inbound_bytes: 0,
            token_time_ms: Some(20.0),
            draining: false,
        },
    });
    let state = (0..PathState::ALL.len()).prop_map(|index| PathState::ALL[index]);
    let report = (0..2u32, 1..1_000u64, state, 0.0..1.0f64).prop_map(|(host, version, state, gfs)| {
        let health =
            PathHealth { state, gfs, p99_latency_ms: 3.0, jitter_ms: gfs, sample_count: 20, ..PathHealth::UNKNOWN };
        policy::Input::Report(PathReport {
            path: format!("p0>d{host}/r0/mock").parse().unwrap(),
            version,
            age_ms: 0,
            health,
        })
    });
    let which = || (0..2u32, 1..40u64).prop_map(|(host, number)| lease(host, number));
    prop_oneof![
        6 => route,
        6 => answer,
        3 => load,
        6 => report,
        3 => which().prop_map(|lease| policy::Input::TransferStart { key: 2, lease, bytes: 1_000 }),
        2 => which().prop_map(|lease| policy::Input::TransferFailed { key: 3, lease, detail: "no route".into() }),
        2 => (which(), any::<bool>()).prop_map(|(lease, delivered)| policy::Input::TransferEnded { lease, delivered }),
        1 => (which(), 0..2_000u64).prop_map(|(lease, ms)| policy::Input::TransferWaited { lease, ms }),
        1 => which().prop_map(|lease| policy::Input::Release { key: 4, lease }),
        1 => (0..2u32).prop_map(|host| policy::Input::PeerGone { node: node(&format!("d{host}")), generation: LIFE - 1 }),
        2 => Just(policy::Input::Tick),
    ]
}

fn ledger_input() -> impl Strategy<Value = ledger::Input> {
    let which = || (0..30u64).prop_map(|number| LeaseId { number, ..lease(0, 0) });
    let ask = (0..40u64, 0..8_000_000u64).prop_map(|(ask, kv_bytes)| {
        let (holder, request_id) = (node("p0"), RequestId::new("r").unwrap());
        LeaseCall::Ask(LeaseAsk { holder, holder_generation: 3, ask, request_id, kv_bytes, ttl_ms: 500, model: None })
    });
    let call = |call| ledger::Input::Call { key: 1, from: node("p0"), call };
    prop_oneof![
        8 => ask.prop_map(call),
        2 => which().prop_map(move |lease| call(LeaseCall::Release(lease))),
        2 => which().prop_map(move |lease| call(LeaseCall::GiveUp(lease))),
        1 => which().prop_map(move |lease| call(LeaseCall::Renew { lease, ttl_ms: 700 })),
        4 => which().prop_map(|lease| ledger::Input::Open { key: 2, lease, sender: node("p0"), bytes: 1 }),
        3 => which().prop_map(|lease| ledger::Input::Delivered { key: 3, lease, bytes: 1, hash: [0; 32] }),
        2 => which().prop_map(|lease| ledger::Input::Quiet { lease }),
        2 => which().prop_map(|lease| ledger::Input::EngineRelease { key: 4, lease }),
        1 => (0..9u32).prop_map(|active_sessions| {
            ledger::Input::Engine { key: 5, word: EngineWord { active_sessions, ..EngineWord::default() } }
        }),
        1 => any::<bool>().prop_map(ledger::Input::Drain),
        1 => Just(ledger::Input::HolderDown { node: node("p0"), generation: 3 }),
        1 => Just(ledger::Input::Recover(LongestLease { ttl_ms: 100, fence_max_ms: 0 })),
        3 => Just(ledger::Input::Tick),
    ]
}

/// What one of two members of a mesh is told, while time passes and some of what it is sent is lost
/// or broken on the way.
fn mesh_tape(steps: &[(u64, u8)]) -> Vec<(Now, Input)> {
    let fresh = World::new(Settings { gossip: GOSSIP.clone(), ..Settings::new(7, 2, 2) }).unwrap();
    let Gossip::Cores { keys, .. } = &*GOSSIP else { panic!("real cores") };
    let mut members = [0, 1].map(|index| MeshCore::restore(fresh.mesh(index).unwrap().snapshot()));
    let (names, addrs) =
        (members.each_ref().map(|m| m.identity().name.clone()), members.each_ref().map(|m| m.identity().addr));
    let mut now = Now { mono: Mono(1), wall_ms: fresh.generation(0) };
    let mut tape = Vec::new();
    let seed = mesh::Input::SeedSeen { node: names[1].clone(), addr: addrs[1] };
    let mut queue = std::collections::VecDeque::from([(0, seed)]);
    for (ms, chance) in steps {
        for _ in 0..24 {
            let Some((to, input)) = queue.pop_front() else { break };
            if to == 0 {
                tape.push((now, Input::Mesh(input.clone())));
            }
            let mut out = Vec::new();
            members[to].step(now, input, &mut out);
            let (from, other) = (names[to].clone(), 1 - to);
            for output in out {
                let (at, input) = match output {
                    // One in eight is lost, another broken.
                    Output::Packet { .. } if chance % 8 == 1 => continue,
                    Output::Packet { mut bytes, .. } => {
                        if let (2, Some(byte)) = (chance % 8, bytes.last_mut()) {
                            *byte ^= 0x10;
                        }
                        (other, mesh::Input::Packet { from: from.clone(), bytes: Blob(bytes) })
                    }
                    Output::SyncAsk { exchange, bytes, .. } => {
                        (other, mesh::Input::SyncAsked { exchange, from: from.clone(), bytes: Blob(bytes) })
                    }
                    Output::SyncReply { exchange, bytes } => {
                        (other, mesh::Input::SyncReplied { exchange, from: from.clone(), bytes: Blob(bytes) })
                    }
                    Output::SyncPush { bytes, .. } => {
                        (other, mesh::Input::SyncPushed { from: from.clone(), bytes: Blob(bytes) })
                    }
                    Output::Sign { kind, seq, bytes } => {
                        let signature = Blob(keys[to].signer.sign(&bytes));
                        (to, mesh::Input::Signed { kind, seq, signature })
                    }
                    _ => continue,
                };
                queue.push_back((at, input));
            }
        }
        queue.truncate(64);
        now = Now { mono: now.mono.plus_ms(*ms), wall_ms: now.wall_ms + ms };
        queue.extend([(0, mesh::Input::Tick), (1, mesh::Input::Tick)]);
        if *chance == 255 {
            queue.push_back((0, mesh::Input::Leave));
        }
    }
    tape
}

/// Cores that know two decode hosts from the beginning of a story.
fn warm() -> Cores {
    let mut cores = STORY.cores();
    let knows = |input: &Input| matches!(input, Input::Policy(policy::Input::Peer { .. }));
    for (now, input) in STORY.tape.iter().filter(|(_, input)| knows(input)) {
        cores.turn(Now { mono: Mono(0), ..*now }, input.clone());
    }
    cores
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_tape_of_the_health_core_comes_out_the_same(
        inputs in prop::collection::vec((pause(), health_input().prop_map(Input::Health)), 0..200)
    ) {
        recorded_and_played(STORY.cores(), timed(inputs))?;
    }

    #[test]
    fn any_tape_of_the_policy_comes_out_the_same(
        inputs in prop::collection::vec((pause(), policy_input().prop_map(Input::Policy)), 0..200)
    ) {
        recorded_and_played(warm(), timed(inputs))?;
    }

    #[test]
    fn any_tape_of_the_ledger_comes_out_the_same(
        inputs in prop::collection::vec((pause(), ledger_input().prop_map(Input::Ledger)), 0..200)
    ) {
        recorded_and_played(STORY.cores(), timed(inputs))?;
    }

    #[test]
    fn all_cores_together_come_out_the_same(
        inputs in prop::collection::vec(
            (pause(), prop_oneof![
                health_input().prop_map(Input::Health),
                policy_input().prop_map(Input::Policy),
                ledger_input().prop_map(Input::Ledger),
            ]),
            0..150,
        )
    ) {
        recorded_and_played(warm(), timed(inputs))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_tape_of_the_mesh_comes_out_the_same(
        steps in prop::collection::vec((0..1_500u64, any::<u8>()), 1..60)
    ) {
        let tape = mesh_tape(&steps);
        let fresh = World::new(Settings { gossip: GOSSIP.clone(), ..Settings::new(7, 2, 2) }).unwrap();
        let mesh = MeshCore::restore(fresh.mesh(0).unwrap().snapshot());
        recorded_and_played(Cores { mesh, ..STORY.cores() }, tape)?;
    }
}
