//! Who is alive: foca, with its timers kept here and its effects collected.

use std::collections::BTreeMap;
use std::time::Duration;

use foca::{Foca, Incarnation, Invalidates, Notification, OwnedNotification, Runtime, Timer};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::Member;
use super::size::Beat;
use super::wire::{Envelope, RecordKind};
use crate::codec::{self, CodecError, PacketCodec};
use crate::core::Mono;
use crate::model::{Generation, NodeName};

/// At most this many rumours are under way at once.
const MAX_RUMOURS: usize = 2048;

/// The membership protocol of one node.
pub(crate) struct Membership {
    foca: Foca<Member, PacketCodec, ChaCha8Rng, Rumours>,
    /// foca needs every one of them back; those due at once fire in the order they were made.
    timers: BTreeMap<(Mono, u64), Timer<Member>>,
    next_timer: u64,
    /// The timers that forget who is down, one a name: whoever comes and goes all the time must not
    /// leave one behind each time, for a day.
    forgetting: BTreeMap<NodeName, (Mono, u64)>,
}

/// What a call into foca led to.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) sends: Vec<(Member, Vec<u8>)>,
    pub(crate) notes: Vec<OwnedNotification<Member>>,
    /// Whom this node suspects from now on, by its own probes.
    pub(crate) suspicions: Vec<Suspicion>,
    /// foca found something odd, and went on.
    pub(crate) failed: bool,
    timers: Vec<(Timer<Member>, Duration)>,
}

/// An appearance of a member that is suspected; it refutes with a higher incarnation.
#[derive(Debug)]
pub(crate) struct Suspicion {
    pub(crate) member: Member,
    pub(crate) incarnation: Incarnation,
}

impl Membership {
    pub(crate) fn new(identity: Member, beat: &Beat, seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let foca = Foca::with_custom_broadcast(identity, beat.config(), rng, PacketCodec, Rumours);
        Self { foca, timers: BTreeMap::new(), next_timer: 0, forgetting: BTreeMap::new() }
    }

    pub(crate) fn identity(&self) -> &Member {
        self.foca.identity()
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }

    /// Everyone known, this node excepted, those that are down included.
    pub(crate) fn known(&self) -> impl ExactSizeIterator<Item = &foca::Member<Member>> {
        self.foca.iter_membership_state()
    }

    /// Fires the first timer that is due, if one is.
    pub(crate) fn fire(&mut self, now: Mono, effects: &mut Effects) -> bool {
        let Some(first) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) else { return false };
        let timer = first.remove();
        let suspected = match &timer {
            Timer::ChangeSuspectToDown { member_id, .. } => Some(member_id.clone()),
            Timer::RemoveDown(member) => {
                self.forgetting.remove(&member.name);
                None
            }
            _ => None,
        };
        let sent = effects.sends.len();
        self.run(now, effects, |foca, effects| foca.handle_timer(timer, effects));
        let is_down = |member: &Member| {
            self.get(&member.name).is_some_and(|known| known.id() == member && known.state() == foca::State::Down)
        };
        if suspected.is_some_and(|member| !is_down(&member)) {
            // It refuted the suspicion in time; foca would tell it that it is down all the same.
            effects.sends.truncate(sent);
        }
        true
    }

    /// Takes the membership part of a packet.
    pub(crate) fn packet(&mut self, now: Mono, packet: &[u8], effects: &mut Effects) {
        self.run(now, effects, |foca, effects| foca.handle_data(packet, effects));
    }

    /// What is known of a name.
    pub(crate) fn get(&self, name: &NodeName) -> Option<&foca::Member<Member>> {
        self.known().find(|member| member.id().name == *name)
    }

    /// A packet's membership part with other claims in it.
    pub(crate) fn repack(
        header: &foca::Header<Member>,
        claims: &[foca::Member<Member>],
    ) -> Result<Vec<u8>, CodecError> {
        use foca::Codec as _;
        let mut bytes = Vec::with_capacity(super::MAX_PACKET);
        PacketCodec.encode_header(header, &mut bytes)?;
        // As many as there were at most, so the number fits.
        bytes.extend(u16::try_from(claims.len()).unwrap_or_default().to_be_bytes());
        for claim in claims {
            PacketCodec.encode_member(claim, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// The packet by which a member that leaves tells another so itself.
    pub(crate) fn farewell(&self, to: &Member) -> Result<Vec<u8>, CodecError> {
        let me = self.identity().clone();
        let claims = [foca::Member::down(me.clone())];
        let header = foca::Header { src: me, src_incarnation: 0, dst: to.clone(), message: foca::Message::Gossip };
        Self::repack(&header, &claims)
    }

    /// Takes what another member knows of everyone, and spreads it if asked to.
    pub(crate) fn learn(&mut self, now: Mono, members: Vec<foca::Member<Member>>, spread: bool, effects: &mut Effects) {
        self.run(now, effects, |foca, effects| foca.apply_many(members.into_iter(), spread, effects));
    }

    /// Hands a record to the rumours. It was judged before. With too many under way it is left to
    /// the exchanges, which says false.
    pub(crate) fn spread(&mut self, record: &[u8]) -> bool {
        self.foca.custom_broadcast_backlog() < MAX_RUMOURS && self.foca.add_broadcast(record).unwrap_or(false)
    }

    /// Appears anew as `identity`.
    pub(crate) fn become_identity(&mut self, now: Mono, identity: Member, effects: &mut Effects) {
        self.run(now, effects, |foca, effects| {
            foca.change_identity(identity, &mut *effects)?;
            // Lets it notice that it still has company, and take up its timers again.
            foca.apply_many(std::iter::empty(), false, effects)
        });
    }

    pub(crate) fn leave(&mut self, now: Mono, effects: &mut Effects) {
        self.run(now, effects, |foca, effects| foca.leave_cluster(effects));
        self.timers.clear();
        self.forgetting.clear();
    }

    fn run(
        &mut self,
        now: Mono,
        effects: &mut Effects,
        call: impl FnOnce(&mut Foca<Member, PacketCodec, ChaCha8Rng, Rumours>, &mut Effects) -> Result<(), foca::Error>,
    ) {
        effects.failed |= call(&mut self.foca, effects).is_err();
        for (timer, after) in effects.timers.drain(..) {
            if let Timer::ChangeSuspectToDown { member_id, incarnation, .. } = &timer {
                effects.suspicions.push(Suspicion { member: member_id.clone(), incarnation: *incarnation });
            }
            let due = now.plus_ms(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            let key = (due, self.next_timer);
            if let Timer::RemoveDown(member) = &timer
                && let Some(earlier) = self.forgetting.insert(member.name.clone(), key)
            {
                // It was for an earlier appearance, which this one has replaced.
                self.timers.remove(&earlier);
            }
            self.timers.insert(key, timer);
            self.next_timer += 1;
        }
    }
}

impl Runtime<Member> for Effects {
    fn notify(&mut self, notification: Notification<'_, Member>) {
        self.notes.push(notification.to_owned());
    }

    fn send_to(&mut self, to: Member, data: &[u8]) {
        self.sends.push((to, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Member>, after: Duration) {
        self.timers.push((event, after));
    }
}

/// Tells foca which rumour replaces which. Rumours that arrive are taken out of the packet before
/// foca sees it, judged, and given back one by one, so nothing is decided here.
struct Rumours;

/// Which record a rumour is.
struct Rumour {
    origin: NodeName,
    kind: RecordKind,
    version: (Generation, u64),
}

impl Invalidates for Rumour {
    fn invalidates(&self, other: &Self) -> bool {
        self.kind == other.kind && self.origin == other.origin && self.version >= other.version
    }
}

impl foca::BroadcastHandler<Member> for Rumours {
    type Key = Rumour;
    type Error = CodecError;

    fn receive_item(&mut self, data: &[u8], sender: Option<&Member>) -> Result<Option<Rumour>, CodecError> {
        if sender.is_some() {
            return Ok(None);
        }
        let Envelope { origin, kind, generation, seq, .. } = codec::decode(data)?;
        Ok(Some(Rumour { origin, kind, version: (generation, seq) }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::MeshSize;
    use super::*;

    fn member(name: &str, renewals: u32) -> Member {
        let name = NodeName::new(name).unwrap();
        Member { name, addr: "10.0.0.1:7".parse().unwrap(), generation: 5, renewals }
    }

    #[test]
    fn whoever_comes_and_goes_a_thousand_times_leaves_one_timer_behind() {
        let mut membership = Membership::new(member("me", 0), &MeshSize::Lan.beat(), 1);
        let mut effects = Effects::default();
        for renewals in 0..1_000 {
            for state in [foca::State::Alive, foca::State::Down] {
                let claim = foca::Member::new(member("x", renewals), 0, state);
                membership.learn(Mono(0), vec![claim], true, &mut effects);
            }
        }
        let of_x = |timer: &&Timer<Member>| matches!(timer, Timer::RemoveDown(member) if member.name.as_str() == "x");
        assert_eq!(membership.timers.values().filter(of_x).count(), 1);
        while membership.fire(Mono(0).plus_ms(25 * 3_600_000), &mut effects) {}
        assert_eq!(membership.known().len(), 0, "it is forgotten after a day");
    }
}
