//! The mesh profile, in virtual time: what its rules are for, one file each.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "agent")]

#[path = "mesh_profile/bandwidth.rs"]
mod bandwidth;
#[path = "mesh_profile/episodes.rs"]
mod episodes;
#[path = "mesh_profile/load.rs"]
mod load;
#[path = "mesh_profile/quarantine.rs"]
mod quarantine;
#[path = "mesh_profile/stall.rs"]
mod stall;
#[path = "mesh_profile/transfers.rs"]
mod transfers;

use seam::core::{Core, Mono, Now};
use seam::health::{
    Canary, Discard, HealthCore, Input, Output, PathReport, Sample, SampleKind, SampleOutcome, Settings,
};
use seam::model::{PathHealth, PathId, PathSpec, PathState, Profile};

const MIB: u64 = 1 << 20;

/// A health core, its clock, and what it said.
struct Bench {
    core: HealthCore,
    now: Mono,
    transitions: Vec<(u64, PathId, PathState)>,
    canaries: Vec<(u64, Canary)>,
    discarded: Vec<Discard>,
    frozen: Vec<bool>,
    newest: Option<PathReport>,
}

fn path(number: usize) -> PathId {
    format!("p0>d{number}/r0/quic").parse().unwrap()
}

impl Bench {
    fn new(profile: Profile, paths: usize, bandwidth_gbps: f64) -> Self {
        let mut bench = Self {
            core: HealthCore::default(),
            now: Mono(0),
            transitions: Vec::new(),
            canaries: Vec::new(),
            discarded: Vec::new(),
            frozen: Vec::new(),
            newest: None,
        };
        bench.step(Input::Configure(Settings { profile, max_late_ms: 5.0, ..Settings::default() }));
        for number in 0..paths {
            let spec = PathSpec { id: path(number), address: "127.0.0.1:1".into(), bandwidth_gbps };
            bench.step(Input::PathUp(spec));
        }
        bench
    }

    fn ms(&self) -> u64 {
        self.now.ms_since(Mono(0))
    }

    /// Moves the clock, ringing every deadline on the way.
    fn until(&mut self, ms: u64) {
        let to = Mono(0).plus_ms(ms);
        while let Some(due) = self.core.deadline().filter(|due| *due <= to) {
            self.now = due.max(self.now);
            self.step(Input::Tick);
        }
        self.now = to.max(self.now);
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.core.step(Now { mono: self.now, wall_ms: self.ms() }, input, &mut out);
        for output in out {
            match output {
                Output::Report(report) => self.newest = Some(report),
                Output::Transition { path, from, to } => {
                    assert_ne!(from, to);
                    self.transitions.push((self.ms(), path, to));
                }
                Output::Canary(canary) => self.canaries.push((self.ms(), canary)),
                Output::Discarded { reason, .. } => self.discarded.push(reason),
                Output::Frozen(frozen) => self.frozen.push(frozen),
                Output::Gone(_) | Output::Refused(_) => panic!("{output:?}"),
            }
        }
    }

    fn sample(&mut self, sample: Sample) -> PathHealth {
        let path = sample.path.clone();
        self.step(Input::Sample(sample));
        self.health(&path)
    }

    fn health(&self, path: &PathId) -> PathHealth {
        self.core.paths().find(|(id, _)| *id == path).unwrap().1
    }

    fn state(&self, number: usize) -> PathState {
        self.health(&path(number)).state
    }

    /// Where a path went, without the times.
    fn states(&self, number: usize) -> Vec<PathState> {
        self.transitions.iter().filter(|(_, id, _)| *id == path(number)).map(|(_, _, to)| *to).collect()
    }
}

/// A small probe that worked.
fn probe(number: usize, elapsed_ms: f64) -> Sample {
    Sample {
        path: path(number),
        kind: SampleKind::Probe,
        outcome: SampleOutcome::Ok,
        elapsed_ms,
        bytes: 4096,
        attempted_bytes: 4096,
        inflight_bytes: 0,
        late_ms: 0.0,
        taken: None,
    }
}

/// A small probe that never came back.
fn lost(number: usize) -> Sample {
    Sample { outcome: SampleOutcome::Lost, bytes: 0, ..probe(number, 2000.0) }
}

/// Bytes that arrived.
fn moved(number: usize, kind: SampleKind, bytes: u64, elapsed_ms: f64) -> Sample {
    Sample { kind, bytes, attempted_bytes: bytes, ..probe(number, elapsed_ms) }
}

/// Bytes that never arrived.
fn stuck(number: usize, kind: SampleKind, bytes: u64, elapsed_ms: f64) -> Sample {
    Sample { outcome: SampleOutcome::Lost, bytes: 0, ..moved(number, kind, bytes, elapsed_ms) }
}
