//! The decision that a reader is sent to first.

use std::collections::BTreeMap;

use crate::model::{NodeName, PathState, RequestId};
use crate::replay::journal::utc;
use crate::timeline::Example;
use crate::timeline::facts::{Decision, Facts};
use crate::timeline::fold::{Folded, Group};

/// The first decision that a node made while one of its paths was in trouble; or the first after trouble
/// began anywhere; or the first of all.
pub(super) fn example(facts: &Facts, folded: &Folded<'_>) -> Option<Example> {
    let troubles: BTreeMap<&NodeName, Vec<(u64, u64)>> =
        folded.groups.iter().map(|(node, group)| (*node, troubles(group))).collect();
    let in_trouble = |node: &NodeName, at: u64| {
        troubles.get(node).is_some_and(|spans| {
            let before = spans.partition_point(|(from, _)| *from <= at);
            spans.get(..before).and_then(<[_]>::last).is_some_and(|(_, to)| at < *to)
        })
    };
    let begun = |at: u64| folded.first_trouble.is_some_and(|first| first <= at);
    let chosen = facts.lanes.iter().flat_map(|lane| lane.decisions.iter().map(|decision| (&lane.observer, decision)));
    let refused = facts.refused.iter().flat_map(|(node, all)| all.iter().map(move |decision| (node, decision)));
    let named = chosen.chain(refused).filter_map(|(node, decision)| Some((node, decision, decision.request.as_ref()?)));
    let key = |(node, decision, request): &(&NodeName, &Decision, &RequestId)| {
        (!in_trouble(node, decision.at), !begun(decision.at), decision.at, (*request).clone())
    };
    let (_, decision, request) = named.min_by_key(key)?;
    Some(Example { request: request.to_string(), at: utc(decision.at) })
}

/// When at least one of a node's paths was in trouble, in order and apart.
fn troubles(group: &Group<'_>) -> Vec<(u64, u64)> {
    let spans = group.shown.iter().flat_map(|shown| &shown.spans);
    let bad = spans.filter(|span| span.state.is_some_and(|state| state != PathState::Healthy));
    let mut bad: Vec<(u64, u64)> = bad.map(|span| (span.from, span.to)).collect();
    bad.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (from, to) in bad {
        match apart.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => apart.push((from, to)),
        }
    }
    apart
}
