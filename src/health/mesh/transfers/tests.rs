use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn at(s: u64) -> Mono {
    Mono(0).plus_ms(s * 1000)
}

fn settings() -> Settings {
    Settings { canary_bytes: 8 * MIB, ..Settings::default() }
}

fn fail(track: &mut TransferTrack, s: u64, bytes: u64, lost: bool) {
    let _ = track.failed(&settings(), Failure { began: at(s), ended: at(s), bytes, lost });
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Failed,
    Lost,
    /// Bytes of the size that failed arrive.
    Worked,
    /// Small ones do.
    Small,
    HoldOver,
}

/// From, event, to.
const TABLE: [(Stage, Event, Stage); 25] = [
    (Stage::Clear, Event::Failed, Stage::Doubted),
    (Stage::Clear, Event::Lost, Stage::Held),
    (Stage::Clear, Event::Worked, Stage::Clear),
    (Stage::Clear, Event::Small, Stage::Clear),
    (Stage::Clear, Event::HoldOver, Stage::Clear),
    (Stage::Doubted, Event::Failed, Stage::Held),
    (Stage::Doubted, Event::Lost, Stage::Held),
    (Stage::Doubted, Event::Worked, Stage::Restored),
    (Stage::Doubted, Event::Small, Stage::Doubted),
    (Stage::Doubted, Event::HoldOver, Stage::Doubted),
    (Stage::Held, Event::Failed, Stage::Held),
    (Stage::Held, Event::Lost, Stage::Held),
    (Stage::Held, Event::Worked, Stage::Held),
    (Stage::Held, Event::Small, Stage::Held),
    (Stage::Held, Event::HoldOver, Stage::Trial),
    (Stage::Trial, Event::Failed, Stage::Held),
    (Stage::Trial, Event::Lost, Stage::Held),
    (Stage::Trial, Event::Worked, Stage::Restored),
    (Stage::Trial, Event::Small, Stage::Trial),
    (Stage::Trial, Event::HoldOver, Stage::Trial),
    (Stage::Restored, Event::Failed, Stage::Doubted),
    (Stage::Restored, Event::Lost, Stage::Held),
    (Stage::Restored, Event::Worked, Stage::Restored),
    (Stage::Restored, Event::Small, Stage::Restored),
    (Stage::Restored, Event::HoldOver, Stage::Restored),
];

fn happen(track: &mut TransferTrack, s: u64, event: Event) {
    match event {
        Event::Failed => fail(track, s, 64 * MIB, false),
        Event::Lost => fail(track, s, 64 * MIB, true),
        Event::Worked => {
            track.worked(&settings(), at(s), 64 * MIB);
        }
        Event::Small => {
            track.worked(&settings(), at(s), 4096);
            track.window(&settings(), at(s), true);
        }
        Event::HoldOver => {
            track.canary(&settings(), at(s));
        }
    }
}

#[test]
fn every_stage_answers_every_event_as_the_table_says() {
    for (from, event, to) in TABLE {
        let failed_bytes = if matches!(from, Stage::Clear | Stage::Restored) { 0 } else { 64 * MIB };
        let mut track = TransferTrack { stage: from, failed_bytes, hold_ms: 10_000, ..TransferTrack::default() };
        happen(&mut track, 20, event);
        assert_eq!(track.stage, to, "{from:?}, {event:?}");
    }
}

#[test]
fn a_transfer_that_never_completes_costs_one_canary_a_hold_and_holds_double() {
    let mut track = TransferTrack::default();
    fail(&mut track, 0, 64 * MIB, true);
    assert_eq!(track.state(), PathState::Quarantined);
    let (mut now, mut holds) = (0, Vec::new());
    for _ in 0..8 {
        let due = track.due().unwrap();
        holds.push(due.ms_since(at(now)) / 1000);
        now = due.ms_since(at(0)) / 1000;
        for s in 0..now {
            happen(&mut track, s, Event::Small);
            assert_eq!(track.state(), PathState::Quarantined, "small probes do not help");
        }
        assert_eq!(track.canary(&settings(), due), Some(8 * MIB), "a canary is no larger than a bulk probe");
        fail(&mut track, now, 8 * MIB, true);
        assert_eq!(track.failed_bytes(), 64 * MIB);
    }
    assert_eq!(holds, [10, 20, 40, 80, 160, 320, 600, 600]);
}

#[test]
fn one_canary_that_arrives_restores_and_clean_windows_do_the_rest() {
    let mut track = TransferTrack::default();
    fail(&mut track, 0, 2 * MIB, true);
    assert_eq!(track.canary(&settings(), at(10)), Some(2 * MIB), "no larger than what failed");
    assert!(!track.worked(&settings(), at(11), 2 * MIB - 1));
    assert!(track.worked(&settings(), at(11), 2 * MIB));
    assert_eq!((track.state(), track.failed_bytes(), track.due()), (PathState::Restored, 0, None));
    for s in 12..19 {
        track.window(&settings(), at(s), true);
    }
    assert_eq!(track.state(), PathState::Restored);
    track.window(&settings(), at(19), true);
    assert_eq!(track.state(), PathState::Healthy);
}

#[test]
fn what_was_under_way_when_a_path_was_put_aside_says_nothing_new() {
    let mut track = TransferTrack::default();
    fail(&mut track, 10, MIB, true);
    track.canary(&settings(), at(20));
    track.failed(&settings(), Failure { began: at(9), ended: at(21), bytes: 4 * MIB, lost: true });
    assert_eq!((track.stage, track.flaps.count(), track.failed_bytes()), (Stage::Trial, 1, 4 * MIB));
    track.failed(&settings(), Failure { began: at(20), ended: at(21), bytes: MIB, lost: true });
    assert_eq!((track.stage, track.flaps.count()), (Stage::Held, 2));
}

#[test]
fn what_is_heard_of_late_counts_in_the_order_in_which_it_ended() {
    let late = |ended, bytes| Failure { began: at(ended - 1), ended: at(ended), bytes, lost: true };
    let mut track = TransferTrack::default();
    track.worked(&settings(), at(20), 4 * MIB);
    track.worked(&settings(), at(21), 4096);
    assert!(!track.failed(&settings(), late(19, 4 * MIB)), "its size has worked since");
    assert!(track.failed(&settings(), late(19, 4 * MIB + 1)), "nothing of its size has");
    assert_eq!(track.stage, Stage::Held);

    let mut track = TransferTrack::default();
    track.failed(&settings(), Failure { lost: false, ..late(20, MIB) });
    assert!(!track.worked(&settings(), at(19), MIB), "it had worked before it failed");
    assert_eq!(track.stage, Stage::Doubted);
    assert!(track.worked(&settings(), at(20), MIB));

    let mut track = TransferTrack::default();
    track.worked(&settings(), at(30), MIB);
    track.worked(&settings(), at(10), 8 * MIB);
    assert!(track.failed(&settings(), late(20, 8 * MIB)), "the larger one worked before");
}

#[test]
fn what_ended_in_the_hold_decides_no_trial() {
    let mut track = TransferTrack::default();
    fail(&mut track, 0, MIB, true);
    track.canary(&settings(), at(10));
    assert!(!track.worked(&settings(), at(9), MIB));
    track.failed(&settings(), Failure { began: at(8), ended: at(9), bytes: MIB, lost: true });
    assert_eq!((track.stage, track.flaps.count()), (Stage::Trial, 1));
    track.canary(&settings(), at(20));
    assert!(track.worked(&settings(), at(19), MIB), "the first canary's word, after the second was sent");
}

#[test]
fn an_unanswered_canary_is_sent_again_a_hold_later() {
    let mut track = TransferTrack::default();
    fail(&mut track, 0, MIB, true);
    track.canary(&settings(), at(10));
    assert_eq!(track.due(), Some(at(20)));
}

proptest! {
    #[test]
    fn no_sequence_restores_a_path_without_bytes_of_the_size_that_failed(
        events in prop::collection::vec((0u64..30, 0usize..5), 1..200)
    ) {
        let mut track = TransferTrack::default();
        let mut now = 0;
        for (pause, event) in events {
            now += pause;
            let event = [Event::Failed, Event::Lost, Event::Worked, Event::Small, Event::HoldOver][event];
            let before = track;
            match event {
                // The shell does not call before it is due.
                Event::HoldOver if track.due().is_none_or(|due| at(now) < due) => continue,
                _ => happen(&mut track, now, event),
            }
            if track.state().severity() < before.state().severity() && before.state() != PathState::Restored {
                prop_assert!(matches!(event, Event::Worked), "{:?} led from {:?} to {:?}", event, before, track);
                prop_assert!(before.stage != Stage::Held);
            }
            prop_assert_eq!(track.failed_bytes > 0, track.due().is_some());
            if before.stage == Stage::Held && track.stage == Stage::Trial {
                prop_assert!(at(now) >= before.hold_until);
            }
        }
    }
}
