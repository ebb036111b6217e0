//! The health core itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Discard, Input, Output, PathReport, Sample, Settings, Track, sample};
use crate::core::{Core, Mono, Now};
use crate::model::{PathHealth, PathId, PathSpec};

/// Turns samples into path states. Nothing in it waits, so it never has a deadline.
#[derive(Clone, Debug, Default)]
pub struct HealthCore {
    settings: Settings,
    reports: u64,
    paths: BTreeMap<PathId, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    bandwidth_gbps: f64,
    track: Track,
}

/// The whole state of a [`HealthCore`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The rules that hold.
    pub settings: Settings,
    /// Reports made so far.
    pub reports: u64,
    /// Every known path.
    pub paths: Vec<PathSnapshot>,
}

/// One path of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSnapshot {
    /// The path.
    pub path: PathId,
    /// Its bandwidth in gigabits per second.
    pub bandwidth_gbps: f64,
    /// Its samples and state.
    pub track: Track,
}

impl HealthCore {
    /// Every known path and its health, in the order of the names.
    pub fn paths(&self) -> impl Iterator<Item = (&PathId, PathHealth)> {
        self.paths.iter().map(|(path, known)| (path, known.track.health(&self.settings.thresholds)))
    }

    fn configure(&mut self, settings: Settings, out: &mut Vec<Output>) {
        match settings.validate() {
            Ok(()) => self.settings = settings,
            Err(invalid) => out.push(Output::Refused(invalid)),
        }
    }

    fn path_up(&mut self, spec: PathSpec, out: &mut Vec<Output>) {
        let PathSpec { id: path, bandwidth_gbps, address: _ } = spec;
        if !(bandwidth_gbps.is_finite() && bandwidth_gbps > 0.0) {
            out.push(Output::Discarded { path, reason: Discard::Invalid });
        } else if let Some(known) = self.paths.get_mut(&path) {
            known.bandwidth_gbps = bandwidth_gbps;
        } else if self.paths.len() >= self.settings.max_paths {
            out.push(Output::Discarded { path, reason: Discard::TooManyPaths });
        } else {
            self.paths.insert(path, Known { bandwidth_gbps, track: Track::default() });
        }
    }

    fn sample(&mut self, sample: Sample, out: &mut Vec<Output>) {
        let Some(known) = self.paths.get_mut(&sample.path) else {
            out.push(Output::Discarded { path: sample.path, reason: Discard::UnknownPath });
            return;
        };
        match sample::admit(&self.settings, known.bandwidth_gbps, &sample) {
            Err(reason) => out.push(Output::Discarded { path: sample.path, reason }),
            Ok(point) => {
                let from = known.track.state().state;
                let health = known.track.feed(&self.settings.thresholds, point);
                if health.state != from {
                    out.push(Output::Transition { path: sample.path.clone(), from, to: health.state });
                }
                self.reports = self.reports.saturating_add(1);
                out.push(Output::Report(PathReport { path: sample.path, version: self.reports, health }));
            }
        }
    }
}

impl Core for HealthCore {
    type Input = Input;
    type Output = Output;
    type Snapshot = Snapshot;

    fn step(&mut self, _now: Now, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Configure(settings) => self.configure(settings, out),
            Input::PathUp(spec) => self.path_up(spec, out),
            Input::PathGone(path) => {
                if self.paths.remove(&path).is_some() {
                    out.push(Output::Gone(path));
                }
            }
            Input::Sample(sample) => self.sample(sample, out),
            Input::Tick => {}
        }
    }

    fn deadline(&self) -> Option<Mono> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        let path = |(path, known): (&PathId, &Known)| PathSnapshot {
            path: path.clone(),
            bandwidth_gbps: known.bandwidth_gbps,
            track: known.track.clone(),
        };
        Snapshot {
            settings: self.settings.clone(),
            reports: self.reports,
            paths: self.paths.iter().map(path).collect(),
        }
    }

    fn restore(snapshot: Snapshot) -> Self {
        let known = |path: PathSnapshot| (path.path, Known { bandwidth_gbps: path.bandwidth_gbps, track: path.track });
        Self {
            settings: snapshot.settings,
            reports: snapshot.reports,
            paths: snapshot.paths.into_iter().take(super::MAX_PATHS).map(known).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{SampleKind, SampleOutcome, Thresholds};
    use crate::model::PathState;

    fn spec(path: &str) -> PathSpec {
        PathSpec { id: path.parse().unwrap(), address: "127.0.0.1:1".into(), bandwidth_gbps: 10.0 }
    }

    fn sample(path: &str, elapsed_ms: f64) -> Input {
        Input::Sample(Sample {
            path: path.parse().unwrap(),
            kind: SampleKind::Probe,
            outcome: SampleOutcome::Ok,
            elapsed_ms,
            bytes: 64,
            inflight_bytes: 0,
            late_ms: 0.0,
        })
    }

    fn step(core: &mut HealthCore, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        core.step(Now::default(), input, &mut out);
        out
    }

    fn discarded(out: &[Output]) -> Option<Discard> {
        match out {
            [Output::Discarded { reason, .. }] => Some(*reason),
            _ => None,
        }
    }

    #[test]
    fn a_sample_that_counts_is_reported_and_a_change_of_state_announced() {
        let mut core = HealthCore::default();
        assert_eq!(step(&mut core, Input::PathUp(spec("p0>d0/r0/quic"))), []);
        let out = step(&mut core, sample("p0>d0/r0/quic", 1.0));
        assert!(matches!(&out[..], [Output::Report(PathReport { version: 1, .. })]), "{out:?}");
        let out = step(&mut core, sample("p0>d0/r0/quic", 100.0));
        let [Output::Transition { from, to, .. }, Output::Report(report)] = &out[..] else { panic!("{out:?}") };
        assert_eq!((*from, *to, report.version), (PathState::Healthy, report.health.state, 2));
        assert_ne!(from, to);
    }

    #[test]
    fn unknown_paths_and_paths_beyond_the_limit_are_discarded() {
        let mut core = HealthCore::default();
        assert_eq!(discarded(&step(&mut core, sample("p0>d0/r0/quic", 1.0))), Some(Discard::UnknownPath));
        step(&mut core, Input::Configure(Settings { max_paths: 1, ..Settings::default() }));
        assert_eq!(step(&mut core, Input::PathUp(spec("p0>d0/r0/quic"))), []);
        assert_eq!(discarded(&step(&mut core, Input::PathUp(spec("p0>d1/r0/quic")))), Some(Discard::TooManyPaths));
        assert_eq!(step(&mut core, Input::PathUp(spec("p0>d0/r0/quic"))), [], "a known path is no new one");
        step(&mut core, Input::PathGone("p0>d0/r0/quic".parse().unwrap()));
        assert_eq!(step(&mut core, Input::PathUp(spec("p0>d1/r0/quic"))), []);
    }

    #[test]
    fn a_path_without_a_usable_bandwidth_is_discarded() {
        for bandwidth_gbps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let bad = PathSpec { bandwidth_gbps, ..spec("p0>d0/r0/quic") };
            assert_eq!(discarded(&step(&mut HealthCore::default(), Input::PathUp(bad))), Some(Discard::Invalid));
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_and_the_earlier_ones_hold() {
        let mut core = HealthCore::default();
        let before = core.snapshot();
        let thresholds = Thresholds { drop_quarantine: 0.0, ..Thresholds::default() };
        let out = step(&mut core, Input::Configure(Settings { thresholds, ..Settings::default() }));
        let [Output::Refused(invalid)] = &out[..] else { panic!("{out:?}") };
        assert_eq!(invalid.to_string(), "thresholds.drop_quarantine: found 0, allowed above 0, at most 1");
        assert_eq!(core.snapshot(), before);
    }

    #[test]
    fn a_path_that_comes_back_starts_anew_under_a_larger_number() {
        let mut core = HealthCore::default();
        let path = "p0>d0/r0/quic";
        step(&mut core, Input::PathUp(spec(path)));
        step(&mut core, sample(path, 100.0));
        let gone = || Input::PathGone(path.parse().unwrap());
        assert_eq!(step(&mut core, gone()), [Output::Gone(path.parse().unwrap())]);
        assert_eq!(step(&mut core, gone()), []);
        step(&mut core, Input::PathUp(spec(path)));
        let out = step(&mut core, sample(path, 1.0));
        let [Output::Report(report)] = &out[..] else { panic!("{out:?}") };
        assert_eq!((report.version, report.health.sample_count, report.health.state), (2, 1, PathState::Healthy));
    }
}
