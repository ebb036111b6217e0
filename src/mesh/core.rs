//! The turn of the mesh core: what is due, then the input, then what follows from both.

mod doubt;
mod own;
mod sync;

use std::collections::BTreeMap;

use foca::OwnedNotification;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::membership::{Effects, Membership, Suspicion};
use super::records::{Body, Records};
use super::size::Beat;
use super::summary::{FNV_BASIS, fnv};
use super::wire::{Aged, Envelope, RecordKind};
use super::{Input, MAX_AHEAD_MS, MAX_MEMBERS, MAX_PACKET, Member, MemberState, MeshEvent, Output, Refusal, Settings};
use crate::codec::{self, CodecError, PacketReader};
use crate::core::{Core, Mono, Now};
use crate::model::{Generation, NodeName, NodeRecord, PathsRecord};
use doubt::{Doubts, Verdict};
use own::Own;
use sync::Syncs;

/// The state of one node's mesh.
pub struct MeshCore {
    settings: Settings,
    beat: Beat,
    membership: Membership,
    /// Who takes part, this node excepted.
    live: BTreeMap<NodeName, Member>,
    records: Records,
    own: Own,
    syncs: Syncs,
    doubts: Doubts,
    /// When anything last arrived from anyone.
    heard: Option<Mono>,
    /// Who was known when this node went deaf, while it is.
    before_deaf: Option<Vec<foca::Member<Member>>>,
    left: bool,
    /// It has taken a turn.
    run: bool,
    rng: ChaCha8Rng,
}

/// Enough to make a core that has yet to start: a tape of the mesh begins with a life.
///
/// foca's state cannot be written down, so a core that ran for a while cannot be made again from
/// its snapshot alone; fed its tape from the first input on, it can.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What the core was made with.
    pub settings: Settings,
}

/// A record as the API shows it.
#[derive(Clone, Debug)]
pub struct RecordView<'a> {
    /// The record.
    pub envelope: &'a Envelope,
    /// How long ago it was written, as far as this node knows, in milliseconds.
    pub age_ms: u64,
}

impl MeshCore {
    /// A node that knows nobody yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let beat = settings.size.beat();
        let seed = own_seed(&settings);
        let identity =
            Member { name: settings.node.clone(), addr: settings.addr, generation: settings.generation, renewals: 0 };
        Self {
            beat,
            membership: Membership::new(identity, &beat, seed),
            live: BTreeMap::new(),
            records: Records::new(settings.cluster.clone(), settings.ca_der.clone()),
            own: Own::default(),
            syncs: Syncs::default(),
            doubts: Doubts::default(),
            heard: None,
            before_deaf: None,
            left: false,
            run: false,
            rng: ChaCha8Rng::seed_from_u64(!seed),
            settings,
        }
    }

    /// Whether it has taken a turn: from then on its snapshot alone does not make it again.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.run
    }

    /// This node as others see it.
    #[must_use]
    pub fn identity(&self) -> &Member {
        self.membership.identity()
    }

    /// Everyone known, this node excepted, those that are down included.
    pub fn members(&self) -> impl Iterator<Item = (&Member, MemberState)> {
        self.membership.known().map(|member| (member.id(), member.state().into()))
    }

    /// How many others take part.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// What a node says it is, this node included.
    #[must_use]
    pub fn node_record(&self, node: &NodeName) -> Option<&NodeRecord> {
        self.records.node(node).map(AsRef::as_ref)
    }

    /// Every record that holds.
    pub fn records(&self, now: Now) -> impl Iterator<Item = RecordView<'_>> {
        self.records.iter(now.mono).map(|(envelope, age_ms)| RecordView { envelope, age_ms })
    }

    fn input(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::SeedSeen { node, addr } => self.seed_seen(now, node, addr, out),
            Input::Packet { from, bytes } => self.packet(now, &from, &bytes.0, out),
            Input::SyncAsked { exchange, from, bytes } => self.sync_asked(now, exchange, &from, &bytes.0, out),
            Input::SyncReplied { exchange, from, bytes } => self.sync_replied(now, exchange, &from, &bytes.0, out),
            Input::SyncPushed { from, bytes } => self.sync_pushed(now, &from, &bytes.0, out),
            Input::SyncFailed { exchange } => self.syncs.ended(exchange),
            Input::PublishNode(record) => self.publish_node(now, &record, out),
            Input::PublishLoad(record) => self.publish_load(now, &record, out),
            Input::PublishPaths(chunks) => self.publish_paths(now, &chunks, out),
            Input::Signed { kind, seq, signature } => self.signed(now, kind, seq, signature, out),
            Input::Leave => self.leave(now, out),
            Input::Tick => {}
        }
    }

    fn fire(&mut self, now: Now, out: &mut Vec<Output>) {
        self.listen(now);
        let mut effects = Effects::default();
        while self.membership.fire(now.mono, &mut effects) {
            self.follow(now, &mut effects, out);
        }
        for (origin, kind) in self.records.expire(now.mono) {
            self.expired(origin, kind, out);
        }
        self.refresh(now, out);
        self.sync_if_due(now, out);
    }

    fn expired(&mut self, origin: NodeName, kind: RecordKind, out: &mut Vec<Output>) {
        if origin == self.settings.node {
            return;
        }
        match kind {
            // Whoever takes part is not gone, and its leases are not void, because it was not heard
            // for a while. Without its key nothing new of it is believed: its headroom grows old.
            RecordKind::Node | RecordKind::Load => {}
            RecordKind::Paths(chunk) => {
                let record = PathsRecord { chunk, paths: Vec::new() };
                out.push(Output::Event(MeshEvent::Paths { observer: origin, record }));
            }
        }
    }

    fn packet(&mut self, now: Now, from: &NodeName, bytes: &[u8], out: &mut Vec<Output>) {
        let packet = match PacketReader::<Member>::read(bytes, MAX_PACKET) {
            Ok(packet) => packet,
            Err(error) => return refuse(out, refusal_of(&error), from),
        };
        if packet.header.src.name != *from {
            return refuse(out, Refusal::WrongSource, from);
        }
        let claims = || std::iter::once(&packet.header.src).chain(packet.members.iter().map(foca::Member::id));
        for claim in claims() {
            if let Err(reason) = in_time(now, claim).and_then(|()| self.room_for(claim)) {
                return refuse(out, reason, from);
            }
        }
        self.heard_from(now, out);
        for claim in claims() {
            self.outrank(now, claim, out);
        }
        // This says in as many words that the receiver is down.
        if packet.header.message == foca::Message::TurnUndead
            && packet.header.dst == *self.membership.identity()
            && !self.doubts.may_reappear(now)
        {
            return refuse(out, Refusal::UnprovenDown, from);
        }
        let mut effects = Effects::default();
        let before = packet.members.len();
        let mut doubted = false;
        let mut members = Vec::with_capacity(before);
        for claim in packet.members {
            self.rival(&claim, out);
            let said = claim.clone();
            let judged = self.judge(now, from, claim, out);
            doubted |= judged.as_ref() != Some(&said);
            members.extend(judged);
        }
        if doubted {
            match Membership::repack(&packet.header, &members) {
                Ok(bytes) => self.membership.packet(now.mono, &bytes, &mut effects),
                Err(error) => return refuse(out, refusal_of(&error), from),
            }
        } else {
            self.membership.packet(now.mono, packet.membership, &mut effects);
        }
        self.follow(now, &mut effects, out);
        for bytes in packet.records {
            let envelope = codec::decode::<Envelope>(bytes).map_err(|error| refusal_of(&error));
            let aged = envelope.map(|envelope| Aged { age_ms: 0, envelope });
            if let Err(reason) = aged.and_then(|aged| self.record(now, aged, Some(bytes), out)) {
                refuse(out, reason, from);
            }
        }
    }

    /// Whether there is room for a member.
    fn room_for(&self, member: &Member) -> Result<(), Refusal> {
        let mut known = self.membership.known();
        if known.len() < MAX_MEMBERS || member.name == self.settings.node || known.any(|m| m.id().name == member.name) {
            return Ok(());
        }
        Err(Refusal::TooManyMembers)
    }

    /// What counts of a claim that `from` brought; nothing of it may.
    fn judge(
        &mut self,
        now: Now,
        from: &NodeName,
        claim: foca::Member<Member>,
        out: &mut Vec<Output>,
    ) -> Option<foca::Member<Member>> {
        let refused = |out: &mut Vec<Output>| {
            refuse(out, Refusal::UnprovenDown, from);
            None
        };
        if *claim.id() == *self.membership.identity() {
            // A suspicion of the last incarnation there is cannot be refuted otherwise either.
            let over = claim.state() == foca::State::Down
                || claim.state() == foca::State::Suspect && claim.incarnation() == foca::Incarnation::MAX;
            return if over && !self.doubts.may_reappear(now) { refused(out) } else { Some(claim) };
        }
        match claim.state() {
            foca::State::Alive => return Some(claim),
            foca::State::Suspect => {
                let suspicion = Suspicion { member: claim.id().clone(), incarnation: claim.incarnation() };
                if self.live.get(&claim.id().name) == Some(claim.id()) {
                    self.doubts.note(now, &suspicion);
                }
                return Some(claim);
            }
            // Everybody may say so of itself.
            foca::State::Down if claim.id().name == *from => return Some(claim),
            foca::State::Down => {}
        }
        let name = &claim.id().name;
        let known = self.membership.get(name).filter(|known| known.state() != foca::State::Down);
        let Some(known) = known.filter(|known| !known.id().supersedes(claim.id())) else { return Some(claim) };
        match self.doubts.judge(now, known, self.beat.doubt_ms()) {
            Verdict::Believed => Some(claim),
            Verdict::Refused(reason) => {
                refuse(out, reason, from);
                None
            }
            Verdict::Doubted(suspicion) => {
                refuse(out, Refusal::UnprovenDown, from);
                Some(suspicion)
            }
        }
    }

    /// Tells of a claim that this node's name takes part at another address: a process that should
    /// not be, or an earlier life that nobody has missed yet.
    fn rival(&self, claim: &foca::Member<Member>, out: &mut Vec<Output>) {
        let Member { name, addr, .. } = claim.id();
        if *name == self.settings.node && *addr != self.settings.addr && claim.state() != foca::State::Down {
            out.push(Output::Rival { addr: *addr });
        }
    }

    /// Takes the place of any later appearance of this node's own name: it can only be a life that
    /// is over, or a claim that is false.
    fn outrank(&mut self, now: Now, claim: &Member, out: &mut Vec<Output>) {
        let mine = self.membership.identity();
        if claim.name != mine.name || !claim.supersedes(mine) {
            return;
        }
        let generation = claim.generation.max(mine.generation).saturating_add(1);
        if generation > now.wall_ms.saturating_add(MAX_AHEAD_MS) || !self.own.may_outrank(now) {
            return;
        }
        let identity = Member { generation, renewals: 0, ..mine.clone() };
        let mut effects = Effects::default();
        self.membership.become_identity(now.mono, identity, &mut effects);
        self.follow(now, &mut effects, out);
        out.push(Output::Renewed(self.membership.identity().clone()));
        self.records.drop_origin(&self.settings.node);
        self.publish_again(now, out);
    }

    /// Takes a record that somebody brought; `rumour` is its bytes if it came as one.
    fn record(&mut self, now: Now, aged: Aged, rumour: Option<&[u8]>, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let origin = aged.envelope.origin.clone();
        let generation = aged.envelope.generation;
        if origin == self.settings.node {
            let mine = self.own.wrote(&aged.envelope, self.membership.identity().generation);
            return if mine { Ok(()) } else { Err(Refusal::OwnName) };
        }
        if rumour.is_some() && aged.envelope.kind == RecordKind::Node {
            return Err(Refusal::TooLarge);
        }
        let life = self.live.get(&origin).map(|member| member.generation);
        let before = self.records.node(&origin).cloned();
        let Some(body) = self.records.accept(now, life, aged)? else { return Ok(()) };
        if let Some(rumour) = rumour {
            self.membership.spread(rumour);
        }
        match body {
            Body::Node(record) if before.as_ref() == Some(&record) => {}
            Body::Node(record) => out.push(Output::Event(MeshEvent::Node { generation, record })),
            Body::Load(record) => out.push(Output::Event(MeshEvent::Load { node: origin, generation, record })),
            Body::Paths(record) => out.push(Output::Event(MeshEvent::Paths { observer: origin, record })),
        }
        Ok(())
    }

    /// Carries out what membership decided.
    fn follow(&mut self, now: Now, effects: &mut Effects, out: &mut Vec<Output>) {
        if std::mem::take(&mut effects.failed) {
            out.push(Output::Refused { reason: Refusal::Protocol, from: None });
        }
        for suspicion in effects.suspicions.drain(..) {
            self.doubts.note(now, &suspicion);
        }
        for note in effects.notes.drain(..) {
            match note {
                OwnedNotification::MemberUp(member) => self.up(now, member, out),
                OwnedNotification::MemberDown(member) => self.down(now, &member, out),
                OwnedNotification::Rename(old, new) => self.renamed(now, &old, new, out),
                OwnedNotification::Active => self.syncs.soon(now, &self.beat),
                OwnedNotification::Rejoin(member) => {
                    out.push(Output::Renewed(member));
                    self.syncs.soon(now, &self.beat);
                }
                OwnedNotification::Idle | OwnedNotification::Defunct => {}
            }
        }
        if self.deaf(now) {
            effects.sends.clear();
        }
        for (to, bytes) in effects.sends.drain(..) {
            out.push(Output::Packet { to: to.name, addr: to.addr, bytes });
        }
    }

    fn up(&mut self, now: Now, member: Member, out: &mut Vec<Output>) {
        self.syncs.soon(now, &self.beat);
        out.push(Output::Member { member: member.clone(), state: MemberState::Alive });
        self.live.insert(member.name.clone(), member);
    }

    fn down(&mut self, now: Now, member: &Member, out: &mut Vec<Output>) {
        self.syncs.a_few(now, &self.beat);
        self.doubts.forget(&member.name);
        if let Some(member) = self.live.remove(&member.name) {
            self.gone(&member.name, member.generation, out);
            out.push(Output::Member { member, state: MemberState::Down });
        }
    }

    fn renamed(&mut self, now: Now, old: &Member, new: Member, out: &mut Vec<Output>) {
        // Without a change of liveness nothing but this says that the old appearance is over.
        if self.live.contains_key(&new.name) {
            if old.generation != new.generation {
                self.gone(&old.name, old.generation, out);
            }
            self.up(now, new, out);
        }
    }

    fn gone(&mut self, node: &NodeName, generation: Generation, out: &mut Vec<Output>) {
        self.records.drop_origin(node);
        out.push(Output::Event(MeshEvent::Gone { node: node.clone(), generation }));
    }

    /// A node that hears nobody may be the only one that cannot hear, and must not spread its
    /// belief that all the others are down. Exchanges go on, and end the silence.
    fn deaf(&self, now: Now) -> bool {
        self.heard.is_some_and(|heard| now.mono.ms_since(heard) >= self.beat.deaf)
    }

    /// Remembers who was there before this node went deaf.
    fn listen(&mut self, now: Now) {
        if self.before_deaf.is_none() && self.deaf(now) {
            self.before_deaf = Some(self.membership.known().cloned().collect());
        }
    }

    /// Somebody was heard. What a deaf node concluded meanwhile is forgotten: it appears anew among
    /// those who were there before.
    fn heard_from(&mut self, now: Now, out: &mut Vec<Output>) {
        self.heard = Some(now.mono);
        let Some(before) = self.before_deaf.take() else { return };
        let unchanged = before
            .iter()
            .filter(|member| member.state() != foca::State::Down)
            .all(|member| self.live.get(&member.id().name) == Some(member.id()));
        let Some(identity) = foca::Identity::renew(self.membership.identity()).filter(|_| !unchanged) else { return };
        self.membership = Membership::new(identity.clone(), &self.beat, self.rng.random());
        out.push(Output::Renewed(identity));
        let mut effects = Effects::default();
        self.membership.learn(now.mono, before, false, &mut effects);
        self.follow(now, &mut effects, out);
    }

    fn leave(&mut self, now: Now, out: &mut Vec<Output>) {
        // Others believe it at once only of this node itself.
        let farewell = |member: &Member| Some((member.clone(), self.membership.farewell(member).ok()?));
        let farewells: Vec<_> = self.live.values().filter_map(farewell).collect();
        let mut effects = Effects::default();
        self.membership.leave(now.mono, &mut effects);
        effects.notes.clear();
        effects.sends = farewells;
        self.follow(now, &mut effects, out);
        self.left = true;
    }
}

impl Core for MeshCore {
    type Input = Input;
    type Output = Output;
    type Snapshot = Snapshot;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.run = true;
        if self.left {
            return;
        }
        self.fire(now, out);
        self.input(now, input, out);
    }

    fn deadline(&self) -> Option<Mono> {
        if self.left {
            return None;
        }
        let sync = self.syncs.due().filter(|_| !self.live.is_empty());
        [self.membership.deadline(), self.records.next_expiry(), self.own.due(), sync].into_iter().flatten().min()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { settings: self.settings.clone() }
    }

    fn restore(snapshot: Snapshot) -> Self {
        Self::new(snapshot.settings)
    }
}

/// The seed of this node in this life: nodes that are given the same seed must not make the same
/// choices.
fn own_seed(settings: &Settings) -> u64 {
    let hash = fnv(FNV_BASIS, &settings.seed.to_le_bytes());
    fnv(fnv(hash, &settings.generation.to_le_bytes()), settings.node.as_str().as_bytes())
}

/// Whether a member's life can have begun.
fn in_time(now: Now, member: &Member) -> Result<(), Refusal> {
    if member.generation > now.wall_ms.saturating_add(MAX_AHEAD_MS) {
        return Err(Refusal::FutureGeneration);
    }
    Ok(())
}

fn refuse(out: &mut Vec<Output>, reason: Refusal, from: &NodeName) {
    out.push(Output::Refused { reason, from: Some(from.clone()) });
}

fn refusal_of(error: &CodecError) -> Refusal {
    if matches!(error, CodecError::TooLong { .. }) { Refusal::TooLarge } else { Refusal::Malformed }
}
