//! The ledger core: the only authority on a decode host's sessions and arena extents.
//!
//! ```text
//!            Ask                    Delivered                 Release (decode engine)
//!  (free) ─────────▶ GRANTED ──────────────────▶ DELIVERED ──────────────────────────▶ (free)
//!                     │   │ Release by its holder, nothing under way
//!                     │   └───────────────────────────────────────────────────────────▶ (free)
//!                     │ expired · given up · holder down
//!                     ├─ no write can still land ─────────────────────────────────────▶ (free)
//!                     └─ a write may still land ──▶ FENCED ── quiet · fence_max ───────▶ (free)
//! ```
//!
//! A lease that expires while a stream writes into it takes the transfer with it. A fenced lease counts as used and its pages are handed to nobody; while a stream of Seam's own
//! still writes, no time limit ends the fence, only that stream's end. Sessions in use are the
//! engine's own word plus the leases that this word does not contain yet.
//!
//! A ledger whose earlier life ended without a word does not know what that granted. It is told so
//! with [`Input::Recover`] and then counts everything as used until its engine has reported, or
//! until the longest lease of that life and its fence are over.

mod engine;
mod headroom;
mod landing;
mod messages;
mod pages;
mod recovery;
mod terms;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::core::{Core, Mono, Now};
use crate::model::{
    Generation, Lease, LeaseAsk, LeaseCall, LeaseCallReply, LeaseId, LeaseRefusal, LeaseReply, LoadRecord, NodeName,
};

pub use messages::{Arrived, Input, LongestLease, OpenRefusal, Output, Stage};
pub use pages::MAX_EXTENTS;
use pages::Pages;
use recovery::Recovery;
pub use terms::{EngineWord, Settings};

/// One lease as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The grant.
    pub lease: Lease,
    /// What was asked.
    pub ask: LeaseAsk,
    /// Where it stands.
    pub stage: Stage,
    /// When that ends by itself, if it does.
    pub until: Option<Mono>,
    /// Whether a stream writes into it.
    open: bool,
    /// When it was delivered, in milliseconds since the Unix epoch.
    delivered_ms: u64,
    /// Whether the engine's word contains it.
    absorbed: bool,
}

/// The ledger: see the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    node: NodeName,
    generation: Generation,
    settings: Settings,
    engine: EngineWord,
    draining: bool,
    /// Set while what an earlier life granted is not known.
    recovery: Option<Recovery>,
    /// The longest lease that the shell was told to note.
    noted: LongestLease,
    next_number: u64,
    held: BTreeMap<u64, Held>,
    /// The last lease of each ask, while that is held: an ask that is repeated gets the same lease
    /// while bytes may come into it, and another one afterwards.
    asks: BTreeMap<(NodeName, Generation, u64), u64>,
    /// One entry a lease that ends by itself.
    deadlines: BTreeSet<(Mono, u64)>,
    pages: Pages,
    /// Sums over `held`, kept so that a question costs no walk over the leases.
    unabsorbed_sessions: u32,
    unabsorbed_bytes: u64,
    inbound_bytes: u64,
    /// Counts the inputs: every change of the headroom has a number of its own.
    revision: u64,
    told: Option<(Mono, LoadRecord)>,
    /// Somebody was quoted something newer than what the mesh was told: it must hear of what came
    /// after, even if all is as before.
    quoted: bool,
    tell_at: Option<Mono>,
}

impl Core for Ledger {
    type Input = Input;
    type Output = Output;
    type Snapshot = Self;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.revision += 1;
        self.fire(now, out);
        match input {
            Input::Call { key, from, call } => {
                let reply = self.call(now, &from, call, out);
                self.quoted |= matches!(reply, LeaseCallReply::Lease(_));
                out.push(Output::Reply { key, reply });
            }
            Input::Open { key, lease, sender, bytes } => {
                let result = self.open(&lease, &sender, bytes);
                out.push(Output::Opened { key, lease, result });
            }
            Input::Delivered { key, lease, bytes, hash: _ } => {
                let result = self.delivered(now, &lease, bytes, out);
                out.push(Output::Accepted { key, result });
            }
            Input::Quiet { lease } => self.quiet(&lease, out),
            Input::EngineRelease { key, lease } => {
                let changed = self.release(now, &lease, out);
                out.push(Output::Reply { key, reply: LeaseCallReply::Changed(changed) });
            }
            Input::Engine { key, word } => {
                let changed = self.engine_said(now, word);
                out.push(Output::Reply { key, reply: LeaseCallReply::Changed(changed) });
            }
            Input::Drain(on) => self.draining = on,
            Input::Configure(settings) => self.configure(*settings, out),
            Input::Recover(longest) => self.recover(now, longest),
            Input::HolderDown { node, generation } => self.holder_down(now, &node, generation, out),
            Input::Tick => {}
        }
        self.tell(now, out);
    }

    fn deadline(&self) -> Option<Mono> {
        let first = self.deadlines.first().map(|&(at, _)| at);
        first.into_iter().chain(self.tell_at).chain(self.recovered_at()).min()
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn restore(snapshot: Self) -> Self {
        snapshot
    }
}

impl Ledger {
    /// An empty ledger of one life of one node.
    #[must_use]
    pub fn new(node: NodeName, generation: Generation, settings: Settings) -> Self {
        Self {
            node,
            generation,
            engine: EngineWord::default(),
            draining: false,
            recovery: None,
            noted: LongestLease::default(),
            next_number: 1,
            held: BTreeMap::new(),
            asks: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            pages: Pages::new(settings.arena_bytes.unwrap_or(0)),
            unabsorbed_sessions: 0,
            unabsorbed_bytes: 0,
            inbound_bytes: 0,
            revision: 0,
            told: None,
            quoted: false,
            tell_at: None,
            settings,
        }
    }

    /// Takes what may change while the host runs; the arena, the model and who gates writes stay.
    /// Leases beyond a smaller limit stay too: the limit holds for what is asked from now on.
    fn configure(&mut self, settings: Settings, out: &mut Vec<Output>) {
        let Settings { max_sessions, soft_fraction, kv_bytes, fence_max_ms, .. } = settings;
        self.settings = Settings { max_sessions, soft_fraction, kv_bytes, fence_max_ms, ..self.settings.clone() };
        if self.noted != LongestLease::default() {
            // A longer fence holds for what is granted already, too.
            self.note(0, out);
        }
    }

    /// Every lease that is not free, in the order in which they were granted.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    fn call(&mut self, now: Now, from: &NodeName, call: LeaseCall, out: &mut Vec<Output>) -> LeaseCallReply {
        match call {
            LeaseCall::Ask(ask) => LeaseCallReply::Lease(self.ask(now, from, ask, out)),
            LeaseCall::Release(lease) => {
                let ours = self.find(&lease).is_some_and(|held| held.ask.holder == *from);
                LeaseCallReply::Changed(ours && self.release(now, &lease, out))
            }
            LeaseCall::GiveUp(lease) => {
                let ours = self.find(&lease).is_some_and(|held| held.ask.holder == *from);
                LeaseCallReply::Changed(ours && self.void(now, lease.number, out))
            }
            LeaseCall::Renew { lease, ttl_ms } => {
                let ours = self.find(&lease).is_some_and(|held| held.ask.holder == *from);
                LeaseCallReply::Changed(ours && self.renew(now, &lease, ttl_ms, out))
            }
        }
    }

    fn ask(&mut self, now: Now, from: &NodeName, ask: LeaseAsk, out: &mut Vec<Output>) -> LeaseReply {
        if ask.holder != *from {
            return LeaseReply::Refused { refusal: LeaseRefusal::NotHolder, quote: None };
        }
        let key = (ask.holder.clone(), ask.holder_generation, ask.ask);
        if let Some(held) = self.asks.get(&key).and_then(|number| self.held.get(number))
            && held.stage == Stage::Granted
        {
            return LeaseReply::Granted { lease: held.lease.clone(), quote: self.quote() };
        }
        match self.grant(now, ask, out) {
            Ok(lease) => LeaseReply::Granted { lease, quote: self.quote() },
            Err(refusal) => LeaseReply::Refused { refusal, quote: Some(self.quote()) },
        }
    }

    fn grant(&mut self, now: Now, ask: LeaseAsk, out: &mut Vec<Output>) -> Result<Lease, LeaseRefusal> {
        if self.draining {
            return Err(LeaseRefusal::Draining);
        }
        if self.recovery.is_some() {
            return Err(LeaseRefusal::Recovering);
        }
        if let (Some(ours), Some(theirs)) = (&self.settings.model, &ask.model)
            && ours != theirs
        {
            return Err(LeaseRefusal::Model);
        }
        if ask.kv_bytes == 0 || ask.kv_bytes > self.kv_bytes_total() {
            return Err(LeaseRefusal::Size);
        }
        if self.used_sessions() >= self.max_sessions() {
            return Err(LeaseRefusal::Sessions);
        }
        if ask.kv_bytes > self.kv_bytes_free() {
            return Err(LeaseRefusal::KvBytes);
        }
        if self.held.len() >= self.settings.max_leases {
            return Err(LeaseRefusal::Overloaded);
        }
        let extents = match self.settings.arena_bytes {
            Some(_) => self.pages.take(ask.kv_bytes).ok_or(LeaseRefusal::KvBytes)?,
            None => Vec::new(),
        };
        let number = self.next_number;
        self.next_number += 1;
        let ttl_ms = ask.ttl_ms.clamp(1, self.settings.max_ttl_ms);
        let id = LeaseId { node: self.node.clone(), generation: self.generation, number };
        let lease = Lease { id: id.clone(), kv_bytes: ask.kv_bytes, extents, ttl_ms };
        self.note(ttl_ms, out);
        let until = now.mono.plus_ms(ttl_ms);
        self.asks.insert((ask.holder.clone(), ask.holder_generation, ask.ask), number);
        self.deadlines.insert((until, number));
        self.unabsorbed_sessions += 1;
        self.unabsorbed_bytes += lease.kv_bytes;
        self.inbound_bytes += lease.kv_bytes;
        let held = Held {
            lease: lease.clone(),
            ask,
            stage: Stage::Granted,
            until: Some(until),
            open: false,
            delivered_ms: 0,
            absorbed: false,
        };
        self.held.insert(number, held);
        out.push(Output::Staged { lease: id, from: None, to: Some(Stage::Granted) });
        Ok(lease)
    }

    /// The lease of that name, if it is of this life.
    fn find(&self, lease: &LeaseId) -> Option<&Held> {
        let ours = lease.node == self.node && lease.generation == self.generation;
        self.held.get(&lease.number).filter(|_| ours)
    }

    /// Ends a lease at its holder's or its engine's word; true if it was there to be ended.
    fn release(&mut self, now: Now, lease: &LeaseId, out: &mut Vec<Output>) -> bool {
        let Some(held) = self.find(lease) else { return false };
        match held.stage {
            Stage::Granted if held.open => self.fence(now, lease.number, out),
            Stage::Granted | Stage::Delivered => self.free(lease.number, out),
            Stage::Fenced if held.open => return false,
            // The holder says that it is quiet.
            Stage::Fenced => self.free(lease.number, out),
        }
        true
    }

    fn renew(&mut self, now: Now, lease: &LeaseId, ttl_ms: u64, out: &mut Vec<Output>) -> bool {
        let ttl_ms = ttl_ms.clamp(1, self.settings.max_ttl_ms);
        let Some(held) = self.held.get_mut(&lease.number) else { return false };
        match held.stage {
            Stage::Granted => {
                let until = now.mono.plus_ms(ttl_ms);
                if let Some(old) = held.until.replace(until) {
                    self.deadlines.remove(&(old, lease.number));
                }
                self.deadlines.insert((until, lease.number));
                self.note(ttl_ms, out);
                true
            }
            Stage::Delivered | Stage::Fenced => false,
        }
    }

    fn holder_down(&mut self, now: Now, node: &NodeName, generation: Generation, out: &mut Vec<Output>) {
        let from = (node.clone(), 0, 0);
        let orphans: Vec<u64> = self
            .asks
            .range(from..)
            .take_while(|((holder, life, _), _)| holder == node && *life <= generation)
            .map(|(_, &number)| number)
            .collect();
        for number in orphans {
            self.void(now, number, out);
        }
    }

    /// Acts on every deadline that has passed.
    fn fire(&mut self, now: Now, out: &mut Vec<Output>) {
        self.recovered(now);
        while let Some(&(at, number)) = self.deadlines.first()
            && at <= now.mono
        {
            match self.held.get(&number).map(|held| held.stage) {
                Some(Stage::Granted) => {
                    self.void(now, number, out);
                }
                Some(Stage::Fenced) => self.free(number, out),
                Some(Stage::Delivered) | None => {
                    self.deadlines.remove(&(at, number));
                }
            }
        }
    }

    /// A granted lease ended without its holder's release: fenced while a write may still land.
    /// Delivered ones stay: they are the engine's. True if it was granted.
    fn void(&mut self, now: Now, number: u64, out: &mut Vec<Output>) -> bool {
        let Some(held) = self.held.get(&number) else { return false };
        match held.stage {
            Stage::Granted if held.open || !self.settings.writes_are_gated => self.fence(now, number, out),
            Stage::Granted => self.free(number, out),
            Stage::Delivered | Stage::Fenced => return false,
        }
        true
    }

    fn fence(&mut self, now: Now, number: u64, out: &mut Vec<Output>) {
        let Some(held) = self.held.get_mut(&number) else { return };
        if let Some(old) = held.until.take() {
            self.deadlines.remove(&(old, number));
        }
        if !held.open {
            let until = now.mono.plus_ms(self.settings.fence_max_ms);
            held.until = Some(until);
            self.deadlines.insert((until, number));
        }
        held.stage = Stage::Fenced;
        self.inbound_bytes -= held.lease.kv_bytes;
        let lease = held.lease.id.clone();
        out.push(Output::Staged { lease, from: Some(Stage::Granted), to: Some(Stage::Fenced) });
    }

    fn free(&mut self, number: u64, out: &mut Vec<Output>) {
        let Some(held) = self.held.remove(&number) else { return };
        if let Some(until) = held.until {
            self.deadlines.remove(&(until, number));
        }
        let ask = (held.ask.holder, held.ask.holder_generation, held.ask.ask);
        if self.asks.get(&ask) == Some(&number) {
            self.asks.remove(&ask);
        }
        self.pages.give(&held.lease.extents);
        if !held.absorbed {
            self.unabsorbed_sessions -= 1;
            self.unabsorbed_bytes -= held.lease.kv_bytes;
        }
        if held.stage == Stage::Granted {
            self.inbound_bytes -= held.lease.kv_bytes;
        }
        out.push(Output::Staged { lease: held.lease.id, from: Some(held.stage), to: None });
    }
}

#[cfg(test)]
mod tests;
