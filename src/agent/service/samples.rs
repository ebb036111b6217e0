//! Samples that engines report of transfers that they made themselves.

use super::{Agency, Service, ServiceError};
use crate::agent::settings;
use crate::api::{ReportedOutcome, SampleReport, SampleVerdict};
use crate::core::Mono;
use crate::health::{self, Sample, SampleKind, SampleOutcome};

impl Service {
    /// Takes each sample that counts; says of each whether it does.
    ///
    /// # Errors
    /// The agent is shutting down.
    pub async fn samples(&self, samples: Vec<SampleReport>) -> Result<Vec<SampleVerdict>, ServiceError> {
        let agency = self.agency()?;
        Ok(samples.into_iter().map(|report| agency.verdict(report)).collect())
    }
}

impl Agency {
    fn verdict(&self, report: SampleReport) -> SampleVerdict {
        match self.take(report) {
            Ok(()) => SampleVerdict { accepted: true, reason: None },
            Err(reason) => SampleVerdict { accepted: false, reason: Some(reason) },
        }
    }

    fn take(&self, report: SampleReport) -> Result<(), String> {
        if let Some(source) = report.source.as_ref().filter(|source| **source != self.node) {
            return Err(format!(
                "source: found {source}, allowed {}: a node takes samples of its own paths",
                self.node
            ));
        }
        let paths = self.paths.borrow().clone();
        let meets = |path: &&crate::model::PathSpec| {
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
        let age_ns = report.age_ms.unwrap_or(0).saturating_mul(1_000_000);
        let sample = Sample {
            path: path.id.clone(),
            kind: SampleKind::Reported,
            outcome,
            elapsed_ms: report.duration_ms,
            // What never arrived explains no time on the wire.
            bytes: if outcome == SampleOutcome::Ok { report.bytes } else { 0 },
            attempted_bytes: report.bytes,
            inflight_bytes: report.inflight_bytes.unwrap_or(0),
            late_ms: 0.0,
            taken: Some(Mono(self.links.clock.now().mono.0.saturating_sub(age_ns))),
        };
        let rules = settings::health(&self.config.borrow());
        health::judge(&rules, path.bandwidth_gbps, &sample).map_err(|discard| {
            self.links.metrics.discarded(discard);
            let (duration_ms, gbps) = (report.duration_ms, path.bandwidth_gbps);
            match discard {
                health::Discard::Invalid => {
                    format!("duration_ms: found {duration_ms}, allowed a finite number of at least 0")
                }
                discard => format!(
                    "duration_ms: {discard}: found {duration_ms} for {} bytes on a rail of {gbps} Gb/s, allowed at \
                     least half of what the wire takes and at most a day",
                    report.bytes
                ),
            }
        })?;
        self.links.path_used(&path.id);
        let health = self.links.health.get().ok_or("the agent is shutting down")?;
        health.offer(health::Input::Sample(sample)).map_err(|full| {
            self.links.metrics.dropped("health");
            format!("{} samples are waiting already", full.limit)
        })
    }
}
