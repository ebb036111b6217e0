//! A request's way from its question to its lease, and a transfer's way to its last attempt.
//!
//! ```text
//! Route ──▶ ASKING ──granted──▶ LEASED ──TransferStart──▶ MOVING ──delivered──▶ CLOSED
//!             │ ▲ refused, silent: bar the host,            │ failed, budget left: bar the path,
//!             │ └─ decide again                             │ decide again ──▶ ASKING
//!             └─ nothing admissible ──▶ CLOSED              └─ nothing left ──▶ CLOSED
//! ```

use std::sync::Arc;

use super::decide::{Candidate, Terms, Verdict, decide};
use super::record::{Context, DecisionRecord};
use super::requests::{Asking, Ended, Entry, Requests, Stage, Waiter};
use super::view::Demand;
use super::{Output, Policy, RouteProblem, TransferProblem, asking, tie};
use crate::api::RouteRequest;
use crate::core::{Mono, Now};
use crate::model::{
    DecisionId, Generation, Lease, LeaseId, LeaseRefusal, LeaseReply, NodeName, PathId, Profile, Reason, RequestId,
};

/// The longest transfer budget that a request may ask for, in milliseconds.
const MAX_BUDGET_MS: u64 = 3_600_000;
/// Callers that may wait for the same request.
const MAX_WAITERS: usize = 64;

/// The requests and what numbers them.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Routes {
    pub(super) requests: Requests,
    pub(super) next_ask: u64,
}

impl Routes {
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.requests.deadline()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = (&RequestId, &Lease, Mono)> {
        self.requests.open().filter_map(|(id, entry, at)| match &entry.stage {
            Stage::Leased { lease, .. } | Stage::Moving { lease, .. } => Some((id, lease, at)),
            Stage::Asking(_) | Stage::Closed(_) => None,
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
                (Stage::Asking(asking), None) if asking.waiters.len() < MAX_WAITERS => {
                    asking.waiters.push(Waiter::Route(key));
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
            lease_until: None,
            budget_until: None,
            stage: Stage::Closed(Ended::Refused),
            request,
        };
        if entry.request.dry_run {
            self.view.take_medians();
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
    pub(super) fn decide(
        &mut self,
        now: Now,
        id: &RequestId,
        entry: &Entry,
        mut candidates: Vec<Candidate>,
    ) -> (DecisionRecord, Vec<PathId>) {
        // The input's number, or the next free one where one input leads to several decisions.
        self.decided = self.turn.max(self.decided + 1);
        for candidate in &mut candidates {
            if let Some(said) = candidate.target.path.as_ref().and_then(|path| self.overrides.of(path)) {
                candidate.health.state = said;
                candidate.overridden = true;
            }
            if let Some(bar) = entry.bars.iter().find(|bar| bar.meets(candidate)) {
                candidate.barred = Some(bar.verdict);
            } else if entry.rounds >= self.settings.lease_rounds {
                let (asked, limit) = (f64::from(entry.rounds), f64::from(self.settings.lease_rounds));
                candidate.barred = Some(Verdict::compared(Reason::RejectedLeaseRefused, asked, limit));
            } else if candidate.barred.is_none() {
                candidate.barred = self.on_trial(candidate);
            }
        }
        let left_ms = entry.budget_until.map(|until| until.ms_since(now.mono));
        let budget_ms = left_ms.or(entry.request.transfer_budget_ms).unwrap_or(self.settings.transfer_budget_ms);
        let decision = decide(
            &Terms {
                profile: self.settings.profile,
                thresholds: &self.settings.thresholds,
                workload: &entry.workload,
                transfer_budget_ms: Some(budget_ms as f64),
                max_excluded_fraction: self.settings.max_excluded_fraction,
                tie: tie::of_request(self.generation, &self.own.node, id),
            },
            &candidates,
        );
        let asked = asking::whom_to_ask(self.settings.profile, &candidates, &decision);
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
        (record, asked)
    }

    /// A path on which a transfer failed is tried by one at a time until one of its size has worked.
    fn on_trial(&self, candidate: &Candidate) -> Option<Verdict> {
        if self.settings.profile == Profile::Reference || candidate.health.failed_bytes == 0 {
            return None;
        }
        let path = candidate.target.path.as_ref()?;
        self.routes.requests.uses(path).then(|| Verdict::compared(Reason::RejectedCapacity, 1.0, 1.0))
    }

    /// A decision without a lease: the outcome says so, and the request is closed.
    pub(super) fn settle(
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
            Stage::Asking(_) | Stage::Leased { .. } => self.drop_lease(now, id, how, out),
        }
    }

    fn drop_lease(&mut self, now: Now, id: &RequestId, how: Ended, out: &mut Vec<Output>) -> bool {
        let Some(mut entry) = self.routes.requests.take(id) else { return false };
        match std::mem::replace(&mut entry.stage, Stage::Closed(how)) {
            Stage::Asking(asking) => {
                let Asking { open, offer, draft: _, waiters } = *asking;
                open.iter().for_each(|open| self.view.answered(&open.path.destination));
                out.extend(offer.map(|offer| Output::GiveBack(offer.lease.id)));
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
            && let Some(mut entry) = self.routes.requests.take(&id)
        {
            let until = now.mono.plus_ms(ttl_ms);
            entry.lease_until = Some(until);
            self.routes.requests.put(&id, entry, until);
        }
    }

    /// Acts on every deadline that has passed.
    pub(super) fn fire(&mut self, now: Now, out: &mut Vec<Output>) {
        while let Some(id) = self.routes.requests.due(now.mono) {
            let Some(mut entry) = self.routes.requests.take(&id) else { return };
            match std::mem::replace(&mut entry.stage, Stage::Closed(Ended::Expired)) {
                Stage::Asking(asking) => self.waited(now, id, entry, *asking, out),
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
        let mut offers = Vec::new();
        let mut void = Vec::new();
        for (id, entry, _) in self.routes.requests.open() {
            match &entry.stage {
                Stage::Asking(asking) => {
                    let open = asking.open.iter().filter(|open| open.path.destination == *node);
                    unanswered.extend(open.map(|open| open.ask));
                    if asking.offer.as_ref().is_some_and(|offer| granted_by(&offer.lease)) {
                        offers.push(id.clone());
                    }
                }
                Stage::Leased { lease, .. } if granted_by(lease) => void.push(id.clone()),
                Stage::Moving { lease, .. } if granted_by(lease) => {
                    out.push(entry.stop(lease, false));
                }
                Stage::Leased { .. } | Stage::Moving { .. } | Stage::Closed(_) => {}
            }
        }
        for id in void {
            if let Some(entry) = self.routes.requests.take(&id) {
                self.close(now, &id, entry, Ended::PeerGone);
            }
        }
        for id in offers {
            self.offer_void(now, &id, out);
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
