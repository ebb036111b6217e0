//! The prober: small probes and now and then large ones over the backend that would carry the bytes,
//! jittered so that hosts do not march in step, within its budgets. It decides nothing of a path: its
//! samples go to health.

mod hints;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::time::Instant;

use super::links::Links;
use super::rails::{Rail, peer};
use super::settings;
use super::supervisor::Starter;
use crate::config::Config;
use crate::health::{Sample, SampleKind, SampleOutcome};
use crate::metrics::ProbeResult;
use crate::model::PathSpec;
use crate::transport::PathError;
use plan::{Due, Mark, Plan};

pub(crate) use hints::ProbeHints;
pub(crate) use plan::Rates;

/// What the prober is configured with, whatever that is now, and what seeds its chance.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: watch::Receiver<Arc<Config>>,
    pub(crate) seed: u64,
}

/// The paths of this host, as the directory keeps them.
pub(crate) type PathList = watch::Receiver<Arc<Vec<PathSpec>>>;

/// Starts a prober, as often as it must be.
pub(crate) fn starter(links: Arc<Links>, settings: Settings, paths: PathList) -> Starter {
    Arc::new(move |supervisor: ActorCell| {
        let arguments = (links.clone(), settings.clone(), paths.clone());
        Box::pin(async move {
            let (actor, _) = Actor::spawn_linked(None, Prober, arguments, supervisor).await?;
            Ok(actor.get_cell())
        })
    })
}

struct Prober;

/// It is time to see which paths are due.
struct Round;

struct State {
    links: Arc<Links>,
    settings: Settings,
    paths: PathList,
    plan: Plan,
}

impl Actor for Prober {
    type Msg = Round;
    type State = State;
    type Arguments = (Arc<Links>, Settings, PathList);

    async fn pre_start(
        &self,
        myself: ActorRef<Round>,
        (links, mut settings, paths): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        myself.send_message(Round)?;
        let Settings { config, seed } = &mut settings;
        let plan = Plan::new(settings::probe(&config.borrow_and_update(), *seed), Instant::now());
        Ok(State { links, settings, paths, plan })
    }

    async fn handle(&self, myself: ActorRef<Round>, _: Round, state: &mut State) -> Result<(), ActorProcessingErr> {
        let rest = state.round(Instant::now());
        myself.send_after(rest, || Round);
        Ok(())
    }
}

impl State {
    /// Sends what is due; says when to look again.
    fn round(&mut self, now: Instant) -> Duration {
        let Settings { config, seed } = &mut self.settings;
        if config.has_changed().unwrap_or(false) {
            self.plan.configure(settings::probe(&config.borrow_and_update(), *seed), now);
        }
        if self.plan.is_empty() || self.paths.has_changed().unwrap_or(false) {
            let list = self.paths.borrow_and_update().clone();
            self.plan.follow(&list, now);
        }
        let Self { links, plan, .. } = self;
        if let Some(rails) = links.rails.get() {
            plan.review(now, || links.probe_hints.in_use(now));
            let (due, skipped) = plan.due(now, links.probe_hints.take_canaries());
            if let Some(rail) = skipped.and_then(|rail| rails.get(&rail)) {
                links.metrics.probed(rail.kind, ProbeResult::Skipped, None);
            }
            for probe in due {
                tokio::spawn(send(links.clone(), probe));
            }
        }
        plan.rest(now)
    }
}

/// Marks a path's probe as under way; gone however that ends.
struct Busy(Arc<Mark>, bool);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.free(self.1);
    }
}

async fn send(links: Arc<Links>, due: Due) {
    let Due { spec, bulk, payload_bytes, deadline, mark } = due;
    let _busy = Busy(mark.clone(), bulk);
    let Some(rail) = links.rails.get().and_then(|rails| rails.get(&spec.id.rail)) else { return };
    let before = rail.in_flight_bytes();
    // What a large probe moves is load for the small ones.
    let sending = bulk.then(|| rail.sending(u64::from(payload_bytes)));
    let start = Instant::now();
    let result = rail.backend.probe(&peer(&spec), payload_bytes, deadline).await;
    let elapsed = result.as_ref().copied().unwrap_or_else(|_| start.elapsed());
    drop(sending);
    // A far end that refuses its own probes is no use, whatever its reason.
    let refused = matches!(result, Err(PathError::Refused { .. }));
    let Some(outcome) = outcome(&result.map(|_| ())).or(refused.then_some(SampleOutcome::Failed)) else {
        links.metrics.probed(rail.kind, ProbeResult::Skipped, None);
        return;
    };
    links.metrics.probed(
        rail.kind,
        match outcome {
            SampleOutcome::Ok => ProbeResult::Ok,
            SampleOutcome::Lost => ProbeResult::Lost,
            SampleOutcome::Failed => ProbeResult::Failed,
        },
        (!bulk).then_some(elapsed),
    );
    if bulk {
        links.metrics.bulk_probed(rail.kind, u64::from(payload_bytes));
    } else if !mark.answered(outcome == SampleOutcome::Ok) {
        return;
    }
    links.offer_health(Sample {
        path: spec.id,
        kind: if bulk { SampleKind::Bulk } else { SampleKind::Probe },
        outcome,
        elapsed_ms: elapsed.as_secs_f64() * 1000.0,
        // What never arrived explains no time on the wire.
        bytes: if outcome == SampleOutcome::Ok { u64::from(payload_bytes) } else { 0 },
        attempted_bytes: u64::from(payload_bytes),
        inflight_bytes: in_flight(rail, before),
        late_ms: links.lateness.since(start),
        taken: Some(links.clock.now().mono),
    });
}

/// What an attempt says about its path; nothing where this host is at fault, or where the far end
/// gave its reasons.
pub(crate) fn outcome(result: &Result<(), PathError>) -> Option<SampleOutcome> {
    match result {
        Ok(()) => Some(SampleOutcome::Ok),
        Err(PathError::TimedOut { .. }) => Some(SampleOutcome::Lost),
        Err(PathError::PeerGone { .. } | PathError::Corrupt { .. }) => Some(SampleOutcome::Failed),
        Err(PathError::Refused { .. } | PathError::Local(_)) => None,
    }
}

fn in_flight(rail: &Rail, before: u64) -> u64 {
    before.max(rail.in_flight_bytes())
}
