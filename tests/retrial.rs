//! A recorded history, decided again: under the rules that held nothing changes, under others what
//! changes is named with its rule.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use seam::core::{Core, Now};
use seam::health::{HealthCore, Thresholds};
use seam::journal::{Entry, Gap, Part, Said, Taped, Turn};
use seam::model::{Profile, RequestId};
use seam::policy::Policy;
use seam::policy::record::DecisionRecord;
use seam::replay::retrial::{Chooser, ClassRow, Explained, Import, Report, Retrial, RetrialError, Rules, Settings};
use seam::rivals::{Choosable, Policy as Rival};
use seam::sim::{Action, Arrivals, Fault, World};
use seam::trace::Traffic;

const SECOND: u64 = 1_000;

/// The life of a prefill host with three decode hosts, one of whose paths jitters from 6 s to 14 s.
fn life(seed: u64) -> Vec<Entry> {
    let class = |name: &str| name.parse().unwrap();
    let arrivals = Arrivals {
        per_s: 12.0,
        classes: vec![(class("batch"), 45.0), (class("interactive"), 40.0), (class("release"), 15.0)],
        median_bytes: 16 << 20,
        sigma: 0.5,
        limits_bytes: (64 * 1024, 128 << 20),
        until_ms: 18 * SECOND,
    };
    let base = seam::sim::Settings::new(seed, 1, 3);
    let settings =
        || seam::sim::Settings { arrivals: Some(arrivals.clone()), taped: Some("p0".into()), ..base.clone() };
    let fresh = World::new(settings()).unwrap();
    let mut world = World::new(settings()).unwrap();
    let gray = world.path(world.prefill(0), world.decode(0)).unwrap();
    world.at(6 * SECOND, Action::Fault { path: gray.clone(), fault: Some(Fault::Jitter { base_ms: 7.0 }) });
    world.at(14 * SECOND, Action::Fault { path: gray, fault: None });
    world.run(20 * SECOND);

    // What a node starts with is what it has before it hears anything but itself.
    let tapes = world.tapes().unwrap();
    let mut entries = Vec::new();
    let health = turns(HealthCore::default(), &tapes.health.inputs, &mut entries);
    let policy = turns(Policy::restore(fresh.policy(0).unwrap().snapshot()), &tapes.policy.inputs[1..], &mut entries);
    let mut all: Vec<Turn> = health.into_iter().chain(policy).collect();
    all.sort_by_key(|turn| turn.now.mono);
    entries.extend(all.into_iter().map(Entry::Turn));
    entries
}

fn turns<C: Taped>(mut core: C, inputs: &[(Now, C::Input)], entries: &mut Vec<Entry>) -> Vec<Turn> {
    entries.push(Entry::Snapshot(core.taped_snapshot()));
    inputs.iter().map(|(now, input)| Turn::take(&mut core, *now, input.clone())).collect()
}

fn first_decisions(entries: &[Entry]) -> Vec<&DecisionRecord> {
    let said = entries.iter().filter_map(|entry| match entry {
        Entry::Turn(turn) => Some(&turn.said),
        _ => None,
    });
    let decided = said.flatten().filter_map(|said| match said {
        Said::Decided(record) => Some(&**record),
        _ => None,
    });
    decided.filter(|record| record.attempt == 1).collect()
}

fn settings() -> Settings {
    let (rules, policies) = (Rules::default(), Vec::new());
    Settings { rules, policies, rivals_see: Choosable::AdmissibleOnly, seed: 1, explain: None, import: None }
}

fn tried(entries: &[Entry], settings: Settings) -> (Report, Vec<Explained>) {
    let mut retrial = Retrial::new(settings).unwrap();
    entries.iter().cloned().for_each(|entry| retrial.entry(entry));
    retrial.finish().unwrap()
}

/// Rules by which latency and jitter hardly count.
fn blind() -> Rules {
    let thresholds =
        Thresholds { latency_quarantine_ms: 4_000.0, jitter_restricted_ms: 800.0, ..Thresholds::of(Profile::Mesh) };
    Rules { thresholds: Some(thresholds), ..Rules::default() }
}

/// The 99th percentile of what interactive work would have met.
fn interactive_p99_ms(report: &Report, chooser: Chooser) -> f64 {
    let row = |class: &&ClassRow| class.workload.as_str() == "interactive" && class.row.chooser == chooser;
    report.classes.iter().find(row).unwrap().row.observed_p99_ms.unwrap()
}

#[test]
fn under_the_recorded_rules_each_request_is_tried_once_and_nothing_changes() {
    let entries = life(1);
    let decided = first_decisions(&entries).len() as u64;
    let same = Rules { profile: Some(Profile::Mesh), ..Rules::default() };
    let (report, _) = tried(&entries, Settings { rules: same, ..settings() });
    assert!(decided > 100, "{decided}");
    assert_eq!((report.requests, report.not_tried), (decided, 0));
    assert_eq!((report.changes.len(), report.estimates, report.first_change), (0, 0, None));
    let choosers: Vec<_> = report.choosers.iter().map(|row| (row.chooser, row.requests)).collect();
    let all = [Chooser::Recorded, Chooser::Seam, Chooser::Changed].map(|chooser| (chooser, decided));
    assert_eq!(choosers, all);
    assert_eq!(report.choosers[1].differs + report.choosers[2].differs, 0);
    // Ties and quotes decide between equals then; health and load decide before.
    assert!(report.as_first_chosen * 2 > decided, "{} of {decided}", report.as_first_chosen);
    let classes: u64 = report.classes.iter().map(|class| class.row.requests).sum();
    assert_eq!(classes, 3 * decided);
}

#[test]
fn a_changed_threshold_changes_what_the_gray_path_carries_and_each_change_has_a_rule() {
    let entries = life(2);
    let (report, _) = tried(&entries, Settings { rules: blind(), ..settings() });
    assert!(!report.changes.is_empty());
    let changed = report.choosers.iter().find(|row| row.chooser == Chooser::Changed).unwrap();
    assert_eq!(changed.differs, report.changes.len() as u64);
    for (number, change) in report.changes.iter().enumerate() {
        assert_ne!(change.from, change.to);
        assert_eq!(change.estimate, number > 0, "only the first rests on the history as it was");
        let ends = [&change.from, &change.to].map(Option::is_some);
        let said = [change.why.contains("changed rules: "), change.why.contains("recorded rules: ")];
        assert_eq!(said, ends, "{}", change.why);
        assert_eq!([change.now, change.then].map(|rule| rule.is_some()), ends);
        for rule in [change.now, change.then].into_iter().flatten() {
            assert!(change.why.contains(rule.code.as_str()), "{}", change.why);
        }
    }
    assert_eq!(report.first_change, Some(report.changes[0].at));
    // Blind to latency and jitter, strict work lands on the gray path.
    let seam = report.choosers.iter().find(|row| row.chooser == Chooser::Seam).unwrap();
    assert_eq!(seam.strict_on_degraded, 0);
    assert!(changed.strict_on_degraded > 0, "{changed:?}");
    let p99_ms = |chooser| interactive_p99_ms(&report, chooser);
    assert!(p99_ms(Chooser::Changed) > 2.0 * p99_ms(Chooser::Seam), "{changed:?}\n{seam:?}");
}

#[test]
fn other_policies_choose_from_what_was_known_and_are_judged_by_what_was_observed() {
    let entries = life(3);
    let policies = vec![Rival::LowestLatency, Rival::RoundRobin, Rival::P2cEwma, Rival::RoundRobin, Rival::Seam];
    let rivals_see = Choosable::UpAndNotFull;
    let (report, _) = tried(&entries, Settings { policies, rivals_see, ..settings() });
    let rivals: Vec<_> = report.choosers.iter().skip(2).collect();
    let names: Vec<_> = rivals.iter().map(|row| row.chooser).collect();
    assert_eq!(names, [Rival::LowestLatency, Rival::RoundRobin, Rival::P2cEwma].map(Chooser::Rival));
    let seam = &report.choosers[1];
    let rotating = rivals[1];
    assert!(rotating.strict_on_degraded > 0 && seam.strict_on_degraded == 0, "{rotating:?}");
    let p99_ms = |chooser| interactive_p99_ms(&report, chooser);
    assert!(p99_ms(Chooser::Rival(Rival::RoundRobin)) > 2.0 * p99_ms(Chooser::Seam));
    for row in &report.choosers {
        assert_eq!(row.requests, report.requests);
        assert!(row.not_observed * 20 < row.requests, "probes follow within the wait: {row:?}");
    }
    let (again, _) = tried(
        &entries,
        Settings {
            policies: rivals
                .iter()
                .filter_map(|row| match row.chooser {
                    Chooser::Rival(policy) => Some(policy),
                    _ => None,
                })
                .collect(),
            rivals_see,
            ..settings()
        },
    );
    assert_eq!(again.choosers, report.choosers);
}

#[test]
fn a_request_is_explained_as_it_was_and_as_it_would_be() {
    let entries = life(2);
    let (report, _) = tried(&entries, Settings { rules: blind(), ..settings() });
    let change = &report.changes[0];
    let wanted: RequestId = change.request_id.clone();
    let (_, explained) = tried(&entries, Settings { rules: blind(), explain: Some(wanted.clone()), ..settings() });
    let [explained] = &explained[..] else { panic!("{explained:?}") };
    let recorded = first_decisions(&entries).into_iter().find(|record| record.request_id.as_ref() == Some(&wanted));
    assert_eq!(explained.recorded.first().map(|record| &**record), recorded);
    let chosen = |record: &DecisionRecord| {
        record.chosen.as_ref().and_then(|chosen| chosen.path.as_ref()).map(ToString::to_string)
    };
    assert_eq!(chosen(&explained.seam), change.from);
    assert_eq!(chosen(explained.changed.as_ref().unwrap()), change.to);
    assert_eq!(explained.at, change.at);
}

#[test]
fn a_request_that_the_changed_rules_refuse_is_a_change_with_the_refusal_as_its_reason() {
    let entries = life(2);
    let classes = seam::model::builtin_workloads().into_iter().filter(|class| class.name.as_str() != "batch");
    let rules = Rules { workloads: Some(classes.map(Arc::new).collect()), ..Rules::default() };
    let (report, _) = tried(&entries, Settings { rules: rules.clone(), ..settings() });
    let changed = report.choosers.iter().find(|row| row.chooser == Chooser::Changed).unwrap();
    let seam = report.choosers.iter().find(|row| row.chooser == Chooser::Seam).unwrap();
    assert_eq!(changed.differs, report.changes.len() as u64);
    assert_eq!(changed.refused - seam.refused, changed.differs);
    let row = |row: &&ClassRow| row.workload.as_str() == "batch" && row.row.chooser == Chooser::Changed;
    let batch = &report.classes.iter().find(row).unwrap().row;
    assert!(batch.requests > 0 && batch.refused == batch.requests);
    for change in &report.changes {
        assert_eq!((change.workload.as_str(), &change.to), ("batch", &None));
        let words = "changed rules: refused, workload: found \"batch\", known are ";
        assert!(change.why.starts_with(words), "{}", change.why);
        assert_eq!((change.now, change.then), (None, None));
    }
    let wanted = report.changes[0].request_id.clone();
    let (_, explained) = tried(&entries, Settings { rules, explain: Some(wanted), ..settings() });
    assert!(explained[0].changed.is_none());
    assert!(explained[0].refused.as_ref().unwrap().starts_with("workload: found \"batch\""), "{explained:?}");
}

#[test]
fn after_a_gap_nothing_is_tried_until_the_next_snapshot() {
    let entries = life(4);
    let middle = entries.len() / 2;
    let now = Now::default();
    let gap = |part| Entry::Gap(Gap { part, lost: 1, since: now, until: now });
    let mut broken = entries.clone();
    broken.insert(middle, gap(Part::Policy));
    let (whole, _) = tried(&entries, settings());
    let (cut, _) = tried(&broken, settings());
    assert!(cut.requests > 0 && cut.not_tried > 0);
    assert_eq!(cut.requests + cut.not_tried, whole.requests);
    // Without the health core's tape the recorded reports stand in for it.
    broken[middle] = gap(Part::Health);
    let (reported, _) = tried(&broken, settings());
    assert_eq!((reported.requests, reported.not_tried), (whole.requests, 0));
    assert_eq!(reported.choosers, whole.choosers);
}

#[test]
fn what_cannot_be_tried_is_refused_by_name() {
    let refused = |settings| Retrial::new(settings).map(|_| ()).unwrap_err();
    let error = refused(Settings { policies: vec![Rival::KvLoad], ..settings() });
    assert_eq!(error.to_string(), "policy kv_load: it needs prefix blocks, and a journal has none");
    let thresholds = Thresholds { drop_quarantine: 2.0, ..Thresholds::of(Profile::Mesh) };
    let error = refused(Settings { rules: Rules { thresholds: Some(thresholds), ..Rules::default() }, ..settings() });
    assert!(matches!(&error, RetrialError::Threshold(_)), "{error}");
}

#[test]
fn a_request_that_is_asked_again_is_counted_once_and_the_first_change_is_the_earliest_of_all_lives() {
    let (mut later, entries) = (life(2), life(2));
    let question = |entry: &Entry| match entry {
        Entry::Turn(turn) => matches!(turn.input, seam::journal::Input::Policy(seam::policy::Input::Route { .. })),
        _ => false,
    };
    let Some(Entry::Turn(first)) = entries.iter().find(|entry| question(entry)) else { panic!("a question") };
    let Some(Entry::Turn(last)) = entries.last() else { panic!("a turn") };
    // Ten seconds on, long after its decision.
    let mut again = first.clone();
    again.now = Now { mono: last.now.mono.plus_ms(10_000), wall_ms: last.now.wall_ms + 10_000 };
    again.said.clear();
    let (whole, _) = tried(&entries, settings());
    let (asked_again, _) = tried(&[entries.clone(), vec![Entry::Turn(again)]].concat(), settings());
    assert_eq!((asked_again.requests, asked_again.not_decided), (whole.requests, 1));
    assert_eq!(asked_again.choosers, whole.choosers);

    // The same life, an hour later: it is read first.
    for entry in &mut later {
        if let Entry::Turn(turn) = entry {
            turn.now.wall_ms += 3_600_000;
        }
    }
    let mut retrial = Retrial::new(Settings { rules: blind(), ..settings() }).unwrap();
    later.into_iter().for_each(|entry| retrial.entry(entry));
    retrial.next_life();
    entries.iter().cloned().for_each(|entry| retrial.entry(entry));
    let (both, _) = retrial.finish().unwrap();
    let (one, _) = tried(&entries, Settings { rules: blind(), ..settings() });
    assert_eq!(both.first_change, one.first_change);
    assert_eq!(both.changes.len(), 2 * one.changes.len());
}

fn import(dir: &tempfile::TempDir, trace: &str, traffic: Traffic) -> Settings {
    let path = dir.path().join("trace.jsonl");
    std::fs::write(&path, trace).unwrap();
    Settings { import: Some(Import { trace: path, traffic }), ..settings() }
}

/// Requests of 100 tokens, 50 ms apart.
fn trace(requests: u64) -> String {
    let line =
        |number: u64| format!("{{\"timestamp\": {}, \"input_length\": 100, \"output_length\": 1}}\n", number * 50);
    (0..requests).map(line).collect()
}

#[test]
fn the_requests_of_a_trace_meet_the_recorded_paths() {
    let (entries, dir) = (life(5), tempfile::tempdir().unwrap());
    let policies = vec![Rival::RoundRobin];
    let settings = Settings {
        policies: policies.clone(),
        rivals_see: Choosable::UpAndNotFull,
        ..import(&dir, &trace(200), Traffic::default())
    };
    let (report, _) = tried(&entries, settings);
    let imported = report.imported.clone().unwrap();
    assert_eq!((imported.lives, imported.cut_short, imported.refused), (1, 0, 0));
    assert_eq!((report.requests, report.not_tried, report.not_decided), (200, 0, 0));
    let choosers: Vec<_> = report.choosers.iter().map(|row| (row.chooser, row.requests)).collect();
    assert_eq!(choosers, [(Chooser::Seam, 200), (Chooser::Rival(Rival::RoundRobin), 200)], "nothing was recorded");
    // The gray path is one of three, and gray while half of the requests come.
    let (seam, rotating) = (&report.choosers[0], &report.choosers[1]);
    assert_eq!(seam.strict_on_degraded, 0, "{seam:?}");
    assert!(seam.refused < 20, "only until the paths have been probed often enough: {seam:?}");
    assert!(rotating.strict_on_degraded > 5, "{rotating:?}");
    assert!(seam.not_observed * 20 < seam.requests, "{seam:?}");

    // At another pace the same requests meet other weather: none comes while the path is gray.
    let fast = Traffic { speedup: 100.0, ..Traffic::default() };
    let settings = Settings { policies, rivals_see: Choosable::UpAndNotFull, ..import(&dir, &trace(200), fast) };
    assert_eq!(tried(&entries, settings).0.choosers[1].strict_on_degraded, 0);
}

#[test]
fn a_trace_that_outlasts_a_life_is_cut_and_each_life_is_asked_from_its_first_request_on() {
    let (entries, dir) = (life(6), tempfile::tempdir().unwrap());
    let settings = import(&dir, &trace(10_000), Traffic { mix: "batch=1".parse().unwrap(), ..Traffic::default() });
    let (one, _) = tried(&entries, settings.clone());
    // Twenty seconds, less what it takes until a path is known, at 20 a second.
    assert!((300..=401).contains(&one.requests), "{}", one.requests);
    assert_eq!(one.imported.clone().map(|imported| (imported.lives, imported.cut_short)), Some((1, 1)));
    assert_eq!(one.classes.iter().map(|class| class.workload.as_str()).collect::<Vec<_>>(), ["batch"]);

    let mut retrial = Retrial::new(settings).unwrap();
    entries.iter().cloned().for_each(|entry| retrial.entry(entry));
    retrial.next_life();
    entries.iter().cloned().for_each(|entry| retrial.entry(entry));
    let (both, _) = retrial.finish().unwrap();
    assert_eq!(both.requests, 2 * one.requests);
    assert_eq!(both.imported.map(|imported| (imported.lives, imported.cut_short)), Some((2, 2)));
}

#[test]
fn what_cannot_be_asked_is_counted_and_a_broken_trace_is_an_error() {
    let (entries, dir) = (life(7), tempfile::tempdir().unwrap());
    let large = Traffic { kv_scale: 1_000.0, ..Traffic::default() };
    let (report, _) = tried(&entries, import(&dir, &trace(10), large));
    let imported = report.imported.unwrap();
    assert_eq!((report.requests, imported.refused), (0, 10));
    let first = imported.first_refusal.unwrap();
    assert_eq!(first, "kv_bytes: found 13107200000, allowed 1 to 4294967296 bytes");

    let unknown = Traffic { mix: "nobody=1".parse().unwrap(), ..Traffic::default() };
    let (report, _) = tried(&entries, import(&dir, &trace(10), unknown));
    assert!(report.imported.unwrap().first_refusal.unwrap().starts_with("workload: found \"nobody\""));

    for broken in ["", "{\"timestamp\": 0, \"input_length\": 0, \"output_length\": 1}\n"] {
        let mut retrial = Retrial::new(import(&dir, &(trace(3) + broken), Traffic::default())).unwrap();
        entries.iter().cloned().for_each(|entry| retrial.entry(entry));
        let found = retrial.finish().err().map(|error| error.to_string());
        assert_eq!(found.is_some(), !broken.is_empty());
        assert!(found.is_none_or(|found| found.contains("trace.jsonl, line 4, input_length: found 0")));
    }
    // Before anything is read of the journals, and as soon as it is met.
    for broken in ["", "{\"timestamp\": 0, \"input_length\": 0, \"output_length\": 1}\n"] {
        let refused = Retrial::new(import(&dir, broken, Traffic::default())).map(|_| ()).unwrap_err();
        assert!(
            matches!(&refused, RetrialError::Trace(error) if error.to_string().contains("trace.jsonl")),
            "{refused}"
        );
    }
    let broken = trace(3) + "{\"timestamp\": 0, \"input_length\": 0, \"output_length\": 1}\n";
    let mut retrial = Retrial::new(import(&dir, &broken, Traffic::default())).unwrap();
    let read = entries.iter().cloned().take_while(|entry| {
        retrial.entry(entry.clone());
        !retrial.is_broken()
    });
    assert!(read.count() < entries.len() / 2);

    // A node that sends nothing is asked nothing.
    let decode: Vec<Entry> = entries.into_iter().filter(|entry| !is_of(entry, Part::Policy)).collect();
    let (report, _) = tried(&decode, import(&dir, &trace(3), Traffic::default()));
    assert_eq!(report.imported.map(|imported| imported.lives), Some(0));
}

fn is_of(entry: &Entry, part: Part) -> bool {
    match entry {
        Entry::Snapshot(snapshot) => snapshot.part() == part,
        Entry::Turn(turn) => turn.input.part() == part,
        Entry::Gap(gap) => gap.part == part,
        Entry::Panicked(..) | Entry::Closed(_) => false,
    }
}
