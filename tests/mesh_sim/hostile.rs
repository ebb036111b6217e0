//! What a broken or hostile member sends has no effect but a count.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seam::codec::{self, Blob, Wire};
use seam::core::{Core, Mono, Now};
use seam::mesh::{
    Aged, Envelope, Input, MAX_MEMBERS, Member, MeshCore, MeshEvent, MeshSize, Output, RecordKind, Refusal, Settings,
    SyncAsk,
};
use seam::model::{LoadRecord, NodeName};

use super::net::{Authority, CLUSTER, Net, SECOND, WALL0, load, name, paths};

/// A record of node `origin`, signed by node `by`.
fn record<T: Wire>(net: &Net, origin: usize, by: usize, kind: RecordKind, seq: u64, body: &T) -> Envelope {
    let mut envelope = Envelope {
        origin: name(origin),
        kind,
        generation: WALL0,
        seq,
        ttl_ms: 60_000,
        body: Blob(codec::encode(body).unwrap()),
        signature: Blob::default(),
    };
    sign(net, by, &mut envelope);
    envelope
}

fn sign(net: &Net, by: usize, envelope: &mut Envelope) {
    envelope.signature = Blob(net.nodes[by].signer.sign(&envelope.signed_bytes(CLUSTER).unwrap()));
}

/// A mesh of four in which node 1 has said how loaded it is, once.
fn quiet() -> Net {
    let mut net = Net::of(4, 21);
    net.give(1, Input::PublishLoad(load(7)));
    net.run_until(5 * SECOND, |net| net.whole() && net.nodes[0].loads.contains_key(&name(1))).unwrap();
    net
}

/// Everything that node 0 believes.
fn belief(net: &Net) -> Vec<String> {
    let core = net.nodes[0].core.as_ref().unwrap();
    let records = core.records(net.now()).map(|record| format!("{:?}", record.envelope));
    let members = core.members().map(|(member, state)| format!("{member:?} {state:?}"));
    let mut belief: Vec<_> = records.chain(members).collect();
    belief.sort();
    belief
}

/// Node 3 brings node 0 a record, which is refused.
fn refused(net: &mut Net, reason: Refusal, envelope: Envelope) {
    let (before, count) = (belief(net), net.refusals(reason));
    let loads = net.nodes[0].loads.clone();
    net.push(3, 0, vec![envelope]);
    assert_eq!(net.refusals(reason), count + 1, "{reason}: {:?}", net.nodes[0].refused);
    assert_eq!(belief(net), before, "{reason}");
    assert_eq!(net.nodes[0].loads, loads, "{reason}");
}

#[test]
fn records_that_their_origin_did_not_write_or_cannot_have_written_are_refused() {
    let mut net = quiet();
    let good = record(&net, 1, 1, RecordKind::Load, 2, &load(8));

    let forged = record(&net, 1, 3, RecordKind::Load, 2, &load(8));
    refused(&mut net, Refusal::BadSignature, forged);
    let changed = Envelope { body: Blob(codec::encode(&load(9)).unwrap()), ..good.clone() };
    refused(&mut net, Refusal::BadSignature, changed);
    let stolen = Envelope { origin: name(2), ..good.clone() };
    refused(&mut net, Refusal::BadSignature, stolen);

    let jump = record(&net, 1, 1, RecordKind::Load, u64::MAX, &load(8));
    refused(&mut net, Refusal::SequenceJump, jump);
    let known = net.nodes[0].record(net.now(), &name(1), RecordKind::Load).seq;
    net.push(3, 0, vec![record(&net, 1, 1, RecordKind::Load, known + 1, &load(8))]);
    let old = record(&net, 1, 1, RecordKind::Load, known, &load(3));
    refused(&mut net, Refusal::Stale, old);

    let mut later = good.clone();
    later.generation += 1;
    sign(&net, 1, &mut later);
    refused(&mut net, Refusal::UnknownOrigin, later);
    let nobody = record(&net, 9, 1, RecordKind::Load, 1, &load(1));
    refused(&mut net, Refusal::UnknownOrigin, nobody);
    let mine = record(&net, 0, 0, RecordKind::Load, 5, &load(1));
    refused(&mut net, Refusal::OwnName, mine);

    let impossible = LoadRecord { token_time_ms: Some(f64::NAN), ..load(1) };
    let impossible = record(&net, 1, 1, RecordKind::Load, known + 2, &impossible);
    refused(&mut net, Refusal::Malformed, impossible);
    let foreign = record(&net, 1, 1, RecordKind::Paths(0), 1, &paths(0, &name(2), 1));
    refused(&mut net, Refusal::ForeignPath, foreign);
    let mut large = record(&net, 1, 1, RecordKind::Paths(0), 1, &paths(0, &name(1), 1));
    large.body.0.resize(2_000, 0);
    sign(&net, 1, &mut large);
    refused(&mut net, Refusal::TooLarge, large);
}

#[test]
fn the_same_record_is_believed_when_nothing_is_wrong_with_it() {
    let mut net = quiet();
    let known = net.nodes[0].record(net.now(), &name(1), RecordKind::Load).seq;
    net.push(3, 0, vec![record(&net, 1, 1, RecordKind::Load, known + 1, &load(8))]);
    assert_eq!(net.nodes[0].loads[&name(1)].1, load(8));
}

#[test]
fn a_member_that_makes_records_old_as_it_passes_them_on_voids_nothing() {
    let mut net = quiet();
    let known = net.nodes[0].record(net.now(), &name(1), RecordKind::Load).seq;
    let node = net.nodes[1].core.as_ref().unwrap().node_record(&name(1)).unwrap().clone();
    let node_seq = net.nodes[0].record(net.now(), &name(1), RecordKind::Node).seq;
    let newer = |net: &Net| {
        let node = Envelope { ttl_ms: 300_000, ..record(net, 1, 1, RecordKind::Node, node_seq + 1, &node) };
        let mut node = node;
        sign(net, 1, &mut node);
        [record(net, 1, 1, RecordKind::Load, known + 1, &load(8)), node]
    };

    let before = (belief(&net), net.nodes[0].loads.clone());
    for (age_ms, refused) in [(u32::MAX, 2), (300_000, 4), (60_000, 5)] {
        let aged = newer(&net).into_iter().map(|envelope| Aged { age_ms, envelope });
        // An age of a minute is possible for a node record.
        let aged = aged.filter(|aged| age_ms > 60_000 || aged.envelope.kind == RecordKind::Load).collect();
        net.push_aged(3, 0, aged);
        assert_eq!(net.refusals(Refusal::Stale), refused, "{age_ms}");
        assert_eq!((belief(&net), net.nodes[0].loads.clone()), before);
    }

    let aged = newer(&net).into_iter().map(|envelope| Aged { age_ms: envelope.ttl_ms - 1, envelope });
    net.push_aged(3, 0, aged.collect());
    assert_eq!(net.nodes[0].loads[&name(1)].1, load(8), "the numbers were not noted");
    net.run(29 * SECOND);
    assert_eq!(net.nodes[0].record(net.now(), &name(1), RecordKind::Load).seq, known + 1, "its origin had its time");
    net.run(110 * SECOND);
    assert!(net.nodes[0].holds(net.now(), &name(1), RecordKind::Node));
    assert!(net.nodes[0].gone.is_empty());
}

#[test]
fn a_live_member_whose_node_record_expires_is_not_gone_and_its_load_stays_known() {
    let mut net = quiet();
    let node = net.nodes[1].core.as_ref().unwrap().node_record(&name(1)).unwrap().clone();
    let seq = net.nodes[0].record(net.now(), &name(1), RecordKind::Node).seq;
    net.give(1, Input::PublishPaths(vec![paths(0, &name(1), 1)]));
    net.run(SECOND);
    let (load, chunk) = (net.nodes[0].loads[&name(1)].clone(), net.nodes[0].paths[&(name(1), 0)].clone());
    let mut short = record(&net, 1, 1, RecordKind::Node, seq + 1, &node);
    short.ttl_ms = 1_000;
    sign(&net, 1, &mut short);
    net.push(3, 0, vec![short]);
    net.run_until(3 * SECOND, |net| !net.nodes[0].holds(net.now(), &name(1), RecordKind::Node)).unwrap();

    let known = |net: &Net| {
        assert!(net.nodes[0].gone.is_empty(), "its leases would be void");
        assert_eq!(net.nodes[0].nodes[&name(1)], WALL0);
        assert_eq!(net.nodes[0].loads[&name(1)], load);
        assert_eq!(net.nodes[0].paths[&(name(1), 0)], chunk);
    };
    known(&net);
    net.push(3, 0, vec![record(&net, 1, 1, RecordKind::Node, seq + 2, &node)]);
    assert!(net.nodes[0].holds(net.now(), &name(1), RecordKind::Node));
    known(&net);
}

#[test]
fn a_node_may_have_only_so_many_chunks_of_paths() {
    let mut net = quiet();
    for chunk in 0..64 {
        net.push(3, 0, vec![record(&net, 1, 1, RecordKind::Paths(chunk), 1, &paths(chunk, &name(1), 1))]);
    }
    assert_eq!(net.refusals(Refusal::TooManyChunks), 0);
    let more = record(&net, 1, 1, RecordKind::Paths(64), 1, &paths(64, &name(1), 1));
    refused(&mut net, Refusal::TooManyChunks, more);

    let large = paths(0, &name(1), 40);
    net.give(1, Input::PublishPaths(vec![large, paths(64, &name(1), 1)]));
    assert_eq!(net.nodes[1].refused[&Refusal::TooLarge], 1);
    assert_eq!(net.nodes[1].refused[&Refusal::TooManyChunks], 1);
}

#[test]
fn a_node_record_needs_a_certificate_of_this_cluster_in_its_own_name() {
    let other = Authority::new();
    for (certificate, signer) in [other.issue(&name(1)), quiet().authority.issue(&name(2))] {
        let mut net = quiet();
        let core = net.nodes[1].core.as_ref().unwrap();
        let mut node = core.node_record(&name(1)).unwrap().clone();
        node.certificate = certificate;
        net.nodes[1].signer = signer;
        let envelope = record(&net, 1, 1, RecordKind::Node, 2, &node);
        refused(&mut net, Refusal::BadCertificate, envelope);
    }
}

#[test]
fn a_life_that_begins_too_far_ahead_never_takes_part() {
    let mut net = Net::of(4, 22);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.add(1);
    net.start(4, u64::MAX);
    net.run(5 * SECOND);
    assert!(net.refusals(Refusal::FutureGeneration) > 0);
    net.kill(4);
    assert!(net.whole());

    net.start(4, WALL0 + net.now_ms() + 500_000);
    assert!(net.run_until(3 * SECOND, Net::whole).is_some(), "a clock a little ahead is fine");

    // A member claims such a life of another, of the whole mesh's and of its own.
    for victim in [1, 3] {
        let claim = Member { name: name(victim), addr: super::net::addr(victim), generation: u64::MAX, renewals: 0 };
        let before = (belief(&net), net.refusals(Refusal::FutureGeneration));
        claims(&mut net, 3, 0, vec![foca::Member::alive(claim)]);
        assert_eq!(net.refusals(Refusal::FutureGeneration), before.1 + 1);
        assert_eq!(belief(&net), before.0);
    }
}

/// Node `from` brings node `to` claims about members, in an exchange.
fn claims(net: &mut Net, from: usize, to: usize, members: Vec<foca::Member<Member>>) {
    let ask = SyncAsk::Entries { member_buckets: 0, members, record_buckets: 0, digest: vec![] };
    net.ask(from, to, codec::encode(&ask).unwrap());
}

#[test]
fn a_thousand_claims_a_second_that_a_healthy_node_is_down_are_refused_and_it_stays_up() {
    let (liar, victim) = (3, 5);
    let mut net = Net::of(12, 23);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.give(victim, Input::PublishLoad(load(7)));
    net.run(2 * SECOND);
    let told: Vec<_> = (0..12).filter(|index| *index != liar).collect();
    for ms in 0..10_000 {
        let to = told[ms % told.len()];
        let core = net.nodes[victim].core.as_ref().unwrap();
        // What the liar hears of its victim is always up to date.
        let claim = foca::Member::new(core.identity().clone(), 7, foca::State::Down);
        claims(&mut net, liar, to, vec![claim]);
        net.run(1);
    }
    let refused = net.refusals(Refusal::UnprovenDown);
    println!("{refused} of 10000 claims refused, the victim rejoined {} times", net.nodes[victim].renewals);
    assert!(refused > 9_000);
    assert!(net.nodes[victim].renewals <= 3, "at most once in five seconds");
    assert!(net.running().all(|node| node.gone.is_empty()), "nobody believed it");
    assert!(net.running().filter(|node| node.name != name(victim)).all(|node| node.loads.contains_key(&name(victim))));
    assert!(net.run_until(5 * SECOND, Net::whole).is_some());
}

#[test]
fn suspicions_of_a_healthy_node_however_many_do_not_make_their_raisers_word_count() {
    let (liar, victim) = (3, 5);
    let mut net = Net::of(12, 24);
    net.run_until(5 * SECOND, Net::whole).unwrap();
    net.run(2 * SECOND);
    for round in 0..2_000_u16 {
        let core = net.nodes[victim].core.as_ref().unwrap();
        let identity = core.identity().clone();
        let claim = |state| foca::Member::new(identity.clone(), round * 2, state);
        let to = usize::from(round) % 3;
        claims(&mut net, liar, to, vec![claim(foca::State::Suspect), claim(foca::State::Down)]);
        net.run(5);
    }
    println!("the victim rejoined {} times", net.nodes[victim].renewals);
    assert!(net.refusals(Refusal::UnprovenDown) > 1_000);
    assert!(net.running().all(|node| node.gone.is_empty()), "nobody believed it");
}

#[test]
fn a_packet_speaks_only_for_the_name_in_its_senders_certificate() {
    let mut net = quiet();
    net.taped = true;
    net.run(SECOND);
    let packet = |input: &(Now, Input)| matches!(&input.1, Input::Packet { from, .. } if *from == name(1));
    let (_, packet) = net.nodes[0].tape.iter().find(|input| packet(input)).unwrap().clone();
    let Input::Packet { bytes, .. } = packet else { unreachable!() };
    let before = belief(&net);
    net.give(0, Input::Packet { from: name(3), bytes });
    assert_eq!(net.refusals(Refusal::WrongSource), 1);
    assert_eq!(belief(&net), before);
}

#[test]
fn only_so_many_members_are_known() {
    let mut net = quiet();
    let member = |index| {
        let name = NodeName::new(&format!("x{index}")).unwrap();
        Member { name, addr: super::net::addr(9), generation: WALL0, renewals: 0 }
    };
    let members = (0..MAX_MEMBERS).map(|index| foca::Member::alive(member(index))).collect();
    let ask = SyncAsk::Entries { member_buckets: !0, members, record_buckets: 0, digest: vec![] };
    let bytes = Blob(codec::encode(&ask).unwrap());
    let now = net.now();
    let core = net.nodes[0].core.as_mut().unwrap();
    let mut out = Vec::new();
    core.step(now, Input::SyncAsked { exchange: 1, from: name(3), bytes }, &mut out);
    let refused = |output: &&Output| matches!(output, Output::Refused { reason: Refusal::TooManyMembers, .. });
    assert_eq!(out.iter().filter(refused).count(), 3);
    assert_eq!(core.members().count(), MAX_MEMBERS);
}

#[test]
fn answers_to_questions_that_were_not_asked_are_refused() {
    let mut net = quiet();
    let before = belief(&net);
    net.give(0, Input::SyncReplied { exchange: 999, from: name(3), bytes: Blob(vec![1, 0, 0, 0]) });
    assert_eq!(net.refusals(Refusal::Unasked), 1);
    net.give(0, Input::Signed { kind: RecordKind::Load, seq: 1, signature: Blob(vec![0; 64]) });
    assert_eq!(belief(&net), before);
}

#[test]
fn damaged_packets_change_no_record_and_stop_nobody() {
    let mut net = quiet();
    net.taped = true;
    net.run(3 * SECOND);
    let packets: Vec<_> = net.nodes[0].tape.iter().map(|(_, input)| input.clone()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for mut input in packets.iter().cycle().take(3_000).cloned() {
        let (Input::Packet { bytes, .. }
        | Input::SyncAsked { bytes, .. }
        | Input::SyncPushed { bytes, .. }
        | Input::SyncReplied { bytes, .. }) = &mut input
        else {
            continue;
        };
        if rng.random_bool(0.5) {
            bytes.0.truncate(rng.random_range(0..=bytes.0.len()));
        } else if let Some(byte) = {
            let at = rng.random_range(0..bytes.0.len().max(1));
            bytes.0.get_mut(at)
        } {
            *byte ^= 1 << rng.random_range(0..8);
        }
        let now = net.now();
        let core = net.nodes[0].core.as_mut().unwrap();
        let mut out = Vec::new();
        core.step(now, input, &mut out);
        let other =
            |output: &Output| matches!(output, Output::Event(MeshEvent::Load { record, .. }) if *record != load(7));
        assert!(!out.iter().any(other));
    }
    net.nodes[0].loads.clear();
    net.give(1, Input::PublishLoad(load(8)));
    let known = |net: &Net| net.nodes[0].loads.get(&name(1)).is_some_and(|(_, record)| *record == load(8));
    assert!(net.run_until(20 * SECOND, |net| net.whole() && known(net)).is_some());
}

proptest! {
    #[test]
    fn any_bytes_from_a_peer_are_refused_or_understood(bytes in prop::collection::vec(any::<u8>(), 0..1300), way in 0..4) {
        let settings = Settings {
            node: NodeName::new("n0").unwrap(),
            cluster: CLUSTER.to_owned(),
            ca_der: vec![],
            addr: super::net::addr(0),
            generation: WALL0,
            size: MeshSize::Lan,
            seed: 1,
        };
        let mut core = MeshCore::new(settings);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = codec::VERSION;
        }
        let (from, bytes) = (name(1), Blob(bytes));
        let input = match way {
            0 => Input::Packet { from, bytes },
            1 => Input::SyncAsked { exchange: 0, from, bytes },
            2 => Input::SyncPushed { from, bytes },
            _ => Input::SyncReplied { exchange: 0, from, bytes },
        };
        let mut out = Vec::new();
        core.step(Now { mono: Mono(1), wall_ms: WALL0 }, input, &mut out);
        prop_assert!(core.records(Now::default()).count() == 0);
    }
}
