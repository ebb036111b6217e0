//! A request's way from its question to its lease, and a transfer's way to its last attempt.
//!
//! ```text
//! Route ──▶ ASKING ──granted──▶ LEASED ──TransferStart──▶ MOVING ──delivered──▶ CLOSED
//!             │ ▲ refused, silent: bar the host,            │ failed, budget left: bar the path,
//!             │ └─ decide again                             │ decide again ──▶ ASKING
//!             └─ nothing admissible ──▶ CLOSED              └─ nothing left ──▶ CLOSED
//! ```

use std::sync::Arc;

use super::decide::{Candidate, Verdict, decide};
use super::record::{Context, DecisionRecord};
use super::requests::{Bar, Ended, Entry, Requests, Stage, Waiter};
use super::view::Demand;
use super::{Output, Policy, RouteProblem, TransferProblem};
use crate::api::RouteRequest;
use crate::core::{Mono, Now};
use crate::model::{
    DecisionId, Generation, Lease, LeaseAsk, LeaseId, LeaseRefusal, LeaseReply, NodeName, PathId, Quote, Reason,
    RequestId,
};

/// The longest transfer budget that a request may ask for, in milliseconds.
const MAX_BUDGET_MS: u64 = 3_600_000;
/// Callers that may wait for the same request.
const MAX_WAITERS: usize = 64;

/// The requests and what numbers them.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Routes {
    pub(super) requests: Requests,
    next_ask: u64,
}

impl Routes {
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.requests.deadline()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = (&RequestId, &Lease, Mono)> {
        self.requests.open().filter_map(|(id, entry, at)| match &entry.stage {
            Stage::Leased { lease, .. } | Stage::Moving { lease, .. } => Some((id, lease, at)),
            Stage::Asking { .. } | Stage::Closed(_) => None,
        })
    }
}

impl Policy {
    pub(super) fn route(
        &mut self,
        now: Now,
        key: u64,
        id: RequestId,
        request: RouteRequest,
        traceparent: Option<Arc<str>>,
        out: &mut Vec<Output>,
    ) {
        if !request.dry_run
            && let Some(known) = self.routes.requests.get(&id)
        {
            let repeated = known.request == request;
            self.ask_again(key, &id, repeated, out);
            return;
        }
        if let Err(problem) = self.admit(now, key, id, request, traceparent, out) {
            out.push(Output::Answer { key, result: Err(problem) });
        }
    }

    /// The same request id again gets the same answer, or waits for it.
    fn ask_again(&mut self, key: u64, id: &RequestId, repeated: bool, out: &mut Vec<Output>) {
        let mut result = None;
        self.routes.requests.amend(id, |entry| {
            result = match (&mut entry.stage, &entry.answer) {
                _ if !repeated => Some(Err(RouteProblem::IdReused(id.clone()))),
                (Stage::Closed(Ended::Cancelled), _) => Some(Err(RouteProblem::Cancelled(id.clone()))),
                (_, Some(record)) => Some(Ok(record.clone())),
                (Stage::Asking { waiters, .. }, None) if waiters.len() < MAX_WAITERS => {
                    waiters.push(Waiter::Route(key));
                    None
                }
                (_, None) => Some(Err(RouteProblem::Full { limit: MAX_WAITERS })),
            };
        });
        if let Some(result) = result {
            out.push(Output::Answer { key, result });
        }
    }

    fn admit(
        &mut self,
        now: Now,
        key: u64,
        id: RequestId,
        request: RouteRequest,
        traceparent: Option<Arc<str>>,
        out: &mut Vec<Output>,
    ) -> Result<(), RouteProblem> {
        let workload = self.settings.workloads.iter().find(|workload| workload.name == request.workload).cloned();
        let Some(workload) = workload else {
            let known: Vec<&str> = self.settings.workloads.iter().map(|workload| workload.name.as_str()).collect();
            return Err(RouteProblem::UnknownWorkload {
                found: request.workload.as_str().to_owned(),
                known: known.join(", "),
            });
        };
        let limit = self.settings.max_kv_bytes;
        if request.kv_bytes == 0 || request.kv_bytes > limit {
            return Err(RouteProblem::KvBytes { found: request.kv_bytes, limit });
        }
        if let Some(found) = request.transfer_budget_ms
            && !(1..=MAX_BUDGET_MS).contains(&found)
        {
            return Err(RouteProblem::TransferBudget { found, limit: MAX_BUDGET_MS });
        }
        let foreign = request.source.clone().filter(|source| *source != self.own.node);
        if let Some(found) = foreign.as_ref()
            && !request.dry_run
        {
            return Err(RouteProblem::ForeignSource { found: found.clone() });
        }
        let entry = Entry {
            workload,
            traceparent,
            answer: None,
            last: None,
            attempt: 1,
            rounds: 0,
            bars: Vec::new(),
            leases: Vec::new(),
            budget_until: None,
            stage: Stage::Closed(Ended::Refused),
            request,
        };
        if entry.request.dry_run {
            let candidates = match &foreign {
                None => self.view.candidates(now, Demand::of(&entry.request)),
                Some(source) => self
                    .view
                    .candidates_of(now, source, Demand::of(&entry.request))
                    .ok_or_else(|| RouteProblem::UnknownSource { found: source.clone() })?,
            };
            let (record, _) = self.decide(now, &id, &entry, candidates);
            out.push(Output::Answer { key, result: Ok(Arc::new(record)) });
            return Ok(());
        }
        if !self.routes.requests.make_room(now.mono, self.settings.max_requests) {
            return Err(RouteProblem::Full { limit: self.settings.max_requests });
        }
        self.decide_and_ask(now, id, entry, vec![Waiter::Route(key)], out);
        Ok(())
    }

    /// One decision on `candidates`, and the path that it chose.
    fn decide(
        &mut self,
        now: Now,
        id: &RequestId,
        entry: &Entry,
        mut candidates: Vec<Candidate>,
    ) -> (DecisionRecord, Option<PathId>) {
        // The input's number, or the next free one where one input leads to several decisions.
        self.decided = self.turn.max(self.decided + 1);
        for candidate in &mut candidates {
            if let Some(bar) = entry.bars.iter().find(|bar| bar.meets(candidate)) {
                candidate.barred = Some(bar.verdict);
            } else if entry.rounds >= self.settings.lease_rounds {
                let (asked, limit) = (f64::from(entry.rounds), f64::from(self.settings.lease_rounds));
                candidate.barred = Some(Verdict::compared(Reason::RejectedLeaseRefused, asked, limit));
            }
        }
        let decision = decide(self.settings.profile, &self.settings.thresholds, &entry.workload, &candidates);
        let chosen = decision.choice.chosen.and_then(|at| candidates.get(at)).and_then(|c| c.target.path.clone());
        let context = Context {
            id: DecisionId { node: self.own.node.clone(), generation: self.generation, input: self.decided },
            ts: Some(now.wall_ms),
            node: Some(self.own.node.clone()),
            request_id: Some(id.clone()),
            attempt: entry.attempt,
            parent: entry.last.clone(),
            traceparent: entry.traceparent.clone(),
            workload: entry.workload.clone(),
            profile: self.settings.profile,
            policy: "seam".into(),
            config_hash: Some(self.settings.config_hash.clone()),
            mover: Some(self.settings.mover),
        };
        let mut record = DecisionRecord::new(context, &candidates, &decision);
        for bar in &entry.bars {
            for (candidate, line) in candidates.iter().zip(&mut record.candidates) {
                if bar.meets(candidate) {
                    line.detail = Some(bar.why.clone());
                }
            }
        }
        (record, chosen)
    }

    /// Decides, and asks the chosen host for a lease; closes the request if there is none.
    pub(super) fn decide_and_ask(
        &mut self,
        now: Now,
        id: RequestId,
        entry: Entry,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        let candidates = self.view.candidates(now, Demand::of(&entry.request));
        let (record, chosen) = self.decide(now, &id, &entry, candidates);
        match chosen {
            Some(path) => self.ask(now, id, entry, path, Box::new(record), waiters, out),
            None => self.settle(now, id, entry, record, waiters, out),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn ask(
        &mut self,
        now: Now,
        id: RequestId,
        mut entry: Entry,
        path: PathId,
        draft: Box<DecisionRecord>,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        self.routes.next_ask += 1;
        let ask = self.routes.next_ask;
        let node = path.destination;
        let timeout_ms = self.settings.lease_timeout_ms;
        out.push(Output::Ask {
            node: node.clone(),
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
        self.view.asked(&node);
        entry.rounds += 1;
        entry.stage = Stage::Asking { ask, node, draft, waiters };
        self.routes.requests.put(&id, entry, now.mono.plus_ms(timeout_ms));
    }

    /// A decision without a lease: the outcome says so, and the request is closed.
    fn settle(
        &mut self,
        now: Now,
        id: RequestId,
        mut entry: Entry,
        record: DecisionRecord,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        let record = Arc::new(record);
        out.push(Output::Decided(record.clone()));
        entry.last = Some(record.id.clone());
        entry.answer.get_or_insert_with(|| record.clone());
        let transfer = waiters.iter().any(|waiter| matches!(waiter, Waiter::Transfer(_)));
        for waiter in waiters {
            out.push(match waiter {
                Waiter::Route(key) => Output::Answer { key, result: Ok(record.clone()) },
                Waiter::Transfer(key) => Output::Plan {
                    key,
                    result: Err(TransferProblem::Exhausted(format!("no other path is admissible: see {}", record.id))),
                },
            });
        }
        self.close(now, &id, entry, if transfer { Ended::Failed } else { Ended::Refused });
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
        let Stage::Asking { node, draft, waiters, .. } =
            std::mem::replace(&mut entry.stage, Stage::Closed(Ended::Refused))
        else {
            return;
        };
        self.view.answered(&node);
        match reply {
            LeaseReply::Granted { lease, quote } => {
                self.view.quoted(now, &node, quote);
                self.granted(now, id, entry, lease, *draft, waiters, out);
            }
            LeaseReply::Refused { refusal, quote } => {
                if let Some(quote) = quote {
                    self.view.quoted(now, &node, quote);
                }
                entry.bars.push(Bar::refused(node, refusal, quote.as_ref(), entry.request.kv_bytes));
                self.decide_and_ask(now, id, entry, waiters, out);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn granted(
        &mut self,
        now: Now,
        id: RequestId,
        mut entry: Entry,
        lease: Lease,
        mut record: DecisionRecord,
        waiters: Vec<Waiter>,
        out: &mut Vec<Output>,
    ) {
        let chosen = record.chosen.as_ref().and_then(|chosen| chosen.path.as_ref());
        let Some(path) = chosen.and_then(|path| self.view.spec(path)).cloned() else {
            // The host left the mesh between its grant and its answer.
            out.push(Output::GiveUp(lease.id));
            self.decide_and_ask(now, id, entry, waiters, out);
            return;
        };
        record.lease = Some(lease.clone());
        let record = Arc::new(record);
        out.push(Output::Decided(record.clone()));
        entry.last = Some(record.id.clone());
        entry.answer.get_or_insert_with(|| record.clone());
        entry.leases.push(lease.id.clone());
        let mut transfer = None;
        for waiter in waiters {
            match waiter {
                Waiter::Route(key) => out.push(Output::Answer { key, result: Ok(record.clone()) }),
                Waiter::Transfer(key) => transfer = Some(key),
            }
        }
        match transfer {
            Some(key) => self.start(now, key, id, entry, lease, path, out),
            None => {
                let until = now.mono.plus_ms(lease.ttl_ms);
                entry.stage = Stage::Leased { lease, path };
                self.routes.requests.put(&id, entry, until);
            }
        }
    }

    pub(super) fn release(&mut self, now: Now, lease: &LeaseId, out: &mut Vec<Output>) -> bool {
        match self.routes.requests.of_lease(lease) {
            Some(id) if self.routes.requests.get(&id).is_some_and(|entry| entry.leases.last() == Some(lease)) => {
                self.end(now, &id, Ended::Released, out)
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn cancel(&mut self, now: Now, id: &RequestId, out: &mut Vec<Output>) -> bool {
        self.end(now, id, Ended::Cancelled, out)
    }

    /// Ends a request at its caller's word; true if there was anything to end.
    fn end(&mut self, now: Now, id: &RequestId, how: Ended, out: &mut Vec<Output>) -> bool {
        let Some(entry) = self.routes.requests.get(id) else { return false };
        match &entry.stage {
            Stage::Moving { stopping: true, .. } => false,
            Stage::Moving { lease, .. } => {
                out.push(entry.stop(lease, true));
                self.routes.requests.amend(id, |entry| {
                    if let Stage::Moving { stopping, .. } = &mut entry.stage {
                        *stopping = true;
                    }
                });
                true
            }
            // What was delivered belongs to the decode engine; its holder may still end it.
            Stage::Closed(Ended::Delivered) if how == Ended::Released => self.drop_lease(now, id, how, out),
            Stage::Closed(_) => false,
            Stage::Asking { .. } | Stage::Leased { .. } => self.drop_lease(now, id, how, out),
        }
    }

    fn drop_lease(&mut self, now: Now, id: &RequestId, how: Ended, out: &mut Vec<Output>) -> bool {
        let Some(mut entry) = self.routes.requests.take(id) else { return false };
        match std::mem::replace(&mut entry.stage, Stage::Closed(how)) {
            Stage::Asking { node, waiters, .. } => {
                self.view.answered(&node);
                for waiter in waiters {
                    out.push(match waiter {
                        Waiter::Route(key) => Output::Answer { key, result: Err(RouteProblem::Cancelled(id.clone())) },
                        Waiter::Transfer(key) => Output::Plan { key, result: Err(TransferProblem::Cancelled) },
                    });
                }
            }
            Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_) => {
                out.extend(entry.leases.last().cloned().map(Output::GiveBack));
            }
        }
        self.close(now, id, entry, how);
        true
    }

    pub(super) fn renewed(&mut self, now: Now, lease: &LeaseId, ttl_ms: u64) {
        let Some(id) = self.routes.requests.of_lease(lease) else { return };
        let waits = |entry: &Entry| matches!(&entry.stage, Stage::Leased { lease: held, .. } if held.id == *lease);
        if self.routes.requests.get(&id).is_some_and(waits)
            && let Some(entry) = self.routes.requests.take(&id)
        {
            self.routes.requests.put(&id, entry, now.mono.plus_ms(ttl_ms));
        }
    }

    /// Acts on every deadline that has passed.
    pub(super) fn fire(&mut self, now: Now, out: &mut Vec<Output>) {
        while let Some(id) = self.routes.requests.due(now.mono) {
            let Some(mut entry) = self.routes.requests.take(&id) else { return };
            match std::mem::replace(&mut entry.stage, Stage::Closed(Ended::Expired)) {
                Stage::Asking { node, waiters, .. } => {
                    self.view.answered(&node);
                    entry.bars.push(Bar::refused(node, LeaseRefusal::Unreachable, None, entry.request.kv_bytes));
                    self.decide_and_ask(now, id, entry, waiters, out);
                }
                Stage::Leased { .. } => self.close(now, &id, entry, Ended::Expired),
                Stage::Moving { lease, .. } => {
                    out.push(entry.stop(&lease, false));
                    out.push(Output::GiveUp(lease.id));
                    self.close(now, &id, entry, Ended::Failed);
                }
                Stage::Closed(how) => self.close(now, &id, entry, how),
            }
        }
        self.routes.requests.make_room(now.mono, usize::MAX);
    }

    /// A decode host is gone: its leases are void, its transfers fail, its asks stay unanswered.
    pub(super) fn void_leases(&mut self, now: Now, node: &NodeName, generation: Generation, out: &mut Vec<Output>) {
        let granted_by = |lease: &Lease| lease.id.node == *node && lease.id.generation <= generation;
        let mut unanswered = Vec::new();
        let mut void = Vec::new();
        for (id, entry, _) in self.routes.requests.open() {
            match &entry.stage {
                Stage::Asking { ask, node: asked, .. } if asked == node => unanswered.push(*ask),
                Stage::Leased { lease, .. } if granted_by(lease) => void.push(id.clone()),
                Stage::Moving { lease, .. } if granted_by(lease) => {
                    out.push(entry.stop(lease, false));
                }
                Stage::Asking { .. } | Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_) => {}
            }
        }
        for id in void {
            if let Some(entry) = self.routes.requests.take(&id) {
                self.close(now, &id, entry, Ended::PeerGone);
            }
        }
        for ask in unanswered {
            let reply = LeaseReply::Refused { refusal: LeaseRefusal::Unreachable, quote: None };
            self.lease_answered(now, ask, reply, out);
        }
    }

    pub(super) fn close(&mut self, now: Now, id: &RequestId, mut entry: Entry, how: Ended) {
        entry.stage = Stage::Closed(how);
        entry.bars = Vec::new();
        self.routes.requests.put(id, entry, now.mono.plus_ms(self.settings.request_ttl_ms));
    }
}

impl Entry {
    fn stop(&self, lease: &Lease, cancelled: bool) -> Output {
        let transfer = self.leases.first().unwrap_or(&lease.id).clone();
        Output::Stop { transfer, lease: lease.id.clone(), cancelled }
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

    pub(super) fn failed(path: PathId, attempt: u32, attempts: u32, detail: &str) -> Self {
        let why = format!("attempt {attempt} of this request failed here: {detail}");
        let verdict = Verdict::compared(Reason::RejectedPoolState, f64::from(attempt), f64::from(attempts));
        Self { node: path.destination.clone(), path: Some(path), verdict, why: why.into() }
    }

    fn meets(&self, candidate: &Candidate) -> bool {
        match &self.path {
            Some(path) => candidate.target.path.as_ref() == Some(path),
            None => candidate.target.node.as_ref() == Some(&self.node),
        }
    }
}
