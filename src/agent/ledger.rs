//! The actor of the ledger core, and its two doors: other agents' calls, and the backends'.

mod past;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::links::Links;
use super::mesh::LeaseServer;
use super::owner::Effects;
use super::store::Event;
use crate::api::Arrival;
use crate::core::Now;
use crate::ledger::{Arrived, Input, Ledger, OpenRefusal, Output, Stage};
use crate::metrics::Direction;
use crate::model::{
    BackendKind, Extent, Generation, LeaseCall, LeaseCallReply, LeaseId, LeaseRefusal, LeaseReply, NodeName,
};
use crate::policy;
use crate::transport::{BoxFuture, Landing};
pub(crate) use past::Past;

/// Acts on what the ledger says.
pub(crate) struct LedgerEffects {
    links: Arc<Links>,
    node: NodeName,
    generation: Generation,
    past: Past,
}

/// An answer of the ledger.
pub(crate) enum Answer {
    Call(LeaseCallReply),
    Opened(Result<Vec<Extent>, OpenRefusal>),
    Accepted(Result<Arrived, OpenRefusal>),
}

impl LedgerEffects {
    pub(crate) fn new(links: Arc<Links>, node: NodeName, generation: Generation, past: Past) -> Self {
        Self { links, node, generation, past }
    }
}

impl Effects for LedgerEffects {
    type Core = Ledger;
    type Answer = Answer;

    fn tick() -> Input {
        Input::Tick
    }

    fn perform(&mut self, _: &Ledger, now: Now, output: Output) -> Option<(u64, Answer)> {
        match output {
            Output::Reply { key, reply } => Some((key, Answer::Call(reply))),
            Output::Opened { key, lease, result } => {
                // In the turn that opens it, so that no later turn can void it unheard.
                if result.is_ok() {
                    self.links.landings.begin(&lease);
                }
                Some((key, Answer::Opened(result)))
            }
            Output::Accepted { key, result } => Some((key, Answer::Accepted(result))),
            Output::Staged { lease, from, to } => {
                if matches!(to, Some(Stage::Fenced) | None) {
                    self.links.landings.stop(&lease);
                }
                let word = |stage: Option<Stage>| stage.map(Stage::as_str);
                self.links.store.tell(&Event::Lease { ts: now.wall_ms, lease: &lease, from: word(from), to: word(to) });
                None
            }
            Output::Longest(longest) => {
                self.past.note(longest);
                None
            }
            Output::Load(load) => {
                let (node, generation) = (self.node.clone(), self.generation);
                self.links.tell_policy(policy::Input::Load { node, generation, record: load.clone() });
                if let Some(mesh) = self.links.mesh.get() {
                    mesh.publish_load(load);
                }
                None
            }
        }
    }
}

/// The ledger as other agents call it. A node without one refuses.
pub(crate) struct LedgerDoor(pub(crate) Arc<Links>);

impl LeaseServer for LedgerDoor {
    fn call<'a>(&'a self, from: &'a NodeName, call: LeaseCall) -> BoxFuture<'a, LeaseCallReply> {
        Box::pin(async move {
            let asks = matches!(call, LeaseCall::Ask(_));
            let refused = |refusal| match asks {
                true => LeaseCallReply::Lease(LeaseReply::Refused { refusal, quote: None }),
                false => LeaseCallReply::Changed(false),
            };
            let Some(ledger) = self.0.ledger.get() else { return refused(LeaseRefusal::NotDecode) };
            let from = from.clone();
            match ledger.ask(move |key| Input::Call { key, from, call }).await {
                Ok(Some(Answer::Call(reply))) => reply,
                Ok(_) => refused(LeaseRefusal::Unreachable),
                Err(_) => {
                    self.0.metrics.dropped("ledger");
                    refused(LeaseRefusal::Overloaded)
                }
            }
        })
    }
}

/// The writes under way into leases of this host, and how to stop each. One entry an open lease.
#[derive(Default)]
pub(crate) struct Landings(Mutex<BTreeMap<LeaseId, CancellationToken>>);

impl Landings {
    fn begin(&self, lease: &LeaseId) {
        self.all().insert(lease.clone(), CancellationToken::new());
    }

    fn end(&self, lease: &LeaseId) {
        self.all().remove(lease);
    }

    fn stop(&self, lease: &LeaseId) {
        if let Some(token) = self.all().get(lease) {
            token.cancel();
        }
    }

    fn token(&self, lease: &LeaseId) -> Option<CancellationToken> {
        self.all().get(lease).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<LeaseId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ledger as one rail's backend sees it.
pub(crate) struct LedgerLanding {
    pub(crate) links: Arc<Links>,
    pub(crate) backend: BackendKind,
    /// How long late writes are feared of a sender that is gone.
    pub(crate) fence_max: Duration,
}

impl LedgerLanding {
    async fn ask(&self, question: impl FnOnce(u64) -> Input + Send + 'static) -> Result<Answer, String> {
        let ledger = self.links.ledger.get().ok_or("this node is no decode host")?;
        match ledger.ask(question).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err("this node is shutting down".to_owned()),
            Err(full) => {
                self.links.metrics.dropped("ledger");
                Err(format!("the ledger is full: {} waiting", full.limit))
            }
        }
    }
}

impl Landing for LedgerLanding {
    fn open<'a>(
        &'a self,
        lease: &'a LeaseId,
        sender: &'a NodeName,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Vec<Extent>, String>> {
        Box::pin(async move {
            let (id, sender) = (lease.clone(), sender.clone());
            match self.ask(move |key| Input::Open { key, lease: id, sender, bytes }).await? {
                Answer::Opened(result) => result.map_err(|refusal| refusal.to_string()),
                Answer::Call(_) | Answer::Accepted(_) => Err("the ledger answered another question".to_owned()),
            }
        })
    }

    fn delivered<'a>(&'a self, lease: &'a LeaseId, bytes: u64, hash: [u8; 32]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let id = lease.clone();
            let arrived = match self.ask(move |key| Input::Delivered { key, lease: id, bytes, hash }).await? {
                Answer::Accepted(result) => result.map_err(|refusal| refusal.to_string())?,
                Answer::Call(_) | Answer::Opened(_) => return Err("the ledger answered another question".to_owned()),
            };
            let arrival = Arrival {
                lease: lease.clone(),
                request_id: arrived.request_id,
                source: arrived.source,
                bytes,
                extents: arrived.extents,
                hash: blake3::Hash::from_bytes(hash).to_hex().to_string(),
            };
            self.links.metrics.moved(self.backend, Direction::Received, bytes);
            // Nobody may be listening.
            let _ = self.links.arrivals.send(Arc::new(arrival));
            Ok(())
        })
    }

    fn voided<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.links.landings.token(lease) {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        })
    }

    fn unfinished<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(self.fence_max).await;
            self.quiet(lease).await;
        })
    }

    fn quiet<'a>(&'a self, lease: &'a LeaseId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.links.landings.end(lease);
            self.links.tell_ledger(Input::Quiet { lease: lease.clone() });
        })
    }
}
