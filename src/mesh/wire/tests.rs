use proptest::prelude::*;

use super::*;
use crate::codec::{PacketCodec, PacketReader, decode, encode};

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn member(text: &str) -> Member {
    Member { name: name(text), addr: "10.0.0.1:7".parse().unwrap(), generation: 5, renewals: 1 }
}

fn envelope() -> Envelope {
    Envelope {
        origin: name("d0"),
        kind: RecordKind::Paths(3),
        generation: 5,
        seq: 2,
        ttl_ms: 60_000,
        body: Blob(vec![9, 8]),
        signature: Blob(vec![1; 3]),
    }
}

#[test]
fn the_form_of_every_message_is_fixed() {
    let record = [1, 2, b'd', b'0', 2, 3, 5, 2, 251, 96, 234, 2, 9, 8, 3, 1, 1, 1];
    assert_eq!(encode(&envelope()).unwrap(), record);

    let aged = |age_ms| vec![Aged { age_ms, envelope: envelope() }];
    let push = [&[1, 1, 7][..], &record[1..]].concat();
    assert_eq!(encode(&SyncPush { records: aged(7) }).unwrap(), push);

    let members = vec![foca::Member::new(member("d0"), 4, foca::State::Suspect)];
    let member = [1, 2, b'd', b'0', 0, 10, 0, 0, 1, 7, 5, 1, 4, 1];
    let want = vec![(name("p"), RecordKind::Load)];
    let delta = SyncReply::Delta { members: members.clone(), records: vec![], want };
    assert_eq!(encode(&delta).unwrap(), [&[1, 2][..], &member, &[0, 1, 1, b'p', 1]].concat());
    assert_eq!(encode(&SyncReply::Same).unwrap(), [1, 0]);
    let buckets = SyncReply::Buckets { members: vec![], records: vec![7, 300] };
    assert_eq!(encode(&buckets).unwrap(), [1, 1, 0, 2, 7, 251, 44, 1]);

    assert_eq!(encode(&SyncAsk::Roots { members: 9, records: 300 }).unwrap(), [1, 0, 9, 251, 44, 1]);
    let digest = vec![OriginDigest { origin: name("p"), generation: 5, seqs: vec![(RecordKind::Node, 1)] }];
    let entries = SyncAsk::Entries { member_buckets: 3, members, record_buckets: 8, digest };
    assert_eq!(encode(&entries).unwrap(), [&[1, 1, 3][..], &member, &[8, 1, 1, b'p', 5, 1, 0, 1]].concat());
}

#[test]
fn a_signature_covers_everything_else_and_the_cluster() {
    let signed = envelope().signed_bytes("c").unwrap();
    assert!(signed.starts_with(b"\x01\x0dseam.record/1\x01c\x02d0"), "{signed:?}");
    let changes: [fn(&mut Envelope); 6] = [
        |e| e.origin = name("d1"),
        |e| e.kind = RecordKind::Load,
        |e| e.generation += 1,
        |e| e.seq += 1,
        |e| e.ttl_ms += 1,
        |e| e.body.0.push(0),
    ];
    for change in changes {
        let mut other = envelope();
        change(&mut other);
        assert_ne!(other.signed_bytes("c").unwrap(), signed);
    }
    assert_ne!(envelope().signed_bytes("d").unwrap(), signed);
    assert_eq!(Envelope { signature: Blob(vec![]), ..envelope() }.signed_bytes("c").unwrap(), signed);
}

fn packet() -> Vec<u8> {
    use foca::Codec;
    let mut bytes = Vec::new();
    let message = foca::Message::PingReq { target: member("x"), probe_number: 9 };
    let header = foca::Header { src: member("p0"), src_incarnation: 3, dst: member("d0"), message };
    PacketCodec.encode_header(&header, &mut bytes).unwrap();
    bytes.extend(2u16.to_be_bytes());
    for state in [foca::State::Alive, foca::State::Down] {
        PacketCodec.encode_member(&foca::Member::new(member("x"), 1, state), &mut bytes).unwrap();
    }
    let record = encode(&envelope()).unwrap();
    bytes.extend(u16::try_from(record.len()).unwrap().to_be_bytes());
    bytes.extend(record);
    bytes
}

#[test]
fn the_form_of_a_packet_is_fixed_and_its_parts_are_told_apart() {
    let id = |n: &[u8]| [&[u8::try_from(n.len()).unwrap()][..], n, &[0, 10, 0, 0, 1, 7, 5, 1]].concat();
    let header = [&[1][..], &id(b"p0"), &[3], &id(b"d0"), &[2], &id(b"x"), &[9]].concat();
    let members = [&[0, 2][..], &id(b"x"), &[1, 0], &id(b"x"), &[1, 2]].concat();
    let bytes = packet();
    assert_eq!(bytes[..header.len() + members.len()], [header, members].concat());

    let read = PacketReader::<Member>::read(&bytes, 1150).unwrap();
    assert_eq!(read.header.src, member("p0"));
    assert_eq!(read.members.len(), 2);
    assert_eq!(read.records, [&encode(&envelope()).unwrap()[..]]);
    assert_eq!(read.membership.len() + 2 + read.records[0].len(), bytes.len());
    assert!(PacketReader::<Member>::read(&bytes, bytes.len() - 1).is_err());
}

proptest! {
    #[test]
    fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        let _ = decode::<Envelope>(&bytes);
        let _ = decode::<SyncAsk>(&bytes);
        let _ = decode::<SyncReply>(&bytes);
        let _ = decode::<SyncPush>(&bytes);
        let _ = PacketReader::<Member>::read(&bytes, 1150);
    }

    #[test]
    fn a_damaged_packet_gives_a_packet_or_an_error(cut in 0usize..200, bit in 0usize..1600) {
        let mut bytes = packet();
        let _ = PacketReader::<Member>::read(&bytes[..cut.min(bytes.len())], 1150);
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _ = PacketReader::<Member>::read(&bytes, 1150);
    }
}
