//! Lease calls between agents: straight over a stream, tried again while the network is cut.

use super::event::{Heard, Own};
use super::node::LedgerQuestion;
use super::wiring::CoreInput;
use super::world::World;
use crate::ledger;
use crate::model::{LeaseAsk, LeaseCall, LeaseCallReply, LeaseId, LeaseRefusal, LeaseReply, NodeName};
use crate::policy;

/// This long after the policy has gone on a grant is still heard, so that it can be given up.
const LATE_GRANT_MS: u64 = 5_000;
/// A hand-back is tried this often; agents try longer, by which a cut that outlasts these tries matters less to them.
const GIVE_BACK_TRIES: u32 = 3;
const GIVE_BACK_TIMEOUT_MS: u64 = 500;

/// A call that waits for its answer.
pub(super) struct Call {
    asker: usize,
    life: u32,
    to: usize,
    call: LeaseCall,
    /// Tries that are left.
    tries: u32,
}

impl World {
    pub(super) fn ask_lease(&mut self, asker: usize, host: &NodeName, ask: LeaseAsk, timeout_ms: u64) {
        let number = ask.ask;
        match self.index_of(host) {
            Some(to) => self.call(asker, to, LeaseCall::Ask(ask), 1, timeout_ms + LATE_GRANT_MS),
            None => self.answer_ask(asker, number, unreachable()),
        }
    }

    /// Ends a lease at the host that granted it.
    pub(super) fn hand_back(&mut self, asker: usize, lease: &LeaseId, call: LeaseCall) {
        if let Some(to) = self.index_of(&lease.node) {
            self.call(asker, to, call, GIVE_BACK_TRIES, GIVE_BACK_TIMEOUT_MS);
        }
    }

    fn call(&mut self, asker: usize, to: usize, call: LeaseCall, tries: u32, timeout_ms: u64) {
        let Some(life) = self.nodes.get(asker).map(|node| node.life) else { return };
        let ticket = self.next_id();
        self.calls.insert(ticket, Call { asker, life, to, call, tries });
        self.send(asker, to, Heard::LeaseCall { ticket });
        self.later(asker, timeout_ms, Own::LeaseTimeout { ticket });
    }

    /// A call arrives at the host that it was for.
    pub(super) fn lease_called(&mut self, node: usize, ticket: u64) {
        let Some((asker, call)) = self.calls.get(&ticket).map(|call| (call.asker, call.call.clone())) else { return };
        let Some(from) = self.nodes.get(asker).map(|node| node.name.clone()) else { return };
        if self.cores_mut(node).is_some_and(|cores| cores.ledger.is_some()) {
            self.ask_ledger(node, LedgerQuestion::Call { ticket }, |key| ledger::Input::Call { key, from, call });
        } else {
            self.reply_lease(node, ticket, refused(&call, LeaseRefusal::NotDecode));
        }
    }

    pub(super) fn reply_lease(&mut self, node: usize, ticket: u64, reply: LeaseCallReply) {
        let Some(call) = self.calls.get(&ticket) else { return };
        let asker = call.asker;
        if let LeaseCall::Ask(_) = call.call {
            self.audit.asked(self.now_ns, asker, node, &reply);
        }
        self.send(node, asker, Heard::LeaseReply { ticket, reply });
    }

    /// An answer arrives at whoever asked.
    pub(super) fn lease_replied(&mut self, ticket: u64, reply: LeaseCallReply) {
        let Some(call) = self.calls.remove(&ticket) else { return };
        if let LeaseCall::Ask(ask) = call.call {
            let reply = match reply {
                LeaseCallReply::Lease(reply) => reply,
                LeaseCallReply::Changed(_) => unreachable(),
            };
            self.answer_ask(call.asker, ask.ask, reply);
        }
    }

    pub(super) fn lease_timed_out(&mut self, ticket: u64) {
        let Some(call) = self.calls.remove(&ticket) else { return };
        if self.nodes.get(call.asker).is_none_or(|node| node.life != call.life) {
            return;
        }
        match call.call {
            LeaseCall::Ask(ask) => self.answer_ask(call.asker, ask.ask, unreachable()),
            again if call.tries > 1 => self.call(call.asker, call.to, again, call.tries - 1, GIVE_BACK_TIMEOUT_MS),
            _ => self.audit.not_handed_back += 1,
        }
    }

    fn answer_ask(&mut self, asker: usize, ask: u64, reply: LeaseReply) {
        self.tell(asker, CoreInput::Policy(policy::Input::LeaseAnswer { ask, reply }));
    }
}

fn unreachable() -> LeaseReply {
    LeaseReply::Refused { refusal: LeaseRefusal::Unreachable, quote: None }
}

fn refused(call: &LeaseCall, refusal: LeaseRefusal) -> LeaseCallReply {
    match call {
        LeaseCall::Ask(_) => LeaseCallReply::Lease(LeaseReply::Refused { refusal, quote: None }),
        LeaseCall::Release(_) | LeaseCall::Renew { .. } | LeaseCall::GiveUp(_) => LeaseCallReply::Changed(false),
    }
}
