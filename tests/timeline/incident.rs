//! An incident in virtual time, and its journals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use seam::core::{Core, Now};
use seam::health::HealthCore;
use seam::journal::{Entry, Header, Taped, Turn, Writer, segment_name};
use seam::ledger::Ledger;
use seam::model::NodeName;
use seam::policy::Policy;
use seam::sim::{Action, Arrivals, Fault, START_MS, Settings, World};

/// A mesh in which one path jitters, another refuses, and a decode host dies and comes back.
pub struct Incident {
    pub prefill: usize,
    pub decode: usize,
    pub per_s: f64,
    pub until_ms: u64,
}

impl Incident {
    /// Two prefill hosts, four decode hosts, thirty seconds.
    pub fn small() -> Self {
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
    pub fn journal(&self, node: &str) -> (Header, Vec<Entry>) {
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

    /// Every name, prefill hosts first.
    pub fn nodes(&self) -> Vec<String> {
        let named = |letter, count| (0..count).map(move |index| format!("{letter}{index}"));
        named('p', self.prefill).chain(named('d', self.decode)).collect()
    }
}

fn played<C: Taped>(mut core: C, inputs: &[(Now, C::Input)], entries: &mut Vec<Entry>) -> Vec<Turn> {
    entries.push(Entry::Snapshot(core.taped_snapshot()));
    let turn = |(now, input): &(Now, C::Input)| {
        let mut out = Vec::new();
        core.step(*now, input.clone(), &mut out);
        let said = out.iter().filter_map(C::said).collect();
        Turn { now: *now, input: C::taped_input(input.clone()), said, digest: 0 }
    };
    inputs.iter().map(turn).collect()
}

/// Writes the journals of these nodes, one segment each, the folders made where there are none.
pub fn write(dir: &Path, incident: &Incident, nodes: &[&str]) -> BTreeMap<String, usize> {
    std::fs::create_dir_all(dir).unwrap();
    let mut written = BTreeMap::new();
    for node in nodes {
        let (header, entries) = incident.journal(node);
        let path = dir.join(segment_name(&header.node, header.generation, header.segment));
        let mut writer = Writer::begin(BufWriter::new(File::create(path).unwrap()), &header).unwrap();
        for entry in &entries {
            writer.append(entry).unwrap();
        }
        written.insert((*node).to_owned(), entries.len());
    }
    written
}
