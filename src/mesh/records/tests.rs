use pki_types::CertificateDer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};

use super::super::identity::node_uri;
use super::super::wire::{SyncAsk, SyncReply};
use super::super::{MAX_MEMBERS, Member, RecordSigner, Refusal};
use super::*;
use crate::codec::Blob;
use crate::model::LoadRecord;

const LIFE: Generation = 7;
const ALL: BucketSet = BucketSet(!0);

struct Cluster {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
}

impl Cluster {
    fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), der }
    }

    fn records(&self) -> Records {
        Records::new("c".to_owned(), self.der.to_vec())
    }

    fn node(&self, index: usize) -> (RecordSigner, Aged) {
        let name = NodeName::new(&format!("n{index}")).unwrap();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(node_uri("c", &name).try_into().unwrap())];
        let record = NodeRecord {
            node: name,
            roles: vec![],
            pool: None,
            model: None,
            compat: None,
            risk_group: None,
            rails: vec![],
            certificate: params.signed_by(&key, &self.issuer).unwrap().der().to_vec(),
        };
        let signer = RecordSigner::from_pkcs8(&key.serialize_der()).unwrap();
        let aged = signed(&signer, index, RecordKind::Node, codec::encode(&record).unwrap());
        (signer, aged)
    }
}

fn signed(signer: &RecordSigner, index: usize, kind: RecordKind, body: Vec<u8>) -> Aged {
    let origin = NodeName::new(&format!("n{index}")).unwrap();
    let (body, signature) = (Blob(body), Blob::default());
    resigned(signer, Envelope { origin, kind, generation: LIFE, seq: 1, ttl_ms: 60_000, body, signature })
}

fn resigned(signer: &RecordSigner, mut envelope: Envelope) -> Aged {
    envelope.signature = Blob(signer.sign(&envelope.signed_bytes("c").unwrap()));
    Aged { age_ms: 0, envelope }
}

fn at(ms: u64) -> Now {
    Now { mono: Mono(0).plus_ms(ms), wall_ms: 1_800_000_000_000 }
}

fn load() -> Vec<u8> {
    let load = LoadRecord {
        revision: u64::MAX,
        active_sessions: 0,
        max_sessions: 1,
        soft_fraction: 0.5,
        kv_bytes_free: 0,
        inbound_bytes: 0,
        token_time_ms: None,
        draining: false,
    };
    codec::encode(&load).unwrap()
}

#[test]
fn a_record_holds_until_its_time_is_over_wherever_it_came_from_and_does_not_come_back() {
    let cluster = Cluster::new();
    let (signer, node) = cluster.node(0);
    let mut records = cluster.records();
    records.accept(at(1_000), Some(LIFE), node).unwrap();
    let load = signed(&signer, 0, RecordKind::Load, load());
    let old = Aged { age_ms: 25_000, ..load.clone() };
    assert!(records.accept(at(60_000), Some(LIFE), old).unwrap().is_some());

    let kinds = |records: &Records, now: Now| records.iter(now.mono).map(|(held, _)| held.kind).collect::<Vec<_>>();
    assert_eq!(records.next_expiry(), Some(at(61_000).mono), "the node record is the first to go");
    assert_eq!(records.expire(at(61_000).mono).len(), 1);
    assert_eq!(kinds(&records, at(61_000)), [RecordKind::Load]);
    assert_eq!(records.expire(at(94_999).mono), []);
    assert_eq!(records.expire(at(95_000).mono).len(), 1);
    assert_eq!(kinds(&records, at(95_000)), []);
    assert_eq!(records.accept(at(95_000), Some(LIFE), load), Ok(None), "it is known, and over");
}

#[test]
fn an_age_that_nobody_can_prove_voids_no_record_and_leaves_it_until_its_origin_says_it_again() {
    let cluster = Cluster::new();
    let (signer, node) = cluster.node(0);
    let mut records = cluster.records();
    records.accept(at(700_000), Some(LIFE), node).unwrap();
    let load = signed(&signer, 0, RecordKind::Load, load());
    for age_ms in [60_000, u32::MAX] {
        let over = Aged { age_ms, ..load.clone() };
        assert_eq!(records.accept(at(700_000), Some(LIFE), over), Err(Refusal::Stale));
    }
    let aged = Aged { age_ms: 59_999, ..load };
    assert!(records.accept(at(700_000), Some(LIFE), aged).unwrap().is_some(), "its number was not noted");
    assert_eq!(records.next_expiry(), Some(at(730_000).mono), "said again after 24 s");

    let forever = resigned(
        &signer,
        Envelope { seq: 2, ttl_ms: u32::MAX, ..signed(&signer, 0, RecordKind::Load, self::load()).envelope },
    );
    records.accept(at(700_000), Some(LIFE), Aged { age_ms: 599_999, ..forever.clone() }).unwrap();
    records.expire(at(760_000).mono);
    assert_eq!(records.next_expiry(), Some(at(1_000_000).mono));
    let over = Aged { age_ms: 600_000, envelope: resigned(&signer, Envelope { seq: 3, ..forever.envelope }).envelope };
    assert_eq!(records.accept(at(700_000), Some(LIFE), over), Err(Refusal::Stale));
}

#[test]
fn a_load_record_waits_for_the_key_that_proves_it() {
    let cluster = Cluster::new();
    let (signer, node) = cluster.node(0);
    let mut records = cluster.records();
    let load = signed(&signer, 0, RecordKind::Load, load());
    assert_eq!(records.accept(at(0), Some(LIFE), load.clone()), Err(Refusal::UnknownKey));
    records.accept(at(0), Some(LIFE), node).unwrap();
    assert!(records.accept(at(0), Some(LIFE), load).unwrap().is_some());
}

#[test]
fn both_ends_of_a_comparison_learn_what_they_lack_and_no_more() {
    let cluster = Cluster::new();
    let (mut ours, mut theirs) = (cluster.records(), cluster.records());
    let (_, both) = cluster.node(0);
    let (_, only_ours) = cluster.node(1);
    let (_, only_theirs) = cluster.node(2);
    for (records, more) in [(&mut ours, &only_ours), (&mut theirs, &only_theirs)] {
        records.accept(at(0), Some(LIFE), both.clone()).unwrap();
        records.accept(at(0), Some(LIFE), more.clone()).unwrap();
    }
    let wanted = (only_theirs.envelope.origin.clone(), RecordKind::Node);
    let all = |records: &Records| records.digest(ALL, 0, 1 << 20).1;
    let (lacked, want) = ours.compare(Mono(0), ALL, &all(&theirs), 1 << 20);
    assert_eq!((lacked, &want), (vec![only_ours.clone()], &vec![wanted]));
    assert_eq!(theirs.take(Mono(0), &want, 1 << 20), [only_theirs]);
    assert_eq!(ours.compare(Mono(0), ALL, &all(&theirs), 10).0, [], "nothing fits");
    assert_eq!(ours.compare(Mono(0), ALL, &all(&ours), 1 << 20), (vec![], vec![]));

    let differing = ours.summary().differing(&theirs.summary().buckets());
    let (buckets, digest) = theirs.digest(differing, 0, 1 << 20);
    assert_eq!(buckets, differing);
    assert_eq!(ours.compare(Mono(0), buckets, &digest, 1 << 20), (vec![only_ours.clone()], want));
    assert_eq!(ours.compare(Mono(0), BucketSet(0), &[], 1 << 20), (vec![], vec![]), "nothing was compared");
}

#[test]
fn what_differs_by_more_than_a_message_is_compared_bucket_by_bucket() {
    let cluster = Cluster::new();
    let mut records = cluster.records();
    for index in 0..100 {
        records.accept(at(0), Some(LIFE), cluster.node(index).1).unwrap();
    }
    let mut told = BTreeSet::new();
    let mut covered = BucketSet::default();
    for first in (0..BUCKETS).step_by(4) {
        let (buckets, digest) = records.digest(ALL, first, 400);
        assert!(buckets.0 & 1 << first != 0, "it begins where it is told to");
        let bytes: usize = digest.iter().map(|entry| entry.origin.as_str().len() + 12).sum();
        assert!(bytes <= 400, "{bytes}");
        told.extend(digest.into_iter().map(|entry| entry.origin));
        covered = covered.with(buckets);
    }
    assert_eq!(covered, ALL);
    assert_eq!(told.len(), 100);
}

#[test]
fn the_summary_follows_what_holds_and_nothing_else() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node(0), cluster.node(1));
    let mut records = cluster.records();
    let empty = records.summary().clone();
    records.accept(at(0), Some(LIFE), one.1.clone()).unwrap();
    let with_one = records.summary().clone();
    assert_ne!(with_one, empty);
    records.accept(at(0), Some(LIFE), other.1.clone()).unwrap();
    records.drop_origin(&other.1.envelope.origin);
    assert_eq!(*records.summary(), with_one);
    let newer = signed(&one.0, 0, RecordKind::Node, one.1.envelope.body.0.clone());
    let newer = resigned(&one.0, Envelope { seq: 2, ..newer.envelope });
    records.accept(at(0), Some(LIFE), newer).unwrap();
    assert_ne!(*records.summary(), with_one);
    records.expire(at(60_000).mono);
    assert_eq!(*records.summary(), empty);
}

#[test]
fn an_answer_fits_its_message_however_much_is_wanted_and_asks_for_keys_first() {
    let records = Cluster::new().records();
    let kinds = [RecordKind::Node, RecordKind::Load];
    let chunks = (0..u16::try_from(MAX_CHUNKS).unwrap()).map(RecordKind::Paths);
    let seqs: Vec<_> = kinds.into_iter().chain(chunks).map(|kind| (kind, 1)).collect();
    let longest = |index| OriginDigest {
        origin: NodeName::new(&format!("{index:0>64}")).unwrap(),
        generation: LIFE,
        seqs: seqs.clone(),
    };
    let digest: Vec<_> = (0..MAX_ORIGINS).map(longest).collect();
    let (lacked, want) = records.compare(Mono(0), ALL, &digest, 1 << 20);
    assert_eq!(lacked, []);
    assert!(want.len() > 900 && want.iter().all(|(_, kind)| *kind == RecordKind::Node), "{}", want.len());
    let member = Member {
        name: longest(0).origin,
        addr: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap(),
        generation: u64::MAX,
        renewals: !0,
    };
    let members = vec![foca::Member::new(member, u16::MAX, foca::State::Down); MAX_MEMBERS + 1];
    let delta = SyncReply::Delta { members: members.clone(), records: Vec::new(), want };
    let most = codec::encode(&delta).unwrap().len();
    assert!(most + MAX_SYNC / 2 <= MAX_SYNC, "{most} bytes beside the records");
    let entries = SyncAsk::Entries { member_buckets: !0, members, record_buckets: !0, digest: Vec::new() };
    let most = codec::encode(&entries).unwrap().len();
    assert!(most + MAX_SYNC / 4 <= MAX_SYNC, "{most} bytes beside the versions");
}

#[test]
fn the_records_of_only_so_many_origins_are_kept() {
    let cluster = Cluster::new();
    let mut records = cluster.records();
    for index in 0..MAX_ORIGINS {
        records.accept(at(0), Some(LIFE), cluster.node(index).1).unwrap();
    }
    let one_more = cluster.node(MAX_ORIGINS).1;
    assert_eq!(records.accept(at(0), Some(LIFE), one_more.clone()), Err(Refusal::TooManyOrigins));
    records.drop_origin(&NodeName::new("n5").unwrap());
    assert!(records.accept(at(0), Some(LIFE), one_more).is_ok());
}
