//! Asking decode hosts for leases. The mesh profile asks two at once where both are as good as far
//! as is known, keeps the one whose quote promises the earlier end, and hands the other back; the
//! reference asks one after the other.
//!
//! ```text
//! decide ──▶ ask 1 or 2 hosts ──granted──▶ offer ──all answered, or waited──▶ lease
//!    ▲                      └─refused, silent: bar the host─┘
//!    └───────────────────────── nothing offered ────────────┘
//! ```

use std::sync::Arc;

use super::decide::{Candidate, Decision, Verdict};
use super::record::DecisionRecord;
use super::requests::{Asking, Bar, Ended, Entry, Offer, OpenAsk, Stage, Waiter};
use super::select::Skipped;
use super::view::Demand;
use super::{Output, Policy};
use crate::core::Now;
use crate::model::{
    Lease, LeaseAsk, LeaseRefusal, LeaseReply, Mode, NodeName, PathId, Profile, Quote, Reason, RequestId,
};

/// Once a lease is offered, a second host has this long to offer a better one, in milliseconds.
const SECOND_OFFER_MS: u64 = 20;

/// The paths whose hosts are to be asked: the chosen one, and the next of another host if only the
/// tie tells the two apart.
pub(super) fn whom_to_ask(profile: Profile, candidates: &[Candidate], decision: &Decision) -> Vec<PathId> {
    let path = |index: usize| candidates.get(index).and_then(|candidate| candidate.target.path.clone());
    let Some(chosen) = decision.choice.chosen else { return Vec::new() };
    let Some(first) = path(chosen) else { return Vec::new() };
    let rank = |index: usize| decision.assessments.get(index).and_then(|assessment| assessment.rank);
    let mut asked = vec![first];
    if profile == Profile::Mesh
        && let (Some(best), Some(first)) = (rank(chosen), asked.first())
    {
        let elsewhere = |index: &usize| path(*index).is_some_and(|path| path.destination != first.destination);
        let as_good = (0..candidates.len())
            .filter(|index| *index != chosen && elsewhere(index))
            .filter_map(|index| Some((rank(index)?, index)))
            .filter(|(rank, _)| rank.ties_with(&best));
        let second = as_good.min_by(|(left, _), (right, _)| left.compare(right)).and_then(|(_, index)| path(index));
        asked.extend(second);
    }
    asked
}

impl Policy {
    /// Decides, and asks for a lease; closes the request if there is nobody to ask, or if its class
    /// is only observed.
    pub(super) fn decide_and_ask(
        &mut self,
        now: Now,
        id: RequestId,
        entry: Entry,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        self.view.take_medians();
        let candidates = self.view.candidates(now, Demand::of(&entry.request));
        let (record, mut asked) = self.decide(now, &id, &entry, candidates);
        asked.truncate(self.settings.lease_rounds.saturating_sub(entry.rounds) as usize);
        if asked.is_empty() || entry.workload.mode == Mode::Observe {
            self.settle(now, id, entry, record, waiters, out);
        } else {
            self.ask(now, id, entry, asked, record, waiters, out);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn ask(
        &mut self,
        now: Now,
        id: RequestId,
        mut entry: Entry,
        paths: Vec<PathId>,
        draft: DecisionRecord,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        let timeout_ms = self.settings.lease_timeout_ms;
        let mut open = Vec::with_capacity(paths.len());
        for (place, path) in (0_u8..).zip(paths) {
            self.routes.next_ask += 1;
            let ask = self.routes.next_ask;
            out.push(Output::Ask {
                node: path.destination.clone(),
                ask: LeaseAsk {
                    holder: self.own.node.clone(),
                    holder_generation: self.generation,
                    ask,
                    request_id: id.clone(),
                    kv_bytes: entry.request.kv_bytes,
                    ttl_ms: self.settings.lease_ttl_ms,
                    model: entry.request.model.clone().or_else(|| self.own.model.clone()),
                },
                timeout_ms,
            });
            self.view.asked(&path.destination);
            entry.rounds += 1;
            open.push(OpenAsk { ask, path, place });
        }
        entry.stage = Stage::Asking(Box::new(Asking { open, offer: None, draft, waiters }));
        self.routes.requests.put(&id, entry, now.mono.plus_ms(timeout_ms));
    }

    pub(super) fn lease_answered(&mut self, now: Now, ask: u64, reply: LeaseReply, out: &mut Vec<Output>) {
        let known =
            self.routes.requests.of_ask(ask).and_then(|id| self.routes.requests.take(&id).map(|entry| (id, entry)));
        let Some((id, mut entry)) = known else {
            // Asked, and given up meanwhile.
            if let LeaseReply::Granted { lease, .. } = reply {
                out.push(Output::GiveUp(lease.id));
            }
            return;
        };
        let Stage::Asking(mut asking) = std::mem::replace(&mut entry.stage, Stage::Closed(Ended::Refused)) else {
            return;
        };
        let Some(at) = asking.open.iter().position(|open| open.ask == ask) else { return };
        let answered = asking.open.remove(at);
        let node = answered.path.destination.clone();
        self.view.answered(&node);
        match reply {
            LeaseReply::Granted { mut lease, quote } => {
                self.view.quoted(now, &node, quote);
                if lease.id.node == node && lease.kv_bytes >= entry.request.kv_bytes {
                    // It holds no longer than was asked for, whatever the host says.
                    lease.ttl_ms = lease.ttl_ms.min(self.settings.lease_ttl_ms);
                    self.offered(&mut asking, answered, lease, &quote, out);
                } else {
                    if lease.id.node == node {
                        out.push(Output::GiveUp(lease.id));
                    }
                    entry.bars.push(Bar::nonsense(node));
                }
            }
            LeaseReply::Refused { refusal, quote } => {
                if let Some(quote) = quote {
                    self.view.quoted(now, &node, quote);
                } else if self.settings.profile == Profile::Mesh && refusal == LeaseRefusal::Unreachable {
                    self.view.silent(now, &node);
                }
                entry.bars.push(Bar::refused(node, refusal, quote.as_ref(), entry.request.kv_bytes));
            }
        }
        if asking.open.is_empty() {
            self.choose(now, id, entry, *asking, out);
        } else {
            let wait_ms = if asking.offer.is_some() { SECOND_OFFER_MS } else { self.settings.lease_timeout_ms };
            entry.stage = Stage::Asking(asking);
            self.routes.requests.put(&id, entry, now.mono.plus_ms(wait_ms));
        }
    }

    /// A host grants: the better offer stays, the other goes back.
    fn offered(&mut self, asking: &mut Asking, answered: OpenAsk, lease: Lease, quote: &Quote, out: &mut Vec<Output>) {
        let OpenAsk { path, place, .. } = answered;
        let Some(predicted_ms) = self.view.predict(&path, lease.kv_bytes, Some(quote)) else {
            // The host left the mesh between its grant and its answer.
            out.push(Output::GiveUp(lease.id));
            return;
        };
        asking.draft.predict(&path, predicted_ms);
        let new = Offer { lease, path, place, predicted_ms };
        let kept = match asking.offer.take() {
            None => new,
            Some(old) => {
                let earlier = new.predicted_ms < old.predicted_ms;
                let as_early = new.predicted_ms <= old.predicted_ms && new.place < old.place;
                let (kept, back) = if earlier || as_early { (new, old) } else { (old, new) };
                out.push(Output::GiveBack(back.lease.id));
                kept
            }
        };
        asking.offer = Some(kept);
    }

    /// The time to answer is over: whoever has not is passed over.
    pub(super) fn waited(
        &mut self,
        now: Now,
        id: RequestId,
        mut entry: Entry,
        mut asking: Asking,
        out: &mut Vec<Output>,
    ) {
        for open in std::mem::take(&mut asking.open) {
            let node = open.path.destination;
            self.view.answered(&node);
            // While another offer waits, being slower is no silence.
            if asking.offer.is_none() {
                if self.settings.profile == Profile::Mesh {
                    self.view.silent(now, &node);
                }
                entry.bars.push(Bar::refused(node, LeaseRefusal::Unreachable, None, entry.request.kv_bytes));
            }
        }
        self.choose(now, id, entry, asking, out);
    }

    /// The host of the offer is gone: what others may still offer counts.
    pub(super) fn offer_void(&mut self, now: Now, id: &RequestId, out: &mut Vec<Output>) {
        let Some(mut entry) = self.routes.requests.take(id) else { return };
        match std::mem::replace(&mut entry.stage, Stage::Closed(Ended::PeerGone)) {
            Stage::Asking(mut asking) => {
                asking.offer = None;
                if asking.open.is_empty() {
                    self.choose(now, id.clone(), entry, *asking, out);
                } else {
                    entry.stage = Stage::Asking(asking);
                    self.routes.requests.put(id, entry, now.mono.plus_ms(self.settings.lease_timeout_ms));
                }
            }
            stage @ (Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_)) => {
                entry.stage = stage;
                self.routes.requests.put(id, entry, now.mono);
            }
        }
    }

    /// Takes what is offered; decides again, with what was learned, if nothing is.
    fn choose(&mut self, now: Now, id: RequestId, mut entry: Entry, asking: Asking, out: &mut Vec<Output>) {
        let Asking { open: _, offer, draft: mut record, waiters } = asking;
        let Some(Offer { lease, path, .. }) = offer else {
            self.decide_and_ask(now, id, entry, waiters, out);
            return;
        };
        let Some(spec) = self.view.spec(&path).cloned() else {
            out.push(Output::GiveUp(lease.id));
            self.decide_and_ask(now, id, entry, waiters, out);
            return;
        };
        record.choose(&path, Skipped::SlowerQuote);
        record.lease = Some(lease.clone());
        let record = Arc::new(record);
        out.push(Output::Decided(record.clone()));
        entry.last = Some(record.id.clone());
        entry.answer.get_or_insert_with(|| record.clone());
        entry.leases.push(lease.id.clone());
        let until = now.mono.plus_ms(lease.ttl_ms);
        entry.lease_until = Some(until);
        let mut transfer = None;
        for waiter in waiters {
            match waiter {
                Waiter::Route(key) => out.push(Output::Answer { key, result: Ok(record.clone()) }),
                Waiter::Transfer(key) => transfer = Some(key),
            }
        }
        match transfer {
            Some(key) => self.start(now, key, id, entry, lease, spec, out),
            None => {
                entry.stage = Stage::Leased { lease, path: spec };
                self.routes.requests.put(&id, entry, until);
            }
        }
    }
}

impl Bar {
    fn refused(node: NodeName, refusal: LeaseRefusal, quote: Option<&Quote>, kv_bytes: u64) -> Self {
        let (observed, limit) = match (refusal, quote) {
            (LeaseRefusal::Sessions, Some(quote)) => {
                (Some(f64::from(quote.active_sessions)), Some(f64::from(quote.max_sessions)))
            }
            (LeaseRefusal::KvBytes, Some(quote)) => (Some(quote.kv_bytes_free as f64), Some(kv_bytes as f64)),
            _ => (None, None),
        };
        let why = match refusal {
            LeaseRefusal::Unreachable => format!("{node} did not answer the lease ask in time"),
            refusal => format!("{node} refused the lease: {refusal}"),
        };
        let verdict = Verdict { code: Reason::RejectedLeaseRefused, observed, limit };
        Self { node, path: None, verdict, why: why.into() }
    }

    /// A host granted what was not asked for.
    fn nonsense(node: NodeName) -> Self {
        let why = format!("{node} answered with a lease that was not asked for");
        let verdict = Verdict { code: Reason::RejectedLeaseRefused, observed: None, limit: None };
        Self { node, path: None, verdict, why: why.into() }
    }

    pub(super) fn failed(path: PathId, attempt: u32, attempts: u32, detail: &str) -> Self {
        let why = format!("attempt {attempt} of this request failed here: {detail}");
        let verdict = Verdict::compared(Reason::RejectedPoolState, f64::from(attempt), f64::from(attempts));
        Self { node: path.destination.clone(), path: Some(path), verdict, why: why.into() }
    }

    pub(super) fn meets(&self, candidate: &Candidate) -> bool {
        match &self.path {
            Some(path) => candidate.target.path.as_ref() == Some(path),
            None => candidate.target.node.as_ref() == Some(&self.node),
        }
    }
}
