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
