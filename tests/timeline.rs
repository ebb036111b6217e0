//! An incident as a picture: whole, legible, bounded, and the same every time.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "timeline/incident.rs"]
mod incident;
#[path = "timeline/xml.rs"]
mod xml;

use std::path::Path;
use std::process::{Command, Output};

use incident::{Incident, write};
use seam::core::{Mono, Now};
use seam::health;
use seam::journal::{Entry, Gap, Header, Input, Part, Said, Turn};
use seam::mesh::{Member, MemberState};
use seam::model::PathState;
use seam::policy;
use seam::policy::overrides::{Override, OverrideTarget};
use seam::sim::START_MS;
use seam::timeline::{Lack, Options, Picture, Timeline, TimelineError, parse_time};
use xml::Element;

type Journal = (Header, Vec<Entry>);

fn draw(journals: &[Journal], options: Options) -> Result<Picture, TimelineError> {
    let mut timeline = Timeline::new(options).unwrap();
    for (header, entries) in journals {
        timeline.life(header);
        entries.iter().for_each(|entry| timeline.entry(entry));
    }
    timeline.draw()
}

fn picture(journals: &[Journal]) -> Picture {
    draw(journals, Options::default()).unwrap()
}

fn small(nodes: &[&str]) -> Vec<Journal> {
    nodes.iter().map(|node| Incident::small().journal(node)).collect()
}

/// Keeps a picture where somebody wants to look at it.
fn keep(name: &str, text: &str) {
    if let Ok(folder) = std::env::var("SEAM_TIMELINE_KEEP") {
        std::fs::write(Path::new(&folder).join(name), text).unwrap();
    }
}

fn lanes<'a>(svg: &'a Element, class: &str) -> Vec<&'a Element> {
    svg.all().into_iter().filter(|element| element.name == "g" && element.class() == class).collect()
}

/// The spans of a lane: left, right, and what their titles say.
fn spans(lane: &Element) -> Vec<(f64, f64, String)> {
    let drawn = lane.inside.iter().filter(|element| element.name == "rect" && !element.title().is_empty());
    let span = |rect: &Element| {
        let left = rect.number("x");
        (left, left + rect.number("width"), rect.title().to_owned())
    };
    drawn.map(span).collect()
}

#[test]
fn every_lane_has_a_state_at_any_time_and_never_two() {
    let picture = picture(&small(&["p0", "p1"]));
    let svg = xml::read(&picture.svg);
    let lanes = lanes(&svg, "path");
    assert_eq!(lanes.len() as u64, picture.lanes);
    let mut edges = Vec::new();
    for lane in lanes {
        let spans = spans(lane);
        edges.push((spans[0].0, spans[spans.len() - 1].1));
        for pair in spans.windows(2) {
            assert!((pair[0].1 - pair[1].0).abs() < 1e-6, "{pair:?}");
            assert!(pair[0].0 < pair[0].1, "{pair:?}");
        }
    }
    edges.dedup();
    assert_eq!(edges.len(), 1, "all lanes are as long as the axis: {edges:?}");
}

#[test]
fn the_states_are_those_of_the_health_core_and_the_first_trouble_comes_first() {
    let journals = small(&["p0"]);
    let picture = picture(&journals);
    let svg = xml::read(&picture.svg);
    let names: Vec<&str> = lanes(&svg, "path").iter().map(|lane| lane.title().split(':').next().unwrap()).collect();
    assert_eq!(names, ["p0&gt;d0/r0/mock", "p0&gt;d1/r0/mock", "p0&gt;d2/r0/mock"]);
    let words: Vec<String> = lanes(&svg, "path").iter().flat_map(|lane| spans(lane)).map(|span| span.2).collect();
    for state in ["degraded_usable", "degraded_restricted", "quarantined", "restored", "not known"] {
        assert!(words.iter().any(|words| words.contains(state)), "{state}: {words:#?}");
    }
    assert!(picture.failed > 0 && picture.transfers > picture.failed, "{picture:?}");
    let said = journals[0].1.iter().filter_map(|entry| match entry {
        Entry::Turn(turn) => Some(&turn.said),
        _ => None,
    });
    let decided = said.flatten().filter(|said| matches!(said, Said::Decided(_))).count();
    assert_eq!(picture.decisions, decided as u64);
    assert_eq!(lanes(&svg, "member").len(), 1, "only the host that died moved");
}

/// The first decision of a named request from this time on.
fn first_request(journal: &Journal, from_ms: u64) -> (u64, String) {
    let of_turn = |turn: &Turn| {
        let at = START_MS + turn.now.mono.0 / 1_000_000;
        turn.said.iter().find_map(|said| match said {
            Said::Decided(record) if at >= from_ms => {
                record.request_id.as_ref().map(|request| (at, request.to_string()))
            }
            _ => None,
        })
    };
    let turns = journal.1.iter().filter_map(|entry| match entry {
        Entry::Turn(turn) => of_turn(turn),
        _ => None,
    });
    turns.min().unwrap()
}

#[test]
fn the_request_to_look_at_is_of_a_node_that_was_in_trouble() {
    // Only p0 has a path that jitters; p1 decides too.
    let mut journals = small(&["p0", "p1"]);
    let until = |journals: &[Journal], to_ms| {
        draw(journals, Options { to_ms: Some(START_MS + to_ms), ..Options::default() }).unwrap()
    };
    let trouble = parse_time(&until(&journals, 10_000).first_trouble.unwrap()).unwrap();
    let [mine, other] = [0, 1].map(|node| first_request(&journals[node], trouble));
    // The clock of p1 is so that it decides at the very moment.
    journals[1].0.opened.wall_ms -= other.0 - trouble;
    assert!(trouble < mine.0);
    let early = until(&journals, 10_000);
    assert_eq!(parse_time(&early.first_trouble.unwrap()), Ok(trouble));
    let example = early.example.unwrap();
    assert_eq!((parse_time(&example.at).unwrap(), example.request), mine);
    assert_eq!(until(&journals, 1_000).example, None);
}

#[test]
fn two_hundred_paths_are_legible_and_the_picture_is_small() {
    let picture = picture(&[incident::two_hundred_paths(5)]);
    keep("large.svg", &picture.svg);
    assert_eq!((picture.lanes, picture.folded), (5, 195));
    assert_eq!(picture.decisions, 6_000);
    let svg = xml::read(&picture.svg);
    let [folded] = &lanes(&svg, "folded")[..] else { panic!("one folded lane") };
    assert_eq!(folded.title(), "195 paths healthy throughout: 5850 decisions");
    assert!(picture.svg.len() < 1_000_000, "{} bytes", picture.svg.len());
    assert!(svg.number("height") < 800.0, "{}", svg.number("height"));
}

#[test]
fn two_hundred_paths_that_never_rest_are_no_large_picture_either() {
    let picture = picture(&[incident::two_hundred_paths(200)]);
    keep("worst.svg", &picture.svg);
    assert_eq!((picture.lanes, picture.folded), (200, 0));
    let svg = xml::read(&picture.svg);
    assert!(picture.svg.len() < 2_000_000, "{} bytes", picture.svg.len());
    // What found no room is counted, and nothing false stands in its place.
    assert!(picture.left_out > 0 && picture.svg.contains("Not complete: "), "{}", picture.left_out);
    let unknown = |lane: &&&Element| lane.inside.iter().any(|span| span.class() == "unknown");
    assert_eq!(lanes(&svg, "path").iter().filter(unknown).count(), 200);
}

#[test]
fn the_same_journals_give_the_same_bytes_and_lives_may_be_mixed() {
    let journals = small(&["p0", "d0"]);
    let once = picture(&journals);
    assert_eq!(once, picture(&journals));
    let mut mixed = Timeline::new(Options::default()).unwrap();
    journals.iter().for_each(|(header, _)| mixed.life(header));
    let longest = journals.iter().map(|(_, entries)| entries.len()).max().unwrap();
    for index in 0..longest {
        for (header, entries) in &journals {
            if let Some(entry) = entries.get(index) {
                mixed.life(header);
                mixed.entry(entry);
            }
        }
    }
    assert_eq!(once, mixed.draw().unwrap());
}

#[test]
fn a_part_of_the_time_and_of_the_paths_can_be_drawn() {
    let journals = small(&["p0"]);
    let part = |from, to, paths: Option<&str>| {
        let (from_ms, to_ms) = (Some(START_MS + from), Some(START_MS + to));
        draw(&journals, Options { from_ms, to_ms, paths: paths.map(str::to_owned), ..Options::default() })
    };
    let whole = picture(&journals);
    let (early, late) = (part(0, 14_999, None).unwrap(), part(15_000, 60_000, None).unwrap());
    assert_eq!(early.decisions + late.decisions, whole.decisions);
    assert_eq!((late.from_ms, late.to_ms), (START_MS + 15_000, START_MS + 60_000));
    // What was before still holds.
    let svg = xml::read(&late.svg);
    assert!(spans(lanes(&svg, "path")[0])[0].2.contains("degraded"), "{:?}", spans(lanes(&svg, "path")[0]));
    let one = part(0, 30_000, Some(">d1/")).unwrap();
    assert_eq!((one.lanes, one.folded), (1, 0));
    let error = part(0, 30_000, Some("d9")).unwrap_err().to_string();
    assert!(error.starts_with("paths: found \"d9\", which no path has in its name"), "{error}");
    let error = part(90_000, 95_000, None).unwrap_err().to_string();
    assert!(error.starts_with("journal entries from 2027-01-15T08:01:30.000Z to "), "{error}");
    assert!(
        error.contains("found none, allowed at least one; there are some from 2027-01-15T08:00:00.000Z"),
        "{error}"
    );
}

#[test]
fn what_a_journal_lacks_is_not_known_and_said() {
    let (header, mut entries) = small(&["p0"]).remove(0);
    let middle = entries.len() / 2;
    let Entry::Turn(at) = &entries[middle] else { panic!() };
    let now = at.now;
    let gap = Gap { part: Part::Health, lost: 17, since: now, until: now };
    entries.splice(middle..middle, [Entry::Gap(gap)]);
    entries.truncate(middle + 200);
    entries.push(Entry::Panicked(Input::Policy(policy::Input::Tick), now));
    let picture = picture(&[(header, entries)]);
    for words in ["17 turns of health are not in the journal", "the policy core panicked"] {
        assert!(picture.svg.contains(words), "{words}");
    }
    let svg = xml::read(&picture.svg);
    for lane in lanes(&svg, "path") {
        let unknown = spans(lane).into_iter().filter(|span| span.2.starts_with("not known, "));
        assert!(unknown.count() >= 2, "before the first word, and from the gap on: {:#?}", spans(lane));
    }
}

#[test]
fn words_of_operators_freezes_restarts_and_cuts_are_drawn_and_what_they_say_is_no_markup() {
    let (header, _) = small(&["d0"]).remove(0);
    let turn = |at_ms: u64, input, said| {
        let now = Now { mono: Mono(at_ms * 1_000_000), wall_ms: START_MS + at_ms };
        Entry::Turn(Turn { now, input, said, digest: 0 })
    };
    let tick = || Input::Health(health::Input::Tick);
    let target: OverrideTarget = "d1".parse().unwrap();
    let reason = "<script>alert(\"1\")</script>\u{0} & more".to_owned();
    let said = Override { target: target.clone(), state: PathState::Quarantined, reason };
    let over = Input::Policy(policy::Input::Override { key: 1, said, ttl_ms: 60_000 });
    let member = |generation| Said::Member {
        member: Member { name: "d1".parse().unwrap(), addr: "192.0.2.1:1".parse().unwrap(), generation, renewals: 0 },
        state: MemberState::Alive,
    };
    let first = [
        turn(0, tick(), vec![member(1)]),
        turn(1_000, over, Vec::new()),
        turn(2_000, tick(), vec![Said::Frozen(true)]),
        turn(3_000, tick(), vec![Said::Frozen(false), member(2)]),
        turn(4_000, tick(), vec![Said::OverrideEnded(target)]),
    ];
    let opened = Now { mono: Mono(0), wall_ms: START_MS + 9_000 };
    let second = Header { generation: 2, opened, ..header.clone() };
    let mut timeline = Timeline::new(Options::default()).unwrap();
    timeline.life(&header);
    first.iter().for_each(|entry| timeline.entry(entry));
    timeline.interrupted(Lack::Damaged);
    timeline.interrupted(Lack::Missing(2));
    timeline.entry(&turn(6_000, tick(), Vec::new()));
    timeline.life(&second);
    timeline.entry(&turn(0, tick(), Vec::new()));
    timeline.entry(&Entry::Closed(Now { mono: Mono(1_000_000_000), ..opened }));
    let picture = timeline.draw().unwrap();
    xml::read(&picture.svg);
    for words in [
        "d1 is quarantined by override at d0 from 08:00:01.000 for 3 s: &lt;script&gt;alert(&quot;1&quot;)",
        "d0 frozen from 08:00:02.000 for 1 s",
        "d1 came in a new life, says d0",
        "d0: the journal is damaged, and 2 segments are missing, 08:00:04.000 to 08:00:06.000",
        ">a process was frozen<",
        ">missing in the journal<",
        "08:00:06.000 d0: the journal ends here without a word",
        "08:00:09.000 d0 started, life 2",
        "08:00:10.000 d0 closed in order",
    ] {
        assert!(picture.svg.contains(words), "{words}\n{}", picture.svg);
    }
    assert_eq!((picture.from_ms, picture.to_ms), (START_MS, START_MS + 10_000));
}

#[test]
fn a_start_is_told_where_the_journal_has_it_and_a_damaged_end_is_called_so() {
    let (header, entries) = small(&["p0"]).remove(0);
    let whole = picture(&[(header.clone(), entries.clone())]).svg;
    assert!(whole.contains("08:00:00.000 p0 started, life "), "{whole}");
    for words in ["recorded from here on", "a process was frozen", "missing in the journal"] {
        assert!(!whole.contains(words), "{words}: what is not drawn needs no explanation");
    }
    let mut timeline = Timeline::new(Options::default()).unwrap();
    timeline.life(&Header { segment: 3, ..header.clone() });
    entries[..200].iter().for_each(|entry| timeline.entry(entry));
    timeline.interrupted(Lack::Damaged);
    timeline.life(&small(&["d0"])[0].0);
    small(&["d0"])[0].1.iter().for_each(|entry| timeline.entry(entry));
    let late = timeline.draw().unwrap().svg;
    keep("late.svg", &late);
    xml::read(&late);
    assert!(!late.contains("p0 started") && late.contains("d0 started, life "), "{late}");
    let generation = header.generation;
    for words in [
        &format!("08:00:00.000 p0 is recorded from here on, life {generation}"),
        "the segments before this are not there; the journal is damaged",
        "p0: the journal is damaged, and nothing after this can be read, 08:00:0",
        ">journal damaged<",
        ">recorded from here on<",
        ">missing in the journal<",
    ] {
        assert!(late.contains(words), "{words}\n{late}");
    }
    assert!(!late.contains("p0: the journal ends here without a word"), "{late}");
    // A newest segment without a single entry, and those before it gone.
    let mut timeline = Timeline::new(Options::default()).unwrap();
    timeline.life(&header);
    entries[..200].iter().for_each(|entry| timeline.entry(entry));
    timeline.interrupted(Lack::Missing(1));
    let short = timeline.draw().unwrap().svg;
    for words in ["p0: 1 segment is missing, and nothing after this can be read", ">segments missing<"] {
        assert!(short.contains(words), "{words}\n{short}");
    }
}

#[test]
fn a_small_picture_looks_as_it_did() {
    let incident = Incident { prefill: 1, decode: 3, per_s: 1.0, until_ms: 20_000 };
    let picture = picture(&[incident.journal("p0")]);
    insta::assert_snapshot!("timeline_small", picture.svg);
}

fn seamctl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seamctl")).arg("timeline").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The command that a closing line names, run as it is printed.
fn run_next(line: &str) -> Option<i32> {
    let args = line.strip_prefix("Next: seamctl ").unwrap().split(' ');
    Command::new(env!("CARGO_BIN_EXE_seamctl")).args(args).output().unwrap().status.code()
}

#[test]
fn without_a_request_beside_the_trouble_the_next_command_works_too() {
    for node in ["p0", "d0"] {
        let dir = tempfile::tempdir().unwrap();
        let journals = dir.path().join("journals");
        write(&journals, &Incident { per_s: 1e-9, ..Incident::small() }, &[node]);
        let out = dir.path().join("x.svg");
        let output = seamctl(&[journals.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains(": 0 decisions"), "{said}");
        assert_eq!(run_next(said.lines().last().unwrap()), Some(0), "{said}");
    }
}

#[test]
fn the_next_command_names_every_journal_as_a_shell_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let journals = dir.path().join("last night");
    write(&journals, &Incident::small(), &["p0", "p1", "d0", "d1"]);
    let mut files: Vec<_> = std::fs::read_dir(&journals).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let svg = dir.path().join("x.svg");
    for (given, named) in
        [(&files[2..], format!("'{}' '{}'", files[2], files[3])), (&files[..], format!("'{}'", journals.display()))]
    {
        let output = seamctl(&[given, &["--out", svg.to_str().unwrap()]].concat());
        let said = text(&output.stdout);
        let next = said.lines().last().unwrap().strip_prefix("Next: seamctl ").unwrap();
        assert!(next.starts_with(&format!("replay {named} --at ")), "{next}");
        let pasted = format!("\"$0\" {next}");
        let status = Command::new("sh").args(["-c", &pasted, env!("CARGO_BIN_EXE_seamctl")]).output().unwrap().status;
        assert_eq!(status.code(), Some(0), "{next}");
    }
}

#[test]
fn what_lacks_of_journals_is_named_on_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let (header, entries) = small(&["p0"]).remove(0);
    let name = |number: u64| format!("{}-{}-{number:06}.journal", header.node, header.generation);
    let parts: Vec<&[Entry]> = entries.chunks(entries.len() / 4 + 1).collect();
    for (number, part) in [(2, parts[0]), (3, parts[1]), (5, parts[2]), (6, parts[3])] {
        let bytes = incident::segment(&Header { segment: number, ..header.clone() }, part);
        let bytes = if number == 6 { bytes[..bytes.len() - 3].to_vec() } else { bytes };
        std::fs::write(dir.path().join(name(number)), bytes).unwrap();
    }
    // Of a life of another node no head can be read: it is no part of the one that was read before it.
    std::fs::write(dir.path().join("p1-7-000000.journal"), b"SEAMJRNL\x01\0damaged from its very beginning on")
        .unwrap();
    let out = dir.path().join("x.svg");
    let output = seamctl(&[dir.path().to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr).replace(&format!("{}/", dir.path().display()), "");
    let lines: Vec<&str> = said.lines().collect();
    let [late, missing, torn, damaged] = &lines[..] else { panic!("{said}") };
    assert_eq!(*late, format!("seamctl: {}: begins at segment 2: those before it are not there", name(2)));
    assert_eq!(*missing, format!("seamctl: {}: before this one segment 4 is missing", name(5)));
    assert!(torn.starts_with(&format!("seamctl: {}: torn at byte ", name(6))), "{said}");
    assert!(damaged.starts_with("seamctl: p1-7-000000.journal: its head cannot be read: damaged at byte 10"), "{said}");
    let svg = std::fs::read_to_string(&out).unwrap();
    assert!(svg.contains("p0: 1 segment is missing, 08:00:") && svg.contains("p0 is recorded from here on"), "{svg}");
    assert!(!svg.contains("the journal is damaged"), "{svg}");
}

#[test]
fn the_command_draws_folders_and_files_as_svg_and_as_a_page_that_needs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let journals = dir.path().join("journals");
    write(&journals, &Incident::small(), &["p0", "p1", "d0"]);
    let expected = picture(&small(&["d0", "p0", "p1"]));
    for name in ["incident.svg", "incident.html"] {
        let out = dir.path().join(name);
        let output = seamctl(&[journals.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let (drawn, said) = (std::fs::read_to_string(&out).unwrap(), text(&output.stdout));
        keep(name, &drawn);
        assert!(drawn.contains(expected.svg.trim_end()));
        let links = drawn.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http") && !links.contains("src=") && !links.contains("href"));
        assert!(said.contains(&format!("{} decisions", expected.decisions)), "{said}");
        let next = said.lines().last().unwrap();
        assert!(next.starts_with("Next: seamctl replay ") && next.contains(" --at 2027-01-15T08:00:"), "{next}");
        assert_eq!(run_next(next), Some(0), "{next}");
    }
    let entries: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(entries.len(), 3, "nothing unfinished is left behind: {entries:?}");
}

#[test]
fn what_cannot_be_drawn_or_written_is_refused_by_name_with_status_two() {
    let dir = tempfile::tempdir().unwrap();
    let journals = dir.path().join("journals");
    write(&journals, &Incident { prefill: 1, decode: 3, per_s: 1.0, until_ms: 2_000 }, &["p0"]);
    let (journals, here) = (journals.to_str().unwrap(), dir.path().to_str().unwrap());
    let svg = format!("{here}/x.svg");
    let foreign = format!("{here}/trace.journal");
    std::fs::write(&foreign, "timestamp,request").unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let empty = format!("{here}/empty");
    let taken = format!("{here}/taken.svg");
    std::fs::create_dir(&taken).unwrap();
    // Told by its content, whatever its name.
    let linked = format!("{here}/linked.svg");
    let segment = std::fs::read_dir(journals).unwrap().next().unwrap().unwrap().path();
    let segment =
        if segment.is_dir() { std::fs::read_dir(segment).unwrap().next().unwrap().unwrap().path() } else { segment };
    std::fs::hard_link(segment, &linked).unwrap();
    let unwritable = format!("{here}/no/such/x.svg");
    let cases: [(&[&str], i32, &str); 10] = [
        (&[journals, "--out", "x.png"], 2, "allowed a name that ends in .svg or .html"),
        (&[journals, "--out", &svg, "--from", "noon"], 2, "found \"noon\", allowed a date like"),
        (&[journals, "--out", &svg, "--width", "10"], 2, "allowed a whole number, 640 to 8000"),
        (&[journals, "--out", &svg, "--from", "2030-01-01T00:00:00Z"], 2, "found none, allowed at least one"),
        (&[journals, "--out", &svg, "--from", "2000", "--to", "1000"], 2, "from and to: found 1970-"),
        (&[&foreign, "--out", &svg], 2, "no journal: it begins with \"timestam\""),
        (&[&empty, "--out", &svg], 2, "no journal in this folder"),
        (&[journals, "--out", &unwritable], 2, "no/such: cannot be written: No such file or directory"),
        (&[journals, "--out", &taken], 2, "taken.svg: cannot be written: is a directory"),
        (&[&linked, "--out", &linked], 2, "is the same file as the input"),
    ];
    for (args, status, words) in cases {
        let output = seamctl(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!Path::new(&svg).exists());
    }
}
