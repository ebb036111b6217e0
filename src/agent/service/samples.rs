//! Samples that engines report of transfers that they made themselves.

use super::{Agency, Service, ServiceError};
use crate::api::{ReportedOutcome, SampleReport, SampleVerdict};
use crate::core::Mono;
use crate::health::{Discard, Input, Output, Sample, SampleKind, SampleOutcome};
use crate::model::PathSpec;

impl Service {
    /// Takes each sample that counts, the oldest first; says of each whether health has used it.
    ///
    /// # Errors
    /// The agent is shutting down.
    pub async fn samples(&self, samples: Vec<SampleReport>) -> Result<Vec<SampleVerdict>, ServiceError> {
        let agency = self.agency()?;
        let now = agency.links.clock.now().mono;
        let mut verdicts: Vec<Result<(), String>> = Vec::with_capacity(samples.len());
        let mut found = Vec::new();
        for (at, report) in samples.iter().enumerate() {
            let sample = agency.sample(now, report);
            verdicts.push(sample.as_ref().map(|_| ()).map_err(Clone::clone));
            found.extend(sample.ok().map(|(path, sample)| (at, path, sample)));
        }
        // Those that ended just now come last.
        found.sort_by_key(|(_, _, sample)| sample.taken.unwrap_or(Mono(u64::MAX)));
        for (at, path, sample) in found {
            if let Some(verdict) = verdicts.get_mut(at) {
                *verdict = agency.take(&path, sample).await;
            }
        }
        let verdict = |verdict: Result<(), String>| SampleVerdict { accepted: verdict.is_ok(), reason: verdict.err() };
        Ok(verdicts.into_iter().map(verdict).collect())
    }
}

impl Agency {
    /// What a report says, and of which path.
    fn sample(&self, now: Mono, report: &SampleReport) -> Result<(PathSpec, Sample), String> {
        if let Some(source) = report.source.as_ref().filter(|source| **source != self.node) {
            return Err(format!(
                "source: found {source}, allowed {}: a node takes samples of its own paths",
                self.node
            ));
        }
        let paths = self.paths.borrow().clone();
        let meets = |path: &&PathSpec| {
            path.id.destination == report.destination && report.rail.as_ref().is_none_or(|rail| path.id.rail == *rail)
        };
        let path = paths.iter().find(meets).ok_or_else(|| match &report.rail {
            Some(rail) => format!("rail: no path to {} on rail {rail}", report.destination),
            None => format!("destination: no path to {}", report.destination),
        })?;
        let outcome = match report.outcome {
            ReportedOutcome::Ok => SampleOutcome::Ok,
            ReportedOutcome::Timeout => SampleOutcome::Lost,
            ReportedOutcome::Error => SampleOutcome::Failed,
            ReportedOutcome::Cancelled => {
                return Err("outcome: a cancelled request says nothing about its path".to_owned());
            }
        };
        let age_ns = |age_ms: u64| age_ms.saturating_mul(1_000_000);
        let sample = Sample {
            path: path.id.clone(),
            kind: SampleKind::Reported,
            outcome,
            elapsed_ms: report.duration_ms,
            // What never arrived explains no time on the wire.
            bytes: if outcome == SampleOutcome::Ok { report.bytes } else { 0 },
            attempted_bytes: report.bytes,
            inflight_bytes: report.inflight_bytes.unwrap_or(0),
            // Not known; health asks only its own samples whether this host is late.
            late_ms: 0.0,
            // What ended just now is as new as the turn that takes it, and no probe comes between.
            taken: report.age_ms.filter(|age_ms| *age_ms > 0).map(|age_ms| Mono(now.0.saturating_sub(age_ns(age_ms)))),
        };
        Ok((path.clone(), sample))
    }

    /// Health's word on one sample.
    async fn take(&self, path: &PathSpec, sample: Sample) -> Result<(), String> {
        let health = self.links.health.get().ok_or("the agent is shutting down")?;
        let (duration_ms, bytes) = (sample.elapsed_ms, sample.attempted_bytes);
        let discard = |said: &[Output]| {
            said.iter().find_map(|output| match output {
                Output::Discarded { reason, .. } => Some(*reason),
                Output::Report(_)
                | Output::Transition { .. }
                | Output::Gone(_)
                | Output::Refused(_)
                | Output::Canary(_)
                | Output::Frozen(_) => None,
            })
        };
        let heard = health.hear(Input::Sample(sample), discard).await.map_err(|full| {
            self.links.metrics.dropped("health");
            format!("{} samples are waiting already", full.limit)
        })?;
        match heard.ok_or("the agent is shutting down")? {
            None => {
                self.links.path_used(&path.id);
                Ok(())
            }
            Some(discard) => Err(why(discard, duration_ms, bytes, path.bandwidth_gbps)),
        }
    }
}

/// Which field of a report health did not take, and why.
fn why(discard: Discard, duration_ms: f64, bytes: u64, gbps: f64) -> String {
    match discard {
        Discard::Invalid => format!("duration_ms: found {duration_ms}, allowed a finite number of at least 0"),
        Discard::Implausible => format!(
            "duration_ms: {discard}: found {duration_ms} for {bytes} bytes on a rail of {gbps} Gb/s, allowed at \
             least half of what the wire takes and at most a day"
        ),
        Discard::Reordered => {
            format!("age_ms: {discard}: older than what is known of its path already, or than a minute")
        }
        Discard::EarlierLife => format!("age_ms: {discard}: it began before its path was there"),
        Discard::Late | Discard::Frozen => {
            format!("{discard}: this host itself is late most of the time, send it again later")
        }
        Discard::UnknownPath | Discard::TooManyPaths => format!("destination: {discard}"),
    }
}
