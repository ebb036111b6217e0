//! The run itself.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::audit::over_commits;
use super::book::Book;
use super::engine::Engine;
use super::gateway::{Counts, Gateway};
use super::host::RAIL;
use super::mesh::{Host, Mesh};
use super::plan::Plan;
use super::progress::Progress;
use super::report::{AgentReport, Interesting, Report, ScaleReport};
use super::source::Source;
use super::summary::{Fault, Observation, interesting, summarise};
use super::watch::Watch;
use super::{DemoError, Options, input};
use crate::api::Done;
use crate::model::{BackendKind, ModelName, NodeName, PathId, PathState, RailName};

/// Requests under way at most; a further one waits.
const MAX_IN_FLIGHT: usize = 256;
/// How long delivered bytes may take to be read back once the stream has ended.
const READ_BACK_WITHIN: Duration = Duration::from_secs(10);
/// How long the gray path's return is watched.
const RETURN_WITHIN: Duration = Duration::from_secs(10);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The latency around which the gray path jitters, in milliseconds.
const GRAY_BASE_MS: f64 = 7.0;
/// Errors shown in words.
const MAX_ERRORS: usize = 5;

/// A run whose stream has ended, with its mesh still up.
pub struct Run {
    /// What was found.
    pub report: Report,
    mesh: Mesh,
    tasks: Tasks,
}

/// Engines and watchers.
struct Tasks {
    stop: CancellationToken,
    set: JoinSet<()>,
}

impl Run {
    /// Runs the demo. `say` hears what happens while it does; `stop` ends it early.
    ///
    /// # Errors
    /// An option or the trace cannot be used, an agent does not start, or `stop` came first.
    /// Nothing is left behind then.
    pub async fn start(
        options: &Options,
        stop: &CancellationToken,
        say: &(dyn Fn(&Progress) + Sync),
    ) -> Result<Self, DemoError> {
        options.check()?;
        let (source, trace) = input::read(options)?;
        let plan = Arc::new(Plan::new(options, options.model, &trace));
        drop(trace);
        let scale = scale(options, &plan, source);
        say(&Progress::Planned { prefill: options.prefill, decode: options.decode, scale: scale.clone() });
        let mesh = Mesh::start(options, &plan, stop).await?;
        say(&Progress::Up { agents: agents(&mesh) });
        let mut tasks = Tasks { stop: CancellationToken::new(), set: JoinSet::new() };
        let outcome = tokio::select! {
            outcome = drive(options, plan, &mesh, &mut tasks, say) => outcome,
            () = stop.cancelled() => Err(DemoError::Interrupted),
        };
        match outcome {
            Ok(report) => Ok(Self { report: Report { scale, agents: agents(&mesh), ..report }, mesh, tasks }),
            Err(error) => {
                tasks.end().await;
                mesh.shutdown().await;
                Err(error)
            }
        }
    }

    /// Stops the engines and the agents, and removes what they left.
    pub async fn shutdown(self) {
        self.tasks.end().await;
        self.mesh.shutdown().await;
    }
}

impl Tasks {
    async fn end(mut self) {
        self.stop.cancel();
        while self.set.join_next().await.is_some() {}
    }
}

async fn drive(
    options: &Options,
    plan: Arc<Plan>,
    mesh: &Mesh,
    tasks: &mut Tasks,
    say: &(dyn Fn(&Progress) + Sync),
) -> Result<Report, DemoError> {
    let mut prefill = Vec::new();
    for host in mesh.prefill() {
        prefill.push((host.client.clone(), Source::new(host.arena(&plan)?, plan.slot_bytes)));
    }
    let mut arenas = Vec::new();
    for host in mesh.decode() {
        arenas.push((host.client.clone(), host.arena(&plan)?));
    }
    let book = Arc::new(Book::new(options.seed));
    for (client, arena) in arenas {
        let engine = Engine::new(client, arena, plan.clone(), book.clone());
        tasks.set.spawn(engine.run(tasks.stop.clone()));
    }
    let watch = Arc::new(Watch::default());
    for host in mesh.prefill() {
        let name =
            NodeName::new(&host.spec.name).map_err(|error| DemoError::start(&host.spec.name, error.to_string()))?;
        tasks.set.spawn(watch.clone().follow(name, host.client.clone(), book.clone(), tasks.stop.clone()));
    }
    let gateway = Arc::new(Gateway {
        prefill,
        plan,
        book,
        model: ModelName::new(options.model.name).ok(),
        seed: options.seed,
        counts: Counts::default(),
        used: std::sync::Mutex::default(),
    });
    let stage = Stage { options, mesh, gateway: &gateway, watch: &watch, say };
    stage.play().await
}

/// What the acts of a run share.
struct Stage<'a> {
    options: &'a Options,
    mesh: &'a Mesh,
    gateway: &'a Arc<Gateway>,
    watch: &'a Watch,
    say: &'a (dyn Fn(&Progress) + Sync),
}

impl Stage<'_> {
    async fn play(&self) -> Result<Report, DemoError> {
        let (mut observations, mut fault) = tokio::select! {
            streamed = self.stream() => streamed?,
            never = self.tick() => match never {},
        };
        let book = &self.gateway.book;
        let stream_ms = book.now_ms();
        let delivered: Vec<_> = observations
            .iter()
            .enumerate()
            .filter(|(_, seen)| seen.moved.as_ref().is_some_and(|moved| moved.delivered))
            .map(|(index, _)| index)
            .collect();
        // What has not been read by then counts as not verified.
        let _ = timeout(READ_BACK_WITHIN, book.all_read(&delivered)).await;
        for (index, seen) in observations.iter_mut().enumerate() {
            if let Some(moved) = &mut seen.moved {
                moved.verified = moved.delivered && book.verified(index) == Some(true);
            }
        }
        if let Some(fault) = &mut fault {
            self.clear(fault).await?;
        }
        let mut report = summarise(&observations, &self.watch.changes(), fault.as_ref());
        report.over_commits = over_commits(&book.held(), self.gateway.plan.max_sessions);
        report.stream_ms = stream_ms;
        report.errors.extend(book.errors());
        report.errors.truncate(MAX_ERRORS);
        report.interesting = interesting(&observations, fault.as_ref()).and_then(|(routed, why)| {
            let host = self.mesh.hosts.iter().find(|host| host.spec.name == routed.source)?;
            Some(Interesting { decision: routed.decision.clone(), api: host.url.clone(), why: why.to_owned() })
        });
        Ok(report)
    }

    /// Sends every request at its time; half way, the path turns gray.
    async fn stream(&self) -> Result<(Vec<Observation>, Option<Fault>), DemoError> {
        let plan = &self.gateway.plan;
        let permits = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        let mut serving = JoinSet::new();
        let mut observations: Vec<Option<Observation>> = vec![None; plan.requests.len()];
        let mut fault = None;
        let start = Instant::now();
        for (index, planned) in plan.requests.iter().enumerate() {
            sleep_until(start + planned.at).await;
            if index == plan.half_way() {
                fault = Some(self.turn_gray().await?);
            }
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            let gateway = self.gateway.clone();
            serving.spawn(async move {
                let seen = gateway.serve(index).await;
                drop(permit);
                (index, seen)
            });
        }
        while let Some(served) = serving.join_next().await {
            match served {
                Ok((index, seen)) => {
                    if let Some(place) = observations.get_mut(index) {
                        *place = seen;
                    }
                }
                Err(error) => self.gateway.book.error(error),
            }
        }
        Ok((observations.into_iter().flatten().collect(), fault))
    }

    /// The first prefill host's most used path starts to jitter.
    async fn turn_gray(&self) -> Result<Fault, DemoError> {
        let (host, path) = self.gray_path()?;
        let body = serde_json::json!({
            "rail": RAIL,
            "mode": "jitter",
            "base_ms": GRAY_BASE_MS,
            "peers": [path.destination],
            "seed": self.options.seed,
        });
        host.client.put::<Done>("/v1/faults", &body).await?;
        let on_ms = self.gateway.book.now_ms();
        (self.say)(&Progress::Gray { path: path.to_string(), at_ms: on_ms });
        Ok(Fault { path, on_ms, off_ms: None })
    }

    fn gray_path(&self) -> Result<(&Host, PathId), DemoError> {
        let host = self.mesh.prefill().next().ok_or_else(|| DemoError::start("p0", "it is not there"))?;
        let used = self.gateway.used.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = used.iter().filter(|(path, _)| path.source.as_str() == host.spec.name);
        // Of equals the last; which one does not matter, but the same one each time.
        let most = of_host.max_by_key(|(_, times)| **times).map(|(path, _)| path.clone());
        let path = most.or_else(|| first_path(host, self.mesh.decode().next()?));
        path.map(|path| (host, path)).ok_or_else(|| DemoError::start(&host.spec.name, "it has no path"))
    }

    async fn clear(&self, fault: &mut Fault) -> Result<(), DemoError> {
        let Some(host) = self.mesh.prefill().next() else { return Ok(()) };
        // A rail without a mode has no faults.
        let body = serde_json::json!({"rail": RAIL});
        host.client.put::<Done>("/v1/faults", &body).await?;
        let off_ms = self.gateway.book.now_ms();
        fault.off_ms = Some(off_ms);
        (self.say)(&Progress::Cleared { path: fault.path.to_string(), at_ms: off_ms });
        // If it does not come back in time, the report says so.
        let _ = timeout(RETURN_WITHIN, self.watch.reaches(&fault.path, PathState::Healthy)).await;
        Ok(())
    }

    async fn tick(&self) -> Infallible {
        let mut ticks = interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
        loop {
            ticks.tick().await;
            let counts = &self.gateway.counts;
            (self.say)(&Progress::Stream {
                elapsed_ms: self.gateway.book.now_ms(),
                requests: self.gateway.plan.requests.len(),
                finished: counts.finished.load(Ordering::Relaxed),
                in_flight: counts.in_flight.load(Ordering::Relaxed),
                delivered: counts.delivered.load(Ordering::Relaxed),
                verified: self.gateway.book.verified_count(),
            });
        }
    }
}

fn first_path(from: &Host, to: &Host) -> Option<PathId> {
    Some(PathId {
        source: NodeName::new(&from.spec.name).ok()?,
        destination: NodeName::new(&to.spec.name).ok()?,
        rail: RailName::new(RAIL).ok()?,
        backend: BackendKind::Mock,
    })
}

fn agents(mesh: &Mesh) -> Vec<AgentReport> {
    mesh.hosts.iter().map(|host| AgentReport { name: host.spec.name.clone(), api: host.url.clone() }).collect()
}

fn scale(options: &Options, plan: &Plan, source: String) -> ScaleReport {
    ScaleReport {
        source,
        model: options.model.name.to_owned(),
        shrink: plan.shrink,
        largest_true_bytes: plan.largest_true_bytes,
        speedup: options.speedup,
        max_sessions: plan.max_sessions,
        mean_sessions: plan.mean_sessions,
    }
}
