//! Gauges whose series come and go: values here, text when somebody asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::Label;

use super::{DEFINITIONS, Kind, Registry, VERSION};
use crate::model::{PathHealth, PathId, PoolName};

/// Series of gauges that are no paths' at most.
const MAX_SERIES: usize = 8192;

/// The values of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSeries {
    /// What is known of it.
    pub health: PathHealth,
}

pub(super) struct Gauges {
    profile: Mutex<String>,
    max_paths: usize,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    paths: BTreeMap<PathId, (Option<PoolName>, PathSeries)>,
    others: BTreeMap<&'static str, BTreeMap<Vec<String>, f64>>,
    series: usize,
}

impl Gauges {
    pub(super) fn new(profile: &str, max_paths: usize) -> Self {
        Self { profile: Mutex::new(profile.to_owned()), max_paths, values: Mutex::default() }
    }

    pub(super) fn configured(&self, profile: &str) {
        profile.clone_into(&mut self.profile.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether there was room.
    pub(super) fn path(&self, path: &PathId, pool: Option<&PoolName>, series: PathSeries) -> bool {
        let mut values = self.values();
        if let Some(known) = values.paths.get_mut(path) {
            known.1 = series;
            if known.0.as_ref() != pool {
                known.0 = pool.cloned();
            }
            return true;
        }
        if values.paths.len() >= self.max_paths {
            return false;
        }
        values.paths.insert(path.clone(), (pool.cloned(), series));
        true
    }

    pub(super) fn path_gone(&self, path: &PathId) {
        self.values().paths.remove(path);
    }

    /// Whether the name is a gauge with that many labels, and there was room.
    pub(super) fn set(&self, name: &'static str, labels: &[&str], value: f64) -> bool {
        let known = DEFINITIONS.iter().any(|definition| {
            definition.name == name && definition.kind == Kind::Gauge && definition.labels.len() == labels.len()
        });
        if !known {
            return false;
        }
        let mut values = self.values();
        let values = &mut *values;
        let family = values.others.entry(name).or_default();
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        if !family.contains_key(&labels) {
            if values.series >= MAX_SERIES {
                return false;
            }
            values.series += 1;
        }
        family.insert(labels, value);
        true
    }

    pub(super) fn clear(&self, name: &'static str) {
        let mut values = self.values();
        let removed = values.others.remove(name).map_or(0, |family| family.len());
        values.series -= removed;
    }

    /// The exporter forgets no series, so each text is made by an exporter of its own.
    pub(super) fn render(&self) -> String {
        let registry = Registry::new();
        let profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labels = vec![Label::new("version", VERSION), Label::new("profile", profile)];
        registry.gauge("seam_build_info", labels).set(1.0);
        let values = self.values();
        for (path, (pool, series)) in &values.paths {
            let labels = vec![
                Label::new("peer", path.destination.to_string()),
                Label::new("pool", pool.as_ref().map(ToString::to_string).unwrap_or_default()),
                Label::new("rail", path.rail.to_string()),
                Label::new("backend", path.backend.as_str()),
            ];
            let health = &series.health;
            let always = [
                ("seam_path_gfs", health.gfs),
                ("seam_path_severity", health.state.severity()),
                ("seam_path_latency_p99_seconds", health.p99_latency_ms / 1000.0),
                ("seam_path_jitter_seconds", health.jitter_ms / 1000.0),
                ("seam_path_drop_ratio", health.mean_drop_rate),
            ];
            let known = health.bandwidth_ratio.map(|ratio| ("seam_path_bandwidth_ratio", ratio));
            for (name, value) in always.into_iter().chain(known) {
                registry.gauge(name, labels.clone()).set(value);
            }
        }
        for (name, family) in &values.others {
            let names = DEFINITIONS.iter().find(|definition| definition.name == *name).map_or(&[][..], |d| d.labels);
            for (labels, value) in family {
                let labels = names.iter().zip(labels).map(|(name, value)| Label::new(*name, value.clone())).collect();
                registry.gauge(name, labels).set(*value);
            }
        }
        drop(values);
        registry.handle.render()
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
