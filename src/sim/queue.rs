//! What will happen, ordered by time and then by when it was decided.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events that may wait at once.
const MAX_EVENTS: usize = 4_000_000;

pub(super) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
    refused: u64,
}

struct Entry<E> {
    at_ns: u64,
    sequence: u64,
    /// Boxed: a heap moves its entries all the time.
    event: Box<E>,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0, refused: 0 }
    }

    pub(super) fn push(&mut self, at_ns: u64, event: E) {
        if self.heap.len() >= MAX_EVENTS {
            self.refused += 1;
            return;
        }
        self.sequence += 1;
        self.heap.push(Entry { at_ns, sequence: self.sequence, event: Box::new(event) });
    }

    /// The next event that is due by `end_ns`, and when it is.
    pub(super) fn pop(&mut self, end_ns: u64) -> Option<(u64, E)> {
        if self.heap.peek()?.at_ns > end_ns {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at_ns, *entry.event))
    }

    /// Events that found no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest, for that is the one a heap gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.sequence).cmp(&(self.at_ns, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_in_the_order_they_were_pushed() {
        let mut queue = Queue::new();
        for (at, name) in [(5, "c"), (1, "a"), (5, "d"), (3, "b")] {
            queue.push(at, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(5)).collect();
        assert_eq!(order, [(1, "a"), (3, "b"), (5, "c"), (5, "d")]);
        queue.push(9, "later");
        assert_eq!(queue.pop(8), None);
    }
}
