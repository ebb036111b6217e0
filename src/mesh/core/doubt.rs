//! Whose word it is that a member is down.
//!
//! A member that is really down was suspected everywhere before: whoever probed it in vain told the
//! others, and waited. So a claim that comes out of the blue, of a member that cannot hear well or
//! that lies, is not believed; it raises a suspicion, which a member that is there refutes.

use std::collections::BTreeMap;

use super::super::membership::Suspicion;
use super::super::{Member, Refusal};
use crate::core::{Mono, Now};
use crate::model::NodeName;

/// A member that others take for down appears anew at most this often, in milliseconds.
const REAPPEAR_EVERY_MS: u64 = 5_000;

/// Since when members are suspected.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    since: BTreeMap<NodeName, Doubt>,
    reappeared: Option<Mono>,
}

#[derive(Debug)]
struct Doubt {
    member: Member,
    incarnation: foca::Incarnation,
    since: Mono,
    /// When a claim last raised the suspicion anew.
    raised: Option<Mono>,
}

/// What becomes of a claim about another member.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts as it is.
    Believed,
    /// It does not count.
    Refused(Refusal),
    /// It does not count, but this suspicion takes its place.
    Doubted(foca::Member<Member>),
}

impl Doubts {
    /// A suspicion arose here, or somebody brought one. One of the same appearance is older.
    pub(super) fn note(&mut self, now: Now, suspicion: &Suspicion) {
        let Suspicion { member, incarnation } = suspicion;
        let known = self.since.get(&member.name);
        if known.is_some_and(|doubt| doubt.member == *member && doubt.incarnation >= *incarnation) {
            return;
        }
        let raised = known.and_then(|doubt| doubt.raised);
        let doubt = Doubt { member: member.clone(), incarnation: *incarnation, since: now.mono, raised };
        self.since.insert(member.name.clone(), doubt);
    }

    /// Forgets what is no longer a member of any kind.
    pub(super) fn forget(&mut self, name: &NodeName) {
        self.since.remove(name);
    }

    /// Judges the claim that a member is down which this node knows as `known` and which is not
    /// down here. It counts once the suspicion is `patience_ms` old.
    pub(super) fn judge(&mut self, now: Now, known: &foca::Member<Member>, patience_ms: u64) -> Verdict {
        let suspected = known.state() == foca::State::Suspect;
        let doubt = self.since.get_mut(&known.id().name).filter(|doubt| doubt.member == *known.id());
        if let Some(doubt) = doubt {
            if suspected && doubt.incarnation == known.incarnation() && now.mono.ms_since(doubt.since) >= patience_ms {
                return Verdict::Believed;
            }
            if suspected || doubt.raised.is_some_and(|raised| now.mono.ms_since(raised) < 2 * patience_ms) {
                return Verdict::Refused(Refusal::UnprovenDown);
            }
        }
        let suspicion = Suspicion { member: known.id().clone(), incarnation: known.incarnation() };
        self.note(now, &suspicion);
        if let Some(doubt) = self.since.get_mut(&known.id().name) {
            doubt.raised = Some(now.mono);
        }
        Verdict::Doubted(foca::Member::new(suspicion.member, suspicion.incarnation, foca::State::Suspect))
    }

    /// Whether this node may appear anew because others take it for down.
    pub(super) fn may_reappear(&mut self, now: Now) -> bool {
        let may = self.reappeared.is_none_or(|last| now.mono.ms_since(last) >= REAPPEAR_EVERY_MS);
        if may {
            self.reappeared = Some(now.mono);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::membership::Membership;
    use super::super::super::wire::SyncAsk;
    use super::super::super::{Input, MeshCore, MeshEvent, MeshSize, Output, Settings};
    use super::*;
    use crate::codec::{self, Blob};
    use crate::core::Core as _;
    use foca::{Header, Message, State};

    const WALL_MS: u64 = 1_800_000_000_000;

    fn member(name: &str) -> Member {
        let name = NodeName::new(name).unwrap();
        Member { name, addr: "10.0.0.1:7".parse().unwrap(), generation: WALL_MS, renewals: 0 }
    }

    /// What comes of a step at `ms`: reasons of refusal, and whether `x` is gone and this node anew.
    fn step(core: &mut MeshCore, ms: u64, input: Input) -> (Vec<Refusal>, bool, bool) {
        let mut out = Vec::new();
        core.step(Now { mono: Mono(1).plus_ms(ms), wall_ms: WALL_MS + ms }, input, &mut out);
        let reasons = out.iter().filter_map(|output| match output {
            Output::Refused { reason, .. } => Some(*reason),
            _ => None,
        });
        let gone =
            |output: &Output| matches!(output, Output::Event(MeshEvent::Gone { node, .. }) if node.as_str() == "x");
        let anew = |output: &Output| matches!(output, Output::Renewed(_));
        (reasons.collect(), out.iter().any(gone), out.iter().any(anew))
    }

    fn packet(core: &MeshCore, from: &str, message: Message<Member>, claims: &[foca::Member<Member>]) -> Input {
        let header = Header { src: member(from), src_incarnation: 0, dst: core.identity().clone(), message };
        let bytes = Membership::repack(&header, claims).unwrap();
        Input::Packet { from: member(from).name, bytes: Blob(bytes) }
    }

    fn met() -> MeshCore {
        let mut core = MeshCore::new(Settings {
            node: member("me").name,
            cluster: "c".to_owned(),
            ca_der: Vec::new(),
            addr: member("me").addr,
            generation: WALL_MS,
            size: MeshSize::Lan,
            seed: 1,
        });
        let members = ["liar", "x"].map(|name| foca::Member::alive(member(name))).to_vec();
        let ask = SyncAsk::Entries { member_buckets: 0, members, record_buckets: 0, digest: Vec::new() };
        let bytes = Blob(codec::encode(&ask).unwrap());
        step(&mut core, 0, Input::SyncAsked { exchange: 1, from: member("liar").name, bytes });
        assert_eq!(core.live_count(), 2);
        core
    }

    #[test]
    fn a_packets_claim_that_another_is_down_counts_after_a_suspicion_and_of_oneself_at_once() {
        let mut core = met();
        let claim = |name, state| [foca::Member::new(member(name), 0, state)];
        let down = packet(&core, "liar", Message::Gossip, &claim("x", State::Down));
        assert_eq!(step(&mut core, 10, down.clone()), (vec![Refusal::UnprovenDown], false, false));
        assert_eq!(step(&mut core, 500, down.clone()), (vec![Refusal::UnprovenDown], false, false), "too soon");
        assert_eq!(step(&mut core, 1_100, down), (vec![], true, false), "it had its time to refute it");

        let mut core = met();
        let suspect = packet(&core, "liar", Message::Gossip, &claim("x", State::Suspect));
        step(&mut core, 10, suspect);
        let refuted = [foca::Member::new(member("x"), 1, State::Alive)];
        let refuted = packet(&core, "x", Message::Gossip, &refuted);
        step(&mut core, 600, refuted);
        let itself = packet(&core, "x", Message::Gossip, &claim("x", State::Down));
        assert_eq!(step(&mut core, 700, itself), (vec![], true, false), "it says so itself");
    }

    #[test]
    fn a_node_that_is_told_that_it_is_down_appears_anew_but_not_each_time() {
        let mut core = met();
        let mut anew = 0;
        for ms in 0..9_000 {
            let told = if ms % 2 == 0 {
                packet(&core, "liar", Message::TurnUndead, &[])
            } else {
                let claim = foca::Member::new(core.identity().clone(), 0, State::Down);
                packet(&core, "liar", Message::Gossip, &[claim])
            };
            anew += u32::from(step(&mut core, 10 + ms, told).2);
        }
        assert_eq!(anew, 2);
    }
}
