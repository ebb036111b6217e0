//! Exchanges: two members find out where their knowledge differs, and both fetch what they lack.
//!
//! ```text
//! asker                                   asked
//!   │── Roots: two hashes of everything ──▶│ the same? Same, and that is all
//!   │◀── Buckets: 64 hashes, of what differs│
//!   │── Entries: of the buckets that differ▶│
//!   │◀── Delta: what the asker lacks; names │
//!   │── Push: what was named ──────────────▶│
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand::RngExt;

use super::super::membership::Effects;
use super::super::size::Beat;
use super::super::summary::{BUCKETS, BucketSet, Entry, Summary};
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
/// Versions of records may fill this much of a message, members less than half of it.
const DIGEST_BUDGET: usize = MAX_SYNC / 4;
/// After this many false proofs in one message the rest of it is not looked at.
const MAX_FORGERIES: usize = 16;
/// News of more members than this is left to the exchanges of the others.
const SPREAD_AT_MOST: usize = 16;

/// This node's exchanges.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    next_exchange: u64,
    under_way: BTreeMap<u64, Round>,
    due: Option<Mono>,
    hurry_until: Option<Mono>,
}

/// A round that this node opened.
#[derive(Debug)]
struct Round {
    to: NodeName,
    addr: SocketAddr,
    until: Mono,
    /// Whether it is the first of its exchange.
    first: bool,
}

impl Syncs {
    pub(super) fn due(&self) -> Option<Mono> {
        self.due
    }

    /// Gives up what has waited for too long: an answer, or the word that none will come, may be
    /// lost.
    fn give_up(&mut self, now: Now) {
        self.under_way.retain(|_, round| round.until > now.mono);
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
        self.syncs.give_up(now);
        let asked = self.syncs.under_way.values().any(|round| round.to == node);
        if node != self.settings.node && !self.live.contains_key(&node) && !asked {
            self.open(now, node, addr, out);
        }
    }

    pub(super) fn sync_if_due(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.live.is_empty() || self.syncs.due.is_some_and(|due| due > now.mono) {
            return;
        }
        self.syncs.give_up(now);
        let hurry = self.syncs.hurry_until.is_some_and(|until| until > now.mono);
        let pause = if hurry { self.beat.sync / 8 } else { self.beat.sync };
        // A little disorder keeps nodes that started together from asking together.
        let pause = pause - pause / 8 + self.rng.random_range(0..=pause / 4);
        self.syncs.due = Some(now.mono.plus_ms(pause));
        let chosen = self.rng.random_range(0..self.live.len());
        if let Some(member) = self.live.values().nth(chosen) {
            let (name, addr) = (member.name.clone(), member.addr);
            self.open(now, name, addr, out);
        }
    }

    pub(super) fn sync_asked(&mut self, now: Now, exchange: u64, from: &NodeName, bytes: &[u8], out: &mut Vec<Output>) {
        let ask = match codec::decode::<SyncAsk>(bytes) {
            Ok(ask) => ask,
            Err(error) => return refuse(out, refusal_of(&error), from),
        };
        self.heard_from(now, out);
        let reply = match ask {
            SyncAsk::Roots { members, records } => {
                let mine = self.members_summary();
                let buckets = |differs: bool, summary: &Summary| if differs { summary.buckets() } else { Vec::new() };
                match (mine.root() != members, self.records.summary().root() != records) {
                    (false, false) => SyncReply::Same,
                    (members, records) => SyncReply::Buckets {
                        members: buckets(members, &mine),
                        records: buckets(records, self.records.summary()),
                    },
                }
            }
            SyncAsk::Entries { member_buckets, members, record_buckets, digest } => {
                self.learn(now, from, members, out);
                let (records, want) = self.records.compare(now.mono, BucketSet(record_buckets), &digest, RECORD_BUDGET);
                SyncReply::Delta { members: self.members_in(BucketSet(member_buckets)), records, want }
            }
        };
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
        let round = match self.syncs.under_way.remove(&exchange) {
            Some(round) if round.to == *from => round,
            _ => return refuse(out, Refusal::Unasked, from),
        };
        let reply = match codec::decode::<SyncReply>(bytes) {
            Ok(reply) => reply,
            Err(error) => return refuse(out, refusal_of(&error), from),
        };
        match (round.first, reply) {
            (true, SyncReply::Same) => self.heard_from(now, out),
            (true, SyncReply::Buckets { members, records }) => {
                let fits = |buckets: &[u64]| buckets.is_empty() || buckets.len() == BUCKETS;
                if !fits(&members) || !fits(&records) {
                    return refuse(out, Refusal::Malformed, from);
                }
                self.heard_from(now, out);
                let differing =
                    (self.members_summary().differing(&members), self.records.summary().differing(&records));
                self.go_on(now, round, differing, out);
            }
            (false, SyncReply::Delta { members, records, want }) => {
                self.learn(now, from, members, out);
                self.take_records(now, from, records, out);
                if want.is_empty() {
                    return;
                }
                let push = SyncPush { records: self.records.take(now.mono, &want, RECORD_BUDGET) };
                match codec::encode(&push) {
                    Ok(bytes) => out.push(Output::SyncPush { exchange, bytes }),
                    Err(error) => refuse(out, refusal_of(&error), from),
                }
            }
            (true, SyncReply::Delta { .. }) | (false, SyncReply::Same | SyncReply::Buckets { .. }) => {
                refuse(out, Refusal::Unasked, from);
            }
        }
    }

    pub(super) fn sync_pushed(&mut self, now: Now, from: &NodeName, bytes: &[u8], out: &mut Vec<Output>) {
        match codec::decode::<SyncPush>(bytes) {
            Ok(push) => self.take_records(now, from, push.records, out),
            Err(error) => refuse(out, refusal_of(&error), from),
        }
    }

    fn open(&mut self, now: Now, to: NodeName, addr: SocketAddr, out: &mut Vec<Output>) {
        if self.syncs.under_way.len() >= MAX_UNDER_WAY {
            return;
        }
        let ask = SyncAsk::Roots { members: self.members_summary().root(), records: self.records.summary().root() };
        self.ask(Round { to, addr, until: now.mono.plus_ms(PATIENCE_MS), first: true }, &ask, out);
    }

    /// The second round, about the buckets of members and of records that differ.
    fn go_on(&mut self, now: Now, round: Round, differing: (BucketSet, BucketSet), out: &mut Vec<Output>) {
        // What does not fit this time begins the next one, by chance at least.
        let first = self.rng.random_range(0..BUCKETS);
        let (record_buckets, digest) = self.records.digest(differing.1, first, DIGEST_BUDGET);
        let ask = SyncAsk::Entries {
            member_buckets: differing.0.0,
            members: self.members_in(differing.0),
            record_buckets: record_buckets.0,
            digest,
        };
        self.ask(Round { until: now.mono.plus_ms(PATIENCE_MS), first: false, ..round }, &ask, out);
    }

    fn ask(&mut self, round: Round, ask: &SyncAsk, out: &mut Vec<Output>) {
        match codec::encode(ask) {
            Ok(bytes) => {
                let exchange = self.syncs.next_exchange;
                self.syncs.next_exchange += 1;
                out.push(Output::SyncAsk { exchange, to: round.to.clone(), addr: round.addr, bytes });
                self.syncs.under_way.insert(exchange, round);
            }
            Err(error) => out.push(Output::Refused { reason: refusal_of(&error), from: None }),
        }
    }

    /// Everyone who is not down, in short.
    fn members_summary(&self) -> Summary {
        let up = |member: &foca::Member<Member>| {
            (member.state() != foca::State::Down).then(|| Entry::of_member(member.id(), member.state()))
        };
        let me = Entry::of_member(self.membership.identity(), foca::State::Alive);
        self.membership.known().filter_map(up).chain([me]).collect()
    }

    /// Everyone in `buckets`, those that are down included.
    fn members_in(&self, buckets: BucketSet) -> Vec<foca::Member<Member>> {
        let me = foca::Member::alive(self.membership.identity().clone());
        let is_in = |member: &foca::Member<Member>| Entry::of_member(member.id(), member.state()).is_in(buckets);
        std::iter::once(me).chain(self.membership.known().cloned()).filter(is_in).collect()
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
                news.extend(self.judge(now, from, member, out));
            } else if member.state() == foca::State::Down {
                // Whoever was never met is not missed. Members told one another for ever of those
                // that are gone for good, if this were taken in.
            } else if room > 0 {
                room -= 1;
                news.push(member);
            } else {
                refuse(out, Refusal::TooManyMembers, from);
            }
        }
        for claim in &about_me {
            self.rival(claim, out);
            self.outrank(now, claim.id(), out);
        }
        for claim in about_me {
            news.extend(self.judge(now, from, claim, out));
        }
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

#[cfg(test)]
mod tests {
    use super::super::super::{Input, MeshSize, Settings};
    use super::*;
    use crate::core::Core;

    #[test]
    fn a_lone_node_that_hears_nothing_of_a_round_opens_another_once_it_took_too_long() {
        let name = |text: &str| NodeName::new(text).unwrap();
        let addr = "127.0.0.1:1".parse().unwrap();
        let mut core = MeshCore::new(Settings {
            node: name("p0"),
            cluster: "c".to_owned(),
            ca_der: Vec::new(),
            addr,
            generation: 7,
            size: MeshSize::Lan,
            seed: 1,
        });
        let mut opened = |ms: u64, seed: &str| -> usize {
            let mut out = Vec::new();
            let now = Now { mono: Mono(0).plus_ms(ms), wall_ms: 1_800_000_000_000 };
            core.step(now, Input::SeedSeen { node: name(seed), addr }, &mut out);
            out.iter().filter(|output| matches!(output, Output::SyncAsk { .. })).count()
        };
        assert_eq!(opened(0, "d0"), 1);
        assert_eq!(opened(PATIENCE_MS - 1, "d0"), 0, "one is under way");
        assert_eq!(opened(PATIENCE_MS, "d0"), 1);
        // Rounds that came to nothing do not count towards the limit either.
        for seed in 1..MAX_UNDER_WAY {
            assert_eq!(opened(PATIENCE_MS, &format!("d{seed}")), 1);
        }
        assert_eq!(opened(PATIENCE_MS, "d8"), 0, "the limit");
        assert_eq!(opened(2 * PATIENCE_MS, "d8"), 1);
    }
}
