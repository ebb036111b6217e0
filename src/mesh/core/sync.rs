//! Exchanges: one member tells another all it knows, in short; both fetch what they lack.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand::RngExt;

use super::super::membership::Effects;
use super::super::size::Beat;
use super::super::wire::{Aged, MAX_SYNC, SyncAsk, SyncPush, SyncReply};
use super::super::{MAX_MEMBERS, MAX_ORIGINS, Member, Output, Refusal};
use super::{MeshCore, refusal_of, refuse};
use crate::codec;
use crate::core::{Mono, Now};
use crate::model::NodeName;

/// An exchange that takes longer than this is given up, in milliseconds.
const PATIENCE_MS: u64 = 5_000;
/// At most this many exchanges of this node are under way at once.
const MAX_UNDER_WAY: usize = 8;
/// Records may fill this much of a message; members take the rest.
const RECORD_BUDGET: usize = MAX_SYNC / 2;
/// After this many false proofs in one message the rest of it is not looked at.
const MAX_FORGERIES: usize = 16;
/// News of more members than this is left to the exchanges of the others.
const SPREAD_AT_MOST: usize = 16;

/// This node's exchanges.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    next_exchange: u64,
    under_way: BTreeMap<u64, (NodeName, Mono)>,
    due: Option<Mono>,
    hurry_until: Option<Mono>,
}

impl Syncs {
    pub(super) fn due(&self) -> Option<Mono> {
        self.due
    }

    pub(super) fn ended(&mut self, exchange: u64) {
        self.under_way.remove(&exchange);
    }

    /// Something appeared: exchange more often for a while, until its records are everywhere.
    pub(super) fn soon(&mut self, now: Now, beat: &Beat) {
        self.hurry(now, beat, beat.sync * 2);
    }

    /// Something vanished: rumours tell nearly everybody, a few exchanges the rest.
    pub(super) fn a_few(&mut self, now: Now, beat: &Beat) {
        self.hurry(now, beat, beat.sync / 2);
    }

    fn hurry(&mut self, now: Now, beat: &Beat, for_ms: u64) {
        let first = now.mono.plus_ms(beat.sync / 8);
        self.due = Some(self.due.map_or(first, |due| due.min(first)));
        self.hurry_until = self.hurry_until.max(Some(now.mono.plus_ms(for_ms)));
    }
}

impl MeshCore {
    pub(super) fn seed_seen(&mut self, now: Now, node: NodeName, addr: SocketAddr, out: &mut Vec<Output>) {
        let asked = self.syncs.under_way.values().any(|(to, _)| *to == node);
        if node != self.settings.node && !self.live.contains_key(&node) && !asked {
            self.ask(now, node, addr, out);
        }
    }

    pub(super) fn sync_if_due(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.live.is_empty() || self.syncs.due.is_some_and(|due| due > now.mono) {
            return;
        }
        self.syncs.under_way.retain(|_, (_, until)| *until > now.mono);
        let hurry = self.syncs.hurry_until.is_some_and(|until| until > now.mono);
        let pause = if hurry { self.beat.sync / 8 } else { self.beat.sync };
        // A little disorder keeps nodes that started together from asking together.
        let pause = pause - pause / 8 + self.rng.random_range(0..=pause / 4);
        self.syncs.due = Some(now.mono.plus_ms(pause));
        let chosen = self.rng.random_range(0..self.live.len());
        if let Some(member) = self.live.values().nth(chosen) {
            let (name, addr) = (member.name.clone(), member.addr);
            self.ask(now, name, addr, out);
        }
    }

    pub(super) fn sync_asked(&mut self, now: Now, exchange: u64, from: &NodeName, bytes: &[u8], out: &mut Vec<Output>) {
        let ask = match codec::decode::<SyncAsk>(bytes) {
            Ok(ask) => ask,
            Err(error) => return refuse(out, refusal_of(&error), from),
        };
        self.learn(now, from, ask.members, out);
        let (records, want) = self.records.compare(now.mono, &ask.digest, RECORD_BUDGET);
        let reply = SyncReply { members: self.everyone(), records, want };
        match codec::encode(&reply) {
            Ok(bytes) => out.push(Output::SyncReply { exchange, bytes }),
            Err(error) => refuse(out, refusal_of(&error), from),
        }
    }

    pub(super) fn sync_replied(
        &mut self,
        now: Now,
        exchange: u64,
        from: &NodeName,
        bytes: &[u8],
        out: &mut Vec<Output>,
    ) {
        match self.syncs.under_way.remove(&exchange) {
            Some((to, _)) if to == *from => {}
            _ => return refuse(out, Refusal::Unasked, from),
        }
        let reply = match codec::decode::<SyncReply>(bytes) {
            Ok(reply) => reply,
            Err(error) => return refuse(out, refusal_of(&error), from),
        };
        self.learn(now, from, reply.members, out);
        self.take_records(now, from, reply.records, out);
        let push = SyncPush { records: self.records.take(now.mono, &reply.want, RECORD_BUDGET) };
        match codec::encode(&push) {
            Ok(bytes) => out.push(Output::SyncPush { exchange, bytes }),
            Err(error) => refuse(out, refusal_of(&error), from),
        }
    }

    pub(super) fn sync_pushed(&mut self, now: Now, from: &NodeName, bytes: &[u8], out: &mut Vec<Output>) {
        match codec::decode::<SyncPush>(bytes) {
            Ok(push) => self.take_records(now, from, push.records, out),
            Err(error) => refuse(out, refusal_of(&error), from),
        }
    }

    fn ask(&mut self, now: Now, to: NodeName, addr: SocketAddr, out: &mut Vec<Output>) {
        if self.syncs.under_way.len() >= MAX_UNDER_WAY {
            return;
        }
        let ask = SyncAsk { members: self.everyone(), digest: self.records.digest() };
        if let Ok(bytes) = codec::encode(&ask) {
            let exchange = self.syncs.next_exchange;
            self.syncs.next_exchange += 1;
            self.syncs.under_way.insert(exchange, (to.clone(), now.mono.plus_ms(PATIENCE_MS)));
            out.push(Output::SyncAsk { exchange, to, addr, bytes });
        }
    }

    fn everyone(&self) -> Vec<foca::Member<Member>> {
        let me = foca::Member::alive(self.membership.identity().clone());
        std::iter::once(me).chain(self.membership.known().cloned()).collect()
    }

    /// Takes another's view of the members: what is news, and can be true.
    fn learn(&mut self, now: Now, from: &NodeName, members: Vec<foca::Member<Member>>, out: &mut Vec<Output>) {
        self.heard_from(now, out);
        let known: BTreeMap<_, _> =
            self.membership.known().map(|member| (member.id().name.clone(), member.clone())).collect();
        let mut room = MAX_MEMBERS.saturating_sub(known.len());
        let mut news = Vec::new();
        let mut about_me = Vec::new();
        for member in members.into_iter().take(MAX_MEMBERS) {
            if let Err(reason) = super::in_time(now, member.id()) {
                refuse(out, reason, from);
            } else if member.id().name == self.settings.node {
                about_me.push(member);
            } else if known.get(&member.id().name) == Some(&member) {
                // Nothing new.
            } else if known.contains_key(&member.id().name) {
                news.push(member);
            } else if room > 0 {
                room -= 1;
                news.push(member);
            } else {
                refuse(out, Refusal::TooManyMembers, from);
            }
        }
        for claim in &about_me {
            self.outrank(now, claim.id(), out);
        }
        news.extend(about_me);
        let spread = news.len() <= SPREAD_AT_MOST;
        let mut effects = Effects::default();
        self.membership.learn(now.mono, news, spread, &mut effects);
        self.follow(now, &mut effects, out);
    }

    fn take_records(&mut self, now: Now, from: &NodeName, records: Vec<Aged>, out: &mut Vec<Output>) {
        let mut forgeries = 0;
        for record in records.into_iter().take(MAX_ORIGINS * 4) {
            if let Err(reason) = self.record(now, record, None, out) {
                refuse(out, reason, from);
                // To check a proof takes time, and whoever passes on honestly has checked it.
                forgeries += usize::from(matches!(reason, Refusal::BadSignature | Refusal::BadCertificate));
                if forgeries >= MAX_FORGERIES {
                    return;
                }
            }
        }
    }
}
