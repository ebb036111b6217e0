//! How the actors of one agent reach each other: each link is set once, when its end has started.
//! What arrives for an end that has not started, or whose mailbox is full, is counted as dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio::sync::broadcast;

use super::clock::Clock;
use super::health::HealthEffects;
use super::journal::{Journal, Recorded, TapeOf};
use super::lateness::Lateness;
use super::ledger::{Landings, LedgerEffects};
use super::mesh::MeshHandle;
use super::owner::{Effects, Owner};
use super::policy::PolicyEffects;
use super::probe::ProbeHints;
use super::rails::Rails;
use super::store::Store;
use super::transfer::Transfers;
use crate::api::Arrival;
use crate::core::Core;
use crate::metrics::Metrics;
use crate::model::{NodeName, PathId, PoolName};
use crate::{health, ledger, policy};

/// Arrivals that a slow reader may fall behind before it loses some, and is told so.
const MAX_ARRIVALS_BEHIND: usize = 4_096;

/// Everything that the actors of one agent share.
pub(crate) struct Links {
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    pub(crate) lateness: Lateness,
    pub(crate) probe_hints: ProbeHints,
    pub(crate) arrivals: broadcast::Sender<Arc<Arrival>>,
    /// Which pool each known decode host belongs to; kept by the directory.
    pub(crate) pools: RwLock<BTreeMap<NodeName, PoolName>>,
    /// How to stop a write into a lease of this host that is void; kept by the landing.
    pub(crate) landings: Landings,
    pub(crate) journal: OnceLock<Journal>,
    pub(crate) mesh: OnceLock<MeshHandle>,
    pub(crate) health: OnceLock<Owner<HealthEffects>>,
    pub(crate) policy: OnceLock<Owner<PolicyEffects>>,
    pub(crate) ledger: OnceLock<Owner<LedgerEffects>>,
    pub(crate) transfers: OnceLock<Transfers>,
    pub(crate) rails: OnceLock<Rails>,
}

impl Links {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            clock: Clock::start(),
            metrics,
            store: Store::default(),
            lateness: Lateness::default(),
            probe_hints: ProbeHints::default(),
            arrivals: broadcast::channel(MAX_ARRIVALS_BEHIND).0,
            pools: RwLock::default(),
            landings: Landings::default(),
            journal: OnceLock::new(),
            mesh: OnceLock::new(),
            health: OnceLock::new(),
            policy: OnceLock::new(),
            ledger: OnceLock::new(),
            transfers: OnceLock::new(),
            rails: OnceLock::new(),
        }
    }

    /// The tape of one core, if one is kept.
    pub(crate) fn tape<C: Recorded>(&self) -> TapeOf<C> {
        self.journal.get().and_then(Journal::tape)
    }

    pub(crate) fn pool_of(&self, node: &NodeName) -> Option<PoolName> {
        self.pools.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// Tells health what it must know.
    pub(crate) fn tell_health(&self, input: health::Input) {
        self.tell("health", &self.health, input);
    }

    /// Offers health a sample: one of many, so one that does not fit is counted and gone.
    pub(crate) fn offer_health(&self, sample: health::Sample) {
        self.offer("health", &self.health, health::Input::Sample(sample));
    }

    /// Notes that a path is in use, so that it is probed before others.
    pub(crate) fn path_used(&self, path: &PathId) {
        if !self.probe_hints.used(path) {
            self.metrics.dropped("probe_hints");
        }
    }

    /// Tells the policy what it must know.
    pub(crate) fn tell_policy(&self, input: policy::Input) {
        self.tell("policy", &self.policy, input);
    }

    /// Offers the policy a report: the next one says it again.
    pub(crate) fn offer_policy(&self, report: health::PathReport) {
        self.offer("policy", &self.policy, policy::Input::Report(report));
    }

    /// Tells the ledger what it must know.
    pub(crate) fn tell_ledger(&self, input: ledger::Input) {
        self.tell("ledger", &self.ledger, input);
    }

    fn tell<E: Effects>(&self, queue: &'static str, owner: &OnceLock<Owner<E>>, input: <E::Core as Core>::Input) {
        match owner.get() {
            Some(owner) => owner.tell(input),
            None => self.metrics.dropped(queue),
        }
    }

    fn offer<E: Effects>(&self, queue: &'static str, owner: &OnceLock<Owner<E>>, input: <E::Core as Core>::Input) {
        if owner.get().is_none_or(|owner| owner.offer(input).is_err()) {
            self.metrics.dropped(queue);
        }
    }
}
