//! What a picture needs of the journals, and no more than it may have.

use std::collections::{BTreeMap, VecDeque};

use super::lack::Lacks;
use super::time::LAST_MS;
use super::{MAX_CHANGES, MAX_EVENTS, Options, TimelineError};
use crate::journal::Header;
use crate::model::{Generation, LeaseId, NodeName, Outcome, PathId, PathState, RequestId, WorkloadName};
use crate::policy::overrides::OverrideTarget;
use crate::replay::journal::{Axis, utc};

/// Leases whose path is remembered at most, for each life: the oldest is forgotten first.
const MAX_LEASES: usize = 65_536;

/// From and to, in milliseconds since the Unix epoch; from is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Everything that was gathered.
#[derive(Debug)]
pub(super) struct Facts {
    /// What is asked for: events elsewhere are not kept.
    pub(super) asked: Window,
    pub(super) lives: Vec<Life>,
    pub(super) life_of: BTreeMap<(NodeName, Generation), usize>,
    /// The life that entries belong to.
    pub(super) current: Option<usize>,
    pub(super) lanes: Vec<Lane>,
    /// By who observes the path, and the path.
    pub(super) lane_of: BTreeMap<(NodeName, PathId), usize>,
    /// Decisions that found no admissible path, by who decided.
    pub(super) refused: BTreeMap<NodeName, Vec<Decision>>,
    pub(super) members: BTreeMap<NodeName, Member>,
    pub(super) overrides: BTreeMap<(NodeName, OverrideTarget), Vec<Overridden>>,
    /// The first and the last entry that there is, asked for or not.
    pub(super) there: Option<(u64, u64)>,
    /// The same of those asked for.
    pub(super) within: Option<(u64, u64)>,
    pub(super) events: usize,
    pub(super) changes: usize,
    pub(super) left_out: u64,
    /// Transfers whose lease is of before the journal, or forgotten.
    pub(super) unknown_leases: u64,
}

/// One life of one node.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) node: NodeName,
    pub(super) generation: Generation,
    pub(super) axis: Axis,
    pub(super) opened: u64,
    /// When its newest entry was.
    pub(super) last: u64,
    pub(super) end: End,
    /// Since when it is frozen.
    pub(super) frozen_since: Option<u64>,
    pub(super) frozen: Vec<(u64, u64)>,
    /// From, to, and what is missing.
    pub(super) gaps: Vec<(u64, u64, String)>,
    /// When others had taken it for down.
    pub(super) renewed: Vec<u64>,
    /// Since when something of it is not there, and what; none once it goes on.
    pub(super) interrupted: Option<(u64, Lacks)>,
    /// Whether it began before its journal does: the segments before `opened` are not there.
    pub(super) begins_late: bool,
    /// Its leases: the lane, and the transfer that uses it.
    leases: BTreeMap<LeaseId, Leased>,
    oldest_leases: VecDeque<LeaseId>,
}

/// How a life's journal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Without a word.
    Open,
    /// In order.
    Closed,
    /// By a panic of this core.
    Panicked(&'static str),
}

/// A lease that a decision brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) lane: usize,
    pub(super) granted: u64,
    /// The index of its transfer in the lane.
    pub(super) transfer: Option<usize>,
}

/// One path as one node knows it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) observer: NodeName,
    pub(super) path: PathId,
    /// The observer's life in which it was known last.
    pub(super) life: usize,
    /// What it is from then on; none while nothing is known.
    pub(super) changes: Vec<(u64, Option<PathState>)>,
    /// From when on changes found no room, so that nothing is known.
    pub(super) cut: Option<u64>,
    /// When it ceased to exist.
    pub(super) gone: Vec<u64>,
    pub(super) decisions: Vec<Decision>,
    pub(super) transfers: Vec<Transfer>,
}

/// One decision.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) at: u64,
    pub(super) strict: bool,
    pub(super) outcome: Outcome,
    pub(super) class: WorkloadName,
    pub(super) request: Option<RequestId>,
}

/// One attempt to move bytes.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) end: Ended,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing is said of it.
    Unknown,
    Delivered,
    Cancelled,
    Failed(String),
}

/// One member, as those whose journals there are saw it.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// By observer: its last known life, and whether it takes part, from then on; none while the
    /// observer says nothing.
    pub(super) seen: BTreeMap<NodeName, Seen>,
    pub(super) moves: Vec<Move>,
}

/// What one observer knows of a member.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) known: Option<(Generation, bool)>,
    pub(super) life: usize,
    pub(super) changes: Vec<(u64, Option<bool>)>,
}

/// A member came, or went.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) at: u64,
    pub(super) observer: NodeName,
    pub(super) kind: Moved,
}

/// How a member moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    Came,
    /// It takes part in a later life.
    Restarted,
    Went,
}

/// An operator's word for as long as it held.
#[derive(Clone, Debug)]
pub(super) struct Overridden {
    pub(super) from: u64,
    /// Its end, or until when it was given.
    pub(super) to: u64,
    pub(super) state: PathState,
    pub(super) reason: String,
    pub(super) life: usize,
    pub(super) open: bool,
}

impl Facts {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            asked: Window { from: options.from_ms.unwrap_or(0), to: options.to_ms.unwrap_or(LAST_MS) },
            lives: Vec::new(),
            life_of: BTreeMap::new(),
            current: None,
            lanes: Vec::new(),
            lane_of: BTreeMap::new(),
            refused: BTreeMap::new(),
            members: BTreeMap::new(),
            overrides: BTreeMap::new(),
            there: None,
            within: None,
            events: 0,
            changes: 0,
            left_out: 0,
            unknown_leases: 0,
        }
    }

    /// What is drawn: what is asked for, or as far as there are entries.
    pub(super) fn window(&self, options: &Options) -> Result<Window, TimelineError> {
        let Some((first, last)) = self.within else {
            let asked = match (options.from_ms, options.to_ms) {
                (None, None) => "of any time".to_owned(),
                _ => format!("from {} to {}", utc(self.asked.from), utc(self.asked.to)),
            };
            let there = match self.there {
                None => "there are none at all".to_owned(),
                Some((first, last)) => format!("there are some from {} to {}", utc(first), utc(last)),
            };
            return Err(TimelineError::Nothing { asked, there });
        };
        let from = options.from_ms.unwrap_or(first);
        Ok(Window { from, to: options.to_ms.unwrap_or(last).max(from.saturating_add(1)) })
    }

    /// Whether one more decision or transfer is kept.
    pub(super) fn room_for_event(&mut self) -> bool {
        room(&mut self.events, MAX_EVENTS, &mut self.left_out)
    }

    /// Whether one more change is kept.
    pub(super) fn room_for_change(&mut self) -> bool {
        room(&mut self.changes, MAX_CHANGES, &mut self.left_out)
    }

    /// The lane of a path as a node knows it; made where there is none, if there is room.
    pub(super) fn lane(&mut self, observer: &NodeName, path: &PathId, life: usize) -> Option<usize> {
        let key = (observer.clone(), path.clone());
        if let Some(lane) = self.lane_of.get(&key) {
            return Some(*lane);
        }
        if !self.room_for_change() {
            return None;
        }
        let (changes, gone, decisions, transfers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (observer, path) = key.clone();
        self.lanes.push(Lane { observer, path, life, changes, cut: None, gone, decisions, transfers });
        self.lane_of.insert(key, self.lanes.len() - 1);
        Some(self.lanes.len() - 1)
    }
}

/// Whether there is room for one more; what has none is counted.
pub(super) fn room(taken: &mut usize, most: usize, left_out: &mut u64) -> bool {
    let room = *taken < most;
    *taken += usize::from(room);
    *left_out += u64::from(!room);
    room
}

impl Life {
    /// As the first of its segments that there is says.
    pub(super) fn new(header: &Header) -> Self {
        let axis = Axis::of(header);
        let opened = axis.at_ms(header.opened.mono);
        Self {
            node: header.node.clone(),
            generation: header.generation,
            axis,
            opened,
            begins_late: header.segment > 0,
            last: opened,
            end: End::Open,
            frozen_since: None,
            frozen: Vec::new(),
            gaps: Vec::new(),
            renewed: Vec::new(),
            interrupted: None,
            leases: BTreeMap::new(),
            oldest_leases: VecDeque::new(),
        }
    }

    /// A decision brought this lease.
    pub(super) fn leased(&mut self, lease: LeaseId, leased: Leased) {
        while self.leases.len() >= MAX_LEASES
            && let Some(oldest) = self.oldest_leases.pop_front()
        {
            self.leases.remove(&oldest);
        }
        // Ended leases leave their names in the queue; it must not outgrow the table for that.
        while self.oldest_leases.len() >= 2 * MAX_LEASES {
            let Some(oldest) = self.oldest_leases.pop_front() else { break };
            self.leases.remove(&oldest);
        }
        self.oldest_leases.push_back(lease.clone());
        self.leases.insert(lease, leased);
    }

    pub(super) fn lease_mut(&mut self, lease: &LeaseId) -> Option<&mut Leased> {
        self.leases.get_mut(lease)
    }

    /// It is used no more.
    pub(super) fn end_lease(&mut self, lease: &LeaseId) -> Option<Leased> {
        self.leases.remove(lease)
    }
}

impl Lane {
    /// What is known of it now.
    pub(super) fn state(&self) -> Option<PathState> {
        self.changes.last().and_then(|(_, state)| *state)
    }
}
