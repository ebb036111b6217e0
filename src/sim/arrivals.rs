//! Requests: a seeded stream at every prefill host, or one by one from a scenario.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::event::{Event, Own};
use super::fault::exponential;
use super::network::nanos;
use super::node::PolicyQuestion;
use super::wiring::CoreInput;
use super::world::World;
use crate::api::RouteRequest;
use crate::fault::gauss;
use crate::model::{RequestId, WorkloadName};
use crate::policy::record::DecisionRecord;
use crate::policy::{Input, RouteProblem};
use std::sync::Arc;

/// A stream of requests at every prefill host: Poisson arrivals, log-normal sizes.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Requests a second at each prefill host, above 0.
    pub per_s: f64,
    /// Classes, and how often each is drawn compared with the others.
    pub classes: Vec<(WorkloadName, f64)>,
    /// The median of the sizes, in bytes.
    pub median_bytes: u64,
    /// The standard deviation of their natural logarithm.
    pub sigma: f64,
    /// The smallest and the largest, in bytes.
    pub limits_bytes: (u64, u64),
    /// No request comes after this long, in milliseconds.
    pub until_ms: u64,
}

/// What follows once a request has its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Its bytes are moved after this long, in milliseconds.
    Transfer {
        /// How long.
        after_ms: u64,
    },
    /// Nothing: it is held until it ends by itself.
    Hold,
}

/// What all streams draw from.
pub(super) struct Streams(ChaCha8Rng);

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Arrivals {
    fn draw(&self, rng: &mut ChaCha8Rng) -> Option<(WorkloadName, u64)> {
        let total: f64 = self.classes.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.random::<f64>() * total;
        let drawn = self.classes.iter().find(|(_, weight)| {
            at -= weight;
            at < 0.0
        });
        let size = self.median_bytes as f64 * libm::exp(self.sigma * gauss(0.0, 1.0, rng));
        let (least, most) = self.limits_bytes;
        Some((drawn.or(self.classes.last())?.0.clone(), (size as u64).clamp(least, most)))
    }
}

impl World {
    /// The next request of a host's stream comes, and the one after it is drawn.
    pub(super) fn arrives(&mut self, node: usize, life: u32) {
        let Some(arrivals) = self.settings.arrivals.clone() else { return };
        let alive = self.nodes.get(node).is_some_and(|node| node.runs() && node.life == life);
        if self.now_ns > arrivals.until_ms * 1_000_000 || self.nodes.get(node).is_none_or(|node| node.life != life) {
            return;
        }
        if let Some((class, bytes)) = arrivals.draw(&mut self.streams.0).filter(|_| alive) {
            self.route(node, &class, bytes, None, Then::Transfer { after_ms: 1 });
        }
        self.next_arrival(node);
    }

    pub(super) fn next_arrival(&mut self, node: usize) {
        let Some(arrivals) = &self.settings.arrivals else { return };
        let Some(life) = self.nodes.get(node).filter(|node| !node.decodes).map(|node| node.life) else { return };
        let wait_ns = nanos(exponential(1000.0 / arrivals.per_s, &mut self.streams.0));
        self.queue.push(self.now_ns + wait_ns, Event::Arrive { node, life });
    }

    /// Asks a prefill host for a path now; none if it does not run.
    pub fn route(
        &mut self,
        node: usize,
        class: &WorkloadName,
        kv_bytes: u64,
        transfer_budget_ms: Option<u64>,
        then: Then,
    ) -> Option<RequestId> {
        let source = self.nodes.get(node).filter(|node| node.runs())?.name.clone();
        let key = self.next_id();
        let request_id = RequestId::new(&format!("r{key}")).ok()?;
        self.audit.requested(self.now_ns, request_id.clone(), source, class.clone(), kv_bytes, then);
        let request = RouteRequest {
            workload: class.clone(),
            kv_bytes,
            request_id: None,
            model: None,
            source: None,
            exclude: Vec::new(),
            transfer_budget_ms,
            dry_run: false,
        };
        let cores = self.cores_mut(node)?;
        cores.asked_policy.insert(key, PolicyQuestion::Route(request_id.clone()));
        let route = Input::Route { key, request_id: request_id.clone(), request, traceparent: None };
        cores.inbox.push_back(CoreInput::Policy(route));
        self.drain(node);
        Some(request_id)
    }

    /// The policy has answered.
    pub(super) fn routed(
        &mut self,
        node: usize,
        request: RequestId,
        result: Result<Arc<DecisionRecord>, RouteProblem>,
    ) {
        let then = self.audit.routed(self.now_ns, &request, &result);
        let lease = result.ok().and_then(|record| record.lease.clone());
        if let (Some(lease), Some(Then::Transfer { after_ms })) = (lease, then) {
            self.later(node, after_ms, Own::Start { lease: lease.id, bytes: lease.kv_bytes });
        }
    }
}
