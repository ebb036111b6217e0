use std::collections::BTreeSet;

use super::*;
use crate::core::Mono;
use crate::health::{HealthCore, Sample, SampleKind, SampleOutcome};
use crate::model::PathSpec;

fn header() -> Header {
    Header {
        node: NodeName::new("p0").unwrap(),
        generation: 7,
        segment: 0,
        build: "0.1.0".into(),
        config_hash: "c0ffee".into(),
        opened: Now { mono: Mono(5), wall_ms: 1_796_000_000_000 },
    }
}

fn sample(elapsed_ms: f64) -> health::Input {
    health::Input::Sample(Sample {
        path: "p0>d0/r0/quic".parse().unwrap(),
        kind: SampleKind::Probe,
        outcome: SampleOutcome::Ok,
        elapsed_ms,
        bytes: 64,
        attempted_bytes: 64,
        inflight_bytes: 0,
        late_ms: 0.0,
        taken: None,
    })
}

/// A small journal: a snapshot, turns with and without outputs, a gap and the end.
fn small() -> (Vec<u8>, Vec<String>) {
    let mut core = HealthCore::default();
    let spec = PathSpec { id: "p0>d0/r0/quic".parse().unwrap(), address: "127.0.0.1:1".into(), bandwidth_gbps: 10.0 };
    let mut entries = vec![Entry::Snapshot(core.taped_snapshot())];
    let inputs = [health::Input::PathUp(spec), sample(1.0), sample(90.0), health::Input::Tick];
    for (number, input) in inputs.into_iter().enumerate() {
        let now = Now { mono: Mono(number as u64), wall_ms: 3 };
        entries.push(Entry::Turn(Turn::take(&mut core, now, input)));
    }
    let now = Now::default();
    entries.push(Entry::Gap(Gap { part: Part::Policy, lost: 3, since: now, until: now }));
    entries.push(Entry::Panicked(Input::Ledger(ledger::Input::Drain(true)), now));
    entries.push(Entry::Closed(now));
    (written(&entries), entries.iter().map(text).collect())
}

fn written(entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &header()).unwrap();
    for entry in entries {
        writer.append(entry).unwrap();
    }
    assert_eq!(writer.written(), writer.get_ref().len() as u64);
    writer.into_inner()
}

fn text(entry: &Entry) -> String {
    format!("{entry:?}")
}

/// Every sound entry, and the damage after them.
fn read(bytes: &[u8]) -> Result<(Vec<String>, Option<Damage>), JournalError> {
    let reader = Reader::open(bytes)?;
    let mut entries = Vec::new();
    for entry in reader {
        match entry {
            Ok(entry) => entries.push(text(&entry)),
            Err(damage) => return Ok((entries, Some(damage))),
        }
    }
    Ok((entries, None))
}

#[test]
fn what_was_written_is_read_again() {
    let (bytes, entries) = small();
    let (read, damage) = read(&bytes).unwrap();
    assert_eq!(read, entries);
    assert!(damage.is_none(), "{damage:?}");
    assert!(entries[3].contains("Transition"), "a change of state is said: {}", entries[3]);
}

#[test]
fn a_journal_cut_anywhere_says_so_and_keeps_every_whole_entry() {
    let (bytes, entries) = small();
    let mut whole = BTreeSet::new();
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Ok((read, None)) => {
                assert_eq!(read[..], entries[..read.len()]);
                assert!(whole.insert(read.len()), "the cut at {length} goes unnoticed");
            }
            Ok((read, Some(Damage::Torn { at, bytes }))) => {
                assert_eq!((at + bytes) as usize, length);
                assert_eq!(read[..], entries[..read.len()]);
            }
            Err(JournalError::Header(Damage::Torn { .. })) => {}
            other => panic!("cut at {length}: {other:?}"),
        }
    }
    // Cut between two entries nothing is wrong, but the end is missing.
    assert_eq!(whole.len(), entries.len());
}

#[test]
fn every_flipped_bit_is_found_and_nothing_after_it_is_believed() {
    let (bytes, entries) = small();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match read(&bytes) {
            Ok((_, None)) => panic!("bit {bit} goes unnoticed"),
            Ok((read, Some(_))) => assert_eq!(read[..], entries[..read.len()], "bit {bit}"),
            Err(_) => {}
        }
    }
}

#[test]
fn a_flipped_length_is_no_torn_end_and_zeros_after_the_last_entry_are() {
    let (mut bytes, entries) = small();
    let end = bytes.len() as u64;
    bytes.extend([0; 5000]);
    let (read_again, damage) = read(&bytes).unwrap();
    assert_eq!(read_again, entries);
    assert!(matches!(damage, Some(Damage::Torn { at, bytes: 5000 }) if at == end), "{damage:?}");

    let (mut bytes, _) = small();
    bytes[10] ^= 0x40;
    let Err(JournalError::Header(damage)) = Reader::open(&bytes[..]).map(|_| ()) else { panic!("not found") };
    let said = damage.to_string();
    assert!(said.starts_with("damaged at byte 10: the checksum of a frame's head is "), "{said}");
}

#[test]
fn zeros_from_any_byte_to_the_end_are_a_torn_end_and_every_entry_before_them_is_kept() {
    let small = small().0;
    let golden = include_bytes!("../../tests/data/journal-format-1.journal");
    for (whole, longer) in [(&small[..], 0), (&small[..], 200_000), (&golden[..], 5_000)] {
        // Where the head and each entry end.
        let (ends, damage) = passed(whole).unwrap();
        assert!(damage.is_none());
        let mut bytes = whole.to_vec();
        bytes.resize(whole.len() + longer, 0);
        let length = bytes.len() as u64;
        for from in (0..whole.len()).rev() {
            bytes[from] = 0;
            // Zeros that stood there already are no loss.
            let zeros = whole[from..].iter().take_while(|byte| **byte == 0).count();
            let kept = ends.iter().filter(|end| **end <= (from + zeros) as u64).count();
            match passed(&bytes) {
                Ok((found, Some(Damage::Torn { at, bytes }))) => {
                    assert_eq!(found[..], ends[..kept], "zeros from {from}");
                    assert_eq!((at, at + bytes), (ends[kept - 1], length), "zeros from {from}");
                }
                Ok((found, None)) => assert!(longer == 0 && found == ends && kept == ends.len(), "zeros from {from}"),
                Err(JournalError::Header(Damage::Torn { at, bytes })) => {
                    assert_eq!((kept, at + bytes), (0, length), "zeros from {from}");
                }
                other => panic!("zeros from {from}: {other:?}"),
            }
        }
    }
}

/// Where the head and every sound entry end, and the damage after them.
fn passed(bytes: &[u8]) -> Result<(Vec<u64>, Option<Damage>), JournalError> {
    let mut reader = Reader::open(bytes)?;
    let mut ends = vec![reader.at()];
    loop {
        match reader.pass_entry() {
            Ok(Some(_)) => ends.push(reader.at()),
            Ok(None) => return Ok((ends, None)),
            Err(damage) => return Ok((ends, Some(damage))),
        }
    }
}

#[test]
fn a_flipped_bit_before_whole_entries_is_damage_and_no_torn_end() {
    let (bytes, _) = small();
    let ends = passed(&bytes).unwrap().0;
    let (first, last) = (ends[0] as usize, ends[ends.len() - 2] as usize);
    for longer in [0, 5_000] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + longer, 0);
        for bit in first * 8..last * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let damage = passed(&bytes).unwrap().1;
            assert!(matches!(damage, Some(Damage::Checksum { .. })), "bit {bit}: {damage:?}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn other_files_and_other_formats_are_refused_by_name() {
    let refused = |bytes: &[u8]| Reader::open(bytes).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        refused(b"timestamp,request"),
        "no journal: it begins with \"timestam\", a journal begins with \"SEAMJRNL\""
    );
    assert_eq!(refused(b""), "its head cannot be read: torn at byte 0: the last 0 bytes are no whole entry");
    assert_eq!(refused(b"SEAMJRNL\x02\x00"), "journal format 2: this program reads format 1; a newer Seam wrote it");
    assert_eq!(refused(b"SEAMJRNL\x00\x00\x01"), "journal format 0: this program reads format 1");
    assert!(refused(b"SEAM\x00\x00\x00\x00\x00\x00\x00\x00\x01").starts_with("no journal: "));
}

#[test]
fn an_entry_larger_than_a_frame_is_read_whole_or_torn_from_its_beginning() {
    let long = "x".repeat(3_000_000);
    let refused = Entry::Turn(Turn {
        now: Now::default(),
        input: Input::Policy(policy::Input::TransferFailed {
            key: 1,
            lease: "d0.1.1".parse().unwrap(),
            detail: long.as_str().into(),
        }),
        said: Vec::new(),
        digest: 0,
    });
    let bytes = written(std::slice::from_ref(&refused));
    assert_eq!(read(&bytes).unwrap().0, [text(&refused)]);
    let (entries, damage) = read(&bytes[..2_500_000]).unwrap();
    assert_eq!(entries.len(), 0);
    let Some(Damage::Torn { at, .. }) = damage else { panic!("{damage:?}") };
    assert!(at < 200, "where the entry begins, not its last frame: {at}");
}

#[test]
fn a_digest_tells_outputs_apart_and_none_from_some() {
    let digest = |outputs: &[health::Output]| super::digest(outputs, &mut Vec::new());
    let (frozen, thawed) = (health::Output::Frozen(true), health::Output::Frozen(false));
    assert_eq!(digest(&[]), 0);
    let all = [vec![frozen.clone()], vec![thawed.clone()], vec![frozen.clone(), thawed.clone()], vec![thawed, frozen]];
    let digests: BTreeSet<u64> = all.iter().map(|outputs| digest(outputs)).collect();
    assert_eq!(digests.len(), all.len());
}

#[test]
fn segments_are_listed_by_node_life_and_number_and_other_files_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let [p0, p10] = ["p-0", "p-10"].map(|name| NodeName::new(name).unwrap());
    for (node, generation, number) in [(&p10, 1, 0), (&p0, 20, 0), (&p0, 3, 1_000_001), (&p0, 3, 2)] {
        std::fs::write(dir.path().join(segment_name(node, generation, number)), "").unwrap();
    }
    for other in ["lock", "p0-1.journal", "p0-x-000001.journal", "p 0-1-000001.journal", "p0-1-000001.journal.gz"] {
        std::fs::write(dir.path().join(other), "").unwrap();
    }
    let listed: Vec<_> = list(dir.path()).unwrap().into_iter().map(|s| (s.node, s.generation, s.number)).collect();
    let expected = [(&p0, 3, 2), (&p0, 3, 1_000_001), (&p0, 20, 0), (&p10, 1, 0)];
    assert_eq!(listed, expected.map(|(node, generation, number)| (node.clone(), generation, number)));
}
