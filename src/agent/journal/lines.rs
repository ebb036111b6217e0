//! Decision records as JSON lines, one file after the other.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outage::Outage;
use super::output::Output;
use super::{RECORDS, retention};
use crate::agent::folder;
use crate::config::RecordsConfig;
use crate::metrics::Metrics;
use crate::model::{Generation, NodeName};
use crate::policy::record::DecisionRecord;

/// How often lines are forced to the disk, and their file is looked for.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The files of one life. The first is made for the first decision.
pub(super) struct Lines {
    node: NodeName,
    generation: Generation,
    config: RecordsConfig,
    metrics: Arc<Metrics>,
    /// The number of the next file.
    next: u64,
    open: Option<Output>,
    /// Lines that have not reached the file yet.
    unwritten: u64,
    outage: Outage,
}

impl Lines {
    pub(super) fn new(node: NodeName, generation: Generation, config: RecordsConfig, metrics: Arc<Metrics>) -> Self {
        let outage = Outage::new("decision records' file");
        Self { node, generation, config, metrics, next: 0, open: None, unwritten: 0, outage }
    }

    pub(super) fn decided(&mut self, record: &DecisionRecord, now: Instant) {
        if self.open.is_none() && !self.outage.waits(now) {
            self.begin();
        }
        let Some(output) = &mut self.open else { return self.metrics.dropped(RECORDS) };
        // What is written to memory fails for no record: it has no keys that are no strings.
        if serde_json::to_writer(&mut *output, record)
            .and_then(|()| output.write_all(b"\n").map_err(serde_json::Error::io))
            .is_err()
        {
            return self.metrics.dropped(RECORDS);
        }
        self.unwritten += 1;
        if output.len() >= self.config.rotate {
            self.sync();
            self.open = None;
        } else if output.is_full() {
            self.write_out();
        }
    }

    /// Writes what was gathered.
    pub(super) fn write_out(&mut self) {
        let Some(output) = &mut self.open else { return };
        match output.write_out() {
            Ok(_) => self.unwritten = 0,
            Err(error) => self.fail(&error),
        }
    }

    /// Forces what was written to the disk.
    pub(super) fn sync(&mut self) {
        self.write_out();
        let Some(output) = &mut self.open else { return };
        match output.sync() {
            Ok(()) => self.outage.over(output.path()),
            Err(error) => self.fail(&error),
        }
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.open.as_ref().is_none_or(|output| now.saturating_duration_since(output.synced()) < SYNC_INTERVAL) {
            return;
        }
        self.sync();
        if let Some(output) = self.open.take_if(|output| !output.is_in_place()) {
            let path = output.path().display();
            tracing::warn!(%path, "the file was deleted, moved away or cut: the next decision begins a new one");
        }
    }

    fn begin(&mut self) {
        let name = format!("decisions-{}-{}-{:06}.jsonl", self.node, self.generation, self.next);
        let path = self.config.dir.join(name);
        match folder::make(&self.config.dir).and_then(|()| Output::create(path.clone())) {
            Ok(output) => {
                self.next += 1;
                let limit = self.config.retain.saturating_sub(self.config.rotate);
                retention::trim(files(&self.config.dir, &self.node), output.path(), limit);
                self.open = Some(output);
            }
            Err(error) => self.outage.failed(&path, &error, Instant::now()),
        }
    }

    fn fail(&mut self, error: &std::io::Error) {
        let Some(output) = self.open.take() else { return };
        self.metrics.dropped_many(RECORDS, std::mem::take(&mut self.unwritten));
        self.outage.failed(output.path(), error, Instant::now());
    }
}

/// The files of a node, the oldest first. Files of other names are not looked at.
fn files(dir: &Path, node: &NodeName) -> Vec<PathBuf> {
    let named = |path: PathBuf| {
        let (rest, number) = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.rsplit_once('-')?;
        let (name, generation) = rest.strip_prefix("decisions-")?.rsplit_once('-')?;
        let (generation, number): (Generation, u64) = (generation.parse().ok()?, number.parse().ok()?);
        (name == node.as_str()).then_some((generation, number, path))
    };
    let Ok(entries) = dir.read_dir() else { return Vec::new() };
    let mut found: Vec<_> = entries.filter_map(|entry| named(entry.ok()?.path())).collect();
    found.sort();
    found.into_iter().map(|(_, _, path)| path).collect()
}
