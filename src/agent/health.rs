//! The actor of the health core: reports go to the policy, and what is not healthy to the mesh.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::links::Links;
use super::owner::Effects;
use super::store::Event;
use crate::core::Now;
use crate::health::{HealthCore, Input, Output};
use crate::metrics::PathSeries;
use crate::model::{ObservedPath, PathHealth, PathId, PathState, PathsRecord};
use crate::policy;

/// Paths in one record, so that it fits a rumour.
const PATHS_PER_CHUNK: usize = 4;
/// The mesh is told at most once in this many milliseconds.
const TELL_INTERVAL_MS: u64 = 200;

/// Acts on what the health core says.
pub(crate) struct HealthEffects {
    links: Arc<Links>,
    unhealthy: BTreeMap<PathId, PathHealth>,
    told_ms: u64,
    untold: bool,
}

impl HealthEffects {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        Self { links, unhealthy: BTreeMap::new(), told_ms: 0, untold: false }
    }

    fn note(&mut self, now: Now, path: &PathId, health: PathHealth) {
        let was = self.unhealthy.get(path).map(|known| known.state);
        match health.state {
            PathState::Healthy => self.unhealthy.remove(path),
            _ => self.unhealthy.insert(path.clone(), health),
        };
        self.untold |= was.unwrap_or(PathState::Healthy) != health.state;
        let now_ms = now.mono.0 / 1_000_000;
        if self.untold && now_ms >= self.told_ms + TELL_INTERVAL_MS {
            self.untold = false;
            self.told_ms = now_ms;
            if let Some(mesh) = self.links.mesh.get() {
                mesh.publish_paths(self.chunks());
            }
        }
    }

    fn chunks(&self) -> Vec<PathsRecord> {
        let observed: Vec<ObservedPath> =
            self.unhealthy.iter().map(|(path, &health)| ObservedPath { path: path.clone(), health }).collect();
        let chunk = |(number, paths): (usize, &[ObservedPath])| {
            Some(PathsRecord { chunk: u16::try_from(number).ok()?, paths: paths.to_vec() })
        };
        observed.chunks(PATHS_PER_CHUNK).enumerate().filter_map(chunk).take(crate::mesh::MAX_CHUNKS).collect()
    }
}

impl Effects for HealthEffects {
    type Core = HealthCore;
    type Answer = std::convert::Infallible;

    fn tick() -> Input {
        Input::Tick
    }

    fn perform(&mut self, _: &HealthCore, now: Now, output: Output) -> Option<(u64, Self::Answer)> {
        match output {
            Output::Report(report) => {
                self.note(now, &report.path, report.health);
                let pool = self.links.pool_of(&report.path.destination);
                self.links.metrics.path(&report.path, pool.as_ref(), PathSeries { health: report.health });
                self.links.tell_policy(policy::Input::Report(report));
            }
            Output::Transition { path, from, to } => {
                self.links.metrics.transition(from, to);
                self.links.store.tell(&Event::transition(now.wall_ms, &path, from, to));
                tracing::info!(%path, %from, %to, "path state");
            }
            Output::Discarded { reason, .. } => self.links.metrics.discarded(reason),
            Output::Refused(invalid) => tracing::error!(%invalid, "health settings refused"),
        }
        None
    }
}
