//! The health core itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::mesh::Proven;
use super::stall::Stall;
use super::{Canary, Discard, Input, Output, PathReport, ProfileTrack, Sample, SampleKind, Settings, sample};
use crate::core::{Core, Mono, Now};
use crate::model::{BackendKind, PathHealth, PathId, PathSpec, RailName};

/// A canary may take this many times what its bytes and the path's latency explain: enough for a
/// path that is only slow, far less than a transfer may.
pub const CANARY_SLACK: f64 = 4.0;
/// No canary has a shorter deadline, in milliseconds: it may have to set up a connection first.
pub const MIN_CANARY_DEADLINE_MS: u64 = 250;

/// Turns samples into path states. Its deadlines are the canaries of paths on which transfers failed.
#[derive(Clone, Debug, Default)]
pub struct HealthCore {
    settings: Settings,
    reports: u64,
    paths: BTreeMap<PathId, Known>,
    /// What each rail of this host has achieved; as many as its paths have rails.
    rails: BTreeMap<(RailName, BackendKind), Proven>,
    stall: Stall,
    /// When each path's canary is due.
    canaries: BTreeSet<(Mono, PathId)>,
}

#[derive(Clone, Debug)]
struct Known {
    bandwidth_gbps: f64,
    /// Since when the path is there.
    up: Mono,
    track: ProfileTrack,
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
    /// What each rail has achieved.
    pub rails: Vec<(RailName, BackendKind, Proven)>,
    /// Whether this host stalls.
    pub stall: Stall,
}

/// One path of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSnapshot {
    /// The path.
    pub path: PathId,
    /// Its bandwidth in gigabits per second.
    pub bandwidth_gbps: f64,
    /// Since when it is there.
    pub up: Mono,
    /// Its samples and state.
    pub track: ProfileTrack,
}

impl HealthCore {
    /// Every known path and its health, in the order of the names.
    pub fn paths(&self) -> impl Iterator<Item = (&PathId, PathHealth)> {
        self.paths.iter().map(|(path, known)| (path, known.track.health(&self.settings.thresholds)))
    }

    /// Whether this host itself is late most of the time, so that no state changes.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.stall.frozen()
    }

    fn configure(&mut self, settings: Settings, out: &mut Vec<Output>) {
        if let Err(invalid) = settings.validate() {
            out.push(Output::Refused(invalid));
            return;
        }
        if settings.profile != self.settings.profile {
            let tracks = std::mem::take(&mut self.paths).into_iter();
            let moved = tracks.map(|(path, known)| {
                let track = known.track.under(settings.profile);
                (path, Known { track, ..known })
            });
            self.paths = moved.collect();
            self.canaries.clear();
            if std::mem::take(&mut self.stall).frozen() {
                out.push(Output::Frozen(false));
            }
        }
        self.settings = settings;
    }

    fn path_up(&mut self, now: Mono, spec: PathSpec, out: &mut Vec<Output>) {
        let PathSpec { id: path, bandwidth_gbps, address: _ } = spec;
        if !(bandwidth_gbps.is_finite() && bandwidth_gbps > 0.0) {
            out.push(Output::Discarded { path, reason: Discard::Invalid });
        } else if let Some(known) = self.paths.get_mut(&path) {
            known.bandwidth_gbps = bandwidth_gbps;
        } else if self.paths.len() >= self.settings.max_paths {
            out.push(Output::Discarded { path, reason: Discard::TooManyPaths });
        } else {
            let track = ProfileTrack::new(self.settings.profile);
            self.paths.insert(path, Known { bandwidth_gbps, track, up: now });
        }
    }

    fn path_gone(&mut self, path: PathId, out: &mut Vec<Output>) {
        if let Some(known) = self.paths.remove(&path) {
            if let Some(due) = known.track.canary_due() {
                self.canaries.remove(&(due, path.clone()));
            }
            out.push(Output::Gone(path));
        }
    }

    fn sample(&mut self, now: Mono, sample: Sample, out: &mut Vec<Output>) {
        let Some(known) = self.paths.get_mut(&sample.path) else {
            out.push(Output::Discarded { path: sample.path, reason: Discard::UnknownPath });
            return;
        };
        if self.settings.doubts() && sample.began(now) < known.up {
            out.push(Output::Discarded { path: sample.path, reason: Discard::EarlierLife });
            return;
        }
        let admitted = sample::admit(&self.settings, known.bandwidth_gbps, &sample);
        // An engine does not say how late it was, so its reports are no word on that.
        let own = sample.kind != SampleKind::Reported;
        if self.settings.doubts() && own && admitted != Err(Discard::Invalid) {
            out.extend(self.stall.note(now, sample::is_late(&self.settings, &sample)).map(Output::Frozen));
        }
        let thresholds = &self.settings.thresholds;
        let (from, due) = (known.track.state(), known.track.canary_due());
        let taken = match admitted {
            Ok(_) if self.stall.frozen() => Err(Discard::Frozen),
            Ok(measured) => {
                let rail = self.rails.entry((sample.path.rail.clone(), sample.path.backend)).or_default();
                known.track.take(&self.settings, now, &sample, &measured, rail)
            }
            Err(reason) => Err(reason),
        };
        let health = match taken {
            Ok(health) => health,
            Err(reason) => {
                out.push(Output::Discarded { path: sample.path.clone(), reason });
                // While this host is to blame, what was known of its paths stays, as if it were new.
                let to_blame = matches!(reason, Discard::Late | Discard::Frozen)
                    && self.stall.frozen()
                    && known.track.newest().is_some();
                // What came too fast to be believed came all the same, and may have answered a failure.
                if !to_blame && known.track.canary_due() == due {
                    return;
                }
                known.track.health(thresholds)
            }
        };
        if health.state != from {
            out.push(Output::Transition { path: sample.path.clone(), from, to: health.state });
        }
        let age_ms = match self.stall.frozen() {
            true => 0,
            false => known.track.newest().map_or(0, |newest| now.ms_since(newest)),
        };
        let due_now = known.track.canary_due();
        if due != due_now {
            self.canaries.extend(due_now.map(|at| (at, sample.path.clone())));
            if let Some(at) = due {
                self.canaries.remove(&(at, sample.path.clone()));
            }
        }
        self.reports = self.reports.saturating_add(1);
        out.push(Output::Report(PathReport { path: sample.path, version: self.reports, age_ms, health }));
    }

    /// Asks for every canary that is due.
    fn fire(&mut self, now: Mono, out: &mut Vec<Output>) {
        while let Some((at, _)) = self.canaries.first()
            && *at <= now
            && let Some((_, path)) = self.canaries.pop_first()
        {
            let Some(known) = self.paths.get_mut(&path) else { continue };
            let Some((bytes, base_ms)) = known.track.canary(&self.settings, now) else { continue };
            self.canaries.extend(known.track.canary_due().map(|at| (at, path.clone())));
            let explained_ms = sample::wire_ms(bytes as f64, known.bandwidth_gbps) + base_ms;
            let deadline_ms = (libm::ceil(explained_ms * CANARY_SLACK) as u64).max(MIN_CANARY_DEADLINE_MS);
            out.push(Output::Canary(Canary { path, bytes, deadline_ms }));
        }
    }
}

impl Core for HealthCore {
    type Input = Input;
    type Output = Output;
    type Snapshot = Snapshot;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.fire(now.mono, out);
        match input {
            Input::Configure(settings) => self.configure(settings, out),
            Input::PathUp(spec) => self.path_up(now.mono, spec, out),
            Input::PathGone(path) => self.path_gone(path, out),
            Input::Sample(sample) => self.sample(now.mono, sample, out),
            Input::Tick => {}
        }
    }

    fn deadline(&self) -> Option<Mono> {
        self.canaries.first().map(|(at, _)| *at)
    }

    fn snapshot(&self) -> Snapshot {
        let path = |(path, known): (&PathId, &Known)| PathSnapshot {
            path: path.clone(),
            bandwidth_gbps: known.bandwidth_gbps,
            up: known.up,
            track: known.track.clone(),
        };
        Snapshot {
            settings: self.settings.clone(),
            reports: self.reports,
            paths: self.paths.iter().map(path).collect(),
            rails: self.rails.iter().map(|((rail, backend), proven)| (rail.clone(), *backend, *proven)).collect(),
            stall: self.stall.clone(),
        }
    }

    fn restore(snapshot: Snapshot) -> Self {
        let known = |path: PathSnapshot| {
            let PathSnapshot { path, bandwidth_gbps, up, track } = path;
            (path, Known { bandwidth_gbps, up, track })
        };
        let paths: BTreeMap<PathId, Known> = snapshot.paths.into_iter().take(super::MAX_PATHS).map(known).collect();
        let due = |(path, known): (&PathId, &Known)| known.track.canary_due().map(|at| (at, path.clone()));
        Self {
            settings: snapshot.settings,
            reports: snapshot.reports,
            canaries: paths.iter().filter_map(due).collect(),
            paths,
            rails: snapshot.rails.into_iter().map(|(rail, backend, proven)| ((rail, backend), proven)).collect(),
            stall: snapshot.stall,
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
            attempted_bytes: 64,
            inflight_bytes: 0,
            late_ms: 0.0,
            taken: None,
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
