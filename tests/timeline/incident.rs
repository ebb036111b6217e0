//! An incident in virtual time, and its journals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seam::core::{Core, Mono, Now};
use seam::health::{self, HealthCore};
use seam::journal::{Entry, Header, Input, Said, Taped, Turn, Writer, segment_name};
use seam::ledger::Ledger;
use seam::model::{NodeName, PathId, PathSpec, PathState};
use seam::policy::{self, Policy};
use seam::sim::{Action, Arrivals, Fault, START_MS, Settings, World};

/// A mesh in which one path jitters, another refuses, and a decode host dies and comes back.
pub(crate) struct Incident {
    pub(crate) prefill: usize,
    pub(crate) decode: usize,
    pub(crate) per_s: f64,
    pub(crate) until_ms: u64,
}

impl Incident {
    /// Two prefill hosts, four decode hosts, thirty seconds.
    pub(crate) fn small() -> Self {
        Self { prefill: 2, decode: 4, per_s: 5.0, until_ms: 30_000 }
    }

    fn settings(&self, taped: &str) -> Settings {
        let class = |name: &str| name.parse().unwrap();
        let arrivals = Arrivals {
            per_s: self.per_s,
            classes: vec![(class("batch"), 45.0), (class("interactive"), 40.0), (class("release"), 15.0)],
            median_bytes: 16 << 20,
            sigma: 0.5,
            limits_bytes: (64 * 1024, 128 << 20),
            until_ms: self.until_ms - 1_000,
        };
        Settings {
            arrivals: Some(arrivals),
            taped: Some(taped.to_owned()),
            ..Settings::new(1, self.prefill, self.decode)
        }
    }

    /// The world at its end, as `node` recorded it.
    fn world(&self, node: &str) -> World {
        let mut world = World::new(self.settings(node)).unwrap();
        let tenth = self.until_ms / 10;
        let path = |world: &World, to| world.path(world.prefill(0), world.decode(to)).unwrap();
        let (jitters, refuses, dies) = (path(&world, 0), path(&world, 1), world.decode(2));
        world.at(2 * tenth, Action::Fault { path: jitters.clone(), fault: Some(Fault::Jitter { base_ms: 7.0 }) });
        world.at(5 * tenth, Action::Fault { path: jitters, fault: None });
        world.at(4 * tenth, Action::Fault { path: refuses.clone(), fault: Some(Fault::Refuse) });
        world.at(6 * tenth, Action::Fault { path: refuses, fault: None });
        world.at(6 * tenth, Action::Kill(dies));
        world.at(9 * tenth, Action::Start(dies));
        world.run(self.until_ms);
        world
    }

    /// What stands in the journal of `node`.
    pub(crate) fn journal(&self, node: &str) -> (Header, Vec<Entry>) {
        let fresh = World::new(self.settings(node)).unwrap();
        let world = self.world(node);
        let index = (0..self.prefill + self.decode).find(|index| world.name(*index).unwrap().as_str() == node).unwrap();
        let tapes = world.tapes().unwrap();
        let mut entries = Vec::new();
        let mut turns = Vec::new();
        let health = HealthCore::default();
        turns.extend(played(health, &tapes.health.inputs, &mut entries));
        if let Some(policy) = fresh.policy(index) {
            let policy = Policy::restore(policy.snapshot());
            turns.extend(played(policy, &tapes.policy.inputs[1..], &mut entries));
        }
        if let Some(ledger) = fresh.ledger(index) {
            let ledger = Ledger::restore(ledger.snapshot());
            turns.extend(played(ledger, &tapes.ledger.inputs[1..], &mut entries));
        }
        turns.sort_by_key(|turn| turn.now.mono);
        entries.extend(turns.into_iter().map(Entry::Turn));
        let header = Header {
            node: NodeName::new(node).unwrap(),
            generation: 1,
            segment: 0,
            build: "test".to_owned(),
            config_hash: "sim".to_owned(),
            opened: Now { wall_ms: START_MS, ..Now::default() },
        };
        (header, entries)
    }
}

fn played<C: Taped>(mut core: C, inputs: &[(Now, C::Input)], entries: &mut Vec<Entry>) -> Vec<Turn> {
    entries.push(Entry::Snapshot(core.taped_snapshot()));
    inputs.iter().map(|(now, input)| Turn::take(&mut core, *now, input.clone())).collect()
}

/// The bytes of one segment.
pub(crate) fn segment(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), header).unwrap();
    for entry in entries {
        writer.append(entry).unwrap();
    }
    writer.into_inner()
}

/// Writes the journals of these nodes, one segment each, the folders made where there are none.
pub(crate) fn write(dir: &Path, incident: &Incident, nodes: &[&str]) -> BTreeMap<String, usize> {
    std::fs::create_dir_all(dir).unwrap();
    let mut written = BTreeMap::new();
    for node in nodes {
        let (header, entries) = incident.journal(node);
        let path = dir.join(segment_name(&header.node, header.generation, header.segment));
        std::fs::write(path, segment(&header, &entries)).unwrap();
        written.insert((*node).to_owned(), entries.len());
    }
    written
}

/// Ten minutes of a prefill host with two hundred paths, the first so many of which change their
/// state twice a second, and ten decisions a second that take them in turn.
pub(crate) fn two_hundred_paths(restless: usize) -> (Header, Vec<Entry>) {
    const PATHS: usize = 200;
    const UNTIL_MS: u64 = 600_000;
    let (header, entries) = Incident { prefill: 1, decode: 3, per_s: 2.0, until_ms: 3_000 }.journal("p0");
    let said = entries.into_iter().filter_map(|entry| match entry {
        Entry::Turn(turn) => turn.said.into_iter().find_map(|said| match said {
            Said::Decided(record) => record.chosen.is_some().then_some(record),
            _ => None,
        }),
        _ => None,
    });
    let records: Vec<_> = said.collect();
    let paths: Vec<PathId> = (0..PATHS).map(|to| format!("p0>d{to:03}/r0/quic").parse().unwrap()).collect();
    let turn = |at_ms: u64, input, said| {
        let now = Now { mono: Mono(at_ms * 1_000_000), wall_ms: START_MS + at_ms };
        Entry::Turn(Turn { now, input, said, digest: 0 })
    };
    let mut entries = Vec::new();
    for path in &paths {
        let spec = PathSpec { id: path.clone(), address: "192.0.2.1:1".to_owned(), bandwidth_gbps: 100.0 };
        entries.push(turn(0, Input::Health(health::Input::PathUp(spec)), Vec::new()));
    }
    let mut states = [PathState::Healthy; PATHS];
    for (number, at_ms) in (0..UNTIL_MS).step_by(100).enumerate() {
        let tick = || Input::Policy(policy::Input::Tick);
        let mut record = (*records[number % records.len()]).clone();
        record.chosen.as_mut().unwrap().path = Some(paths[number % PATHS].clone());
        record.lease = None;
        entries.push(turn(at_ms, tick(), vec![Said::Decided(Arc::new(record))]));
        if number % 5 == 0 {
            for (index, state) in states.iter_mut().enumerate().take(restless) {
                let to = PathState::ALL[(number / 5 + index) % PathState::ALL.len()];
                let changed = Said::Transition { path: paths[index].clone(), from: *state, to };
                *state = to;
                entries.push(turn(at_ms, Input::Health(health::Input::Tick), vec![changed]));
            }
        }
    }
    (header, entries)
}
