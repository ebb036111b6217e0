//! What holds for every rival, and what the tests of each share.

use proptest::prelude::*;

use super::*;
use crate::model::Capacity;

pub(super) fn ask(at_ms: f64) -> Ask<'static> {
    Ask { at_ms, prefix_blocks: None }
}

/// A healthy pool with `active` of 8 sessions.
pub(super) fn sight(name: &str, latency_ms: f64, active: u32) -> Sight<'_> {
    let capacity = Capacity { active_sessions: active, max_capacity: 8, soft_fraction: 0.75 };
    Sight { name, state: PathState::Healthy, gfs: 0.0, latency_ms, load: Load::of(&capacity) }
}

pub(super) fn full(name: &str) -> Sight<'_> {
    sight(name, 1.0, 8)
}

/// A success whose ideal time is 10 ms.
pub(super) fn finished(name: &str, at_ms: f64, elapsed_ms: f64) -> Finished<'_> {
    Finished { at_ms, name, elapsed_ms, ideal_ms: 10.0, ok: true }
}

fn rivals() -> impl Iterator<Item = Policy> {
    Policy::ALL.iter().copied().filter(|policy| *policy != Policy::Seam)
}

#[test]
fn every_policy_but_seam_is_a_rival() {
    assert!(Policy::Seam.rival(1).is_none());
    assert_eq!(rivals().filter(|policy| policy.rival(1).is_some()).count(), Policy::ALL.len() - 1);
}

#[test]
fn every_rival_takes_the_only_pool_and_none_of_none() {
    for policy in rivals() {
        let mut rival = policy.rival(1).unwrap();
        assert_eq!(rival.choose(&ask(0.0), &[]), None, "{policy}");
        assert_eq!(rival.choose(&ask(0.0), &[full("a")]), Some(0), "{policy}");
    }
}

#[test]
fn only_the_rivals_that_draw_depend_on_the_seed() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pools = names.map(|name| sight(name, 1.0, 0));
    let run = |policy: Policy, seed| {
        let mut rival = policy.rival(seed).unwrap();
        (0..32).map(|at| rival.choose(&ask(f64::from(at)), &pools).unwrap()).collect::<Vec<_>>()
    };
    let drawing: Vec<Policy> = rivals().filter(|policy| run(*policy, 1) != run(*policy, 2)).collect();
    assert_eq!(drawing, [Policy::P2cEwma, Policy::P2cSlowdownLease, Policy::Prequal]);
}

#[test]
fn only_kv_load_needs_prefix_blocks() {
    let needing: Vec<Policy> = Policy::ALL.iter().copied().filter(|policy| policy.needs_prefix_blocks()).collect();
    assert_eq!(needing, [Policy::KvLoad]);
}

#[test]
fn a_policy_parses_from_its_name_alone() {
    for policy in Policy::ALL {
        assert_eq!(policy.as_str().parse(), Ok(*policy));
    }
    assert!("Seam".parse::<Policy>().is_err() && "".parse::<Policy>().is_err());
}

#[test]
fn an_unknown_name_is_told_the_nearest_and_all_that_are_allowed() {
    let error = "P2C-EWMA".parse::<Policy>().unwrap_err();
    assert_eq!(error.nearest, Some(Policy::P2cEwma));
    assert_eq!(
        error.to_string(),
        "policy \"P2C-EWMA\": unknown, allowed: seam, lowest_latency, binary_health_only, \
         capacity_only, round_robin, p2c_ewma, p2c_slowdown_lease, prequal, rail_monitor, kv_load; \
         the nearest is p2c_ewma"
    );
    assert_eq!("lowest_latenzy".parse::<Policy>().unwrap_err().nearest, Some(Policy::LowestLatency));
    let far = "x".repeat(1_000).parse::<Policy>().unwrap_err();
    assert_eq!((far.nearest, far.found.len()), (None, 80));
    assert!(far.to_string().ends_with("rail_monitor, kv_load"));
}

/// One thing that happens to a rival.
#[derive(Clone, Debug)]
enum Event {
    Ask { pools: Vec<Seen>, blocks: Option<Vec<u64>> },
    Finished { pool: u8, elapsed_ms: f64, ideal_ms: f64, ok: bool },
}

#[derive(Clone, Debug)]
struct Seen {
    state: PathState,
    gfs: f64,
    latency_ms: f64,
    active: u32,
    max: u32,
}

/// Numbers as they should be, and as they should not.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.0..500.0, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(-1.0), 1 => Just(0.0)]
}

fn seen() -> impl Strategy<Value = Seen> {
    let states = prop::sample::select(PathState::ALL.to_vec());
    let sessions = prop_oneof![8 => 0_u32..10, 1 => Just(u32::MAX)];
    (states, number(), number(), sessions, 1_u32..9).prop_map(|(state, gfs, latency_ms, active, max)| Seen {
        state,
        gfs,
        latency_ms,
        active,
        max,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let blocks = prop::option::of(prop::collection::vec(0_u64..40, 0..12));
    let asks = (prop::collection::vec(seen(), 0..12), blocks).prop_map(|(pools, blocks)| Event::Ask { pools, blocks });
    let ends = (0_u8..12, number(), number(), any::<bool>())
        .prop_map(|(pool, elapsed_ms, ideal_ms, ok)| Event::Finished { pool, elapsed_ms, ideal_ms, ok });
    prop_oneof![asks, ends]
}

/// What a rival of `seed` answers to each ask, with the number of pools it was offered.
fn answers(policy: Policy, seed: u64, history: &[(f64, Event)]) -> Vec<(Option<usize>, usize)> {
    let mut rival = policy.rival(seed).unwrap();
    let mut answers = Vec::new();
    let mut at_ms = 0.0;
    let names: Vec<String> = (0..12).map(|pool| format!("pool-{pool}")).collect();
    for (after_ms, event) in history {
        at_ms += after_ms;
        match event {
            Event::Ask { pools, blocks } => {
                let sight = |(seen, name)| {
                    let Seen { state, gfs, latency_ms, active, max } = seen;
                    let capacity = Capacity { active_sessions: active, max_capacity: max, soft_fraction: 0.75 };
                    Sight { name, state, gfs, latency_ms, load: Load::of(&capacity) }
                };
                let sights: Vec<Sight<'_>> =
                    pools.iter().cloned().zip(names.iter().map(String::as_str)).map(sight).collect();
                let ask = Ask { at_ms, prefix_blocks: blocks.as_deref() };
                answers.push((rival.choose(&ask, &sights), sights.len()));
            }
            Event::Finished { pool, elapsed_ms, ideal_ms, ok } => rival.finished(&Finished {
                at_ms,
                name: &names[usize::from(*pool)],
                elapsed_ms: *elapsed_ms,
                ideal_ms: *ideal_ms,
                ok: *ok,
            }),
        }
    }
    answers
}

proptest! {
    #[test]
    fn whatever_happens_each_rival_names_a_pool_it_was_offered_and_names_it_again_on_the_same_seed(
        history in prop::collection::vec((0.0..9_000.0, event()), 0..60),
        seed in any::<u64>(),
    ) {
        for policy in rivals() {
            let answers_once = answers(policy, seed, &history);
            for (chosen, offered) in &answers_once {
                prop_assert_eq!(chosen.is_none(), *offered == 0, "{}", policy);
                prop_assert!(chosen.is_none_or(|index| index < *offered), "{}", policy);
            }
            prop_assert_eq!(answers_once, answers(policy, seed, &history), "{}", policy);
        }
    }
}
