//! The probers: a small probe of every path, jittered, and what comes back as samples.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::event::{Heard, Own};
use super::fault::Drawn;
use super::network::nanos;
use super::wiring::CoreInput;
use super::world::World;
use crate::core::Mono;
use crate::health::pace::{
    BULK_WIRE_MS, DEADLINE_INTERVALS, JITTER, MAX_DEADLINE_MS, MIN_DEADLINE_MS, MIN_SPACING_MS, UNPROVEN_RATE,
};
use crate::health::{self, Canary, Sample, SampleKind, SampleOutcome};
use crate::model::{PathId, PathSpec};

/// Every host's prober.
pub(super) struct Probers {
    tracked: BTreeMap<(usize, PathId), Tracked>,
    /// The version of the directory that each host's prober follows, and its life.
    followed: BTreeMap<usize, (u32, u64)>,
    probes: BTreeMap<u64, Probe>,
    epoch: u64,
    rng: ChaCha8Rng,
    /// No probe is sent.
    pub(super) silent: bool,
}

struct Tracked {
    spec: PathSpec,
    epoch: u64,
    busy: bool,
    /// Answers, and losses after the first: the first answer is no sample, and a few more prove it.
    answers: u32,
}

struct Probe {
    source: usize,
    life: u32,
    path: PathSpec,
    kind: SampleKind,
    bytes: u64,
    started_ns: u64,
    inflight_before: u64,
    extra_ns: u64,
}

impl Probers {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            tracked: BTreeMap::new(),
            followed: BTreeMap::new(),
            probes: BTreeMap::new(),
            epoch: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            silent: false,
        }
    }
}

impl World {
    /// Follows the list of a host's paths; a new one is first probed at a random point of its
    /// interval.
    pub(super) fn follow_paths(&mut self, node: usize) {
        let Some((life, cores)) = self.nodes.get(node).and_then(|n| Some((n.life, n.cores.as_ref()?))) else { return };
        let version = cores.directory.version;
        if self.probers.followed.insert(node, (life, version)) == Some((life, version)) {
            return;
        }
        let paths: Vec<PathSpec> = cores.directory.paths().cloned().collect();
        let probers = &mut self.probers;
        probers.tracked.retain(|(source, id), _| *source != node || paths.iter().any(|path| path.id == *id));
        let mut due = Vec::new();
        for spec in paths {
            let key = (node, spec.id.clone());
            if probers.tracked.get(&key).is_some_and(|known| known.spec == spec) {
                continue;
            }
            probers.epoch += 1;
            let epoch = probers.epoch;
            let wait_ns = nanos(self.settings.probing.interval_ms as f64 * probers.rng.random::<f64>());
            due.push((wait_ns, Own::ProbeDue { path: spec.id.clone(), epoch }));
            if let Some(bulk_ms) = self.settings.probing.bulk_interval_ms {
                let wait_ns = nanos(bulk_ms as f64 * probers.rng.random::<f64>());
                due.push((wait_ns, Own::BulkDue { path: spec.id.clone(), epoch }));
            }
            probers.tracked.insert(key, Tracked { spec, epoch, busy: false, answers: 0 });
        }
        for (wait_ns, own) in due {
            self.later_ns(node, wait_ns, own);
        }
    }

    pub(super) fn probe_due(&mut self, node: usize, path: PathId, epoch: u64) {
        let interval_ms = self.settings.probing.interval_ms;
        let spread = 1.0 + JITTER * (2.0 * self.probers.rng.random::<f64>() - 1.0);
        let silent = self.probers.silent;
        let Some(tracked) = self.probers.tracked.get_mut(&(node, path.clone())).filter(|t| t.epoch == epoch) else {
            return;
        };
        let (spec, idle) = (tracked.spec.clone(), !tracked.busy && !silent);
        tracked.busy |= idle;
        let spacing_ms = match tracked.answers > self.settings.health.thresholds.min_samples {
            true => interval_ms,
            false => (interval_ms / u64::from(UNPROVEN_RATE)).max(MIN_SPACING_MS).min(interval_ms),
        };
        self.later_ns(node, nanos(spacing_ms as f64 * spread), Own::ProbeDue { path, epoch });
        if idle {
            let deadline_ms = (interval_ms * u64::from(DEADLINE_INTERVALS)).clamp(MIN_DEADLINE_MS, MAX_DEADLINE_MS);
            self.probe(node, spec, SampleKind::Probe, self.settings.probing.payload_bytes, deadline_ms);
        }
    }

    /// A bulk probe of a path is due; one that is not proven yet is left alone.
    pub(super) fn bulk_due(&mut self, node: usize, path: PathId, epoch: u64) {
        let Some(bulk_ms) = self.settings.probing.bulk_interval_ms else { return };
        let spread = 1.0 + JITTER * (2.0 * self.probers.rng.random::<f64>() - 1.0);
        let silent = self.probers.silent;
        let tracked = self.probers.tracked.get(&(node, path.clone())).filter(|tracked| tracked.epoch == epoch);
        let Some((spec, answers)) = tracked.map(|tracked| (tracked.spec.clone(), tracked.answers)) else { return };
        self.later_ns(node, nanos(bulk_ms as f64 * spread), Own::BulkDue { path, epoch });
        if answers > self.settings.health.thresholds.min_samples && !silent {
            let most = BULK_WIRE_MS * spec.bandwidth_gbps * 1e6 / 8.0;
            let bytes = self.settings.probing.bulk_bytes.min(most as u64);
            self.probe(node, spec, SampleKind::Bulk, bytes, MAX_DEADLINE_MS);
        }
    }

    /// Sends a canary: one large probe that takes its part of the rail, as a write would, but slows
    /// nobody else down.
    pub(super) fn canary(&mut self, node: usize, canary: Canary) {
        let key = (node, canary.path.clone());
        let Some(spec) = self.probers.tracked.get(&key).map(|tracked| tracked.spec.clone()) else { return };
        self.audit.canary(self.now_ns, canary.clone());
        self.probe(node, spec, SampleKind::Bulk, canary.bytes, canary.deadline_ms);
    }

    fn probe(&mut self, node: usize, path: PathSpec, kind: SampleKind, bytes: u64, deadline_ms: u64) {
        let drawn = self.rails.draw(&path.id, bytes);
        let inflight_before = self.rails.in_flight(&path.id);
        let busy_ms = self.rails.busy_ms(&path, bytes);
        let fault_ms = match drawn {
            Drawn::Delay { ms } | Drawn::Lost { ms } => ms,
            Drawn::Stall | Drawn::Refuse => 0.0,
        };
        let extra_ns = nanos(fault_ms + busy_ms);
        let Some(life) = self.nodes.get(node).map(|node| node.life) else { return };
        let (id, to) = (self.next_id(), self.index_of(&path.id.destination));
        let started_ns = self.now_ns;
        let probe = Probe { source: node, life, path, kind, bytes, started_ns, inflight_before, extra_ns };
        self.probers.probes.insert(id, probe);
        match drawn {
            Drawn::Refuse => self.probe_ended(node, id, SampleOutcome::Failed),
            Drawn::Lost { .. } | Drawn::Stall => self.later(node, deadline_ms, Own::ProbeDeadline { probe: id }),
            Drawn::Delay { .. } => {
                if let Some(to) = to
                    && let Some(delay_ns) = self.network.message(node, to)
                {
                    self.arrive(to, delay_ns, Heard::ProbeArrived { probe: id });
                }
                self.later(node, deadline_ms, Own::ProbeDeadline { probe: id });
            }
        }
    }

    /// A probe is echoed, unless the process that it was sent to is no more.
    pub(super) fn probe_arrived(&mut self, node: usize, id: u64) {
        let Some(probe) = self.probers.probes.get(&id) else { return };
        let (source, life, extra_ns) = (probe.source, probe.life, probe.extra_ns);
        if self.nodes.get(source).is_some_and(|node| node.life == life)
            && let Some(delay_ns) = self.network.message(node, source)
        {
            self.arrive(source, delay_ns + extra_ns, Heard::ProbeEcho { probe: id });
        }
    }

    /// A process is no more, and waits for no answer.
    pub(super) fn probes_died(&mut self, node: usize) {
        self.probers.probes.retain(|_, probe| probe.source != node);
        self.probers.tracked.retain(|(source, _), _| *source != node);
    }

    pub(super) fn probe_ended(&mut self, node: usize, id: u64, outcome: SampleOutcome) {
        let Some(probe) = self.probers.probes.remove(&id) else { return };
        let path = probe.path.id;
        let Some(tracked) = self.probers.tracked.get_mut(&(node, path.clone())) else { return };
        let small = probe.kind == SampleKind::Probe;
        tracked.busy &= !small;
        let first = small && outcome == SampleOutcome::Ok && tracked.answers == 0;
        if small && (outcome == SampleOutcome::Ok || tracked.answers > 0) {
            tracked.answers = tracked.answers.saturating_add(1);
        }
        if first {
            return;
        }
        let Some(late_ms) = self.nodes.get(node).map(|node| node.late_ms(probe.started_ns, self.now_ns)) else {
            return;
        };
        let sample = Sample {
            inflight_bytes: probe.inflight_before.max(self.rails.in_flight(&path)),
            path,
            kind: probe.kind,
            outcome,
            elapsed_ms: self.now_ns.saturating_sub(probe.started_ns) as f64 / 1e6,
            bytes: if outcome == SampleOutcome::Ok { probe.bytes } else { 0 },
            attempted_bytes: probe.bytes,
            taken: Some(Mono(self.now_ns)),
            late_ms,
        };
        self.tell(node, CoreInput::Health(health::Input::Sample(sample)));
    }
}
