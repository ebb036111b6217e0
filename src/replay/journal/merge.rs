//! Several lives on one axis of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::axis::Axis;
use super::history::Life;
use super::life::{Item, LifeReader, What};

/// The items of several lives by the time at which they happened; the items of one life keep their
/// order. Only lives that have begun and not ended are open.
pub struct Merged<'a> {
    lives: &'a [Life],
    under_way: Vec<Option<UnderWay<'a>>>,
    /// When each life goes on. Equal times are taken by node and life.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

/// A life that is being read.
struct UnderWay<'a> {
    reader: LifeReader<'a>,
    axis: Axis,
    /// Never goes back within a life.
    at_ns: u64,
    /// The item that comes at that time.
    item: Item,
}

/// One item of one of several lives.
#[derive(Debug)]
pub struct MergedItem<'a> {
    /// The life.
    pub life: &'a Life,
    /// Its index in the history.
    pub index: usize,
    /// When, in nanoseconds since the Unix epoch, on the life's [axis](Axis). What has no time of its
    /// own, a snapshot say, comes at the time of what stands before it.
    pub at_ns: u64,
    /// What.
    pub item: Item,
}

impl<'a> Merged<'a> {
    pub(super) fn new(lives: &'a [Life]) -> Self {
        let start = |(index, life): (usize, &Life)| {
            let header = life.segments.iter().find_map(|segment| segment.header.as_ref());
            let start_ns = header.map_or(0, |header| Axis::of(header).at_ns(header.opened.mono));
            Reverse((start_ns, index))
        };
        Self {
            lives,
            under_way: lives.iter().map(|_| None).collect(),
            next: lives.iter().enumerate().map(start).collect(),
        }
    }

    /// Reads on in a life, and has it wait for its turn.
    fn read_on(&mut self, index: usize, mut reader: LifeReader<'a>, axis: Axis, at_ns: u64) {
        let Some(item) = reader.next() else { return };
        let now = match &item.what {
            What::Entry(entry) => entry.now(),
            What::Segment(header) => Some(header.opened),
            What::Missing(_) | What::Broken(_) => None,
        };
        let at_ns = now.map_or(at_ns, |now| axis.at_ns(now.mono)).max(at_ns);
        if let Some(slot) = self.under_way.get_mut(index) {
            *slot = Some(UnderWay { reader, axis, at_ns, item });
            self.next.push(Reverse((at_ns, index)));
        }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = MergedItem<'a>;

    fn next(&mut self) -> Option<MergedItem<'a>> {
        loop {
            let Reverse((start_ns, index)) = self.next.pop()?;
            let life = self.lives.get(index)?;
            match self.under_way.get_mut(index).and_then(Option::take) {
                None => self.read_on(index, life.items(), life.axis().unwrap_or_default(), start_ns),
                Some(UnderWay { reader, axis, at_ns, item }) => {
                    self.read_on(index, reader, axis, at_ns);
                    return Some(MergedItem { life, index, at_ns, item });
                }
            }
        }
    }
}
