//! The policy core itself: one turn after the other, each input sent where it belongs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::messages::{Input, Output};
use super::overrides::{MAX_OVERRIDE_TTL_MS, Overrides};
use super::routes::Routes;
use super::view::{Own, View};
use crate::core::{Core, Mono, Now};
use crate::health::Thresholds;
use crate::model::{Generation, Lease, Mover, Profile, RequestId, Workload};

/// The policy's part of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which rules decide.
    pub profile: Profile,
    /// Their numbers.
    pub thresholds: Thresholds,
    /// The classes, by unique name.
    pub workloads: Vec<Arc<Workload>>,
    /// The fingerprint of the whole configuration; goes into every record.
    pub config_hash: Arc<str>,
    /// Who moves the bytes.
    pub mover: Mover,
    /// The largest request, in bytes (the arena's size where Seam moves the bytes).
    pub max_kv_bytes: u64,
    /// How long a lease may wait for its bytes, in milliseconds.
    pub lease_ttl_ms: u64,
    /// How long a decode host may take to answer an ask, in milliseconds.
    pub lease_timeout_ms: u64,
    /// Decode hosts asked for one decision at most, those asked at once included.
    pub lease_rounds: u32,
    /// How long a transfer may take, all attempts together, where the request does not say, in
    /// milliseconds.
    pub transfer_budget_ms: u64,
    /// Attempts of one transfer at most.
    pub transfer_attempts: u32,
    /// The share of a pool that may be excluded, in [0, 1].
    pub max_excluded_fraction: f64,
    /// Requests remembered at most; of those that hold nothing, the oldest are forgotten first.
    pub max_requests: usize,
    /// How long a finished request is remembered at most, in milliseconds.
    pub request_ttl_ms: u64,
    /// Paths kept at most.
    pub max_paths: usize,
}

/// The policy core: see the [module documentation](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub(super) generation: Generation,
    pub(super) own: Own,
    pub(super) settings: Settings,
    /// Counts the inputs.
    pub(super) turn: u64,
    /// The number of the last decision.
    pub(super) decided: u64,
    pub(super) view: View,
    pub(super) routes: Routes,
    pub(super) overrides: Overrides,
}

impl Core for Policy {
    type Input = Input;
    type Output = Output;
    type Snapshot = Self;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.turn += 1;
        self.fire(now, out);
        out.extend(self.overrides.expire(now.mono).into_iter().map(Output::OverrideEnded));
        match input {
            Input::Peer { generation, record } => {
                if self.view.generation(&record.node).is_some_and(|known| known < generation) {
                    self.void_leases(now, &record.node, generation.saturating_sub(1), out);
                }
                self.view.peer(generation, &record);
            }
            Input::PeerGone { node, generation } => {
                if self.view.peer_gone(&node, generation) {
                    self.void_leases(now, &node, generation, out);
                }
            }
            Input::Load { node, generation, record } => self.view.load(now, &node, generation, record),
            Input::Paths { observer, record } => self.view.observed(&observer, &record),
            Input::Report(report) => self.view.report(now, &report),
            Input::Route { key, request_id, request, traceparent } => {
                self.route(now, key, request_id, request, traceparent, out);
            }
            Input::LeaseAnswer { ask, reply } => self.lease_answered(now, ask, reply, out),
            Input::TransferStart { key, lease, bytes } => self.transfer_start(now, key, &lease, bytes, out),
            Input::TransferWaited { lease, ms } => self.transfer_waited(now, &lease, ms, out),
            Input::TransferFailed { key, lease, detail } => self.transfer_failed(now, key, &lease, &detail, out),
            Input::TransferEnded { lease, delivered } => self.transfer_ended(now, &lease, delivered, out),
            Input::Release { key, lease } => {
                let changed = self.release(now, &lease, out);
                out.push(Output::Done { key, changed });
            }
            Input::Renewed { lease, ttl_ms } => self.renewed(now, &lease, ttl_ms),
            Input::Cancel { key, request_id } => {
                let changed = self.cancel(now, &request_id, out);
                out.push(Output::Done { key, changed });
            }
            Input::Override { key, said, ttl_ms } => {
                let until = now.mono.plus_ms(ttl_ms.min(MAX_OVERRIDE_TTL_MS));
                let changed = self.overrides.set(said, until);
                out.push(Output::Done { key, changed });
            }
            Input::Withdraw { key, target } => {
                let changed = self.overrides.withdraw(&target);
                out.push(Output::Done { key, changed });
            }
            Input::Configure(settings) => self.settings = *settings,
            Input::Tick => {}
        }
    }

    fn deadline(&self) -> Option<Mono> {
        [self.routes.deadline(), self.overrides.deadline()].into_iter().flatten().min()
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn restore(snapshot: Self) -> Self {
        snapshot
    }
}

impl Policy {
    /// The policy of one life of one node.
    #[must_use]
    pub fn new(generation: Generation, own: Own, settings: Settings) -> Self {
        let view = View::new(own.clone(), settings.max_paths);
        Self {
            generation,
            own,
            settings,
            turn: 0,
            decided: 0,
            view,
            routes: Routes::default(),
            overrides: Overrides::default(),
        }
    }

    /// The share of a pool that may be excluded, in [0, 1]: all of it in the reference profile.
    #[must_use]
    pub fn max_excluded_fraction(&self) -> f64 {
        match self.settings.profile {
            Profile::Reference => 1.0,
            Profile::Mesh => self.settings.max_excluded_fraction,
        }
    }

    /// The settings that hold.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Forgets every request, with what it holds and waits for; what is known of paths and hosts
    /// stays. For whoever asks a recorded state what it would have chosen.
    pub fn forget_requests(&mut self) {
        self.routes = Routes::default();
        self.view.forget_asks();
    }

    /// The operator's words that hold.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// What is known of paths and hosts.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Leases that this node holds and has not used up, with their requests.
    pub fn leases(&self) -> impl Iterator<Item = (&RequestId, &Lease, Mono)> {
        self.routes.leases()
    }
}
