//! One pool after another, in the order of their names.
//!
//! The oldest of all balancing rules; it reads neither health nor load. The next is the pool whose
//! name follows the last one chosen, and after the greatest name the smallest. A name is a place in
//! a circle that does not move when other pools come, go, or cannot be chosen for a while, so none
//! is passed over for it, as one would be with a counter modulo the number of pools. It has no
//! parameters, and one name of memory.

use super::{Ask, Rival, Sight};

/// The rule by itself.
#[derive(Default)]
pub(super) struct RoundRobin {
    rotation: Rotation,
}

impl Rival for RoundRobin {
    fn choose(&mut self, _ask: &Ask<'_>, pools: &[Sight<'_>]) -> Option<usize> {
        self.rotation.next(pools.iter().enumerate())
    }
}

/// Where the circle stands.
#[derive(Default)]
pub(super) struct Rotation {
    last: Option<String>,
}

impl Rotation {
    /// The index of the next of `pools`, which takes its turn.
    pub(super) fn next<'a, 'b: 'a>(&mut self, pools: impl Iterator<Item = (usize, &'a Sight<'b>)>) -> Option<usize> {
        let behind = |name: &str| self.last.as_deref().is_some_and(|last| name <= last);
        let (index, name) =
            pools.map(|(index, sight)| (index, sight.name)).min_by_key(|(_, name)| (behind(name), *name))?;
        self.last = Some(name.to_owned());
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, sight};
    use super::*;

    /// The names chosen when each of `offers` is offered once.
    fn turns(offers: &[&[&'static str]]) -> Vec<&'static str> {
        let mut rival = RoundRobin::default();
        let mut turn = |names: &[&'static str]| {
            let pools: Vec<Sight<'_>> = names.iter().map(|name| sight(name, 1.0, 0)).collect();
            names[rival.choose(&ask(0.0), &pools).unwrap()]
        };
        offers.iter().map(|names| turn(names)).collect()
    }

    #[test]
    fn it_goes_round_by_name_whatever_the_order_given() {
        let shuffled: &[&str] = &["c", "a", "b"];
        assert_eq!(turns(&[shuffled; 5]), ["a", "b", "c", "a", "b"]);
        assert_eq!(turns(&[&["c", "a"], &["a", "c"], &["c", "a"]]), ["a", "c", "a"]);
    }

    #[test]
    fn a_pool_that_cannot_be_chosen_for_a_while_moves_no_other_turn() {
        let all: &[&str] = &["a", "b", "c", "d"];
        let without_b: &[&str] = &["a", "c", "d"];
        assert_eq!(turns(&[all, without_b, all, all, all]), ["a", "c", "d", "a", "b"]);
    }

    #[test]
    fn pools_that_come_and_go_find_their_place() {
        let offers: [&[&str]; 5] = [&["a", "c"], &["a", "b", "c"], &["a", "b"], &["b", "c"], &["b", "c"]];
        assert_eq!(turns(&offers), ["a", "b", "a", "b", "c"]);
    }
}
