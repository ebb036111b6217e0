//! Journals as an agent would write them, from what a simulated node was told.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use seam::core::{Core, Now};
use seam::health::HealthCore;
use seam::journal::{Entry, Header, Input, Part, Snapshot, Taped, Turn, Writer, segment_name};
use seam::ledger::Ledger;
use seam::mesh::{MeshCore, MeshSize};
use seam::model::{Generation, NodeName};
use seam::policy::Policy;
use seam::replay::journal::{History, Report};
use seam::sim::{Action, Fault, Gossip, START_MS, Settings, World};

use crate::common::{MIB, SECOND, cores, mixed, sound};

pub(crate) const LIFE: Generation = 1_800_000_000_000;

/// The four cores of one node.
pub(crate) struct Cores {
    pub(crate) health: HealthCore,
    pub(crate) policy: Policy,
    pub(crate) ledger: Ledger,
    pub(crate) mesh: MeshCore,
}

impl Cores {
    pub(crate) fn snapshot(&self, part: Part) -> Snapshot {
        match part {
            Part::Health => self.health.taped_snapshot(),
            Part::Policy => self.policy.taped_snapshot(),
            Part::Ledger => self.ledger.taped_snapshot(),
            Part::Mesh => self.mesh.taped_snapshot(),
        }
    }

    fn snapshots(&self) -> impl Iterator<Item = Entry> {
        Part::ALL.iter().map(|part| Entry::Snapshot(self.snapshot(*part)))
    }

    pub(crate) fn turn(&mut self, now: Now, input: Input) -> Turn {
        match input {
            Input::Health(input) => Turn::take(&mut self.health, now, input),
            Input::Policy(input) => Turn::take(&mut self.policy, now, input),
            Input::Ledger(input) => Turn::take(&mut self.ledger, now, input),
            Input::Mesh(input) => Turn::take(&mut self.mesh, now, input),
        }
    }
}

/// What a node begins with and is told from then on.
pub(crate) struct Story {
    fresh: World,
    pub(crate) tape: Vec<(Now, Input)>,
    prefill: usize,
    decode: usize,
}

impl Story {
    /// The cores before they were told anything of the tape.
    pub(crate) fn cores(&self) -> Cores {
        Cores {
            health: HealthCore::default(),
            policy: Policy::restore(self.fresh.policy(self.prefill).unwrap().snapshot()),
            ledger: Ledger::restore(self.fresh.ledger(self.decode).unwrap().snapshot()),
            mesh: MeshCore::restore(self.fresh.mesh(self.prefill).unwrap().snapshot()),
        }
    }

    /// The segments of its life, each beginning with the cores' snapshots; `splits` says before which
    /// turns a new one begins.
    pub(crate) fn segments(&self, splits: &[usize]) -> Vec<Vec<Entry>> {
        let mut cores = self.cores();
        let mut segments = vec![cores.snapshots().collect::<Vec<_>>()];
        for (index, (now, input)) in self.tape.iter().enumerate() {
            if splits.contains(&index) {
                segments.push(cores.snapshots().collect());
            }
            segments.last_mut().unwrap().push(Entry::Turn(cores.turn(*now, input.clone())));
        }
        let end = self.tape.last().map_or(Now::default(), |(now, _)| *now);
        segments.last_mut().unwrap().push(Entry::Closed(end));
        segments
    }
}

/// A prefill host's health, policy and mesh, and a decode host's ledger: all four cores as one node, from
/// two runs of one seed.
pub(crate) fn story(gossip: Gossip, seconds: u64) -> Story {
    let run = |taped: &str| {
        let arrivals = Some(mixed(6.0, 16 * MIB, 60 * SECOND));
        let settings =
            Settings { gossip: gossip.clone(), arrivals, taped: Some(taped.to_owned()), ..Settings::new(7, 2, 2) };
        let mut world = World::new(settings).unwrap();
        let gray = world.path(world.prefill(0), world.decode(0)).unwrap();
        world.at(4 * SECOND, Action::Fault { path: gray, fault: Some(Fault::Jitter { base_ms: 9.0 }) });
        world.run(seconds * SECOND);
        sound(&world, "the run");
        world
    };
    let (source, target) = (run("p0"), run("d0"));
    let (own, ledger) = (source.tapes().unwrap(), &target.tapes().unwrap().ledger);
    let mut tape: Vec<(Now, Input)> = Vec::new();
    tape.extend(own.health.inputs.iter().map(|(now, input)| (*now, Input::Health(input.clone()))));
    tape.extend(own.policy.inputs.iter().map(|(now, input)| (*now, Input::Policy(input.clone()))));
    tape.extend(own.mesh.inputs.iter().map(|(now, input)| (*now, Input::Mesh(input.clone()))));
    tape.extend(ledger.inputs.iter().map(|(now, input)| (*now, Input::Ledger(input.clone()))));
    tape.sort_by_key(|(now, _)| now.mono);
    let fresh = World::new(Settings { gossip, ..Settings::new(7, 2, 2) }).unwrap();
    Story { prefill: fresh.prefill(0), decode: fresh.decode(0), fresh, tape }
}

/// Ten seconds of a node, made once.
pub(crate) static STORY: LazyLock<Story> = LazyLock::new(|| story(cores(MeshSize::Local, 2, 2), 10));

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(crate) fn header(name: &str, segment: u64) -> Header {
    Header {
        node: node(name),
        generation: LIFE,
        segment,
        build: "0.1.0".into(),
        config_hash: "c0ffee".into(),
        opened: Now { wall_ms: START_MS, ..Now::default() },
    }
}

pub(crate) fn bytes(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), header).unwrap();
    for entry in entries {
        writer.append(entry).unwrap();
    }
    writer.into_inner()
}

/// Writes segments as files of one life, numbered from 0, and says where they lie.
pub(crate) fn write(dir: &Path, name: &str, segments: &[Vec<Entry>]) -> Vec<PathBuf> {
    let file = |(number, entries): (usize, &Vec<Entry>)| {
        let number = number as u64;
        let path = dir.join(segment_name(&node(name), LIFE, number));
        std::fs::write(&path, bytes(&header(name, number), entries)).unwrap();
        path
    };
    segments.iter().enumerate().map(file).collect()
}

pub(crate) fn verify(paths: &[impl AsRef<Path>]) -> Report {
    History::open(paths).unwrap().verify(|_| ())
}

/// The turns of a core as they stand in the only life of a report: all, verified, not verifiable.
pub(crate) fn turns(report: &Report, part: Part) -> (u64, u64, u64) {
    let core = report.lives[0].cores.iter().find(|core| core.part == part).unwrap();
    (core.turns, core.verified, core.unverifiable())
}

/// Every first difference, in words, without the folder.
pub(crate) fn differences(report: &Report, dir: &Path) -> String {
    let cores = report.lives.iter().flat_map(|life| &life.cores);
    let lines = cores.filter_map(|core| core.first_difference.as_ref()).map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n").replace(&format!("{}/", dir.display()), "")
}
