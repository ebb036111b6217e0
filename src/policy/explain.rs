//! A decision in words: what was decided and why, and of every candidate the numbers compared.

use std::cmp::Ordering;
use std::fmt::Write as _;

use super::record::{CandidateRecord, DecisionRecord};
use super::round::round4;
use super::select::{SelectionPolicy, Skipped};
use crate::model::{Blame, Mode, Outcome, PathId, PathState, Profile, Reason, Workload};

/// No line is longer, in characters.
pub const MAX_COLUMNS: usize = 100;

/// Says `record` in words, line by line, each at most [`MAX_COLUMNS`] wide.
#[must_use]
pub fn explain(record: &DecisionRecord) -> String {
    let mut page = Page::default();
    page.line(0, &headline(record));
    page.line(2, &conclusion(record));
    page.line(2, &demand(&record.workload));
    if let Some(policy) = record.candidates.iter().find_map(|candidate| candidate.selection_policy) {
        page.line(2, ranking(record.profile, policy));
    }
    if let Some(lease) = &record.lease {
        page.line(2, &format!("lease {} for {} bytes, {} ms to deliver", lease.id, lease.kv_bytes, lease.ttl_ms));
    }
    if record.attempt > 1 {
        let earlier = record.parent.as_ref().map_or_else(String::new, |parent| format!(", after decision {parent}"));
        page.line(2, &format!("attempt {}{earlier}", record.attempt));
    }
    match record.candidates.len() {
        0 => page.line(0, "no candidates: no path leads to any decode host that fits"),
        1 => page.line(0, "1 candidate:"),
        many => page.line(0, &format!("{many} candidates:")),
    }
    for candidate in &record.candidates {
        page.line(2, &verdict(record, candidate));
        page.line(6, &evidence(candidate));
    }
    page.text
}

/// What `record` says of the candidate on `path`, on one line; none if there is no such candidate.
#[must_use]
pub fn explain_candidate(record: &DecisionRecord, path: &PathId) -> Option<String> {
    let on_path = |candidate: &&CandidateRecord| candidate.target.path.as_ref() == Some(path);
    record.candidates.iter().find(on_path).map(|candidate| verdict(record, candidate))
}

fn headline(record: &DecisionRecord) -> String {
    let request = record.request_id.as_ref().map_or_else(String::new, |id| format!(", request {id}"));
    let node = record.node.as_ref().map_or_else(String::new, |node| format!(" by {node}"));
    let mode = match record.mode {
        Mode::Enforce => "",
        Mode::Advise => ", as advice",
        Mode::Observe => ", observed only",
    };
    format!(
        "decision {}{node}{request}: {} ({}, policy {}, profile {}{mode})",
        record.id, record.outcome, record.workload.name, record.policy, record.profile
    )
}

fn conclusion(record: &DecisionRecord) -> String {
    let Some(chosen) = record.candidates.iter().find(|candidate| candidate.chosen) else {
        return match record.candidates.len() {
            0 => "nothing was chosen: there was nothing to choose from".to_owned(),
            many => format!("nothing was chosen: none of {many} may carry {}", record.workload.name),
        };
    };
    let name = name(record, chosen);
    let why = match record.outcome {
        Outcome::Admitted => "it is healthy, and no admissible one is healthier".to_owned(),
        Outcome::AdmittedDespiteDegradation if chosen.path_state == PathState::Healthy => {
            format!("no path has fresh telemetry, and {} goes on without", record.workload.name)
        }
        Outcome::AdmittedDespiteDegradation => {
            format!(
                "it is {}, {} bears that, and no admissible one is healthier",
                chosen.path_state, record.workload.name
            )
        }
        Outcome::ReroutedToAlternate => rerouted(record, chosen),
        Outcome::AdmittedLeastBad => "nothing was admissible, and it is the least bad".to_owned(),
        Outcome::NoAdmissiblePool => "although nothing was admissible".to_owned(),
    };
    format!("{name} was chosen: {why}")
}

fn rerouted(record: &DecisionRecord, chosen: &CandidateRecord) -> String {
    let wellness = |candidate: &CandidateRecord| {
        [candidate.path_state.severity(), round4(candidate.gfs), candidate.capacity.utilization]
    };
    let admissible = record.candidates.iter().filter(|candidate| candidate.admissible);
    let healthiest =
        admissible.min_by(|left, right| wellness(left).partial_cmp(&wellness(right)).unwrap_or(Ordering::Equal));
    match healthiest {
        Some(healthiest) if !healthiest.chosen => {
            let behind = healthiest
                .skipped_reason
                .map_or_else(String::new, |skipped| format!(": {}", worse(skipped, healthiest, Some(chosen))));
            format!("{} is the healthiest, but ranks behind it{behind}", name(record, healthiest))
        }
        _ => "another is healthier, but ranks behind it".to_owned(),
    }
}

fn demand(workload: &Workload) -> String {
    let effective = workload.effective_criticality();
    let raised = if effective > workload.criticality { format!(" (counts as {effective:.2})") } else { String::new() };
    let mut text = format!(
        "{}: criticality {:.2}{raised}, p99 at most {} ms, jitter tolerance {:.2}",
        workload.name, workload.criticality, workload.latency_sla_ms, workload.jitter_tolerance
    );
    if workload.is_release_path {
        text.push_str(", release path");
    }
    if workload.is_prefill_decode_strict {
        text.push_str(", prefill/decode strict");
    }
    text
}

fn ranking(profile: Profile, policy: SelectionPolicy) -> &'static str {
    match (profile, policy) {
        (Profile::Mesh, SelectionPolicy::HeadroomFirst) => {
            "ranked headroom_first: spare healthy paths, then soft limit, load, token time, state, gfs band, tie"
        }
        (Profile::Mesh, SelectionPolicy::HealthFirst) => {
            "ranked health_first: state, then gfs band, token time, soft limit, load, tie"
        }
        (Profile::Mesh, SelectionPolicy::Balanced) => {
            "ranked balanced: soft limit, then state, token time, load, gfs band, tie"
        }
        (Profile::Reference, SelectionPolicy::HeadroomFirst) => {
            "ranked headroom_first: spare healthy paths, then soft limit, utilization, state, gfs, sessions left"
        }
        (Profile::Reference, SelectionPolicy::HealthFirst) => {
            "ranked health_first: state, then gfs, soft limit, utilization, sessions left"
        }
        (Profile::Reference, SelectionPolicy::Balanced) => {
            "ranked balanced: soft limit, then state, utilization, gfs, sessions left"
        }
    }
}

fn verdict(record: &DecisionRecord, candidate: &CandidateRecord) -> String {
    let name = name(record, candidate);
    if candidate.chosen {
        format!("{name}: chosen, {}{}", candidate.code, borne(record, candidate))
    } else if candidate.admissible {
        let behind = candidate.skipped_reason.map_or_else(String::new, |skipped| {
            let best = record.candidates.iter().find(|candidate| candidate.chosen);
            format!(": {}", worse(skipped, candidate, best))
        });
        format!("{name}: admissible, not chosen{behind}")
    } else {
        match &candidate.detail {
            Some(detail) => format!("{name}: refused, {detail}"),
            None => format!("{name}: refused, {}", refusal(record, candidate)),
        }
    }
}

fn borne(record: &DecisionRecord, candidate: &CandidateRecord) -> String {
    match (candidate.observed, candidate.limit) {
        (Some(observed), Some(limit))
            if candidate.code == Reason::AdmittedDespiteDegradation && candidate.path_state == PathState::Healthy =>
        {
            format!(": criticality {observed:.2} of {} ≤ {limit:.2} that needs no telemetry", record.workload.name)
        }
        (Some(observed), Some(limit)) if candidate.code == Reason::AdmittedDespiteDegradation => format!(
            ": criticality {observed:.2} of {} ≤ {limit:.2} that {} carries",
            record.workload.name, candidate.path_state
        ),
        _ => String::new(),
    }
}

/// What the candidate was worse in than `best`, with both numbers.
fn worse(skipped: Skipped, candidate: &CandidateRecord, best: Option<&CandidateRecord>) -> String {
    let Some(best) = best else { return skipped.to_string() };
    match skipped {
        Skipped::HealthySpared => format!("it is healthy, and is spared while {} will do", best.path_state),
        Skipped::SoftSaturated => format!(
            "soft saturated, {} active ≥ soft limit {}",
            candidate.capacity.active_sessions, candidate.capacity.soft_limit
        ),
        Skipped::HigherUtilization => {
            format!("utilization {:.4} > {:.4}", candidate.capacity.utilization, best.capacity.utilization)
        }
        Skipped::HigherSeverity => format!(
            "state {} (severity {:.2}) > {} ({:.2})",
            candidate.path_state,
            candidate.path_state.severity(),
            best.path_state,
            best.path_state.severity()
        ),
        Skipped::HigherGfs => format!("gfs {:.4} > {:.4}", candidate.gfs, best.gfs),
        Skipped::FewerRemaining => {
            format!("{} sessions left < {}", candidate.capacity.remaining, best.capacity.remaining)
        }
        Skipped::LastResort => format!("it is {}, and taken only for want of better", candidate.path_state),
        Skipped::SlowerTokens => "its tokens take longer than is usual in its pool".to_owned(),
        Skipped::SlowerQuote => match (candidate.predicted_ms, best.predicted_ms) {
            (Some(this), Some(that)) => format!("its quote promised {this:.2} ms > {that:.2} ms"),
            _ => "its quote promised a later end".to_owned(),
        },
        Skipped::LaterBackend => "as good as the chosen one, whose backend is configured first".to_owned(),
        Skipped::TieHash => "as good as the chosen one, and the tie fell to that".to_owned(),
        Skipped::LaterInList => "as good as the chosen one, and later in the list".to_owned(),
    }
}

fn refusal(record: &DecisionRecord, candidate: &CandidateRecord) -> String {
    let class = &record.workload.name;
    let (Some(observed), Some(limit)) = (candidate.observed, candidate.limit) else {
        return in_words(candidate.code).to_owned();
    };
    match candidate.code {
        Reason::RejectedCapacity if observed < limit => format!("{observed} KV bytes free < {limit} asked for"),
        Reason::RejectedCapacity => format!("full: {observed} active ≥ {limit} that fit"),
        Reason::RejectedPoolState => {
            format!("state {} carries nothing, severity {observed:.2} > {limit:.2}", candidate.path_state)
        }
        Reason::RejectedPrsTooHigh => format!("propagation risk {observed:.4} > {limit:.4}"),
        Reason::RejectedLatencySlaViolation => format!("p99 {observed:.2} ms > {limit:.2} ms that {class} bears"),
        Reason::RejectedJitterIntolerance => format!("jitter {observed:.2} ms > {limit:.2} ms that {class} bears"),
        Reason::RejectedCriticalityTooHighForState => {
            format!("criticality {observed:.2} of {class} > {limit:.2} that {} carries", candidate.path_state)
        }
        Reason::RejectedUnproven => format!("{observed} fresh samples < {limit} that prove a path"),
        Reason::RejectedStale => format!("silent for {observed} ms > {limit} ms"),
        Reason::RejectedBandwidth => {
            format!("{:.0} % of its bandwidth < {:.0} %", observed * 100.0, limit * 100.0)
        }
        Reason::RejectedTransferBudget => format!("predicted {observed:.2} ms > {limit:.2} ms left to transfer"),
        Reason::Admitted
        | Reason::AdmittedDespiteDegradation
        | Reason::ReroutedToAlternate
        | Reason::NoAdmissiblePool
        | Reason::AdmittedLeastBad
        | Reason::RejectedDraining
        | Reason::RejectedIncompatible
        | Reason::RejectedLeaseRefused
        | Reason::RejectedOverride => {
            format!("{} (observed {observed}, limit {limit})", in_words(candidate.code))
        }
    }
}

fn in_words(code: Reason) -> &'static str {
    match code {
        Reason::Admitted => "admitted",
        Reason::AdmittedDespiteDegradation => "admitted despite its degradation",
        Reason::RejectedPoolState => "its state carries nothing",
        Reason::RejectedPrsTooHigh => "propagation risk too high",
        Reason::RejectedLatencySlaViolation => "p99 latency too high",
        Reason::RejectedJitterIntolerance => "jitter too high",
        Reason::RejectedCriticalityTooHighForState => "too critical for its state",
        Reason::RejectedCapacity => "no room",
        Reason::ReroutedToAlternate => "admitted, though not the healthiest",
        Reason::NoAdmissiblePool => "nothing admissible",
        Reason::AdmittedLeastBad => "the least bad",
        Reason::RejectedUnproven => "too few fresh samples",
        Reason::RejectedStale => "its telemetry went silent",
        Reason::RejectedDraining => "draining",
        Reason::RejectedIncompatible => "another model or compatibility tag",
        Reason::RejectedLeaseRefused => "it granted no lease",
        Reason::RejectedTransferBudget => "too slow for the transfer budget",
        Reason::RejectedOverride => "excluded by an operator's override, or by the caller",
        Reason::RejectedBandwidth => "its bandwidth collapsed",
    }
}

fn evidence(candidate: &CandidateRecord) -> String {
    let mut text = candidate.path_state.to_string();
    if candidate.health.sample_count == 0 {
        text.push_str(", no samples");
    } else {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ", gfs {:.4}, p99 {:.2} ms, jitter {:.2} ms, drops {:.2} % in {} samples",
            candidate.gfs,
            candidate.health.p99_latency_ms,
            candidate.health.jitter_ms,
            candidate.health.mean_drop_rate * 100.0,
            candidate.health.sample_count
        );
    }
    let _ = write!(
        text,
        "; {} of {} sessions; prs {:.4}, fae {:.4}, {} of {} alternates available",
        candidate.capacity.active_sessions,
        candidate.capacity.max_capacity,
        candidate.prs,
        candidate.fae,
        candidate.topology.available_alternates,
        candidate.topology.alternates
    );
    if let Some(predicted_ms) = candidate.predicted_ms {
        let _ = write!(text, "; predicted {predicted_ms:.2} ms");
    }
    if let Some(ratio) = candidate.health.bandwidth_ratio {
        let _ = write!(text, "; bandwidth {:.0} %", ratio * 100.0);
    }
    if candidate.health.failed_bytes > 0 {
        let _ = write!(text, "; a transfer of {} bytes failed", candidate.health.failed_bytes);
    }
    if let Some(blame) = candidate.blame {
        text.push_str(match blame {
            Blame::Source => "; blame on the source, most of whose paths are degraded",
            Blame::Destination => "; blame on the destination, of which most observers complain",
            Blame::Between => "; blame on the path between: others reach both ends well",
        });
    }
    text
}

/// The shortest name that tells the candidate from the others: its host, with the rail where the
/// host has several paths, or its pool where no host is named.
fn name(record: &DecisionRecord, candidate: &CandidateRecord) -> String {
    let target = &candidate.target;
    let Some(node) = &target.node else { return target.pool.to_string() };
    let several = record.candidates.iter().filter(|other| other.target.node.as_ref() == Some(node)).count() > 1;
    match &target.path {
        Some(path) if several => format!("{node}/{}/{}", path.rail, path.backend),
        _ => node.to_string(),
    }
}

/// Lines, wrapped between words; what follows on hangs below the first word's indent.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, indent: usize, words: &str) {
        let mut column = self.start(indent);
        for (index, word) in words.split(' ').enumerate() {
            let length = word.chars().count();
            if index > 0 {
                if column + 1 + length > MAX_COLUMNS {
                    self.text.push('\n');
                    column = self.start(indent + 4);
                } else {
                    self.text.push(' ');
                    column += 1;
                }
            }
            // No name is split unless it is wider than a line.
            for letter in word.chars() {
                if column >= MAX_COLUMNS {
                    self.text.push('\n');
                    column = self.start(indent + 4);
                }
                self.text.push(letter);
                column += 1;
            }
        }
        self.text.push('\n');
    }

    fn start(&mut self, indent: usize) -> usize {
        self.text.extend(std::iter::repeat_n(' ', indent));
        indent
    }
}
