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
    /// When the log said last that this host is late, and how often it has become so since.
    late: (Option<Mono>, u64),
}

impl HealthEffects {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        Self { links, told: None, untold: false, late: (None, 0) }
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

    fn became_late(&mut self, now: Now) {
        let (said, times) = &mut self.late;
        *times += 1;
        if said.is_none_or(|said| now.mono >= said.plus_ms(LATE_INTERVAL_MS)) {
            tracing::warn!(
                times = *times,
                "this host is late itself most of the time: path states are frozen while it is (seam_node_frozen)"
            );
            self.late = (Some(now.mono), 0);
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
                if frozen {
                    self.became_late(now);
                }
            }
            Output::Refused(invalid) => tracing::error!(%invalid, "health settings refused"),
        }
        None
    }
}
