//! What rivals are shown and told.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use super::*;

/// What a rival heard, in words.
type Heard = Arc<Mutex<Vec<String>>>;

/// Takes the first pool that it sees.
struct First(Heard);

impl Rival for First {
    fn choose(&mut self, ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        let names: Vec<&str> = pools.iter().map(|sight| sight.name).collect();
        self.0.lock().unwrap().push(format!("{} asked {}", ask.at_ms, names.join(" ")));
        Some(0)
    }

    fn finished(&mut self, outcome: &Finished<'_>) {
        let Finished { at_ms, name, elapsed_ms, ideal_ms, ok } = outcome;
        self.0.lock().unwrap().push(format!("{at_ms} {name} took {elapsed_ms} of {ideal_ms} {ok}"));
    }
}

/// What a rival hears of rows of (seconds, request, pool, latency, drop rate, occupancy of 8).
fn heard(rivals_see: Choosable, rows: &[(&str, &str, &str, &str, &str, &str)]) -> Vec<String> {
    let mut trace = columns::NAMES.join(",") + "\n";
    for (seconds, request, pool, latency_ms, drop_rate, occupancy) in rows {
        trace.push_str(&format!(
            "{seconds},{request},batch,{pool},{latency_ms},0,{drop_rate},{occupancy},8,0.75,0.2,200,0.9,false,false,0\n"
        ));
    }
    let heard = Heard::default();
    let mut replay = Replay::new(Settings { rivals_see, ..Settings::of(Profile::Reference) }).unwrap();
    replay.policies.push(Policy::LowestLatency);
    replay.players.push(Player::new(Some(Box::new(First(Arc::clone(&heard)))), replay.settings.seed));
    replay.feed("t", Cursor::new(trace), &mut ()).unwrap();
    let heard = heard.lock().unwrap();
    heard.clone()
}

#[test]
fn a_rival_learns_of_a_choice_once_it_has_ended_and_never_hears_of_time_going_back() {
    let rows = [
        ("100", "r1", "a", "30", "0.004", "0"),
        ("100.010", "r2", "a", "10", "0.005", "0"),
        ("100.025", "r3", "b", "2", "0", "0"),
        // Before the request above it: it is asked for at that one's time.
        ("99", "r4", "b", "1", "0", "0"),
        ("100.1", "r5", "b", "4", "0", "0"),
    ];
    let expected = [
        "0 asked a",
        "10 asked a",
        "20 a took 10 of 10 true",
        "25 asked b",
        "25 asked b",
        "26 b took 1 of 1 true",
        "27 b took 2 of 2 true",
        "30 a took 30 of 30 true",
        "100 asked b",
    ];
    // The dates are seconds, whose milliseconds are not exact.
    let rounded = |line: &String| {
        let (ms, rest) = line.split_once(' ').unwrap();
        format!("{:.0} {rest}", ms.parse::<f64>().unwrap())
    };
    let found = heard(Choosable::AdmissibleOnly, &rows);
    assert_eq!(found.iter().map(rounded).collect::<Vec<_>>(), expected);
}

#[test]
fn the_ideal_is_the_smallest_latency_so_far_and_nobody_is_sent_to_a_pool_that_loses_too_much() {
    let rows = [
        ("0", "r1", "a", "3", "0", "0"),
        ("1", "r2", "a", "0", "0", "0"),
        ("2", "r3", "a", "5", "0.049", "0"),
        ("3", "r4", "a", "5", "0.05", "0"),
        ("4", "r5", "a", "5", "0", "0"),
    ];
    let told: Vec<String> =
        heard(Choosable::UpAndNotFull, &rows).into_iter().filter(|line| line.contains("took")).collect();
    // What loses 5 % is quarantined, so that nobody is sent there: of r4 nothing is told.
    assert_eq!(told, ["3 a took 3 of 3 true", "1000 a took 0 of 0.001 true", "2005 a took 5 of 0.001 true"]);
}

#[test]
fn of_a_pool_that_loses_some_as_many_choices_fail_as_it_loses() {
    let ids: Vec<String> = (0..2_000).map(|request| request.to_string()).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_str(), "a", "5", "0.04", "0")).collect();
    let told = heard(Choosable::UpAndNotFull, &rows);
    let failed = told.iter().filter(|line| line.ends_with(" false")).count();
    // The mean is 80, the standard deviation below 9.
    assert!((45..115).contains(&failed), "{failed}");
}

#[test]
fn what_is_seen_is_what_is_admissible_or_what_is_up_and_not_full() {
    let rows = [
        ("0", "r1", "quarantined", "50", "0", "0"),
        ("0", "r1", "full", "1", "0", "8"),
        ("0", "r1", "restricted", "20", "0", "0"),
        ("0", "r1", "sound", "1", "0", "0"),
    ];
    assert_eq!(heard(Choosable::UpAndNotFull, &rows), ["0 asked restricted sound"]);
    assert_eq!(heard(Choosable::AdmissibleOnly, &rows), ["0 asked restricted sound"]);
    // Above the SLA of 200 ms, and quarantined all the same: nobody is asked.
    assert!(heard(Choosable::UpAndNotFull, &[("0", "r1", "a", "300", "0", "0")]).is_empty());
}
