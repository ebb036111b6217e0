use super::*;

fn rates() -> Rates {
    Rates {
        interval: Duration::from_secs(1),
        payload_bytes: 4096,
        budget_per_s: 200,
        min_samples: 3,
        bulk_bytes: 8 << 20,
        bulk_interval: Duration::from_secs(10),
        bulk_budget_bytes: 4 << 20,
        seed: 7,
    }
}

fn paths(count: usize) -> Vec<PathSpec> {
    let spec = |number| PathSpec {
        id: format!("p0>d{number}/r0/quic").parse().unwrap(),
        address: "127.0.0.1:1".into(),
        bandwidth_gbps: 10.0,
    };
    (0..count).map(spec).collect()
}

/// When each probe was sent, by path, every one answered at once.
#[derive(Default)]
struct Sent {
    small: BTreeMap<PathId, Vec<Duration>>,
    bulk: BTreeMap<PathId, Vec<u32>>,
    skipped: u32,
}

fn run(plan: &mut Plan, begin: Instant, seconds: u64, in_use: &BTreeSet<PathId>) -> Sent {
    let mut sent = Sent::default();
    let mut now = begin;
    while now < begin + Duration::from_secs(seconds) {
        plan.review(now, || in_use.clone());
        let (due, skipped) = plan.due(now, Vec::new());
        sent.skipped += u32::from(skipped.is_some());
        for probe in due {
            match probe.bulk {
                true => sent.bulk.entry(probe.spec.id).or_default().push(probe.payload_bytes),
                false => {
                    probe.mark.answered(true);
                    sent.small.entry(probe.spec.id).or_default().push(now - begin);
                }
            }
            probe.mark.free(probe.bulk);
        }
        now += plan.rest(now);
    }
    sent
}

#[test]
fn with_a_thousand_paths_the_rate_stays_in_the_budget_those_in_use_are_in_and_the_others_take_turns() {
    let begin = Instant::now();
    let mut plan = Plan::new(rates(), begin);
    let list = paths(1000);
    plan.follow(&list, begin);
    // Those that the hash would pick last.
    let mut last: Vec<&PathSpec> = list.iter().collect();
    last.sort_by_key(|spec| std::cmp::Reverse(rank(7, &spec.id)));
    let in_use: BTreeSet<PathId> = last[..20].iter().map(|spec| spec.id.clone()).collect();
    let sent = run(&mut plan, begin, 120, &in_use);

    let probes: usize = sent.small.values().map(Vec::len).sum();
    assert!(probes <= 200 * 121, "{probes} in 120 s");
    assert!(probes >= 150 * 120, "{probes} in 120 s: the budget is there to be used");
    let often = |path: &PathId| sent.small.get(path).map_or(0, Vec::len);
    for path in &in_use {
        assert!(often(path) >= 110, "{path} is in use and was probed {} times", often(path));
    }
    let steady = sent.small.values().filter(|sent| sent.len() >= 110).count();
    assert!((170..=200).contains(&steady), "{steady} paths are probed all the time");
    let turns = sent.small.len() - steady;
    assert!((30..=60).contains(&turns), "{turns} others had their turn in four terms");
    assert!(sent.small.values().all(|sent| sent.len() >= 10), "a turn is long enough to prove a path");

    let bytes: u64 = sent.bulk.values().flatten().map(|bytes| u64::from(*bytes)).sum();
    assert!(bytes <= (4 << 20) * 122 && bytes > (4 << 20) * 110, "{bytes} bulk bytes in 120 s");
    assert!(in_use.iter().all(|path| sent.bulk.contains_key(path)), "those in use come first");
}

#[test]
fn a_new_path_is_proven_soon_and_then_probed_at_its_interval() {
    let begin = Instant::now();
    let mut plan = Plan::new(rates(), begin);
    plan.follow(&paths(1), begin);
    let sent = run(&mut plan, begin, 30, &BTreeSet::new());
    let times = &sent.small.values().next().unwrap();
    let gaps: Vec<u128> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert!(gaps[..3].iter().all(|gap| (200..=301).contains(gap)), "{gaps:?}");
    assert!(gaps[4..].iter().all(|gap| (800..=1201).contains(gap)), "{gaps:?}");
    let bulk = &sent.bulk.values().next().unwrap();
    assert!((2..=4).contains(&bulk.len()), "{bulk:?} in 30 s");
    assert_eq!(sent.skipped, 0);
}

#[test]
fn a_path_whose_probe_still_waits_is_not_sent_another_and_a_first_answer_is_no_sample() {
    let begin = Instant::now();
    let mut plan = Plan::new(rates(), begin);
    plan.follow(&paths(1), begin);
    plan.review(begin, BTreeSet::new);
    let later = begin + Duration::from_secs(2);
    let (due, _) = plan.due(later, Vec::new());
    assert_eq!(due.len(), 1);
    assert!(plan.due(later + Duration::from_secs(2), Vec::new()).0.is_empty());
    assert!(due[0].mark.answered(false), "a loss is a sample, even the first");
    assert!(!due[0].mark.answered(true), "the first answer is none");
    assert!(due[0].mark.answered(true));
    due[0].mark.free(false);
    assert_eq!(plan.due(later + Duration::from_secs(4), Vec::new()).0.len(), 1);
}

#[test]
fn bulk_probes_are_no_larger_than_their_rail_needs_and_canaries_go_out_at_once() {
    let begin = Instant::now();
    let mut plan = Plan::new(Rates { bulk_bytes: 0, ..rates() }, begin);
    let mut list = paths(2);
    list[1].bandwidth_gbps = 1.0;
    plan.follow(&list, begin);
    assert!(run(&mut plan, begin, 60, &BTreeSet::new()).bulk.is_empty(), "0 is off");
    let canary = Canary { path: list[0].id.clone(), bytes: 2 << 20, deadline_ms: 300 };
    let (due, _) = plan.due(begin, vec![canary.clone(), canary]);
    let bulk: Vec<_> = due.iter().filter(|due| due.bulk).map(|due| (due.payload_bytes, due.deadline)).collect();
    assert_eq!(bulk, [(2 << 20, Duration::from_millis(300))], "one at a time");

    let on = rates();
    assert_eq!(on.bulk_bytes_on(&list[0]), 8 << 20);
    assert_eq!(on.bulk_bytes_on(&list[1]), 1_000_000);
}
