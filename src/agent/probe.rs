//! The prober: small probes over the backend that would carry the bytes, jittered so that hosts do
//! not march in step, within a budget per second. It decides nothing: its samples go to health.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::links::Links;
use super::rails::{Rail, peer};
use super::supervisor::Starter;
use crate::health::{Sample, SampleKind, SampleOutcome};
use crate::metrics::ProbeResult;
use crate::model::{PathId, PathSpec};
use crate::transport::PathError;

/// A probe is due this far from its interval at most, either way.
const JITTER: f64 = 0.2;
/// A probe is given up after this many intervals, within the bounds below.
const DEADLINE_INTERVALS: u32 = 4;
const MIN_DEADLINE: Duration = Duration::from_millis(250);
const MAX_DEADLINE: Duration = Duration::from_secs(2);

/// The prober's part of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) interval: Duration,
    pub(crate) payload_bytes: u32,
    pub(crate) budget_per_s: u32,
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
    tracked: BTreeMap<PathId, Tracked>,
    rng: ChaCha8Rng,
    tokens: f64,
    filled: Instant,
}

struct Tracked {
    spec: PathSpec,
    due: Instant,
    busy: Arc<AtomicBool>,
    /// An answer has come: only later ones are samples, since the first also pays for the first
    /// connection and for cold caches at both ends.
    warm: Arc<AtomicBool>,
}

impl Actor for Prober {
    type Msg = Round;
    type State = State;
    type Arguments = (Arc<Links>, Settings, PathList);

    async fn pre_start(
        &self,
        myself: ActorRef<Round>,
        (links, settings, paths): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        myself.send_message(Round)?;
        let rng = ChaCha8Rng::seed_from_u64(settings.seed);
        let (tokens, filled) = (f64::from(settings.budget_per_s), Instant::now());
        Ok(State { links, settings, paths, tracked: BTreeMap::new(), rng, tokens, filled })
    }

    async fn handle(&self, myself: ActorRef<Round>, _: Round, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.refresh();
        let now = Instant::now();
        state.refill(now);
        state.probe_due(now);
        myself.send_after(state.rest(now), || Round);
        Ok(())
    }
}

impl State {
    /// Follows the list of paths; a new one is first probed at a random point of its interval.
    fn refresh(&mut self) {
        if !self.paths.has_changed().unwrap_or(false) && !self.tracked.is_empty() {
            return;
        }
        let list = self.paths.borrow_and_update().clone();
        let mut before = std::mem::take(&mut self.tracked);
        for spec in list.iter() {
            let known = before.remove(&spec.id).filter(|known| known.spec == *spec);
            let tracked = known.unwrap_or_else(|| Tracked {
                spec: spec.clone(),
                due: Instant::now() + self.settings.interval.mul_f64(self.rng.random::<f64>()),
                busy: Arc::default(),
                warm: Arc::default(),
            });
            self.tracked.insert(spec.id.clone(), tracked);
        }
    }

    fn refill(&mut self, now: Instant) {
        let budget = f64::from(self.settings.budget_per_s);
        self.tokens = (self.tokens + (now - self.filled).as_secs_f64() * budget).min(budget);
        self.filled = now;
    }

    /// Probes what is due, the longest overdue first; what the budget does not cover stays due.
    fn probe_due(&mut self, now: Instant) {
        let mut due: Vec<&mut Tracked> = self.tracked.values_mut().filter(|path| path.due <= now).collect();
        due.sort_by_key(|path| path.due);
        for path in due {
            let Some(rails) = self.links.rails.get() else { return };
            let Some(rail) = rails.get(&path.spec.id.rail) else { continue };
            if self.tokens < 1.0 {
                self.links.metrics.probed(rail.kind, ProbeResult::Skipped, None);
                break;
            }
            let spread = 1.0 + JITTER * (2.0 * self.rng.random::<f64>() - 1.0);
            path.due = now + self.settings.interval.mul_f64(spread);
            // A path whose last probe still waits is not sent another: one deadline, one sample.
            if path.busy.swap(true, Ordering::AcqRel) {
                continue;
            }
            self.tokens -= 1.0;
            let (links, spec) = (self.links.clone(), path.spec.clone());
            let (busy, warm) = (path.busy.clone(), path.warm.clone());
            let deadline = (self.settings.interval * DEADLINE_INTERVALS).clamp(MIN_DEADLINE, MAX_DEADLINE);
            let payload_bytes = self.settings.payload_bytes;
            tokio::spawn(async move {
                let _busy = Busy(busy);
                probe(&links, spec, payload_bytes, deadline, &warm).await;
            });
        }
    }

    /// Until the next path is due and the budget covers a probe.
    fn rest(&self, now: Instant) -> Duration {
        let next = self.tracked.values().map(|path| path.due.saturating_duration_since(now)).min();
        let missing = (1.0 - self.tokens).max(0.0) / f64::from(self.settings.budget_per_s.max(1));
        let least = Duration::from_secs_f64(missing).max(Duration::from_millis(1));
        next.unwrap_or(self.settings.interval).clamp(least, self.settings.interval.max(least))
    }
}

/// Marks a path's probe as under way; gone however that ends.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

async fn probe(links: &Links, spec: PathSpec, payload_bytes: u32, deadline: Duration, warm: &AtomicBool) {
    let Some(rail) = links.rails.get().and_then(|rails| rails.get(&spec.id.rail)) else { return };
    let start = Instant::now();
    let before = rail.in_flight_bytes();
    let result = rail.backend.probe(&peer(&spec), payload_bytes, deadline).await;
    let elapsed = result.as_ref().copied().unwrap_or_else(|_| start.elapsed());
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
        Some(elapsed),
    );
    if outcome == SampleOutcome::Ok && !warm.swap(true, Ordering::AcqRel) {
        return;
    }
    links.offer_health(Sample {
        path: spec.id,
        kind: SampleKind::Probe,
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
