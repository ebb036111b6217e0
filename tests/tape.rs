//! A core restored from any of its snapshots answers the rest of its tape as it did the first time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use seam::core::{Core, Mono, Now};
use seam::health::{HealthCore, Input, Output, Sample, SampleKind, SampleOutcome, Settings, Thresholds};
use seam::model::{PathId, PathSpec, Profile};

/// Feeds `tape` and returns what each turn put out.
fn play<C: Core>(core: &mut C, tape: &[(Now, C::Input)]) -> Vec<Vec<C::Output>> {
    let turn = |(now, input): &(Now, C::Input)| {
        let mut out = Vec::new();
        core.step(*now, input.clone(), &mut out);
        out
    };
    tape.iter().map(turn).collect()
}

/// Through JSON and back, as a tape on disk would take it.
fn stored<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// Plays `tape` once, and again from the first snapshot and from one taken before turn `middle`.
fn replays_the_same<C: Core>(core: C, tape: &[(Now, C::Input)], middle: usize) -> Vec<Vec<C::Output>> {
    let first = stored(&core.snapshot());
    let (head, tail) = tape.split_at(middle);
    let mut live = core;
    let mut outputs = play(&mut live, head);
    let halfway = stored(&live.snapshot());
    outputs.extend(play(&mut live, tail));

    let tape: Vec<_> = tape.iter().map(|(now, input)| (*now, stored(input))).collect();
    assert_eq!(play(&mut C::restore(first), &tape), outputs, "from the first snapshot");
    assert_eq!(play(&mut C::restore(halfway), &tape[middle..]), outputs[middle..], "from turn {middle}");
    outputs
}

fn path() -> impl Strategy<Value = PathId> {
    (0..5).prop_map(|number| format!("p0>d{number}/r0/quic").parse().unwrap())
}

fn sample() -> impl Strategy<Value = Input> {
    let kind = prop_oneof![
        3 => Just(SampleKind::Probe),
        1 => Just(SampleKind::Transfer),
        1 => Just(SampleKind::Reported),
        1 => Just(SampleKind::Bulk),
    ];
    let outcome =
        prop_oneof![8 => Just(SampleOutcome::Ok), 1 => Just(SampleOutcome::Lost), 1 => Just(SampleOutcome::Failed)];
    let elapsed = prop_oneof![10 => 0.0..3.0f64, 5 => 0.0..120.0f64, 1 => Just(-1.0)];
    let late = prop_oneof![10 => Just(0.0), 1 => 0.0..60.0f64];
    let taken = prop::option::weighted(0.2, (0..400_000_000_000u64).prop_map(Mono));
    (path(), kind, outcome, elapsed, 0..2_000_000u64, 0..2_000_000u64, late, taken).prop_map(
        |(path, kind, outcome, elapsed_ms, attempted_bytes, inflight_bytes, late_ms, taken)| {
            let bytes = if outcome == SampleOutcome::Ok { attempted_bytes } else { 0 };
            let sample =
                Sample { path, kind, outcome, elapsed_ms, bytes, attempted_bytes, inflight_bytes, late_ms, taken };
            Input::Sample(sample)
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    let up = (path(), 1.0..400.0f64)
        .prop_map(|(id, bandwidth_gbps)| Input::PathUp(PathSpec { id, address: "127.0.0.1:1".into(), bandwidth_gbps }));
    let profile = prop_oneof![1 => Just(Profile::Reference), 3 => Just(Profile::Mesh)];
    let configure = (profile, 1..=60u32, 0..6usize, 0.0..50.0f64).prop_map(
        |(profile, candidate_window, max_paths, max_late_ms)| {
            let thresholds = Thresholds { candidate_window, ..Thresholds::default() };
            Input::Configure(Settings { profile, thresholds, max_late_ms, max_paths, ..Settings::default() })
        },
    );
    prop_oneof![
        2 => up,
        1 => path().prop_map(Input::PathGone),
        1 => configure,
        1 => Just(Input::Tick),
        60 => sample(),
    ]
}

proptest! {
    #[test]
    fn health_replays_the_same(
        inputs in prop::collection::vec(input(), 1..400), middle in any::<prop::sample::Index>()
    ) {
        let mut tape: Vec<(Now, Input)> = Vec::new();
        for number in 0..5 {
            let id = format!("p0>d{number}/r0/quic").parse().unwrap();
            let spec = PathSpec { id, address: "127.0.0.1:1".into(), bandwidth_gbps: 100.0 };
            tape.push((Now::default(), Input::PathUp(spec)));
        }
        for (turn, input) in inputs.into_iter().enumerate() {
            let turn = turn as u64;
            // A second a turn, so that holds end and canaries become due within a tape.
            tape.push((Now { mono: Mono(turn * 1_000_000_000), wall_ms: turn * 1000 }, input));
        }
        let middle = middle.index(tape.len());
        let outputs = replays_the_same(HealthCore::default(), &tape, middle);

        // Whatever came in: scores stay in range, numbers only grow, and every sample is answered.
        let mut version = 0;
        for ((_, input), out) in tape.iter().zip(&outputs) {
            for output in out {
                if let Output::Report(report) = output {
                    prop_assert!(report.version > version);
                    version = report.version;
                    prop_assert!((0.0..=1.0).contains(&report.health.gfs));
                    prop_assert!(report.health.sample_count <= 60);
                    prop_assert!(report.health.bandwidth_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)));
                }
            }
            if matches!(input, Input::Sample(_)) {
                // While this host stalls, what is not used repeats what was known.
                let reports = out.iter().filter(|output| matches!(output, Output::Report(_))).count();
                let discarded = out.iter().filter(|output| matches!(output, Output::Discarded { .. })).count();
                prop_assert!((1..=2).contains(&(reports + discarded)) && reports <= 1 && discarded <= 1);
            }
        }
    }
}
