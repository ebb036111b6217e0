//! The actor of the health core: reports go to the policy, and what is not healthy to the mesh.

use std::sync::Arc;

use super::links::Links;
use super::owner::Effects;
use super::store::Event;
use crate::core::{Mono, Now};
use crate::health::{HealthCore, Input, Output};
use crate::mesh::chunk_paths;
use crate::metrics::PathSeries;
use crate::model::{ObservedPath, PathState};

/// The mesh is told at most once in this many milliseconds.
const TELL_INTERVAL_MS: u64 = 200;
/// The log says at most so often that this host is late: one that is comes and goes, more than once a second.
const LATE_INTERVAL_MS: u64 = 60_000;

/// Acts on what the health core says.
pub(crate) struct HealthEffects {
    links: Arc<Links>,
    /// When the mesh was told last.
    told: Option<Mono>,
    /// A path has changed its state since.
    untold: bool,
    late: Late,
}

/// What the log has said of this host's lateness.
#[derive(Default)]
struct Late {
    /// When it said last that this host is late.
    said: Option<Mono>,
    /// How often this host has become late since.
    times: u64,
    /// Since when it is late, while it is.
    since: Option<Mono>,
}

impl HealthEffects {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        Self { links, told: None, untold: false, late: Late::default() }
    }

    /// Tells the mesh what is not healthy, once something has changed and some time has passed.
    fn tell_mesh(&mut self, core: &HealthCore, now: Now) {
        if !self.untold || self.told.is_some_and(|told| now.mono < told.plus_ms(TELL_INTERVAL_MS)) {
            return;
        }
        if let Some(mesh) = self.links.mesh.get() {
            let unhealthy = core.paths().filter(|(_, health)| health.state != PathState::Healthy);
            let observed: Vec<ObservedPath> =
                unhealthy.map(|(path, health)| ObservedPath { path: path.clone(), health }).collect();
            mesh.publish_paths(chunk_paths(&observed));
        }
        self.untold = false;
        self.told = Some(now.mono);
    }
}

impl Late {
    /// Says that this host is late at most once in a while, and that it is no longer where it was for as long.
    fn says(&mut self, now: Now, frozen: bool) {
        if !frozen {
            let ms = self.since.take().map_or(0, |since| now.mono.ms_since(since));
            if ms >= LATE_INTERVAL_MS {
                tracing::info!(seconds = ms / 1_000, "this host is on time again: path states move again");
            }
            return;
        }
        self.since = Some(now.mono);
        self.times += 1;
        if self.said.is_none_or(|said| now.mono >= said.plus_ms(LATE_INTERVAL_MS)) {
            tracing::warn!(
                times = self.times,
                "this host is late itself most of the time: path states are frozen while it is (seam_node_frozen)"
            );
            (self.said, self.times) = (Some(now.mono), 0);
        }
    }
}

impl Effects for HealthEffects {
    type Core = HealthCore;
    type Answer = std::convert::Infallible;

    fn tick() -> Input {
        Input::Tick
    }

    fn perform(&mut self, core: &HealthCore, now: Now, output: Output) -> Option<(u64, Self::Answer)> {
        match output {
            Output::Report(report) => {
                self.tell_mesh(core, now);
                let pool = self.links.pool_of(&report.path.destination);
                self.links.metrics.path(&report.path, pool.as_ref(), PathSeries { health: report.health });
                self.links.offer_policy(report);
            }
            Output::Transition { path, from, to } => {
                self.untold = true;
                self.links.metrics.transition(from, to);
                self.links.store.tell(&Event::transition(now.wall_ms, &path, from, to));
                tracing::info!(%path, %from, %to, "path state");
            }
            Output::Gone(path) => {
                self.untold = true;
                self.links.metrics.path_gone(&path);
                self.tell_mesh(core, now);
            }
            Output::Discarded { reason, .. } => self.links.metrics.discarded(reason),
            Output::Canary(canary) => {
                tracing::info!(path = %canary.path, bytes = canary.bytes, "transfers failed on this path: canary");
                if !self.links.probe_hints.canary(canary) {
                    self.links.metrics.dropped("probe_hints");
                }
            }
            Output::Frozen(frozen) => {
                self.links.metrics.set("seam_node_frozen", &[], f64::from(u8::from(frozen)));
                self.late.says(now, frozen);
            }
            Output::Refused(invalid) => tracing::error!(%invalid, "health settings refused"),
        }
        None
    }
}
